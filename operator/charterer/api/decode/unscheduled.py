"""The scheduler's words about a pod that it can put on no node.

A run's pods select the nodes that the run was given. The scheduler counts all nodes of the cluster, by the first of its
plugins that refuses each: NodeUnschedulable, TaintToleration and NodeAffinity come first. So whatever any other plugin
says is said of the run's own nodes. If no other plugin says anything, the run's own nodes are among those that their
taints or the template's selectors refuse (pkg/scheduler/apis/config/v1/default_plugins.go, framework/types.go).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from charterer.api.names import GPU_RESOURCES, MIG_PREFIX, SHARED_GPU

_SAID: Final = re.compile(r"0/\d+ nodes are available: (.*?)(?:\. (?:preemption|no new claims)|\.?$)", re.DOTALL)
_REASON: Final = re.compile(r"\b\d+ (.+?)(?=, \d+ |$)")
_INSUFFICIENT: Final = "Insufficient "
_STRANGERS: Final = (
    "didn't match Pod's node affinity/selector",
    "didn't satisfy plugin(s) [NodeAffinity]",
    "untolerated taint",
)
"""What is said of nodes that the run was not given, and of its own if nothing else is said."""
_PASSES: Final = (
    "were unschedulable",
    *[f"{_INSUFFICIENT}{resource}" for resource in (*GPU_RESOURCES, MIG_PREFIX, SHARED_GPU)],
)
"""What is said of own nodes that are cordoned, or whose GPUs are not there yet: that passes, or is found elsewhere."""


def refused_by_own_nodes(message: str) -> bool:
    """Whether the nodes that a run was given do not take its pods as they are."""
    reasons = _reasons(message)
    own = [reason for reason in reasons if not any(words in reason for words in _STRANGERS)]
    if not own:
        return bool(reasons)
    return any(not any(words in reason for words in _PASSES) for reason in own)


def lacking(message: str) -> Sequence[str]:
    """The resources of which the run's own nodes have too little."""
    return [
        reason.removeprefix(_INSUFFICIENT)
        for reason in _reasons(message)
        if reason.startswith(_INSUFFICIENT) and not reason.startswith(_PASSES)
    ]


def _reasons(message: str) -> Sequence[str]:
    said = _SAID.search(message)
    return [] if said is None else _REASON.findall(said[1])
