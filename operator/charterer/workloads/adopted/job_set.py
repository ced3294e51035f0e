"""A team's own JobSet, or a TrainJob of Kubeflow Trainer 2, which creates a JobSet. Both kinds are adopted in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from charterer.api.decode.core import optional_instant, sentence, since
from charterer.api.metadata import ObjectMeta, Raw, gpus_of, true_condition
from charterer.api.models.base import Json
from charterer.api.names import ANNOTATION_RESOURCE, GROUP
from charterer.api.template import gpu_resource
from charterer.cluster.kinds import uid_test
from charterer.cluster.paths import Resource
from charterer.domain.job import Allocation, Job
from charterer.domain.reports import Progress
from charterer.domain.target import Target
from charterer.domain.time import Instant
from charterer.sentences import names
from charterer.server.listener import Refused
from charterer.server.progress import trainer_report
from charterer.workloads.adopted.asks import Elasticity, LabelledKind, asked, shadow_spec, wants_spot, when_given_up
from charterer.workloads.adopted.job import spot_refused_by_job
from charterer.workloads.adopted.noted import (
    asks_for_gpus,
    authors_parts,
    authors_template,
    bare_again,
    failed_condition,
    given_back,
    is_held,
    kept_running,
    note_given_up,
    note_original,
    original,
    placed_run,
    placed_template,
    refuse_other_owners,
    resumed,
    template_changes,
    unsaid_gpus,
)
from charterer.workloads.adopted.target_kind import NotAdoptable, TargetKind, Write

JOB_SETS: Final = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", namespaced=True)
_OWN_CONTROLLER: Final = "jobset.sigs.k8s.io/jobset-controller"
_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_BEGUN: Final = ("ready", "succeeded", "failed")
_FIXED: Final = "JobSet refuses to change it; leave the annotation out"


class _ReplicatedGroup(NamedTuple):
    """The replicatedJob with GPUs: its index, its name, its number of Jobs, and the number of pods in each."""

    at: int
    name: str
    jobs: int
    pods_each: int
    spec: Mapping[str, Any]

    @property
    def template(self) -> Mapping[str, Any]:
        template: Mapping[str, Any] = self.spec["template"]
        return template

    @property
    def path(self) -> str:
        return f"/spec/replicatedJobs/{self.at}/template/spec/template"


class AdoptedJobSet(LabelledKind):
    """See ``TargetKind``.

    The width is fixed, because JobSet refuses to change it in every state. Only an alpha feature gate would allow it.
    """

    def __init__(self) -> None:
        super().__init__("JobSet", JOB_SETS)

    def read(self, raw: Raw) -> Target:
        """See ``TargetKind.read``."""
        meta = ObjectMeta.of(self.name, raw)
        spec, status = raw.get("spec") or {}, raw.get("status") or {}
        wanted, problem, warning, group = None, "", "", None
        try:
            group = _group(spec)
            wanted = asked(_shadow(meta, raw, group))
        except NotAdoptable as error:
            problem = str(error)
        else:
            warning = _spot_refused(spec, group) if wants_spot(meta) else ""
        failed = true_condition(status, "Failed")
        job, run = placed_run(_labels(group))
        suspended = bool(spec.get("suspend"))
        groups = status.get("replicatedJobsStatus") or ()
        return Target(
            ref=self._ref(meta),
            namespace=meta.namespace,
            resource_version=meta.resource_version,
            created=meta.created,
            suspended=suspended,
            deleting=meta.deleting,
            job=job,
            run=run,
            pods=1 if group is None else group.jobs * group.pods_each,
            indexed=group is not None and group.jobs == 1,
            controllers=frozenset(_controllers(meta.name, group)),
            placeable=suspended and true_condition(status, "Suspended") is not None,
            begun=bool(status.get("restarts")) or any(each.get(word) for each in groups for word in _BEGUN),
            held=is_held(raw),
            started=None if suspended else since(resumed(status)) or meta.created,
            complete=since(true_condition(status, "Completed")),
            failed=since(failed),
            failed_message="" if failed is None else sentence(failed),
            asked=wanted,
            problem=problem,
            warning=warning or kept_running(raw),
            when_given_up=when_given_up(meta),
        )

    def shadow(self, raw: Raw) -> Json:
        """See ``TargetKind.shadow``."""
        return _shadow(ObjectMeta.of(self.name, raw), raw, _group(raw["spec"]))

    def selector(self, raw: Raw) -> str:
        """See ``TargetKind.selector``."""
        return _pods_of(raw)

    def place(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """See ``TargetKind.place``."""
        group, noted = _group(raw["spec"]), original(raw)
        operations: list[Json] = []
        if not noted:
            noted = {**authors_parts(group.template), "metadata": "metadata" in group.template}
            operations += note_original(raw, noted)
        template = placed_template(authors_template(group.template, noted), job, allocation)
        return self._patched(raw, [*operations, *template_changes(group.path, group.template, template)])

    def fail(self, raw: Raw, reason: str, message: str, now: Instant) -> Sequence[Write]:
        """See ``TargetKind.fail``. No field of the spec ends a JobSet, so its status gets the condition Failed."""
        meta = raw["metadata"]
        path = JOB_SETS.status(meta["name"], meta["namespace"])
        failed = Write(path, (uid_test(meta["uid"]), failed_condition(reason, message, now)), own=False)
        return (*self._patched(raw, note_given_up(raw, reason, message)), failed)

    def restore(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.restore``."""
        noted = original(raw)
        if not noted:
            return self._patched(raw, given_back(raw))
        group = _group(raw["spec"])
        wanted = authors_template(group.template, noted)
        operations = [*template_changes(group.path, group.template, wanted), *bare_again(group.path, noted)]
        return self._patched(raw, [*operations, *given_back(raw)])


