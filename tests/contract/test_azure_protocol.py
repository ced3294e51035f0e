"""The server of Azure understands the vendor's SDKs, and refuses what they do not check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceModifiedError, ServiceRequestError, ServiceResponseError
from azure.core.rest import HttpRequest
from azure.mgmt.compute import ComputeManagementClient, models

from tests.clouds.azure.credential import Credential
from tests.clouds.azure.protocol import throttled
from tests.clouds.azure.resources import LateFailure, Reservation, ReservationGroup, ScaleSet
from tests.clouds.azure.server import AzureServer
from tests.clouds.azure.subscription import Role, Subscription

SIZE = "Standard_ND96asr_v4"
GROUP = "gpu-rg"


@pytest.fixture(scope="module")
def server() -> Iterator[AzureServer]:
    """One server, because its clients know its address."""
    with AzureServer(Subscription()) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: AzureServer) -> Iterator[Any]:
    """The SDK's client, which sends nothing twice."""
    address: dict[str, Any] = {"base_url": server.url, "connection_verify": str(server.certificate)}
    with ComputeManagementClient(Credential(), server.subscription.id, **address, retry_total=0) as client:
        yield client


@pytest.fixture
def sub(server: AzureServer) -> Subscription:
    """A subscription of this test's own."""
    server.subscription = Subscription()
    return server.subscription


@pytest.fixture
def uniform(sub: Subscription) -> ScaleSet:
    """A Uniform set with two VMs."""
    return sub.add_scale_set("gpu", SIZE, capacity=2)


@pytest.fixture
def flexible(sub: Subscription) -> ScaleSet:
    """A Flexible set with two VMs."""
    return sub.add_scale_set("flex", SIZE, capacity=2, orchestration="Flexible")


def code_of(call: Callable[[], Any]) -> tuple[int | None, str]:
    """Status and code with which a call is refused."""
    with pytest.raises(HttpResponseError) as caught:
        call()
    error = caught.value
    return error.status_code, error.error.code if error.error else ""


def scale(client: Any, capacity: int, etag: str | None = None, name: str = "gpu") -> str:
    """Ask for so many VMs; where the operation can be asked for."""
    seen: dict[str, str] = {}
    match = {} if etag is None else {"etag": etag, "match_condition": MatchConditions.IfNotModified}
    update = models.VirtualMachineScaleSetUpdate(sku=models.Sku(capacity=capacity))
    client.virtual_machine_scale_sets.begin_update(
        GROUP, name, update, polling=False, raw_response_hook=lambda r: seen.update(r.http_response.headers), **match
    )
    return seen["Azure-AsyncOperation"]


def delete(client: Any, *ids: str, name: str = "gpu", **options: Any) -> Any:
    """Delete VMs of a set by their ids."""
    wanted = models.VirtualMachineScaleSetVMInstanceRequiredIDs(instance_ids=list(ids))
    return client.virtual_machine_scale_sets.begin_delete_instances(GROUP, name, wanted, polling=False, **options)


def poll(client: Any, url: str) -> Any:
    """The operation as its GET tells it."""
    return client.send_request(HttpRequest("GET", url)).json()


def ids(client: Any, name: str = "gpu") -> list[str]:
    """The instance ids of a Uniform set."""
    return [vm.instance_id for vm in client.virtual_machine_scale_set_vms.list(GROUP, name)]


def in_flexible(client: Any, sub: Subscription, name: str = "flex") -> list[Any]:
    """The VMs of a Flexible set."""
    id = sub.path(GROUP, "virtualMachineScaleSets", name)
    return list(client.virtual_machines.list(GROUP, filter=f"'virtualMachineScaleSet/id' eq '{id}'"))


# --- sets and VMs --------------------------------------------------------------------------------------------------


