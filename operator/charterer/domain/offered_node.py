"""The node that a pool would give, as the scheduler will see it, and the placement of a job's pods on such nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from charterer.domain.node_demands import Amounts, NodeTaint, OfferedNode
from charterer.domain.option import AMD_GPU, GPU
from charterer.domain.pool import Offering, Pool
from charterer.gpu_types import SHARED_SUFFIX, data_sheet, gigabytes, slice_profile, whole_type

# The node that a pool would give, as far as it is known before it exists.


_MEMORY_SHOWN: Final = 0.93
"""The least fraction of the nominal memory of a GPU that the driver shows: 15360 MiB of 16 GB, 22888 MiB of 24 GB."""

_SOME_NAME: Final = ""
"""The name of a node that does not exist yet. No template names it."""


def offered_node(pool: Pool) -> OfferedNode | None:
    """A node of the pool; None if the pool's offering is unknown.

    The node has the labels of every Kubernetes node, the labels of NVIDIA's feature discovery or AMD's node labeller,
    the vendor's labels, and the declared labels. After a node of the pool has existed, its observed labels replace all
    other labels except labels whose values differ between nodes.
    """
    offering = pool.offering
    if offering is None:
        return None
    labels: dict[str, tuple[str, ...]] = {
        **_usual(offering),
        **_found(pool.device, offering),
        **pool.cloud.place_labels(offering),
    }
    given = {**pool.cloud.node_labels(offering, pool.capacity_type), **pool.node_labels}
    labels |= {key: (value,) for key, value in given.items()}
    if offering.traits_seen:
        labels = {key: values for key, values in labels.items() if len(values) > 1}
    labels |= {key: (value,) for key, value in offering.traits.labels}
    return OfferedNode(tuple(sorted(labels.items())), _taints(pool), _room(pool), offering.gpus_per_node, pool.device)


def _usual(offering: Offering) -> Mapping[str, tuple[str, ...]]:
    types = tuple(offering.instance_type.split(","))
    sheet = data_sheet(offering.gpu_type)
    arch = ("arm64",) if sheet is not None and sheet.arm else ("amd64",)
    system = ("linux",)
    return {
        "node.kubernetes.io/instance-type": types,
        "beta.kubernetes.io/instance-type": types,
        "kubernetes.io/arch": arch,
        "beta.kubernetes.io/arch": arch,
        "kubernetes.io/os": system,
        "kubernetes.io/hostname": (_SOME_NAME,),
        "beta.kubernetes.io/os": system,
    }


def _found(device: str, offering: Offering) -> Mapping[str, tuple[str, ...]]:
    """The labels that the GPU maker's own program sets on a node."""
    if device == AMD_GPU:
        return {"amd.com/gpu.product-name": (offering.gpu_type,)}
    if device != GPU:
        return {}
    memory = gigabytes(offering.gpu_type)
    of_memory = {} if memory is None else {"nvidia.com/gpu.memory": _mebibytes(memory)}
    return {
        "nvidia.com/gpu.present": ("true",),
        "nvidia.com/gpu.product": (_product(offering),),
        "nvidia.com/gpu.count": (str(offering.machine_gpus),),
        **of_memory,
    }


def _product(offering: Offering) -> str:
    """The product name by NVIDIA's feature discovery. Slices that are counted as GPUs have their own product name."""
    profile = slice_profile(offering.gpu_type)
    if not profile:
        return offering.gpu_type
    whole, counted_as_gpus = whole_type(offering.gpu_type), offering.resource == GPU
    if not counted_as_gpus:
        return whole
    return f"{whole}{SHARED_SUFFIX}" if profile.startswith(("shared", "mps")) else offering.gpu_type


def _mebibytes(gigabytes_named: int) -> tuple[str, str]:
    """The least and the most memory, in MiB, that the driver may show for a GPU with this nominal memory."""
    return str(int(gigabytes_named * 1024 * _MEMORY_SHOWN)), str(gigabytes_named * 1024)


def _taints(pool: Pool) -> tuple[NodeTaint, ...]:
    assert pool.offering is not None
    traits = pool.offering.traits
    return traits.taints if pool.offering.traits_seen else tuple(dict.fromkeys((*pool.cloud.taints, *traits.taints)))


def _room(pool: Pool) -> Amounts:
    """Resources of a node: as observed on the pool's nodes, otherwise as the cloud and the pool declare."""
    assert pool.offering is not None
    traits = pool.offering.traits
    return (
        traits.room
        if pool.offering.traits_seen
        else tuple(sorted({**dict(traits.room), **pool.node_resources}.items()))
    )


# The placement of a job's pods on the nodes of a pool, and which GPUs no other job can use because of it.
#
# A job with p pods of g GPUs each is packed onto nodes of n GPUs. A node takes n div g pods, or fewer if its
# processors, memory or other resources suffice only for fewer. If all pods fit on one node, other jobs may use the rest
# of the node. Otherwise the job has its nodes to itself and pays for the GPUs that stay empty. If a pod uses a larger
# fraction of another resource than of the GPUs, the pod also takes that fraction of the node's GPUs.


def pods_on_node(size: int, each: int, most: int | None = None) -> int:
    """How many pods of ``each`` GPUs fit on a node of ``size`` GPUs. ``most``: the limit by its other resources."""
    fitting = size // each
    return fitting if most is None else min(fitting, most)


def taken(gpus: int, size: int, each: int = 0, most: int | None = None) -> int | None:
    """The GPUs, used and empty, that a job with ``gpus`` GPUs takes on nodes of ``size`` GPUs; None if it does not fit.

    ``each``: GPUs of each of its pods; 0 if it has one pod per node, which gets the whole node unless one part of a
    node is enough. ``most``: how many of its pods the other resources of a node suffice for; None if only GPUs limit
    them. A result below ``size`` is a part of one node; any other result is a number of whole nodes' GPUs.
    """
    if most == 0 or (each and gpus % each):
        return None
    if not each:
        if gpus < size:
            return gpus if most is None else max(gpus, _part(size, 1, most))
        return None if gpus % size else gpus
    pods, on_node = gpus // each, pods_on_node(size, each, most)
    if not on_node:
        return None
    if pods <= on_node:
        return gpus if most is None else max(gpus, _part(size, pods, most))
    return -(-pods // on_node) * size


def _part(size: int, pods: int, most: int) -> int:
    """The GPUs in the fraction of a node that ``pods`` pods take, if its other resources suffice for ``most`` pods."""
    return -(-size * pods // most)
