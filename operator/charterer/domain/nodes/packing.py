"""How the pods of a job go onto the nodes of a pool, and which GPUs nobody else can have because of it.

A job whose pods are given, p of g GPUs each, goes onto nodes of n GPUs by packing: a node takes n div g of them, or as
many as it has processors, memory and other resources for. If they all go onto one node, others may have the rest of it.
If they do not, the job has its nodes to itself, and pays for the GPUs that stay empty there. A pod that takes more of
another resource than its part of the GPUs takes the GPUs from others that the same part of the node has.
"""

from __future__ import annotations


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