def test_the_sdk_reads_a_set_and_its_vms(client: Any, uniform: ScaleSet) -> None:
    found = client.virtual_machine_scale_sets.get(GROUP, "gpu")
    assert (found.sku.capacity, found.sku.name, found.etag) == (2, SIZE, '"1"')
    assert found.properties.orchestration_mode == "Uniform"
    [first, _] = client.virtual_machine_scale_set_vms.list(GROUP, "gpu", expand="instanceView")
    assert [each.code for each in first.properties.instance_view.statuses] == [
        "ProvisioningState/succeeded",
        "PowerState/running",
    ]
    assert (first.instance_id, first.properties.provisioning_state) == ("0", "Succeeded")
    assert first.properties.time_created is not None
    assert client.virtual_machine_scale_set_vms.get(GROUP, "gpu", "1").name == "gpu_1"
    assert [each.name for each in client.virtual_machine_scale_sets.list(GROUP)] == ["gpu"]


def test_a_raised_capacity_brings_vms_when_the_operation_ends(
    client: Any, sub: Subscription, uniform: ScaleSet
) -> None:
    sub.operation_seconds = sub.start_seconds = 60.0
    url = scale(client, 3, '"1"')
    assert poll(client, url)["status"] == "InProgress"
    assert client.virtual_machine_scale_sets.get(GROUP, "gpu").properties.provisioning_state == "Updating"
    newest = client.virtual_machine_scale_set_vms.get(GROUP, "gpu", "2", expand="instanceView").properties
    assert newest.provisioning_state == "Creating"
    sub.clock.advance(60)
    assert poll(client, url)["status"] == "Succeeded"
    assert client.virtual_machine_scale_sets.get(GROUP, "gpu").properties.provisioning_state == "Succeeded"
    assert ids(client) == ["0", "1", "2"]


def test_a_stale_etag_changes_nothing(client: Any, uniform: ScaleSet) -> None:
    scale(client, 3, '"1"')
    with pytest.raises(ResourceModifiedError) as caught:
        scale(client, 9, '"1"')
    assert (caught.value.status_code, caught.value.error.code) == (412, "PreconditionFailed")
    assert (uniform.capacity, uniform.etag) == (3, '"2"')


def test_an_exact_deletion_lowers_the_capacity(client: Any, sub: Subscription, uniform: ScaleSet) -> None:
    scale(client, 4)
    delete(client, "1")
    assert (ids(client), uniform.capacity) == (["0", "2", "3"], 3)
    assert code_of(lambda: delete(client, "0", "1")) == (400, "InstanceIdsListInstanceIdNotActiveVM")
    client.virtual_machine_scale_set_vms.begin_delete(GROUP, "gpu", "3", polling=False)
    assert (ids(client), uniform.capacity) == (["0", "2"], 2)
    assert code_of(lambda: client.virtual_machine_scale_set_vms.get(GROUP, "gpu", "3"))[0] == 400


def test_a_deletion_takes_its_time_unless_it_is_forced(client: Any, sub: Subscription, uniform: ScaleSet) -> None:
    sub.delete_seconds = 90.0
    delete(client, "0")
    assert (ids(client), uniform.capacity) == (["0", "1"], 1)
    assert client.virtual_machine_scale_set_vms.get(GROUP, "gpu", "0").properties.provisioning_state == "Deleting"
    delete(client, "1", force_deletion=True)
    assert ids(client) == ["0"]
    sub.clock.advance(90)
    assert ids(client) == []


def test_a_lowered_capacity_lets_azure_choose(client: Any, uniform: ScaleSet) -> None:
    scale(client, 4)
    delete(client, "1")
    scale(client, 1)
    assert ids(client) == ["0"]


def test_vms_of_a_flexible_set_have_names_of_their_own(client: Any, sub: Subscription, flexible: ScaleSet) -> None:
    other = sub.add_scale_set("other", SIZE, capacity=1, orchestration="Flexible")
    scale(client, 3, name="flex")
    names = [vm.name for vm in in_flexible(client, sub)]
    assert len(names) == 3
    assert all(name.startswith("flex_") for name in names)
    assert len(list(client.virtual_machines.list_all())) == 4
    delete(client, names[1], name="flex")
    client.virtual_machines.begin_delete(GROUP, names[2], polling=False)
    client.virtual_machines.begin_delete(GROUP, names[2], polling=False)
    assert ([vm.name for vm in in_flexible(client, sub)], flexible.capacity) == ([names[0]], 1)
    assert code_of(lambda: client.virtual_machines.get(GROUP, names[1])) == (404, "ResourceNotFound")
    assert other.capacity == 1


