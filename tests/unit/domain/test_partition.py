"""Pools whose GPUs are cut into slices."""

from __future__ import annotations

import pytest

from charterer.clouds.fake import FakeGroup
from charterer.domain.pool import CapacityType, MigStrategy, Offering, Partition, no_such_slice

NODE = Offering("NVIDIA-A100-SXM4-80GB", 8, "p4de.24xlarge", "us-east-1a", "group", 4)
CUT = Partition("1g.10gb")


def test_a_node_offers_a_slice_for_each_that_its_gpus_hold() -> None:
    cut = NODE.cut(CUT)
    assert cut is not None
    assert (cut.gpu_type, cut.gpus_per_node) == ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 56)
    assert (cut.resource, cut.slices_per_gpu) == ("nvidia.com/mig-1g.10gb", 7)
    assert (cut.instance_type, cut.group_id, cut.group_size) == (NODE.instance_type, "group", 4)


def test_a_node_that_is_cut_already_stays_as_it_is() -> None:
    cut = NODE.cut(CUT)
    assert cut is not None
    assert cut.cut(CUT) == cut
    assert cut.cut(Partition("3g.40gb")) is None


def test_by_the_single_strategy_slices_are_named_as_gpus() -> None:
    cut = NODE.cut(Partition("3g.40gb", MigStrategy.SINGLE))
    assert cut is not None
    assert (cut.resource, cut.gpus_per_node) == ("nvidia.com/gpu", 16)


@pytest.mark.parametrize(
    ("gpu_type", "message"),
    [
        (
            "NVIDIA-A100-SXM4-40GB",
            "spec.partition.profile is 1g.6gb, and a NVIDIA-A100-SXM4-40GB is cut into slices of 1g.5gb, 1g.10gb, "
            "2g.10gb, 3g.20gb only",
        ),
        ("Tesla-T4", "spec.partition.profile is 1g.6gb, and a Tesla-T4 is not known to be cut into slices"),
    ],
)
def test_a_profile_that_the_type_does_not_have_is_named_with_those_that_it_has(gpu_type: str, message: str) -> None:
    assert Offering(gpu_type, 8, "m", "z").cut(Partition("1g.6gb")) is None
    assert no_such_slice(gpu_type, "1g.6gb") == message


def test_quotas_and_stocks_count_whole_gpus() -> None:
    cut = NODE.cut(CUT)
    assert cut is not None
    group = FakeGroup("http://cloud", "g")
    assert group.quota_units(cut) == group.quota_units(NODE) == 8
    assert group.ways(cut, CapacityType.ON_DEMAND) == group.ways(NODE, CapacityType.ON_DEMAND)
