"""The pod template of a TrainingJob: its schema, and the refusal of templates from which no run can be made.

Charterer places pods and counts their GPUs. A template that evades this is refused, for example if it names a node. The
API server refuses it if a rule can express the fault, and ``template_problem`` always does.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

from charterer.api.gpu_resources import annotated, gpu_names, resource_problem
from charterer.api.metadata import gpus_of, whole_quantity
from charterer.api.models.base import Json, Rule, rules, stored_bytes
from charterer.api.names import (
    ANNOTATION_ALLOCATION,
    ANNOTATION_CA,
    ANNOTATION_RESOURCE,
    GPU_RESOURCE,
    GPU_RESOURCES,
    GROUP,
    LABEL_ADOPT,
    LABEL_JOB,
    LABEL_JOB_UID,
    LABEL_PROFILE,
    LABEL_RUN,
)
from charterer.sentences import names, nearest

DEFAULT_GRACE_SECONDS: Final = 30
"""Kubernetes' default of terminationGracePeriodSeconds."""
_LONGEST_GRACE_SECONDS: Final = 86_400
"""A day, in seconds. Money is reserved for the time that a job may take to stop, so this time needs a limit."""
MOST_GPUS: Final = 100_000
"""Maximum GPUs of a job: the size of the largest clusters."""
_TEMPLATE_BYTES: Final = 256 * 1024
"""Maximum bytes of a template: a sixth of etcd's limit for one object.

The template is in the TrainingJob and in each run's object. After a client-side apply, an annotation has a third copy.
"""
_HOST: Final = (
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[a-fA-F0-9:]+\])"
)
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_IMAGE: Final = re.compile(
    rf"(?:{_HOST}(?::[0-9]+)?/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?(?:@{_DIGEST})?", re.ASCII
)
"""Names of images. Source: the grammar in github.com/distribution/reference, which the kubelet uses."""
_OWN_VARIABLES: Final = frozenset(
    {"PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"}
    | {"JAX_COORDINATOR_ADDRESS", "CHARTERER_JOB", "CHARTERER_NAMESPACE", "CHARTERER_RUN"}
    | {"CHARTERER_PROGRESS_URL", "CHARTERER_CA", "CHARTERER_TOKEN_FILE"}
)
_NOT_IN_PLACE: Final = frozenset(
    {"PET_NNODES", "KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_TOKEN", "KUBEFLOW_TRAINER_SERVER_CA_CERT"}
)
"""Variables that Charterer sets (``workloads.workload``). The first set of variables is for every job, the second for
jobs that are not resized in place.
"""
_PREFIX: Final = "CHARTERER_"
CHARTERERS_VARIABLES: Final = (
    *sorted(name for name in _OWN_VARIABLES if name.startswith(_PREFIX)),
    *(f"{_PREFIX}{word}" for word in ("VARIANT", "GROUP_PORT", "JOB_TEMPLATE", "POD_NAME", "POD_UID", "GPU_KEYS")),
    *(f"{_PREFIX}{word}" for word in ("WORKER", "SERVICE_ACCOUNT")),
)
"""Variables with this prefix that Charterer sets, or that charterer_trainer reads."""
_POD_WORDS: Final = frozenset(
    {LABEL_ADOPT, LABEL_PROFILE, LABEL_JOB_UID, LABEL_JOB, LABEL_RUN, ANNOTATION_ALLOCATION, ANNOTATION_CA}
    | {ANNOTATION_RESOURCE}
)
"""Keys that a template may have: Charterer reads or writes them, or a person labels an object and its pods alike."""
_OF_EACH_RANK: Final = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "NNODES", "CUDA_VISIBLE_DEVICES"}
)
"""Variables that a launcher or the device plugin sets for each process."""
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_SYSTEM_PRIORITY: Final = "system-"
_VENDOR: Final = GPU_RESOURCE.rpartition("/")[0] + "/"
_PATH: Final = "spec.template.spec"

