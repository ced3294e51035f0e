"""Events on a real API server: accepted, aggregated, and never in the way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from charterer.api.manifests import EventSubject, Reporter, event
from charterer.cluster.client import Client
from charterer.cluster.events import PENDING, REMEMBERED, UPDATE, WINDOW, Recorder
from charterer.cluster.paths import CONFIG_MAPS, EVENTS, NODES
from charterer.domain.time import Instant
from demo.run import TO_TRY
from tests.cluster.support import config_map, fresh, make_namespace
from tests.testbed.controlplane import ControlPlane
from tests.testbed.gate import Gate, kubeconfig_through

_RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with await Client.connect(control_plane.kubeconfig) as client:
        yield client


@pytest.fixture
async def subject(client: Client) -> EventSubject:
    namespace = await make_namespace(client)
    raw = await client.post(CONFIG_MAPS.all(namespace), config_map(namespace, "thing"))
    return EventSubject("v1", "ConfigMap", namespace, "thing", raw["metadata"]["uid"])


async def test_what_is_said_shows_in_describe(
    control_plane: ControlPlane, client: Client, subject: EventSubject
) -> None:
    recorder = Recorder(client, instance="pod-0")
    recorder.record(subject, "Widened", "from 4 to 8 GPUs: saves 3.2 h for $1.10", action="Allocate")
    await recorder.flush()
    told = control_plane.kubectl("describe", "configmap", "thing", "--namespace", subject.namespace)
    assert "Widened" in told
    assert "saves 3.2 h for $1.10" in told


async def test_the_same_said_often_is_one_event_with_a_count(client: Client, subject: EventSubject) -> None:
    clock = Clock()
    recorder = Recorder(client, instance="pod-0", clock=clock)
    for _ in range(100):
        recorder.record(subject, "StockOut", "no nodes", action="Rent", warning=True)
        await recorder.flush()
    clock.seconds += UPDATE
    for _ in range(3):
        await recorder.flush()
    (event,) = (await client.list(EVENTS.all(subject.namespace))).items
    assert event["type"] == "Warning"
    assert event["series"]["count"] == 100


def _commands_about_events() -> list[str]:
    """What the demo and the runbooks tell a person to type, without ``kubectl``."""
    told = [*TO_TRY, *[code for page in sorted(_RUNBOOKS.glob("*.md")) for code in page.read_text().split("`")[1::2]]]
    return [" ".join(line.split()[1:]) for line in told if line.startswith("kubectl get events")]


async def test_the_commands_that_the_demo_and_the_runbooks_give_list_charterers_events_and_no_others(
    control_plane: ControlPlane, client: Client, subject: EventSubject
) -> None:
    ours = Recorder(client, instance="pod-0")
    ours.record(subject, "Failing", "a step of ours", action="Rent", warning=True)
    await ours.flush()
    stranger = event(
        subject, Reporter("scheduler", "pod-1"), Instant(0), reason="Odd", action="Bind", note="a pod of theirs"
    )
    await client.post(EVENTS.all(subject.namespace), stranger)
    commands = _commands_about_events()
    assert len(commands) >= 2
    for command in commands:
        listed = control_plane.kubectl(*command.split())
        assert "a step of ours" in listed
        assert "a pod of theirs" not in listed


async def test_another_note_or_a_later_time_is_another_event(client: Client, subject: EventSubject) -> None:
    clock = Clock()
    recorder = Recorder(client, instance="pod-0", clock=clock)
    recorder.record(subject, "Widened", "to 4", action="Allocate")
    recorder.record(subject, "Widened", "to 8", action="Allocate")
    await recorder.flush()
    clock.seconds += WINDOW
    recorder.record(subject, "Widened", "to 8", action="Allocate")
    await recorder.flush()
    assert len((await client.list(EVENTS.all(subject.namespace))).items) == 3


async def test_an_object_without_a_namespace_can_be_spoken_of(client: Client) -> None:
    name = fresh("node")
    node = await client.post(NODES.all(), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    recorder = Recorder(client, instance="pod-0")
    recorder.record(
        EventSubject("v1", "Node", "", name, node["metadata"]["uid"]), "Cordoned", "it drains", action="Drain"
    )
    await recorder.flush()
    events = (await client.list(EVENTS.all("default"), fields=f"regarding.name={name}")).items
    ours = [event for event in events if event["reportingInstance"] == "pod-0"]  # the node controller speaks of it, too
    assert [event["reason"] for event in ours] == ["Cordoned"]
    assert recorder.dropped == 0
    await client.delete(NODES.one(name))


async def test_an_outage_costs_events_and_nothing_else(
    control_plane: ControlPlane, subject: EventSubject, tmp_path: Path
) -> None:
    with Gate("127.0.0.1", int(control_plane.url.rsplit(":", 1)[1])) as gate:
        config = kubeconfig_through(gate, control_plane.kubeconfig, tmp_path / "kubeconfig")
        async with await Client.connect(config) as client:
            recorder = Recorder(client, instance="pod-0")
            gate.close()
            recorder.record(subject, "Widened", "unheard", action="Allocate")
            await recorder.flush()
            assert recorder.dropped == 1
            gate.open()
            recorder.record(subject, "Widened", "heard", action="Allocate")
            await recorder.flush()
            assert [e["note"] for e in (await client.list(EVENTS.all(subject.namespace))).items] == ["heard"]


async def test_a_flood_is_dropped_and_memory_stays_bounded(client: Client, subject: EventSubject) -> None:
    recorder = Recorder(client, instance="pod-0")
    for number in range(PENDING + REMEMBERED):
        recorder.record(subject, "Widened", str(number), action="Allocate")
    assert recorder.dropped == REMEMBERED
    assert recorder.waiting == PENDING
