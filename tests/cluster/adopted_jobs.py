"""Plain Jobs with the label that has them adopted, and what tests see of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from charterer.api.names import ANNOTATION_CREATED_BY
from charterer.cluster.client import RawObject
from charterer.cluster.paths import EVENTS, GPU_BUDGETS, JOBS, PODS, TRAINING_JOBS
from tests.contract.adopted_objects import ray_job
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.bed import Bed
from tests.testbed.controlplane import EXIT_CODE

ADOPT = "charterer.dev/adopt"


def plain_job(name: str, *, pods: int = 1, gpus: int = 4, indexed: bool = True, **spec: Any) -> RawObject:
    """A Job as a team wrote it, with the label; its pods run until ``finish`` ends them."""
    limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    container = {"name": "train", "image": "train:1", "resources": limits}
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {ADOPT: "true", "team": "speech"}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            **({"completionMode": "Indexed"} if indexed else {}),
            "template": template,
            **spec,
        },
    }


async def create(bed: Bed, body: RawObject, annotations: Mapping[str, str] | None = None) -> RawObject:
    """Create the Job in the test's namespace."""
    if annotations:
        named = {f"charterer.dev/{key}": value for key, value in annotations.items()}
        body = {**body, "metadata": {**body["metadata"], "annotations": named}}
    return await bed.kube.post(JOBS.all(bed.namespace), body)


def job(bed: Bed, name: str) -> RawObject:
    """The Job as it is now; empty where there is none."""
    return bed.mirror.one(JOBS, name, bed.namespace) or {}


def ended(bed: Bed, name: str) -> str:
    """Complete or Failed, as the Job says of itself; empty before."""
    conditions = (job(bed, name).get("status") or {}).get("conditions") or ()
    done = [each["type"] for each in conditions if each["status"] == "True" and each["type"] in ("Complete", "Failed")]
    return done[0] if done else ""


def pods(bed: Bed, name: str) -> list[RawObject]:
    """The pods that the Job controller made for the Job."""
    found = bed.mirror.all(PODS, bed.namespace)
    return [pod for pod in found if (pod["metadata"].get("labels") or {}).get("batch.kubernetes.io/job-name") == name]


def running(bed: Bed, name: str) -> list[RawObject]:
    """Those of them that run."""
    return [
        pod
        for pod in pods(bed, name)
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def run_of(pod: RawObject) -> str:
    """The number of the run that the pod was made for."""
    return str(pod["metadata"]["labels"]["charterer.dev/run"])


async def end_pods(bed: Bed, name: str, exit_code: int = 0) -> None:
    """The processes of its running pods end with this code."""
    patch = {"metadata": {"annotations": {EXIT_CODE: str(exit_code)}}}
    for pod in running(bed, name):
        await bed.kube.merge_patch(PODS.one(pod["metadata"]["name"], bed.namespace), patch)


async def unlabel(bed: Bed, name: str) -> None:
    """Its author takes the label away."""
    await bed.kube.merge_patch(JOBS.one(name, bed.namespace), {"metadata": {"labels": {ADOPT: None}}})


def unusual_job(name: str) -> RawObject:
    """An Indexed Job of two pods that says more than it must, and some of what Charterer writes too."""
    disrupted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    body = plain_job(
        name,
        pods=2,
        gpus=2,
        suspend=False,
        backoffLimitPerIndex=1,
        maxFailedIndexes=1,
        activeDeadlineSeconds=86_400,
        ttlSecondsAfterFinished=3_600,
        podReplacementPolicy="Failed",
        podFailurePolicy={"rules": [disrupted]},
    )
    template = body["spec"]["template"]
    noted = {"team.example/empty": "", "karpenter.sh/do-not-disrupt": "false", "charterer.dev/allocation": "mine"}
    template["metadata"] = {"labels": {"app": "asr", "charterer.dev/run": "7"}, "annotations": noted}
    template["spec"] |= {
        "nodeSelector": {"disk": "fast"},
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "disk", "operator": "Equal", "value": "", "effect": "NoExecute", "tolerationSeconds": 60},
        ],
        "priority": 0,
        "hostname": "asr",
    }
    return body


async def twin(bed: Bed, body: RawObject, annotations: Mapping[str, str] | None = None) -> RawObject:
    """``as_written`` of the same Job without the label, as the API server would store it."""
    plain = deepcopy(body)
    del plain["metadata"]["labels"][ADOPT]
    if annotations:
        plain["metadata"]["annotations"] = {f"charterer.dev/{key}": value for key, value in annotations.items()}
    return as_written(await bed.kube.post(JOBS.all(bed.namespace), plain, dry_run=True))


