"""The words are those of kube-scheduler 1.36, and of 1.30 where they differ."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from charterer.api.decode.core import lacking, refused_by_own_nodes

STRANGERS = "2 node(s) had untolerated taint(s), 3 node(s) didn't match Pod's node affinity/selector"
PREEMPTION = ". preemption: 0/6 nodes are available: 6 Preemption is not helpful for scheduling."


@pytest.mark.parametrize(
    ("reasons", "refused", "resources"),
    [
        (f"{STRANGERS}", True, []),
        ("6 node(s) didn't match Pod's node affinity/selector", True, []),
        ("6 node(s) didn't satisfy plugin(s) [NodeAffinity]", True, []),
        ("5 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {team: ml}", True, []),
        (f"1 Insufficient memory, {STRANGERS}", True, ["memory"]),
        (
            f"1 Insufficient cpu, 1 Insufficient vpc.amazonaws.com/efa, {STRANGERS}",
            True,
            ["cpu", "vpc.amazonaws.com/efa"],
        ),
        (f"1 Insufficient cpu, 1 Insufficient nvidia.com/gpu, {STRANGERS}", True, ["cpu"]),
        (f"1 Insufficient nvidia.com/gpu, {STRANGERS}", False, []),
        (f"1 Insufficient nvidia.com/mig-1g.10gb, {STRANGERS}", False, []),
        (f"1 node(s) had volume node affinity conflict, {STRANGERS}", True, []),
        (f"1 node(s) didn't match pod topology spread constraints (missing required label), {STRANGERS}", True, []),
        (f"1 node(s) were unschedulable, {STRANGERS}", False, []),
        ('persistentvolumeclaim "data" not found', False, []),
        ("pod has unbound immediate PersistentVolumeClaims", False, []),
    ],
)
def test_what_the_scheduler_says_is_taken_to_be_said_of_the_runs_own_nodes(
    reasons: str, refused: bool, resources: Sequence[str]
) -> None:
    for words in (f"0/6 nodes are available: {reasons}{PREEMPTION}", f"0/6 nodes are available: {reasons}."):
        assert refused_by_own_nodes(words, []) is refused
        assert list(lacking(words)) == resources


@pytest.mark.parametrize("words", ["", "no nodes available to schedule pods", "0/6 nodes are available"])
def test_other_words_are_no_refusal(words: str) -> None:
    assert not refused_by_own_nodes(words, [])
    assert not lacking(words)


def test_too_few_gpus_of_the_runs_own_resource_are_no_refusal() -> None:
    words = f"0/6 nodes are available: 1 Insufficient example.com/npu, {STRANGERS}."
    assert refused_by_own_nodes(words, [])
    assert not refused_by_own_nodes(words, ["example.com/npu"])