def test_tags_of_a_vm_replace_those_it_had(client: Any, sub: Subscription, flexible: ScaleSet) -> None:
    [name, _] = [vm.name for vm in in_flexible(client, sub)]
    update = models.VirtualMachineUpdate(tags={"a": "1"})
    client.virtual_machines.begin_update(GROUP, name, update, polling=False)
    assert client.virtual_machines.get(GROUP, name).tags == {"a": "1"}


def test_long_lists_come_in_pages(client: Any, sub: Subscription, uniform: ScaleSet, flexible: ScaleSet) -> None:
    sub.page = 2
    scale(client, 5)
    scale(client, 5, name="flex")
    before = len(sub.calls)
    assert ids(client) == ["0", "1", "2", "3", "4"]
    assert len(in_flexible(client, sub)) == 5
    assert len(sub.calls) - before == 6


def test_lists_lag_but_single_reads_do_not(client: Any, sub: Subscription, uniform: ScaleSet) -> None:
    sub.list_lag = 30.0
    sub.clock.advance(30)
    scale(client, 3)
    delete(client, "0")
    assert ids(client) == ["0", "1"]
    assert client.virtual_machine_scale_set_vms.get(GROUP, "gpu", "2").instance_id == "2"
    sub.clock.advance(30)
    assert ids(client) == ["1", "2"]


def test_the_sdks_own_poller_waits_for_the_end(client: Any, uniform: ScaleSet) -> None:
    update = models.VirtualMachineScaleSetUpdate(sku=models.Sku(capacity=3))
    done = client.virtual_machine_scale_sets.begin_update(GROUP, "gpu", update, polling_interval=0).result(5)
    assert done.sku.capacity == 3


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
def test_a_wrong_body_is_refused(client: Any, sub: Subscription, uniform: ScaleSet, body: Any, said: str) -> None:
    url = f"{sub.id_of(uniform)}?api-version=2026-04-01"
    reply = client.send_request(HttpRequest("PATCH", url, json=body))
    assert reply.status_code == 400
    assert said in reply.json()["error"]["message"]
    assert uniform.version == 1


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("api-version=2024-01-01", "InvalidApiVersionParameter"),
        ("", "InvalidApiVersionParameter"),
        ("api-version=2026-04-01&capacity=3", "InvalidParameter"),
        ("api-version=2026-04-01&$expand=everything", "InvalidParameter"),
    ],
)
def test_a_wrong_query_is_refused(client: Any, sub: Subscription, uniform: ScaleSet, query: str, code: str) -> None:
    reply = client.send_request(HttpRequest("GET", f"{sub.id_of(uniform)}?{query}"))
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, code)


def test_what_is_not_there_is_told_apart(client: Any, sub: Subscription, uniform: ScaleSet) -> None:
    sets = client.virtual_machine_scale_sets
    assert code_of(lambda: sets.get(GROUP, "none")) == (404, "ResourceNotFound")
    assert code_of(lambda: sets.get("none", "gpu")) == (404, "ResourceGroupNotFound")
    sub.id = "99999999-2222-3333-4444-555555555555"
    assert code_of(lambda: sets.get(GROUP, "gpu")) == (404, "SubscriptionNotFound")


def test_names_are_the_same_in_any_case(client: Any, uniform: ScaleSet) -> None:
    assert client.virtual_machine_scale_sets.get("GPU-RG", "Gpu").name == "gpu"


def test_tokens_and_rights_are_checked(client: Any, sub: Subscription, uniform: ScaleSet) -> None:
    sets = client.virtual_machine_scale_sets
    sub.deny("Microsoft.Compute/virtualMachineScaleSets/write")
    assert code_of(lambda: scale(client, 3)) == (403, "AuthorizationFailed")
    assert sets.get(GROUP, "gpu").sku.capacity == 2
    sub.expired = {"token"}
    assert code_of(lambda: sets.get(GROUP, "gpu")) == (401, "ExpiredAuthenticationToken")
    sub.expired, sub.tokens = set(), {"another"}
    assert code_of(lambda: sets.get(GROUP, "gpu")) == (401, "InvalidAuthenticationToken")


