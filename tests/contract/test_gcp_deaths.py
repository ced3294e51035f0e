"""A process that is killed before or after any call to Google Cloud."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from charterer.providers.gcp.permissions import Call
from tests.contract.conftest import OpenGcp
from tests.contract.gcp_pools import POOL, TYPE, ZONE, GcpMarket

_STEPS = ["ask", "withdraw", "terminate"]


class Died(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", _STEPS)
async def test_a_process_killed_at_any_call_leaves_nothing_rented_twice_or_forgotten(
    gcp: OpenGcp, step: str, when: str
) -> None:
    for kill_at in range(12):
        m = gcp()
        m.project.instances.clear()
        m.project.operations.clear()
        m.project.remembered.clear()
        group = m.project.groups[ZONE, "gpu"]
        group.rows.clear()
        group.target = 0
        m.project.stock[TYPE, ZONE, "STANDARD"] = 2
        if step == "withdraw":
            await m.ask("one", "two", "three")
        if step == "terminate":
            await m.ask("one", "two")
        held = await m.held()
        send, sent = m.provider._calls._send, 0

        def dying(call: Call, params: Any, send: Any = send, kill_at: int = kill_at) -> Any:
            nonlocal sent
            sent += 1
            if sent == kill_at + 1 and when == "before":
                raise Died
            answer = send(call, params)
            if sent == kill_at + 1:
                raise Died
            return answer

        m.provider._calls._send = dying
        try:
            await _act(m, step, held)
        except Died:
            finished = False
        else:
            finished = True
        other = gcp()
        await other.survey({POOL: list(held)})
        await _act(other, step, held)
        survey = await other.survey({POOL: list(held)})
        alive = {i.id: i.order for i in survey.instances if i.ended is None}
        wanted = {"ask": {"cone", "ctwo"}, "withdraw": {"cone", "ctwo"}, "terminate": {"ctwo"}}[step]
        assert set(alive.values()) == wanted, (step, when, kill_at)
        assert set(alive) == set(other.truth()), (step, when, kill_at)
        assert survey.ordered == frozenset()
        if finished:
            return
    raise AssertionError("the step never ended")


async def _act(m: GcpMarket, step: str, held: Any) -> None:
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
