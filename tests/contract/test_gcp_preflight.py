"""What is wrong with a pool of Google Cloud is told with field, value and what to do; nothing is rented then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from google.cloud import compute_v1

from charterer.clouds.gcp import GcpGroup
from charterer.domain.money import Price
from charterer.domain.pool import CapacityType
from charterer.gpu_types.accelerators import gce_gpu
from charterer.providers.errors import CloudUnauthorized, InvalidRequest, NotFoundInCloud, ProviderError
from charterer.providers.gcp.listing import labels_of
from charterer.providers.provider import PreflightFinding
from tests.clouds.gcp.catalogue import TYPES
from tests.clouds.gcp.project import Project
from tests.contract.conftest import OpenGcp
from tests.contract.gcp_pools import GROUP, POOL, PROJECT, REGION, SPOT_GROUP, TEMPLATE, TYPE, ZONE, GcpMarket, table
from tests.contract.wire import CLUSTER


async def findings(m: GcpMarket) -> dict[str, PreflightFinding]:
    return {finding.subject: finding for finding in await m.provider.preflight(m.pool)}


async def wrongs(m: GcpMarket) -> str:
    return "\n".join(f"{f.subject}: {f.message}" for f in await m.provider.preflight(m.pool) if not f.well)


Change = Callable[[Project], Any]


def settings(change: Callable[[Any], Any]) -> Change:
    return lambda project: change(project.groups[ZONE, "gpu"].settings)


def template(change: Callable[[Any], Any]) -> Change:
    return lambda project: change(project.templates["", "gpu"].properties)


def set_label(project: Project, key: str, value: str) -> None:
    project.templates["", "gpu"].properties.labels[key] = value


UNFIT: list[tuple[str, Change, str]] = [
    ("an autoscaler", lambda p: p.add_autoscaler(p.groups[ZONE, "gpu"]),
     "autoscaler gpu would add and end nodes: delete it"),
    ("repairs", settings(lambda g: setattr(g.instance_lifecycle_policy, "default_action_on_failure", "REPAIR")),
     "instanceLifecyclePolicy.defaultActionOnFailure is REPAIR"),
    ("auto-healing", settings(lambda g: g.auto_healing_policies.append(compute_v1.InstanceGroupManagerAutoHealingPolicy(
        initial_delay_sec=60))), "autoHealingPolicies would make nodes again"),
    ("updates", settings(lambda g: setattr(g.update_policy, "type_", "PROACTIVE")),
     "updatePolicy.type is PROACTIVE, which replaces nodes that jobs run on: set it to OPPORTUNISTIC"),
    ("two versions", settings(lambda g: setattr(g, "versions", [
        compute_v1.InstanceGroupManagerVersion(name=n, instance_template=g.instance_template) for n in ("a", "b")])),
     "it has several versions, whose nodes differ: leave one"),
    ("several types", settings(lambda g: setattr(
        g.instance_flexibility_policy, "instance_selections",
        {"a": compute_v1.InstanceGroupManagerInstanceFlexibilityPolicyInstanceSelection(machine_types=[TYPE])})),
     "instanceFlexibilityPolicy makes nodes of several machine types"),
    ("stopped nodes", settings(lambda g: setattr(g, "target_stopped_size", 2)),
     "it keeps 2 stopped nodes, whose disks are billed: set that number to 0"),
    ("bulk mode", settings(lambda g: setattr(g.target_size_policy, "mode", "BULK")), "targetSizePolicy.mode is BULK"),
    ("no labels", template(lambda t: setattr(t, "labels", {})),
     f"the label charterer-cluster is missing: set it to '{CLUSTER}' in its template or its allInstancesConfig"),
    ("another cluster's labels", lambda p: set_label(p, "charterer-cluster", "other"),
     "the label charterer-cluster 'other' is another's"),
    ("another pool's labels", lambda p: set_label(p, "charterer-pool", "other"),
     "the label charterer-pool 'other' is another's"),
    ("spot", template(lambda t: setattr(t.scheduling, "provisioning_model", "SPOT")),
     "its provisioningModel is SPOT, but spec.capacityType OnDemand needs STANDARD: make a template with that"),
    ("disks that stay", template(lambda t: setattr(t.disks[0], "auto_delete", False)),
     "1 of its disks stay and are billed when a node is deleted: set autoDelete on each"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "told"), [case[1:] for case in UNFIT], ids=[case[0] for case in UNFIT])
async def test_a_group_that_would_act_by_itself_or_cost_by_surprise_is_refused_with_what_to_do(
    gcp: OpenGcp, change: Change, told: str
) -> None:
    m = gcp()
    change(m.project)
    assert told in await wrongs(m)
    with pytest.raises(InvalidRequest) as refused:
        await m.ask("one")
    assert told in str(refused.value)
    assert m.truth() == []


async def test_labels_of_the_whole_group_count(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.templates["", "gpu"].properties.labels = {}
    properties = compute_v1.InstancePropertiesPatch(labels=dict(labels_of(CLUSTER, POOL)))
    config = compute_v1.InstanceGroupManagerAllInstancesConfig(properties=properties)
    m.project.groups[ZONE, "gpu"].settings.all_instances_config = config
    assert await wrongs(m) == ""
    await m.ask("one")
    assert len(await m.held()) == 1


async def test_a_group_in_another_zone_is_found_there(gcp: OpenGcp) -> None:
    m = gcp(replace(GROUP, zone="us-central1-b"))
    said = f"there is no managed instance group 'gpu' in us-central1-b of project {PROJECT}, but in {ZONE}"
    assert f"{said}: set spec.gcp.zone to that" in await wrongs(m)
    with pytest.raises(InvalidRequest, match=r"spec\.gcp\.instanceGroup"):
        await m.ask("one")
    with pytest.raises(InvalidRequest, match="but in us-central1-a"):
        await m.survey()


async def test_a_group_that_nobody_has_is_told(gcp: OpenGcp) -> None:
    m = gcp(GcpGroup(PROJECT, ZONE, "gone"))
    assert "there is no managed instance group 'gone'" in await wrongs(m)


async def test_a_template_without_gpus_is_told(gcp: OpenGcp) -> None:
    m = gcp(replace(TEMPLATE, template="plain"))
    m.project.add_template("plain", "n1-standard-8")
    assert "n1-standard-8 has no GPU, and instance template plain attaches none" in await wrongs(m)
    with pytest.raises(InvalidRequest, match="make a template with NVIDIA GPUs"):
        await m.ask("one")
    assert m.truth() == []


async def test_a_part_of_a_gpu_is_not_rented(gcp: OpenGcp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TYPES, "g4-standard-6", replace(TYPES["g2-standard-4"], gpus=0, gpu=""))
    m = gcp(replace(TEMPLATE, template="part"))
    m.project.add_template("part", "g4-standard-6")
    assert "g4-standard-6 has a part of an nvidia-rtx-pro-6000, which Charterer does not rent" in await wrongs(m)


async def test_a_count_that_contradicts_the_table_is_told_and_not_used(
    gcp: OpenGcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TYPES, TYPE, replace(TYPES[TYPE], gpus=12))
    m = gcp()
    told = f"the cloud lists 12 GPUs of {TYPE}, which has"
    assert told in await wrongs(m)
    assert (await m.survey()).offering.gpus_per_node == gce_gpu(TYPES[TYPE].gpu).gpus[TYPE]


async def test_gpus_that_a_template_attaches_count(gcp: OpenGcp) -> None:
    m = gcp(replace(TEMPLATE, template="t4"), price_override=Price.parse("0.9"))
    m.project.add_template("t4", "n1-standard-8", accelerators={"nvidia-tesla-t4": 2})
    offering = (await m.survey()).offering
    assert (offering.gpu_type, offering.gpus_per_node) == ("Tesla-T4", 2)
    assert offering.instance_type == "n1-standard-8+nvidia-tesla-t4"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("odd", "instance template odd names machine type 'a9-giga-8g', which us-central1-a does not offer"),
        ("gone", "spec.gcp.instanceTemplate: there is no instance template 'gone'"),
        ("us-east1/gone", "there is no instance template 'gone' in us-east1"),
    ],
)
async def test_a_type_or_template_that_is_not_there_is_told(gcp: OpenGcp, name: str, told: str) -> None:
    m = gcp(replace(TEMPLATE, template=name))
    m.project.add_template("odd", "a9-giga-8g")
    assert told in await wrongs(m)
    with pytest.raises(InvalidRequest):
        await m.ask("one")
    assert m.truth() == []


async def test_a_template_of_a_region_is_used(gcp: OpenGcp) -> None:
    m = gcp(replace(TEMPLATE, template=f"{REGION}/near"))
    m.project.add_template("near", TYPE, region=REGION)
    assert await wrongs(m) == ""
    await m.ask("one")
    assert len(await m.held()) == 1


async def test_a_gpu_that_is_not_known_needs_its_name(gcp: OpenGcp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charterer.gpu_types.accelerators.COMPUTE_ENGINE", {})
    m = gcp()
    with pytest.raises(InvalidRequest, match=r"spec\.gcp\.gpuType.*nvidia-tesla-a100"):
        await m.survey()
    assert (await gcp(replace(GROUP, gpu_type="A")).survey()).offering.gpu_type == "A"


async def test_a_project_that_does_not_exist_is_told(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.id = "another-project"
    [finding] = await m.provider.preflight(m.pool)
    assert (finding.subject, finding.well) == ("credentials", False)
    assert "projects/test-project' was not found" in finding.message
    with pytest.raises(ProviderError) as refused:
        await m.survey()
    assert isinstance(refused.value, NotFoundInCloud | InvalidRequest)


@pytest.mark.parametrize(
    ("right", "call"),
    [
        ("compute.instanceGroupManagers.update", "ask"),
        ("compute.instanceGroupManagers.get", "survey"),
        ("compute.zoneOperations.list", "survey"),
        ("compute.regions.get", "preflight"),
    ],
)
async def test_a_missing_right_is_named(gcp: OpenGcp, right: str, call: str) -> None:
    m = gcp()
    m.project.denied = {right}
    if call == "preflight":
        assert right in await wrongs(m)
        return
    with pytest.raises(CloudUnauthorized, match=right):
        await (m.ask("one") if call == "ask" else m.survey())
    assert m.truth() == []


# --- quotas ----------------------------------------------------------------------------------------------------------


async def test_a_quota_that_is_too_small_says_what_to_ask_for(gcp: OpenGcp) -> None:
    m = gcp(max_nodes=4)
    m.project.quotas[REGION, "NVIDIA_A100_GPUS"] = 3
    await m.ask("one")
    quota = (await findings(m))["quota"]
    assert not quota.well
    assert "NVIDIA_A100_GPUS of us-central1: 1 of 3 are used" in quota.message
    assert "so that 3 fit: ask for NVIDIA_A100_GPUS 4 in IAM & Admin, Quotas, or lower spec.maxNodes 4" in quota.message


async def test_spot_counts_against_the_preemptible_quota(gcp: OpenGcp) -> None:
    m = gcp(SPOT_GROUP, CapacityType.SPOT, max_nodes=2)
    m.project.quotas[REGION, "NVIDIA_A100_GPUS"] = 0
    assert (await findings(m))["quota"].well
    m.project.quotas[REGION, "PREEMPTIBLE_NVIDIA_A100_GPUS"] = 1
    assert "ask for PREEMPTIBLE_NVIDIA_A100_GPUS 2" in (await findings(m))["quota"].message


async def test_the_quota_of_all_regions_counts_too(gcp: OpenGcp) -> None:
    m = gcp(max_nodes=2)
    m.project.quotas["global", "GPUS_ALL_REGIONS"] = 1
    assert "ask for GPUS_ALL_REGIONS 2" in (await findings(m))["quota"].message


async def test_a_quota_that_the_api_does_not_tell_is_said_to_be_unknown(gcp: OpenGcp) -> None:
    m = gcp(replace(TEMPLATE, template="h100"))
    m.project.add_template("h100", "a3-highgpu-8g")
    quota = (await findings(m))["quota"]
    assert quota.well
    assert "the API tells no quota of nvidia-h100-80gb in us-central1: look in IAM & Admin, Quotas" in quota.message


# --- prices ----------------------------------------------------------------------------------------------------------


async def test_a_quote_says_of_which_day_it_is_and_spot_costs_at_most_what_on_demand_does(gcp: OpenGcp) -> None:
    m = gcp(SPOT_GROUP, CapacityType.SPOT)
    quote = await m.provider.quote(m.pool)
    prices = m.project.prices
    assert (quote.price, quote.worst) == (Price.parse(str(prices[TYPE, True])), Price.parse(str(prices[TYPE, False])))
    assert table(m.project).day in quote.source
    assert quote.as_of == table(m.project).as_of


async def test_an_old_table_is_said_to_be_old_and_goes_on_to_be_used(gcp: OpenGcp) -> None:
    m = gcp()
    m.project.clock.advance(91 * 86_400)
    price = (await findings(m))["price"]
    assert not price.well
    assert "91 days old: compare it with Google's, and set spec.price.hourly" in price.message
    assert (await m.provider.quote(m.pool)).price > Price(0)
    own = gcp(price_override=Price.parse("3"))
    own.project.clock.advance(91 * 86_400)
    assert (await findings(own))["price"].well


async def test_a_type_without_a_price_needs_the_users(gcp: OpenGcp) -> None:
    m = gcp()
    prices = replace(table(m.project), on_demand={}, spot={})
    m.provider._prices.table = prices
    with pytest.raises(InvalidRequest, match=rf"has no OnDemand price of {TYPE} in {REGION}: set spec\.price\.hourly"):
        await m.provider.quote(m.pool)
    assert "set spec.price.hourly" in (await findings(m))["price"].message
    own = gcp(price_override=Price.parse("3"))
    own.provider._prices.table = prices
    assert (await own.provider.quote(own.pool)).price == Price.parse("3")


async def test_prices_in_another_currency_are_none(gcp: OpenGcp) -> None:
    m = gcp()
    m.provider._prices.table = replace(table(m.project), currency="EUR")
    with pytest.raises(InvalidRequest, match="the table of prices is in EUR, and budgets are in USD"):
        await m.provider.quote(m.pool)


# --- reservations ----------------------------------------------------------------------------------------------------


async def test_a_reservation_is_looked_at(gcp: OpenGcp) -> None:
    m = gcp(replace(TEMPLATE, reservation="kept"))
    assert "there is no reservation 'kept' in us-central1-a" in await wrongs(m)
    m.project.add_reservation("kept", ZONE, TYPE, 2)
    assert (await findings(m))["reservation"].message == f"kept: 2 of 2 {TYPE} are free"
    m.project.reservations.clear()
    m.project.add_reservation("kept", ZONE, "a2-highgpu-8g", 2, specific=False)
    said = (await findings(m))["reservation"].message
    assert "instance template gpu has a2-highgpu-1g: name a reservation of that" in said
    assert "it is not specific" in said
