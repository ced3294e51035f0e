"""Pools of Google Cloud with a managed instance group: what the operator may rely on."""

from __future__ import annotations

import uuid

import pytest

from charterer.domain.ids import PoolId
from charterer.domain.order import RefusalKind, Scope
from charterer.domain.pool import InstanceState, Offering, Survey
from charterer.domain.time import instant
from charterer.providers.errors import (
    CloudOutcomeUnknown,
    CloudUnauthorized,
    InvalidRequest,
    Throttled,
    Transient,
    UnknownCode,
)
from charterer.providers.gcp.listing import CLUSTER_LABEL, POOL_LABEL, labels_of
from tests.clouds.gcp.protocol import Fault
from tests.contract.conftest import OpenGcp
from tests.contract.gcp_pools import GROUP, PROJECT, TYPE, ZONE, calls_of, gcp_pool
from tests.contract.wire import CLUSTER, of_machine

CREATE, DELETE = "instanceGroupManagers.createInstances", "instanceGroupManagers.deleteInstances"


# --- asking ----------------------------------------------------------------------------------------------------------


async def test_an_order_is_a_name_and_the_instance_carries_the_labels_of_cluster_and_pool(gcp: OpenGcp) -> None:
    m = gcp()
    reply = await m.ask("one")
    [machine] = m.machines
    assert (reply.launched, reply.refused) == ({}, {}), "an id is known when the group has made the instance"
    assert (machine.name, machine.group) == ("charterer-cone", "gpu")
    labels = machine.labels_at(m.project.clock.now)
    assert (labels[CLUSTER_LABEL], labels[POOL_LABEL]) == (CLUSTER, "gcp")
    [call] = calls_of(m, CREATE)
    assert uuid.UUID(call["requestId"]).version == 5