_NO_NODE = "leave nodeName out: Charterer chooses the nodes, and rents them"
_NO_SCHEDULER = f"leave schedulerName out: pods are placed by {_DEFAULT_SCHEDULER}, by whose rules GPUs are counted"
_NO_CLAIMS = (
    f"leave resourceClaims out: claimed devices are neither counted nor paid for; GPUs are {GPU_RESOURCE} and the like"
)
_NO_SYSTEM_PRIORITY = "priorityClassName must not begin with system-: those classes are for the cluster's own pods"
_NO_INIT_GPUS = "leave GPUs out of init containers and sidecars: only the first container has GPUs"

_LIMITS: Final[Json] = {
    "type": "object",
    "additionalProperties": {"x-kubernetes-int-or-string": True},
    "maxProperties": 64,
}
_CONTAINER: Final[Json] = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 63},
        "resources": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"limits": _LIMITS},
        },
    },
}
_CONTAINERS: Final[Json] = {"type": "array", "maxItems": 32, "items": _CONTAINER}
TEMPLATE_SCHEMA: Final[Json] = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "required": ["containers"],
            "properties": {
                "containers": _CONTAINERS | {"minItems": 1},
                "initContainers": _CONTAINERS,
                "nodeName": {"type": "string", "maxLength": 253},
                "schedulerName": {"type": "string", "maxLength": 253},
                "priorityClassName": {"type": "string", "maxLength": 253},
                "resourceClaims": {
                    "type": "array",
                    "maxItems": 32,
                    "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
            **rules(
                Rule("!has(self.nodeName) || self.nodeName == ''", _NO_NODE, ".nodeName"),
                Rule(
                    f"!has(self.schedulerName) || self.schedulerName in ['', '{_DEFAULT_SCHEDULER}']",
                    _NO_SCHEDULER,
                    ".schedulerName",
                ),
                Rule("!has(self.resourceClaims) || size(self.resourceClaims) == 0", _NO_CLAIMS, ".resourceClaims"),
                Rule(
                    f"!has(self.priorityClassName) || !self.priorityClassName.startsWith('{_SYSTEM_PRIORITY}')",
                    _NO_SYSTEM_PRIORITY,
                    ".priorityClassName",
                ),
                Rule(
                    "!has(self.initContainers) || self.initContainers.all(c, !has(c.resources) || "
                    f"!has(c.resources.limits) || !{list(GPU_RESOURCES)}.exists(gpu, gpu in c.resources.limits))",
                    _NO_INIT_GPUS,
                    ".initContainers",
                ),
            ),
        }
    },
}


def template_problem(template: Mapping[str, Any], resource: str = "") -> str:
    """Why no run can be made of the template, with field, value and remedy; empty if one can.

    ``resource``: of the job's GPUs, if the job names it.
    """
    spec: Mapping[str, Any] = template.get("spec") or {}
    found = (problem for check in _CHECKS for problem in check(spec))
    gpus = _bad_gpus(spec, gpu_names(template, resource))
    return (
        _too_large(template)
        or _unknown_words(template)
        or _bad_annotation(template)
        or next(gpus, "")
        or next(found, "")
    )


def _bad_annotation(template: Mapping[str, Any]) -> str:
    named = annotated(template)
    problem = resource_problem(named) if named else ""
    return f"spec.template.metadata.annotations[{ANNOTATION_RESOURCE}] is {named!r:.80}: {problem}" if problem else ""


def _unknown_words(template: Mapping[str, Any]) -> str:
    """A fault that names the keys of Charterer's group that Charterer does not read in a template."""
    metadata = template.get("metadata")
    for part in ("labels", "annotations"):
        entries = metadata.get(part) if isinstance(metadata, Mapping) else None
        for key in sorted(str(each) for each in entries) if isinstance(entries, Mapping) else ():
            if key.startswith(f"{GROUP}/") and key not in _POD_WORDS:
                return (
                    f"spec.template.metadata.{part} has {key}, which says nothing to Charterer in a template: leave it "
                    "out, and write what you mean into the object's own metadata, or into the spec of a TrainingJob"
                )
    return ""


def _too_large(template: Mapping[str, Any]) -> str:
    try:
        size = stored_bytes(template)
    except RecursionError:
        return "spec.template is nested too deeply"
    if size <= _TEMPLATE_BYTES:
        return ""
    return (
        f"spec.template takes {size:,} bytes; at most {_TEMPLATE_BYTES:,} can be used: put large files and scripts "
        "into the image or a ConfigMap"
    )


