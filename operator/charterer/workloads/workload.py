"""A run and the Kubernetes object that carries it out: its pod template, and the Indexed Job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, Protocol

from charterer.api.decode.core import optional_instant, sentence, since, training_job_of
from charterer.api.metadata import ObjectMeta, Raw, true_condition
from charterer.api.models.base import Json
from charterer.api.names import (
    ALLOCATION_FILE,
    ANNOTATION_ALLOCATION,
    ANNOTATION_CA,
    ANNOTATION_TEMPLATE,
    API_VERSION,
    CA_FILE,
    COMPLETION_INDEX,
    GPU_RESOURCES,
    LABEL_JOB,
    LABEL_JOB_UID,
    LABEL_RUN,
    MOUNT_PATH,
    RENDEZVOUS_PORT,
    TOKEN_FILE,
    TRAINER_STATUS_PATH,
    token_audience,
)
from charterer.api.node_demands import placing_tolerations
from charterer.api.template import digest
from charterer.cluster.client import RawObject
from charterer.cluster.paths import JOBS
from charterer.cluster.store import WatchedKind
from charterer.domain.ids import JobId
from charterer.domain.job import RESTART_EXIT_CODE, Allocation, Job, ResizePolicy, Run
from charterer.domain.pod import run_name, run_number
from charterer.gpu_types import USABLE_MEMORY, sharers


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """The URL at which a run's pods report progress, and the PEM of the CA that signed the endpoint's certificate."""

    progress_url: str
    ca_pem: str


class NotATemplate(Exception):
    """The pod template is malformed. The schema of TrainingJob does not validate it."""


class Workload(Protocol):
    """One kind of object that carries out runs. Its methods are pure: they make request bodies and send nothing."""

    @property
    def kind(self) -> WatchedKind[tuple[JobId, Run]]:
        """The watched kind: the resource, the selector of runs, and the decoder, which leaves ``Run.pods`` empty."""
        ...

    def service(self, job: Job) -> RawObject:
        """The headless Service that gives the pods of all runs of the job their DNS names."""
        ...

    def manifest(
        self, job: Job, training_job: Mapping[str, Any], allocation: Allocation, environment: RunEnvironment
    ) -> RawObject:
        """The suspended object of the allocation's run. Each placement has one pod, bound to the placement's node.

        ``training_job`` is the raw object of ``job``, because the store does not keep its template. Raises
        NotATemplate, or ValueError if pods of this kind cannot have the placements' widths.
        """
        ...

    def unmodified(self, job: Job, training_job: Mapping[str, Any]) -> RawObject:
        """An object with the user's unchanged template, which the API server validates in a dry run."""
        ...

    def suspend(self) -> RawObject:
        """The merge patch that stops a run. Its pods get SIGTERM and their grace period."""
        ...

    def resume(self) -> RawObject:
        """The merge patch that lets a suspended run's pods start."""
        ...

    def resize(self, run: Run, pods: int, retries: int) -> RawObject:
        """The merge patch that changes the number of a run's pods in place. The pods with the lowest indexes stay.

        From now on, ``retries`` more pods may fail before the run fails. So pods that join cannot end the training of
        the other pods.
        """
        ...


# The template of a job with one of its variants applied.


