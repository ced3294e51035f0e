"""The rules of schedulers of a fixed number of GPUs, on cases that are worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from charterer.tools.simulator.model.pairs import PairMember, PairTable
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.policies.queues import Pairing
from charterer.tools.simulator.policy_registry import PolicyChoice, simulate_scenario
from tests.unit.simulate.shared_jobs import MPS, POOL, JobSpec, by_name, ends, pairs, shared_scenario


def simulate(
    order: str, jobs: Sequence[JobSpec], table: PairTable | None = None, gpus: int = 1, **changes: Any
) -> SimulationResult:
    """The jobs on so many nodes of one GPU, which two jobs may share."""
    return simulate_scenario(shared_scenario(jobs, table, **changes), PolicyChoice(f"fixed:{gpus}:{order}"))


def constant(kept: float) -> PairTable:
    return PairTable({}, absent=lambda _: kept)


# --- no sharing -------------------------------------------------------------------------------------------------------


def test_shortest_first_is_by_seconds_and_stops_nobody() -> None:
    jobs = [JobSpec("a", 300.0), JobSpec("a", 200.0, 1.0), JobSpec("a", 100.0, 2.0)]
    assert ends(simulate("shortest", jobs)) == {"j0": 300.0, "j2": 400.0, "j1": 600.0}


def test_least_attained_service_stops_a_job_that_has_had_an_hour_of_gpu_time_for_one_that_has_not() -> None:
    """j1 comes at 3,000 s, and j0 has had its hour at 3,600 s, when a round is due. Each start takes 30 s."""
    result = simulate("las", [JobSpec("a", 5000.0), JobSpec("a", 100.0, 3000.0)], restart_seconds=30.0)
    assert ends(result) == {"j0": pytest.approx(3730 + 30 + (5000 - 3570)), "j1": pytest.approx(3730.0)}
    assert by_name(result)["j0"].restarts == 1


def test_least_attained_service_is_first_come_first_served_among_those_that_have_had_less() -> None:
    jobs = [JobSpec("a", 900.0), JobSpec("a", 800.0, 1.0), JobSpec("a", 100.0, 2.0)]
    result = simulate("las", jobs)
    assert ends(result) == {"j0": 900.0, "j1": 1700.0, "j2": 1800.0}
    assert result.restarts == 0


def test_least_attained_service_counts_each_gpu_of_a_job() -> None:
    """j0 has had its hour at 1,800 s; the first round after that is at 1,840 s."""
    jobs = [JobSpec("a", 3000.0, gpus=2), JobSpec("a", 100.0, 1000.0)]
    assert ends(simulate("las", jobs, gpus=2)) == {"j0": pytest.approx(3100.0), "j1": 1940.0}


def test_shortest_remaining_time_stops_a_job_for_one_with_less_left_and_only_for_that() -> None:
    """At 60 s, when a round is due, j0 has 940 s left, more than j1 and less than j2."""
    result = simulate("srtf", [JobSpec("a", 1000.0), JobSpec("a", 100.0, 50.0), JobSpec("a", 1050.0, 60.0)])
    assert ends(result) == {"j0": 1100.0, "j1": 160.0, "j2": 2150.0}
    assert result.restarts == 1


def test_nobody_is_stopped_while_gpus_are_free() -> None:
    result = simulate("srtf", [JobSpec("a", 1000.0), JobSpec("a", 100.0, 70.0)], gpus=2)
    assert ends(result) == {"j0": 1000.0, "j1": 170.0}


def test_the_job_that_comes_last_is_stopped_and_no_other() -> None:
    """Two GPUs are j0's, the longest, and one is j1's; j2 needs one of them."""
    jobs = [JobSpec("a", 1000.0, gpus=2), JobSpec("a", 500.0), JobSpec("a", 100.0, 70.0)]
    found = by_name(simulate("srtf", jobs, gpus=3))
    assert {name: job.restarts for name, job in found.items()} == {"j0": 1, "j1": 0, "j2": 0}
    assert found["j2"].finished == 170.0
    assert found["j0"].finished == 1100.0


def test_a_job_that_finds_no_node_stops_nobody_in_vain() -> None:
    """Two nodes of four GPUs: j0 and j1 have three of each, and j3 one of the first. j2 comes before j3 and needs two
    of one node, which it would not find without j3.
    """
    jobs = [JobSpec("a", 200.0, gpus=3), JobSpec("a", 200.0, gpus=3), JobSpec("a", 250.0, 10.0, 2), JobSpec("a", 900.0)]
    found = by_name(simulate("srtf", jobs, gpus=2, pool=replace(POOL, gpus_per_node=4)))
    assert found["j3"].restarts == 0
    assert found["j2"].started == 200.0


# --- sharing ----------------------------------------------------------------------------------------------------------

HOST, GUEST = JobSpec("a", 100.0), JobSpec("b", 100.0, 10.0)


@pytest.mark.parametrize("kept", [0.9, 0.3])
def test_first_fit_shares_whatever_it_costs(kept: float) -> None:
    """j0 has 90 s left when j1 comes; then j1 has done as much, and ends alone."""
    found = ends(simulate("sjf-ffs", [HOST, GUEST], constant(kept)))
    assert found == {"j0": pytest.approx(10 + 90 / kept), "j1": pytest.approx(10 + 90 / kept + 10)}


def test_best_benefit_shares_where_both_end_earlier_on_average() -> None:
    """Together at 0.7 of their speeds they end after 128.6 and 138.6 s, in turn after 90 and 190 s (140 on average)."""
    found = ends(simulate("sjf-bsbf", [HOST, GUEST], constant(0.7)))
    assert found == {"j0": pytest.approx(10 + 90 / 0.7), "j1": pytest.approx(10 + 90 / 0.7 + 10)}


def test_best_benefit_waits_where_they_do_not() -> None:
    """At 0.65 of their speeds they would end after 138.5 and 148.5 s."""
    assert ends(simulate("sjf-bsbf", [HOST, GUEST], constant(0.65))) == {"j0": 100.0, "j1": 200.0}


def test_best_benefit_takes_the_partner_of_the_greatest_benefit() -> None:
    """c keeps more beside b than beside a, and slows it less; first fit takes the first node."""
    table = pairs({("c", "a"): (0.7, 0.8), ("c", "b"): (0.9, 0.9), ("a", "b"): (0.5, 0.5)})
    jobs = [JobSpec("a", 100.0), JobSpec("b", 100.0), JobSpec("c", 50.0, 10.0)]
    best = ends(simulate("sjf-bsbf", jobs, table, gpus=2))
    assert best["j0"] == 100.0
    assert best["j2"] == pytest.approx(10 + 50 / 0.9)
    first = ends(simulate("sjf-ffs", jobs, table, gpus=2))
    assert first["j1"] == 100.0
    assert first["j2"] == pytest.approx(10 + 50 / 0.7)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("order", ["sjf-ffs", "sjf-bsbf"])
def test_free_gpus_come_before_shared_ones_and_a_wide_job_fills_up_with_these(order: str, size: int) -> None:
    """j1 needs two GPUs, and one of two is free. j2 then finds one job on that one, and two on the other."""
    jobs = [JobSpec("a", 100.0), JobSpec("b", 90.0, 10.0, gpus=2), JobSpec("b", 200.0, 20.0)]
    given = replace(POOL, gpus_per_node=size)
    found = by_name(simulate(order, jobs, constant(0.9), gpus=2 // size, pool=given))
    assert (found["j1"].started, found["j2"].started) == (10.0, 20.0)
    assert found["j0"].finished == found["j1"].finished == pytest.approx(110.0)


@pytest.mark.parametrize("order", ["sjf-ffs", "sjf-bsbf"])
def test_a_third_job_waits_for_the_first_end_and_then_shares(order: str) -> None:
    found = by_name(simulate(order, [HOST, GUEST, GUEST._replace(at=20.0)], constant(0.9)))
    assert found["j2"].started == found["j0"].finished == pytest.approx(110.0)
    assert found["j1"].finished == pytest.approx(10 + 100 / 0.9)


@pytest.mark.parametrize("order", ["sjf-ffs", "sjf-bsbf"])
def test_pairs_that_do_not_fit_wait(order: str) -> None:
    assert ends(simulate(order, [HOST, GUEST], constant(0.0))) == {"j0": 100.0, "j1": 200.0}


def sub_batches(whole: float) -> PairTable:
    """b beside a: in one pass both keep ``whole``; in two passes 0.8, and b alone too."""
    host, guest, small = PairMember("a"), PairMember("b"), PairMember("b", 2)
    kept = {(host, guest): whole, (guest, host): whole, (host, small): 0.8, (small, host): 0.8}
    rows = {("V100", MPS, own, other): part for (own, other), part in kept.items()}
    return PairTable(rows, alone={("V100", small): 0.8})


def test_a_job_does_its_steps_in_two_passes_where_memory_forces_it() -> None:
    found = ends(simulate("sjf-bsbf", [HOST, GUEST], sub_batches(0.0)))
    assert found == {"j0": pytest.approx(10 + 90 / 0.8), "j1": pytest.approx(10 + 100 / 0.8)}


def test_a_job_that_fits_does_not_do_its_steps_in_two_passes() -> None:
    """In one pass sharing does not pay; in two it would, but then memory does not force it."""
    assert ends(simulate("sjf-bsbf", [HOST, GUEST], sub_batches(0.5))) == {"j0": 100.0, "j1": 200.0}


def test_jobs_of_less_than_a_node_share_gpus_of_one_node() -> None:
    """j2 finds a free GPU on the second node only, so it shares two GPUs of the first one, or one there."""
    pool = replace(POOL, gpus_per_node=2)
    jobs = [JobSpec("a", 100.0, gpus=2), JobSpec("a", 100.0), JobSpec("b", 90.0, 10.0, gpus=2)]
    found = by_name(simulate("sjf-ffs", jobs, constant(0.9), gpus=2, pool=pool))
    assert found["j2"].started == 10.0
    assert found["j0"].finished == 100.0
    assert found["j1"].finished == pytest.approx(10 + 90 / 0.9)


def test_the_two_means_of_a_pair() -> None:
    """The newcomer ends after 40 / 0.8 = 50 s; the other has 100 - 50 * 0.6 = 70 s left, at 0.5 of its speed alone."""
    pairing = Pairing(seconds_left=(40.0, 100.0), kept=(0.8, 0.6), alone=(1.0, 0.5))
    assert pairing.mean_together == pytest.approx((50 + 190) / 2)
    assert pairing.mean_in_turn == pytest.approx((200 + 240) / 2)
