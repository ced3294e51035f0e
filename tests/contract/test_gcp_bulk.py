"""Pools of Google Cloud with an instance template: bulkInsert launches all of a request or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.order import RefusalKind, Scope
from charterer.domain.pool import CapacityType, InstanceState
from charterer.domain.time import instant
from charterer.providers.errors import Busy, InvalidRequest
from charterer.providers.gcp.listing import CLUSTER_LABEL, POOL_LABEL
from tests.contract.conftest import OpenGcp
from tests.contract.gcp_pools import POOL, TEMPLATE, TYPE, ZONE, Died, calls_of, die_at, empty
from tests.contract.wire import CLUSTER

BULK = "instances.bulkInsert"
OUT = (TYPE, ZONE, "STANDARD")


async def test_the_orders_of_a_job_are_one_request_with_the_labels_of_cluster_and_pool(gcp: OpenGcp) -> None:
    m = gcp(TEMPLATE)
    assert (await m.ask("one", "two", together=True)).refused == {}
    [call] = calls_of(m, BULK)
    body = call["bulkInsertInstanceResourceResource"]
    assert (int(body["count"]), int(body["minCount"])) == (2, 2)
    assert set(body["perInstanceProperties"]) == {"charterer-cone", "charterer-ctwo"}
    for machine in m.machines:
        labels = machine.labels_at(m.project.clock.now)
        assert (labels[CLUSTER_LABEL], labels[POOL_LABEL], labels["team"]) == (CLUSTER, "gcp", "x")
    survey = await m.survey()
    assert {i.order for i in survey.instances} == {"cone", "ctwo"}
    assert (survey.traits.together, survey.traits.keeps_trying) == (True, False)


async def test_too_little_room_for_all_is_a_refusal_of_all_and_nothing_is_left(gcp: OpenGcp) -> None:
    m = gcp(TEMPLATE)
    m.project.stock[OUT] = 2
    reply = await m.ask("one", "two", "three", together=True)
    assert {(r.kind, r.scope, r.where, r.code) for r in reply.refused.values()} == {
        (RefusalKind.STOCK_OUT, Scope.ZONE, f"{TYPE} OnDemand {ZONE}", m.project.stock_out)
    }
    assert reply.refused.keys() == {"cone", "ctwo", "cthree"}
    assert m.truth() == []
    assert (await m.survey()).ordered == frozenset()


async def test_a_request_that_takes_its_time_is_on_order_until_it_ends(gcp: OpenGcp) -> None:
    m = gcp(TEMPLATE)
    m.project.operation_seconds = 120
    m.project.stock[OUT] = 1
    reply = await m.ask("one", "two", together=True)
    assert (reply.launched, reply.refused) == ({}, {})
    survey = await m.survey()
    assert survey.ordered | {i.order for i in survey.instances} == {"cone", "ctwo"}
    assert survey.refusals == ()
    m.project.clock.advance(180)
    after = await m.survey()
    assert after.ordered == frozenset()
    assert {(r.order, r.kind) for r in after.refusals} == {
        ("cone", RefusalKind.STOCK_OUT),
        ("ctwo", RefusalKind.STOCK_OUT),
    }
    assert m.truth() == []
    ended = [i for i in after.instances if i.state is InstanceState.ENDED]
    assert {i.id for i in ended} == {str(vm.id) for vm in m.machines}, "what was rolled back is billed, and is told"


async def test_a_new_process_learns_what_became_of_a_request_from_the_same_request(gcp: OpenGcp) -> None:
    m = gcp(TEMPLATE)
    m.project.operation_seconds = 120
    m.project.stock[OUT] = 0
    await m.ask("one", "two", together=True)
    m.project.clock.advance(180)
    m.project.stock[OUT] = 5
    reply = await gcp(TEMPLATE).ask("one", "two", together=True)
    assert {r.kind for r in reply.refused.values()} == {RefusalKind.STOCK_OUT}
    assert m.truth() == []


async def test_orders_of_several_jobs_are_asked_for_one_by_one_until_the_first_refusal(gcp: OpenGcp) -> None:
    m = gcp(TEMPLATE)
    m.project.stock[OUT] = 3
    reply = await m.ask(*[f"n{number}" for number in range(9)])
    assert len(m.truth()) == 3
    assert len(reply.refused) == 1
    assert len(calls_of(m, BULK)) == 4


async def test_those_that_are_there_are_not_asked_for_again_with_the_others(gcp: OpenGcp) -> None:
    m = gcp(TEMPLATE)
    await m.ask("one")
    await m.ask("one", "two", together=True)
    assert sorted(vm.name for vm in m.machines) == ["charterer-cone", "charterer-ctwo"]


async def test_a_gang_of_which_some_are_there_unlisted_is_busy_and_launches_nothing(gcp: OpenGcp) -> None:
    m = gcp(TEMPLATE)
    await m.ask("one")
    m.project.clock.advance(10)
    m.project.list_lag = 60
    with pytest.raises(Busy, match="are there already"):
        await m.ask("one", "two", together=True)
    assert len(m.truth()) == 1


async def test_a_reservation_is_the_only_place(gcp: OpenGcp) -> None:
    m = gcp(replace(TEMPLATE, reservation="kept"))
    m.project.add_reservation("kept", ZONE, TYPE, 1)
    await m.ask("one")
    [machine] = m.machines
    assert machine.reservation == "kept"
    reply = await m.ask("two")
    [told] = reply.refused.values()
    assert (told.kind, told.scope, told.where) == (RefusalKind.STOCK_OUT, Scope.POOL, "gcp")
    assert "does not have available resources" in told.message


async def test_a_limit_of_time_is_told_from_the_start_and_ends_the_instance(gcp: OpenGcp) -> None:
    m = gcp(replace(TEMPLATE, run_seconds=3600))
    await m.ask("one")
    [instance] = (await m.survey()).instances
    [machine] = m.machines
    assert machine.ends is not None
    assert instance.ends == instant(machine.ends)
    m.project.clock.advance(3660)
    [ended] = (await m.survey()).instances
    assert (ended.state, ended.ended) == (InstanceState.ENDED, instant(machine.ended or machine.launched))


async def test_a_spot_template_that_stops_its_nodes_is_refused_with_what_to_do(gcp: OpenGcp) -> None:
    m = gcp(replace(TEMPLATE, template="stopping"), CapacityType.SPOT)
    m.project.add_template("stopping", TYPE, model="SPOT", action="STOP")
    with pytest.raises(InvalidRequest, match="leaves disks that are billed: set it to DELETE"):
        await m.ask("one")
    assert m.truth() == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_process_killed_at_any_call_leaves_all_of_a_job_or_nothing(gcp: OpenGcp, when: str) -> None:
    for call in range(1, 12):
        m = gcp(TEMPLATE)
        empty(m.project)
        die_at(m, call, before=when == "before")
        finished = True
        try:
            await m.ask("one", "two", together=True)
        except Died:
            finished = False
        other = gcp(TEMPLATE)
        await other.survey({POOL: []})
        await other.ask("one", "two", together=True)
        assert sorted((await other.held()).values()) == ["cone", "ctwo"]
        assert len(m.machines) == 2
        if finished:
            return
    raise AssertionError("asking never ended")