def with_variant(template: Mapping[str, Any], variants: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """The template with the variant's variables and arguments in its first container. An empty name changes nothing.

    ``variants``: as in the spec. Raises NotATemplate if no variant has the name any more.
    """
    if not name:
        return template
    chosen = next((variant for variant in variants if variant["name"] == name), None)
    if chosen is None:
        named = ", ".join(variant["name"] for variant in variants) or "none"
        raise NotATemplate(
            f"spec.variants: its next run was planned as variant {name}, and the spec names {named}: change the spec "
            "once more to have the job planned anew"
        )
    first, *others = template["spec"]["containers"]
    trainer: Json = dict(first)
    added = chosen.get("env") or []
    if added:
        replaced = {variable["name"] for variable in added}
        kept = [variable for variable in first.get("env") or () if variable.get("name") not in replaced]
        trainer["env"] = [*kept, *added]
    if chosen.get("args") is not None:
        trainer["args"] = list(chosen["args"])
    return {**template, "spec": {**template["spec"], "containers": [trainer, *others]}}


# The pod template of a run: the user's own, overlaid with GPUs, placement, rendezvous and progress reporting.
#
# docs/development/architecture.md ("Names in the cluster") lists the values.


_FOREIGN_QUEUES: Final = "kueue.x-k8s.io/"
"""Prefix of the labels and annotations by which Kueue would manage the pods."""
_VOLUME: Final = "charterer"
_RANK: Final = "PET_NODE_RANK"
_LAST_WORDS: Final = {"terminationMessagePolicy": "FallbackToLogsOnError"}
"""The policy by which a failed container's last log lines become its termination message. They are needed because the
pod is deleted.
"""
KEEP_UNDISTURBED: Final = {
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
"""Pod annotations that keep autoscalers from evicting the pods."""
_TOKEN_SECONDS: Final = 3600
"""Lifetime in seconds of the token for progress reports. The kubelet renews the token at 80 % of its lifetime."""


def pod_template(
    job: Job, spec: Mapping[str, Any], allocation: Allocation, labels: Json, environment: RunEnvironment
) -> Json:
    """The pod template of the job's ``spec``, overlaid with the values of the allocation's variant and with Charterer's
    own values.

    Everything else stays as it is. Raises NotATemplate.
    """
    try:
        template = with_variant(spec["template"], spec.get("variants") or (), allocation.option.variant)
        return _with_own_values(job, template, allocation, labels, environment)
    except (AttributeError, TypeError, ValueError) as error:
        raise NotATemplate(f"it does not have the shape of a pod template ({error})") from error


def pod_address(job: Job, run: int, index: int) -> str:
    """The DNS name of a run's pod within its namespace. The name exists before the pod is ready."""
    return f"{run_name(job.name, run)}-{index}.{job.name}"


def _with_own_values(
    job: Job, template: Mapping[str, Any], allocation: Allocation, labels: Json, environment: RunEnvironment
) -> Json:
    metadata: Json = template.get("metadata") or {}
    spec: Json = deepcopy(dict(template["spec"]))
    spec |= {
        "restartPolicy": "Never",
        "subdomain": job.name,
        "nodeSelector": (spec.get("nodeSelector") or {}) | {job.run_label: allocation.label_value},
        "tolerations": [*(spec.get("tolerations") or []), *placing_tolerations(allocation.option.device)],
        "volumes": [*_without(spec.get("volumes"), _VOLUME), _volume(job)],
    }
    trainer, *sidecars = spec["containers"]
    containers = [_trainer(job, trainer, allocation, environment), *sidecars]
    spec["containers"] = [_LAST_WORDS | container for container in containers]
    annotations = {ANNOTATION_ALLOCATION: allocation.annotation, ANNOTATION_CA: environment.ca_pem, **KEEP_UNDISTURBED}
    return {
        "metadata": {
            "labels": _without_other_queues(metadata.get("labels")) | labels,
            "annotations": _without_other_queues(metadata.get("annotations")) | annotations,
        },
        "spec": spec,
    }


def _without_other_queues(entries: Mapping[str, str] | None) -> Json:
    """Labels or annotations without those that would let another queue manage the pods."""
    return {key: value for key, value in (entries or {}).items() if not key.startswith(_FOREIGN_QUEUES)}


def _without(entries: Iterable[Json] | None, *names: str) -> list[Json]:
    """Entries (volumes, mounts, variables) except those with these names."""
    return [entry for entry in entries or () if entry.get("name") not in names]


def run_labels(job: Job, run: int) -> Json:
    """The labels of a run and of its pods."""
    return {LABEL_JOB_UID: str(job.id), LABEL_JOB: job.name, LABEL_RUN: str(run)}


def _volume(job: Job) -> Json:
    """A volume with the token for progress reports, the progress endpoint's CA certificate, and the allocation."""
    token = {"audience": token_audience(job.id), "expirationSeconds": _TOKEN_SECONDS, "path": _file(TOKEN_FILE)}
    annotations = [
        {"path": _file(path), "fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}
        for path, annotation in ((ALLOCATION_FILE, ANNOTATION_ALLOCATION), (CA_FILE, ANNOTATION_CA))
    ]
    return {
        "name": _VOLUME,
        "projected": {"sources": [{"serviceAccountToken": token}, {"downwardAPI": {"items": annotations}}]},
    }


def _file(path: str) -> str:
    return path.removeprefix(f"{MOUNT_PATH}/")


def _trainer(job: Job, container: Json, allocation: Allocation, environment: RunEnvironment) -> Json:
    """The user's first container with its GPUs, variables and mount. Charterer's variables replace those of the same
    name. Others stay.
    """
    gpus = {allocation.option.resource: str(allocation.placements[0].gpus)}
    named = {*GPU_RESOURCES, job.demands.resource}
    resources = container.get("resources") or {}
    own = [*_environment(job, allocation, environment), *_memory_limits(container, allocation)]
    mounts = [
        mount for mount in _without(container.get("volumeMounts"), _VOLUME) if mount.get("mountPath") != MOUNT_PATH
    ]
    return container | {
        "env": [*_without(container.get("env"), *(str(variable["name"]) for variable in own)), *own],
        "resources": resources
        | {
            name: {key: value for key, value in (resources.get(name) or {}).items() if key not in named} | gpus
            for name in ("limits", "requests")
        },
        "volumeMounts": [*mounts, {"name": _VOLUME, "mountPath": MOUNT_PATH, "readOnly": True}],
    }


def _memory_limits(container: Json, allocation: Allocation) -> list[Json]:
    """Variables that limit frameworks to the job's share of a shared GPU's memory, unless the user sets them.

    JAX otherwise allocates three quarters of a GPU when it starts, TensorFlow all of it.
    """
    jobs = sharers(allocation.option.slice)
    said = {variable.get("name") for variable in container.get("env") or ()}
    values = {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{USABLE_MEMORY / jobs:.2f}", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    return [{"name": name, "value": value} for name, value in values.items() if jobs > 1 and name not in said]


def _environment(job: Job, allocation: Allocation, environment: RunEnvironment) -> list[Json]:
    """The variables for a static launch by torchrun (PET_*) and JAX, and those for charterer_trainer.

    A job that is resized in place gets no variable with the number of pods, because pods that join later would get the
    old number. The torchrun of such a job must also not share the rendezvous store with the workers. Otherwise torchrun
    would keep the address of its first round, and a pod that joins would wait for another address until all agents
    fail.

    The address of the first pod is the shortest name that the pods' DNS search list completes. The first entry of the
    list completes this name. A longer name, with the namespace, would only be found after two entries of the list had
    failed.
    """
    master = pod_address(job, allocation.run, 0)
    values = {
        "PET_NPROC_PER_NODE": str(allocation.placements[0].gpus),
        "PET_MASTER_ADDR": master,
        "PET_MASTER_PORT": str(RENDEZVOUS_PORT),
        "JAX_COORDINATOR_ADDRESS": f"{master}:{RENDEZVOUS_PORT}",
        "CHARTERER_JOB": job.name,
        "CHARTERER_NAMESPACE": job.namespace,
        "CHARTERER_RUN": str(allocation.run),
        "CHARTERER_PROGRESS_URL": environment.progress_url,
        "CHARTERER_CA": environment.ca_pem,
        "CHARTERER_TOKEN_FILE": TOKEN_FILE,
    }
    if job.variants:
        values["CHARTERER_VARIANT"] = allocation.option.variant
    if job.resize is ResizePolicy.IN_PLACE:
        values["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    else:
        values |= {"PET_NNODES": str(len(allocation.placements))} | _trainer_status(job, environment)
    index = {"fieldRef": {"fieldPath": f"metadata.annotations['{COMPLETION_INDEX}']"}}
    variables: list[Json] = [{"name": name, "value": value} for name, value in values.items()]
    return [{"name": _RANK, "valueFrom": index}, *variables]


def _trainer_status(job: Job, environment: RunEnvironment) -> dict[str, str]:
    """The variables of Kubeflow Trainer, with which Hugging Face's Trainer and Kubeflow's SDK report to Charterer.

    The kubelet inserts the pod's index into the URL. Interactive jobs do not get these variables, because their cells
    train one thing after another. Jobs that are resized in place do not get these variables, because such reports name
    no group.
    """
    if job.interactive is not None:
        return {}
    return {
        "KUBEFLOW_TRAINER_SERVER_URL": f"{environment.progress_url}{TRAINER_STATUS_PATH}/$({_RANK})",
        "KUBEFLOW_TRAINER_SERVER_TOKEN": TOKEN_FILE,
        "KUBEFLOW_TRAINER_SERVER_CA_CERT": CA_FILE,
    }


# A run as an Indexed batch/v1 Job: one pod for each placement, no retries, suspended until everything is ready.
#
# docs/development/lifecycle.md ("A run") describes its creation, stop and record.


_DISRUPTED: Final = "DisruptionTarget"
"""The pod condition of an eviction, a preemption or a lost node. A failed Job names it in its message."""


def decode_job(raw: Raw) -> tuple[JobId, Run] | None:
    """Decode a Job that is a run of a TrainingJob by its owner and name. ``pods`` stays empty. None for any other Job.

    A Job with such a name and a run's labels but no owner counts too, because it may have lost its owner
    (``Run.owned``).
    """
    meta = ObjectMeta.of("Job", raw)
    owner = training_job_of(meta)
    claimed = owner or (JobId(meta.labels.get(LABEL_JOB_UID, "")), meta.labels.get(LABEL_JOB, ""))
    number = run_number(meta.name, claimed[1])
    if number is None or not claimed[0] or (owner is None and meta.controller is not None):
        return None
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    failed = true_condition(status, "Failed")
    message = "" if failed is None else sentence(failed)
    failed_pods = status.get("failed") or 0
    run = Run(
        number=number,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        completions=spec.get("completions", 1),
        suspended=bool(spec.get("suspend")),
        deleting=meta.deleting,
        created=meta.created,
        started=optional_instant(status, "startTime"),
        complete=since(true_condition(status, "Complete")),
        failed=since(failed),
        failed_message=message,
        pods=(),
        failed_by_disruption=_DISRUPTED in message,
        owned=owner is not None,
        template=meta.annotations.get(ANNOTATION_TEMPLATE, ""),
        retries=max(spec.get("backoffLimit", 0) - failed_pods, 0),
        failed_pods=failed_pods,
    )
    return claimed[0], run


class IndexedJob:
    """See ``Workload``. The pods of a Job are identical, so every placement of an allocation has the same width."""

    kind: Final[WatchedKind[tuple[JobId, Run]]] = WatchedKind("Job", JOBS, decode_job, labels=LABEL_JOB_UID)

    def service(self, job: Job) -> Json:
        """See ``Workload.service``.

        The Service publishes the names even before the pods are ready, because the ranks wait for each other.
        """
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": job.name,
                "namespace": job.namespace,
                "labels": {LABEL_JOB_UID: job.id, LABEL_JOB: job.name},
                "ownerReferences": [_owner(job)],
            },
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {LABEL_JOB_UID: job.id},
            },
        }

    def manifest(
        self, job: Job, training_job: Mapping[str, Any], allocation: Allocation, environment: RunEnvironment
    ) -> Json:
        """See ``Workload.manifest``."""
        widths = {placement.gpus for placement in allocation.placements}
        if len(widths) != 1:
            run = f"TrainingJob {job.namespace}/{job.name} run {allocation.run}"
            raise ValueError(f"{run}: the pods of a Job are all alike, and cannot have {sorted(widths)} GPUs")
        labels = run_labels(job, allocation.run)
        pods = len(allocation.placements)
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": run_name(job.name, allocation.run),
                "namespace": job.namespace,
                "labels": labels,
                "annotations": {ANNOTATION_TEMPLATE: digest(training_job["spec"]["template"])},
                "ownerReferences": [_owner(job)],
            },
            "spec": {
                "suspend": True,
                "completionMode": "Indexed",
                "completions": pods,
                "parallelism": pods,
                "backoffLimit": 0,
                "podReplacementPolicy": "Failed",
                "podFailurePolicy": _pod_failure_policy(job.resize),
                "template": pod_template(job, training_job["spec"], allocation, labels, environment),
            },
        }

    def unmodified(self, job: Job, training_job: Mapping[str, Any]) -> Json:
        """See ``Workload.unmodified``."""
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": job.name, "namespace": job.namespace},
            "spec": {"suspend": True, "template": training_job["spec"]["template"]},
        }

    def suspend(self) -> Json:
        """See ``Workload.suspend``."""
        return {"spec": {"suspend": True}}

    def resume(self) -> Json:
        """See ``Workload.resume``."""
        return {"spec": {"suspend": False}}

    def resize(self, run: Run, pods: int, retries: int) -> Json:
        """See ``Workload.resize``. The API lets completions change only together with parallelism.

        The Job controller compares ``backoffLimit`` with all failed pods of the Job, including those of removed
        indexes.
        """
        return {"spec": {"parallelism": pods, "completions": pods, "backoffLimit": run.failed_pods + retries}}


INDEXED_JOB: Final[Workload] = IndexedJob()


def _owner(job: Job) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainingJob",
        "name": job.name,
        "uid": job.id,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _pod_failure_policy(resize: ResizePolicy) -> Json:
    """If a rank is lost, the run ends, because the other ranks would cost money while they wait.

    If the run is resized in place, its trainers continue without the lost rank. Only a trainer that requests a restart
    then ends the run, even if more pods may still fail (``Workload.resize``).
    """
    disrupted = [{"type": _DISRUPTED, "status": "True"}]
    if resize is not ResizePolicy.IN_PLACE:
        return {"rules": [{"action": "FailJob", "onPodConditions": disrupted}]}
    restart = {"operator": "In", "values": [RESTART_EXIT_CODE]}
    return {
        "rules": [
            {"action": "FailJob", "onExitCodes": restart},
            {"action": "Ignore", "onPodConditions": disrupted},
        ]
    }
