"""Common parts of all models: naming, field types that hold domain values, CEL rules, conditions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, NamedTuple, Self, TypeVar, get_args, get_origin

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
from pydantic.fields import FieldInfo

from charterer.api.names import ConditionType
from charterer.domain.money import MAYBE_THOUSANDS, MOST_HOURLY_DOLLARS, Money, Price
from charterer.domain.time import Instant, format_instant, moment, parse_instant

# Labels of objects: their keys, their values, and maps of both.


_NAME = "[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_KEY = rf"^([a-z0-9]([a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_NAME}$"
_VALUE = f"^({_NAME})?$"


def label_key(key: str) -> str:
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
    """Whether this is a valid label."""
    return re.fullmatch(_KEY, key) is not None and re.fullmatch(_VALUE, value) is not None


def _label_map(labels: dict[str, str]) -> dict[str, str]:
    return {label_key(key): _label_value(value) for key, value in labels.items()}


LabelKey = Annotated[str, AfterValidator(label_key), Field(max_length=317, json_schema_extra={"pattern": _KEY})]
"""The key of a label, with or without a prefix."""
LabelValue = Annotated[str, AfterValidator(_label_value), Field(max_length=63, json_schema_extra={"pattern": _VALUE})]
"""The value of a label; it may be empty."""
_LabelValues = dict[str, Annotated[str, Field(max_length=63, json_schema_extra={"pattern": _VALUE})]]
Labels = Annotated[_LabelValues, Field(max_length=32), AfterValidator(_label_map)]
"""Labels with their values."""
SomeLabels = Annotated[_LabelValues, Field(min_length=1, max_length=32), AfterValidator(_label_map)]
"""Labels with their values, at least one."""


# The stored size of a value in bytes, and texts cut to a number of bytes.
#
# The API server stores JSON as Go encodes it: control characters, ``<``, ``>``, ``&`` and the Unicode separators of
# lines and paragraphs take six bytes each, other characters their UTF-8. etcd refuses objects above 1.5 MiB.


LARGEST_OBJECT_BYTES: Final = 1_000_000
"""Maximum bytes of an object with all that Charterer may write into it.

Other writers may add to an object without a new generation, above all annotations. The difference to etcd's limit is
for these.
"""

_ESCAPED: Final = re.compile(r"[<>&\u2028\u2029\x00-\x1f\x7f]")
_ESCAPE_BYTES: Final = 6
_ELLIPSIS: Final = "…"


def stored_bytes(value: Any) -> int:
    """Upper bound of the stored bytes of a JSON value. Raises RecursionError if it is nested too deeply."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode(errors="surrogatepass")) + (_ESCAPE_BYTES - 1) * len(_ESCAPED.findall(text))


def cut(text: str, most_bytes: int) -> str:
    """The text, or its longest beginning that fits into ``most_bytes`` with an ellipsis at its end."""
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
    """The text, or its longest end that fits into ``most_bytes`` with an ellipsis at its beginning."""
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
"""A JSON object as the API server sends or accepts it."""


