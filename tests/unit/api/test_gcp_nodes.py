"""``spec.gcp`` of pools and rentals, to domain values and back."""

from __future__ import annotations

import pytest

from charterer.api.models.clouds import GcpNodes, cloud_fields
from charterer.clouds.gcp import GcpGroup, GcpTemplate

GROUP = GcpGroup("my-project", "us-central1-a", "gpu")
TEMPLATE = GcpTemplate("example.com:project", "europe-west4-b", "europe-west4/gpu", "NVIDIA-L4", "kept", 86_400)


@pytest.mark.parametrize("cloud", [GROUP, TEMPLATE, GcpGroup("my-project", "us-east5-c", "g", "A", 604_800)])
def test_what_is_written_is_what_is_read(cloud: GcpGroup | GcpTemplate) -> None:
    assert GcpNodes.model_validate(cloud_fields(cloud)["gcp"]).to_domain() == cloud


def test_a_spec_has_no_field_that_says_nothing() -> None:
    said = {"project": "my-project", "zone": "us-central1-a", "instanceGroup": "gpu"}
    assert cloud_fields(GROUP) == {"gcp": said}


def test_refusals_reach_the_pools_of_the_same_project_and_zone() -> None:
    assert GROUP.region == "us-central1"
    assert GROUP.account == "my-project"
