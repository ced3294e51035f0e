"""What runs out, fails late, gets lost or is taken back at the server of Azure."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ServiceRequestError, ServiceResponseError
from azure.core.rest import HttpRequest

from tests.clouds.azure.protocol import throttled
from tests.clouds.azure.resources import LateFailure, Reservation, ReservationGroup, ScaleSet
from tests.clouds.azure.subscription import Role, Subscription
from tests.contract.azure_calls import GROUP, SIZE, code_of, delete, ids, in_flexible, poll, scale


@pytest.fixture
def uniform(azure: Subscription) -> ScaleSet:
    """A Uniform set with two VMs."""
    return azure.add_scale_set("gpu", SIZE, capacity=2)


@pytest.fixture
def flexible(azure: Subscription) -> ScaleSet:
    """A Flexible set with two VMs."""
    return azure.add_scale_set("flex", SIZE, capacity=2, orchestration="Flexible")


# --- stock, quota, failures ----------------------------------------------------------------------------------------


def test_a_stock_out_fails_the_operation_and_keeps_the_capacity(
    compute: Any, azure: Subscription, uniform: ScaleSet
) -> None:
    azure.stock[SIZE, azure.location, "Regular"] = 1
    azure.operation_seconds = 20.0
    url = scale(compute, 4)
    assert poll(compute, url)["status"] == "InProgress"
    azure.clock.advance(20)
    told = poll(compute, url)
    assert (told["status"], told["error"]["code"]) == ("Failed", "AllocationFailed")
    found = compute.virtual_machine_scale_sets.get(GROUP, "gpu")
    assert (found.sku.capacity, found.properties.provisioning_state) == (4, "Failed")
    vms = compute.virtual_machine_scale_set_vms.list(GROUP, "gpu", expand="instanceView")
    last = list(vms)[-1]
    assert (last.instance_id, last.properties.provisioning_state) == ("3", "Failed")
    [status] = last.properties.instance_view.statuses
    assert status.code == "ProvisioningState/failed/AllocationFailed"
    azure.clock.advance(3600)
    assert [azure.bill()[f"{azure.id_of(uniform)}/virtualMachines/{n}"] > 0 for n in (2, 3)] == [True, False]
    delete(compute, "3")
    assert (uniform.capacity, azure.stock[SIZE, azure.location, "Regular"]) == (3, 0)
    delete(compute, "2")
    assert (uniform.capacity, azure.stock[SIZE, azure.location, "Regular"]) == (2, 1)


def test_without_failed_vms_the_capacity_alone_tells_what_is_missing(
    compute: Any, azure: Subscription, uniform: ScaleSet
) -> None:
    azure.leaves_failed, azure.stock[SIZE, azure.location, "Regular"] = False, 0
    scale(compute, 4)
    assert (len(ids(compute)), uniform.capacity) == (2, 4)
    scale(compute, 2)
    assert ids(compute) == ["0", "1"]


def test_zones_have_a_stock_of_their_own(compute: Any, azure: Subscription) -> None:
    azure.add_scale_set("gpu", SIZE, zones=("1", "2"))
    azure.stock = {(SIZE, "1", "Regular"): 0, (SIZE, "2", "Regular"): 2}
    assert poll(compute, scale(compute, 2))["status"] == "Succeeded"
    assert [vm.zones for vm in compute.virtual_machine_scale_set_vms.list(GROUP, "gpu")] == [["2"], ["2"]]
    assert poll(compute, scale(compute, 3))["error"]["code"] == "ZonalAllocationFailed"


def test_a_stock_out_may_have_another_code(compute: Any, azure: Subscription) -> None:
    azure.add_scale_set("gpu", SIZE, priority="Spot")
    azure.stock[SIZE, azure.location, "Spot"] = 0
    azure.stock_out[SIZE, azure.location, "Spot"] = "OverconstrainedAllocationRequest"
    assert poll(compute, scale(compute, 1))["error"]["code"] == "OverconstrainedAllocationRequest"


def test_an_operation_may_tell_its_reason_in_details_only(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    azure.wraps_errors, azure.stock[SIZE, azure.location, "Regular"] = True, 0
    error = poll(compute, scale(compute, 3))["error"]
    assert (error["code"], [each["code"] for each in error["details"]]) == (
        "ResourceOperationFailure",
        ["AllocationFailed"],
    )


def test_a_read_may_tell_no_capacity_at_all(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    azure.zero_reads = 1
    sizes = [compute.virtual_machine_scale_sets.get(GROUP, "gpu").sku.capacity for _ in range(2)]
    assert sizes == [0, 2]


def test_a_quota_refuses_at_once_and_changes_nothing(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    azure.quotas = {"standardNDASv4_A100Family": 3 * 96}
    scale(compute, 3)
    with pytest.raises(HttpResponseError, match=r"standardNDASv4_A100Family Cores quota.* Current Usage: 288"):
        scale(compute, 4)
    assert (uniform.capacity, uniform.version) == (3, 2)
    [usage] = [u for u in compute.usage.list(azure.location) if u.name.value == "standardNDASv4_A100Family"]
    assert (usage.current_value, usage.limit) == (288, 288)
    spot = azure.add_scale_set("spot", SIZE, priority="Spot")
    azure.quotas = {"lowPriorityCores": 95}
    assert code_of(lambda: scale(compute, 1, name="spot")) == (409, "OperationNotAllowed")
    assert spot.capacity == 0


def test_a_size_that_is_not_offered_is_refused_at_once(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    azure.not_offered.add((SIZE, azure.location))
    assert code_of(lambda: scale(compute, 3)) == (409, "SkuNotAvailable")
    assert uniform.capacity == 2


def test_a_vm_whose_provisioning_timed_out_is_there_and_billed(
    compute: Any, azure: Subscription, uniform: ScaleSet
) -> None:
    azure.late_failures.append(LateFailure("OSProvisioningTimedOut", "OS provisioning did not finish"))
    azure.operation_seconds, azure.start_seconds = 1200.0, 60.0
    url = scale(compute, 3)
    azure.clock.advance(1200)
    assert poll(compute, url)["error"]["code"] == "OSProvisioningTimedOut"
    failed = compute.virtual_machine_scale_set_vms.get(GROUP, "gpu", "2")
    assert failed.properties.provisioning_state == "Failed"
    assert azure.bill()[failed.id] == 1140 * 27_197_000 // 3600


def test_a_change_preempts_the_one_that_runs(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    azure.operation_seconds = 60.0
    first = scale(compute, 3)
    second = scale(compute, 4)
    assert poll(compute, first)["error"]["code"] == "OperationPreempted"
    assert poll(compute, second)["status"] == "InProgress"
    azure.conflicts = True
    assert code_of(lambda: scale(compute, 5)) == (409, "Conflict")
    assert uniform.capacity == 4


def test_a_preempted_deletion_may_not_happen(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    azure.undoes_deletions, azure.delete_seconds = True, 90.0
    delete(compute, "0")
    assert uniform.capacity == 1
    delete(compute, "1")
    azure.clock.advance(90)
    assert (ids(compute), uniform.capacity) == (["0"], 1)
    assert [operation.status_at(azure.clock.now) for operation in azure.operations.values()] == ["Failed", "Succeeded"]


def test_operations_are_forgotten(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    url = scale(compute, 3)
    azure.clock.advance(azure.operation_kept_seconds + 1)
    assert poll(compute, url)["error"]["code"] == "NotFound"


def test_overprovisioning_makes_vms_that_vanish(compute: Any, azure: Subscription) -> None:
    azure.add_scale_set("gpu", SIZE, overprovision=True)
    azure.operation_seconds = 60.0
    scale(compute, 2)
    assert ids(compute) == ["0", "1", "2"]
    azure.clock.advance(60)
    assert ids(compute) == ["1", "2"]
    assert azure.bill()[f"{azure.path(GROUP, 'virtualMachineScaleSets', 'gpu')}/virtualMachines/0"] == 0


@pytest.mark.parametrize("takes_effect", [False, True])
def test_a_lost_answer_leaves_open_what_happened(
    compute: Any, azure: Subscription, uniform: ScaleSet, takes_effect: bool
) -> None:
    azure.faults.lose_answer("virtual_machine_scale_sets_update", takes_effect=takes_effect)
    with pytest.raises((ServiceResponseError, ServiceRequestError)):
        scale(compute, 3)
    assert uniform.capacity == (3 if takes_effect else 2)
    assert azure.count()["virtual_machine_scale_sets_update"] == 1


def test_throttling_tells_when_to_come_back(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    azure.faults.fail("virtual_machine_scale_sets_get", throttled(17))
    with pytest.raises(HttpResponseError) as caught:
        compute.virtual_machine_scale_sets.get(GROUP, "gpu")
    error: Any = caught.value
    assert (error.status_code, error.response.headers["Retry-After"]) == (429, "17")


def test_the_witness_sees_a_call_before_and_after_its_effect(
    compute: Any, azure: Subscription, uniform: ScaleSet
) -> None:
    seen: list[tuple[str, str, int]] = []
    azure.witness = lambda when, operation: seen.append((when, operation, uniform.capacity))
    scale(compute, 3)
    assert seen == [(w, "virtual_machine_scale_sets_update", n) for w, n in (("before", 2), ("after", 3))]


@pytest.mark.parametrize(("eviction", "left", "capacity"), [("Delete", ["1"], 1), ("Deallocate", ["0", "1"], 2)])
def test_an_evicted_vm_is_deleted_or_deallocated(
    compute: Any, azure: Subscription, eviction: str, left: list[str], capacity: int
) -> None:
    spot = azure.add_scale_set("gpu", SIZE, capacity=2, priority="Spot", eviction=eviction)
    azure.clock.advance(3600)
    azure.evict(f"{azure.id_of(spot)}/virtualMachines/0")
    azure.clock.advance(3600)
    assert (ids(compute), spot.capacity) == (left, capacity)
    assert azure.bill()[f"{azure.id_of(spot)}/virtualMachines/0"] == 10_878_800
    if eviction == "Deallocate":
        view = compute.virtual_machine_scale_set_vms.get_instance_view(GROUP, "gpu", "0")
        assert view.statuses[1].code == "PowerState/deallocated"


def test_a_priority_mix_has_both_kinds(compute: Any, azure: Subscription) -> None:
    azure.add_scale_set("flex", SIZE, orchestration="Flexible", priority="Spot", mix=(1, 50))
    scale(compute, 3, name="flex")
    assert sorted(vm.properties.priority for vm in in_flexible(compute, azure)) == ["Regular", "Regular", "Spot"]


# --- what is sold and allowed --------------------------------------------------------------------------------------


def test_skus_tell_gpus_and_where_they_are_not_sold(compute: Any, azure: Subscription) -> None:
    azure.not_offered = {(SIZE, "2")}
    [sku] = [s for s in compute.resource_skus.list(filter="location eq 'westeurope'") if s.name == SIZE]
    assert {"GPUs": "8", "vCPUs": "96"}.items() <= {each.name: each.value for each in sku.capabilities}.items()
    [restriction] = sku.restrictions
    assert (restriction.type, restriction.restriction_info.zones) == ("Zone", ["2"])
    assert code_of(lambda: list(compute.resource_skus.list(filter="name eq 'x'")))[0] == 400
    azure.page = 3
    assert len(list(compute.resource_skus.list())) == 10
    assert SIZE in [size.name for size in compute.virtual_machine_sizes.list("westeurope")]


def test_a_reservation_has_hosts_where_there_is_no_stock(compute: Any, azure: Subscription) -> None:
    held = ReservationGroup(GROUP, "held", azure.location, reservations={"a100": Reservation("a100", SIZE, 1)})
    id = azure.path(GROUP, "capacityReservationGroups", "held")
    azure.reservation_groups[id.lower()] = held
    azure.add_scale_set("gpu", SIZE, reservation_group=id)
    azure.stock[SIZE, azure.location, "Regular"] = 0
    assert poll(compute, scale(compute, 1))["status"] == "Succeeded"
    assert poll(compute, scale(compute, 2))["error"]["code"] == "AllocationFailed"
    group = compute.capacity_reservation_groups.get(GROUP, "held")
    assert len(group.properties.virtual_machines_associated) == 1
    [listed] = compute.capacity_reservations.list_by_capacity_reservation_group(GROUP, "held")
    view = compute.capacity_reservations.get(GROUP, "held", listed.name, expand="instanceView").properties.instance_view
    assert len(view.utilization_info.virtual_machines_allocated) == 1


def test_rights_and_autoscale_settings_can_be_read_without_an_sdk_of_theirs(compute: Any, azure: Subscription) -> None:
    azure.roles = [Role(["Microsoft.Compute/*", "*/read"], ["Microsoft.Compute/virtualMachineScaleSets/write"])]
    azure.autoscale = [("by-load", azure.path(GROUP, "virtualMachineScaleSets", "gpu"), True)]
    base = f"/subscriptions/{azure.id}/resourceGroups/{GROUP}/providers"
    url = f"{base}/Microsoft.Authorization/permissions?api-version=2022-04-01"
    [row] = compute.send_request(HttpRequest("GET", url)).json()["value"]
    assert row["notActions"] == ["Microsoft.Compute/virtualMachineScaleSets/write"]
    url = f"{base}/Microsoft.Insights/autoscalesettings?api-version=2022-10-01"
    [setting] = compute.send_request(HttpRequest("GET", url)).json()["value"]
    assert setting["properties"]["enabled"]
