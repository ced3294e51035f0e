"""Models and the domain values whose fields they hold: names that are equal are copied, and all others are named."""

from __future__ import annotations

import collections.abc
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, make_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

import pytest

from charterer.api import models
from charterer.api.models import base
from charterer.api.models.base import Absent, ApiModel, Mirror, Named, PartOf, field_names, joined, kind_of, plan_of


def _copied_models() -> Iterator[type[PartOf[Any]]]:
    """All but statuses that are made of a record and a view: these are never copied."""
    for module in pkgutil.iter_modules(models.__path__):
        name = f"{models.__name__}.{module.name}"
        for model in vars(importlib.import_module(name)).values():
            if isinstance(model, type) and issubclass(model, PartOf) and model.__module__ == name != base.__name__:
                generic = model.__pydantic_generic_metadata__["args"]
                if not generic and (len(model.__bases__) == 1 or model.__annotations__):
                    yield model


ALL = sorted(_copied_models(), key=lambda model: model.__name__)


def _kinds(model: type[PartOf[Any]]) -> tuple[Any, ...]:
    kind = kind_of(model)
    return get_args(kind) or (kind,)


def unnamed(model: type[PartOf[Any]]) -> set[str]:
    """The fields that are not copied and not named in ``APART``: of the model, and of the value of a mirror."""
    plans = [plan_of(model, kind) for kind in _kinds(model)]
    missing = set(model.model_fields).difference(*[plan.here for plan in plans])
    whole = issubclass(model, Mirror) or len(plans) > 1
    for kind, plan in zip(_kinds(model), plans, strict=True):
        missing |= set(field_names(kind)).difference(plan.there) if whole else set()
    return missing - model.APART


def _value_type(annotation: Any) -> Any:
    """The type of the values that a field holds, as a tree that is equal for equal types."""
    if isinstance(annotation, NewType):
        return _value_type(annotation.__supertype__)
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        return _read_as(annotation)
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return _value_type(arguments[0])
    if get_origin(annotation) in (Union, UnionType):
        return frozenset([_value_type(each) for each in arguments])
    if arguments:
        origin: Any = get_origin(annotation)
        kind = Mapping if origin in (dict, collections.abc.Mapping) else origin
        return (kind, *[_value_type(each) for each in arguments])
    return annotation


def _read_as(model: type[ApiModel]) -> Any:
    """What a nested model is in the domain: its own type if nothing converts it."""
    convert = getattr(model, "to_domain", None) or getattr(model, "from_domain", None)
    if convert is None:
        return model
    told = get_type_hints(convert).get("return")
    return kind_of(model) if isinstance(told, TypeVar) and issubclass(model, PartOf) else _value_type(told)


def mistaken(model: type[PartOf[Any]]) -> dict[str, tuple[Any, Any]]:
    """The copied fields whose types differ, with both types.

    A value of which the model needs a field that there may be None is refused when it is written.
    """
    wrong: dict[str, tuple[Any, Any]] = {}
    for kind in _kinds(model):
        told = get_type_hints(kind)
        plan = plan_of(model, kind)
        for name, other in zip(plan.here, plan.there, strict=True):
            here, there = _value_type(model.model_fields[name].annotation), _value_type(told[other])
            absent = any(isinstance(each, Absent) for each in model.model_fields[name].metadata)
            options = here if isinstance(here, frozenset) else frozenset([here])
            allowed = there if isinstance(there, frozenset) else frozenset([there])
            if not options - ({NoneType} if absent else set()) <= allowed or not allowed - {NoneType} <= options:
                wrong[name] = here, there
    return wrong


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.__name__)
def test_a_field_that_is_not_copied_is_named(model: type[PartOf[Any]]) -> None:
    assert unnamed(model) == set()


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.__name__)
def test_what_is_named_as_not_copied_is_a_field(model: type[PartOf[Any]]) -> None:
    assert set(model.model_fields).union(*[field_names(kind) for kind in _kinds(model)]) >= model.APART


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.__name__)
def test_a_field_is_copied_to_one_of_the_same_type(model: type[PartOf[Any]]) -> None:
    assert mistaken(model) == {}


@dataclass(frozen=True)
class Inner:
    count: int


@dataclass(frozen=True)
class Outer:
    price: int
    note: str
    first: Inner
    others: tuple[Inner, ...] = ()
    last: Inner | None = None
    kept: int = 7


class InnerModel(Mirror[Inner]):
    count: int


class OuterModel(Mirror[Outer]):
    APART = frozenset(("kept",))

    hourly: Annotated[int, Named("price")]
    note: Annotated[str | None, Absent("")] = None
    first: InnerModel
    others: tuple[InnerModel, ...] = ()
    last: InnerModel | None = None


@pytest.mark.parametrize(
    "value", [Outer(3, "", Inner(1)), Outer(3, "why", Inner(1), (Inner(2), Inner(3)), Inner(4))], ids=("least", "all")
)
def test_names_absence_and_nested_models_come_back_as_they_were(value: Outer) -> None:
    written = OuterModel.from_domain(value)
    assert written.hourly == value.price
    assert written.note == (value.note or None)
    assert written.to_domain() == value


def test_what_a_method_gives_takes_the_place_of_what_is_copied() -> None:
    written = OuterModel.copy_of(Outer(3, "a", Inner(1), (Inner(2),)), others=(), note="b")
    assert (written.others, written.note) == ((), "b")
    assert joined(Outer, written, kept=8, note="c") == Outer(3, "c", Inner(1), kept=8)


def test_the_later_of_two_parts_counts() -> None:
    extra = make_dataclass("extra", [("note", str), ("price", int)])
    assert joined(Outer, OuterModel.from_domain(Outer(3, "a", Inner(1))), extra("b", 4)) == Outer(4, "b", Inner(1))


def test_names_that_are_swapped_are_not_mixed_up() -> None:
    class Swapped(Mirror[Outer]):
        price: Annotated[str, Named("note")]
        note: Annotated[int, Named("price")]
        first: InnerModel

    assert Swapped(price="a", note=1, first=InnerModel(count=2)).to_domain() == Outer(1, "a", Inner(2))


def test_a_field_that_only_one_of_both_has_is_found() -> None:
    class Less(Mirror[Inner]):
        pass

    class More(Mirror[Inner]):
        count: int
        extra: int = 0

    assert unnamed(Less) == {"count"}
    assert unnamed(More) == {"extra"}


def test_a_field_of_another_type_is_found() -> None:
    class Text(Mirror[Inner]):
        count: str

    class Maybe(Mirror[Inner]):
        count: int | None = None

    assert mistaken(Text).keys() == mistaken(Maybe).keys() == {"count"}
