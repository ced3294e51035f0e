"""Nodes from a real Karpenter: rented, refused, abandoned, deleted by hand; with Karpenter or the operator away."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from charterer.cluster.paths import GPU_BUDGETS, GPU_POOLS, NODES
from charterer.domain.money import Money
from charterer.domain.time import parse_instant
from tests.testbed.call_killer import around
from tests.testbed.karpenter_bed import CLAIMS, GPU_TYPE, KarpenterBed
from tests.testbed.karpenter_process import NODE_CLASS
from tests.testbed.operators import Killer

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("karpenter")]


@pytest.mark.parametrize(
    ("machine", "gpu_type", "resource", "hourly"),
    [
        ("p4d.24xlarge", GPU_TYPE, "nvidia.com/gpu", "32.77"),
        ("mi300x-8x", "AMD_Instinct_MI300X_VF", "amd.com/gpu", "48.00"),
        ("npu-8x", "Example-NPU", "example.com/npu", "21.50"),
    ],
    ids=["nvidia", "amd", "unlisted"],
)
async def test_a_job_runs_on_a_node_for_which_karpenter_is_asked_and_it_is_given_back(
    karpenter_bed: KarpenterBed, machine: str, gpu_type: str, resource: str, hourly: str
) -> None:
    """The claim says whose it is; what the machine costs and is, Karpenter and the Node say."""
    bed = karpenter_bed
    bed.operator()
    await bed.claim_pool(resource=resource, instanceType=machine, gpuType=gpu_type)
    await bed.budget()
    await bed.job("train", gpus=8, resource=resource)
    await bed.running("train")
    (claim,), (rental,) = bed.claims(), bed.rentals()
    labels = claim["metadata"]["labels"]
    assert (labels["charterer.dev/pool"], labels["charterer.dev/rental"]) == ("a100", rental["metadata"]["name"])
    assert claim["spec"]["expireAfter"] == "Never"
    assert claim["spec"]["resources"] == {"requests": {resource: "8"}}
    (pod,) = bed.pods("train")
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {resource: "8"}
    assert rental["status"]["providerId"] == claim["status"]["providerID"]
    assert parse_instant(rental["status"]["launchedAt"]) == parse_instant(claim["metadata"]["creationTimestamp"])
    pool = bed.mirror.one(GPU_POOLS, "a100")
    assert pool is not None
    quote, offering = pool["status"]["quote"], pool["status"]["offering"]
    assert (quote["hourly"], quote["source"]) == (hourly, "Karpenter's estimate")
    assert (offering["gpuType"], offering["gpusPerNode"], offering["zone"]) == (gpu_type, 8, "zone-a")
    await bed.finish("train")
    await bed.complete("train")
    await bed.until(lambda: not bed.claims() and not bed.mirror.all(NODES))


def _cooled(bed: KarpenterBed, pool: str) -> Mapping[str, str]:
    """What the cloud refused last in the pool."""
    found = bed.mirror.one(GPU_POOLS, pool)
    cooled = [] if found is None else (found.get("status") or {}).get("cooled") or []
    return cooled[-1] if cooled else {}


async def test_what_is_out_of_stock_in_one_zone_is_rented_in_another(karpenter_bed: KarpenterBed) -> None:
    """Karpenter deletes the claim within a second. Its code is in an Event only, and reaches the pool's status."""
    bed = karpenter_bed
    bed.karpenter.behave({"zone": "zone-a", "stock": 0})
    await bed.claim_pool("a", "zone-a")
    bed.operator()
    await bed.budget()
    await bed.job("train", gpus=8)
    refused = await bed.until(lambda: _cooled(bed, "a"))
    assert (refused["kind"], refused["scope"]) == ("StockOut", "Zone")
    assert refused["where"] == "p4d.24xlarge OnDemand zone-a"
    assert refused["code"] == "InsufficientInstanceCapacity"
    await bed.claim_pool("b", "zone-b")
    await bed.running("train")
    assert {claim["metadata"]["labels"]["charterer.dev/pool"] for claim in bed.claims()} == {"b"}


