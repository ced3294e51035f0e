"""Pools of Azure whose operator dies around a call, that are not there, or have others beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from charterer.domain.ids import PoolId
from charterer.domain.pool import CapacityType, Survey
from charterer.providers.azure.listing import LAG_SECONDS
from charterer.providers.azure.permissions import Call
from charterer.providers.errors import (
    Busy,
    CloudOutcomeUnknown,
    CloudUnauthorized,
    InvalidRequest,
    NotFoundInCloud,
)
from tests.clouds.azure.aks import reconcile
from tests.contract.azure_pools import KINDS, NODE_POOL, SIZE, AzureMarket
from tests.contract.conftest import OpenAzure

every_kind = pytest.mark.parametrize("kind", KINDS)
SETS = pytest.mark.parametrize("kind", ["uniform", "flexible"])


def out_of_stock(m: AzureMarket, left: int = 0) -> None:
    """So many VMs may still come."""
    for priority in ("Regular", "Spot"):
        m.sub.stock[SIZE, m.sub.location, priority] = left


# --- a process that dies around a call -------------------------------------------------------------------------------

GROW = {"aks": "agent_pools_create_or_update"}
END = {"aks": "agent_pools_delete_machines"}


@every_kind
@pytest.mark.parametrize("takes_effect", [False, True], ids=["before the call", "after the call"])
async def test_killed_around_every_change_nothing_is_rented_twice_or_forgotten(
    azure_market: OpenAzure, kind: str, takes_effect: bool
) -> None:
    """Of three nodes two come; the third is withdrawn, and one is ended. Each change loses its answer once."""
    m = azure_market(kind)
    out_of_stock(m, 2)
    grow = GROW.get(kind, "virtual_machine_scale_sets_update")
    end = END.get(kind, "virtual_machine_scale_sets_delete_instances")

    async def killed(operation: str, change: Callable[[AzureMarket], object]) -> AzureMarket:
        m.sub.faults.lose_answer(operation, takes_effect=takes_effect)
        with pytest.raises(CloudOutcomeUnknown):
            await change(azure_market(kind))  # type: ignore[misc]
        another = azure_market(kind)
        await another.survey()
        await change(another)  # type: ignore[misc]
        return another

    here = await killed(grow, lambda m: m.ask(3, "one", "two", "three"))
    first, second = sorted(i.id for i in (await here.survey()).instances)
    here = await killed(end, lambda m: m.withdraw(2))
    assert sorted(m.truth()) == [first, second]
    here = await killed(end, lambda m: m.terminate(first))
    assert m.truth() == [second]
    survey = await here.survey()
    assert ([i.id for i in survey.instances], survey.target) == ([second], 1)


@every_kind
@pytest.mark.parametrize("takes_effect", [False, True], ids=["before the call", "after the call"])
async def test_killed_around_a_lowered_capacity_it_is_lowered_once(
    azure_market: OpenAzure, kind: str, takes_effect: bool
) -> None:
    m = azure_market(kind)
    await m.ask(1, "one")
    out_of_stock(m)
    m.sub.leaves_failed = False
    await m.ask(2, "one", "two")
    await m.survey()
    m.sub.clock.advance(LAG_SECONDS)
    m.sub.faults.lose_answer(GROW.get(kind, "virtual_machine_scale_sets_update"), takes_effect=takes_effect)
    with pytest.raises(CloudOutcomeUnknown):
        await m.withdraw(1)
    another = azure_market(kind)
    await another.survey()
    m.sub.clock.advance(LAG_SECONDS)
    await another.withdraw(1)
    assert ((await another.survey()).target, len(m.truth())) == (1, 1)


# --- whose machines ---------------------------------------------------------------------------------------------------


@SETS
async def test_a_machine_of_another_set_is_not_ended(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    other = m.sub.add_scale_set("other", SIZE, orchestration=kind.capitalize())
    vm = m.sub.start_by_hand(other)
    await m.terminate(vm.vm_id)
    assert [each.vm_id for each in m.sub.members(other)] == [vm.vm_id]
    assert not any(call.mutation for call in m.wire.sent)


async def test_a_node_pool_keeps_what_else_is_said_of_it(azure_market: OpenAzure) -> None:
    m = azure_market("aks")
    await m.ask(2, "one", "two")
    await m.terminate(m.truth()[0])
    [cluster] = m.sub.clusters.values()
    assert cluster.pools["gpu"].labels == {"team": "a"}
    reconcile(m.sub, cluster)
    assert len(m.truth()) == cluster.pools["gpu"].count == 1


async def test_what_was_added_to_a_scale_set_of_aks_by_hand_is_ended_and_nothing_with_it(
    azure_market: OpenAzure,
) -> None:
    """With each change AKS makes the scale set as large as the count of its node pool: too low a one ends others."""
    m = azure_market("aks")
    await m.ask(1, "one")
    [mine] = m.truth()
    added = m.sub.start_by_hand(m.scale_set)
    await m.survey()
    with pytest.raises(Busy, match="OtherCount"):
        await m.terminate(added.vm_id)
    assert not m.wire.sent[-1].mutation, "the list may show what is gone"
    m.sub.clock.advance(LAG_SECONDS)
    with pytest.raises(Busy, match="OtherCount"):
        await m.terminate(added.vm_id)
    await m.terminate(added.vm_id)
    assert m.truth() == [mine]


async def test_a_deletion_does_not_make_aks_replace_a_machine_that_was_taken_back(azure_market: OpenAzure) -> None:
    m = azure_market("aks", CapacityType.SPOT)
    await m.ask(2, "one", "two")
    evicted, other = m.members()
    m.sub.evict(evicted.id)
    await m.survey()
    m.sub.clock.advance(LAG_SECONDS)
    with pytest.raises(Busy, match="OtherCount"):
        await m.terminate(other.vm_id)
    await m.terminate(other.vm_id)
    assert m.members() == []
    assert (await m.survey()).target == 0


async def test_a_scale_set_of_aks_is_never_changed_itself(azure_market: OpenAzure) -> None:
    m = azure_market("aks")
    out_of_stock(m, 1)
    await m.ask(2, "one", "two")
    await m.withdraw(1)
    await m.terminate(m.truth()[0])
    assert {call for call in m.wire.sent if call.mutation} == {Call.UPDATE_POOL, Call.DELETE_MACHINES}


# --- what is wrong with a pool ----------------------------------------------------------------------------------------


@every_kind
async def test_a_set_that_does_not_exist_is_named(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    m.sub.scale_sets.clear()
    m.sub.clusters.clear()
    with pytest.raises(NotFoundInCloud, match=r"spec.azure.(scaleSet: gpu-rg has no|aks: gpu-rg has no)"):
        await m.ask(1, "one")


@every_kind
async def test_a_resource_group_or_subscription_that_does_not_exist_is_named(
    azure_market: OpenAzure, kind: str
) -> None:
    m = azure_market(kind)
    m.sub.groups.clear()
    with pytest.raises(InvalidRequest, match="ResourceGroupNotFound: Resource group 'gpu-rg' could not be found"):
        await m.survey()
    m.sub.id = "99999999-2222-3333-4444-555555555555"
    with pytest.raises(InvalidRequest, match="SubscriptionNotFound"):
        await m.survey()


@every_kind
async def test_a_missing_right_is_named(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    m.sub.deny("Microsoft.Compute/virtualMachineScaleSets/write")
    m.sub.deny("Microsoft.ContainerService/managedClusters/agentPools/write")
    with pytest.raises(CloudUnauthorized, match="does not have authorization to perform action"):
        await m.ask(1, "one")
    assert m.members() == []


async def test_the_node_pools_of_a_cluster_are_read_with_one_call(azure_market: OpenAzure) -> None:
    """AKS allows 60 such calls a minute for a whole subscription."""
    m = azure_market("aks")
    others = [replace(m.pool, id=PoolId(f"other-{number}")) for number in range(3)]
    answers = await m.provider.survey([m.pool, *others])
    assert all(isinstance(answer, Survey) for answer in answers.values())
    assert m.sub.count()["agent_pools_list"] == 1
    m.sub.deny("Microsoft.ContainerService/managedClusters/agentPools/read")
    answers = await m.provider.survey([m.pool, *others])
    assert [answer.pool for answer in answers.values()] == list(answers)


async def test_a_node_pool_that_does_not_exist_is_named(azure_market: OpenAzure) -> None:
    m = azure_market("aks", cloud=replace(NODE_POOL, node_pool="other"))
    with pytest.raises(NotFoundInCloud, match=r"spec\.azure\.aks: cluster prod has no node pool 'other'"):
        await m.survey()