class ApiModel(BaseModel):
    """Fields are camelCase in JSON and described by the docstrings below them; unknown fields are ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )


# Conversion between models and domain values.
#
# A field of a model and the field of the same name of a domain value are copied to each other. A model declares only
# the exceptions: another name (``Named``) or the value that stands for absence (``Absent``) at the field, and in
# ``APART`` the fields that are not copied.


_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class Named:
    """Metadata of a field: its name in the domain value."""

    name: str


@dataclass(frozen=True, slots=True)
class Absent:
    """Metadata of an optional field: the domain value for None."""

    value: object


class PartOf(ApiModel, Generic[_V]):
    """A model that holds fields of ``_V``, or of several types of domain values.

    A field that is a model, or a tuple of models, is converted by its methods ``to_domain`` and ``from_domain``.
    """

    APART: ClassVar[frozenset[str]] = frozenset()
    """Fields of the model or of the values that are not copied.

    A method computes such a field, the value lacks it, or the field is not stored.
    """

    @classmethod
    def copy_of(cls, *values: _V, **apart: object) -> Self:
        """The model with fields from the values and from ``apart``."""
        copied: dict[str, object] = {}
        for value in values:
            kind: Any = type(value)
            copied.update(plan_of(cls, kind).written(value, apart))
        copied.update(apart)
        return cls(**copied)


class Mirror(PartOf[_V], Generic[_V]):
    """A model that holds one domain value."""

    @classmethod
    def from_domain(cls, value: _V) -> Self:
        """The model of a domain value."""
        kind: Any = type(value)
        return cls(**plan_of(cls, kind).written(value, ()))

    def to_domain(self) -> _V:
        """The domain value of the model."""
        kind, plan = _own_plan(type(self))
        value: _V = kind(**(vars(self) if plan.plain else plan.read(self, ())))
        return value


def joined(kind: Callable[..., _V], *parts: object, **apart: object) -> _V:
    """A domain value of type ``kind`` from the fields that it shares with the parts, and from ``apart``.

    Parts are models and metadata of objects. If two parts share a field, the later part counts.
    """
    copied: dict[str, object] = {}
    for part in parts:
        source: Any = type(part)
        copied.update(plan_of(source, kind).read(part, apart))
    copied.update(apart)
    return kind(**copied)


_Convert = Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


class Link(NamedTuple):
    """A field ``here`` of a model, and the corresponding field ``there`` of a domain value.

    ``read`` converts to the domain value, ``write`` to the model. None in the model stands for ``absent``.
    """

    here: str
    there: str
    read: _Convert = _same
    write: _Convert = _same
    absent: object = None

    @property
    def converted(self) -> bool:
        """Whether some values differ between the two sides."""
        return self.read is not _same or self.write is not _same or self.absent is not None


class CopyPlan(NamedTuple):
    """The fields that a model, or another object with fields, shares with domain values of one type.

    ``converted``: the links whose values are converted rather than copied. ``whole``: the object is a model without
    other fields, and values have all of its fields under the same names. ``plain``: also none of them is converted.
    ``get_here`` returns the values of the fields ``here`` of the object, ``get_there`` those of ``there`` of a domain
    value.
    """

    here: tuple[str, ...]
    there: tuple[str, ...]
    converted: tuple[Link, ...]
    whole: bool
    plain: bool
    get_here: Callable[[Any], Iterable[Any]]
    get_there: Callable[[Any], Iterable[Any]]

    def read(self, part: object, apart: Container[str]) -> dict[str, Any]:
        """The shared fields of the object as in a domain value; those in ``apart`` are not converted."""
        copied = vars(part).copy() if self.whole else dict(zip(self.there, self.get_here(part), strict=False))
        for _, there, read, _, absent in self.converted:
            if there not in apart:
                found = copied[there]
                copied[there] = absent if found is None else read(found)
        return copied

    def written(self, value: object, apart: Container[str]) -> dict[str, Any]:
        """The shared fields of a domain value as in the model; those in ``apart`` are not converted."""
        copied = dict(zip(self.here, self.get_there(value), strict=False))
        for here, _, _, write, absent in self.converted:
            if here not in apart:
                found = copied[here]
                copied[here] = None if found is None or (absent is not None and found == absent) else write(found)
        return copied


@cache
def plan_of(source: Hashable, kind: Hashable) -> CopyPlan:
    """The plan for a model, or another class with fields, and a type of domain values."""
    names = field_names(kind)
    whole = False
    if isinstance(source, type) and issubclass(source, PartOf):
        own = [_link(name, field) for name, field in source.model_fields.items() if name not in source.APART]
        links = [link for link in own if link.there in names]
        whole = [link.there for link in links] == list(source.model_fields)
    else:
        links = [Link(name, name) for name in field_names(source) if name in names]
    here, there = tuple([link.here for link in links]), tuple([link.there for link in links])
    converted = tuple([link for link in links if link.converted])
    return CopyPlan(here, there, converted, whole, whole and not converted, _getter(here), _getter(there))


@cache
def _own_plan(mirror: type[Mirror[Any]]) -> tuple[Any, CopyPlan]:
    """The type of domain values that a model holds, and the plan for it."""
    kind = kind_of(mirror)
    return kind, plan_of(mirror, kind)


def _getter(names: Sequence[str]) -> Callable[[Any], Iterable[Any]]:
    """A function that returns the values of these attributes of an object."""
    return attrgetter(*names) if len(names) > 1 else lambda value: [getattr(value, name) for name in names]


@cache
def kind_of(model: type[PartOf[Any]]) -> Any:
    """The type of domain values, or the union of types, whose fields a model holds."""
    of_bases = [base.__pydantic_generic_metadata__["args"] for base in model.__mro__ if issubclass(base, PartOf)]
    return next(args[0] for args in of_bases if args and not isinstance(args[0], TypeVar))


def field_names(kind: Any) -> tuple[str, ...]:
    """The names of the fields of a dataclass or a named tuple."""
    return kind._fields if issubclass(kind, tuple) else tuple([each.name for each in fields(kind)])


def _link(name: str, field: FieldInfo) -> Link:
    there = next((each.name for each in field.metadata if isinstance(each, Named)), name)
    absent = next((each.value for each in field.metadata if isinstance(each, Absent)), None)
    return Link(name, there, *_conversions(field.annotation), absent)


def _conversions(annotation: Any) -> tuple[_Convert, _Convert]:
    """The conversions to and from the domain, for values other than None."""
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        return getattr(annotation, "to_domain", _same), getattr(annotation, "from_domain", _same)
    choices = [each for each in get_args(annotation) if each not in (NoneType, Ellipsis)]
    if len(choices) != 1:
        return _same, _same
    read, write = _conversions(choices[0])
    return (_each(read), _each(write)) if get_origin(annotation) is tuple else (read, write)


def _each(convert: _Convert) -> _Convert:
    return convert if convert is _same else lambda values: tuple([convert(value) for value in values])


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule of the API server. ``field_path`` is the field that the error names."""

    rule: str
    message: str
    field_path: str = ""

    def schema(self) -> Json:
        """The entry of ``x-kubernetes-validations``."""
        entry: Json = {"rule": self.rule, "message": self.message}
        return entry | {"fieldPath": self.field_path} if self.field_path else entry


