"""Queues of the real Kueue: what waits in them runs on a budget, whatever Kueue does with each answer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import Forbidden
from charterer.cluster.paths import GPU_POOLS, JOBS, RESOURCE_FLAVORS, TRAINING_JOBS
from tests import outcome
from tests.cluster.commands import charterer
from tests.cluster.refusals import once_refused
from tests.testbed.bed import SYSTEM, group
from tests.testbed.controlplane import ControlPlane
from tests.testbed.kueue.bed import ELASTIC, GPU, QUEUE_NAME, KueueBed, holds, open_kueue_bed

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("Kueue")]


@pytest.fixture
async def kueue_bed(
    with_kueue: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[KueueBed]:
    """A bed with the queue ``research``, whose check an operator answers."""
    async with open_kueue_bed(with_kueue, tmp_path, [group("a100")]) as made:
        await made.queue()
        yield made
        if not outcome.failed(request.node):
            await made.delete_jobs()
            await made.close()


async def test_what_no_budget_pays_for_is_told_and_what_needs_no_rented_node_is_let_through(
    kueue_bed: KueueBed,
) -> None:
    bed = kueue_bed
    bed.operator()
    await bed.queued("unpaid", 1)
    await bed.queued("plain", 1, gpus=0)
    await bed.until(lambda: bed.job_pods("plain"))
    await bed.until(lambda: f"no GPUBudget selects namespace {bed.namespace}" in bed.check("unpaid").get("message", ""))
    assert bed.check("unpaid")["state"] == "Pending"
    await bed.budget(mode="Observe")
    await bed.until(lambda: bed.job_pods("unpaid"))
    assert bed.check("unpaid")["message"] == "GPUBudget team observes, and holds nothing"


async def test_doctor_tells_of_flavors_that_fit_rented_nodes_badly(with_kueue: ControlPlane, tmp_path: Path) -> None:
    """The flavor of one queue tolerates their taints; that of another queue asks for a label that they do not have."""
    taint = {"key": "dedicated", "value": "training", "effect": "NoSchedule"}
    quotas = [{"name": name, "nominalQuota": 8} for name in (GPU, "cpu", "memory")]
    async with open_kueue_bed(with_kueue, tmp_path, [group("a100", taints=[taint])]) as bed:
        flavors: Mapping[str, RawObject] = {
            bed.own("tolerant"): {"tolerations": [{"operator": "Exists"}]},
            bed.own("labelled"): {"nodeLabels": {"zone": "nowhere"}},
        }
        for name, spec in flavors.items():
            await bed.put(RESOURCE_FLAVORS, "ResourceFlavor", name, spec)
            covered = [each["name"] for each in quotas]
            groups = [{"coveredResources": covered, "flavors": [{"name": name, "resources": quotas}]}]
            await bed.queue(name=name.partition("-")[0], resourceGroups=groups)
        bed.operator()
        await bed.budget()
        await bed.pool()
        await bed.until(lambda: "offering" in ((bed.mirror.one(GPU_POOLS, "a100") or {}).get("status") or {}))
        told = await _doctor(bed)
        of_taint = "has spec.tolerations for dedicated=training:NoSchedule, the taint of GPUPool a100"
        assert f"ResourceFlavor {bed.own('tolerant')} {of_taint}" in told, told
        of_label = "has spec.nodeLabels zone=nowhere, which nodes of no GPUPool have"
        assert f"ResourceFlavor {bed.own('labelled')} {of_label}" in told, told
        for name, spec in flavors.items():
            await bed.kube.merge_patch(RESOURCE_FLAVORS.one(name), {"spec": dict.fromkeys(spec)})
        told = await _doctor(bed)
        assert "ResourceFlavor" not in told, told
        await bed.close()


async def _doctor(bed: KueueBed) -> str:
    """What the command prints, in one line."""
    ran = await charterer(bed.plane.kubeconfig, "doctor", "-n", bed.namespace)
    return " ".join(ran.out.split())


async def test_a_queued_job_is_placed_at_its_width_and_its_end_is_its_own(kueue_bed: KueueBed) -> None:
    """Its width is changed while its check is Pending; somebody who unsuspends it does no harm; a conflict is told."""
    bed = kueue_bed
    await bed.budget()
    await bed.queued("narrow", 3, annotations={"charterer.dev/gpus": "4"})
    await bed.queued("clash", 1, pod_labels={"charterer.dev/run": "7"})
    await bed.queued("wrong", 1, annotations={"charterer.dev/gpus": "many"})
    bed.operator()
    await bed.until(lambda: bed.check("narrow").get("state") == "Pending")
    await bed.kube.merge_patch(JOBS.one("narrow", bed.namespace), {"spec": {"suspend": False}})
    await bed.pool()
    await bed.until(lambda: bed.pods_run("narrow", 1))
    job = bed.queued_job("narrow")
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (1, 1)
    (pod,) = bed.job_pods("narrow")
    assert pod["metadata"]["labels"]["charterer.dev/run"] == "1"
    assert bed.shadow("narrow")["spec"]["targetRef"]["uid"] == job["metadata"]["uid"]
    await bed.until(lambda: bed.tj("narrow").get("gpus") == 4)  # written after the allocation
    await bed.until(lambda: "sets labels[charterer.dev/run]" in bed.check("clash").get("message", ""))
    await bed.until(lambda: "charterer.dev/gpus is 'many'" in bed.check("wrong").get("message", ""))
    await bed.ends_well("narrow")
    assert [bed.check(name)["state"] for name in ("clash", "wrong")] == ["Pending", "Pending"]
    assert not any(holds(raw, "Finished") for raw in bed.workloads("clash"))


async def test_a_queued_job_is_stopped_and_runs_again_only_when_its_old_pods_are_gone(kueue_bed: KueueBed) -> None:
    """Retry without a delay stops it; it waits with a sentence; Kueue asks again at once, and is answered later."""
    bed = kueue_bed
    slow = {"testbed.charterer.dev/stop-delay": "3s"}
    bed.operator()
    await bed.budget()
    await bed.pool()
    await bed.queued("moves", 1, pod_annotations=slow)
    await bed.until(lambda: bed.pods_run("moves", 1))
    await bed.delete("GPUPool", "a100")
    began = time.monotonic()
    await bed.until(lambda: bed.queued_job("moves")["spec"]["suspend"])
    assert time.monotonic() - began < 20
    await bed.until(lambda: bed.outcomes("moves") == ["Stopped"])
    await bed.until(lambda: bed.check("moves")["state"] == "Pending" and "GPUPool" in bed.check("moves")["message"])
    await bed.until(lambda: not bed.mirror.all(GPU_POOLS))
    await bed.pool()

    def again() -> bool:
        runs = {pod["metadata"]["labels"].get("charterer.dev/run") for pod in bed.all_pods("moves")}
        assert runs != {"1", "2"}, "two runs of one job had pods at once"
        return bed.pods_run("moves", 1) and runs == {"2"}

    await bed.until(again)
    uid = bed.shadow("moves")["metadata"]["uid"]
    # Whoever may edit it gives it another width while it runs: for Kueue a restart, with another Workload.
    await bed.kube.merge_patch(JOBS.one("moves", bed.namespace), {"spec": {"parallelism": 2, "completions": 2}})
    await bed.until(lambda: bed.pods_run("moves", 2))
    assert bed.shadow("moves")["metadata"]["uid"] == uid
    assert bed.shadow("moves")["spec"]["gpus"] == {"min": 8, "preferred": 8, "max": 8}
    await bed.ends_well("moves")
    assert bed.outcomes("moves") == ["Stopped", "Stopped", "Complete"]


async def test_the_operators_account_changes_the_width_of_what_is_queued_and_nothing_else(
    with_kueue: ControlPlane,
) -> None:
    """Kueue starts and stops it. People and Kueue itself are not held up."""
    limits = {"limits": {GPU: 4}}
    pods = {"spec": {"restartPolicy": "Never", "containers": [{"name": "t", "image": "t:1", "resources": limits}]}}
    width = {"parallelism": 2, "completions": 2}
    body: RawObject = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "fenced", "labels": {QUEUE_NAME: "none"}},
        "spec": {"suspend": True, "completionMode": "Indexed", **width, "template": pods},
    }
    labelled = {"template": {"metadata": {"labels": {"charterer.dev/run": "1"}}}}
    refused = {
        "suspend": ({"suspend": False}, "neither suspend nor its template"),
        "template": (labelled, "neither suspend nor its template"),
        "retries": ({"backoffLimit": 1}, "neither suspend nor its template"),
        "deadline": ({"activeDeadlineSeconds": 1}, "changes nothing else"),
    }
    path = JOBS.one("fenced", "default")
    async with (
        await Client.connect(with_kueue.kubeconfig) as person,
        await Client.connect(with_kueue.service_account_kubeconfig(SYSTEM, "charterer")) as operator,
    ):
        await person.post(JOBS.all("default"), body, strict=True)
        for spec, words in refused.values():
            assert words in await once_refused(partial(operator.merge_patch, path, {"spec": spec}, dry_run=True))
        unlabelled = {"metadata": {"labels": {QUEUE_NAME: None}}}
        refusal = await once_refused(partial(operator.merge_patch, path, unlabelled, dry_run=True))
        assert "changes nothing else" in refusal
        await operator.merge_patch(path, {"spec": {"parallelism": 1, "completions": 1}})
        for spec, _ in refused.values():
            await person.merge_patch(path, {"spec": spec}, dry_run=True)
        await person.delete(path)


async def test_a_budget_vetoes_the_growth_of_an_elastic_job_or_pays_for_it(
    kueue_bed: KueueBed,
) -> None:
    """The pods that run go on while the new ones wait; narrower is at once."""
    bed = kueue_bed
    elastic = {ELASTIC: "true"}
    bed.operator()
    await bed.budget()
    await bed.pool(maxNodes=1)
    grows = elastic | {"charterer.dev/gpus": "4..8", "charterer.dev/resize": "InPlace"}
    await bed.queued("grows", 1, annotations=grows)
    await bed.until(lambda: bed.pods_run("grows", 1))
    first = bed.job_pods("grows")[0]["metadata"]["uid"]
    await bed.kube.merge_patch(JOBS.one("grows", bed.namespace), {"spec": {"parallelism": 2, "completions": 2}})
    await bed.until(lambda: "GPUBudget team pays for 1 pod" in bed.check("grows").get("message", ""))
    await bed.until(lambda: len(bed.job_pods("grows")) == 2)
    assert sum(bool(pod["spec"].get("schedulingGates")) for pod in bed.job_pods("grows")) == 1
    await bed.kube.merge_patch(JOBS.one("grows", bed.namespace), {"spec": {"parallelism": 1, "completions": 1}})
    await bed.until(lambda: bed.pods_run("grows", 1) and bed.check("grows").get("state") == "Ready")
    assert [pod["metadata"]["uid"] for pod in bed.job_pods("grows")] == [first]
    await bed.kube.merge_patch(GPU_POOLS.one("a100"), {"spec": {"maxNodes": 2}})
    path = TRAINING_JOBS.one("grows", bed.namespace)
    with pytest.raises(Forbidden, match="what its pods are and can is said there"):
        await bed.kube.merge_patch(path, {"spec": {"template": {"metadata": {"labels": {"team": "other"}}}}})
    await bed.kube.merge_patch(path, {"spec": {"gpus": {"min": 8, "preferred": 8, "max": 8}}})
    await bed.until(lambda: bed.pods_run("grows", 2) and bed.tj("grows").get("gpus") == 8)
    await bed.ends_well("grows")