async def test_a_survey_tells_state_order_and_offering(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.pending_seconds = 30
    await m.ask("one")
    survey = await m.survey()
    [instance] = survey.instances
    assert (instance.state, instance.order, instance.ended) == (InstanceState.PENDING, "cone", None)
    assert instance.provider_id == f"gce://{PROJECT}/{ZONE}/charterer-cone"
    assert instance.launched == survey.asked == instant(m.project.clock.now)
    assert instance.billing_minimum_seconds == 60
    group_id = str(m.project.groups[ZONE, "gpu"].id)
    assert survey.offering == Offering("NVIDIA-A100-SXM4-40GB", 1, TYPE, ZONE, group_id, traits=of_machine(12, 87_040))
    assert (survey.target, survey.ordered, survey.refusals) == (None, frozenset(), ())
    assert (survey.traits.named, survey.traits.keeps_trying, survey.traits.together) == (True, True, False)
    m.project.clock.advance(30)
    assert [i.state for i in (await m.survey()).instances] == [InstanceState.RUNNING]


async def test_all_orders_of_an_ask_are_one_call(gcp: OpenGcp) -> None:
    m = gcp()
    await m.ask("one", "two", "three", together=True)
    [call] = calls_of(m, CREATE)
    body = call["instanceGroupManagersCreateInstancesRequestResource"]
    assert [each["name"] for each in body["instances"]] == ["charterer-cone", "charterer-ctwo", "charterer-cthree"]
    assert len(await m.held()) == 3


async def test_a_name_that_the_group_has_although_no_list_shows_it_keeps_no_other_from_being_made(
    gcp: OpenGcp,
) -> None:
    m = gcp()
    await m.ask("one")
    m.project.clock.advance(10)
    m.project.list_lag = 60
    reply = await m.ask("one", "two", "three")
    assert reply.refused == {}
    assert sorted(vm.name for vm in m.machines) == ["charterer-cone", "charterer-cthree", "charterer-ctwo"]


async def test_a_name_that_is_refused_at_once_because_it_is_known_is_no_error(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.refuses_known_at_once = True
    await m.ask("one")
    m.project.clock.advance(2 * 3600)
    m.project.list_lag = 3 * 3600
    assert (await m.ask("one")).refused == {}
    assert len(m.machines) == 1


# --- what the group cannot make ---------------------------------------------------------------------------------------


async def test_what_finds_no_room_stays_ordered_until_it_is_withdrawn_by_its_name(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.stock[TYPE, ZONE, "STANDARD"] = 1
    await m.ask("one", "two", "three", together=True)
    survey = await m.survey()
    assert survey.ordered == {"cthree", "ctwo"}
    assert {(r.kind, r.scope, r.where, r.order) for r in survey.refusals} == {
        (RefusalKind.STOCK_OUT, Scope.ZONE, f"{TYPE} OnDemand {ZONE}", "ctwo"),
        (RefusalKind.STOCK_OUT, Scope.ZONE, f"{TYPE} OnDemand {ZONE}", "cthree"),
    }
    await m.withdraw("two", "three")
    m.project.stock[TYPE, ZONE, "STANDARD"] = 5
    m.project.clock.advance(600)
    after = await m.survey()
    assert (after.ordered, [i.order for i in after.instances]) == (frozenset(), ["cone"])
    assert m.project.groups[ZONE, "gpu"].target == 1


async def test_an_order_that_was_served_meanwhile_is_not_withdrawn(gcp: OpenGcp) -> None:
    m = gcp()
    await m.ask("one")
    await m.withdraw("one")
    assert len(m.truth()) == 1
    assert calls_of(m, DELETE) == []


async def test_an_attempt_under_way_has_the_error_of_the_one_before(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.stock[TYPE, ZONE, "STANDARD"] = 0
    await m.ask("one")
    m.project.hides_last_attempt = True
    m.project.clock.advance(5)
    [told] = (await m.survey()).refusals
    assert (told.kind, told.order) == (RefusalKind.STOCK_OUT, "cone")
    assert m.project.count()["instanceGroupManagers.listErrors"] == 1


async def test_a_quota_names_its_family_and_where_it_holds(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.quotas["us-central1", "NVIDIA_A100_GPUS"] = 0
    await m.ask("one")
    [told] = (await m.survey()).refusals
    assert (told.kind, told.scope, told.where) == (
        RefusalKind.QUOTA_EXCEEDED,
        Scope.FAMILY,
        "nvidia-tesla-a100 OnDemand us-central1",
    )


async def test_a_quota_of_all_regions_reaches_the_whole_project(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.quotas["global", "GPUS_ALL_REGIONS"] = 0
    await m.ask("one")
    [told] = (await m.survey()).refusals
    assert (told.kind, told.scope, told.where) == (RefusalKind.QUOTA_EXCEEDED, Scope.ACCOUNT, PROJECT)


async def test_a_code_that_nobody_knows_is_no_stock_out(gcp: OpenGcp, caplog: pytest.LogCaptureFixture) -> None:
    m = gcp()
    m.project.stock[TYPE, ZONE, "STANDARD"] = 0
    m.project.stock_out = "NEVER_SEEN"
    await m.ask("one")
    [told] = (await m.survey()).refusals
    assert (told.kind, told.code) == (RefusalKind.UNKNOWN_CODE, "NEVER_SEEN")
    assert "unknown code NEVER_SEEN" in caplog.text


async def test_an_operation_that_fails_after_it_was_accepted_refuses_its_orders(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.fail_late("compute.instanceGroupManagers.createInstances", "PERMISSIONS_ERROR", "you may not")
    m.project.operation_seconds = 0
    reply = await m.ask("one", "two")
    assert {(r.kind, r.scope, r.message) for r in reply.refused.values()} == {
        (RefusalKind.UNAUTHORIZED, Scope.ACCOUNT, "you may not")
    }
    assert reply.refused.keys() == {"cone", "ctwo"}
    assert m.truth() == []


async def test_what_a_group_keeps_of_a_dead_instance_makes_room_for_the_next(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.keeps_failed = True
    await m.ask("one")
    m.project.end(m.machines[0])
    await m.ask("two")
    group = m.project.groups[ZONE, "gpu"]
    assert [name for name in group.members()] == ["charterer-ctwo"]
    assert group.target == 1


# --- many pools, pages, faults ----------------------------------------------------------------------------------------


async def test_pages_are_all_read(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.page = 3
    await m.ask(*[f"n{number}" for number in range(8)])
    assert len(await m.held()) == 8


async def test_a_zone_that_cannot_be_reached_hides_no_other(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.add_template("far", TYPE, labels=labels_of(CLUSTER, PoolId("far")))
    m.project.add_group("far", "europe-west4-a", "far")
    far = gcp_pool(type(GROUP)(PROJECT, "europe-west4-a", "far"), id=PoolId("far"), uid="uid-far")
    m.project.unreachable = {"europe-west4-a"}
    answers = await m.provider.survey([m.pool, far])
    assert isinstance(answers[m.pool.id], Survey)
    assert isinstance(answers[far.id], Transient)


async def test_two_pools_of_a_zone_share_the_lists(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.add_template("second", TYPE, labels=labels_of(CLUSTER, PoolId("second")))
    m.project.add_group("second", ZONE, "second")
    second = gcp_pool(type(GROUP)(PROJECT, ZONE, "second"), id=PoolId("second"), uid="uid-second")
    await m.provider.survey([m.pool, second])
    m.project.calls.clear()
    answers = await m.provider.survey([m.pool, second])
    assert all(isinstance(answer, Survey) for answer in answers.values())
    assert dict(m.project.count()) == {"instances.list": 1, "zoneOperations.list": 1}


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault(403, "forbidden", "Required 'compute.instanceGroupManagers.update' permission"), CloudUnauthorized),
        (Fault(403, "rateLimitExceeded", "Rate Limit Exceeded"), Throttled),
        (Fault(429, "", "Too many"), Throttled),
        (Fault(400, "invalid", "no"), InvalidRequest),
        (Fault(400, "neverSeen", "no"), UnknownCode),
        (Fault(500, "neverSeen", "no"), CloudOutcomeUnknown),
        (Fault(503, "backendError", "no"), CloudOutcomeUnknown),
    ],
)
async def test_an_error_of_a_whole_ask_is_of_one_kind(gcp: OpenGcp, fault: Fault, kind: type[Exception]) -> None:
    m = gcp()
    m.project.faults.fail(CREATE, fault)
    with pytest.raises(kind):
        await m.ask("one")
    assert m.truth() == []


async def test_a_read_is_repeated_and_a_mutation_never(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.faults.fail("instances.list", Fault(503, "backendError", "no"), times=2)
    assert isinstance(await m.survey(), Survey)
    assert m.project.count()["instances.list"] == 3
    m.project.faults.fail(CREATE, Fault(503, "backendError", "no"), times=5)
    with pytest.raises(CloudOutcomeUnknown):
        await m.ask("one")
    assert m.project.count()[CREATE] == 1
