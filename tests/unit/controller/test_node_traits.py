"""What nodes that came say of those that will come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from charterer.api.decode import DecodedJob
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.pools import refused_nodes, seen_traits, shown_by
from charterer.domain.ids import NodeName, RentalId
from charterer.domain.job import Job, Placement, RunOutcome, RunRecord
from charterer.domain.node_demands import NodeDemands, NodeTaint, NodeTraits
from charterer.domain.rental import RentalPhase
from charterer.domain.time import Instant
from tests import factory

MINUTE = 60_000_000
READY = Instant(100 * MINUTE)
KEEPS_OFF = NodeTaint("team", "ml", "NoSchedule")
STARTING = NodeTaint("node.kubernetes.io/not-ready", "", "NoSchedule")
REFUSED = "run 1 never started: 0/2 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s)."


def node(
    name: str, labels: dict[str, str], room: int = 64, *taints: NodeTaint, ready: bool = True
) -> NodeTraits | None:
    found = NodeTraits(tuple(sorted(labels.items())), taints, (("memory", room),))
    shown = shown_by(factory.node(name=NodeName(name), traits=found, ready=ready))
    return None if shown is None else shown[1]


def seen(
    nodes: dict[str, NodeTraits | None], minutes: int, jobs: Sequence[Job] = (), phase: RentalPhase = RentalPhase.READY
) -> NodeTraits | None:
    rentals = {
        ObjectKey("", name): factory.rental(id=RentalId(f"r-{name}"), node=NodeName(name), ready=READY, phase=phase)
        for name in nodes
    }
    shown = {
        ObjectKey("", name): None if traits is None else (NodeName(name), traits) for name, traits in nodes.items()
    }
    decoded = {ObjectKey("team", job.name): DecodedJob(job, "", "") for job in jobs}
    found = seen_traits(shown, rentals, refused_nodes(decoded), 100 + minutes)
    return found.get(factory.POOL)


def refused(name: str, rental: str, memory: int) -> Job:
    record = RunRecord(
        1, RunOutcome.NOT_STARTED, factory.allocation().option, (Placement(RentalId(rental), 4),), READY, READY, REFUSED
    )
    demands = NodeDemands(asks=(("memory", memory),))
    return factory.job(name, allocation=None, records=(record,), start_failures=1, demands=demands)


def test_what_all_nodes_show_is_expected_of_those_to_come() -> None:
    one = node("one", {"zone": "a", "disk": "ssd", "rack": "1"}, 64, KEEPS_OFF, STARTING)
    two = node("two", {"zone": "a", "disk": "ssd", "rack": "2"}, 60)
    assert seen({"one": one, "two": two}, 3) == NodeTraits(
        (("disk", "ssd"), ("zone", "a")), (KEEPS_OFF,), (("memory", 60),)
    )


def test_a_node_says_nothing_while_its_labels_may_still_come_nor_once_it_is_over() -> None:
    one = node("one", {"zone": "a"})
    assert seen({"one": one}, 1) is None
    assert seen({"one": one}, 2) is not None
    assert seen({"one": one}, 3, phase=RentalPhase.ENDED) is None
    assert seen({"one": node("one", {}, ready=False)}, 3) is None


def test_a_node_that_the_scheduler_refused_says_at_once_what_it_is() -> None:
    """Something there uses some of its memory: it has less than the pod asked for."""
    one = node("one", {"zone": "a"})
    assert seen({"one": one}, 0, [refused("train", "r-one", 50)]) == NodeTraits((("zone", "a"),), (), (("memory", 49),))


def test_what_jobs_left_each_other_of_a_node_is_not_what_it_has() -> None:
    one = node("one", {"zone": "a"})
    other = replace(refused("other", "r-one", 60), start_failures=0)
    told = seen({"one": one}, 0, [refused("train", "r-one", 50), other])
    assert told is not None
    assert dict(told.room) == {"memory": 64}
