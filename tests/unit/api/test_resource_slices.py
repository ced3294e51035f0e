"""What a DRA driver publishes of nodes, joined with the Nodes."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.api import decode
from tests.factory import node

WHOLE = {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA A100-SXM4-80GB"}}
PART = {"type": {"string": "mig"}, "profile": {"string": "1g.10gb"}}


def published(*devices: Any, generation: int = 1, parts: int = 1, **spec: Any) -> Any:
    raw = {
        "driver": "gpu.nvidia.com",
        "nodeName": "n-i1",
        "pool": {"name": "n-i1", "generation": generation, "resourceSliceCount": parts},
        "devices": [{"name": f"d{at}", "attributes": attributes} for at, attributes in enumerate(devices)],
        **spec,
    }
    return decode.published_gpus({"spec": raw})


def counted(*slices: Any, **of_node: Any) -> tuple[int, int]:
    """Whole GPUs and 1g.10gb slices of the Node."""
    found = decode.with_published({0: node(**of_node)}, dict(enumerate(slices)))[0]
    return found.gpus, found.count("nvidia.com/mig-1g.10gb")


def test_devices_count_by_the_extended_resources_that_stand_for_them() -> None:
    assert counted(published(WHOLE, WHOLE, PART), gpus=0) == (2, 1)


def test_what_the_node_itself_shows_counts_before_it() -> None:
    assert counted(published(WHOLE, PART, PART), gpus=4, others={"nvidia.com/mig-1g.10gb": 7}) == (4, 7)


def test_a_pool_counts_once_all_of_its_newest_generation_is_there() -> None:
    old, first = published(WHOLE), published(PART, generation=2, parts=2)
    assert counted(old, first, gpus=0) == (0, 0)
    counters = published(generation=2, parts=2, devices=None, sharedCounters=[{"name": "gpu-0"}])
    assert counted(old, first, counters, gpus=0) == (0, 1)


@pytest.mark.parametrize("other", [{"driver": "nic.example.com"}, {"nodeName": None, "allNodes": True}])
def test_other_drivers_and_devices_of_no_one_node_do_not_matter(other: Any) -> None:
    assert published(WHOLE, **other) is None
