"""Pools of Azure, which counts: never a node too many or too few, whatever fails, is lost or comes at the same time."""

from __future__ import annotations

import pytest

from charterer.domain.order import RefusalKind, Scope
from charterer.domain.pool import CapacityType, InstanceState, Offering
from charterer.domain.time import instant
from charterer.providers.azure.listing import LAG_SECONDS
from charterer.providers.errors import (
    Busy,
    WouldTerminate,
)
from tests.clouds.azure.resources import LateFailure
from tests.contract.azure_pools import KINDS, NODES, SIZE, AzureMarket
from tests.contract.conftest import OpenAzure
from tests.contract.wire import of_machine

every_kind = pytest.mark.parametrize("kind", KINDS)
SETS = pytest.mark.parametrize("kind", ["uniform", "flexible"])


def out_of_stock(m: AzureMarket, left: int = 0) -> None:
    """So many VMs may still come."""
    for priority in ("Regular", "Spot"):
        m.sub.stock[SIZE, m.sub.location, priority] = left


# --- what a survey tells ---------------------------------------------------------------------------------------------


@every_kind
async def test_a_survey_tells_state_node_and_offering(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    m.sub.start_seconds = m.sub.operation_seconds = 30.0
    await m.ask(1, "one")
    survey = await m.survey()
    [instance], [vm] = survey.instances, m.members()
    assert (instance.state, instance.order, instance.ended) == (InstanceState.PENDING, None, None)
    assert (instance.id, instance.node) == (vm.vm_id, vm.computer.lower())
    assert instance.launched == survey.asked == instant(m.sub.clock.now)
    labels = [("team", "a"), ("kubernetes.azure.com/mode", "user")] if kind == "aks" else []
    traits = of_machine(96, 900 * 1024, *labels)
    assert survey.offering == Offering(
        "NVIDIA-A100-SXM4-40GB", 8, SIZE, "westeurope", m.sub.id_of(m.scale_set).lower(), None, traits=traits
    )
    assert (survey.target, survey.ordered, survey.refusals, survey.notices) == (1, frozenset(), (), ())
    assert (survey.traits.named, survey.traits.keeps_trying, survey.traits.together) == (False, True, False)
    m.sub.clock.advance(30)
    assert [i.state for i in (await m.survey()).instances] == [InstanceState.RUNNING]


@pytest.mark.parametrize("kind", ["uniform", "aks"])
async def test_a_machine_with_the_number_of_one_before_is_another_and_is_not_ended_for_it(
    azure_market: OpenAzure, kind: str
) -> None:
    m = azure_market(kind)
    m.scale_set.reuses_numbers = True
    await m.ask(1, "one")
    [former] = (await m.survey()).instances
    await m.terminate(former.id)
    m.sub.clock.advance(LAG_SECONDS + 60)
    assert m.members() == []
    await m.ask(1, "two")
    m.sub.clock.advance(LAG_SECONDS + 60)
    [machine] = (await m.survey()).instances
    assert (machine.provider_id, machine.node) == (former.provider_id, former.node)
    assert machine.id != former.id
    await m.terminate(former.id)
    assert m.truth() == [machine.id]
    assert len(m.sub.bill()) == 2


@every_kind
async def test_a_machine_has_one_id_though_azure_gives_it_one_late(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    m.sub.start_seconds = m.sub.operation_seconds = 30.0
    await m.ask(1, "one")
    [vm] = m.members()
    given, vm.vm_id = vm.vm_id, ""
    survey = await m.survey()
    assert (survey.target, survey.instances, survey.refusals) == (1, (), ())
    m.sub.clock.advance(30)
    vm.vm_id = given
    assert [instance.id for instance in (await m.survey()).instances] == [given]


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("uniform", "resourceGroups/gpu-rg/providers/Microsoft.Compute/virtualMachineScaleSets/gpu/virtualMachines/0"),
        ("flexible", "resourceGroups/gpu-rg/providers/Microsoft.Compute/virtualMachines/gpu_"),
        ("aks", f"resourceGroups/{NODES.lower()}/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu-"),
    ],
)
async def test_a_provider_id_is_as_the_clouds_controller_writes_it(
    azure_market: OpenAzure, kind: str, path: str
) -> None:
    m = azure_market(kind)
    await m.ask(1, "one")
    [instance] = (await m.survey()).instances
    assert instance.provider_id.startswith(f"azure:///subscriptions/{m.sub.id}/{path}")


