"""A process that is killed before or after any call to Google Cloud."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from charterer.domain.ids import InstanceId
from tests.contract.conftest import OpenGcp
from tests.contract.gcp_pools import POOL, TYPE, ZONE, Died, GcpMarket, die_at, empty

STEPS = ("ask", "withdraw", "terminate")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_process_killed_at_any_call_leaves_nothing_rented_twice_or_forgotten(
    gcp: OpenGcp, step: str, when: str
) -> None:
    for call in range(1, 12):
        m = gcp()
        empty(m.project)
        m.project.stock[TYPE, ZONE, "STANDARD"] = 2
        if step != "ask":
            await m.ask("one", "two", *(["three"] if step == "withdraw" else []))
        held = await m.held()
        die_at(m, call, before=when == "before")
        finished = True
        try:
            await _act(m, step, held)
        except Died:
            finished = False
        other, known = gcp(), {POOL: list(held)}
        await other.survey(known)
        await _act(other, step, held)
        survey = await other.survey(known)
        alive = {i.id: i.order for i in survey.instances if i.ended is None}
        assert set(alive.values()) == ({"ctwo"} if step == "terminate" else {"cone", "ctwo"}), (step, when, call)
        assert set(alive) == set(other.truth()), (step, when, call)
        assert survey.ordered == frozenset()
        if finished:
            return
    raise AssertionError("the step never ended")


async def _act(m: GcpMarket, step: str, held: Mapping[InstanceId, str]) -> None:
    match step:
        case "ask":
            await m.ask("one", "two")
        case "withdraw":
            await m.withdraw("three")
        case _:
            [one] = [id for id, order in held.items() if order == "cone"]
            await m.terminate(one)


async def test_two_processes_that_ask_at_the_same_time_launch_each_order_once(gcp: OpenGcp) -> None:
    first, second = gcp(), gcp()
    await asyncio.gather(first.ask("one", "two"), second.ask("two", "one"), first.ask("two"), return_exceptions=True)
    await first.ask("one", "two")
    assert sorted(vm.name for vm in first.machines) == ["charterer-cone", "charterer-ctwo"]