def as_written(raw: RawObject) -> RawObject:
    """What its author decides but the label: spec, labels and annotations, without what the API server adds."""
    spec = {key: value for key, value in raw["spec"].items() if key != "selector"}
    template = deepcopy(spec["template"])
    added = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
    for name in added:
        template["metadata"].get("labels", {}).pop(name, None)
    metadata = raw["metadata"]
    return {
        "spec": {**spec, "template": template},
        "labels": {key: value for key, value in (metadata.get("labels") or {}).items() if key not in (*added, ADOPT)},
        "annotations": own_annotations(raw),
    }


def own_annotations(raw: RawObject) -> RawObject:
    """The annotations without who created the object, which a policy writes if the object has Charterer's label."""
    annotations = raw["metadata"].get("annotations") or {}
    return {key: value for key, value in annotations.items() if key != ANNOTATION_CREATED_BY}


async def annotate(bed: Bed, name: str, **values: str) -> None:
    """Its author asks for something else."""
    named = {f"charterer.dev/{key}": value for key, value in values.items()}
    await bed.kube.merge_patch(JOBS.one(name, bed.namespace), {"metadata": {"annotations": named}})


async def edit_budget(bed: Bed, **spec: object) -> None:
    """Change the spec of the budget ``team``."""
    await bed.kube.merge_patch(GPU_BUDGETS.one("team"), {"spec": spec})


async def once_held(bed: Bed) -> None:
    """Wait until the API server holds for the budget: it learns of new policies and budgets a moment later."""
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while True:
            stored = await bed.kube.post(JOBS.all(bed.namespace), plain_job("probe"), dry_run=True)
            if stored["spec"]["suspend"]:
                return
            await asyncio.sleep(0.05)


async def once_users_are(bed: Bed, written: bool) -> None:
    """Wait until the API server writes who creates a Job, or does not: it learns of policies a moment later."""
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while True:
            made = await bed.kube.post(JOBS.all(bed.namespace), plain_job("probe"), dry_run=True)
            if (ANNOTATION_CREATED_BY in (made["metadata"].get("annotations") or {})) is written:
                return
            await asyncio.sleep(0.05)


async def give_up(bed: Bed, name: str) -> None:
    """Give the job up, as the operator does once its runs were interrupted too often."""
    at = bed.tj(name)["allocation"]["since"]
    finish = {"kind": "Failed", "at": at, "reason": "MaxRestartsExceeded", "message": "run 1 was interrupted"}
    await bed.kube.merge_patch(TRAINING_JOBS.status(name, bed.namespace), {"status": {"finish": finish}})


def told(bed: Bed, name: str, reason: str = "NotAdopted") -> list[str]:
    """What Events about the Job itself say with this reason; by default why it is not adopted as its author asks."""
    events = bed.plane.call("GET", EVENTS.all(bed.namespace))["items"]
    return [
        event["note"]
        for event in events
        if event["reason"] == reason and (event["regarding"]["kind"], event["regarding"]["name"]) == ("Job", name)
    ]


async def delete_jobs(bed: Bed) -> None:
    """Delete the test's Jobs, whose pods would wait for the nodes of other tests."""
    await edit_budget(bed, mode="Enforce")
    for raw in bed.mirror.all(JOBS, bed.namespace):
        await bed.kube.delete(JOBS.one(raw["metadata"]["name"], bed.namespace))
    await bed.until(lambda: not bed.mirror.all(JOBS, bed.namespace))


RESTRICTED: RawObject = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
"""A patch of a namespace, which then accepts only pods of Kubernetes' strictest standard."""


def under_the_standard(body: Callable[[str], RawObject], name: str) -> RawObject:
    """The object with what Kubernetes' standard "restricted" asks of each container."""
    made = body(name)
    if made["kind"] == "RayJob":
        # KubeRay's own submitter lacks what the standard asks for, and its Job would have no pod.
        container = {"name": "ray-job-submitter", "image": "ray:1"}
        made["spec"]["submitterPodTemplate"] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    safe = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }

    def walk(part: Any) -> None:
        for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            walk(value)
        if isinstance(part, dict):
            for container in part.get("containers") or ():
                container["securityContext"] = safe

    walk(made)
    return made


def with_kuberays_submitter(name: str) -> RawObject:
    """A RayJob that the standard "restricted" accepts, but for the submitter that KubeRay makes by itself."""
    made = under_the_standard(ray_job, name)
    del made["spec"]["submitterPodTemplate"]
    return made


def with_a_refused_head(name: str) -> RawObject:
    """A RayJob that the standard "restricted" accepts, but for its head."""
    made = under_the_standard(ray_job, name)
    made["spec"]["rayClusterSpec"]["headGroupSpec"] = ray_job(name)["spec"]["rayClusterSpec"]["headGroupSpec"]
    return made
