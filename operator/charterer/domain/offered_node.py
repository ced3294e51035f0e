"""The node that a pool would give, as the scheduler will see it, and how the pods of a job go onto such nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from charterer.domain.node_demands import Amounts, NodeTaint, OfferedNode
from charterer.domain.option import AMD_GPU, GPU
from charterer.domain.pool import Offering, Pool
from charterer.gpu_types import SHARED_SUFFIX, data_sheet, gigabytes, slice_profile, whole_type

# The node that a pool would give, as the scheduler will see it: what is known of it before it comes.


_MEMORY_SHOWN: Final = 0.93
"""The least part of the memory in a GPU's name that the driver shows: 15360 MiB of 16 GB, 22888 MiB of 24 GB."""

_SOME_NAME: Final = ""
"""The name of a node that is still to come: there is one, and it is none that a template names."""


def offered_node(pool: Pool) -> OfferedNode | None:
    """A node of the pool; None where nobody knows what one is.

    Labels are those that every node of Kubernetes has, those of NVIDIA's feature discovery or AMD's node labeller, the
    vendor's and the declared ones. Once a node of the pool was there, it has those that it had, and of the others only
    those that differ from node to node.
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
    """What the maker's own program writes of a node's GPUs."""
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
    """As feature discovery names it: slices that are counted as GPUs have a product of their own."""
    profile = slice_profile(offering.gpu_type)
    if not profile:
        return offering.gpu_type
    whole, counted_as_gpus = whole_type(offering.gpu_type), offering.resource == GPU
    if not counted_as_gpus:
        return whole
    return f"{whole}{SHARED_SUFFIX}" if profile.startswith(("shared", "mps")) else offering.gpu_type


def _mebibytes(gigabytes_named: int) -> tuple[str, str]:
    """From and to how much memory of such a GPU the driver may show."""
    return str(int(gigabytes_named * 1024 * _MEMORY_SHOWN)), str(gigabytes_named * 1024)


def _taints(pool: Pool) -> tuple[NodeTaint, ...]:
    assert pool.offering is not None
    traits = pool.offering.traits
    return traits.taints if pool.offering.traits_seen else tuple(dict.fromkeys((*pool.cloud.taints, *traits.taints)))


def _room(pool: Pool) -> Amounts:
    """Resources of a node: as nodes that came had, otherwise as the cloud and the pool say."""
    assert pool.offering is not None
    traits = pool.offering.traits
    return (
        traits.room
        if pool.offering.traits_seen
        else tuple(sorted({**dict(traits.room), **pool.node_resources}.items()))
    )


# How the pods of a job go onto the nodes of a pool, and which GPUs nobody else can have because of it.
#
# A job whose pods are given, p of g GPUs each, goes onto nodes of n GPUs by packing: a node takes n div g of them,
# or as many as it has processors, memory and other resources for. If they all go onto one node, others may have the
# rest of it. If they do not, the job has its nodes to itself, and pays for the GPUs that stay empty there. A pod
# that takes more of another resource than its part of the GPUs takes the GPUs from others that the same part of the
# node has.


def pods_on_node(size: int, each: int, most: int | None = None) -> int:
    """How many pods of ``each`` GPUs a node of ``size`` GPUs takes. ``most``: for how many it has other resources."""
    fitting = size // each
    return fitting if most is None else min(fitting, most)


def taken(gpus: int, size: int, each: int = 0, most: int | None = None) -> int | None:
    """The GPUs that a job with ``gpus`` GPUs takes of nodes of ``size`` GPUs, the empty ones too; None: it cannot.

    ``each``: the GPUs of each of its pods; 0: it has one pod on each of its nodes, which needs the whole of them from
    one node on. ``most``: for how many of its pods a node has resources beside GPUs; None: for as many as it has GPUs
    for. A result below ``size`` is a part of one node, any other is whole nodes.
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
    """The GPUs of a node that go with the part of its other resources which ``pods`` of at most ``most`` pods take."""
    return -(-size * pods // most)
