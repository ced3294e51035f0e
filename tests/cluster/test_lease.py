"""Leadership through a real Lease: one at a time, handed over, lost in time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from charterer.cluster import credentials
from charterer.cluster.client import Client
from charterer.cluster.lease import Heartbeat, Lease, LeaseTimes
from charterer.cluster.paths import LEASES
from tests.cluster.support import awaited, make_namespace
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.controlplane import ControlPlane
from tests.testbed.gate import Gate, kubeconfig_through

QUICK = LeaseTimes(duration=2.0, renew=0.3, retry=0.1, renew_deadline=1.2)
PATIENT = LeaseTimes(duration=60.0, renew=0.3, retry=0.1, renew_deadline=40.0)
NAME = "elected"
"""No operator's: commands find the operator by Leases named charterer, in whatever namespace."""


class Candidate:
    """A Lease with its callbacks as events, and a clock that can jump."""

    def __init__(
        self,
        kubeconfig: Path,
        namespace: str,
        pod: str,
        times: LeaseTimes = QUICK,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self.silence = 0.0
        self.gained, self.lost = threading.Event(), threading.Event()
        self.why = ""
        self.ahead = 0.0
        self.lease = Lease(
            credentials.load(kubeconfig),
            NAME,
            namespace,
            pod,
            on_gained=self.gained.set,
            on_lost=self._lose,
            heartbeat=heartbeat,
            silence=lambda: self.silence,
            times=times,
            clock=lambda: time.monotonic() + self.ahead,
        )

    def _lose(self, why: str) -> None:
        self.why = why
        self.lost.set()

    async def stop(self) -> None:
        await asyncio.to_thread(self.lease.release)


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with await Client.connect(control_plane.kubeconfig) as client:
        yield client


@pytest.fixture
async def namespace(client: Client) -> str:
    return await make_namespace(client)


@pytest.fixture
def gate(control_plane: ControlPlane) -> Iterator[Gate]:
    with Gate("127.0.0.1", int(control_plane.url.rsplit(":", 1)[1])) as gate:
        yield gate


@pytest.fixture
def behind(control_plane: ControlPlane, gate: Gate, tmp_path: Path) -> Path:
    return kubeconfig_through(gate, control_plane.kubeconfig, tmp_path / "kubeconfig")


async def _spec(client: Client, namespace: str) -> Any:
    return (await client.get(LEASES.one(NAME, namespace)))["spec"]


@pytest.mark.parametrize("second", ["another", "pod-0"])
async def test_the_first_candidate_leads_at_once_and_a_second_waits(
    control_plane: ControlPlane, client: Client, namespace: str, second: str
) -> None:
    """Also one that takes itself for the same pod, such as an operator that is started by hand."""
    one = Candidate(control_plane.kubeconfig, namespace, "pod-0")
    two = Candidate(control_plane.kubeconfig, namespace, second)
    one.lease.start()
    await awaited(one.gained)
    two.lease.start()
    assert not await asyncio.to_thread(two.gained.wait, QUICK.duration + 1)
    assert one.lease.remaining() > 0
    assert two.lease.remaining() == 0
    assert two.lease.holder == one.lease.identity
    assert 0 < one.lease.remaining() <= QUICK.renew_deadline
    assert (await _spec(client, namespace))["holderIdentity"] == one.lease.identity
    await one.stop()
    await two.stop()


async def test_an_orderly_end_lets_the_next_lead_without_waiting(
    control_plane: ControlPlane, client: Client, namespace: str
) -> None:
    one = Candidate(control_plane.kubeconfig, namespace, "one", PATIENT)
    two = Candidate(control_plane.kubeconfig, namespace, "two", PATIENT)
    one.lease.start()
    await awaited(one.gained)
    two.lease.start()
    await one.stop()
    assert one.lease.remaining() == 0
    assert not one.lost.is_set()
    await awaited(two.gained, 5)
    assert (await _spec(client, namespace))["leaseTransitions"] == 1
    await two.stop()


async def test_a_dead_leader_is_followed_once_its_lease_was_seen_unchanged_for_its_duration(
    control_plane: ControlPlane, client: Client, namespace: str
) -> None:
    # Its renewTime lies in the future: the timestamps of another machine's clock must not matter.
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 2, "renewTime": "2100-01-01T00:00:00.000000Z"}
    await client.post(
        LEASES.all(namespace),
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NAME}, "spec": spec},
    )
    heir = Candidate(control_plane.kubeconfig, namespace, "heir")
    began = time.monotonic()
    heir.lease.start()
    await awaited(heir.gained, 10)
    assert time.monotonic() - began >= 2
    assert (await _spec(client, namespace))["leaseTransitions"] == 1
    await heir.stop()


@pytest.mark.parametrize("outage", ["refused", "silent"])
async def test_a_leader_that_cannot_renew_knows_before_another_can_lead(
    control_plane: ControlPlane, namespace: str, gate: Gate, behind: Path, outage: str
) -> None:
    cut_off = Candidate(behind, namespace, "cut-off")
    heir = Candidate(control_plane.kubeconfig, namespace, "heir")
    cut_off.lease.start()
    await awaited(cut_off.gained)
    heir.lease.start()
    if outage == "refused":
        gate.close()
    else:
        gate.delay = 3600
    await awaited(cut_off.lost, QUICK.duration)
    assert cut_off.lease.remaining() == 0
    assert not heir.gained.is_set()
    assert "not renewed" in cut_off.why
    await awaited(heir.gained, 10)
    await heir.stop()


