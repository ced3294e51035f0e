"""A team's own RayJob, adopted in place: Charterer places its only worker group with GPUs.

The head, the submitter and workers without GPUs stay unchanged, on nodes that Charterer does not manage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from charterer.api.decode.core import optional_instant
from charterer.api.metadata import ObjectMeta, Raw
from charterer.api.models.base import Json
from charterer.api.names import LABEL_JOB_UID
from charterer.api.template import trainer_gpus
from charterer.cluster.paths import Resource
from charterer.cluster.store import WatchedKind
from charterer.domain.job import Allocation, Job
from charterer.domain.target import Target
from charterer.domain.time import Instant
from charterer.sentences import names
from charterer.workloads.adopted.asks import Elasticity, LabelledKind, asked, shadow_spec, when_given_up
from charterer.workloads.adopted.noted import (
    QUEUE_LABEL,
    asks_for_gpus,
    authors_parts,
    authors_template,
    bare_again,
    given_back,
    is_held,
    kept_running,
    note_given_up,
    note_original,
    original,
    placed_run,
    placed_template,
    refuse_other_owners,
    suspend_changes,
    template_changes,
    unsaid_gpus,
)
from charterer.workloads.adopted.target_kind import NotAdoptable, TargetKind, Write

RAY_JOBS: Final = Resource("ray.io", "v1", "rayjobs", namespaced=True)
RAY_CLUSTERS: Final = Resource("ray.io", "v1", "rayclusters", namespaced=True)
_OWN_CONTROLLER: Final = "ray.io/kuberay-operator"
INTERACTIVE: Final = "InteractiveMode"
"""The submission mode in which a person, and not KubeRay, submits the job."""
NOT_INTERACTIVE: Final = (
    f"spec.submissionMode is {INTERACTIVE}: KubeRay does not stop such a RayJob when it is suspended; use another mode"
)
_BY_JOB: Final = "K8sJobMode"
"""The submission mode, and the default, in which a Job of KubeRay submits the entrypoint."""
SUBMITTER_REFUSED: Final = "FailedToCreateRayJobSubmitter"
_CLUSTER_REFUSED: Final = "FailedToCreateRayCluster"
"""The reasons of KubeRay's Events about a RayJob whose submitter or RayCluster the API server does not accept."""
_WORKERS_REFUSED: Final = "FailedToCreateWorkerPod"
"""The reason of KubeRay's Event about a RayCluster whose workers the API server does not accept."""
_ALLOW_BOTH: Final = (
    "let the quotas and admission rules of its namespace allow its head and its submitter (spec.submitterPodTemplate), "
    "or set spec.submissionMode to HTTPMode, which has no submitter"
)
_AT_ONCE: Final = 1
"""The shortest deadline in seconds that KubeRay accepts."""


class _WorkerGroup(NamedTuple):
    """The worker group with GPUs and its index."""

    at: int
    spec: Mapping[str, Any]

    @property
    def template(self) -> Mapping[str, Any]:
        template: Mapping[str, Any] = self.spec["template"]
        return template

    @property
    def replicas(self) -> int:
        return int(self.spec.get("replicas") or 0)

    @property
    def path(self) -> str:
        return f"/spec/rayClusterSpec/workerGroupSpecs/{self.at}"


