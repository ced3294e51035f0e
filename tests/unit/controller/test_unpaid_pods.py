"""Owners of pods that no budget pays for are told so, and nobody who may get a node otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest

from charterer.api.decode import DecodedNamespace
from charterer.api.manifests import EventSubject
from charterer.cluster import kinds
from charterer.cluster.client import Client, Listing
from charterer.cluster.events import Recorder
from charterer.cluster.store import Store
from charterer.controller.unpaid_pods import UnpaidPods
from charterer.domain.budget import Budget, Mode
from charterer.domain.ids import NodeName
from charterer.domain.snapshot import Node
from charterer.domain.time import format_instant
from tests import factory as make

NOW = make.at(600)


def homeless(name: str = "plain-0", gpus: int = 8, seconds: float = 500, **spec: Any) -> dict[str, Any]:
    """A pod of Job ``plain`` without a node since ``seconds`` after T0."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "plain", "uid": "job-uid", "controller": True}
    metadata = {"name": name, "namespace": "ai", "uid": f"uid-{name}", "ownerReferences": [owner]}
    metadata |= {"resourceVersion": "1", "creationTimestamp": format_instant(make.T0)}
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    waits |= {"lastTransitionTime": format_instant(make.at(seconds))}
    container = {"name": "t", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {
        "metadata": metadata,
        "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec},
        "status": {"phase": "Pending", "conditions": [waits]},
    }


class Api:
    """Lists pods, and Events by the uid that they are about."""

    def __init__(self, pods: Iterable[dict[str, Any]], events: dict[str, str]) -> None:
        self._pods = tuple(pods)
        self._events = events

    async def list(self, path: str, *, labels: str = "", fields: str = "") -> Listing:
        if "/events" in path:
            reason = self._events.get(fields.removeprefix("regarding.uid="))
            return Listing(() if reason is None else ({"reason": reason},), 1)
        assert (labels, fields) == ("!charterer.dev/job-uid", "status.phase=Pending,spec.nodeName=")
        return Listing(self._pods, 1)


class Told(Recorder):
    """What was recorded."""

    def __init__(self) -> None:
        self.heard: list[tuple[EventSubject, str, str]] = []

    def record(self, subject: EventSubject, reason: str, note: str, *, action: str, warning: bool = False) -> None:
        self.heard.append((subject, reason, note))


class Kept:
    """A store of these objects."""

    def __init__(self, budget: Budget, nodes: Iterable[Node]) -> None:
        self._objects: dict[str, dict[str, Any]] = {
            kinds.GPU_BUDGETS.name: {"b": budget},
            kinds.NAMESPACES.name: {"ai": DecodedNamespace("ai", {})},
            "Node": {node.name: node for node in nodes},
            kinds.GPU_RENTALS.name: {"r": make.rental(machine=make.instance())},
            kinds.GPU_POOLS.name: {"p": make.pool(device="example.com/npu")},
        }

    def view(self, kind: kinds.AnyKind) -> Any:
        return type("View", (), {"objects": self._objects[kind.name]})


def told(
    *pods: dict[str, Any],
    events: dict[str, str] | None = None,
    nodes: Iterable[Node] = (),
    budget: Budget | None = None,
    looks: int = 1,
    not_adopted: frozenset[str] = frozenset(),
) -> list[tuple[EventSubject, str, str]]:
    recorder = Told()
    store = cast(Store, Kept(make.budget() if budget is None else budget, nodes))

    async def main() -> None:
        unpaid = UnpaidPods(cast(Client, Api(pods, events or {})), store, recorder, lambda: NOW, not_adopted)
        for _ in range(looks):
            await unpaid.look()

    asyncio.run(main())
    return recorder.heard


def test_the_owner_of_a_pod_that_has_had_no_node_for_a_minute_is_told_once_what_to_do() -> None:
    ((subject, reason, note),) = told(homeless(), homeless("plain-1"), looks=3)
    assert subject == EventSubject("batch/v1", "Job", "ai", "plain", "job-uid")
    assert reason == "NotATrainingJob"
    assert "asks for 8 GPUs, and there is no node for it. GPUBudget team rents nodes for what asks it to" in note


def test_nobody_is_told_to_label_a_kind_that_the_operator_does_not_adopt() -> None:
    ((_, _, adopted),) = told(homeless())
    ((_, _, left_out),) = told(homeless(), not_adopted=frozenset({"Job"}))
    assert 'label this Job charterer.dev/adopt: "true"' in adopted
    assert "put its template into a TrainingJob" in left_out


def test_what_a_pool_calls_gpus_is_told_of_and_other_devices_are_not() -> None:
    pods = [homeless(f"{name}-0") for name in ("npu", "nic")]
    for pod, name in zip(pods, ("npu", "nic"), strict=True):
        pod["spec"]["containers"][0]["resources"]["limits"] = {f"example.com/{name}": 2}
    ((_, _, note),) = told(*pods)
    assert note.startswith("pod npu-0 asks for 2 GPUs")
    others = make.node(name=NodeName("theirs"), gpus=0, others={"example.com/npu": 2})
    assert told(*pods, nodes=[others]) == []


def test_a_pod_that_nobody_manages_is_told_itself() -> None:
    pod = homeless()
    del pod["metadata"]["ownerReferences"]
    ((subject, _, _),) = told(pod)
    assert (subject.kind, subject.name) == ("Pod", "plain-0")


def gated() -> dict[str, Any]:
    pod = homeless()
    pod["status"]["conditions"][0]["reason"] = "SchedulingGated"
    return pod


@pytest.mark.parametrize(
    "pod",
    [homeless(seconds=545), homeless(gpus=0), homeless(schedulerName="volcano"), homeless(nodeName="n1"), gated()],
    ids=["for less than a minute", "without GPUs", "of another scheduler", "with a node", "gated, as by Kueue"],
)
def test_nobody_is_told_of_a_pod_that_may_get_a_node_otherwise(pod: dict[str, Any]) -> None:
    assert told(pod) == []


@pytest.mark.parametrize("reason", ["TriggeredScaleUp", "Nominated"])
def test_nobody_is_told_while_an_autoscaler_makes_a_node(reason: str) -> None:
    assert told(homeless(), events={"uid-plain-0": reason}) == []


def test_a_pod_may_wait_for_a_node_that_charterer_has_not_rented() -> None:
    rented = make.node(gpus=8)
    assert told(homeless(), nodes=[rented])
    assert told(homeless(), nodes=[rented, replace(rented, name=NodeName("own"), gpus=4)])
    assert not told(homeless(), nodes=[rented, replace(rented, name=NodeName("own"))])


def test_nobody_is_told_where_no_budget_pays() -> None:
    assert told(homeless(), budget=make.budget(mode=Mode.OBSERVE)) == []