# --- stock, quota, failures ----------------------------------------------------------------------------------------


def test_a_stock_out_fails_the_operation_and_keeps_the_capacity(
    client: Any, sub: Subscription, uniform: ScaleSet
) -> None:
    sub.stock[SIZE, sub.location, "Regular"] = 1
    sub.operation_seconds = 20.0
    url = scale(client, 4)
    assert poll(client, url)["status"] == "InProgress"
    sub.clock.advance(20)
    told = poll(client, url)
    assert (told["status"], told["error"]["code"]) == ("Failed", "AllocationFailed")
    found = client.virtual_machine_scale_sets.get(GROUP, "gpu")
    assert (found.sku.capacity, found.properties.provisioning_state) == (4, "Failed")
    vms = client.virtual_machine_scale_set_vms.list(GROUP, "gpu", expand="instanceView")
    last = list(vms)[-1]
    assert (last.instance_id, last.properties.provisioning_state) == ("3", "Failed")
    [status] = last.properties.instance_view.statuses
    assert status.code == "ProvisioningState/failed/AllocationFailed"
    sub.clock.advance(3600)
    assert [sub.bill()[f"{sub.id_of(uniform)}/virtualMachines/{n}"] > 0 for n in (2, 3)] == [True, False]
    delete(client, "3")
    assert (uniform.capacity, sub.stock[SIZE, sub.location, "Regular"]) == (3, 0)


def test_without_failed_vms_the_capacity_alone_tells_what_is_missing(
    client: Any, sub: Subscription, uniform: ScaleSet
) -> None:
    sub.leaves_failed, sub.stock[SIZE, sub.location, "Regular"] = False, 0
    scale(client, 4)
    assert (len(ids(client)), uniform.capacity) == (2, 4)
    scale(client, 2)
    assert ids(client) == ["0", "1"]


def test_zones_have_a_stock_of_their_own(client: Any, sub: Subscription) -> None:
    sub.add_scale_set("gpu", SIZE, zones=("1", "2"))
    sub.stock = {(SIZE, "1", "Regular"): 0, (SIZE, "2", "Regular"): 2}
    assert poll(client, scale(client, 2))["status"] == "Succeeded"
    assert [vm.zones for vm in client.virtual_machine_scale_set_vms.list(GROUP, "gpu")] == [["2"], ["2"]]
    assert poll(client, scale(client, 3))["error"]["code"] == "ZonalAllocationFailed"


def test_a_stock_out_may_have_another_code(client: Any, sub: Subscription) -> None:
    sub.add_scale_set("gpu", SIZE, priority="Spot")
    sub.stock[SIZE, sub.location, "Spot"] = 0
    sub.stock_out[SIZE, sub.location, "Spot"] = "OverconstrainedAllocationRequest"
    assert poll(client, scale(client, 1))["error"]["code"] == "OverconstrainedAllocationRequest"


def test_a_quota_refuses_at_once_and_changes_nothing(client: Any, sub: Subscription, uniform: ScaleSet) -> None:
    sub.quotas = {"standardNDASv4_A100Family": 3 * 96}
    scale(client, 3)
    with pytest.raises(HttpResponseError, match=r"standardNDASv4_A100Family Cores quota.* Current Usage: 288"):
        scale(client, 4)
    assert (uniform.capacity, uniform.version) == (3, 2)
    [usage] = [u for u in client.usage.list(sub.location) if u.name.value == "standardNDASv4_A100Family"]
    assert (usage.current_value, usage.limit) == (288, 288)
    spot = sub.add_scale_set("spot", SIZE, priority="Spot")
    sub.quotas = {"lowPriorityCores": 95}
    assert code_of(lambda: scale(client, 1, name="spot")) == (409, "OperationNotAllowed")
    assert spot.capacity == 0


