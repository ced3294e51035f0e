"""What a preflight finds in pools of Azure; and of those settings, what keeps a node from being asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from charterer.domain.pool import CapacityType, Pool
from charterer.providers.azure.permissions import At, For, actions
from charterer.providers.errors import CloudUnauthorized, InvalidRequest
from tests.clouds.azure.catalogue import SIZES
from tests.clouds.azure.resources import NodePool, Reservation, ReservationGroup, ScaleSet
from tests.clouds.azure.subscription import Role
from tests.contract.azure_pools import GROUP, KINDS, NODE_POOL, SET, SIZE, AzureMarket
from tests.contract.conftest import OpenAzure

every_kind = pytest.mark.parametrize("kind", KINDS)


async def wrong(m: AzureMarket, pool: Pool | None = None) -> dict[str, str]:
    """What the preflight finds to be wrong, by its subject."""
    found = await m.provider.preflight(pool or m.pool)
    return {finding.subject: finding.message for finding in found if not finding.well}


async def finding(m: AzureMarket, subject: str) -> tuple[bool, str]:
    """One finding of the preflight."""
    [found] = [each for each in await m.provider.preflight(m.pool) if each.subject == subject]
    return found.well, found.message


def _set(**fields: object) -> Callable[[ScaleSet], None]:
    def change(scale_set: ScaleSet) -> None:
        for name, value in fields.items():
            setattr(scale_set, name, value)

    return change


SETTINGS = {
    "overprovision is true: set it to false": _set(overprovision=True),
    "automaticRepairsPolicy is enabled: disable it": _set(repairs=True),
    "spotRestorePolicy is enabled: disable it": _set(spot_restore=True),
    "resiliencyPolicy.automaticZoneRebalancingPolicy is enabled: disable it": _set(zone_rebalancing=True),
    "upgradePolicy.mode is Automatic: set it to Manual": _set(upgrade_mode="Automatic"),
    "it has a priorityMixPolicy": _set(mix=(1, 50)),
    "it has Spot nodes, but spec.capacityType is OnDemand": _set(priority="Spot"),
    "it is in northeurope, but spec.azure.location is westeurope": _set(location="northeurope"),
}


@pytest.mark.parametrize("told", SETTINGS)
async def test_a_setting_that_would_end_or_add_nodes_is_named_and_nothing_is_asked_for(
    azure_market: OpenAzure, told: str
) -> None:
    m = azure_market("uniform")
    SETTINGS[told](m.scale_set)
    assert told in (await wrong(m))["scale set"]
    with pytest.raises(InvalidRequest, match=f"UnfitScaleSet.*{told}"):
        await m.ask(1, "one")
    assert m.members() == []


async def test_spot_nodes_that_would_be_deallocated_are_named(azure_market: OpenAzure) -> None:
    m = azure_market("uniform", CapacityType.SPOT)
    assert await wrong(m) == {}
    m.scale_set.eviction = "Deallocate"
    told = "its eviction policy is Deallocate: make it with Delete, or disks stay and are billed"
    assert await wrong(m) == {"scale set": told}
    with pytest.raises(InvalidRequest, match=told):
        await m.ask(1, "one")


def _pool(**fields: object) -> Callable[[NodePool], None]:
    def change(pool: NodePool) -> None:
        for name, value in fields.items():
            setattr(pool, name, value)

    return change


POOL_SETTINGS = {
    "enableAutoScaling is true: disable it": _pool(autoscaling=(0, 5)),
    "its mode is System: set it to User": _pool(mode="System"),
    "scaleDownMode is Deallocate: set it to Delete": _pool(scale_down="Deallocate"),
    "it has Spot nodes, but spec.capacityType is OnDemand": _pool(priority="Spot"),
    "its type is AvailabilitySet: make a node pool of type VirtualMachineScaleSets": _pool(kind="AvailabilitySet"),
}


@pytest.mark.parametrize("told", POOL_SETTINGS)
async def test_a_setting_of_a_node_pool_that_would_end_or_add_nodes_is_named(
    azure_market: OpenAzure, told: str
) -> None:
    m = azure_market("aks")
    [cluster] = m.sub.clusters.values()
    POOL_SETTINGS[told](cluster.pools["gpu"])
    assert told in (await wrong(m))["node pool"]
    with pytest.raises(InvalidRequest, match=f"UnfitScaleSet.*{told}"):
        await m.ask(1, "one")
    assert m.members() == []


@every_kind
async def test_an_autoscale_setting_is_named_and_nothing_is_asked_for(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    m.sub.autoscale = [("off", m.sub.id_of(m.scale_set), False), ("other's", "/subscriptions/x", True)]
    assert await wrong(m) == {}
    m.sub.autoscale.append(("by-load", m.sub.id_of(m.scale_set), True))
    m.sub.clock.advance(301)
    assert await wrong(m) == {
        "autoscale settings": "autoscale setting by-load changes its capacity: disable or delete it"
    }
    with pytest.raises(InvalidRequest, match="autoscale setting by-load"):
        await m.ask(1, "one")


# --- rights and credentials ------------------------------------------------------------------------------------------


@every_kind
async def test_the_roles_of_the_page_are_enough(azure_market: OpenAzure, kind: str) -> None:
    m = azure_market(kind)
    kinds = {For.ALL, For.AKS} if kind == "aks" else {For.ALL, For.SET, For.FLEXIBLE}
    m.sub.roles = [Role(list(actions(kinds, at))) for at in At]
    assert await wrong(m) == {}
    await m.ask(2, "one", "two")
    m.sub.stock[SIZE, m.sub.location, "Regular"] = 0
    await m.ask(3, "one", "two", "three")
    assert (await m.survey()).refusals
    await m.withdraw(2)
    for id in m.truth():
        await m.terminate(id)
    assert m.members() == []


@pytest.mark.parametrize(
    ("kind", "action", "where"),
    [
        ("uniform", "Microsoft.Compute/virtualMachineScaleSets/write", GROUP),
        ("uniform", "Microsoft.Compute/virtualMachineScaleSets/delete/action", GROUP),
        ("flexible", "Microsoft.Compute/virtualMachines/delete", GROUP),
        ("aks", "Microsoft.ContainerService/managedClusters/agentPools/deleteMachines/action", GROUP),
    ],
)
async def test_a_missing_right_is_named_before_it_is_needed(
    azure_market: OpenAzure, kind: str, action: str, where: str
) -> None:
    m = azure_market(kind)
    m.sub.deny(action)
    assert (await wrong(m))["rights"] == (
        f"the identity may not {action} in {where}: give the identity the roles of docs/clouds/azure.md"
    )


async def test_a_right_of_the_subscription_that_is_missing_shows_where_it_is_needed(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    m.sub.deny("Microsoft.Compute/locations/usages/read")
    assert "'Microsoft.Compute/locations/usages/read'" in (await wrong(m))["quota"]


async def test_without_credentials_there_is_only_that_to_say(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    m.sub.expired = {"token"}
    found = await wrong(m)
    assert list(found) == ["credentials"]
    assert "ExpiredAuthenticationToken" in found["credentials"]


async def test_a_client_secret_is_warned_of(azure_market: OpenAzure, monkeypatch: pytest.MonkeyPatch) -> None:
    m = azure_market("uniform")
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "the-secret")
    [told] = (await wrong(m)).values()
    assert told.startswith("the environment has a client secret: take it out, and give the ServiceAccount an identity")
    assert "the-secret" not in told


async def test_a_right_to_look_for_autoscale_settings_that_is_missing_keeps_nodes_from_being_asked_for(
    azure_market: OpenAzure,
) -> None:
    m = azure_market("uniform")
    m.sub.deny("Microsoft.Insights/autoscalesettings/read")
    with pytest.raises(CloudUnauthorized, match="autoscalesettings/read"):
        await m.ask(1, "one")


# --- what is sold ----------------------------------------------------------------------------------------------------


async def test_a_size_without_gpus_is_no_pool(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    for size, said in (
        ("Standard_D2s_v5", "no GPU that a pod could have"),
        ("Standard_NV6ads_A10_v5", "a part of a GPU"),
    ):
        m.scale_set.size = size
        with pytest.raises(InvalidRequest, match=f"VM size {size} has {said}"):
            await m.survey()
        assert f"has {said}" in (await wrong(m))["GPUs"]


async def test_a_count_that_contradicts_the_table_is_told_and_not_used(
    azure_market: OpenAzure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Azure listed ND96isr_H100_v5 (https://github.com/Azure/azure-cli/issues/31176)."""
    monkeypatch.setitem(SIZES, SIZE, replace(SIZES[SIZE], gpus=12))
    m = azure_market("uniform")
    assert (await m.survey()).offering.gpus_per_node == 8
    said = f"the cloud lists 12 GPUs of {SIZE}, which has 8 by Charterer's table: its nodes count as 8"
    assert (await wrong(m))["GPUs"].startswith(said)


