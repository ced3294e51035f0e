"""Incremental computation: results of pure functions, cached from one turn to the next by the identity of arguments.

A snapshot is frozen, and unchanged parts are the same objects as in the previous snapshot (see ``observe``). A pure
function that gets the same objects again has the same result, so it need not be called again. A ``Memo`` caches the
results, and the cached functions do not know about the memo. A call without a memo (``directly``) has the same result
but takes longer.

A memo has six methods:
- ``__call__``: the result of one call
- ``within``: the result of a function that uses the memo itself
- ``each``: the results of a function for many things
- ``joined``: the results of a function for each key of several mappings
- ``grouped``: things sorted into groups
- ``stable``: new values; each value that equals its value of the previous turn is replaced by the previous object

Results that were not requested in a turn are dropped at its end, so a memo is never larger than one turn needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress, filterfalse, repeat
from operator import eq, is_not
from types import NoneType
from typing import Any, ParamSpec, Protocol, Self, TypeVar, TypeVarTuple, overload

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Second = TypeVar("Second")
Third = TypeVar("Third")
Sources = TypeVar("Sources", bound=tuple[Mapping[Any, object], ...])
Group = TypeVar("Group", bound=Hashable)
Order = TypeVar("Order", bound="Ordered")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
Shared = TypeVarTuple("Shared")

_BY_VALUE = frozenset((str, float, int, bool, NoneType, frozenset))
"""Types of arguments that are compared by value; tuples are compared by their members. Other types: by identity."""

_NOTHING = object()
"""A sentinel for the value of a missing key."""


class Ordered(Protocol):
    """An object that can be sorted."""

    def __lt__(self, other: Self, /) -> bool: ...


class Remember(Protocol):
    """A caller of pure functions that may return a cached result for the same arguments."""

    def __call__(
        self, function: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """The result of the function for these arguments."""


def directly(function: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Call the function without caching."""
    return function(*args, **kwargs)