def test_a_size_that_is_not_offered_is_refused_at_once(client: Any, sub: Subscription, uniform: ScaleSet) -> None:
    sub.not_offered.add((SIZE, sub.location))
    assert code_of(lambda: scale(client, 3)) == (409, "SkuNotAvailable")
    assert uniform.capacity == 2


def test_a_vm_whose_provisioning_timed_out_is_there_and_billed(
    client: Any, sub: Subscription, uniform: ScaleSet
) -> None:
    sub.late_failures.append(LateFailure("OSProvisioningTimedOut", "OS provisioning did not finish"))
    sub.operation_seconds, sub.start_seconds = 1200.0, 60.0
    url = scale(client, 3)
    sub.clock.advance(1200)
    assert poll(client, url)["error"]["code"] == "OSProvisioningTimedOut"
    failed = client.virtual_machine_scale_set_vms.get(GROUP, "gpu", "2")
    assert failed.properties.provisioning_state == "Failed"
    assert sub.bill()[failed.id] == 1140 * 27_197_000 // 3600


def test_a_change_preempts_the_one_that_runs(client: Any, sub: Subscription, uniform: ScaleSet) -> None:
    sub.operation_seconds = 60.0
    first = scale(client, 3)
    second = scale(client, 4)
    assert poll(client, first)["error"]["code"] == "OperationPreempted"
    assert poll(client, second)["status"] == "InProgress"
    sub.conflicts = True
    assert code_of(lambda: scale(client, 5)) == (409, "Conflict")
    assert uniform.capacity == 4


def test_operations_are_forgotten(client: Any, sub: Subscription, uniform: ScaleSet) -> None:
    url = scale(client, 3)
    sub.clock.advance(sub.operation_kept_seconds + 1)
    assert poll(client, url)["error"]["code"] == "NotFound"


def test_overprovisioning_makes_vms_that_vanish(client: Any, sub: Subscription) -> None:
    sub.add_scale_set("gpu", SIZE, overprovision=True)
    sub.operation_seconds = 60.0
    scale(client, 2)
    assert ids(client) == ["0", "1", "2"]
    sub.clock.advance(60)
    assert ids(client) == ["1", "2"]
    assert sub.bill()[f"{sub.path(GROUP, 'virtualMachineScaleSets', 'gpu')}/virtualMachines/0"] == 0


@pytest.mark.parametrize("takes_effect", [False, True])
def test_a_lost_answer_leaves_open_what_happened(
    client: Any, sub: Subscription, uniform: ScaleSet, takes_effect: bool
) -> None:
    sub.faults.lose_answer("virtual_machine_scale_sets_update", takes_effect=takes_effect)
    with pytest.raises((ServiceResponseError, ServiceRequestError)):
        scale(client, 3)
    assert uniform.capacity == (3 if takes_effect else 2)
    assert sub.count()["virtual_machine_scale_sets_update"] == 1


def test_throttling_tells_when_to_come_back(client: Any, sub: Subscription, uniform: ScaleSet) -> None:
    sub.faults.fail("virtual_machine_scale_sets_get", throttled(17))
    with pytest.raises(HttpResponseError) as caught:
        client.virtual_machine_scale_sets.get(GROUP, "gpu")
    assert (caught.value.status_code, caught.value.response.headers["Retry-After"]) == (429, "17")


def test_the_witness_sees_a_call_before_and_after_its_effect(client: Any, sub: Subscription, uniform: ScaleSet) -> None:
    seen: list[tuple[str, str, int]] = []
    sub.witness = lambda when, operation: seen.append((when, operation, uniform.capacity))
    scale(client, 3)
    assert seen == [(w, "virtual_machine_scale_sets_update", n) for w, n in (("before", 2), ("after", 3))]


