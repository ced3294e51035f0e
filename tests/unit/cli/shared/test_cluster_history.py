"""The cluster's own past: what becomes a history, what does not, and that it is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.api.node_demands import node_demands
from charterer.controller.snapshot.offline import OtherJobs
from charterer.domain.budget import ClassHistory
from charterer.domain.ids import ClassId
from charterer.domain.job import FinishKind, ResizePolicy
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Amdahl, Phase, SpeedCurve, ThroughputTable
from charterer.domain.time import after
from charterer.tools.commands.shared.cluster_history import ClusterHistory, JobFilter, cluster_history
from charterer.tools.simulator.history.history import PastJob
from tests.unit.cli.histories import HOUR, ended, foreign, halfway, worker
from tests.worlds import NAMESPACE, World


def world() -> World:
    made = World()
    made.budget()
    made.pool(gpus=8, price="16")
    made.profile("sft", ThroughputTable(((1, 1.0), (4, 3.0), (8, 5.0), (16, 8.0))), restart_seconds=60.0)
    return made


def past(made: World, others: OtherJobs | None = None, **choosing: Any) -> ClusterHistory:
    payers = {NAMESPACE: next(iter(made.budgets.values()))}
    return cluster_history(made.snapshot(), others or OtherJobs(), payers, JobFilter(**choosing))


def jobs(found: ClusterHistory) -> dict[str, PastJob]:
    return {} if found.history is None else {job.name: job for job in found.history.jobs}


def test_a_finished_job_has_its_work_at_the_width_asked_for() -> None:
    made = world()
    ended(made, "one", hours_ago=5, hours=2, gpus=16, speed=8.0, profile="sft")
    job = jobs(past(made))[f"{NAMESPACE}/one"]
    work = (2 * HOUR - 60.0) * 8.0
    assert job.gpus == 8
    assert job.seconds == pytest.approx(work / 5.0)
    assert (job.kind, job.least, job.most, job.resize) == (f"{NAMESPACE}/sft", 1, 16, ResizePolicy.RESTART)
    assert job.took == pytest.approx(2 * HOUR + 600.0)


def test_a_running_job_is_as_long_as_its_progress_says() -> None:
    made = world()
    halfway(made, "half", hours=3, speed=5.0, profile="sft")
    found = past(made)
    assert jobs(found)[f"{NAMESPACE}/half"].seconds == pytest.approx(2 * (3 * HOUR - 60.0))
    assert jobs(found)[f"{NAMESPACE}/half"].took is None
    assert (1, "TrainingJobs that still run: taken to be as long as their progress says") in found.gaps


def test_a_job_without_a_curve_keeps_its_width_and_that_is_said() -> None:
    made = world()
    ended(made, "one", hours_ago=5, hours=2)
    found = past(made)
    job = jobs(found)[f"{NAMESPACE}/one"]
    assert (job.kind, job.least, job.gpus, job.most) == ("", 8, 8, 8)
    assert job.seconds == pytest.approx(2 * HOUR - 30.0)
    assert (1, "jobs without a known curve: they run only at the width that was asked for") in found.gaps


def test_a_foreign_job_trains_from_when_its_last_pod_started() -> None:
    made = world()
    job = foreign(made, "theirs", hours_ago=4, hours=2, gpus=4, profile="sft")
    found = past(made, OtherJobs((job,), (worker(job, started_after=900.0), worker(job, started_after=60.0))))
    mine = jobs(found)[f"{NAMESPACE}/job/theirs"]
    assert mine.seconds == pytest.approx(2 * HOUR - 900.0 - 60.0)
    assert (mine.kind, mine.least, mine.most, mine.resize) == (f"{NAMESPACE}/sft", 1, 16, ResizePolicy.NEVER)
    assert found.gaps == ()
    gone = past(made, OtherJobs((job,)))
    assert jobs(gone)[f"{NAMESPACE}/job/theirs"].seconds == pytest.approx(2 * HOUR - 60.0)
    assert gone.gaps == ((1, "Jobs whose pods are gone: their wait for nodes counts as training"),)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"failed": after(World().now, 0.0)}, "Jobs that failed: when they would have failed"),
        ({"complete": None}, "Jobs that have not ended: how long they take is not known"),
        ({"part_of": "JobSet"}, "Jobs that are parts of a JobSet: only Jobs that stand alone"),
        ({"gpu_type": "H200"}, "Jobs on H200, which no GPUPool that may be rented at a known price offers"),
        ({"gpus": 4000}, "jobs that asked for more GPUs than GPUPool a100 may have"),
    ],
)
def test_what_cannot_be_simulated_is_left_out_and_said(change: dict[str, Any], told: str) -> None:
    made = world()
    found = past(made, OtherJobs((foreign(made, "theirs", hours_ago=4, hours=2, **change),)))
    assert found.history is None
    assert any(text.startswith(told) for _, text in found.gaps)


def test_failed_and_never_run_training_jobs_and_lost_pools_are_left_out_and_said() -> None:
    made = world()
    ended(made, "failed", hours_ago=5, hours=2, kind=FinishKind.FAILED)
    ended(made, "elsewhere", hours_ago=5, hours=2, pool="gone")
    made.job("waiting")
    found = past(made)
    assert found.history is None
    assert [count for count, _ in found.gaps] == [1, 1, 1]


def test_what_the_ledger_remembers_and_the_cluster_does_not_is_said() -> None:
    made = world()
    budget = made.budgets[next(iter(made.budgets))]
    assert budget.balance is not None
    remembered = ClassHistory(7.0, 1.0, 1.0, 1.0, made.now, made.now)
    balance = replace(budget.balance, class_history={ClassId("a", "b"): remembered})
    made.budgets[budget.id] = replace(budget, balance=balance)
    ended(made, "one", hours_ago=5, hours=2)
    told = "finished TrainingJobs (about) that the ledger remembers and that are gone (ttlSecondsAfterFinished)"
    assert (6, told) in past(made, since=after(made.now, -HOUR)).gaps


def test_a_job_that_ended_before_it_was_made_has_no_time_that_it_took() -> None:
    made = world()
    job = foreign(made, "skewed", hours_ago=4, hours=2)
    found = past(made, OtherJobs((replace(job, created=made.now),)))
    assert jobs(found)[f"{NAMESPACE}/job/skewed"].took is None


def test_only_the_chosen_are_taken() -> None:
    made = world()
    for hours_ago in (50, 5, 4):
        ended(made, f"ago-{hours_ago}", hours_ago=hours_ago, hours=1)
    assert set(jobs(past(made, since=after(made.now, -10 * HOUR)))) == {f"{NAMESPACE}/ago-5", f"{NAMESPACE}/ago-4"}
    assert past(made, namespace="other").history is None
    last = past(made, most=1)
    assert set(jobs(last)) == {f"{NAMESPACE}/ago-4"}
    assert (2, "earlier jobs, left out to save time") in last.gaps


def test_a_pool_starts_as_fast_as_its_rentals_did_once_there_are_some() -> None:
    made = world()
    ended(made, "one", hours_ago=5, hours=2)
    assert past(made).history is not None
    for _ in range(3):
        rental = made.rental()
        made.rentals[rental.id] = replace(rental, ready=after(rental.created, 444.0))
    history = past(made).history
    assert history is not None
    assert history.pools[0].pool.start_seconds == pytest.approx(444.0)


def test_spot_nodes_are_simulated_as_if_nobody_took_them_back_and_that_is_said() -> None:
    made = world()
    made.pool("spot", capacity=CapacityType.SPOT)
    ended(made, "one", hours_ago=5, hours=2, pool="spot")
    assert (1, "jobs on spot nodes: interruptions are not simulated") in past(made).gaps


def test_a_spot_pool_without_a_price_is_left_out_and_said() -> None:
    made = world()
    ended(made, "one", hours_ago=5, hours=2, gpus=16, speed=8.0, profile="sft")
    spot = made.pool("spot", gpus=8, price="5", capacity=CapacityType.SPOT)
    made.pools[spot.id] = replace(spot, quote=None)
    found = past(made)
    assert found.history is not None
    assert {pool.pool.name for pool in found.history.pools} == {"a100"}
    assert (1, "GPUPool spot, of which no price is known: left out; set its spec.price.hourly") in found.gaps


@pytest.mark.parametrize(
    ("asked", "pool", "types", "told"),
    [
        ({"nvidia.com/gpu.product": "T4"}, "t4", ("T4",), ""),
        ({"disk": "fast"}, "t4", ("T4",), "that may use some pools of a GPU type only"),
        ({"karpenter.sh/nodepool": "gpu"}, "a100", (), "that no GPUPool is known to give"),
        ({}, "a100", (), ""),
    ],
)
def test_what_a_template_asks_of_its_nodes_chooses_the_pools_that_are_simulated(
    asked: dict[str, str], pool: str, types: tuple[str, ...], told: str
) -> None:
    made = world()
    made.pool("t4", gpus=4, price="16", gpu_type="T4")
    made.pool("t4-fast", gpus=4, price="20", gpu_type="T4", node_labels={"disk": "fast"})
    job = foreign(made, "one", hours_ago=5, hours=2, gpus=4, demands=node_demands({"spec": {"nodeSelector": asked}}))
    found = past(made, OtherJobs((job,), (worker(job),)))
    assert found.history is not None
    (fleet,) = found.history.pools
    assert fleet.pool.gpu_type == {"t4": "T4"}.get(pool, fleet.pool.gpu_type)
    assert fleet.jobs[0].gpu_types == types
    said = [sentence for _, sentence in found.gaps if told and told in sentence]
    assert bool(said) is bool(told)


def test_formulas_become_tables_and_pools_stay_apart() -> None:
    made = world()
    made.pool("t4", gpus=4, price="2")
    made.profile("amdahl", Amdahl(0.9, 1.0))
    ended(made, "big", hours_ago=5, hours=2, profile="amdahl", speed=3.0)
    ended(made, "small", hours_ago=4, hours=2, gpus=4, widths=(4, 4, 4), pool="t4")
    found = past(made)
    assert found.history is not None
    assert [fleet.pool.name for fleet in found.history.pools] == ["a100", "t4"]
    assert found.history.jobs_with_curve == 1
    assert (2, "groups of GPUPools that no job can have in common: simulated one by one") in found.gaps


def test_a_profile_with_two_gpu_types_lets_its_jobs_use_the_pools_of_both() -> None:
    made = world()
    made.pool("t4", gpus=4, price="2", gpu_type="T4")
    a100, t4 = ThroughputTable(((1, 1.0), (4, 3.0), (8, 5.0))), ThroughputTable(((1, 0.4), (4, 1.3)))
    made.profile("both", a100, restart_seconds=60.0)
    profile = made.profiles[ClassId(NAMESPACE, "both")]
    curves = (*profile.phases[0].curves, SpeedCurve("T4", t4))
    made.profiles[profile.id] = replace(profile, phases=(Phase(1.0, curves),))
    ended(made, "one", hours_ago=5, hours=2, profile="both", speed=5.0)
    found = past(made)
    assert found.history is not None
    ((fleet,), (other,)) = found.history.pools, found.history.others
    assert (fleet.pool.name, other.name) == ("a100", "t4")
    assert fleet.types_of(fleet.jobs[0])[1:] == ("T4",)
    (part,) = found.history.parts
    assert part.others == (other,)
    application = fleet.application(fleet.jobs[0], part.pools)
    ratio = application.seconds_left(0.0, "T4", 4) / application.seconds_left(0.0, fleet.pool.gpu_type, 4)
    assert ratio == pytest.approx(3.0 / 1.3)


def test_a_curve_has_the_widths_of_all_pools_of_its_type() -> None:
    made = world()
    made.pool("small", gpus=3, price="3", gpu_type="a100")
    made.profile("amdahl", Amdahl(0.9, 1.0))
    ended(made, "one", hours_ago=5, hours=2, profile="amdahl", speed=3.0)
    found = past(made)
    assert found.history is not None
    (fleet,), (part,) = found.history.pools, found.history.parts
    application = fleet.application(fleet.jobs[0], part.pools)
    assert [pool.name for pool in part.others] == ["small"]
    assert {3, 6} <= set(application.widths)
