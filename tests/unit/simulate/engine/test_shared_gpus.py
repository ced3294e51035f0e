"""Two jobs on a GPU: their speeds at each instant, the bill, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import PoolId
from charterer.domain.money import Money
from charterer.domain.pool import CapacityType
from charterer.tools.simulator.engine.world import PlannerError
from charterer.tools.simulator.model.pairs import PairMember, PairTable
from tests.unit.simulate.scenarios import run
from tests.unit.simulate.shared_jobs import MPS, POOL, JobSpec, Puts, by_name, ends, pairs, shared_scenario, simulate

A, B = JobSpec("a", 100.0), JobSpec("b", 100.0)
HALF = pairs({("a", "b"): (0.5, 0.8)})
P = PoolId("p")


def test_each_of_a_pair_trains_at_its_rate_of_the_table_and_alone_again_at_its_own() -> None:
    """b ends after 100 / 0.8 s; a has done 62.5 s of its work by then, and does the rest alone."""
    assert ends(simulate([A, B], HALF)) == {"j0": pytest.approx(162.5), "j1": pytest.approx(125.0)}


def test_a_job_that_comes_later_slows_the_one_that_is_there_from_then_on() -> None:
    """In 40 s a does 40 s of its work; then both share, for 120 s, in which b does 96 s of its work."""
    found = ends(simulate([A, B._replace(at=40.0)], HALF))
    assert found == {"j0": pytest.approx(160.0), "j1": pytest.approx(164.0)}


def test_a_partner_counts_from_its_first_step_on() -> None:
    """a starts in 30 s, b comes at 60 and starts until 90: a has done 60 s by then, and needs 80 s more beside b."""
    found = ends(simulate([A, B._replace(at=60.0)], HALF, restart_seconds=30.0))
    assert found == {"j0": pytest.approx(170.0), "j1": pytest.approx(206.0)}


def test_the_node_of_a_pair_is_billed_once_and_its_time_is_divided_by_what_the_two_keep() -> None:
    result = simulate([A, B], HALF)
    assert result.spent == Money.parse("163")  # whole seconds
    held = {name: job.pool_gpu_seconds[P] for name, job in by_name(result).items()}
    assert held["j1"] == pytest.approx(125.0 * 0.8 / 1.3)
    assert held["j0"] == pytest.approx(125.0 * 0.5 / 1.3 + 37.5)
    assert result.used_gpu_hours == pytest.approx(result.total_gpu_hours)


def test_while_one_of_a_pair_starts_the_gpus_time_is_the_others_and_while_both_do_it_is_halved() -> None:
    first = simulate([A, B._replace(at=20.0)], HALF, restart_seconds=30.0, until=50.0)
    assert [job.pool_gpu_seconds[P] for job in by_name(first).values()] == [20.0 + 5.0 + 20.0, 5.0]


def test_a_job_on_several_gpus_is_as_slow_as_on_the_worst_of_them() -> None:
    """c shares one GPU with a for 200 s, in which it keeps 0.5, and the other one with b for 125 s, keeping 0.9."""
    table = pairs({("c", "a"): (0.5, 0.5), ("c", "b"): (0.9, 0.8)})
    where = {"j0": [(0, 0)], "j1": [(1, 0)], "j2": [(0, 0), (1, 0)]}
    result = simulate([A, B, JobSpec("c", 150.0, gpus=2)], table, where, nodes=2)
    assert ends(result) == {"j0": pytest.approx(200.0), "j1": pytest.approx(125.0), "j2": pytest.approx(250.0)}
    assert result.spent == Money.parse("500")


def test_the_order_in_which_a_pair_is_put_on_its_gpu_does_not_matter() -> None:
    one, other = simulate([A, B], HALF), simulate([B, A], HALF)
    assert ends(one) == dict(zip(("j0", "j1"), reversed(ends(other).values()), strict=True))


def test_a_job_in_more_passes_is_slower_alone_too() -> None:
    """Both in two passes: a keeps 0.4 beside b until that ends, and 0.9 afterwards."""
    own, other = PairMember("a", 2), PairMember("b", 2)
    table = PairTable(
        {("V100", MPS, own, other): 0.4, ("V100", MPS, other, own): 0.5},
        alone={("V100", own): 0.9, ("V100", other): 0.8},
    )
    found = ends(simulate([A, B], table, passes=2))
    assert found == {"j0": pytest.approx(200.0 + 20.0 / 0.9), "j1": pytest.approx(200.0)}


def test_what_is_lost_with_a_spot_node_is_what_was_done_since_the_last_checkpoint_at_each_speed_in_turn() -> None:
    """a writes a checkpoint at 40 s, in no time. It does 10 s of its work until b comes, and 10 s of it beside b until
    the node vanishes at 70 s. On the next one, both begin again, a with 60 s left, of which it does half beside b.
    """
    lifetimes = iter([70.0, 10_000.0])
    spot = replace(POOL, capacity_type=CapacityType.SPOT, draw_lifetime=lambda _: next(lifetimes))
    given = shared_scenario([A, B._replace(at=50.0)], HALF, pool=spot, checkpoint_seconds=40.0)
    result = run(given, PutsAgain(1, {"j0": [(0, 0)], "j1": [(0, 0)]}))
    assert ends(result) == {"j0": pytest.approx(190.0), "j1": pytest.approx(70 + 120 * 1.0 + 4.0)}


class PutsAgain(Puts):
    """The same, and again on a new machine once the first one was taken back."""

    def machine_lost(self, _: object) -> None:
        self._nodes += 1
        self._gpus = {name: [(1, 0)] for name in self._gpus}
        for job in tuple(self.world.jobs.values()):
            self.job_arrived(job)


@pytest.mark.parametrize(
    ("memory", "fits"), [((9.0, 7.0), True), ((9.0, 7.5), False), ((9.0, None), True)], ids=["fits", "not", "unknown"]
)
def test_memory_decides_what_fits(memory: tuple[float, float | None], fits: bool) -> None:
    known = {PairMember(name): size for name, size in zip("ab", memory, strict=True) if size is not None}
    table = pairs({("a", "b"): (0.5, 0.8)}, memory=known, gpu_memory={"V100": 16.0})
    assert (table.both_kept("V100", MPS, PairMember("b"), PairMember("a")) == (0.8, 0.5)) is fits


def test_a_pair_of_which_one_cannot_run_does_not_fit() -> None:
    table = pairs({("a", "b"): (0.0, 1.0)})
    assert table.both_kept("V100", MPS, PairMember("b"), PairMember("a")) is None


def test_absent_pairs_keep_what_the_table_s_caller_says() -> None:
    def by_own(key: tuple[str, object, PairMember, PairMember]) -> float:
        return {"a": 0.4, "b": 0.9}[key[2].class_name]

    assert PairTable({}).both_kept("V100", MPS, PairMember("a"), PairMember("b")) is None
    table = PairTable({}, absent=by_own)
    assert table.both_kept("V100", MPS, PairMember("a"), PairMember("b")) == (0.4, 0.9)


@pytest.mark.parametrize(
    ("jobs", "where", "table", "pool", "why"),
    [
        ("abb", None, HALF, POOL, "at 0 s: job j1 was given GPU 0 of 0 beside j0, with which it does not fit"),
        (
            "ab",
            None,
            HALF,
            replace(POOL, sharing=None),
            "job j1 was given GPU 0 of 0 beside j0, with which it does not",
        ),
        ("ab", None, None, POOL, "job j0 was given GPUs .* and the scenario has no table of pairs"),
        ("ab", {"j0": [(0, 0)], "j1": [(0, 1)]}, HALF, POOL, "job j1 was given GPU 1 of 0, which has 1"),
        ("ab", {"j0": [(0, 0), (0, 0)]}, HALF, POOL, "job j0 was given GPUs .* which are not those of its placements"),
    ],
    ids=["pair absent", "pool without sharing", "no table", "no such GPU", "one GPU twice"],
)
def test_what_cannot_share_is_refused(
    jobs: str, where: dict[str, list[tuple[int, int]]] | None, table: PairTable | None, pool: object, why: str
) -> None:
    specs = [JobSpec(kind, 100.0) for kind in (jobs if jobs == "ab" else "aab")]
    with pytest.raises(PlannerError, match=why):
        simulate(specs, table, where, pool=pool)


def test_two_jobs_are_the_most_on_a_gpu() -> None:
    table = PairTable({}, absent=lambda _: 0.9)
    with pytest.raises(PlannerError, match="job j2 was given GPU 0 of 0, where two jobs are"):
        simulate([A, A, A], table)


def test_policies_that_share_nothing_do_the_same_in_a_world_where_they_could() -> None:
    jobs = [JobSpec("a", 300.0 + 10 * number, 40.0 * number) for number in range(8)]
    start = replace(POOL, start_seconds=60.0)
    one, other = (run(shared_scenario(jobs, table, start)) for table in (None, PairTable({}, absent=lambda _: 0.9)))
    assert one == other
    assert one.counts.machines > 1
