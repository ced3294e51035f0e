"""GPUPoolSets: which GPUPools follow from the axes, under which names, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.api import decode
from charterer.api.models.clouds import cloud_fields
from charterer.api.models.gpupoolset import GPUPoolSetSpec
from charterer.domain.errors import InvalidObject
from charterer.domain.ids import PoolId
from charterer.domain.pool import CapacityType
from charterer.domain.pool_set import DeclaredPool, PoolSet
from tests import lanes

Json = dict[str, Any]

TEMPLATE: Json = {
    "metadata": {"labels": {"team": "research"}},
    "spec": {"fake": {"endpoint": "http://cloud"}, "maxNodes": 2},
}
GROUPS: Json = {"name": "group", "values": [{"name": name, "spec": {"fake": {"group": name}}} for name in ("a", "b")]}
CAPACITY: Json = {
    "name": "capacity",
    "values": [
        {"name": "od"},
        {"name": "spot", "metadata": {"labels": {"kind": "spot"}}, "spec": {"capacityType": "Spot"}},
    ],
}


def raw(*axes: Json, name: str = "gpu", template: Json = TEMPLATE, exclude: Sequence[Mapping[str, str]] = ()) -> Json:
    """A GPUPoolSet as the API server sends it."""
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"template": template, "axes": list(axes), "exclude": list(exclude)},
    }


def read(*axes: Json, **more: Any) -> PoolSet:
    return decode.pool_set(raw(*axes, **more))


def refusal(*axes: Json, **more: Any) -> str:
    with pytest.raises(InvalidObject) as refused:
        read(*axes, **more)
    problem = refused.value.problem
    assert (problem.kind, problem.name, problem.field) == ("GPUPoolSet", more.get("name", "gpu"), "spec")
    return problem.message


def test_there_is_a_pool_for_each_combination_named_by_its_values() -> None:
    pools = read(GROUPS, CAPACITY).pools
    assert list(pools) == ["gpu-a-od", "gpu-a-spot", "gpu-b-od", "gpu-b-spot"]
    spot = pools[PoolId("gpu-b-spot")]
    assert cloud_fields(spot.cloud) == {"fake": {"endpoint": "http://cloud", "group": "b"}}
    assert (spot.capacity_type, spot.max_nodes) == (CapacityType.SPOT, 2)
    assert spot.labels == {"team": "research", "kind": "spot", "charterer.dev/pool-set": "gpu"}


def test_a_pool_that_was_made_of_a_manifest_is_as_declared() -> None:
    of = raw(GROUPS, CAPACITY)
    declared = decode.pool_set(of).pools
    manifests = GPUPoolSetSpec.model_validate(of["spec"]).manifests("gpu")
    for name, manifest in manifests.items():
        metadata = {**of["metadata"], "name": name, "labels": manifest.labels}
        assert DeclaredPool.of(decode.pool({"metadata": metadata, "spec": manifest.spec})) == declared[name]


def test_values_are_merged_into_the_template_field_by_field_and_lists_are_replaced() -> None:
    template = {"spec": {"aws": {"region": "eu-west-1", "subnets": ["subnet-1"], "gpuType": "X"}, "maxNodes": 1}}
    value = {"name": "b", "spec": {"aws": {"subnets": ["subnet-2"]}}}
    spec = GPUPoolSetSpec.model_validate({"template": template, "axes": [{"name": "zone", "values": [value]}]})
    (manifest,) = spec.manifests("gpu").values()
    aws = {"region": "eu-west-1", "subnets": ["subnet-2"], "gpuType": "X"}
    assert manifest.spec == {"aws": aws, "maxNodes": 1}


def test_excluded_combinations_are_left_out() -> None:
    assert list(read(GROUPS, CAPACITY, exclude=[{"group": "a", "capacity": "spot"}]).pools) == [
        "gpu-a-od",
        "gpu-b-od",
        "gpu-b-spot",
    ]
    assert list(read(GROUPS, CAPACITY, exclude=[{"capacity": "spot"}]).pools) == ["gpu-a-od", "gpu-b-od"]


def test_an_exclusion_names_axes_and_values_that_there_are_and_leaves_something() -> None:
    assert refusal(GROUPS, CAPACITY, exclude=[{"capacity": "sport"}]).startswith(
        "spec.exclude[0] names a value 'sport' of axis capacity: did you mean"
    )
    assert "spec.exclude[1] names an axis 'zone'" in refusal(GROUPS, exclude=[{"group": "a"}, {"zone": "x"}])
    assert "leaves no combination" in refusal(GROUPS, exclude=[{"group": "a"}, {"group": "b"}])


def test_two_axes_may_not_say_different_things_of_one_field() -> None:
    more: Json = {"name": "size", "values": [{"name": "big", "spec": {"maxNodes": 9, "capacityType": "OnDemand"}}]}
    assert "axis size, value big sets spec.capacityType to 'OnDemand', and an axis before it to 'Spot'" in refusal(
        GROUPS, CAPACITY, more
    )
    alike = deepcopy(CAPACITY)
    alike["values"] = alike["values"][1:]
    more["values"][0]["spec"]["capacityType"] = "Spot"
    assert [pool.max_nodes for pool in read(GROUPS, alike, more).pools.values()] == [9, 9]


def test_names_that_are_too_long_or_the_same_are_refused_with_the_combination() -> None:
    said = refusal(GROUPS, CAPACITY, name="g" * 58)
    assert "group a, capacity spot has 65 characters" in said
    one = {"name": "one", "values": [{"name": "a-b"}, {"name": "a"}]}
    two = {"name": "two", "values": [{"name": "c"}, {"name": "b-c"}]}
    assert "two combinations make the name gpu-a-b-c, one a, two b-c for one" in refusal(
        one, two, template={"spec": {"fake": {"endpoint": "http://cloud", "group": "a"}, "maxNodes": 1}}
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"maxNodes": 1}, "GPUPool gpu-a: spec: set exactly one of"),
        (
            {"fake": {"endpoint": "http://cloud"}},
            "GPUPool gpu-a: spec.maxNodes: say how many nodes may be rented at a time (maxNodes)",
        ),
        ({"fake": {"endpoint": "ftp://cloud"}, "maxNodes": 1}, "GPUPool gpu-a: spec.fake.endpoint: "),
        ({"fake": {}, "aws": {"region": "us-east-1"}, "maxNodes": 1}, "GPUPool gpu-a: spec.fake.endpoint: Field"),
    ],
)
def test_what_could_be_no_pool_is_refused_with_the_pool_and_the_field(spec: Json, message: str) -> None:
    axis = deepcopy(GROUPS)
    if "fake" not in spec:
        axis["values"] = [{"name": "a"}]
    assert refusal(axis, template={"spec": spec}).startswith(message)


NAMES = st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,6}[a-z0-9])?\Z")
AXES = st.lists(st.lists(NAMES, min_size=1, max_size=4, unique=True), min_size=1, max_size=3)


@settings(max_examples=lanes.examples(100))
@given(AXES, st.randoms(use_true_random=False))
def test_names_are_valid_distinct_and_do_not_depend_on_the_order_of_values(
    values: list[list[str]], random: Random
) -> None:
    def read_in(order: list[list[str]]) -> Mapping[str, DeclaredPool] | str:
        axes = [
            {"name": f"x{at}", "values": [{"name": name, "metadata": {"labels": {f"x{at}": name}}} for name in names]}
            for at, names in enumerate(order)
        ]
        template = {"spec": {"fake": {"endpoint": "http://cloud", "group": "a"}, "maxNodes": 1}}
        try:
            return {str(name): pool for name, pool in read(*axes, template=template).pools.items()}
        except InvalidObject as error:
            return error.problem.message

    pools = read_in(values)
    reordered = read_in([random.sample(names, len(names)) for names in values])
    joined = ["-".join(["gpu", *each]) for each in product(*values)]
    if isinstance(pools, str):
        assert len(set(joined)) < len(joined)
        assert "two combinations make the name" in pools
        assert isinstance(reordered, str)
    else:
        assert reordered == pools
        assert sorted(pools) == sorted(joined)
        assert all(len(name) <= 63 for name in pools)
        for name, pool in pools.items():
            assert name == "-".join(["gpu", *(pool.labels[f"x{at}"] for at in range(len(values)))])
