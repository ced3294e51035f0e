"""A run that does not start for several reasons tells the one that causes the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.ids import NodeName
from charterer.domain.pod import Pod, PodPhase
from tests.factory import pod, run

NO_NODE, PULL, CRASH = (
    "Unschedulable: 0/3 nodes",
    "container trainer: ErrImagePull",
    "container trainer: CrashLoopBackOff",
)
EDIT = "container trainer: InvalidImageName"
QUOTA, POLICY = "FailedCreate: exceeded quota", "FailedCreate: violates PodSecurity"
SUBMITTER = f"its submitter: {POLICY}"
MOUNT, SECRET = "FailedMount: timed out", 'FailedMount: secret "keys" not found'
WAITS = {"incomplete": "KubeRay says Initializing of it, not Running"}


def waiting(index: int, trouble: str, *, placed: bool = True) -> Pod:
    """``placed``: whether the pod has a node."""
    node = NodeName("a100-1") if placed else None
    return replace(
        pod(index, phase=PodPhase.PENDING, ready=False), trouble=trouble, node=node, hopeless=trouble == EDIT
    )


UNPLACED = waiting(0, NO_NODE, placed=False)


@pytest.mark.parametrize(
    ("pods", "known", "told", "hopeless"),
    [
        ([], {"missing": QUOTA}, QUOTA, False),
        ([], {"missing": POLICY}, POLICY, True),
        ([UNPLACED], {"missing": QUOTA}, QUOTA, False),
        ([UNPLACED, waiting(1, NO_NODE, placed=False)], {"missing": QUOTA}, f"{NO_NODE} (1 more like it)", False),
        ([UNPLACED, waiting(1, NO_NODE, placed=False)], {"missing": SUBMITTER, **WAITS}, SUBMITTER, True),
        ([UNPLACED, waiting(1, EDIT)], {"missing": QUOTA, **WAITS}, EDIT, True),
        ([waiting(0, CRASH), waiting(1, NO_NODE, placed=False)], {}, NO_NODE, False),
        ([waiting(0, PULL), waiting(1, EDIT)], {}, EDIT, True),
        ([UNPLACED, waiting(1, "")], {"warning": MOUNT}, NO_NODE, False),
        ([UNPLACED, waiting(1, "")], {"warning": SECRET}, SECRET, True),
        ([waiting(0, ""), waiting(1, "")], {"warning": MOUNT}, MOUNT, False),
        ([pod(0), pod(1)], {"missing": QUOTA}, "", False),
        ([pod(0), pod(1)], WAITS, "", False),
    ],
    ids=[
        "no pods by a quota",
        "no pods by a policy",
        "a pod is missing, its peer has no node",
        "an old Event about a pod that is there",
        "a submitter, and workers that were made again",
        "a submitter by a quota, and a worker that only an edit starts",
        "a pod fails again and again because its peer has no node",
        "one that only an edit starts among others",
        "a pod without a node, and one that is late",
        "a pod without a node, and one whose Secret is missing",
        "late",
        "all pods run",
        "all workers run",
    ],
)
def test_the_cause_is_told_of_several_troubles(
    pods: Sequence[Pod], known: dict[str, Any], told: str, hopeless: bool
) -> None:
    one = run(1, *pods, completions=2, **known)
    of_pod = f"pod {one.trouble.split()[1].rstrip(':')}: " if one.trouble.startswith("pod ") else ""
    assert one.trouble == f"{of_pod}{told}"
    assert one.hopeless is hopeless
