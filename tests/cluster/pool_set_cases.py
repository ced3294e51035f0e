"""For every CEL rule of GPUPoolSets an object that it accepts and one that it refuses, and what else is refused."""

from __future__ import annotations

from typing import Any

from tests.cluster.crd_cases import Case, Json, dollars, make


def _template(**spec: Any) -> Json:
    return make("GPUPoolSet", template={"spec": spec})


def _axes(*sizes: int) -> Json:
    """A set with axes of so many values."""
    values = [[{"name": f"v{number}"} for number in range(size)] for size in sizes]
    axes = [{"name": f"axis-{at}", "values": named} for at, named in enumerate(values)]
    return make("GPUPoolSet", "rule-axes", axes=axes)


POOL_SET_CASES: tuple[Case, ...] = (
    Case(
        "GPUPoolSet",
        "metadata.name must have at most 61 characters: GPUPools get longer ones",
        make("GPUPoolSet", "s" * 61),
        make("GPUPoolSet", "s" * 62),
    ),
    Case(
        "GPUPoolSet",
        "a set has at most 64 combinations of values: make several sets, such as one for each GPU type",
        _axes(2, 4, 8, 1),
        _axes(3, 5, 5),
    ),
    Case(
        "GPUPoolSet",
        "the names and the order of axes cannot change, because all GPUPools would get other names and be made anew: "
        "create another GPUPoolSet",
        _axes(3, 1),
        _axes(1, 1, 1),
        before=_axes(1, 2),
    ),
    Case(
        "GPUPoolSet",
        dollars("a million"),
        _template(price={"hourly": "12.80"}),
        _template(price={"hourly": "1000000"}),
    ),
    Case(
        "GPUPoolSet",
        'write a percentage from -99.99% to +99.99% with its sign, such as "-10%"',
        _template(price={"adjustment": "+5%"}),
        _template(price={"adjustment": "5%"}),
    ),
)
POOL_SET_REFUSED: dict[str, Json] = {
    "a set without axes": make("GPUPoolSet", axes=[]),
    "two axes of one name": make("GPUPoolSet", axes=[{"name": "a", "values": [{"name": "x"}]}] * 2),
    "two values of one name": make("GPUPoolSet", axes=[{"name": "a", "values": [{"name": "x"}] * 2}]),
    "a value whose name can be in no pool's": make(
        "GPUPoolSet", axes=[{"name": "a", "values": [{"name": "p5.48xlarge"}]}]
    ),
    "a field of all pools that no pool could have": _template(maxNodes=-1),
    "a field of some pools that no pool could have": make(
        "GPUPoolSet", axes=[{"name": "a", "values": [{"name": "x", "spec": {"capacityType": "Cheap"}}]}]
    ),
    "five axes": _axes(1, 1, 1, 1, 1),
}
POOL_SET_ACCEPTED: dict[str, Json] = {
    "a set of pools without a cloud": make("GPUPoolSet", template={"spec": {"maxNodes": 1}}),
    "a set that excludes what there is not": make("GPUPoolSet", exclude=[{"zone": "a"}]),
    "a set whose values agree on a price only in part": _template(price={"hourly": "1", "adjustment": "-1%"}),
}