ADOPTED_JOB_SET: Final[TargetKind] = AdoptedJobSet()


def _shadow(meta: ObjectMeta, raw: Raw, group: _ReplicatedGroup) -> Json:
    spec = raw["spec"]
    refuse_other_owners(meta, spec, _OWN_CONTROLLER)
    _refuse_exclusive(meta, spec)
    parallelism, completions = group.pods_each, group.spec.get("completions", group.pods_each)
    if completions != parallelism or parallelism < 1 or group.jobs < 1:
        raise NotAdoptable(
            f"replicatedJob {group.name} has replicas {group.jobs}, parallelism {parallelism} and completions "
            f"{completions}: only Jobs whose pods all run at the same time are adopted; make the last two equal"
        )
    return shadow_spec(
        meta,
        authors_template(group.template, original(raw)),
        group.jobs * parallelism,
        Elasticity(width=False, in_place=False, because=_FIXED),
        _spot_refused(spec, group),
    )


def _group(spec: Mapping[str, Any]) -> _ReplicatedGroup:
    """The only replicatedJob that requests GPUs. Raises NotAdoptable if there is none, or more than one."""
    groups = [
        _ReplicatedGroup(at, each["name"], each.get("replicas", 1), job.get("parallelism", 1), job)
        for at, each in enumerate(spec.get("replicatedJobs") or ())
        if asks_for_gpus((job := each["template"]["spec"])["template"])
    ]
    if len(groups) == 1:
        return groups[0]
    if not groups:
        raise NotAdoptable(
            "none of spec.replicatedJobs asks for GPUs, and Charterer pays for jobs with GPUs only: take the label off"
            + unsaid_gpus(each["template"]["spec"]["template"] for each in spec.get("replicatedJobs") or ())
        )
    raise NotAdoptable(
        f"spec.replicatedJobs {names([group.name for group in groups])} ask for GPUs: only one group may; make one "
        "replicatedJob of them, or a JobSet of each"
    )


def part_of(name: str) -> str:
    """Label selector of the Jobs and pods of the JobSet of this name. Trainer's JobSet has the TrainJob's name."""
    return f"jobset.sigs.k8s.io/jobset-name={name}"


def _pods_of(raw: Raw) -> str:
    """The label selector of the pods of the JobSet with this object's name."""
    return part_of(raw["metadata"]["name"])


def _controllers(name: str, group: _ReplicatedGroup | None) -> list[str]:
    """The names of the Jobs that JobSet creates for the replicatedJob."""
    return [] if group is None else [f"{name}-{group.name}-{at}" for at in range(group.jobs)]


def _labels(group: _ReplicatedGroup | None) -> Mapping[str, str]:
    return {} if group is None else (group.template.get("metadata") or {}).get("labels") or {}


