"""What the models of all kinds share: naming, field types that hold domain values, CEL rules, conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic.alias_generators import to_camel

from charterer.domain.money import Money, Price
from charterer.domain.time import Instant, format_instant, parse_instant

Json = dict[str, Any]
"""A JSON object as the API server sends or takes it."""


class ApiModel(BaseModel):
    """Fields are camelCase in JSON and described by the docstrings below them; unknown fields are ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule of the API server; ``field_path`` says which field the error should name."""

    rule: str
    message: str
    field_path: str = ""

    def schema(self) -> Json:
        """The entry of ``x-kubernetes-validations``."""
        entry: Json = {"rule": self.rule, "message": self.message}
        return entry | {"fieldPath": self.field_path} if self.field_path else entry


def rules(*of: Rule) -> Json:
    """Schema extras that carry CEL rules."""
    return {"x-kubernetes-validations": [rule.schema() for rule in of]}


def ruled(*of: Rule) -> ConfigDict:
    """The model configuration that puts CEL rules on the object."""
    return ConfigDict(json_schema_extra=rules(*of))


def keyed_by(*keys: str) -> Json:
    """Schema extras of a list that is a map by these fields of its items."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


ATOMIC: Final[Json] = {"x-kubernetes-list-type": "atomic"}
IMMUTABLE: Final = "self == oldSelf"


_T = TypeVar("_T")


def _reads(kind: type[_T], parse: Callable[[str], _T]) -> Callable[[object], _T]:
    def read(value: object) -> _T:
        if isinstance(value, kind):
            return value
        if isinstance(value, str):
            return parse(value)
        raise ValueError(f"{value!r} is not a string")

    return read


_DOLLARS: Final = r"^[0-9]{1,12}(\.[0-9]{1,6})?$"
_AMOUNT: Final[Json] = {"type": "string", "pattern": _DOLLARS, "maxLength": 19}

Amount = Annotated[
    Money,
    PlainValidator(_reads(Money, Money.parse)),
    PlainSerializer(Money.decimal),
    WithJsonSchema(_AMOUNT),
]
"""Dollars as a decimal string, not negative."""

SignedAmount = Annotated[
    Money,
    PlainValidator(_reads(Money, Money.parse)),
    PlainSerializer(Money.decimal),
    WithJsonSchema({"type": "string", "maxLength": 20}),
]
"""Dollars as a decimal string, possibly negative."""

Hourly = Annotated[
    Price,
    PlainValidator(_reads(Price, Price.parse)),
    PlainSerializer(Price.decimal),
    WithJsonSchema(_AMOUNT),
]
"""Dollars an hour as a decimal string."""

Time = Annotated[
    Instant,
    PlainValidator(_reads(int, parse_instant)),
    PlainSerializer(format_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""RFC 3339, microseconds."""

ObjectName = Annotated[str, Field(min_length=1, max_length=253)]


class Condition(ApiModel):
    """One observation about the object, as in every Kubernetes API."""

    type: Annotated[str, Field(max_length=64)]
    """What is observed."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=128)]
    """Why, in one CamelCase word."""
    message: Annotated[str, Field(max_length=4096)]
    """Why, in a sentence with the numbers in it."""
    last_transition_time: Time
    """Since when the status is what it is."""
    observed_generation: int | None = None
    """The metadata.generation this was judged by."""


Conditions = Annotated[tuple[Condition, ...], Field(json_schema_extra=keyed_by("type"), max_length=32)]


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A printer column of ``kubectl get``; ``wide`` ones show with ``-o wide`` only."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """All that a CustomResourceDefinition needs to know of one kind; ``root_rules`` may look at metadata.name."""

    kind: str
    plural: str
    short: str
    namespaced: bool
    description: str
    spec: type[ApiModel]
    status: type[ApiModel]
    columns: tuple[PrinterColumn, ...]
    root_rules: tuple[Rule, ...] = ()

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.charterer.dev"


def dump(model: ApiModel) -> Json:
    """The JSON of a model without what is absent or default: what server-side apply sends and so owns."""
    dumped: Json = model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    return dumped