def digest(template: Mapping[str, Any]) -> str:
    """A short digest of the template."""
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:16]


def digest_of_content(template: Mapping[str, Any]) -> str:
    """The same digest for templates that differ only in empty values, which a server may omit or fill in."""
    return digest(_filled(template))


def _filled(value: Any) -> Any:
    if isinstance(value, Mapping):
        entries = {key: _filled(entry) for key, entry in value.items()}
        return {key: entry for key, entry in entries.items() if entry not in (None, {}, [])}
    return [_filled(entry) for entry in value] if isinstance(value, list) else value


def wrong_variables(template: Mapping[str, Any], also: Sequence[str], in_place: bool | None) -> str:
    """Faults of the template's variables and of its variants' variables (``also``: their names). Empty if there are
    none.

    ``in_place``: whether the job is resized in place. None if Charterer sets no variables of its own in the job's pods.
    """
    misleading = "" if in_place is None else misleading_variables(template, in_place=in_place)
    return "; ".join(told for told in (unknown_variables(template, also), misleading) if told)


def unknown_variables(template: Mapping[str, Any], also: Sequence[str]) -> str:
    """A fault that names variables with Charterer's prefix that nobody reads. Empty if there are none. ``also``:
    variables of variants.
    """
    spec = template.get("spec") or {}
    containers = [each for part in ("containers", "initContainers") for each in spec.get(part) or ()]
    listed = {*also, *(str(entry.get("name")) for container in containers for entry in _variables(container))}
    unknown = sorted(name for name in listed if name.startswith(_PREFIX) and name not in CHARTERERS_VARIABLES)
    told = (f"{name} ({nearest(name, CHARTERERS_VARIABLES, _PREFIX) or 'leave it out'})" for name in unknown)
    return f"Charterer does not know {names(told)}" if unknown else ""


def _variables(container: object) -> Sequence[Mapping[str, Any]]:
    """The well-formed variables of a container."""
    entries = container.get("env") if isinstance(container, Mapping) else None
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def misleading_variables(template: Mapping[str, Any], *, in_place: bool) -> str:
    """A sentence on misleading variables of the trainer's container, with the remedy. Empty if there are none.

    A variable whose value comes from another source is not reported, because the value may be right at every width.
    """
    containers = (template.get("spec") or {}).get("containers") or [{}]
    listed = _variables(containers[0])
    literal = [str(entry.get("name")) for entry in listed if "$(" not in str(entry.get("value") or "$(")]
    own = _OWN_VARIABLES if in_place else _OWN_VARIABLES | _NOT_IN_PLACE
    replaced = [name for name in literal if name in own]
    fixed = [name for name in literal if name in _OF_EACH_RANK]
    said = [f"{names(replaced)} of the template {_is(replaced)} replaced by Charterer's own"] if replaced else []
    if fixed:
        said.append(f"{names(fixed)} {_is(fixed)} the same for every pod and every number of GPUs")
    return f"{'; '.join(said)}: leave out what the launcher sets (docs/progress.md)" if said else ""


def _is(words: Sequence[str]) -> str:
    return "is" if len(words) == 1 else "are"


def gpu_resource(template: Mapping[str, Any], resource: str = "") -> str:
    """The extended resource of the GPUs in the limits of the first container.

    If it has none there: ``resource``, which the job names, or else NVIDIA's.
    """
    containers = (template.get("spec") or {}).get("containers") or [{}]
    asked = dict(_resources(containers[0]))
    return next((name for name in gpu_names(template, resource) if name in asked), resource or GPU_RESOURCE)


def trainer_gpus(template: Mapping[str, Any], resource: str = "") -> int:
    """GPUs in the limits of the first container; 0 if there are none or they cannot be read.

    ``resource``: that the job names; empty if it names none.
    """
    containers = (template.get("spec") or {}).get("containers") or [{}]
    try:
        count = gpus_of(containers[0], gpu_resource(template, resource))
    except (AttributeError, ValueError):
        return 0
    return count if count <= MOST_GPUS else 0


def grace_seconds(template: Mapping[str, Any]) -> int:
    """Seconds that the pods may take to stop. If the declared value cannot be used, Kubernetes' default."""
    declared: object = (template.get("spec") or {}).get("terminationGracePeriodSeconds")
    return declared if _is_grace(declared) else DEFAULT_GRACE_SECONDS


