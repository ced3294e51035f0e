"""A team's own TrainJob of Kubeflow Trainer 2, carried out in place at its own width.

Its pods' template is its runtime's, which Trainer copies. What Charterer writes over it is one entry of
``spec.runtimePatches``, under a manager of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from charterer.api.decode.core import optional_instant, sentence, since
from charterer.api.metadata import ObjectMeta, Raw, gpus_of, true_condition
from charterer.api.models.base import Json
from charterer.api.names import GROUP
from charterer.api.template import gpu_resource
from charterer.cluster.paths import Resource
from charterer.domain.job import Allocation, Job
from charterer.domain.jobs.target import Target
from charterer.domain.reports.progress import Progress
from charterer.domain.time import Instant
from charterer.server.errors import Refused
from charterer.server.trainer_status import trainer_report
from charterer.workloads.adopted.asks import Elasticity, asked, shadow_spec, wants_spot, when_given_up
from charterer.workloads.adopted.job_set import JOB_SETS
from charterer.workloads.adopted.labelled_kind import LabelledKind
from charterer.workloads.adopted.noted import (
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
from charterer.workloads.adopted.placed_template import placed_template
from charterer.workloads.adopted.target_kind import NotAdoptable, TargetKind, Write

TRAIN_JOBS: Final = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", namespaced=True)
MANAGER: Final = f"{GROUP}/operator"
"""Under whose name Charterer's entry of ``runtimePatches`` is. Trainer wants a path with a domain."""
_OWN_CONTROLLER: Final = "trainer.kubeflow.org/trainjob-controller"
_GROUP: Final = "node"
"""The replicatedJob of a runtime whose pods train, by Trainer's convention."""
_PATCHES: Final = "/spec/runtimePatches"
_BEGUN: Final = ("ready", "succeeded", "failed")
_FIXED: Final = "Trainer refuses to change spec.trainer.numNodes; leave the annotation out"
_SPOT_REFUSED: Final = (
    "what a lost node does to a TrainJob is up to its runtime, which is not read here and mostly ends it for good"
)


class AdoptedTrainJob(LabelledKind):
    """See ``TargetKind``. Its width is fixed, and it never gets spot nodes."""

    def __init__(self) -> None:
        super().__init__("TrainJob", TRAIN_JOBS)

    def read(self, raw: Raw) -> Target:
        """See ``TargetKind.read``. Its runs are told by the labels of Charterer's own patch."""
        meta = ObjectMeta.of(self.name, raw)
        spec, status = raw.get("spec") or {}, raw.get("status") or {}
        wanted, problem = None, ""
        try:
            wanted = asked(self.shadow(raw))
        except NotAdoptable as error:
            problem = str(error)
        failed = true_condition(status, "Failed")
        job, run = placed_run(_labels(raw))
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
        """See ``TargetKind.shadow``. The template says only what the TrainJob itself says of its pods."""
        meta, spec = ObjectMeta.of(self.name, raw), raw["spec"]
        refuse_other_owners(meta, spec, _OWN_CONTROLLER)
        trainer = spec.get("trainer") or {}
        resources, nodes = trainer.get("resourcesPerNode") or {}, trainer.get("numNodes")
        resource = gpu_resource({"spec": {"containers": [{"resources": resources}]}})
        try:
            gpus = gpus_of({"resources": resources}, resource)
        except ValueError as error:
            raise NotAdoptable(f"spec.trainer.resourcesPerNode.limits[{resource}]: {error}") from None
        if not gpus or not nodes:
            raise NotAdoptable(
                f"spec.trainer.numNodes is {nodes} and spec.trainer.resourcesPerNode.limits[{resource}] {gpus}: "
                "write both into the TrainJob; what its runtime says is not looked at"
            )
        container = {
            "name": _GROUP,
            **({"image": trainer["image"]} if trainer.get("image") else {}),
            "resources": resources,
        }
        return shadow_spec(
            meta,
            {"spec": {"containers": [container]}},
            nodes,
            Elasticity(width=False, in_place=False, because=_FIXED),
            _SPOT_REFUSED,
        )

    def selector(self, raw: Raw) -> str:
        """See ``TargetKind.selector``. Trainer's JobSet has the TrainJob's name."""
        return f"jobset.sigs.k8s.io/jobset-name={raw['metadata']['name']}"

    def place(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """See ``TargetKind.place``. The pods' own labels, annotations and selector stay; tolerations are replaced."""
        patches = raw["spec"].get("runtimePatches")
        notes = [] if original(raw) else note_original(raw, {"runtimePatches": patches is not None})
        pods = placed_template({"spec": {}}, job, allocation)
        group = {"name": _GROUP, "template": {"spec": {"template": pods}}}
        own = {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [group]}}}}
        wanted = [*_of_others(patches), own]
        return self._patched(raw, [*notes, {"op": "add", "path": _PATCHES, "value": wanted}])

    def fail(self, raw: Raw, reason: str, message: str, now: Instant) -> Sequence[Write]:
        """See ``TargetKind.fail``. Its deadline cannot be changed, so its JobSet is ended, and Trainer follows that."""
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
    """What the pods last told Kubeflow Trainer of the run, where that keeps it (the feature gate TrainJobStatus).

    ``started``: None while it is suspended, and its last words count. What was said before the present start was said
    by an earlier run.
    """
    try:
        at, report = optional_instant(status, "lastUpdatedTime"), trainer_report(status, 0, stopping=started is None)
    except (ValueError, Refused):
        return None
    if at is None or (started is not None and at < started) or not report.says_something:
        return None
    return Progress(run=run, fraction=report.done, step=report.step, throughput=None, at=at)


def _labels(raw: Raw) -> Mapping[str, str]:
    """The labels that Charterer's own patch gives the pods; empty where there is none."""
    for patch in raw["spec"].get("runtimePatches") or ():
        if patch.get("manager") == MANAGER:
            template = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
            for group in (template.get("spec") or {}).get("replicatedJobs") or ():
                pods = (((group.get("template") or {}).get("spec") or {}).get("template")) or {}
                labels: Mapping[str, str] = (pods.get("metadata") or {}).get("labels") or {}
                return labels
    return {}
