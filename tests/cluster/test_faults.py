"""Faults on a real control plane. Each test ends as all do: nothing rented is left, and the ledger is the bill."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from charterer.cluster.paths import GPU_POOLS as POOLS
from charterer.cluster.paths import NODES, PODS, TRAINING_JOBS
from charterer.controller.outcome import Executor
from charterer.domain.time import parse_instant, seconds_between
from tests.lanes import repeats
from tests.testbed.bed import HASTY, PATIENT, Bed, group
from tests.testbed.controlplane import SILENT_LABEL


async def test_a_lost_answer_to_raising_the_target_rents_nothing_twice(bed: Bed) -> None:
    await bed.fault("lost-answer", 2, method="PUT", path="/v1/groups/*/target")
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    assert await bed.launched() == 1


@pytest.mark.repeats  # test_crash.py, after Terminate; every cloud: tests/contract
async def test_a_lost_answer_to_ending_an_instance_ends_only_that_one(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("one")
    await bed.job("two")
    await bed.running("one", "two")
    await bed.fault("lost-answer", 1, method="DELETE", path="/v1/groups/*/instances/*")
    await bed.finish("one")
    await bed.until(lambda: len(bed.rentals()) == 1)
    assert bed.state("two") == "Running"
    assert await bed.launched() == 2


@pytest.mark.repeats  # test_crash.py, around Cool; its reason: test_azure.py
@pytest.mark.groups(group("cheap", stock=0, hourlyPrice="8.00"), group("dear"))
async def test_a_stock_out_cools_the_pool_and_the_next_one_is_tried(bed: Bed) -> None:
    bed.operator()
    await bed.pool("cheap", cooldownSeconds=60)
    await bed.pool("dear")
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    assert bed.tj("train")["pool"] == "dear"
    cheap = bed.mirror.one(POOLS, "cheap")
    assert bed.condition(cheap, "Ready")["reason"] == "StockOut"


@pytest.mark.groups(group("a100", maxSize=2))
async def test_a_pool_with_more_nodes_than_its_group_takes_uses_those_that_the_group_takes(bed: Bed) -> None:
    bed.operator()
    await bed.pool("a100", maxNodes=50)
    await bed.budget()
    await bed.job("large", 12)
    for name in ("one", "two", "three"):
        await bed.job(name)
    await bed.until(lambda: sum(bed.state(name) == "Running" for name in ("one", "two", "three")) == 2)
    pool = await bed.until(
        lambda: (raw := bed.mirror.one(POOLS, "a100")) and raw["status"].get("state") == "Full" and raw
    )
    assert bed.condition(pool, "Ready")["message"] == "all 2 nodes that its group takes are rented or asked for"
    assert "the group takes 2: lower maxNodes" in bed.condition(pool, "Preflight")["message"]
    assert len(bed.rentals()) == 2
    assert bed.state("large") == "Queued"


async def test_a_job_goes_on_elsewhere_when_its_node_object_is_deleted(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train", readyTimeoutSeconds=5)
    await bed.running("train")
    node = bed.pods("train")[0]["spec"]["nodeName"]
    await bed.kube.delete(NODES.one(node))
    await bed.until(lambda: bed.state("train") == "Running" and bed.run("train") == 2)
    assert bed.tj("train")["runs"][0]["outcome"] == "Interrupted"
    assert bed.tj("train").get("failures", 0) == 0


@pytest.mark.repeats  # test_rules_runs.py, of pods that hang on a silent node
async def test_a_job_goes_on_elsewhere_when_its_node_falls_silent(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    node = bed.pods("train")[0]["spec"]["nodeName"]
    await bed.kube.merge_patch(NODES.one(node), {"metadata": {"labels": {SILENT_LABEL: "true"}}})
    await bed.until(lambda: bed.state("train") == "Running" and bed.run("train") == 2)
    assert bed.tj("train")["runs"][0]["outcome"] == "Interrupted"


@pytest.mark.repeats  # test_rules_runs.py, of a dead machine and of evictions
async def test_an_instance_that_dies_costs_no_try_of_the_job(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train", backoffLimit=0)
    await bed.running("train")
    instance = bed.rentals()[0]["status"]["instance"]
    await bed.cloud.admin("POST", f"/instances/{instance}/kill", {"nodeObject": "silent"})
    await bed.until(lambda: bed.state("train") == "Running" and bed.run("train") == 2)
    assert bed.tj("train")["runs"][0]["outcome"] == "Interrupted"


async def test_a_job_that_fails_by_its_own_bug_is_tried_again_up_to_its_backoff_limit(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("buggy", backoffLimit=1)
    await bed.running("buggy")
    await bed.finish("buggy", exit_code=1)
    await bed.until(lambda: bed.state("buggy") == "Running" and bed.run("buggy") == 2)
    await bed.finish("buggy", exit_code=1)
    await bed.until(lambda: bed.state("buggy") == "Failed")
    assert [run["outcome"] for run in bed.tj("buggy")["runs"]] == ["Failed", "Failed"]


async def test_the_api_server_away_until_the_lead_is_lost_loses_nothing(bed: Bed) -> None:
    operator = bed.operator(lease=HASTY)
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    bed.gate.close()
    await operator.death()
    await bed.finish("train")
    bed.gate.open()
    operator.restart(lease=PATIENT)  # nobody would start it a third time
    await bed.complete("train")
    await bed.given_back()


@pytest.mark.repeats  # the watch: test_watch.py
async def test_a_deletion_that_the_watch_missed_frees_the_nodes(bed: Bed) -> None:
    bed.operator(resync_seconds=2.0)
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    bed.gate.close()
    await bed.delete("TrainingJob", "train")
    await bed.until(lambda: bed.mirror.one(TRAINING_JOBS, "train", bed.namespace) is None)
    bed.gate.open()
    await bed.given_back()


async def test_a_deposed_leader_that_wakes_up_changes_nothing(bed: Bed) -> None:
    old = bed.operator(lease=HASTY)
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    old.freeze()
    new = bed.operator("charterer-1")
    await bed.job("next")
    await bed.running("next")
    old.thaw()
    await old.death()
    assert new.alive
    assert bed.state("train") == "Running"
    assert await bed.launched() == 2


@pytest.mark.groups(group("a100", capacityType="Spot"))
async def test_a_spot_job_moves_away_when_the_cloud_gives_notice(bed: Bed) -> None:
    bed.operator()
    await bed.pool(capacityType="Spot")
    await bed.budget()
    await bed.job("train", spotPolicy="Allowed")
    await bed.running("train")
    instance = bed.rentals()[0]["status"]["instance"]
    await bed.cloud.admin("POST", f"/instances/{instance}/interrupt", {"seconds": 30})
    await bed.until(lambda: bed.state("train") == "Running" and bed.run("train") == 2)


async def test_a_cloud_that_throttles_and_errs_and_lags_is_worked_with(bed: Bed) -> None:
    await bed.cloud.admin("PUT", "/groups/a100", {"listLagSeconds": 1.0})
    for kind in ("throttle", "error", "lost-request"):
        await bed.fault(kind, 3, path="/v1/*")
    bed.operator()
    await bed.pool()
    await bed.budget()
    for name in ("one", "two"):
        await bed.job(name)
    await bed.running("one", "two")
    await bed.finish("one")
    await bed.complete("one")


@pytest.mark.repeats  # tests/unit/lifecycle/test_rental.py; tests/property/lifecycle
async def test_an_empty_list_of_machines_once_ends_no_rental(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    rented = [raw["metadata"]["uid"] for raw in bed.rentals()]
    await bed.fault("empty-list", path="*/instances")
    await bed.job("next")
    await bed.running("next")
    assert (await bed.cloud.admin("GET", "/faults"))["faults"] == []
    assert bed.state("train") == "Running"
    assert bed.run("train") == 1
    assert {raw["metadata"]["uid"] for raw in bed.rentals("Ready")} >= set(rented)
    assert await bed.launched() == 2


@pytest.mark.repeats  # tests/unit/workloads/test_indexed_job.py
async def test_pods_hold_nothing_that_kueue_or_an_autoscaler_would_act_on(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    metadata = bed.mirror.all(PODS, bed.namespace)[0]["metadata"]
    assert metadata["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    assert metadata["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    assert "kueue.x-k8s.io/queue-name" not in metadata["labels"]


@dataclass(frozen=True, slots=True)
class WrongClock:
    """Sets the clock of the operator's process wrong by so many seconds."""

    seconds: int

    def around(self, executor: Executor) -> Executor:
        """The executor as it is."""
        true = time.time_ns
        time.time_ns = lambda: true() + self.seconds * 1_000_000_000
        return executor


@pytest.mark.parametrize("minutes", [-7, *repeats(7)])
async def test_an_operator_whose_clock_is_minutes_off_pays_to_the_cent_and_says_so(bed: Bed, minutes: int) -> None:
    operator = bed.operator(killer=WrongClock(60 * minutes))
    await bed.pool()
    await bed.budget()
    await bed.job("train")
    await bed.running("train")
    started = parse_instant(bed.pods("train")[0]["status"]["startTime"])
    await bed.finish("train")
    await bed.complete("train")
    (run,) = bed.tj("train")["runs"]
    for told in (run["since"], run["until"], bed.tj("train")["finish"]["at"]):
        assert abs(seconds_between(started, parse_instant(told))) < 60.0
    assert "the operator's clock is " in operator.tail(10_000)