class AdoptedRayJob(LabelledKind):
    """See ``TargetKind``. KubeRay creates a RayCluster for the RayJob, and deletes it when the RayJob is stopped.

    While the RayJob runs, its width is the width of the RayCluster.
    """

    def __init__(self) -> None:
        super().__init__("RayJob", RAY_JOBS)

    def read(self, raw: Raw) -> Target:
        """See ``TargetKind.read``. A RayJob has no conditions: its state is the word ``jobDeploymentStatus``."""
        meta = ObjectMeta.of(self.name, raw)
        spec, status = raw.get("spec") or {}, raw.get("status") or {}
        state = status.get("jobDeploymentStatus") or ""
        wanted, problem, group = None, "", None
        try:
            group = _group(spec)
            wanted = asked(_shadow(meta, raw, group))
        except NotAdoptable as error:
            problem = str(error)
        if state == "ValidationFailed":
            problem = problem or f"KubeRay refuses it: {status.get('message') or 'it does not say why'}"
        job, run = placed_run({} if group is None else (group.template.get("metadata") or {}).get("labels") or {})
        suspended = bool(spec.get("suspend"))
        ended = optional_instant(status, "endTime") or optional_instant(status, "startTime") or meta.created
        why = ": ".join(word for word in (status.get("reason"), status.get("message")) if word)
        return Target(
            ref=self._ref(meta),
            namespace=meta.namespace,
            resource_version=meta.resource_version,
            created=meta.created,
            suspended=suspended,
            deleting=meta.deleting,
            job=job,
            run=run,
            pods=1 if group is None else group.replicas,
            controller_prefix=f"{meta.name}-",
            placeable=suspended and state == "Suspended",
            begun=state == "Running",
            held=is_held(raw),
            started=None if suspended else optional_instant(status, "startTime"),
            complete=ended if state == "Complete" else None,
            failed=ended if state == "Failed" else None,
            failed_message=why if state == "Failed" else "",
            asked=wanted,
            problem=problem,
            warning=kept_running(raw),
            when_given_up=when_given_up(meta),
            ending=spec.get("activeDeadlineSeconds") == _AT_ONCE and not suspended,
            incomplete=_incomplete(state, status.get("jobStatus") or ""),
        )

    def shadow(self, raw: Raw) -> Json:
        """See ``TargetKind.shadow``."""
        return _shadow(ObjectMeta.of(self.name, raw), raw, _group(raw["spec"]))

    def selector(self, raw: Raw) -> str:
        """See ``TargetKind.selector``.

        The RayCluster is deleted before its workers end, so the workers of a placed run are found by their labels.
        """
        job, _ = placed_run((_group(raw["spec"]).template.get("metadata") or {}).get("labels") or {})
        if job:
            return f"{LABEL_JOB_UID}={job}"
        return f"ray.io/cluster={(raw.get('status') or {}).get('rayClusterName') or 'none'}"

    def place(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """See ``TargetKind.place``."""
        group, noted = _group(raw["spec"]), original(raw)
        operations: list[Json] = []
        if not noted:
            noted = {
                **authors_parts(group.template),
                "replicas": group.replicas,
                "metadata": "metadata" in group.template,
            }
            operations += note_original(raw, noted)
        template = placed_template(authors_template(group.template, noted), job, allocation)
        operations += template_changes(f"{group.path}/template", group.template, template)
        return self._patched(raw, [*operations, *_replicas(group, len(allocation.placements))])

    def resize(self, raw: Raw, pods: int, retries: int, leaving: Sequence[str] = ()) -> Sequence[Write]:
        """See ``TargetKind.resize``.

        While the RayJob runs, KubeRay follows the RayCluster and ignores the RayJob's own spec. So the RayCluster is
        written first. Until the RayJob is written too, its old width shows that the change is not finished.
        """
        group, cluster = _group(raw["spec"]), (raw.get("status") or {}).get("rayClusterName")
        if not cluster:
            return ()
        at = f"/spec/workerGroupSpecs/{group.at}"
        operations = (
            {"op": "test", "path": f"{at}/groupName", "value": group.spec["groupName"]},
            {"op": "add", "path": f"{at}/replicas", "value": pods},
            {"op": "add", "path": f"{at}/scaleStrategy", "value": {"workersToDelete": list(leaving)}},
        )
        running = Write(RAY_CLUSTERS.one(cluster, raw["metadata"]["namespace"]), operations, own=False)
        return (running, *self._patched(raw, _replicas(group, pods)))

    def fail(self, raw: Raw, reason: str, message: str, now: Instant) -> Sequence[Write]:
        """See ``TargetKind.fail``. KubeRay accepts no deadline below one second."""
        operations = note_given_up(raw, reason, message)
        operations.append({"op": "add", "path": "/spec/activeDeadlineSeconds", "value": _AT_ONCE})
        return self._patched(raw, [*operations, *suspend_changes(raw, False)])

    def restore(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.restore``."""
        noted = original(raw)
        if not noted:
            return self._patched(raw, given_back(raw))
        group = _group(raw["spec"])
        path, wanted = f"{group.path}/template", authors_template(group.template, noted)
        operations = [
            *template_changes(path, group.template, wanted),
            *bare_again(path, noted),
            *_replicas(group, noted.get("replicas", group.replicas)),
        ]
        return self._patched(raw, [*operations, *given_back(raw)])


ADOPTED_RAY_JOB: Final[TargetKind] = AdoptedRayJob()


class WaitingRayJob(NamedTuple):
    """A RayJob in a Kueue queue whose entrypoint does not run yet. Its Workload does not show that."""

    uid: str
    why: str


def _waiting(raw: Raw) -> WaitingRayJob | None:
    metadata, status = raw["metadata"], raw.get("status") or {}
    why = _incomplete(status.get("jobDeploymentStatus") or "", status.get("jobStatus") or "")
    return WaitingRayJob(metadata["uid"], why) if why and QUEUE_LABEL in (metadata.get("labels") or {}) else None


QUEUED_RAY_JOBS: Final[WatchedKind[WaitingRayJob]] = WatchedKind(
    "QueuedRayJob", RAY_JOBS, _waiting, labels=QUEUE_LABEL, optional=True
)


class Helper(NamedTuple):
    """A part of a running RayJob beside its workers.

    ``refused``: the reason of KubeRay's Event about the RayJob if the object that creates the part's pods is refused.
    ``events``: field selector of the Events about that object. ``pods``: label selector of the pods.
    """

    name: str
    refused: str
    events: str
    pods: str


class Helpers(NamedTuple):
    """All such parts of a RayJob. ``remedy``: what helps if the cluster refuses one of them.

    ``workers``: field selector of the Events about workers that are refused; empty without a RayCluster.
    """

    parts: Sequence[Helper]
    remedy: str
    workers: str


def helpers(raw: Raw) -> Helpers:
    """The head of the RayJob's RayCluster, and the submitter if KubeRay creates one.

    KubeRay finds the submitter, a Job, by the name of the RayJob alone.
    """
    name, cluster = raw["metadata"]["name"], (raw.get("status") or {}).get("rayClusterName")
    parts, workers = [], ""
    if cluster:
        events, pods = f"regarding.kind=RayCluster,regarding.name={cluster}", f"ray.io/cluster={cluster}"
        parts.append(Helper("its head", _CLUSTER_REFUSED, events, f"{pods},ray.io/node-type=head"))
        workers = f"{events},reason={_WORKERS_REFUSED}"
    if raw["spec"].get("submissionMode", _BY_JOB) != _BY_JOB:
        return Helpers(parts, "let the quotas and admission rules of its namespace allow its head", workers)
    pods = f"batch.kubernetes.io/job-name={name}"
    parts.append(Helper("its submitter", SUBMITTER_REFUSED, f"regarding.kind=Job,regarding.name={name}", pods))
    return Helpers(parts, _ALLOW_BOTH, workers)


def _incomplete(state: str, entrypoint: str) -> str:
    """The reason why the RayJob waits. KubeRay reports Running before Ray knows the entrypoint."""
    if state != "Running":
        return f"KubeRay says {state or 'nothing'} of it, not Running"
    return "" if entrypoint else "Ray has not heard of its entrypoint: the pod that submits it may not have begun"


def _refuse_what_cannot_be_held(spec: Mapping[str, Any]) -> None:
    if spec.get("submissionMode") == INTERACTIVE:
        raise NotAdoptable(NOT_INTERACTIVE)
    if not spec.get("shutdownAfterJobFinishes"):
        raise NotAdoptable(
            "spec.shutdownAfterJobFinishes is not true: KubeRay suspends only RayJobs whose RayCluster ends with them; "
            "set it"
        )
    if spec.get("clusterSelector") or not spec.get("rayClusterSpec"):
        raise NotAdoptable(
            "spec.clusterSelector uses a RayCluster that is there already, whose nodes are not this job's: give "
            "spec.rayClusterSpec instead"
        )
    if spec["rayClusterSpec"].get("enableInTreeAutoscaling"):
        raise NotAdoptable(
            "spec.rayClusterSpec.enableInTreeAutoscaling is true, and two owners of replicas would undo each other: "
            "leave it out, and give a range of GPUs by the annotation charterer.dev/gpus"
        )
    if asks_for_gpus(spec["rayClusterSpec"]["headGroupSpec"]["template"]):
        raise NotAdoptable(
            "spec.rayClusterSpec.headGroupSpec asks for GPUs: only workers get rented nodes; leave them to the workers"
        )


def _shadow(meta: ObjectMeta, raw: Raw, group: _WorkerGroup) -> Json:
    refuse_other_owners(meta, raw["spec"], _OWN_CONTROLLER)
    _refuse_what_cannot_be_held(raw["spec"])
    noted = original(raw)
    replicas = noted.get("replicas", group.replicas)
    if replicas < 1 or group.spec.get("numOfHosts", 1) != 1:
        raise NotAdoptable(
            f"worker group {group.spec['groupName']} has replicas {replicas} and numOfHosts "
            f"{group.spec.get('numOfHosts', 1)}: give it at least one replica, each of one host"
        )
    template = authors_template(group.template, noted)
    shadow = shadow_spec(meta, template, replicas, Elasticity(width=True, in_place=True), "")
    least, most = group.spec.get("minReplicas", 0), group.spec.get("maxReplicas", replicas)
    each = trainer_gpus(template)
    if not least * each <= shadow["gpus"]["min"] <= shadow["gpus"]["max"] <= most * each:
        raise NotAdoptable(
            f"it may have {shadow['gpus']['min']} to {shadow['gpus']['max']} GPUs, and worker group "
            f"{group.spec['groupName']} {least} to {most} workers of {each}, by which KubeRay holds it: change "
            "minReplicas and maxReplicas, or the annotation"
        )
    return shadow


def _group(spec: Mapping[str, Any]) -> _WorkerGroup:
    """The only worker group that requests GPUs. Raises NotAdoptable if there is none, or more than one."""
    listed = (spec.get("rayClusterSpec") or {}).get("workerGroupSpecs") or ()
    groups = [_WorkerGroup(at, each) for at, each in enumerate(listed) if asks_for_gpus(each["template"])]
    if len(groups) == 1:
        return groups[0]
    if not groups:
        raise NotAdoptable(
            "none of spec.rayClusterSpec.workerGroupSpecs asks for GPUs, and Charterer pays for jobs with GPUs only: "
            f"take the label off{unsaid_gpus(each['template'] for each in listed)}"
        )
    raise NotAdoptable(
        f"worker groups {names([str(group.spec['groupName']) for group in groups])} ask for GPUs: only one group may; "
        "make one of them, or a RayJob of each"
    )


def _replicas(group: _WorkerGroup, replicas: int) -> list[Json]:
    return [] if group.replicas == replicas else [{"op": "add", "path": f"{group.path}/replicas", "value": replicas}]
