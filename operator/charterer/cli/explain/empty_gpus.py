"""What ``charterer explain`` says of the empty part of a job's node."""

from __future__ import annotations

from charterer.policy.explain.job_node import JobNode
from charterer.sentences import count, is_or_are


def empty_gpus_sentence(node: JobNode | None) -> str:
    """``Its node h100-1 has 8 GPUs, 7 are empty: the budget pays $55.00/h.``; nothing where none is empty."""
    if node is None or not node.empty:
        return ""
    empty = f"{node.empty} {is_or_are(node.empty)} empty"
    if node.rental is not None:
        return f"Its node {node.rental} has {count(node.gpus, 'GPU')}, {empty}: the budget pays {node.price}."
    return f"Its node has {count(node.gpus, 'GPU')}, {empty} unless others come: the budget pays {node.price}."
