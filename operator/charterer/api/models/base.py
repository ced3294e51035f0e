"""Shared by the models of all kinds: naming, field types that hold domain values, CEL rules, conditions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from charterer.api.names import ConditionType
from charterer.domain.money import MAYBE_THOUSANDS, MOST_HOURLY_DOLLARS, Money, Price
from charterer.domain.time import Instant, format_instant, moment, parse_instant

# Labels of objects: their keys, their values, and maps of both.


_NAME = "[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_KEY = rf"^([a-z0-9]([a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_NAME}$"
_VALUE = f"^({_NAME})?$"


def _label_key(key: str) -> str:
    if re.fullmatch(_KEY, key) is None:
        raise ValueError(
            f"{key!r} is no key of a label: write letters, digits, '-', '_' and '.', at most 63, such as gpu or "
            "example.com/gpu"
        )
    return key


def _label_value(value: str) -> str:
    if re.fullmatch(_VALUE, value) is None:
        raise ValueError(f"{value!r} is no value of a label: write letters, digits, '-', '_' and '.', at most 63")
    return value


def is_label(key: str, value: str) -> bool:
    """Whether an object may have that label."""
    return re.fullmatch(_KEY, key) is not None and re.fullmatch(_VALUE, value) is not None


def _label_map(labels: dict[str, str]) -> dict[str, str]:
    return {_label_key(key): _label_value(value) for key, value in labels.items()}


LabelKey = Annotated[str, AfterValidator(_label_key), Field(max_length=317, json_schema_extra={"pattern": _KEY})]
"""The key of a label, with or without a prefix."""
LabelValue = Annotated[str, AfterValidator(_label_value), Field(max_length=63, json_schema_extra={"pattern": _VALUE})]
"""The value of a label; it may be empty."""
Labels = Annotated[
    dict[str, Annotated[str, Field(max_length=63, json_schema_extra={"pattern": _VALUE})]],
    Field(max_length=32),
    AfterValidator(_label_map),
]
"""Labels with their values."""


# How many bytes a value takes in the API server's store, and texts cut to a number of bytes.
#
# The API server stores JSON as Go writes it: control characters, ``<``, ``>``, ``&`` and the two separators of
# lines and paragraphs take six bytes each, other characters their UTF-8. etcd refuses objects above 1.5 MiB.


LARGEST_OBJECT_BYTES: Final = 1_000_000
"""Most bytes of an object with all that Charterer may come to write into it. What others may add to an object without
a new generation, annotations above all, fits between this and what etcd takes."""

_ESCAPED: Final = re.compile(r"[<>&\u2028\u2029\x00-\x1f\x7f]")
_ESCAPE_BYTES: Final = 6
_ELLIPSIS: Final = "…"


def stored_bytes(value: Any) -> int:
    """Bytes of a JSON value as it is stored, at most. RecursionError for one that is nested too deeply."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode(errors="surrogatepass")) + (_ESCAPE_BYTES - 1) * len(_ESCAPED.findall(text))


def cut(text: str, most_bytes: int) -> str:
    """The text, or as much of its beginning as takes that many bytes with an ellipsis at its end."""
    if len(text) * _ESCAPE_BYTES <= most_bytes:
        return text
    left, kept = most_bytes, 0
    for number, character in enumerate(text, start=1):
        left -= _character_bytes(character)
        if left < 0:
            return text[:kept] + _ELLIPSIS
        if left >= len(_ELLIPSIS.encode()):
            kept = number
    return text


def tail(text: str, most_bytes: int) -> str:
    """The text, or as much of its end as takes that many bytes with an ellipsis at its beginning."""
    left = most_bytes - len(_ELLIPSIS.encode())
    for kept, character in enumerate(reversed(text)):
        left -= _character_bytes(character)
        if left < 0:
            return text if len(text) == kept else _ELLIPSIS + text[len(text) - kept :]
    return text


def _character_bytes(character: str) -> int:
    if _ESCAPED.match(character):
        return _ESCAPE_BYTES
    return 2 if character in '"\\' else len(character.encode(errors="surrogatepass"))


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

    @classmethod
    def copy_of(cls, value: object) -> Self:
        """The model with the fields of a domain value, which are its attributes of the same names."""
        return cls.model_validate(value, from_attributes=True)


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


