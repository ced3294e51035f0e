"""GPUPoolSet: many GPUPools in one object, one for each combination of the values of its axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from charterer.api.metadata import ObjectMeta
from charterer.api.models.base import (
    ATOMIC,
    ApiModel,
    Conditions,
    Json,
    Labels,
    PrinterColumn,
    ResourceKind,
    Rule,
    joined,
    keyed_by,
    partial_schema,
    ruled,
    structural,
)
from charterer.api.models.gpupool import GPUPoolRecord, GPUPoolSpec
from charterer.api.names import LABEL_POOL_SET
from charterer.domain.errors import InvalidObject
from charterer.domain.ids import PoolId, PoolSetId
from charterer.domain.pool_set import DeclaredPool, PoolSet
from charterer.sentences import similar_names

MOST_POOLS: Final = 64
"""Maximum combinations of a set. Each is a GPUPool with its own status, cloud requests and job options."""
_MOST_AXES: Final = 4
_LONGEST_NAME: Final = 63

_PARTIAL_SPEC: Final = partial_schema(structural(GPUPoolSpec, defaults=False))

PartialSpec = Annotated[Json, WithJsonSchema(_PARTIAL_SPEC)]
"""Any fields of a GPUPool's spec."""

_Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=40)]


class PoolMetadata(ApiModel):
    """Metadata of the GPUPools."""

    labels: Labels = Field(default_factory=dict)
    """Labels, by which budgets select pools."""


class PoolTemplate(ApiModel):
    """The common part of all GPUPools of the set."""

    metadata: PoolMetadata = Field(default_factory=PoolMetadata)
    """Metadata of all GPUPools."""
    spec: PartialSpec
    """Fields of the spec of all GPUPools: those of a GPUPool's spec, of which any may be absent here."""


class AxisValue(ApiModel):
    """One value of an axis: the fields in which its GPUPools differ from others."""

    name: _Name
    """Name of the value, which becomes a part of the names of its GPUPools."""
    metadata: PoolMetadata = Field(default_factory=PoolMetadata)
    """Metadata of the GPUPools with this value, in addition to the template's."""
    spec: PartialSpec = Field(default_factory=dict)
    """Fields of the spec of the GPUPools with this value. The fields are merged into the template's; a list replaces
    the template's list."""


class Axis(ApiModel):
    """One respect in which the GPUPools differ, such as the instance type, the zone or the capacity type."""

    name: _Name
    """Name of the axis, such as zone."""
    values: Annotated[
        tuple[AxisValue, ...], Field(min_length=1, max_length=MOST_POOLS, json_schema_extra=keyed_by("name"))
    ]
    """The values. The order of values does not matter."""


def _combinations() -> Rule:
    sizes = [f"(self.axes.size() > {number} ? self.axes[{number}].values.size() : 1)" for number in range(_MOST_AXES)]
    return Rule(
        f"{' * '.join(sizes)} <= {MOST_POOLS}",
        f"a set has at most {MOST_POOLS} combinations of values: make several sets, such as one for each GPU type",
        field_path=".axes",
    )


@dataclass(frozen=True, slots=True)
class PoolManifest:
    """Labels and spec of one GPUPool of a set. The spec is the JSON for the API server."""

    labels: Mapping[str, str]
    spec: Json


class GPUPoolSetSpec(ApiModel):
    """A GPUPool for each combination of one value of every axis."""

    model_config = ruled(
        _combinations(),
        Rule(
            "self.axes.map(axis, axis.name) == oldSelf.axes.map(axis, axis.name)",
            "the names and the order of axes cannot change, because all GPUPools would get other names and be made "
            "anew: create another GPUPoolSet",
            field_path=".axes",
        ),
    )

    template: PoolTemplate
    """The common part of all GPUPools."""
    axes: Annotated[tuple[Axis, ...], Field(min_length=1, max_length=_MOST_AXES, json_schema_extra=keyed_by("name"))]
    """The respects in which the GPUPools differ. There is one GPUPool for each combination of one value of every axis,
    named SET-VALUE-VALUE..., with the values in the order of the axes."""
    exclude: Annotated[
        tuple[Annotated[dict[str, _Name], Field(min_length=1, max_length=_MOST_AXES)], ...],
        Field(max_length=MOST_POOLS, json_schema_extra=ATOMIC),
    ] = ()
    """Combinations that there is no GPUPool for, as names of values by names of axes, such as {type: p5, zone: b}. An
    axis that is not named stands for all its values."""

    def manifests(self, name: str) -> Mapping[PoolId, PoolManifest]:
        """The GPUPools of a set of this name. Raises ValueError, which names the wrong field and the remedy."""
        for number, excluded in enumerate(self.exclude):
            self._check_names(f"spec.exclude[{number}]", excluded)
        made: dict[PoolId, PoolManifest] = {}
        for values in product(*(axis.values for axis in self.axes)):
            chosen = {axis.name: value.name for axis, value in zip(self.axes, values, strict=True)}
            if any(excluded.items() <= chosen.items() for excluded in self.exclude):
                continue
            pool = PoolId("-".join([name, *chosen.values()]))
            if pool in made:
                raise ValueError(f"two combinations make the name {pool}, {_in_words(chosen)} for one: rename a value")
            if len(pool) > _LONGEST_NAME:
                raise ValueError(
                    f"the name {pool} of {_in_words(chosen)} has {len(pool)} characters, and a GPUPool's at most "
                    f"{_LONGEST_NAME}: shorten the names of values, or of the set"
                )
            made[pool] = self._manifest(name, values)
        if not made:
            raise ValueError("spec.exclude leaves no combination: delete the GPUPoolSet if there is to be none")
        return made

    def _check_names(self, field: str, excluded: Mapping[str, str]) -> None:
        axes = {axis.name: [value.name for value in axis.values] for axis in self.axes}
        for axis, value in excluded.items():
            if axis not in axes:
                raise ValueError(f"{field} names an axis {axis!r}: {similar_names(axis, axes)}")
            if value not in axes[axis]:
                raise ValueError(f"{field} names a value {value!r} of axis {axis}: {similar_names(value, axes[axis])}")

    def _manifest(self, name: str, values: Sequence[AxisValue]) -> PoolManifest:
        """Unite the fields of all axes, then merge them into the template: the order of the axes does not matter."""
        spec: Json = {}
        labels: Json = {}
        for axis, value in zip(self.axes, values, strict=True):
            where = f"axis {axis.name}, value {value.name}"
            spec = _united(spec, value.spec, where, "spec")
            labels = _united(labels, value.metadata.labels, where, "metadata.labels")
        template = self.template
        return PoolManifest({**template.metadata.labels, **labels, LABEL_POOL_SET: name}, _merged(template.spec, spec))

    def to_domain(self, meta: ObjectMeta) -> PoolSet:
        """The set with its pools. Raises InvalidObject, which names the first invalid GPUPool and the field."""
        try:
            manifests = self.manifests(meta.name)
        except ValueError as error:
            raise meta.invalid("spec", "InvalidSpec", str(error)) from error
        pools = {pool: _declared(pool, manifest, meta) for pool, manifest in manifests.items()}
        return joined(PoolSet, meta, id=PoolSetId(meta.name), pools=pools)