def rules(*of: Rule) -> Json:
    """Schema extras with CEL rules."""
    return {"x-kubernetes-validations": [rule.schema() for rule in of]}


def ruled(*of: Rule) -> ConfigDict:
    """The model configuration that adds CEL rules to the object."""
    return ConfigDict(json_schema_extra=rules(*of))


def keyed_by(*keys: str) -> Json:
    """Schema extras of a list that is a map by these fields of its items."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


ATOMIC: Final[Json] = {"x-kubernetes-list-type": "atomic"}
IMMUTABLE: Final = "self == oldSelf"


_T = TypeVar("_T")


def _reads(kind: type[_T], parse: Callable[[str], _T], rounded: Callable[[_T], _T] | None = None) -> Any:
    """The validator of a field of type ``kind``, a string in JSON. ``rounded`` is applied to a value set by code."""

    def read(value: object) -> _T:
        if isinstance(value, kind):
            return value if rounded is None else rounded(value)
        if isinstance(value, str):
            return parse(value)
        raise ValueError(f"{value!r} is not a string: put it in quotes")

    return PlainValidator(read)


_MOST_DOLLARS: Final = 10**9


def _at_most(dollars: int, parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """A parser of amounts that users give. The parser accepts amounts from 0 to below a maximum in dollars."""

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
    """The instant. Raises ValueError if it cannot be written as a timestamp."""
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


def _written(what: str, digits: int, limit: str, *others: Rule) -> Json:
    """The schema of a decimal number that users write. Rules replace a pattern, because their messages are sentences.

    The schema accepts a whole number without quotes, so that the rule refuses it with a sentence. For a wrong JSON type
    the API server would name only the type.
    """
    rule = f"type(self) == string && self.matches('^[0-9]{{1,{digits}}}([.][0-9]{{1,6}})?$')"
    message = f'write {what} from 0 to less than {limit} as digits in quotes, such as "60000" or "12.80"'
    return {"x-kubernetes-int-or-string": True, "maxLength": digits + 7, **rules(Rule(rule, message), *others)}


def _no_thousands(example: str) -> Rule:
    rule = f"type(self) != string || !self.matches('^{MAYBE_THOUSANDS.pattern}$')"
    return Rule(rule, f"three digits after the point may be meant as thousands: write {example}")


MAX_COST_ABOVE_ZERO: Final = Rule(
    "!has(self.maxCost) || type(self.maxCost) != string || !isQuantity(self.maxCost) || "
    "quantity(self.maxCost).compareTo(quantity('0')) > 0",
    "maxCost must be more than 0: a job that may cost nothing can never run",
    ".maxCost",
)
"""A rule for the object with the maxCost of a job, or of jobs by default."""


Amount = Annotated[Money, _reads(Money, Money.parse), PlainSerializer(Money.decimal), WithJsonSchema(_AMOUNT)]
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
"""As ``Amount``, rounded to the cent, so that a view is written less often."""

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
    WithJsonSchema(_written("dollars", 9, "a billion", _no_thousands('"60000", or "60.00" for sixty dollars'))),
]
"""Dollars that a user gives, below a billion, so that sums of many stay within an ``Amount``."""

_GPU_HOURS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")
_MICROS_OF_MICRO_HOUR: Final = 3_600


def _gpu_hours(text: str) -> int:
    """GPU-microseconds of GPU-hours that a user wrote."""
    if MAYBE_THOUSANDS.fullmatch(text):
        raise ValueError(f"{text!r} may be meant as thousands: write {text.replace('.', '')!r}, or {f'{text}0'!r}")
    if _GPU_HOURS.fullmatch(text) is None:
        raise ValueError(f'{text!r} is no number of GPU-hours from 0 to less than a billion: write digits, like "2000"')
    return Money.parse(text).micros * _MICROS_OF_MICRO_HOUR


SpecGpuHours = Annotated[
    int,
    _reads(int, _gpu_hours),
    PlainSerializer(lambda micros: Money(micros // _MICROS_OF_MICRO_HOUR).written()),
    WithJsonSchema(_written("GPU-hours", 9, "a billion", _no_thousands('"2000", or "2.00" for two hours'))),
]
"""GPU-hours that a user gives, as a decimal string; GPU-microseconds in code."""


def _tenths(micros: int) -> str:
    tenths = (micros + _MICROS_OF_TENTH // 2) // _MICROS_OF_TENTH
    return f"{tenths // 10}.{tenths % 10}"


_MICROS_OF_TENTH: Final = 360_000_000

ShownGpuHours = Annotated[
    int,
    _reads(int, lambda text: round(float(text) * 10) * _MICROS_OF_TENTH),
    PlainSerializer(_tenths),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]{1,12}\.[0-9]$", "maxLength": 14}),
]
"""GPU-hours as a decimal string, rounded to a tenth, so that a view is written less often; GPU-microseconds in code."""

SpecHourly = Annotated[
    Price,
    _reads(Price, _at_most(MOST_HOURLY_DOLLARS, Price.parse)),
    PlainSerializer(Price.decimal),
    WithJsonSchema(_written("dollars", 6, "a million")),
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
"""As ``Hourly``, rounded up to the cent, so that a small value is never shown as zero."""

_TIME: Final[Json] = {"type": "string", "format": "date-time"}

Time = Annotated[
    Instant,
    _reads(int, parse_instant, _writable),
    PlainSerializer(format_instant),
    WithJsonSchema(_TIME),
]
"""RFC 3339 with microseconds."""

Minute = Annotated[
    Instant,
    _reads(int, parse_instant, _up_to_minute),
    PlainSerializer(_whole_minute),
    WithJsonSchema(_TIME),
]
"""RFC 3339, rounded up to the minute, so that a view is written less often and a person can read it."""

ObjectName = Annotated[str, Field(min_length=1, max_length=253)]

MESSAGE_LIMIT: Final = 4096
"""The longest message in stored bytes: a page."""


def shortened_to(most_bytes: int) -> Callable[[object], object]:
    """A validator that cuts a text to ``most_bytes``."""
    return lambda text: cut(text, most_bytes) if isinstance(text, str) else text


Message = Annotated[str, Field(max_length=MESSAGE_LIMIT), BeforeValidator(shortened_to(MESSAGE_LIMIT))]
"""A sentence for a person; longer ones are cut."""

_REASON: Final = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_REASON_LIMIT: Final = 128
_is_reason: Final = re.compile(_REASON).fullmatch


def _one_word(reason: object) -> object:
    if isinstance(reason, str) and (len(reason) > _REASON_LIMIT or _is_reason(reason) is None):
        return "Unspecified"
    return reason


ConditionReason = Annotated[str, Field(pattern=_REASON, max_length=_REASON_LIMIT), BeforeValidator(_one_word)]
"""A CamelCase word. Anything else becomes ``Unspecified``, because an edited status must not stop all views."""


BOTTLENECKS: Final = frozenset(
    {
        ConditionType.SLOW_WORKER,
        ConditionType.SLOW_NODE,
        ConditionType.INPUT_STARVED,
        ConditionType.SYNC_BOUND,
        ConditionType.CHECKPOINT_TOO_LONG,
        ConditionType.NOT_ADVANCING,
    }
)
"""The condition types of bottlenecks of a job's run. Each condition exists only while it holds."""


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

    Writing only these fields removes all others of the former view.
    """

    observed_generation: int | None = None
    state: Literal["Invalid"]
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A printer column of ``kubectl get``. ``wide`` columns show only with ``-o wide``."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """The content of one kind's CustomResourceDefinition. ``root_rules`` may read metadata.name.

    ``selectable``: paths of fields by which ``kubectl get --field-selector`` selects, at most eight.
    ``described_elsewhere``: paths of fields with the content of another kind's spec, and that kind. The reference does
    not repeat their fields.
    """

    kind: str
    plural: str
    short: str
    namespaced: bool
    description: str
    spec: type[ApiModel]
    status: type[ApiModel]
    columns: tuple[PrinterColumn, ...]
    selectable: tuple[str, ...]
    root_rules: tuple[Rule, ...] = ()
    described_elsewhere: Mapping[str, str] = field(default_factory=dict)

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.charterer.dev"


def dump(model: ApiModel) -> Json:
    """The JSON of a model without absent and default values: the fields that server-side apply sends and owns."""
    dumped: Json = model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    return dumped


def dump_json(model: ApiModel) -> str:
    """The same JSON as compact text."""
    return model.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=True)


# Structural schemas of models, as a CustomResourceDefinition requires them.


def structural(model: type[ApiModel], *, defaults: bool) -> Json:
    """The structural schema of a model: references inlined, nulls and titles removed.

    ``defaults`` False removes defaults. The API server fills in defaults. In a status they would show values that
    nobody wrote, except UNSEEN_GENERATION.
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
    """The target of a ``$ref``. Keys beside the reference (description, default) take precedence over the target's."""
    if "$ref" not in node:
        return node
    target: Json = definitions[node["$ref"].rsplit("/", 1)[1]]
    return target | {key: value for key, value in node.items() if key != "$ref"}


def _without_null(node: Json) -> Json:
    """``X | None`` as X, with the field's description: Kubernetes omits absent fields rather than allowing null."""
    if "anyOf" not in node:
        return node
    kept: Json
    (kept,) = [choice for choice in node["anyOf"] if choice.get("type") != "null"]
    return kept | {key: value for key, value in node.items() if key != "anyOf"}


def partial_schema(schema: Json) -> Json:
    """The structural schema of an object whose fields may all be absent, such as one that is merged into another.

    Rules that compare several fields, or a field with its former value, are removed, because they do not hold for a
    part. Items of lists stay whole.
    """
    if "properties" not in schema:
        rules = [each for each in schema.get("x-kubernetes-validations", ()) if "oldSelf" not in each["rule"]]
        kept = {key: value for key, value in schema.items() if key not in ("x-kubernetes-validations", "default")}
        return {**kept, "x-kubernetes-validations": rules} if rules else kept
    properties = {name: partial_schema(child) for name, child in schema["properties"].items()}
    left_out = ("properties", "required", "x-kubernetes-validations", "default")
    return {**{key: value for key, value in schema.items() if key not in left_out}, "properties": properties}
