"""Ends of instances of Google Cloud: on order, by the cloud, by hand, and whose they are."""

from __future__ import annotations

import pytest

from charterer.domain.pool import CapacityType, InstanceState
from charterer.domain.time import instant
from charterer.providers.errors import InvalidRequest
from charterer.providers.gcp.listing import labels_of
from tests.contract.conftest import OpenGcp
from tests.contract.gcp_pools import POOL, SPOT_GROUP, TYPE, ZONE, calls_of
from tests.contract.wire import CLUSTER


async def test_the_place_in_the_group_goes_with_the_instance(gcp: OpenGcp) -> None:
    m = gcp()
    await m.ask("one", "two")
    [id] = [id for id, order in (await m.held()).items() if order == "cone"]
    await m.terminate(id)
    m.project.clock.advance(3600)
    assert m.project.groups[ZONE, "gpu"].target == 1
    assert list((await m.held()).values()) == ["ctwo"]


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_preemption_is_told_with_its_time_and_the_group_makes_nothing_again(gcp: OpenGcp, keeps: bool) -> None:
    m = gcp(SPOT_GROUP, CapacityType.SPOT)
    m.project.keeps_failed = keeps
    await m.ask("one")
    m.project.clock.advance(900)
    await m.survey()
    m.project.preempt(m.machines[0])
    m.project.clock.advance(120)
    survey = await m.survey()
    [instance] = survey.instances
    assert instance.state is InstanceState.ENDED
    assert instance.ended is not None
    [machine] = m.machines
    assert machine.ended is not None
    assert instance.ended == instant(machine.ended)
    assert survey.ordered == frozenset()
    await m.ask("one")
    assert m.truth() == [], "an order whose machine was taken back is not served again"


async def test_an_end_is_told_for_an_hour_also_by_a_process_that_did_not_see_it(gcp: OpenGcp) -> None:
    m = gcp()
    await m.ask("one")
    [id] = await m.held()
    m.project.clock.advance(7200)
    m.project.end(m.project.instances[int(id)])
    m.project.clock.advance(60)
    known = {POOL: [id]}
    for market in (m, gcp()):
        [instance] = (await market.survey(known)).instances
        assert (instance.id, instance.state) == (id, InstanceState.ENDED)
        assert instance.launched == instant(m.machines[0].launched)
        assert instance.ended == instant(m.machines[0].ended or m.project.clock.now)
    m.project.clock.advance(3700)
    assert (await m.survey()).instances == ()


async def test_a_machine_that_no_list_ever_showed_is_told_with_its_bill(gcp: OpenGcp) -> None:
    m = gcp(SPOT_GROUP, CapacityType.SPOT)
    m.project.keeps_failed = False
    await m.ask("one")
    m.project.clock.advance(20)
    m.project.preempt(m.machines[0])
    m.project.clock.advance(40)
    [instance] = (await m.survey()).instances
    assert (instance.order, instance.state) == ("cone", InstanceState.ENDED)
    assert instance.launched == instant(m.machines[0].launched)


async def test_a_known_machine_that_lost_its_labels_is_still_listed_and_ended(gcp: OpenGcp) -> None:
    m = gcp()
    await m.ask("one")
    [id] = await m.held()
    machine = m.project.instances[int(id)]
    machine.labels.append((m.project.clock.now, {}))
    for market in (m, gcp()):
        assert [i.id for i in (await market.survey({POOL: [id]})).instances] == [id]
    await m.terminate(id)
    assert m.truth() == []


async def test_an_instance_of_another_cluster_is_never_ended_whatever_its_name(gcp: OpenGcp) -> None:
    m = gcp()
    theirs = m.project.start_by_hand("charterer-cother", ZONE, TYPE, labels_of("another", POOL))
    bare = m.project.start_by_hand("charterer-cbare", ZONE, TYPE, {})
    plain = m.project.start_by_hand("web-1", ZONE, TYPE, labels_of(CLUSTER, POOL))
    for machine in (theirs, bare, plain):
        with pytest.raises(InvalidRequest, match="it is not ended"):
            await m.terminate(str(machine.id))
    assert len(m.truth()) == 3


async def test_a_member_that_somebody_abandoned_is_deleted_by_itself(gcp: OpenGcp) -> None:
    m = gcp()
    await m.ask("one")
    [id] = await m.held()
    m.project.groups[ZONE, "gpu"].rows.clear()
    await m.terminate(id)
    assert m.truth() == []
    assert len(calls_of(m, "instances.delete")) == 1


async def test_a_deletion_that_fails_late_is_told(gcp: OpenGcp) -> None:
    m = gcp()
    await m.ask("one")
    [id] = await m.held()
    m.project.fail_late("compute.instanceGroupManagers.deleteInstances", "RESOURCE_NOT_READY")
    with pytest.raises(Exception, match="RESOURCE_NOT_READY"):
        await m.terminate(id)
    await m.terminate(id)
    assert m.truth() == []


async def test_a_group_that_makes_an_instance_again_is_told_to_stop(gcp: OpenGcp) -> None:
    """Somebody let the group repair while a node was there: what it makes again is on order, and is withdrawn."""
    m = gcp()
    await m.ask("one")
    await m.survey()
    m.project.groups[ZONE, "gpu"].settings.instance_lifecycle_policy.default_action_on_failure = "REPAIR"
    m.project.stock[TYPE, ZONE, "STANDARD"] = -1
    m.project.end(m.machines[0])
    m.project.clock.advance(60)
    survey = await m.survey()
    assert survey.ordered == {"cone"}
    assert [i.state for i in survey.instances] == [InstanceState.ENDED]
    await m.withdraw("one")
    m.project.stock.clear()
    m.project.clock.advance(600)
    assert (await m.survey()).ordered == frozenset()
    assert m.truth() == []
