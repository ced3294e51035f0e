"""The server of Azure understands the vendor's SDKs, and refuses what they do not check."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceModifiedError
from azure.core.rest import HttpRequest
from azure.mgmt.compute import models

from tests.clouds.azure.resources import ScaleSet
from tests.clouds.azure.subscription import Subscription
from tests.contract.azure_calls import GROUP, SIZE, code_of, delete, ids, in_flexible, poll, scale


@pytest.fixture
def uniform(azure: Subscription) -> ScaleSet:
    """A Uniform set with two VMs."""
    return azure.add_scale_set("gpu", SIZE, capacity=2)


@pytest.fixture
def flexible(azure: Subscription) -> ScaleSet:
    """A Flexible set with two VMs."""
    return azure.add_scale_set("flex", SIZE, capacity=2, orchestration="Flexible")


# --- sets and VMs --------------------------------------------------------------------------------------------------


def test_the_sdk_reads_a_set_and_its_vms(compute: Any, uniform: ScaleSet) -> None:
    found = compute.virtual_machine_scale_sets.get(GROUP, "gpu")
    assert (found.sku.capacity, found.sku.name, found.etag) == (2, SIZE, '"1"')
    assert found.properties.orchestration_mode == "Uniform"
    [first, _] = compute.virtual_machine_scale_set_vms.list(GROUP, "gpu", expand="instanceView")
    assert [each.code for each in first.properties.instance_view.statuses] == [
        "ProvisioningState/succeeded",
        "PowerState/running",
    ]
    assert (first.instance_id, first.properties.provisioning_state) == ("0", "Succeeded")
    assert first.properties.time_created is not None
    assert compute.virtual_machine_scale_set_vms.get(GROUP, "gpu", "1").name == "gpu_1"
    assert [each.name for each in compute.virtual_machine_scale_sets.list(GROUP)] == ["gpu"]


def test_a_set_tells_the_settings_that_act_behind_ones_back(compute: Any, azure: Subscription) -> None:
    acts: dict[str, Any] = {"overprovision": True, "repairs": True, "spot_restore": True, "zone_rebalancing": True}
    azure.add_scale_set("gpu", SIZE, priority="Spot", eviction="Deallocate", upgrade_mode="Automatic", **acts)
    told = compute.virtual_machine_scale_sets.get(GROUP, "gpu").properties
    assert told.overprovision
    assert told.automatic_repairs_policy.enabled
    assert told.spot_restore_policy.enabled
    assert told.resiliency_policy.automatic_zone_rebalancing_policy.enabled
    assert told.upgrade_policy.mode == "Automatic"
    assert told.virtual_machine_profile.eviction_policy == "Deallocate"


def test_a_raised_capacity_brings_vms_when_the_operation_ends(
    compute: Any, azure: Subscription, uniform: ScaleSet
) -> None:
    azure.operation_seconds = azure.start_seconds = 60.0
    url = scale(compute, 3, '"1"')
    assert poll(compute, url)["status"] == "InProgress"
    assert compute.virtual_machine_scale_sets.get(GROUP, "gpu").properties.provisioning_state == "Updating"
    newest = compute.virtual_machine_scale_set_vms.get(GROUP, "gpu", "2", expand="instanceView").properties
    assert newest.provisioning_state == "Creating"
    azure.clock.advance(60)
    assert poll(compute, url)["status"] == "Succeeded"
    assert compute.virtual_machine_scale_sets.get(GROUP, "gpu").properties.provisioning_state == "Succeeded"
    assert ids(compute) == ["0", "1", "2"]


def test_a_stale_etag_changes_nothing(compute: Any, uniform: ScaleSet) -> None:
    scale(compute, 3, '"1"')
    with pytest.raises(ResourceModifiedError, match=r"\(PreconditionFailed\)"):
        scale(compute, 9, '"1"')
    assert (uniform.capacity, uniform.etag) == (3, '"2"')


def test_an_exact_deletion_lowers_the_capacity(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    scale(compute, 4)
    delete(compute, "1")
    assert (ids(compute), uniform.capacity) == (["0", "2", "3"], 3)
    with pytest.raises(HttpResponseError, match=r"\(InvalidParameter\) The provided instanceId 1 is not an active"):
        delete(compute, "0", "1")
    assert uniform.capacity == 3
    compute.virtual_machine_scale_set_vms.begin_delete(GROUP, "gpu", "3", polling=False)
    assert (ids(compute), uniform.capacity) == (["0", "2"], 2)
    assert code_of(lambda: compute.virtual_machine_scale_set_vms.get(GROUP, "gpu", "3"))[0] == 400


def test_a_deletion_takes_its_time_unless_it_is_forced(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    azure.delete_seconds = 90.0
    delete(compute, "0")
    assert (ids(compute), uniform.capacity) == (["0", "1"], 1)
    assert compute.virtual_machine_scale_set_vms.get(GROUP, "gpu", "0").properties.provisioning_state == "Deleting"
    delete(compute, "1", force_deletion=True)
    assert ids(compute) == ["0"]
    azure.clock.advance(90)
    assert ids(compute) == []


def test_a_lowered_capacity_lets_azure_choose(compute: Any, uniform: ScaleSet) -> None:
    scale(compute, 4)
    delete(compute, "1")
    scale(compute, 1)
    assert ids(compute) == ["0"]


def test_azure_takes_from_the_fullest_zone(compute: Any, azure: Subscription) -> None:
    azure.add_scale_set("gpu", SIZE, capacity=4, zones=("1", "2"))
    delete(compute, "1")
    scale(compute, 2)
    assert ids(compute) == ["0", "3"]


def test_in_a_flexible_set_azure_chooses_the_oldest(compute: Any, azure: Subscription, flexible: ScaleSet) -> None:
    azure.clock.advance(60)
    before = {vm.name for vm in in_flexible(compute, azure)}
    scale(compute, 3, name="flex")
    scale(compute, 1, name="flex")
    [left] = in_flexible(compute, azure)
    assert left.name not in before


def test_vms_of_a_flexible_set_have_names_of_their_own(compute: Any, azure: Subscription, flexible: ScaleSet) -> None:
    other = azure.add_scale_set("other", SIZE, capacity=1, orchestration="Flexible")
    scale(compute, 3, name="flex")
    names = [vm.name for vm in in_flexible(compute, azure)]
    assert len(names) == 3
    assert all(name.startswith("flex_") for name in names)
    assert len(list(compute.virtual_machines.list_all())) == 4
    delete(compute, names[1], name="flex")
    compute.virtual_machines.begin_delete(GROUP, names[2], polling=False)
    compute.virtual_machines.begin_delete(GROUP, names[2], polling=False)
    assert ([vm.name for vm in in_flexible(compute, azure)], flexible.capacity) == ([names[0]], 1)
    assert code_of(lambda: compute.virtual_machines.get(GROUP, names[1])) == (404, "ResourceNotFound")
    assert other.capacity == 1


def test_tags_of_a_vm_replace_those_it_had(compute: Any, azure: Subscription, flexible: ScaleSet) -> None:
    [name, _] = [vm.name for vm in in_flexible(compute, azure)]
    update = models.VirtualMachineUpdate(tags={"a": "1"})
    compute.virtual_machines.begin_update(GROUP, name, update, polling=False)
    assert compute.virtual_machines.get(GROUP, name).tags == {"a": "1"}


def test_long_lists_come_in_pages(compute: Any, azure: Subscription, uniform: ScaleSet, flexible: ScaleSet) -> None:
    azure.page = 2
    scale(compute, 5)
    scale(compute, 5, name="flex")
    before = len(azure.calls)
    assert ids(compute) == ["0", "1", "2", "3", "4"]
    assert len(in_flexible(compute, azure)) == 5
    assert len(azure.calls) - before == 6


def test_lists_lag_but_single_reads_do_not(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    azure.list_lag = 30.0
    azure.clock.advance(30)
    scale(compute, 3)
    delete(compute, "0")
    assert ids(compute) == ["0", "1"]
    assert compute.virtual_machine_scale_set_vms.get(GROUP, "gpu", "2").instance_id == "2"
    azure.clock.advance(30)
    assert ids(compute) == ["1", "2"]


def test_the_sdks_own_poller_waits_for_the_end(compute: Any, uniform: ScaleSet) -> None:
    update = models.VirtualMachineScaleSetUpdate(sku=models.Sku(capacity=3))
    done = compute.virtual_machine_scale_sets.begin_update(GROUP, "gpu", update, polling_interval=0).result(5)
    assert done.sku.capacity == 3
    wanted = models.VirtualMachineScaleSetVMInstanceRequiredIDs(instance_ids=["0"])
    compute.virtual_machine_scale_sets.begin_delete_instances(GROUP, "gpu", wanted, polling_interval=0).result(5)
    assert ids(compute) == ["1", "2"]


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"sku": {"capacityy": 3}}, "sku.capacityy: Extra inputs are not permitted"),
        ({"sku": {"capacity": "3"}}, "sku.capacity: Input should be a valid integer"),
        ({"properties": {"virtualMachineProfile": {"priority": "Spot"}}}, "virtualMachineProfile.priority: Extra"),
        ({"properties": {"upgradePolicy": {"mode": "Sometimes"}}}, "upgradePolicy.mode: Input should be"),
        ({"sku": {"capacity": 1001}}, "out of range"),
    ],
)
def test_a_wrong_body_is_refused(compute: Any, azure: Subscription, uniform: ScaleSet, body: Any, said: str) -> None:
    url = f"{azure.id_of(uniform)}?api-version=2026-04-01"
    reply = compute.send_request(HttpRequest("PATCH", url, json=body))
    assert reply.status_code == 400
    assert said in reply.json()["error"]["message"]
    assert uniform.version == 1


def test_a_body_is_neither_missing_nor_too_much(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    url = f"{azure.id_of(uniform)}?api-version=2026-04-01"
    replies = [compute.send_request(HttpRequest("PATCH", url)), compute.send_request(HttpRequest("GET", url, json={}))]
    assert [reply.json()["error"]["code"] for reply in replies] == ["InvalidRequestContent"] * 2


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("api-version=2024-01-01", "InvalidApiVersionParameter"),
        ("", "InvalidApiVersionParameter"),
        ("api-version=2026-04-01&capacity=3", "InvalidParameter"),
        ("api-version=2026-04-01&$expand=everything", "InvalidParameter"),
    ],
)
def test_a_wrong_query_is_refused(compute: Any, azure: Subscription, uniform: ScaleSet, query: str, code: str) -> None:
    reply = compute.send_request(HttpRequest("GET", f"{azure.id_of(uniform)}?{query}"))
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, code)


def test_what_is_not_there_is_told_apart(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    sets = compute.virtual_machine_scale_sets
    assert code_of(lambda: sets.get(GROUP, "none")) == (404, "ResourceNotFound")
    assert code_of(lambda: sets.get("none", "gpu")) == (404, "ResourceGroupNotFound")
    azure.id = "99999999-2222-3333-4444-555555555555"
    assert code_of(lambda: sets.get(GROUP, "gpu")) == (404, "SubscriptionNotFound")


def test_a_set_that_is_marked_for_deletion_changes_no_more(compute: Any, uniform: ScaleSet) -> None:
    uniform.marked_for_deletion = True
    assert code_of(lambda: scale(compute, 3)) == (409, "OperationNotAllowed")
    assert uniform.capacity == 2


def test_names_are_the_same_in_any_case(compute: Any, uniform: ScaleSet) -> None:
    assert compute.virtual_machine_scale_sets.get("GPU-RG", "Gpu").name == "gpu"


def test_tokens_and_rights_are_checked(compute: Any, azure: Subscription, uniform: ScaleSet) -> None:
    sets = compute.virtual_machine_scale_sets
    azure.deny("Microsoft.Compute/virtualMachineScaleSets/write")
    assert code_of(lambda: scale(compute, 3)) == (403, "AuthorizationFailed")
    assert sets.get(GROUP, "gpu").sku.capacity == 2
    azure.expired = {"token"}
    assert code_of(lambda: sets.get(GROUP, "gpu")) == (401, "ExpiredAuthenticationToken")
    azure.expired, azure.tokens = set(), {"another"}
    assert code_of(lambda: sets.get(GROUP, "gpu")) == (401, "InvalidAuthenticationToken")
