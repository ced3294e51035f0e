"""The pod template of a run: the user's own with GPUs, placement, rendezvous and the progress report put over it.

docs/development/architecture.md ("Names in the cluster") lists the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

from charterer.api.models.base import Json
from charterer.api.names import (
    ALLOCATION_FILE,
    ANNOTATION_ALLOCATION,
    ANNOTATION_CA,
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
from charterer.domain.job import Allocation, Job, ResizePolicy
from charterer.domain.jobs.run_names import run_name
from charterer.gpu_types import USABLE_MEMORY, sharers
from charterer.workloads.variant_template import with_variant
from charterer.workloads.workload import NotATemplate, RunEnvironment

_FOREIGN_QUEUES: Final = "kueue.x-k8s.io/"
"""Prefix of the labels and annotations by which Kueue would take the pods over."""
_VOLUME: Final = "charterer"
_RANK: Final = "PET_NODE_RANK"
_LAST_WORDS: Final = {"terminationMessagePolicy": "FallbackToLogsOnError"}
"""The last lines of a container that fails are its message, unless the template says otherwise: its pod goes away."""
KEEP_UNDISTURBED: Final = {
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
"""Annotations of pods that autoscalers are to leave alone."""
_TOKEN_SECONDS: Final = 3600
"""Life of the token for progress reports; the kubelet renews it at 80 % of that."""


def pod_template(
    job: Job, spec: Mapping[str, Any], allocation: Allocation, labels: Json, environment: RunEnvironment
) -> Json:
    """The pod template of the job's ``spec`` with the values of the allocation's variant, and Charterer's own, over it.

    Everything else stays. Raises NotATemplate.
    """
    try:
        template = with_variant(spec["template"], spec.get("variants") or (), allocation.option.variant)
        return _with_own_values(job, template, allocation, labels, environment)
    except (AttributeError, TypeError, ValueError) as error:
        raise NotATemplate(f"it does not have the shape of a pod template ({error})") from error


def pod_address(job: Job, run: int, index: int) -> str:
    """The DNS name of a run's pod among the pods of its namespace; it exists before the pod is ready."""
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
    """Labels or annotations without those that would hand the pods to another queue."""
    return {key: value for key, value in (entries or {}).items() if not key.startswith(_FOREIGN_QUEUES)}


def _without(entries: Iterable[Json] | None, *names: str) -> list[Json]:
    """Named entries (volumes, mounts, variables) without those of these names."""
    return [entry for entry in entries or () if entry.get("name") not in names]


def run_labels(job: Job, run: int) -> Json:
    """The labels of a run and of its pods."""
    return {LABEL_JOB_UID: str(job.id), LABEL_JOB: job.name, LABEL_RUN: str(run)}


def _volume(job: Job) -> Json:
    """The token for progress reports, the certificate of who receives them, and the allocation, as files."""
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
    """The user's first container with its GPUs, variables and mount; Charterer's variables win, the others stay."""
    gpus = {allocation.option.resource: str(allocation.placements[0].gpus)}
    resources = container.get("resources") or {}
    own = [*_environment(job, allocation, environment), *_memory_limits(container, allocation)]
    mounts = [
        mount for mount in _without(container.get("volumeMounts"), _VOLUME) if mount.get("mountPath") != MOUNT_PATH
    ]
    return container | {
        "env": [*_without(container.get("env"), *(str(variable["name"]) for variable in own)), *own],
        "resources": resources
        | {
            name: {key: value for key, value in (resources.get(name) or {}).items() if key not in GPU_RESOURCES} | gpus
            for name in ("limits", "requests")
        },
        "volumeMounts": [*mounts, {"name": _VOLUME, "mountPath": MOUNT_PATH, "readOnly": True}],
    }


def _memory_limits(container: Json, allocation: Allocation) -> list[Json]:
    """What keeps frameworks from taking more than the job's part of a shared GPU's memory, unless the user says so.

    JAX takes three quarters of a GPU when it starts, TensorFlow all of it.
    """
    jobs = sharers(allocation.option.slice)
    said = {variable.get("name") for variable in container.get("env") or ()}
    values = {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{USABLE_MEMORY / jobs:.2f}", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    return [{"name": name, "value": value} for name, value in values.items() if jobs > 1 and name not in said]


def _environment(job: Job, allocation: Allocation, environment: RunEnvironment) -> list[Json]:
    """A static launch for torchrun (PET_*) and JAX, and what charterer_trainer needs.

    The number of pods is not in it where it can change in place: pods that come later would get the old number. There,
    torchrun must not share its rendezvous's store with the workers. It would keep the address of its first round, and
    a pod that joins would wait for another until all agents fail. The first pod's name is the shortest that the pods'
    DNS suffixes complete: the first of these fits, where that of the namespace in it takes two misses before.
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
    """Where Hugging Face's Trainer and Kubeflow's SDK report by themselves, in the variables of Kubeflow Trainer.

    The kubelet puts the pod's index into the URL. Not in an interactive job, whose cells train one thing after another,
    and not where the width changes in place: these reports name no group.
    """
    if job.interactive is not None:
        return {}
    return {
        "KUBEFLOW_TRAINER_SERVER_URL": f"{environment.progress_url}{TRAINER_STATUS_PATH}/$({_RANK})",
        "KUBEFLOW_TRAINER_SERVER_TOKEN": TOKEN_FILE,
        "KUBEFLOW_TRAINER_SERVER_CA_CERT": CA_FILE,
    }