async def test_a_size_with_gpus_of_another_maker_needs_a_pool_that_says_so(
    azure_market: OpenAzure, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = "Standard_ND96isr_MI300X_v5"
    monkeypatch.setitem(SIZES, size, SIZES[SIZE])
    cloud = replace(SET, gpu_type="AMD_Instinct_MI300X_VF")
    m = azure_market("uniform", cloud=cloud)
    m.scale_set.size = size
    with pytest.raises(InvalidRequest, match=f"VM size {size} are amd.com/gpu: make the pool anew with that"):
        await m.survey()
    m = azure_market("uniform", cloud=cloud, device="amd.com/gpu")
    m.scale_set.size = size
    offering = (await m.survey()).offering
    assert (offering.gpu_type, offering.gpus_per_node) == (cloud.gpu_type, 8)


async def test_a_size_that_azure_does_not_know_is_named(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    m.scale_set.size = "Standard_ND96"
    with pytest.raises(InvalidRequest, match=r"Azure does not list VM size 'Standard_ND96' in westeurope"):
        await m.survey()


async def test_the_gpu_type_that_the_pool_says_is_used(azure_market: OpenAzure) -> None:
    m = azure_market("uniform", cloud=replace(SET, gpu_type="NVIDIA-A100-MIG"))
    assert (await m.survey()).offering.gpu_type == "NVIDIA-A100-MIG"
    m = azure_market("aks", cloud=replace(NODE_POOL, gpu_type="NVIDIA-A100-MIG"))
    assert (await m.survey()).offering.gpu_type == "NVIDIA-A100-MIG"


async def test_zones_in_which_the_subscription_may_not_have_the_size_are_named(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    m.scale_set.zones = ("1", "2")
    m.sub.not_offered = {(SIZE, "2")}
    assert (await finding(m, "zones"))[0], "the other zone is left"
    m.sub.not_offered = {(SIZE, m.sub.location)}
    m.sub.clock.advance(7 * 3600)
    assert f"may not have {SIZE} in westeurope-1, westeurope-2" in (await wrong(m))["zones"]


async def test_the_quota_is_compared_with_what_is_used(azure_market: OpenAzure) -> None:
    m = azure_market("uniform", max_nodes=3)
    m.sub.quotas = {"standardNDASv4_A100Family": 2 * 96, "cores": 1000}
    assert await finding(m, "quota") == (
        False,
        "standardNDASv4_A100Family vCPUs: 0 of 192 vCPUs are used, a node has 96, so that 2 fit: ask for 288 at "
        "https://aka.ms/quotaincrease, or lower spec.maxNodes 3",
    )
    await m.ask(2, "one", "two")
    m.sub.quotas = {"standardNDASv4_A100Family": 3 * 96, "cores": 4 * 96}
    assert await finding(m, "quota") == (
        True,
        "standardNDASv4_A100Family vCPUs: 192 of 288 vCPUs are used, a node has 96, spec.maxNodes 3 fits",
    )


async def test_the_region_of_a_subscription_has_a_quota_too(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    m.sub.quotas = {"cores": 96}
    assert "Total Regional vCPUs: 0 of 96 vCPUs are used" in (await finding(m, "quota"))[1]


async def test_spot_nodes_are_counted_by_their_own_quota(azure_market: OpenAzure) -> None:
    m = azure_market("uniform", CapacityType.SPOT)
    m.sub.quotas = {"cores": 0, "lowPriorityCores": 192}
    assert "Total Regional Low-priority vCPUs: 0 of 192" in (await finding(m, "quota"))[1]


async def test_reservations_are_told_with_how_much_is_free(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    id = m.sub.path(GROUP, "capacityReservationGroups", "held")
    held = ReservationGroup(GROUP, "held", m.sub.location, reservations={"a100": Reservation("a100", SIZE, 2)})
    m.sub.reservation_groups[id.lower()] = held
    m.scale_set.reservation_group = id
    m.sub.stock[SIZE, m.sub.location, "Regular"] = 0
    await m.ask(1, "one")
    assert await finding(m, "capacity reservation") == (
        True,
        f"held: 1 of 2 reserved {SIZE} are used; spec.maxNodes 4 is more, the rest is on demand",
    )
    held.reservations.clear()
    assert "reserve some there" in (await finding(m, "capacity reservation"))[1]


async def test_a_set_in_one_placement_group_takes_a_hundred_nodes(azure_market: OpenAzure) -> None:
    m = azure_market("uniform", max_nodes=101)
    m.scale_set.single_placement_group = True
    assert (await m.survey()).offering.group_size == 100
    assert "the group takes 100: lower maxNodes" in (await wrong(m))["size"]


async def test_what_is_known_of_sizes_is_kept_while_azure_cannot_be_asked(azure_market: OpenAzure) -> None:
    m = azure_market("uniform")
    await m.ask(1, "one")
    await m.survey()
    m.sub.deny("Microsoft.Compute/skus/read")
    m.sub.clock.advance(7 * 3600)
    assert len((await m.survey()).instances) == 1