class Memo:
    """Results of pure functions in the last turn and the present one.

    Functions are compared by identity too, so a function must be defined in a module or class, not made for the call.
    Arguments are kept as long as their results, so that no new object can get the identity of an old one.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[Any, ...]] = {}
        self._turn: dict[Hashable, tuple[Any, ...]] = {}
        self._asked: list[Hashable] | None = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One turn. Results that were not requested in the turn are dropped at its end. If the turn fails, the memo
        stays as it was."""
        self._turn, self._asked = {}, None
        yield
        self._last, self._turn = self._turn, {}

    def __call__(
        self, function: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """The result of ``function(*args)``."""
        assert not kwargs
        key = function, _key(args)
        entry = self._entry(key)
        if entry is None:
            entry = self._turn[key] = args, function(*args, **kwargs)
        result: Result = entry[1]
        return result

    def within(self, function: Callable[[*Shared, Memo], Result], *args: *Shared) -> Result:
        """The result of ``function(*args, memo)``. If that result is cached, the results that the function requested
        stay cached too."""
        key = Memo.within, function, _key(args)
        entry = self._entry(key)
        if entry is None:
            before, self._asked = self._asked, []
            result = function(*args, self)
            asked, self._asked = self._asked, before
            entry = self._turn[key] = args, result, asked
        else:
            for inner in entry[2]:
                self._last_entry(inner)
        if self._asked is not None:
            self._asked += entry[2]
        found: Result = entry[1]
        return found

    @overload
    def each(
        self,
        function: Callable[[Value, *Shared], Result],
        things: Mapping[Key, Value],
        *shared: *Shared,
        name: Hashable = None,
    ) -> Mapping[Key, Result]: ...

    @overload
    def each(
        self,
        function: Callable[[Value, Second | None, *Shared], Result],
        things: tuple[Mapping[Key, Value], Mapping[Key, Second]],
        *shared: *Shared,
        name: Hashable = None,
    ) -> Mapping[Key, Result]: ...

    @overload
    def each(
        self,
        function: Callable[[Value, Second | None, Third | None, *Shared], Result],
        things: tuple[Mapping[Key, Value], Mapping[Key, Second], Mapping[Key, Third]],
        *shared: *Shared,
        name: Hashable = None,
    ) -> Mapping[Key, Result]: ...

    def each(
        self,
        function: Callable[..., Result],
        things: Mapping[Key, object] | tuple[Mapping[Key, object], ...],
        *shared: object,
        name: Hashable = None,
    ) -> Mapping[Key, Result]:
        """``function(thing, *shared)`` for each of ``things``; the same mapping again if no thing changed.

        If ``things`` is a tuple of two or three mappings, the function gets the values of each key of the first
        mapping in each of the mappings, or None if a mapping lacks the key. ``name`` distinguishes calls with the
        same function and shared arguments.
        """
        mappings = things if isinstance(things, tuple) else (things,)

        def made(keys: Iterable[Key]) -> dict[Key, Result]:
            return {key: function(*[mapping.get(key) for mapping in mappings], *shared) for key in keys}

        return self._each((function, name, _key(shared)), made, mappings, shared)

    def joined(
        self, function: Callable[[Sources, Key, *Shared], Result], sources: Sources, *shared: *Shared
    ) -> Mapping[Key, Result]:
        """``function(sources, key, *shared)`` for each key of the first mapping of ``sources``.

        The function must read the sources only at this key. The function is called again for a key if any source has
        another object at the key. If no key changed, the result is the same mapping again.
        """

        def made(keys: Iterable[Key]) -> dict[Key, Result]:
            return {key: function(sources, key, *shared) for key in keys}

        return self._each((Memo.joined, function, _key(shared)), made, sources, shared)

    def _each(
        self,
        slot: Hashable,
        made: Callable[[Iterable[Key]], dict[Key, Result]],
        mappings: tuple[Mapping[Key, object], ...],
        shared: tuple[object, ...],
    ) -> Mapping[Key, Result]:
        entry = self._entry(slot)
        if entry is None:
            results = made(mappings[0])
        else:
            _, before, results = entry
            changed, gone = _changed_rows(mappings, before)
            if changed or gone:
                results = _updated(results, made(changed), gone, mappings[0])
        self._turn[slot] = shared, mappings, results
        return results

    def grouped(
        self, place: Callable[[Value], Group], order: Callable[[Value], Order], things: Mapping[Key, Value]
    ) -> Mapping[Group, tuple[Value, ...]]:
        """``things`` grouped by ``place``. The members of a group are sorted by ``order``, and the groups by their
        first members.

        ``order`` must give no two things the same position. An unchanged group is the same tuple as before.
        """
        slot = Memo.grouped, place, order
        entry = self._entry(slot)
        before: Mapping[Key, Value] = {} if entry is None else entry[0]
        groups: Mapping[Group, tuple[Value, ...]] = {} if entry is None else entry[1]
        changed, gone = identity_diff(things, before)
        if entry is None or changed or gone:
            leaving = [before[key] for key in (*gone, *changed) if key in before]
            coming = [things[key] for key in changed]
            groups = _regrouped(groups, leaving, coming, place, order)
        self._turn[slot] = things, groups
        return groups

    def stable(self, values: Mapping[Key, Value], name: Hashable) -> Mapping[Key, Value]:
        """``values``, in which each object that equals the previous turn's object of the same key is replaced by the
        previous object.

        If all values are equal, the result is the same mapping as in the previous turn.
        """
        slot = Memo.stable, name
        entry = self._entry(slot)
        if entry is not None and entry[0] is values:
            settled: Mapping[Key, Value] = entry[1]
            return settled
        before: Mapping[Key, Value] = {} if entry is None else entry[1]
        changed, gone = identity_diff(values, before)
        same = {key: old for key in changed if (old := before.get(key)) is not None and old == values[key]}
        if entry is not None and len(same) == len(changed) and not gone:
            kept = before
        else:
            kept = {**values, **same} if same else values
        self._turn[slot] = values, kept
        return kept

    def _entry(self, key: Hashable) -> tuple[Any, ...] | None:
        if self._asked is not None:
            self._asked.append(key)
        return self._last_entry(key)

    def _last_entry(self, key: Hashable) -> tuple[Any, ...] | None:
        entry = self._turn.get(key)
        if entry is None:
            entry = self._last.get(key)
            if entry is not None:
                self._turn[key] = entry
        return entry


def _key(argument: object) -> Hashable:
    if type(argument) in _BY_VALUE or isinstance(argument, str):
        same: Hashable = argument
        return same
    if isinstance(argument, tuple):
        return tuple([member if type(member) in _BY_VALUE else _key(member) for member in argument])
    return id(argument)


def _regrouped(
    groups: Mapping[Group, tuple[Value, ...]],
    leaving: Sequence[Value],
    coming: Sequence[Value],
    place: Callable[[Value], Group],
    order: Callable[[Value], Order],
) -> Mapping[Group, tuple[Value, ...]]:
    """The groups without the ``leaving`` things and with the ``coming`` things."""
    gone = set(map(id, leaving))
    touched: dict[Group, list[Value]] = {}
    for thing in leaving:
        where = place(thing)
        if where not in touched:
            touched[where] = [member for member in groups[where] if id(member) not in gone]
    for thing in coming:
        where = place(thing)
        if where not in touched:
            touched[where] = list(groups.get(where, ()))
        touched[where].append(thing)
    made = {where: tuple(sorted(members, key=order)) for where, members in touched.items() if members}
    left = _updated(groups, made, [where for where, members in touched.items() if not members])
    if all(where in groups and groups[where][0] is members[0] for where, members in made.items()):
        return left
    return dict(sorted(left.items(), key=lambda item: order(item[1][0])))


def _updated(
    before: Mapping[Key, Result], new: Mapping[Key, Result], gone: Iterable[Key], order: Iterable[Key] = ()
) -> dict[Key, Result]:
    """The mapping with the ``new`` entries and without the ``gone`` keys; in the ``order`` of keys, if one is given."""
    updated = {**before, **new}
    for key in gone:
        updated.pop(key, None)
    return updated if all(map(eq, updated, order)) else {key: updated[key] for key in order}


def _changed_rows(
    now: tuple[Mapping[Key, object], ...], before: tuple[Mapping[Key, object], ...]
) -> tuple[Collection[Key], Collection[Key]]:
    """The keys of the first mapping at which any of the mappings has a new, changed or removed value. Second: the
    removed keys."""
    changed, gone = identity_diff(now[0], before[0])
    others: set[Key] = set()
    for mapping, old in zip(now[1:], before[1:], strict=True):
        others.update(*identity_diff(mapping, old))
    return (changed if not others else {*changed, *(others & now[0].keys())}), gone


def identity_diff(now: Mapping[Key, Value], before: Mapping[Key, Value]) -> tuple[list[Key], list[Key]]:
    """The keys that are new or whose object was replaced, and the keys that were removed."""
    if now is before:
        return [], []
    changed = list(compress(now, map(is_not, now.values(), map(before.get, now, repeat(_NOTHING)))))
    new = sum([key not in before for key in changed])
    return changed, [] if len(before) + new == len(now) else list(filterfalse(now.__contains__, before))