async def test_a_short_outage_changes_nothing(gate: Gate, behind: Path, namespace: str) -> None:
    leader = Candidate(behind, namespace, "leader", PATIENT)
    leader.lease.start()
    await awaited(leader.gained)
    gate.close()
    before = leader.lease.deadline()
    assert not await asyncio.to_thread(leader.lost.wait, 1)
    gate.open()
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while leader.lease.deadline() == before:
            await asyncio.to_thread(leader.lost.wait, 0.05)
    assert leader.lease.remaining() > 0
    await leader.stop()


async def test_a_deposed_leader_finds_out_at_its_next_renewal(
    control_plane: ControlPlane, client: Client, namespace: str
) -> None:
    leader = Candidate(control_plane.kubeconfig, namespace, "leader", PATIENT)
    leader.lease.start()
    await awaited(leader.gained)
    usurper = Candidate(control_plane.kubeconfig, namespace, "leader").lease.identity
    await client.merge_patch(LEASES.one(NAME, namespace), {"spec": {"holderIdentity": usurper}})
    await awaited(leader.lost, 5)
    assert leader.why == f"the Lease is held by {usurper}"
    assert (await _spec(client, namespace))["holderIdentity"] == usurper


async def test_a_leader_whose_lease_somebody_touched_or_deleted_goes_on(
    control_plane: ControlPlane, client: Client, namespace: str
) -> None:
    leader = Candidate(control_plane.kubeconfig, namespace, "leader", PATIENT)
    leader.lease.start()
    await awaited(leader.gained)
    for disturb in ("touch", "delete"):
        if disturb == "touch":
            await client.merge_patch(LEASES.one(NAME, namespace), {"metadata": {"labels": {"touched": "yes"}}})
        else:
            await client.delete(LEASES.one(NAME, namespace))
        before = leader.lease.deadline()
        async with asyncio.timeout(OPERATORS_PATIENCE):
            while leader.lease.deadline() == before:
                await asyncio.to_thread(leader.lost.wait, 0.05)
    assert leader.lease.remaining() > 0
    assert (await _spec(client, namespace))["holderIdentity"] == leader.lease.identity
    await leader.stop()


async def test_a_clock_that_jumped_ahead_ends_leadership_at_once(control_plane: ControlPlane, namespace: str) -> None:
    slow = LeaseTimes(duration=60.0, renew=30.0, retry=0.1, renew_deadline=40.0)
    leader = Candidate(control_plane.kubeconfig, namespace, "leader", slow)
    leader.lease.start()
    await awaited(leader.gained)
    assert leader.lease.remaining() >= 35
    assert leader.lease.remaining() < 41
    leader.ahead = 3600
    assert leader.lease.remaining() == 0
    await awaited(leader.lost, 5)


async def test_renewals_are_told_to_the_heartbeat_also_by_a_standby(
    control_plane: ControlPlane, namespace: str
) -> None:
    beats: list[int] = []

    class Noted(Heartbeat):
        def renewed(self, resource_version: int) -> None:
            beats.append(resource_version)
            if len(set(beats)) >= 4:
                enough.set()

    enough = threading.Event()
    leader = Candidate(control_plane.kubeconfig, namespace, "leader")
    standby = Candidate(control_plane.kubeconfig, namespace, "standby", heartbeat=Noted())
    leader.lease.start()
    await awaited(leader.gained)
    standby.lease.start()
    await awaited(enough)
    await leader.stop()
    await standby.stop()


async def test_two_that_start_together_do_not_both_lead(control_plane: ControlPlane, namespace: str) -> None:
    several = [Candidate(control_plane.kubeconfig, namespace, f"pod-{n}", PATIENT) for n in range(4)]
    for candidate in several:
        candidate.lease.start()
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while not any(c.gained.is_set() for c in several):
            await asyncio.to_thread(several[0].gained.wait, 0.05)
    assert not await asyncio.to_thread(several[0].lost.wait, 1)
    assert sum(c.lease.remaining() > 0 for c in several) == 1
    for candidate in several:
        await candidate.stop()


async def test_a_leader_that_renews_and_is_answered_nothing_else_gives_way_to_another(
    control_plane: ControlPlane, namespace: str
) -> None:
    deaf = Candidate(control_plane.kubeconfig, namespace, "deaf")
    deaf.lease.start()
    await awaited(deaf.gained)
    deaf.silence = QUICK.act_deadline - 0.1
    other = Candidate(control_plane.kubeconfig, namespace, "other")
    other.lease.start()
    assert not deaf.lost.is_set()
    deaf.silence = QUICK.act_deadline
    await awaited(deaf.lost)
    assert "answered nothing but renewals" in deaf.why
    await awaited(other.gained)
    await asyncio.gather(deaf.stop(), other.stop())