@pytest.mark.repeats  # test_gangs.py
async def test_a_machine_alone_of_the_two_that_a_job_needs_is_given_back_and_its_cost_named(
    karpenter_bed: KarpenterBed,
) -> None:
    """Karpenter cannot launch all or none."""
    bed = karpenter_bed
    bed.karpenter.behave({"zone": "zone-a", "stock": 1})
    bed.operator()
    await bed.claim_pool()
    await bed.budget()
    await bed.job("wide", gpus=16)

    def in_vain() -> Money:
        status = (bed.mirror.one(GPU_BUDGETS, "team") or {}).get("status") or {}
        pools = (status.get("costs") or {}).get("pools") or [{}]
        return Money.parse(pools[0].get("incompleteGang", "0"))

    await bed.until(lambda: in_vain() > Money(0) and not bed.rentals() and not bed.claims())
    _, bill = await bed.bill()
    await bed.until(lambda: in_vain().micros == bill)


@pytest.mark.repeats  # tests/unit/providers/test_karpenter_answers.py
async def test_a_launch_that_fails_for_ever_is_given_up_at_once(karpenter_bed: KarpenterBed) -> None:
    """Karpenter itself would try for five minutes."""
    bed = karpenter_bed
    refused = "VcpuLimitExceeded: You have requested more vCPU capacity than your current limit"
    bed.karpenter.behave({"zone": "zone-a", "error": refused, "reason": "VCPULimitExceeded"})
    await bed.claim_pool("a", "zone-a")
    bed.operator()
    await bed.budget()
    await bed.job("train", gpus=8)
    cooled = await bed.until(lambda: _cooled(bed, "a"))
    assert (cooled["kind"], cooled["scope"], cooled["code"]) == ("QuotaExceeded", "Family", "VCPULimitExceeded")
    await bed.until(lambda: not bed.claims() and not bed.rentals())


@pytest.mark.repeats  # tests/unit/providers/test_karpenter.py
async def test_a_node_class_that_does_not_exist_is_named_in_the_pools_status(karpenter_bed: KarpenterBed) -> None:
    bed = karpenter_bed
    bed.operator()
    await bed.claim_pool("a", nodeClassRef={**NODE_CLASS, "name": "typo"})
    await bed.budget()
    await bed.job("train", gpus=8)
    cooled = await bed.until(lambda: _cooled(bed, "a"))
    assert (cooled["kind"], cooled["code"]) == ("InvalidRequest", "NodeClassNotReady")
    assert cooled["message"].startswith("KWOKNodeClass 'typo' does not exist: correct spec.karpenter.nodeClassRef.name")
    assert not bed.claims()


async def test_a_machine_that_never_registers_is_paid_for_until_karpenter_gives_it_up(
    karpenter_bed: KarpenterBed,
) -> None:
    """After fifteen minutes, of Karpenter's clock. The pool cools down, and the job then runs on another machine."""
    bed = karpenter_bed
    bed.karpenter.behave({"startSeconds": [1e6]})
    bed.operator()
    await bed.claim_pool(cooldown_seconds=2)
    await bed.budget()
    await bed.job("train", gpus=8)
    (first,) = await bed.until(lambda: bed.rentals("Starting"))
    bed.karpenter.behave(waited_seconds=901)
    await bed.touch()
    await bed.until(lambda: all("deletionTimestamp" in claim["metadata"] for claim in bed.claims()))
    await bed.until(lambda: _cooled(bed, "a100").get("kind") == "NeverReady")
    bed.karpenter.behave()
    await bed.running("train")
    assert first["metadata"]["uid"] not in {raw["metadata"]["uid"] for raw in bed.rentals("Ready")}
    await bed.until(lambda: not _cooled(bed, "a100"))


async def test_what_nobody_ends_ends_itself_while_the_operator_is_away(karpenter_bed: KarpenterBed) -> None:
    """``abandonAfterSeconds``. The operator that comes back finds out when that was, and that the job completed."""
    bed = karpenter_bed
    operator = bed.operator()
    await bed.claim_pool(abandonAfterSeconds=600)
    await bed.budget()
    await bed.job("train", gpus=8)
    await bed.running("train")
    operator.kill()
    await bed.finish("train")
    bed.karpenter.behave(advanced_seconds=601)
    await bed.touch()
    await bed.until(lambda: all("deletionTimestamp" in claim["metadata"] for claim in bed.claims()))
    # Karpenter may have begun to drain by its clock that was ahead, and ends the machine five seconds of that later.
    bed.karpenter.behave(waited_seconds=601)
    await bed.until(bed.terminated)
    assert await bed.instances() == []
    operator.restart()
    await bed.complete("train")
    await bed.until(lambda: not bed.claims())