def _refuse_exclusive(meta: ObjectMeta, spec: Mapping[str, Any]) -> None:
    """Refuse exclusive placement, because JobSet's webhook adds affinities for it that would contradict the chosen
    pool.
    """
    groups = [(each["template"].get("metadata") or {}).get("annotations") or {} for each in spec["replicatedJobs"]]
    if any(_EXCLUSIVE in annotations for annotations in (meta.annotations, *groups)):
        raise NotAdoptable(
            f"the annotation {_EXCLUSIVE} lets JobSet choose nodes too, and the two choices would exclude each other: "
            "take it off; the nodes of a run are its own anyway where its pods fill them"
        )


def _spot_refused(spec: Mapping[str, Any], group: _ReplicatedGroup) -> str:
    """The reason why losing a pod with its node fails the JobSet for good, or an empty text if it survives that."""
    by_job = spot_refused_by_job(group.spec)
    policy = spec.get("failurePolicy") or {}
    if not by_job or (policy.get("maxRestarts", 0) > 0 and not policy.get("rules")):
        return ""
    if policy.get("rules"):
        return "its failurePolicy has rules, and what they make of a lost node is not known: leave them out"
    return (
        "it has no failurePolicy that restarts it, so a lost node would end it for good: give it "
        "failurePolicy.maxRestarts"
    )


# A team's own TrainJob of Kubeflow Trainer 2, adopted in place at its own width.
#
# Trainer copies the pod template from the TrainJob's runtime. Charterer changes the template by one entry of
# ``spec.runtimePatches``. The entry has a manager name of its own.


TRAIN_JOBS: Final = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", namespaced=True)
MANAGER: Final = f"{GROUP}/operator"
"""The manager name of Charterer's entry in ``runtimePatches``. Trainer requires a path with a domain."""
_TRAINER_CONTROLLER: Final = "trainer.kubeflow.org/trainjob-controller"
_GROUP: Final = "node"
"""The replicatedJob of a runtime whose pods train. Trainer's convention gives it this name."""
_PATCHES: Final = "/spec/runtimePatches"
_TRAIN_JOB_FIXED: Final = "Trainer refuses to change spec.trainer.numNodes; leave the annotation out"
_SPOT_REFUSED: Final = (
    "what a lost node does to a TrainJob is up to its runtime, which is not read here and mostly ends it for good"
)