def _is_grace(declared: object) -> TypeGuard[int]:
    return type(declared) is int and 0 <= declared <= _LONGEST_GRACE_SECONDS


def _bad_placement(spec: Mapping[str, Any]) -> Iterator[str]:
    """Faults of fields by which a pod would evade its placement, its scheduler, or the price of its devices."""
    if spec.get("nodeName"):
        yield _said("nodeName", spec["nodeName"], _NO_NODE)
    if spec.get("schedulerName") not in (None, "", _DEFAULT_SCHEDULER):
        yield _said("schedulerName", spec["schedulerName"], _NO_SCHEDULER)
    if spec.get("resourceClaims"):
        yield _said("resourceClaims", spec["resourceClaims"], _NO_CLAIMS)
    if str(spec.get("priorityClassName") or "").startswith(_SYSTEM_PRIORITY):
        yield _said("priorityClassName", spec["priorityClassName"], _NO_SYSTEM_PRIORITY)


def _bad_gpus(spec: Mapping[str, Any], resources: Sequence[str]) -> Iterator[str]:
    """Faults of GPUs outside the first container, of several vendors, or not in whole numbers.

    ``resources``: those that count as GPUs.
    """
    if not spec.get("containers"):
        yield f"{_PATH}.containers is empty: name the trainer's container"
    for list_name in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(list_name) or ()):
            where = f"{list_name}[{index}].resources"
            for resource, quantity in _resources(container):
                if resource in resources:
                    yield from _bad_count(list_name, index, resource, quantity)
                elif resource.startswith(_VENDOR):
                    told = f"GPUs are counted in {GPU_RESOURCE} only; parts of them are asked for in spec.gpus"
                    yield _said(f"{where}[{resource}]", quantity, told)
    named = {name for each in spec.get("containers") or () for name, _ in _resources(each) if name in resources}
    if len(named) > 1:
        yield f"{_PATH} asks for {names(sorted(named))}: the GPUs of a job are of one maker; leave the others out"


def _bad_count(list_name: str, index: int, resource: str, quantity: object) -> Iterator[str]:
    where = f"{list_name}[{index}].resources"
    try:
        count = whole_quantity(quantity)
    except ValueError:
        count = -1
    if not 0 <= count <= MOST_GPUS:
        wanted = f"a whole number of GPUs from 0 to {MOST_GPUS}"
        yield f"{_PATH}.{where}: {resource} is {quantity!r:.40}; it must be {wanted}"
    elif count and list_name == "initContainers":
        yield _said(f"{where}[{resource}]", count, _NO_INIT_GPUS)
    elif count and index:
        yield f"{_PATH}.{list_name}[{index}] asks for {count} {resource}; only the first container may have GPUs"


def _resources(container: object) -> Iterator[tuple[str, object]]:
    """The well-formed limits and requests of a container. The Job API reports malformed entries."""
    resources = container.get("resources") if isinstance(container, Mapping) else None
    for part in ("limits", "requests"):
        entries = resources.get(part) if isinstance(resources, Mapping) else None
        yield from entries.items() if isinstance(entries, Mapping) else ()


def _bad_grace(spec: Mapping[str, Any]) -> Iterator[str]:
    declared = spec.get("terminationGracePeriodSeconds")
    if declared is not None and not _is_grace(declared):
        wanted = f"give whole seconds from 0 to {_LONGEST_GRACE_SECONDS} (a day)"
        yield f"{_PATH}.terminationGracePeriodSeconds is {declared!r:.40}; {wanted}"


def _said(field: str, value: object, what_to_do: str) -> str:
    return f"{_PATH}.{field} is {value!r:.60}: {what_to_do}"


def _bad_image(spec: Mapping[str, Any]) -> Iterator[str]:
    """Faults of image names that the API server accepts and no container runtime can resolve."""
    for list_name in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(list_name) or ()):
            image = container.get("image") if isinstance(container, Mapping) else None
            if isinstance(image, str) and image and not _IMAGE.fullmatch(image):
                yield _said(f"{list_name}[{index}].image", image, "write it as registry/name:tag, in small letters")


_CHECKS: Final = (_bad_placement, _bad_grace, _bad_image)
