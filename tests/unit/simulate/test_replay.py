"""A history simulated anew: jobs of one class differ in size, unknown ones keep their width, and pools are apart."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from charterer.domain.ids import ClassId, JobId
from charterer.domain.job import ResizePolicy, SpotPolicy, Widths
from charterer.domain.money import Price
from charterer.domain.pool import CapacityType
from charterer.domain.time import Instant
from charterer.tools.simulator.history.history import History, HistoryPart, PastJob, PastPool, joined_curves
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import merge_results, sum_of_steps
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policy_registry import PolicyChoice
from charterer.tools.simulator.replay import ReplayedSizes, dollars_by_job, replay
from tests.unit.simulate.histories import POOL, curve

SFT = (curve({1: 1.0, 2: 1.9, 4: 3.6, 8: 6.4, 16: 11.0}),)
JOBS = (
    PastJob("long", 0.0, 8, 7200.0, "sft", 1, 16, ResizePolicy.RESTART),
    PastJob("short", 60.0, 8, 900.0, "sft", 1, 16, ResizePolicy.RESTART),
    PastJob("odd", 120.0, 4, 600.0),
)
FLEET = PastPool(POOL, JOBS, {"sft": SFT})


def test_as_asked_every_job_takes_what_it_took_and_its_node_and_restart() -> None:
    result = replay(HistoryPart((FLEET,)), PolicyChoice("as-asked")).result
    took = {job.name: job.completion_seconds for job in result.jobs}
    assert took["long"] == pytest.approx(7200.0 + 120.0 + 30.0)
    assert {job.name: job.gpu_seconds for job in result.jobs}["odd"] == pytest.approx(4 * 630.0)


def test_two_phases_take_as_long_as_the_job_did() -> None:
    phases = (curve({1: 1.0, 8: 4.0}, until=0.3), curve({1: 1.0, 8: 7.0}))
    fleet = PastPool(POOL, JOBS[:1], {"sft": phases})
    application = fleet.application(JOBS[0])
    assert application.seconds_left(0.0, POOL.gpu_type, 8) == pytest.approx(7200.0)
    assert application.seconds_left(0.0, POOL.gpu_type, 1) == pytest.approx(7200.0 / (0.3 / 4 + 0.7 / 7))


def test_charterer_widens_what_it_knows_and_leaves_the_unknown_as_it_was() -> None:
    result = replay(HistoryPart((FLEET,)), PolicyChoice("charterer", 1000.0)).result
    took = {job.name: job.completion_seconds for job in result.jobs}
    assert took["long"] == pytest.approx(7200.0 * 6.4 / 11.0 + 150.0, rel=0.02)
    odd = next(job for job in result.jobs if job.name == "odd")
    assert odd.gpu_seconds == pytest.approx(4 * 630.0)


def many() -> PastPool:
    """A job of a known class every hour, and one of which nothing is known."""
    jobs = (PastJob(f"j{at}", 3600.0 * at, 8, 3600.0, "sft", 1, 16, ResizePolicy.RESTART) for at in range(12))
    return PastPool(POOL, (*jobs, JOBS[2]), {"sft": SFT})


def took(choice: PolicyChoice) -> dict[str, float]:
    """Completion times by job."""
    return {job.name: job.completion_seconds or 0.0 for job in replay(HistoryPart((many(),)), choice).result.jobs}


def test_charterer_that_has_to_learn_the_curves_does_so_from_the_first_jobs() -> None:
    known = took(PolicyChoice("charterer", 200.0))
    learned = took(PolicyChoice("charterer", 200.0, random.Random(0).gauss))
    assert learned["j0"] > known["j0"]
    assert [learned[f"j{at}"] for at in range(6, 12)] == pytest.approx(
        [known[f"j{at}"] for at in range(6, 12)], rel=0.1
    )
    assert learned["odd"] == known["odd"]


def test_what_is_learned_from_follows_from_the_seed() -> None:
    one, other = (
        replay(HistoryPart((many(),)), PolicyChoice("charterer", 200.0, random.Random(1).gauss)).result
        for _ in range(2)
    )
    assert one.jobs == other.jobs


@pytest.mark.parametrize(("done", "work"), [(0.0, 4050.0), (0.04, 4050.0), (0.05, 7200.0), (0.5, 7200.0)])
def test_a_jobs_own_size_is_known_once_its_progress_tells_it(done: float, work: float) -> None:
    sizes = ReplayedSizes({job.name: (FLEET, job) for job in JOBS}, {})
    assert sizes.expected_work(sim_job(JOBS[0], done)) == pytest.approx(work * 6.4)
    assert sizes.expected_work(sim_job(JOBS[2], done)) is None


def sim_job(job: PastJob, done: float) -> SimJob:
    submission = Submission(job.name, job.submitted, job.name, job.gpus)
    application = FLEET.application(job)
    return SimJob(JobId(job.name), submission, application, ClassId("team", "any"), Instant(0), 0.0, 0.0, done)


def test_a_job_without_a_curve_is_rigid() -> None:
    assert FLEET.bounds(JOBS[2]) == Widths(4, 4, 4)
    assert FLEET.application(JOBS[2]).widths == (4,)


def test_a_larger_job_of_the_same_class_takes_longer_in_proportion() -> None:
    result = replay(HistoryPart((replace(FLEET, jobs=JOBS[:2]),)), PolicyChoice("charterer", 1000.0)).result
    long, short = (next(job for job in result.jobs if job.name == name) for name in ("long", "short"))
    assert long.completion_seconds is not None
    assert short.completion_seconds is not None
    assert (long.completion_seconds - 150.0) / (short.completion_seconds - 150.0) == pytest.approx(8.0, rel=0.05)


BOTH = joined_curves(SFT, [(curve({1: 0.4, 2: 0.8, 4: 1.5, 8: 2.8, 16: 4.6}, "t4"),)])
CHEAP = PoolModel("t4", 8, Price.parse("2"), "t4", start_seconds=120.0, max_nodes=20)


def test_charterer_chooses_between_types_for_which_the_class_has_a_curve_and_others_stay_where_they_ran() -> None:
    """A T4 does a bit less than half of the work for an eighth of the price."""
    past = PastPool(POOL, JOBS, {"sft": BOTH})
    (part,) = History((past,), (CHEAP,)).parts
    assert part.pools == (POOL, CHEAP)
    saving = replay(part, PolicyChoice("charterer", 0.5)).result
    hurrying = replay(part, PolicyChoice("charterer", 1000.0)).result
    asked = replay(part, PolicyChoice("as-asked")).result
    used = [{pool for job in result.jobs for pool in job.pool_gpu_seconds} for result in (saving, hurrying, asked)]
    assert used == [{"t4", "a100"}, {"a100"}, {"a100"}]
    assert next(job for job in saving.jobs if job.name == "odd").pool_gpu_seconds.keys() == {"a100"}
    assert saving.spent < hurrying.spent


def test_the_pools_of_a_permitted_type_only_and_spot_only_where_it_is_allowed() -> None:
    spot = replace(CHEAP, name="spot", capacity_type=CapacityType.SPOT)
    bound = PastPool(POOL, (replace(JOBS[0], gpu_types=("a100",)),), {"sft": BOTH})
    assert History((bound,), (CHEAP,)).parts == (HistoryPart((bound,)),)
    never = PastPool(POOL, JOBS, {"sft": BOTH})
    assert History((never,), (spot,)).parts[0].others == ()
    allowed = PastPool(POOL, (replace(JOBS[0], spot=SpotPolicy.ALLOWED),), {"sft": BOTH})
    assert History((allowed,), (spot,)).parts[0].others == (spot,)


def test_two_pools_whose_jobs_may_use_a_third_one_are_simulated_together() -> None:
    h100 = PastPool(replace(POOL, name="h100", gpu_type="h100"), (replace(JOBS[2], name="there"),), {})
    assert len(History((FLEET, h100), (CHEAP,)).parts) == 2
    curves = {"sft": joined_curves((curve({1: 2.0, 4: 7.0}, "h100"),), [(curve({1: 0.4, 4: 1.5}, "t4"),)])}
    shares = PastPool(h100.pool, (replace(JOBS[0], name="there", gpus=4, most=4),), curves)
    (part,) = History((PastPool(POOL, JOBS, {"sft": BOTH}), shares), (CHEAP,)).parts
    result = replay(part, PolicyChoice("charterer", 0.5)).result
    assert not result.never_completed
    assert sum(dollars_by_job([replay(part, PolicyChoice("as-asked"))]).values()) > 0.0


@pytest.mark.parametrize("learn", [False, True])
def test_nodes_of_another_size_of_the_same_type_give_widths_that_the_own_pool_cannot(learn: bool) -> None:
    small = replace(POOL, name="small", gpus_per_node=3, hourly=Price.parse("1"))
    jobs = (*(replace(JOBS[0], name=f"j{at}", submitted=3600.0 * at) for at in range(3)), JOBS[2])
    (part,) = History((PastPool(POOL, jobs, {"sft": SFT}),), (small,)).parts
    choice = PolicyChoice("charterer", 20.0, random.Random(0).gauss if learn else None)
    result = replay(part, choice).result
    assert not result.never_completed
    if not learn:
        assert {gpus for job in result.jobs for _, gpus in job.widths} >= {15}


def test_each_jobs_dollars_add_up_to_the_bill_of_all_pools() -> None:
    other = PastPool(replace(POOL, name="h100", hourly=POOL.hourly), (replace(JOBS[2], name="there"),), {})
    parts = [replay(HistoryPart((fleet,)), PolicyChoice("as-asked")) for fleet in (FLEET, other)]
    together = merge_results([part.result for part in parts])
    assert sum(dollars_by_job(parts).values()) == pytest.approx(together.spent.dollars)
    assert len(together.jobs) == 4
    assert together.total_gpu_hours == pytest.approx(sum(part.result.total_gpu_hours for part in parts))
    assert together.rented_nodes[-1][1] == 0


def test_step_functions_add_up() -> None:
    assert sum_of_steps([([(0.0, 2), (5.0, 0)], 8.0), ([(0.0, 1), (3.0, 2)], 4.0)]) == (
        (0.0, 20.0),
        (3.0, 24.0),
        (5.0, 8.0),
    )
