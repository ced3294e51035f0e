"""What a cloud's object says of its nodes: as much of it as a Node can have."""

from __future__ import annotations

import pytest

from charterer.api.models.gpupool import NodeTraitsStatus
from charterer.domain.node_demands import NodeTaint, NodeTraits, passes
from charterer.providers.provider import NO_TEMPLATE, NodeTemplate

MACHINE = {"cpu": "96", "memory": "1152Gi"}
ROOM = (("cpu", 96_000), ("memory", 1152 * 2**30 * 1000))


def test_an_object_that_says_nothing_has_its_machines_room() -> None:
    assert NO_TEMPLATE.traits(MACHINE) == NodeTraits(room=ROOM)


def test_what_it_says_is_told_and_counts_before_its_machine() -> None:
    said = NodeTemplate(
        {"team": "research", "example.com/disk": ""},
        [("dedicated", "ml:NoSchedule"), ("example.com/gone", ":NoExecute")],
        {"vpc.amazonaws.com/efa": "4", "cpu": "95500m"},
    )
    assert said.traits(MACHINE) == NodeTraits(
        (("example.com/disk", ""), ("team", "research")),
        (NodeTaint("dedicated", "ml", "NoSchedule"), NodeTaint("example.com/gone", "", "NoExecute")),
        (("cpu", 95_500), ROOM[1], ("vpc.amazonaws.com/efa", 4_000)),
    )


@pytest.mark.parametrize(
    "said",
    [
        NodeTemplate({"": "a", "no spaces": "a", "team": "no spaces", "long": "x" * 64, "a/b/c": "d"}),
        NodeTemplate({"kubernetes.io/hostname": "one-nodes-own"}),
        NodeTemplate(taints=[("", "a:NoSchedule"), ("a", "NoSchedule"), ("a", "b:Never"), ("a", "b:c:NoSchedule")]),
        NodeTemplate(taints=[("rather-not", "here:PreferNoSchedule")]),
        NodeTemplate(resources={"cpu": "many", "memory": "-1", "": "1", "no spaces": "1", "disk": "1e99999"}),
        NodeTemplate(resources={"nvidia.com/gpu": "8", "nvidia.com/mig-1g.5gb": "7"}),
    ],
    ids=["labels", "own name", "taints", "no refusal", "resources", "GPUs, which are counted elsewhere"],
)
def test_what_no_node_can_have_or_keeps_no_pod_off_is_passed_over(said: NodeTemplate) -> None:
    assert said.traits(MACHINE) == NodeTraits(room=ROOM)


def test_no_more_is_read_than_can_be_recorded() -> None:
    many = {f"k{number:04d}": "1" for number in range(1000)}
    traits = NodeTemplate(many, [(key, ":NoSchedule") for key in many], many).traits({})
    assert (len(traits.labels), len(traits.taints), len(traits.room)) == (64, 64, 64)
    assert NodeTraitsStatus.from_domain(traits).to_domain() == traits


def test_no_taint_is_told_that_would_pass() -> None:
    traits = NodeTemplate(taints=[("a", f":{effect}") for effect in ("NoSchedule", "PreferNoSchedule", "NoExecute")])
    assert [passes(taint) for taint in traits.traits({}).taints] == [False, False]