def _declared(pool: PoolId, manifest: PoolManifest, of: ObjectMeta) -> DeclaredPool:
    meta = ObjectMeta(
        kind="GPUPool",
        namespace="",
        name=pool,
        uid="",
        resource_version="",
        generation=0,
        created=of.created,
        deleting=False,
        deleted=None,
        labels=manifest.labels,
        annotations={},
        finalizers=(),
        controller=None,
    )
    try:
        spec = meta.read(GPUPoolSpec, "spec", {"spec": manifest.spec})
        return DeclaredPool.of(spec.to_domain(meta, GPUPoolRecord()))
    except InvalidObject as error:
        problem = error.problem
        raise of.invalid("spec", problem.reason, f"GPUPool {pool}: {problem.field}: {problem.message}") from error


def _in_words(chosen: Mapping[str, str]) -> str:
    return ", ".join(f"{axis} {value}" for axis, value in chosen.items())


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Json:
    """Merge objects field by field. For any other value, the one in ``over`` counts."""
    result = dict(base)
    for key, value in over.items():
        under = result.get(key)
        both = isinstance(under, Mapping) and isinstance(value, Mapping)
        result[key] = _merged(under, value) if both else value  # type: ignore[arg-type]
    return result


def _united(one: Mapping[str, Any], other: Mapping[str, Any], where: str, path: str) -> Json:
    """Merge as ``_merged`` does. Raises ValueError if the two have different values of one field."""
    result = dict(one)
    for key, value in other.items():
        field = f"{path}.{key}"
        if key not in result:
            result[key] = value
        elif isinstance(result[key], Mapping) and isinstance(value, Mapping):
            result[key] = _united(result[key], value, where, field)
        elif result[key] != value:
            raise ValueError(
                f"{where} sets {field} to {value!r}, and an axis before it to {result[key]!r}: let one axis set it"
            )
    return result


class PoolSetState(StrEnum):
    """The state of a GPUPoolSet."""

    READY = "Ready"
    CHANGING = "Changing"
    INCOMPLETE = "Incomplete"
    INVALID = "Invalid"
    DELETING = "Deleting"


class GPUPoolSetStatus(ApiModel):
    """The set's present state, for people."""

    observed_generation: int | None = None
    """The metadata.generation that the view describes."""
    state: PoolSetState | None = None
    """Ready (all GPUPools are as declared), Changing (some are being created, changed or deleted), Incomplete (some are
    not as declared, and a person has to act), Invalid or Deleting."""
    pools: int | None = None
    """Number of GPUPools that the set declares."""
    ready_pools: int | None = None
    """Number of its GPUPools from which nodes can be rented, or that have all their nodes."""
    nodes: int | None = None
    """Number of nodes rented in its GPUPools."""
    conditions: Conditions = ()
    """Ready: whether all GPUPools are as the set declares them; if not, which are not, and why. Stalled while the
    object cannot be read."""


GPU_POOL_SET = ResourceKind(
    kind="GPUPoolSet",
    plural="gpupoolsets",
    short="gpset",
    namespaced=False,
    description="Many GPUPools in one object: one for each combination of instance type, zone and so on.",
    spec=GPUPoolSetSpec,
    status=GPUPoolSetStatus,
    columns=(
        PrinterColumn("Pools", ".status.pools", "integer", description="GPUPools declared"),
        PrinterColumn("Ready", ".status.readyPools", "integer", description="GPUPools from which nodes can be rented"),
        PrinterColumn("Nodes", ".status.nodes", "integer", description="Nodes rented"),
        PrinterColumn("State", ".status.state"),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    ),
    selectable=(".status.state",),
    root_rules=(
        Rule(
            "size(self.metadata.name) <= 61", "metadata.name must have at most 61 characters: GPUPools get longer ones"
        ),
    ),
    described_elsewhere={"spec.template.spec": "GPUPool", "spec.axes[].values[].spec": "GPUPool"},
)