@pytest.mark.parametrize(("eviction", "left", "capacity"), [("Delete", ["1"], 1), ("Deallocate", ["0", "1"], 2)])
def test_an_evicted_vm_is_deleted_or_deallocated(
    client: Any, sub: Subscription, eviction: str, left: list[str], capacity: int
) -> None:
    spot = sub.add_scale_set("gpu", SIZE, capacity=2, priority="Spot", eviction=eviction)
    sub.clock.advance(3600)
    sub.evict(f"{sub.id_of(spot)}/virtualMachines/0")
    sub.clock.advance(3600)
    assert (ids(client), spot.capacity) == (left, capacity)
    assert sub.bill()[f"{sub.id_of(spot)}/virtualMachines/0"] == 10_878_800
    if eviction == "Deallocate":
        view = client.virtual_machine_scale_set_vms.get_instance_view(GROUP, "gpu", "0")
        assert view.statuses[1].code == "PowerState/deallocated"


def test_a_priority_mix_has_both_kinds(client: Any, sub: Subscription) -> None:
    sub.add_scale_set("flex", SIZE, orchestration="Flexible", priority="Spot", mix=(1, 50))
    scale(client, 3, name="flex")
    assert sorted(vm.properties.priority for vm in in_flexible(client, sub)) == ["Regular", "Regular", "Spot"]


# --- what is sold and allowed --------------------------------------------------------------------------------------


def test_skus_tell_gpus_and_where_they_are_not_sold(client: Any, sub: Subscription) -> None:
    sub.not_offered = {(SIZE, "2")}
    [sku] = [s for s in client.resource_skus.list(filter="location eq 'westeurope'") if s.name == SIZE]
    assert {"GPUs": "8", "vCPUs": "96"}.items() <= {each.name: each.value for each in sku.capabilities}.items()
    [restriction] = sku.restrictions
    assert (restriction.type, restriction.restriction_info.zones) == ("Zone", ["2"])
    assert code_of(lambda: list(client.resource_skus.list(filter="name eq 'x'")))[0] == 400
    sub.page = 3
    assert len(list(client.resource_skus.list())) == 10
    assert SIZE in [size.name for size in client.virtual_machine_sizes.list("westeurope")]


def test_a_reservation_has_hosts_where_there_is_no_stock(client: Any, sub: Subscription) -> None:
    held = ReservationGroup(GROUP, "held", sub.location, reservations={"a100": Reservation("a100", SIZE, 1)})
    id = sub.path(GROUP, "capacityReservationGroups", "held")
    sub.reservation_groups[id.lower()] = held
    sub.add_scale_set("gpu", SIZE, reservation_group=id)
    sub.stock[SIZE, sub.location, "Regular"] = 0
    assert poll(client, scale(client, 1))["status"] == "Succeeded"
    assert poll(client, scale(client, 2))["error"]["code"] == "AllocationFailed"
    group = client.capacity_reservation_groups.get(GROUP, "held")
    assert len(group.properties.virtual_machines_associated) == 1
    [listed] = client.capacity_reservations.list_by_capacity_reservation_group(GROUP, "held")
    view = client.capacity_reservations.get(GROUP, "held", listed.name, expand="instanceView").properties.instance_view
    assert len(view.utilization_info.virtual_machines_allocated) == 1


def test_rights_and_autoscale_settings_can_be_read_without_an_sdk_of_theirs(client: Any, sub: Subscription) -> None:
    sub.roles = [Role(["Microsoft.Compute/*", "*/read"], ["Microsoft.Compute/virtualMachineScaleSets/write"])]
    sub.autoscale = [("by-load", sub.path(GROUP, "virtualMachineScaleSets", "gpu"), True)]
    base = f"/subscriptions/{sub.id}/resourceGroups/{GROUP}/providers"
    url = f"{base}/Microsoft.Authorization/permissions?api-version=2022-04-01"
    [row] = client.send_request(HttpRequest("GET", url)).json()["value"]
    assert row["notActions"] == ["Microsoft.Compute/virtualMachineScaleSets/write"]
    url = f"{base}/Microsoft.Insights/autoscalesettings?api-version=2022-10-01"
    [setting] = client.send_request(HttpRequest("GET", url)).json()["value"]
    assert setting["properties"]["enabled"]