@pytest.mark.repeats  # test_faults.py, of a Node that is deleted
async def test_a_claim_that_somebody_deletes_takes_its_job_to_another_machine(karpenter_bed: KarpenterBed) -> None:
    bed = karpenter_bed
    bed.operator()
    await bed.claim_pool()
    await bed.budget()
    await bed.job("train", gpus=8)
    await bed.running("train")
    (claim,) = bed.claims()
    run = bed.run("train")
    await bed.kube.delete(CLAIMS.one(claim["metadata"]["name"]))
    await bed.running_again("train", run)
    await bed.until(lambda: len(bed.claims()) == 1)


async def test_while_karpenter_is_away_nothing_is_lost_and_nothing_asked_for_twice(karpenter_bed: KarpenterBed) -> None:
    """A machine that is to be ended is billed until Karpenter is back; a claim that nobody wants any more goes before
    Karpenter has seen it."""
    bed = karpenter_bed
    bed.operator()
    await bed.claim_pool()
    await bed.budget()
    await bed.job("first", gpus=8)
    await bed.running("first")
    bed.karpenter.kill()
    await bed.job("second", gpus=8)
    await bed.until(lambda: len(bed.claims()) == 2)
    await bed.delete("TrainingJob", "second")
    await bed.until(lambda: len(bed.claims()) == 1 and len(bed.rentals()) == 1)
    await bed.finish("first")
    await bed.until(lambda: all("deletionTimestamp" in claim["metadata"] for claim in bed.claims()))
    assert len(bed.rentals("Draining")) == 1
    await bed.job("third", gpus=8)
    await bed.until(lambda: len(bed.claims()) == 2)
    bed.karpenter.restart()
    await bed.running("third")
    await bed.until(lambda: len(bed.claims()) == 1)


async def test_a_claim_that_is_being_launched_is_not_deleted_before_its_machine_is_there(
    karpenter_bed: KarpenterBed,
) -> None:
    """A machine that came for a claim which is gone would run on until Karpenter's sweep."""
    bed = karpenter_bed
    bed.karpenter.behave({"answerSeconds": 6})
    bed.operator()
    await bed.claim_pool()
    await bed.budget()
    await bed.job("train", gpus=8)
    await bed.until(lambda: bed.claims() and "karpenter.sh/termination" in bed.claims()[0]["metadata"]["finalizers"])
    await bed.delete("TrainingJob", "train")
    (claim,) = await bed.until(lambda: [c for c in bed.claims() if (c.get("status") or {}).get("providerID")])
    assert "deletionTimestamp" not in claim["metadata"]
    await bed.until(lambda: not bed.claims())
    rentals = [raw for raw in [*bed.rentals(), *bed.mirror.departed] if raw["kind"] == "GPURental"]
    assert {raw["metadata"]["name"] for raw in rentals} <= {"a100-1"}, "it was this rental's machine, and no orphan"
    assert len(bed.karpenter.instances([claim["metadata"]["name"]])) == 1


async def test_killed_around_each_step_that_calls_it_each_of_two_nodes_is_asked_for_once(
    karpenter_bed: KarpenterBed,
) -> None:
    """The steps that touch Karpenter's objects; those of Charterer's own are the same for every cloud."""
    bed, journal, steps = karpenter_bed, karpenter_bed.directory / "journal", {"AskCloud", "Adopt", "Terminate"}
    operator = bed.operator(killer=Killer(journal, frozenset(steps)))
    async with operator.revived():
        await bed.claim_pool()
        await bed.budget()
        await bed.job("train", gpus=16)
        await bed.running("train")
        names = [claim["metadata"]["name"] for claim in bed.claims()]
        assert len(bed.karpenter.instances(names)) == 2
        await bed.finish("train")
        await bed.complete("train")
        await bed.until(lambda: not bed.rentals())
    assert set(journal.read_text().splitlines()) == around(steps)