@every_kind
async def test_a_machine_that_is_being_ended_is_stopping_and_then_gone(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    m.sub.delete_seconds = 60.0
    await m.ask(2, "one", "two")
    first, second = sorted(m.truth())
    await m.terminate(first)
    survey = await m.survey()
    assert {i.id: i.state for i in survey.instances} == {first: InstanceState.STOPPING, second: InstanceState.RUNNING}
    assert survey.target == 1
    await m.terminate(first)
    m.sub.clock.advance(60)
    assert [i.id for i in (await m.survey()).instances] == [second]


async def test_zones_are_named_as_nodes_are_labelled(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    m.scale_set.zones = ("2", "1")
    assert (await m.survey()).offering.zone == "westeurope-1,westeurope-2"


# --- compare and set -------------------------------------------------------------------------------------------------


@every_kind
async def test_the_capacity_is_never_lowered_by_an_ask(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    await m.ask(3, "one", "two", "three")
    await m.ask(1, "one")
    assert len(m.truth()) == 3


@every_kind
async def test_a_read_that_tells_no_capacity_ends_nothing(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    await m.ask(3, "one", "two", "three")
    before = m.truth()
    m.sub.zero_reads = 1
    await m.ask(2, "one", "two")
    m.sub.zero_reads = 1
    assert (await m.survey()).target == 3
    assert m.truth() == before


@SETS
async def test_what_a_list_still_shows_of_a_machine_that_was_taken_back_is_not_asked_for(
    azure_market: OpenAzure, kind: str
) -> None:
    """Its node counts among those that are there: to raise the capacity to their number would rent one too many."""
    m = azure_market(kind, CapacityType.SPOT)
    await m.ask(1, "one")
    m.sub.clock.advance(3600)
    m.sub.list_lag = 60.0
    m.sub.evict(m.members()[0].id)
    with pytest.raises(Busy, match="MoreListedThanWanted"):
        await m.ask(2, "two")
    assert m.truth() == []
    m.sub.clock.advance(60)
    await m.ask(1, "two")
    assert len(m.truth()) == 1


@every_kind
async def test_whoever_changes_the_set_at_the_same_time_is_not_overwritten(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)

    def meddle(when: str, operation: str) -> None:
        if (when, operation.startswith(("virtual_machine_scale_sets_update", "agent_pools_create"))) == (
            "before",
            True,
        ):
            m.sub.witness = lambda when, operation: None
            m.scale_set.version += 1
            for cluster in m.sub.clusters.values():
                cluster.pools["gpu"].version += 1

    m.sub.witness = meddle
    await m.ask(1, "one")
    assert len(m.truth()) == 1
    assert sum(call.mutation for call in m.wire.sent) == 2, "the first was refused, and changed nothing"


@every_kind
async def test_a_change_that_azure_refuses_while_another_runs_is_busy_and_costs_nothing(
    azure_market: OpenAzure, kind: str
) -> None:
    m = azure_market(kind)
    m.sub.conflicts, m.sub.operation_seconds = True, 60.0
    await m.ask(1, "one")
    for call in (lambda: m.ask(2, "one", "two"), lambda: m.terminate(m.truth()[0])):
        with pytest.raises(Busy):
            await call()
    assert len(m.truth()) == 1
    m.sub.clock.advance(60)
    await m.ask(2, "one", "two")
    assert len(m.truth()) == 2


@SETS
async def test_a_deletion_that_a_later_change_preempts_is_asked_for_again(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    await m.ask(2, "one", "two")
    first, second = sorted(m.truth())
    m.sub.delete_seconds, m.sub.undoes_deletions = 60.0, True
    await m.terminate(first)
    await m.ask(2, "two", "three")
    assert first in {i.id for i in (await m.survey()).instances if i.state is InstanceState.RUNNING}
    await m.terminate(first)
    m.sub.clock.advance(60)
    assert first not in m.truth()
    assert second in m.truth()


# --- what does not come ----------------------------------------------------------------------------------------------


@every_kind
async def test_a_stock_out_is_told_until_what_found_no_host_is_withdrawn(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    out_of_stock(m, 1)
    await m.ask(3, "one", "two", "three")
    survey = await m.survey()
    assert (survey.target, len(survey.instances)) == (3, 1)
    [refusal] = survey.refusals
    assert (refusal.kind, refusal.scope, refusal.code) == (RefusalKind.STOCK_OUT, Scope.REGION, "AllocationFailed")
    assert (refusal.where, refusal.at) == (f"{SIZE} OnDemand westeurope", survey.asked)
    await m.withdraw(1)
    assert len(m.members()) == len(m.truth()) == 1
    after = await m.survey()
    assert (after.target, after.refusals) == (1, ())


@every_kind
async def test_another_process_learns_the_reason_of_a_failure_from_the_instance_views(
    azure_market: OpenAzure, kind: str
) -> None:
    m = azure_market(kind)
    out_of_stock(m)
    m.sub.operation_seconds = 30.0
    await m.ask(1, "one")
    m.sub.clock.advance(3600)
    m.sub.operation_kept_seconds = 0.0
    [refusal] = (await azure_market(kind).survey()).refusals
    assert (refusal.kind, refusal.code) == (RefusalKind.STOCK_OUT, "AllocationFailed")


@every_kind
@pytest.mark.parametrize("wrapped", [False, True])
async def test_where_no_failed_vm_is_left_the_operation_tells_the_reason(
    azure_market: OpenAzure, kind: str, wrapped: bool
) -> None:
    m = azure_market(kind)
    out_of_stock(m)
    m.sub.leaves_failed, m.sub.wraps_errors, m.sub.operation_seconds = False, wrapped, 30.0
    await m.ask(1, "one")
    assert (await m.survey()).refusals == (), "it runs"
    m.sub.clock.advance(30)
    assert [r.code for r in (await m.survey()).refusals] == ["AllocationFailed"]
    with pytest.raises(Busy, match="JustChanged"):
        await m.withdraw(0)
    m.sub.clock.advance(LAG_SECONDS)
    await m.withdraw(0)
    assert (await m.survey()).target == 0


@every_kind
async def test_a_process_that_never_learned_the_operation_tells_a_set_that_stays_short(
    azure_market: OpenAzure, kind: str
) -> None:
    m = azure_market(kind)
    out_of_stock(m)
    m.sub.leaves_failed = False
    await m.ask(2, "one", "two")
    later = azure_market(kind)
    assert (await later.survey()).refusals == (), "a list may lag"
    m.sub.clock.advance(LAG_SECONDS)
    [refusal] = (await later.survey()).refusals
    assert (refusal.kind, refusal.code) == (RefusalKind.LAUNCH_FAILED, "ProvisioningFailed")
    await later.withdraw(0)
    assert (await later.survey()).target == 0


@every_kind
async def test_a_vm_that_failed_on_its_host_is_billed_and_can_be_ended(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    m.sub.late_failures.append(LateFailure("OSProvisioningTimedOut", "OS provisioning did not finish"))
    await m.ask(1, "one")
    survey = await m.survey()
    [instance] = survey.instances
    assert (instance.state, survey.refusals) == (InstanceState.RUNNING, ())
    await m.terminate(instance.id)
    assert m.members() == []


async def test_a_vm_in_use_whose_last_change_failed_is_not_taken_for_one_without_a_host(
    azure_market: OpenAzure,
) -> None:
    m = azure_market("uniform")
    await m.ask(1, "one")
    [vm] = m.members()
    vm.become(m.sub.clock.now, "Failed", "running")
    vm.failure = ("AllocationFailed", "a change of its disks")
    await m.withdraw(1)
    assert [i.state for i in (await m.survey()).instances] == [InstanceState.RUNNING]
    assert m.truth() == [vm.vm_id]


@every_kind
async def test_nothing_is_withdrawn_while_an_operation_may_bring_vms(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    out_of_stock(m, 1)
    m.sub.operation_seconds = 300.0
    await m.ask(2, "one", "two")
    with pytest.raises(Busy, match="may still bring VMs"):
        await m.withdraw(0)
    m.sub.clock.advance(300)
    await m.withdraw(1)
    assert len(m.truth()) == 1


@every_kind
async def test_lowering_never_lets_azure_choose_which_machine_to_end(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    await m.ask(3, "one", "two", "three")
    m.sub.clock.advance(LAG_SECONDS)
    before = m.truth()
    with pytest.raises(WouldTerminate):
        await m.withdraw(2)
    assert m.truth() == before


@SETS
async def test_a_machine_that_no_list_shows_yet_is_not_ended_by_lowering(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    await m.ask(1, "one")
    m.sub.clock.advance(3600)
    m.sub.list_lag, m.sub.leaves_failed = 60.0, False
    out_of_stock(m, 1)
    await m.ask(3, "one", "two", "three")
    assert len((await m.survey()).instances) == 1
    with pytest.raises(Busy, match="JustChanged"):
        await m.withdraw(1)
    assert len(m.truth()) == 2


@every_kind
async def test_a_size_that_is_not_offered_is_refused_with_the_ask(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    m.sub.not_offered.add((SIZE, m.sub.location))
    [refusal] = (await m.ask(1, "one")).refused.values()
    assert (refusal.kind, refusal.scope, refusal.code) == (
        RefusalKind.INVALID_REQUEST,
        Scope.REGION,
        "SkuNotAvailable",
    )
    assert refusal.order == "cone"


async def test_quotas_have_the_scope_that_their_text_tells(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    m.sub.quotas = {"standardNDASv4_A100Family": 95}
    [refusal] = (await m.ask(1, "one")).refused.values()
    assert (refusal.kind, refusal.scope, refusal.where) == (
        RefusalKind.QUOTA_EXCEEDED,
        Scope.FAMILY,
        "NDasr_v4 OnDemand westeurope",
    )
    m.sub.quotas = {"cores": 95}
    [refusal] = (await m.ask(1, "one")).refused.values()
    assert (refusal.kind, refusal.scope) == (RefusalKind.QUOTA_EXCEEDED, Scope.CAPACITY_TYPE)
    assert m.members() == []


async def test_spot_has_one_quota_for_all_sizes(azure_market: OpenAzure) -> None:
    m = azure_market("uniform", CapacityType.SPOT)
    m.sub.quotas = {"lowPriorityCores": 95}
    [refusal] = (await m.ask(1, "one")).refused.values()
    assert (refusal.scope, refusal.where) == (Scope.CAPACITY_TYPE, "Spot westeurope")
