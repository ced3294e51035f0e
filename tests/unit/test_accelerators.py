"""The table of accelerators has what packages of vendors name, or says that it has not."""

from __future__ import annotations

import json
from datetime import date

import pytest

from charterer.clouds.azure import cpus_of, series_of
from charterer.clouds.gcp import quota_family, quota_metric
from charterer.gpu_types import data_sheet
from charterer.gpu_types.accelerators import (
    AZURE_OTHER,
    COMPUTE_ENGINE,
    EC2,
    MODELS,
    ON_SPOT_ONLY,
    QUOTAS,
    accelerator_of,
    azure_gpu,
    counted_otherwise,
    ec2_gpu,
    gce_gpu,
    label_advice,
    words_of,
)
from charterer.providers.gcp.prices import read_table
from tests.facts import accelerators as facts

KNOWN_LATER = {("RTX PRO 4500", 32768)}
"""GPUs of EC2 whose label nobody has seen: the error says which it may be."""


def test_every_row_has_a_source_and_a_date() -> None:
    content = json.loads(facts.TABLE.read_text())
    rows = [row for section, those in content.items() if section != "azureOther" for row in those]
    assert all(row["source"] for row in rows)
    assert max(date.fromisoformat(row["date"]) for row in rows) < date(2100, 1, 1)


def test_the_table_is_as_the_packages_say() -> None:
    text = facts.TABLE.read_text()
    assert facts.text_of(facts.renewed(json.loads(text))) == text, "python -m tests.facts.accelerators --write"


def test_every_gpu_that_ec2s_descriptions_name_has_a_label_or_says_which_it_may_be() -> None:
    unknown = facts.unlabelled_ec2()
    assert unknown.keys() == KNOWN_LATER
    for gpu in unknown:
        assert "it is probably NVIDIA-RTX-PRO-4500" in label_advice("a size", ec2_gpu(*gpu))


def test_parts_of_gpus_are_known_as_such() -> None:
    assert set(ec2_gpu("L4", 22888).parts) == {"g6f.2xlarge", "g6f.4xlarge", "g6f.large", "g6f.xlarge", "gr6f.4xlarge"}
    for size in ("NV6ads_A10_v5", "NC24lds_xl_RTXPRO6000BSE_v6", "NC36ds_xl_RTXPRO6000BSE_v6"):
        assert cpus_of(f"Standard_{size}") in azure_gpu(series_of(f"Standard_{size}")).parts
    assert "g4-standard-6" in gce_gpu("nvidia-rtx-pro-6000").parts


def test_types_that_no_package_describes_are_of_families_that_are_known() -> None:
    """Old ones and AMD's, and GB200, whose label is in the table by its name alone."""
    assert {name.split(".")[0] for name in facts.undescribed_ec2()} == {
        "g2", "g3", "g3s", "g4ad", "p2", "p3", "p6e-gb200",
    }  # fmt: skip
    assert ec2_gpu("GB200", 189471).label == "NVIDIA-GB200"


def test_quotas_are_those_of_google_clouds_enum() -> None:
    known = set(facts.gce_quotas())
    told = {quota_metric(kind, spot=spot) for kind in QUOTAS for spot in (False, True)} - {""}
    assert told <= known
    assert {kind for kind, quota in QUOTAS.items() if quota not in known} == ON_SPOT_ONLY


def test_every_size_that_azures_sdk_names_has_a_label_or_says_which_it_may_be() -> None:
    for size in facts.unlabelled_azure():
        assert azure_gpu(series_of(size)).likely


@pytest.mark.parametrize(
    ("size", "label", "gpus"),
    [
        ("Standard_ND128isr_NDR_GB200_v6", "NVIDIA-GB200", 4),
        ("Standard_ND128isr_GB300_v6", "NVIDIA-GB300", 4),
        ("Standard_NC288ds_xl_RTXPRO6000BSE_v6", "", 2),
        ("Standard_NC144lds_xl_RTXPRO6000BSE_v6", "", 1),
        ("Standard_NCC40ads_H100_v5", "NVIDIA-H100-NVL", 1),
        ("Standard_ND96is_H100_v5", "NVIDIA-H100-80GB-HBM3", 8),
        ("Standard_ND96isr_H200_v5", "NVIDIA-H200", 8),
        ("Standard_ND96isrf_H200_v5", "NVIDIA-H200", 8),
        ("Standard_ND96ams_A100_v4", "NVIDIA-A100-SXM4-80GB", 8),
        ("Standard_NV36ads_A10_v5", "NVIDIA-A10-24Q", 1),
        ("Standard_NV72ads_A10_v5", "NVIDIA-A10-24Q", 2),
        ("Standard_NV36adms_A10_v5", "NVIDIA-A10-24Q", 1),
    ],
)
def test_azures_series_have_labels_and_counts(size: str, label: str, gpus: int) -> None:
    sold = azure_gpu(series_of(size))
    assert (sold.label, sold.gpus[cpus_of(size)]) == (label, gpus)


@pytest.mark.parametrize(
    ("machine_type", "accelerator"),
    [
        ("g4-standard-48", "nvidia-rtx-pro-6000"),
        ("a4x-highgpu-4g", "nvidia-gb200"),
        ("a4x-maxgpu-4g-metal", "nvidia-gb300"),
        ("a3-megagpu-8g", "nvidia-h100-mega-80gb"),
        ("g2-standard-4", "nvidia-l4"),
        ("n1-standard-8", ""),
        ("e2", ""),
    ],
)
def test_machine_types_of_google_cloud_have_their_accelerator(machine_type: str, accelerator: str) -> None:
    assert accelerator_of(machine_type) == accelerator
    assert not accelerator or gce_gpu(accelerator).label
    assert quota_family(machine_type) == (accelerator or machine_type.split("-")[0])


def test_every_machine_type_that_has_a_price_has_an_accelerator() -> None:
    table = read_table()
    priced = {name for region in (*table.on_demand.values(), *table.spot.values()) for name in region}
    assert {name for name in priced if not accelerator_of(name)} == set()


def test_every_label_is_of_a_model_that_is_in_the_table() -> None:
    labels = {sold.label for table in (EC2, COMPUTE_ENGINE) for sold in table.values()}
    assert {label for label in labels if label and data_sheet(label) is None} == set()


def test_a_model_is_in_no_other_models_words() -> None:
    words = {model: " ".join(words_of(model)) for model in MODELS}
    assert words == {model: model for model in MODELS}


def test_a_list_that_contradicts_the_table_is_told() -> None:
    assert counted_otherwise("ND96isr_H100_v5", 8, 8) == counted_otherwise("new", 12, None) == ""
    assert counted_otherwise("ND96isr_H100_v5", 12, 8).startswith(
        "the cloud lists 12 GPUs of ND96isr_H100_v5, which has 8"
    )


def test_sizes_with_parts_of_gpus_of_other_makers_are_told_by_their_names() -> None:
    assert {"V620", "V710", "MI25"} <= set(AZURE_OTHER)


def test_azures_size_with_amds_gpus_says_how_nodes_name_them_and_who_gives_them_a_label() -> None:
    sold = azure_gpu("NDisr_MI300X_v5")
    assert (sold.resource, sold.gpus) == ("amd.com/gpu", {"96": 8})
    assert "node label amd.com/gpu.product-name of it" in label_advice("it", sold)