class AdoptedTrainJob(LabelledKind):
    """See ``TargetKind``. The width of a TrainJob is fixed, and it never gets spot nodes."""

    def __init__(self) -> None:
        super().__init__("TrainJob", TRAIN_JOBS)

    def read(self, raw: Raw) -> Target:
        """See ``TargetKind.read``. The labels in Charterer's own patch identify the run."""
        meta = ObjectMeta.of(self.name, raw)
        spec, status = raw.get("spec") or {}, raw.get("status") or {}
        wanted, problem = None, ""
        try:
            wanted = asked(self.shadow(raw))
        except NotAdoptable as error:
            problem = str(error)
        failed = true_condition(status, "Failed")
        job, run = placed_run(_train_job_labels(raw))
        suspended = bool(spec.get("suspend"))
        groups = status.get("jobsStatus") or ()
        started = None if suspended else since(resumed(status)) or meta.created
        return Target(
            ref=self._ref(meta),
            namespace=meta.namespace,
            resource_version=meta.resource_version,
            created=meta.created,
            suspended=suspended,
            deleting=meta.deleting,
            job=job,
            run=run,
            pods=(spec.get("trainer") or {}).get("numNodes") or 1,
            indexed=True,
            controllers=frozenset([f"{meta.name}-{_GROUP}-0"]),
            placeable=suspended and true_condition(status, "Suspended") is not None,
            begun=any(each.get(word) for each in groups for word in _BEGUN),
            held=is_held(raw),
            started=started,
            complete=since(true_condition(status, "Complete")),
            failed=since(failed),
            failed_message="" if failed is None else sentence(failed),
            progress=_progress(status.get("trainerStatus") or {}, run, started),
            asked=wanted,
            problem=problem,
            warning=(_SPOT_REFUSED if not problem and wants_spot(meta) else "") or kept_running(raw),
            when_given_up=when_given_up(meta),
        )

    def shadow(self, raw: Raw) -> Json:
        """See ``TargetKind.shadow``. The template has only what the TrainJob itself declares for its pods."""
        meta, spec = ObjectMeta.of(self.name, raw), raw["spec"]
        refuse_other_owners(meta, spec, _TRAINER_CONTROLLER)
        trainer = spec.get("trainer") or {}
        resources, nodes = trainer.get("resourcesPerNode") or {}, trainer.get("numNodes")
        said = {key: value for key, value in meta.annotations.items() if key == ANNOTATION_RESOURCE}
        container = {
            "name": _GROUP,
            **({"image": trainer["image"]} if trainer.get("image") else {}),
            "resources": resources,
        }
        template: Json = {**({"metadata": {"annotations": said}} if said else {}), "spec": {"containers": [container]}}
        resource = gpu_resource(template)
        try:
            gpus = gpus_of({"resources": resources}, resource)
        except ValueError as error:
            raise NotAdoptable(f"spec.trainer.resourcesPerNode.limits[{resource}]: {error}") from None
        if not gpus or not nodes:
            raise NotAdoptable(
                f"spec.trainer.numNodes is {nodes} and spec.trainer.resourcesPerNode.limits[{resource}] {gpus}: "
                f"write both into the TrainJob; what its runtime says is not looked at{unsaid_gpus([template])}"
            )
        return shadow_spec(
            meta,
            template,
            nodes,
            Elasticity(width=False, in_place=False, because=_TRAIN_JOB_FIXED),
            _SPOT_REFUSED,
        )

    def selector(self, raw: Raw) -> str:
        """See ``TargetKind.selector``. Trainer's JobSet has the TrainJob's name."""
        return _pods_of(raw)

    def place(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """See ``TargetKind.place``.

        The pods keep their labels, annotations and node selector, but their tolerations are replaced.
        """
        patches = raw["spec"].get("runtimePatches")
        notes = [] if original(raw) else note_original(raw, {"runtimePatches": patches is not None})
        pods = placed_template({"spec": {}}, job, allocation)
        group = {"name": _GROUP, "template": {"spec": {"template": pods}}}
        own = {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [group]}}}}
        wanted = [*_of_others(patches), own]
        return self._patched(raw, [*notes, {"op": "add", "path": _PATCHES, "value": wanted}])

    def fail(self, raw: Raw, reason: str, message: str, now: Instant) -> Sequence[Write]:
        """See ``TargetKind.fail``. A TrainJob's deadline is immutable. So its JobSet is failed, and Trainer then fails
        the TrainJob.
        """
        meta = raw["metadata"]
        path = JOB_SETS.status(meta["name"], meta["namespace"])
        of_it = {"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": meta["uid"]}
        failed = Write(path, (of_it, failed_condition(reason, message, now)), own=False)
        return (*self._patched(raw, note_given_up(raw, reason, message)), failed)

    def restore(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.restore``."""
        patches = raw["spec"].get("runtimePatches")
        operations: list[Json] = []
        if original(raw) and patches is not None:
            others = _of_others(patches)
            keep = others or original(raw).get("runtimePatches")
            operations = [
                {"op": "add", "path": _PATCHES, "value": others} if keep else {"op": "remove", "path": _PATCHES}
            ]
        return self._patched(raw, [*operations, *given_back(raw)])


ADOPTED_TRAIN_JOB: Final[TargetKind] = AdoptedTrainJob()


def _of_others(patches: Sequence[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    return [patch for patch in patches or () if patch.get("manager") != MANAGER]


def _progress(status: Mapping[str, Any], run: int, started: Instant | None) -> Progress | None:
    """The progress that Kubeflow Trainer stores in the TrainJob's status (feature gate TrainJobStatus), if any.

    ``started`` is None while the TrainJob is suspended. Its last report then counts. A report from before ``started``
    belongs to an earlier run and is ignored.
    """
    try:
        at, report = optional_instant(status, "lastUpdatedTime"), trainer_report(status, 0, stopping=started is None)
    except (ValueError, Refused):
        return None
    if at is None or (started is not None and at < started) or not report.says_something:
        return None
    return Progress(run=run, fraction=report.done, step=report.step, throughput=None, at=at)


def _train_job_labels(raw: Raw) -> Mapping[str, str]:
    """The pod labels in Charterer's own patch, or empty without a patch."""
    for patch in raw["spec"].get("runtimePatches") or ():
        if patch.get("manager") == MANAGER:
            template = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
            for group in (template.get("spec") or {}).get("replicatedJobs") or ():
                pods = (((group.get("template") or {}).get("spec") or {}).get("template")) or {}
                labels: Mapping[str, str] = (pods.get("metadata") or {}).get("labels") or {}
                return labels
    return {}
