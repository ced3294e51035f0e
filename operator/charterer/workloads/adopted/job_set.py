"""A team's own JobSet, carried out in place: the one group of it that asks for GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from charterer.api.decode.core import sentence, since
from charterer.api.metadata import ObjectMeta, Raw, true_condition
from charterer.api.models.base import Json
from charterer.cluster.patches import uid_test
from charterer.cluster.paths import Resource
from charterer.domain.job import Allocation, Job
from charterer.domain.jobs.target import Target
from charterer.domain.time import Instant
from charterer.sentences import names
from charterer.workloads.adopted.asks import Elasticity, asked, shadow_spec, wants_spot, when_given_up
from charterer.workloads.adopted.job import spot_refused_by_job
from charterer.workloads.adopted.labelled_kind import LabelledKind
from charterer.workloads.adopted.noted import (
    asks_for_gpus,
    failed_condition,
    given_back,
    is_held,
    kept_running,
    note_given_up,
    note_original,
    original,
    placed_run,
    refuse_other_owners,
    resumed,
)
from charterer.workloads.adopted.placed_template import (
    authors_parts,
    authors_template,
    bare_again,
    placed_template,
    template_changes,
)
from charterer.workloads.adopted.target_kind import NotAdoptable, TargetKind, Write

JOB_SETS: Final = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", namespaced=True)
_OWN_CONTROLLER: Final = "jobset.sigs.k8s.io/jobset-controller"
_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_BEGUN: Final = ("ready", "succeeded", "failed")
_FIXED: Final = "JobSet refuses to change it; leave the annotation out"


class _ReplicatedGroup(NamedTuple):
    """The group with GPUs: its place among the replicatedJobs, its name, and how many Jobs of how many pods it has."""

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
    """See ``TargetKind``. Its width is fixed: JobSet refuses to change it in every state, but for an alpha gate."""

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
        return f"jobset.sigs.k8s.io/jobset-name={raw['metadata']['name']}"

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
        """See ``TargetKind.fail``. No field of its spec ends it, so it gets the condition of one that has failed."""
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
    """The one group that asks for GPUs. Raises NotAdoptable where there is none, or several."""
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
        )
    raise NotAdoptable(
        f"spec.replicatedJobs {names([group.name for group in groups])} ask for GPUs: only one group may; make one "
        "replicatedJob of them, or a JobSet of each"
    )


def _controllers(name: str, group: _ReplicatedGroup | None) -> list[str]:
    """Names of the Jobs that JobSet makes of the group."""
    return [] if group is None else [f"{name}-{group.name}-{at}" for at in range(group.jobs)]


def _labels(group: _ReplicatedGroup | None) -> Mapping[str, str]:
    return {} if group is None else (group.template.get("metadata") or {}).get("labels") or {}


def _refuse_exclusive(meta: ObjectMeta, spec: Mapping[str, Any]) -> None:
    """Affinities that JobSet's webhook adds for exclusive placement would contradict the pool that was chosen."""
    groups = [(each["template"].get("metadata") or {}).get("annotations") or {} for each in spec["replicatedJobs"]]
    if any(_EXCLUSIVE in annotations for annotations in (meta.annotations, *groups)):
        raise NotAdoptable(
            f"the annotation {_EXCLUSIVE} lets JobSet choose nodes too, and the two choices would exclude each other: "
            "take it off; the nodes of a run are its own anyway where its pods fill them"
        )


def _spot_refused(spec: Mapping[str, Any], group: _ReplicatedGroup) -> str:
    """Why a pod that is lost with its node fails the JobSet for good; empty where it survives that."""
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
