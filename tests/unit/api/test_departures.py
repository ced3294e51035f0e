"""What others write on a Node when its machine goes away."""

from __future__ import annotations

import pytest

from charterer.api import decode
from charterer.api.decode.core import BROKEN_WHEN_FALSE, BROKEN_WHEN_TRUE, GOES, GOES_WHEN_TRUE, MAY_BE_BROKEN, MAY_GO
from charterer.domain.snapshot import Departure
from tests.unit.api import values


def told(*taints: tuple[str, str], **conditions: str) -> Departure | None:
    """What a Node with these taints (key and effect) and conditions says of its end."""
    spec = {"taints": [{"key": key, "effect": effect} for key, effect in taints]}
    ready = {"type": "Ready", "status": "True"}
    status = {"conditions": [ready, *({"type": kind, "status": value} for kind, value in conditions.items())]}
    return decode.node(values.raw("Node", spec, name="node-1", status=status)).departure


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
@pytest.mark.parametrize("key", GOES)
def test_a_taint_of_whoever_takes_the_machine_away_is_believed(key: str, effect: str) -> None:
    assert told(("nvidia.com/gpu", "NoSchedule"), (key, effect)) == Departure(f"taint {key}")


@pytest.mark.parametrize("kind", GOES_WHEN_TRUE)
def test_a_condition_is_believed_while_it_is_true(kind: str) -> None:
    assert told(**{kind: "True"}) == Departure(f"condition {kind}")
    assert told(**{kind: "False"}) is None
    assert told(**{kind: "Unknown"}) is None


@pytest.mark.parametrize("key", MAY_GO)
def test_a_risk_is_no_certainty_and_gives_way_to_one(key: str) -> None:
    assert told((key, "NoSchedule")) == Departure(f"taint {key}", certain=False)
    both = told((key, "NoSchedule"), ("aws-node-termination-handler/spot-itn", "NoSchedule"))
    assert both == Departure("taint aws-node-termination-handler/spot-itn")


@pytest.mark.parametrize(
    "taint",
    [
        ("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("karpenter.sh/disrupted", "PreferNoSchedule"),
        ("nvidia.com/gpu", "NoSchedule"),
    ],
)
def test_what_says_no_end_is_none(taint: tuple[str, str]) -> None:
    assert told(taint, VMEventScheduled="True") is None


@pytest.mark.parametrize(
    ("kind", "fault"),
    [*((kind, "True") for kind in BROKEN_WHEN_TRUE), *((kind, "False") for kind in BROKEN_WHEN_FALSE)],
)
def test_gpus_are_broken_while_an_agent_says_so(kind: str, fault: str) -> None:
    assert told(**{kind: fault}) == Departure(f"condition {kind}", broken=True)
    assert told(**{kind: "True" if fault == "False" else "False"}) is None
    assert told(**{kind: "Unknown"}) is None


@pytest.mark.parametrize("kind", MAY_BE_BROKEN)
def test_what_a_program_can_cause_is_a_doubt_and_gives_way_to_certainty(kind: str) -> None:
    assert told(**{kind: "True"}) == Departure(f"condition {kind}", certain=False, broken=True)
    assert told(**{kind: "True", "GPUMissing": "True"}) == Departure("condition GPUMissing", broken=True)
    going = told(("karpenter.sh/disrupted", "NoSchedule"), **{kind: "True", "GPUMissing": "True"})
    assert going == Departure("taint karpenter.sh/disrupted")