def _reads(kind: type[_T], parse: Callable[[str], _T], rounded: Callable[[_T], _T] | None = None) -> Any:
    """The validator of a field that holds a ``kind``, ``rounded`` when it is set, and is a string in JSON."""

    def read(value: object) -> _T:
        if isinstance(value, kind):
            return value if rounded is None else rounded(value)
        if isinstance(value, str):
            return parse(value)
        raise ValueError(f"{value!r} is not a string: put it in quotes")

    return PlainValidator(read)


_MOST_DOLLARS: Final = 10**9


def _at_most(dollars: int, parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """A parser of amounts that users give. It accepts amounts from 0 to below a maximum in dollars."""

    def read(text: str) -> _T:
        parsed = parse(text)
        if text.startswith("-") or int(text.partition(".")[0]) >= dollars:
            raise ValueError(f"{text!r} is not an amount from 0 to less than {dollars:,} dollars")
        return parsed

    return read


_MICROS_PER_CENT: Final = 10_000
_MICROSECONDS_PER_MINUTE: Final = 60_000_000


_MOST_SHOWN: Final = Money(10**18 - _MICROS_PER_CENT)


def _to_cents(money: Money) -> Money:
    money = max(min(money, _MOST_SHOWN), -_MOST_SHOWN)
    return Money((money.micros + _MICROS_PER_CENT // 2) // _MICROS_PER_CENT * _MICROS_PER_CENT)


def _up_to_cents(price: Price) -> Price:
    return Price(-(-price.micros_per_hour // _MICROS_PER_CENT) * _MICROS_PER_CENT)


_YEAR_1: Final = -62_135_596_800_000_000
_YEAR_10000: Final = 253_402_300_800_000_000


def _writable(at: Instant) -> Instant:
    """The instant, if it can be written as a timestamp."""
    if not _YEAR_1 <= at < _YEAR_10000:
        raise ValueError(f"{at} microseconds since 1970 is no time between the years 1 and 9999")
    return at


def _whole_minute(at: Instant) -> str:
    return f"{moment(at):%Y-%m-%dT%H:%M:00Z}"


def _up_to_minute(at: Instant) -> Instant:
    return Instant(-(-at // _MICROSECONDS_PER_MINUTE) * _MICROSECONDS_PER_MINUTE)


_DOLLARS: Final = r"^[0-9]{1,12}(\.[0-9]{1,6})?$"
_AMOUNT: Final[Json] = {"type": "string", "pattern": _DOLLARS, "maxLength": 19}
_SIGNED_AMOUNT: Final[Json] = {"type": "string", "maxLength": 20}


def _written_dollars(digits: int, limit: str, *others: Rule) -> Json:
    """The schema of dollars that users write, of which rules say in words what a pattern would say in signs.

    A whole number without quotes has to get as far as the rules: of a type of JSON the API server says only its name.
    """
    rule = f"type(self) == string && self.matches('^[0-9]{{1,{digits}}}([.][0-9]{{1,6}})?$')"
    message = f'write dollars from 0 to less than {limit} as digits in quotes, such as "60000" or "12.80"'
    return {"x-kubernetes-int-or-string": True, "maxLength": digits + 7, **rules(Rule(rule, message), *others)}


_NO_THOUSANDS: Final = Rule(
    f"type(self) != string || !self.matches('^{MAYBE_THOUSANDS.pattern}$')",
    'three digits after the point may be meant as thousands: write "60000", or "60.00" for sixty dollars',
)


Amount = Annotated[
    Money,
    _reads(Money, Money.parse),
    PlainSerializer(Money.decimal),
    WithJsonSchema(_AMOUNT),
]
"""Dollars as a decimal string, not negative."""

SignedAmount = Annotated[
    Money,
    _reads(Money, Money.parse),
    PlainSerializer(Money.decimal),
    WithJsonSchema(_SIGNED_AMOUNT),
]
"""Dollars as a decimal string, possibly negative."""

Cents = Annotated[
    Money,
    _reads(Money, Money.parse, _to_cents),
    PlainSerializer(Money.decimal),
    WithJsonSchema(_AMOUNT),
]
"""As ``Amount``, rounded to the cent: a view is then written less often."""

SignedCents = Annotated[
    Money,
    _reads(Money, Money.parse, _to_cents),
    PlainSerializer(Money.decimal),
    WithJsonSchema(_SIGNED_AMOUNT),
]
"""As ``SignedAmount``, rounded to the cent."""

SpecAmount = Annotated[
    Money,
    _reads(Money, _at_most(_MOST_DOLLARS, Money.given)),
    PlainSerializer(Money.written),
    WithJsonSchema(_written_dollars(9, "a billion", _NO_THOUSANDS)),
]
"""Dollars that a user gives, below a billion: sums of many stay within what an ``Amount`` can be."""

SpecHourly = Annotated[
    Price,
    _reads(Price, _at_most(MOST_HOURLY_DOLLARS, Price.parse)),
    PlainSerializer(Price.decimal),
    WithJsonSchema(_written_dollars(6, "a million")),
]
"""Dollars an hour that a user gives, below a million."""

NodeHourly = Annotated[
    Price,
    _reads(Price, _at_most(10 * MOST_HOURLY_DOLLARS, Price.parse)),
    PlainSerializer(Price.decimal),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]{1,7}(\.[0-9]{1,6})?$", "maxLength": 14}),
]
"""Dollars an hour of a node, below ten million, so that the sum over nodes stays within an ``Hourly``."""

Hourly = Annotated[
    Price,
    _reads(Price, Price.parse),
    PlainSerializer(Price.decimal),
    WithJsonSchema(_AMOUNT),
]
"""Dollars an hour as a decimal string."""

HourlyCents = Annotated[
    Price,
    _reads(Price, Price.parse, _up_to_cents),
    PlainSerializer(Price.decimal),
    WithJsonSchema(_AMOUNT),
]
"""As ``Hourly``, rounded up to the cent, so that what is worth anything is never shown as nothing."""

_TIME: Final[Json] = {"type": "string", "format": "date-time"}

Time = Annotated[
    Instant,
    _reads(int, parse_instant, _writable),
    PlainSerializer(format_instant),
    WithJsonSchema(_TIME),
]
"""RFC 3339, microseconds."""

Minute = Annotated[
    Instant,
    _reads(int, parse_instant, _up_to_minute),
    PlainSerializer(_whole_minute),
    WithJsonSchema(_TIME),
]
"""RFC 3339, rounded up to the minute: a view is then written less often, and a person can read it."""

ObjectName = Annotated[str, Field(min_length=1, max_length=253)]

MESSAGE_LIMIT: Final = 4096
"""Longest message in bytes as they are stored: a page."""


def _shortened(message: object) -> object:
    return cut(message, MESSAGE_LIMIT) if isinstance(message, str) else message


Message = Annotated[str, Field(max_length=MESSAGE_LIMIT), BeforeValidator(_shortened)]
"""A sentence for a person; longer ones are cut."""

_REASON: Final = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_REASON_LIMIT: Final = 128
_is_reason: Final = re.compile(_REASON).fullmatch


def _one_word(reason: object) -> object:
    if isinstance(reason, str) and (len(reason) > _REASON_LIMIT or _is_reason(reason) is None):
        return "Unspecified"
    return reason


ConditionReason = Annotated[str, Field(pattern=_REASON, max_length=_REASON_LIMIT), BeforeValidator(_one_word)]
"""A CamelCase word. Anything else becomes ``Unspecified``: a status somebody edited must not stop all views."""


BOTTLENECKS: Final = frozenset(
    {
        ConditionType.SLOW_WORKER,
        ConditionType.SLOW_NODE,
        ConditionType.INPUT_STARVED,
        ConditionType.SYNC_BOUND,
        ConditionType.CHECKPOINT_TOO_LONG,
        ConditionType.STALLED,
    }
)
"""What holds a job's run up. Each is there only while it does."""


class ConditionStatus(StrEnum):
    """Whether what a condition observes holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One observation about the object, as in every Kubernetes API."""

    type: Annotated[str, Field(max_length=64)]
    """The observed aspect of the object."""
    status: ConditionStatus
    """Whether it holds: True, False or Unknown."""
    reason: ConditionReason
    """The reason for the status, as one CamelCase word."""
    message: Message
    """The reason for the status, as a sentence with numbers."""
    last_transition_time: Time
    """When the status last changed."""
    observed_generation: int | None = None
    """The metadata.generation that was observed."""


Conditions = Annotated[tuple[Condition, ...], Field(json_schema_extra=keyed_by("type"), max_length=32)]


class InvalidObjectView(ApiModel):
    """The view of an object of any kind that cannot be decoded: its conditions say why.

    Whatever else the view showed before is removed by writing only this.
    """

    observed_generation: int | None = None
    state: Literal["Invalid"]
    conditions: Conditions


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
    """All that a CustomResourceDefinition needs to know of one kind; ``root_rules`` may look at metadata.name.

    ``described_elsewhere``: paths of fields that hold what another kind's spec holds, which the reference does not
    repeat, and that kind.
    """

    kind: str
    plural: str
    short: str
    namespaced: bool
    description: str
    spec: type[ApiModel]
    status: type[ApiModel]
    columns: tuple[PrinterColumn, ...]
    root_rules: tuple[Rule, ...] = ()
    described_elsewhere: Mapping[str, str] = field(default_factory=dict)

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.charterer.dev"


def dump(model: ApiModel) -> Json:
    """The JSON of a model without what is absent or default: what server-side apply sends and so owns."""
    dumped: Json = model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    return dumped


def dump_json(model: ApiModel) -> str:
    """The same as compact JSON text."""
    return model.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=True)


# Structural schemas of models, as the API server wants them in a CustomResourceDefinition.


def structural(model: type[ApiModel], *, defaults: bool) -> Json:
    """The structural schema of a model: references inlined, nulls and titles gone; ``defaults`` False drops those too.

    The API server fills defaults in; in a status they would show values that nobody wrote.
    """
    schema: Json = model.model_json_schema(by_alias=True, mode="validation")
    return _structural(schema, schema.get("$defs", {}), defaults)


def _structural(node: Json, definitions: Json, defaults: bool) -> Json:
    node = _without_null(_inlined(node, definitions))
    node = _inlined(node, definitions)
    result: Json = {}
    for key, value in node.items():
        match key:
            case "title" | "$defs":
                continue
            case "default" if value is None or not defaults or value in ([], {}):
                continue
            case "additionalProperties" if isinstance(value, bool):
                continue
            case "const":
                result["enum"] = [value]
            case "description":
                result[key] = " ".join(value.split())
            case "exclusiveMinimum" if not isinstance(value, bool):
                result |= {"minimum": value, "exclusiveMinimum": True}
            case "properties":
                result[key] = {name: _structural(child, definitions, defaults) for name, child in value.items()}
            case "items" | "additionalProperties":
                result[key] = _structural(value, definitions, defaults)
            case _:
                result[key] = value
    return result


def _inlined(node: Json, definitions: Json) -> Json:
    """The target of a ``$ref``; what stands beside the reference (description, default) takes precedence over it."""
    if "$ref" not in node:
        return node
    target: Json = definitions[node["$ref"].rsplit("/", 1)[1]]
    return target | {key: value for key, value in node.items() if key != "$ref"}


def _without_null(node: Json) -> Json:
    """Kubernetes says "absent", not null: ``X | None`` is X, with the description of the field."""
    if "anyOf" not in node:
        return node
    kept: Json
    (kept,) = [choice for choice in node["anyOf"] if choice.get("type") != "null"]
    return kept | {key: value for key, value in node.items() if key != "anyOf"}


def partial_schema(schema: Json) -> Json:
    """The structural schema of an object of which any fields may be absent, such as one that is merged into another.

    Rules that compare several fields, or a field with its former value, do not hold for a part. Items of lists stay
    whole.
    """
    if "properties" not in schema:
        rules = [each for each in schema.get("x-kubernetes-validations", ()) if "oldSelf" not in each["rule"]]
        kept = {key: value for key, value in schema.items() if key not in ("x-kubernetes-validations", "default")}
        return {**kept, "x-kubernetes-validations": rules} if rules else kept
    properties = {name: partial_schema(child) for name, child in schema["properties"].items()}
    left_out = ("properties", "required", "x-kubernetes-validations", "default")
    return {**{key: value for key, value in schema.items() if key not in left_out}, "properties": properties}
