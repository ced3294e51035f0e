"""``spec.azure`` of pools and rentals, to domain values and back; what its values say of quotas and machines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.api.models.clouds import AzureNodes, cloud_fields
from charterer.clouds.azure import AzureNodePool, AzureScaleSet, series_of
from charterer.domain.pool import CapacityType, Offering

ID = "00000000-1111-2222-3333-444444444444"
SET = AzureScaleSet(ID, "rg", "westeurope", "gpu")
POOL = AzureNodePool(ID, "rg", "westeurope", "prod", "gpu")


@pytest.mark.parametrize(
    "cloud",
    [
        SET,
        replace(SET, gpu_type="NVIDIA-H200", tenant=ID, client=ID),
        POOL,
        replace(POOL, gpu_type="NVIDIA-H200", tenant=ID, client=ID),
    ],
)
def test_what_is_written_is_what_is_read(cloud: AzureScaleSet | AzureNodePool) -> None:
    assert AzureNodes.model_validate(cloud_fields(cloud)["azure"]).to_domain() == cloud


def test_a_spec_has_no_field_that_says_nothing() -> None:
    place = {"subscription": ID, "resourceGroup": "rg", "location": "westeurope"}
    assert cloud_fields(SET) == {"azure": {**place, "scaleSet": "gpu"}}
    assert cloud_fields(POOL) == {"azure": {**place, "aks": {"cluster": "prod", "nodePool": "gpu"}}}


def test_names_mean_the_same_machines_in_any_case() -> None:
    assert SET.identity == replace(SET, resource_group="RG", scale_set="GPU").identity
    assert SET.identity == replace(SET, client=ID).identity
    assert SET.identity != replace(SET, scale_set="other").identity
    assert POOL.identity == replace(POOL, cluster="Prod").identity != replace(POOL, node_pool="cpu").identity


def test_an_account_is_a_subscription_and_who_acts_in_it() -> None:
    assert SET.account == replace(POOL, resource_group="other").account
    assert SET.account != replace(SET, client=ID).account


@pytest.mark.parametrize(
    ("size", "series", "vcpus"),
    [
        ("Standard_ND96isr_H100_v5", "NDisr_H100_v5", 96),
        ("Standard_NC24ads_A100_v4", "NCads_A100_v4", 24),
        ("Standard_NC96ads_A100_v4", "NCads_A100_v4", 96),
        ("Standard_NC8-4as_T4_v3", "NCas_T4_v3", 8),
        ("Something", "Something", 8),
    ],
)
def test_a_quota_counts_the_cores_of_a_series_together(size: str, series: str, vcpus: int) -> None:
    offering = Offering("A", 8, size, "westeurope-1,westeurope-2")
    assert (series_of(size), SET.quota_units(offering)) == (series, vcpus)
    ways = SET.ways(offering, CapacityType.SPOT)
    assert [(way.zone, way.family, way.region) for way in ways] == [
        ("westeurope-1", series, "westeurope"),
        ("westeurope-2", series, "westeurope"),
    ]
