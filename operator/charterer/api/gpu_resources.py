"""Which extended resources count as GPUs, and how many of them a pod holds.

Those that ``domain.option`` lists count everywhere. Any other one counts as GPUs where its owner says so: on the nodes
of a GPUPool and in a TrainingJob with this ``spec.resource``, and in a pod template with the annotation
``charterer.dev/resource``. Pods are decoded with all their extended resources, because only a node's pool says which
ones are GPUs there (``controller.snapshot.runs``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from charterer.api.metadata import Raw, gpus_of, whole_quantity
from charterer.api.models.base import Rule
from charterer.api.names import ANNOTATION_RESOURCE, GPU_RESOURCES, PARTS_OF_GPUS

LONGEST_RESOURCE: Final = 244
"""Maximum length of the name of a job's or a pool's resource: a quota has the name with the prefix ``requests.``."""
_NAME: Final = (
    "[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
"""Qualified names with a domain. Source: IsExtendedResourceName in Kubernetes' pkg/apis/core/v1/helper."""
_NATIVE: Final = "kubernetes.io/"
"""A resource with this in its name is Kubernetes' own, and no extended one."""
_OF_PARTS: Final = ("nvidia.com/", "amd.com/", "aws.amazon.com/", "gpu.intel.com/")
"""Domains of makers whose device plugins name parts of GPUs, or something else beside whole GPUs.

Sources: NVIDIA's and AMD's device plugins (mig-1g.10gb, gpu.shared; cpx_nps4 with the strategy mixed), AWS' Neuron
device plugin (neuroncore, beside neuron), Intel's (i915_monitoring).
"""

_WHOLE: Final = [name for name in GPU_RESOURCES if name.startswith(_OF_PARTS)]
_NO_NAME: Final = "it must be the name of an extended resource, such as example.com/npu, as nodes show it"
_NO_WHOLE: Final = f"under {', '.join(_OF_PARTS)} only {', '.join(_WHOLE)} are whole GPUs: name one of these"
RESOURCE_RULES: Final = (
    Rule(f"self.matches('^{_NAME}$') && !self.contains('{_NATIVE}')", f"resource: {_NO_NAME}"),
    Rule(f"!{list(_OF_PARTS)}.exists(domain, self.startsWith(domain)) || self in {_WHOLE}", f"resource: {_NO_WHOLE}"),
)
"""What the API server refuses as ``spec.resource``."""


def resource_problem(resource: str) -> str:
    """Why GPUs cannot have this resource; empty if they can."""
    if not is_extended(resource) or len(resource) > LONGEST_RESOURCE:
        return _NO_NAME
    return _NO_WHOLE if resource.startswith(_OF_PARTS) and resource not in _WHOLE else ""


def is_extended(resource: str) -> bool:
    """Whether this is the name of an extended resource."""
    return re.fullmatch(_NAME, resource, re.ASCII) is not None and _NATIVE not in resource


def named_by(template: Mapping[str, Any]) -> str:
    """The resource in the annotation of a pod template; empty without one, and if it cannot be a resource of GPUs."""
    named = annotated(template)
    return "" if resource_problem(named) else named


def annotated(template: Mapping[str, Any]) -> str:
    """The annotation of a pod template with the resource of its GPUs, as it is written; empty without one."""
    metadata = template.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return str(annotations.get(ANNOTATION_RESOURCE) or "") if isinstance(annotations, Mapping) else ""


def gpu_names(template: Mapping[str, Any], resource: str = "") -> tuple[str, ...]:
    """The resources that count as whole GPUs in a pod template, that of its annotation first.

    ``resource``: of the job's own GPUs; empty if it does not name one.
    """
    return tuple(dict.fromkeys(name for name in (named_by(template), resource, *GPU_RESOURCES) if name))


def is_gpu(resource: str) -> bool:
    """Whether a resource counts as GPUs, or parts of GPUs, wherever it is named."""
    return resource in GPU_RESOURCES or resource.startswith(PARTS_OF_GPUS)


def pod_gpus(spec: Raw, resources: Iterable[str] = GPU_RESOURCES) -> int:
    """The sum of a pod's ``resources`` as the scheduler counts them. Raises ValueError if one is no whole number."""
    return sum(_held(spec, name) for name in _named(spec) & {*resources})


def gpus_and_others(spec: Raw) -> tuple[int, tuple[tuple[str, int], ...]]:
    """The GPUs and parts of GPUs that a pod holds on any node, and its other extended resources by name."""
    gpus = sum(_held(spec, name) for name in _named(spec) if is_gpu(name))
    others = [(name, number) for name in other_resources(spec) if (number := _held(spec, name))]
    return gpus, tuple(others)


def other_resources(spec: Raw) -> list[str]:
    """The extended resources of a pod that are GPUs only if somebody says so."""
    return sorted(name for name in _named(spec) if is_extended(name) and not is_gpu(name))


def _named(spec: Raw) -> set[str]:
    """The resources in the limits of a pod, and in the overhead of its runtime class."""
    return {str(name) for each in (*_limits(spec), spec.get("overhead") or {}) for name in each}


def _limits(spec: Raw) -> Iterator[Raw]:
    for part in ("initContainers", "containers"):
        for container in spec.get(part) or ():
            yield (container.get("resources") or {}).get("limits") or {}


def _held(spec: Raw, resource: str) -> int:
    """The amount of an extended resource that a pod holds.

    Containers and sidecars (init containers with restartPolicy Always) hold it at the same time. Any other init
    container runs before the containers, together with the sidecars that started before it. The overhead of the runtime
    class is added. Source: PodRequests in k8s.io/component-helpers/resource.
    """
    sidecars, starting = 0, 0
    for container in spec.get("initContainers") or ():
        gpus = gpus_of(container, resource)
        if container.get("restartPolicy") == "Always":
            sidecars += gpus
            gpus = 0
        starting = max(starting, sidecars + gpus)
    together = sidecars + sum(gpus_of(container, resource) for container in spec.get("containers") or ())
    return max(together, starting) + whole_quantity((spec.get("overhead") or {}).get(resource, 0))
