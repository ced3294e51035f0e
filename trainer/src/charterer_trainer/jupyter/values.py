"""The values of a namespace, in the form in which they are sent between kernel and worker: parcels that preserve shared
objects.

Names whose values reach the same mutable object form one parcel, so that the optimizer of a model still changes that
model after the transfer. A parcel is sent again only if its pickle has changed. To find that out, digests of its
structure and of its large buffers are compared.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from charterer_trainer.jupyter.cells import EVERYTHING, CellNames, referenced
from charterer_trainer.jupyter.devices import DeviceReducer

_NAMESPACE = "namespace"
_NOTHING: Mapping[str, Any] = types.MappingProxyType({})
_SIMPLE = (int, float, complex, str, bytes, bool, type(None), type, types.BuiltinFunctionType, types.ModuleType)


class InterruptedCopyError(Exception):
    """A more urgent message came while values were copied."""


@dataclass(frozen=True)
class Parcel:
    """A pickle of the values of ``names``. ``refers``: other names that functions among the values use.

    ``digests``: the digest of the sender's ``stream``, followed by the digest of each buffer.
    """

    names: tuple[str, ...]
    stream: bytes
    buffers: tuple[Any, ...]
    refers: frozenset[str]
    digests: tuple[str, ...]

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.stream) + sum(memoryview(each).nbytes for each in self.buffers)


@dataclass(frozen=True)
class Changes:
    """The parcels that the other side lacks, names without a value any more, and all names that a cell may use."""

    parcels: tuple[Parcel, ...]
    gone: frozenset[str]
    used: frozenset[str]


@dataclass(frozen=True)
class _Draft:
    """A pickle whose buffers are still the memory of the values themselves. ``reached``: ids of mutable objects."""

    names: tuple[str, ...]
    stream: bytes
    buffers: tuple[memoryview, ...]
    refers: frozenset[str]
    reached: frozenset[int]
    keep: object


@dataclass
class _Known:
    """A parcel that both sides have.

    ``digests`` are the digests of this side's pickles. They are empty if the other side never had the parcel.
    ``stale``: whether the parcel may have changed since.
    """

    names: tuple[str, ...]
    refers: frozenset[str]
    digests: tuple[str, ...]
    stale: bool = False


class _NamespacePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles functions of the notebook with a reference to the namespace as their globals.

    The namespace itself is not pickled.
    """

    def __init__(
        self,
        file: io.BytesIO,
        namespace: dict[str, Any],
        buffers: list[pickle.PickleBuffer],
        contents: bool,
        urgent: Callable[[], bool],
    ) -> None:
        super().__init__(file, protocol=5, buffer_callback=lambda each: buffers.append(each))
        self._namespace = namespace
        self.devices = DeviceReducer(contents)
        self._urgent = urgent
        self.refers: set[str] = set()
        self.reached: set[int] = set()
        self.keep: list[object] = []

    def persistent_id(self, value: Any) -> str | None:
        """Replace the namespace by a name. Record the id of each other mutable object."""
        if value is self._namespace:
            return _NAMESPACE
        kind = type(value)
        if kind not in _SIMPLE and _is_changeable(kind, value):
            self.reached.add(id(value))
            self.keep.append(value)  # this keeps any other object from getting the same id meanwhile
        return None

    def reducer_override(self, value: Any) -> Any:
        """Reduce tensors and arrays through host memory, and all else as cloudpickle does."""
        reduced = self.devices.reduce(value)
        if reduced is not None:
            if self._urgent():
                raise InterruptedCopyError
            return reduced
        ways = super().reducer_override(value)
        if isinstance(value, type) and isinstance(ways, tuple) and len(ways) > 2:
            ways[2][0].pop("__slotnames__", None)  # pickle adds the attribute to a class after pickling an instance
        return ways

    def _dynamic_function_reduce(self, func: types.FunctionType) -> Any:
        make, arguments, state, *rest = super()._dynamic_function_reduce(func)
        if func.__globals__ is self._namespace:
            self.refers |= set(state[1]["__globals__"])
            state[1]["__globals__"] = {}
            state[1]["__annotations__"] = dict(state[1]["__annotations__"])  # a copy that names do not share
            arguments = (arguments[0], self._namespace, *arguments[2:])
        return (make, arguments, state, *rest)


class _NamespaceUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, namespace: dict[str, Any], buffers: Iterable[Any]) -> None:
        super().__init__(file, buffers=buffers)
        self._namespace = namespace

    def persistent_load(self, pid: Any) -> Any:
        if pid != _NAMESPACE:
            raise pickle.UnpicklingError(f"unknown persistent id {pid!r}")
        return self._namespace


def _is_changeable(kind: type, value: Any) -> bool:
    """Whether it matters that the very same object is shared. It does if the object's type is known to be mutable, or
    has no hash by value.
    """
    if kind is types.FunctionType:  # a class's functions are sent with the class
        return value.__module__ == "__main__" and "." not in value.__qualname__.rpartition("<locals>.")[2]
    if issubclass(kind, type):
        return False
    hashing = getattr(kind, "__hash__", None)
    if hashing is None or hashing is object.__hash__:
        return kind.__module__ != "torch" or not kind.__name__.islower()  # torch.dtype and similar types are constants
    return kind.__module__.startswith("torch") and kind.__name__ in ("Tensor", "Parameter")


@dataclass
class Values:
    """The names of a namespace, the names touched since the last comparison, and the parcels that they form.

    ``hidden`` selects names of the interpreter, which never travel. ``stuck``: names that cannot be pickled, with
    reasons.
    """

    namespace: dict[str, Any]
    hidden: Callable[[str], bool] = lambda name: name.startswith("__")
    stuck: dict[str, str] = field(default_factory=dict)
    _known: dict[str, _Known] = field(default_factory=dict)
    _touched: set[str] = field(default_factory=set)

    def names(self) -> set[str]:
        """All names that have a value and may travel."""
        return {name for name in list(self.namespace) if not self.hidden(name)}

    def touch(self, names: Iterable[str]) -> None:
        """Record that code with these names has run or will run."""
        self._touched.update(names)

    def forget(self, names: Iterable[str]) -> None:
        """Record that these names have no value here any more, or have a value that the other side has never had."""
        for name in names:
            self._known.pop(name, None)
            self.stuck.pop(name, None)

    def forget_all(self) -> None:
        """Record that the other side is gone."""
        self._known.clear()
        self.stuck.clear()
        self._touched.clear()

    def closure(self, cell: CellNames, elsewhere: Mapping[str, Parcel] = _NOTHING) -> set[str]:
        """All names that the cell may use: its own names, the names in the same parcels, and the names that functions
        among them use.

        Names without a value are included, such as builtins, or names that a function will bind. ``elsewhere``: parcels
        whose values are not in the namespace.
        """
        if cell.opaque:
            return self.names() | elsewhere.keys() | cell.used
        found: set[str] = set()
        new = set(cell.used)
        while new:
            name = new.pop()
            found.add(name)
            more: set[str] = set()
            for record in (self._known.get(name), elsewhere.get(name)):
                if record is not None:
                    more |= record.refers | set(record.names)
            if name in self.namespace:
                more |= referenced(self.namespace[name])
            new |= more - found
        return {name for name in found if not self.hidden(name)}

    def survey(self, urgent: Callable[[], bool] = lambda: False) -> dict[tuple[str, ...], _Draft]:
        """Find out which touched names form parcels now, and which names those parcels use.

        Returns the drafts made for this. As soon as ``urgent()`` is True, raises InterruptedCopyError and changes
        nothing.
        """
        present = self.names()
        touched = {name for name in present if name in self._touched or name not in self._known}
        left = touched | (self._known.keys() - present)
        touched |= {other for name in left & self._known.keys() for other in self._known[name].names} & present
        drafts, stuck = self._drafts(sorted(touched - self.stuck.keys() | touched & self._touched), urgent)
        for draft in drafts:
            before = self._known.get(draft.names[0])
            digests = before.digests if before is not None and before.names == draft.names else ()
            self._known.update(dict.fromkeys(draft.names, _Known(draft.names, draft.refers, digests, stale=True)))
        for name in stuck:
            self._known.pop(name, None)
        self.stuck = {name: why for name, why in self.stuck.items() if name in present and name not in self._known}
        self.stuck.update(stuck)
        self._touched -= touched
        return {draft.names: draft for draft in drafts}

    def changed(
        self,
        cell: CellNames = EVERYTHING,
        elsewhere: Mapping[str, Parcel] = _NOTHING,
        urgent: Callable[[], bool] = lambda: False,
    ) -> Changes:
        """The parcels that the other side needs before the cell runs there.

        From then on the parcels count as known to the other side. As soon as ``urgent()`` is True, raises
        InterruptedCopyError. Then no parcel becomes known.
        """
        drafts = self.survey(urgent)
        present = self.names()
        gone = {name for name, known in self._known.items() if name not in present}
        used = self.closure(cell, elsewhere)
        wanted = {self._known[name].names for name in used & self._known.keys() - gone if self._known[name].stale}
        compared = []
        for names in sorted(wanted):
            draft = drafts.get(names) or self._drafts_of([names], urgent=urgent)[0]
            compared.append(_parcel(draft, urgent))
        sent = [parcel for parcel in compared if self._known[parcel.names[0]].digests != parcel.digests]
        for parcel in compared:
            self._known.update(dict.fromkeys(parcel.names, _Known(parcel.names, parcel.refers, parcel.digests)))
        self.forget(gone)
        return Changes(tuple(sent), frozenset(gone), frozenset(used))

    def install(self, parcel: Parcel) -> None:
        """Bind the parcel's names to its values. If any exception is raised, no name is bound."""
        self.namespace.update(unpacked(parcel, self.namespace))
        (draft,) = self._drafts_of([parcel.names], contents=False)
        known = _Known(parcel.names, draft.refers, (_digest(draft.stream), *parcel.digests[1:]))
        for name in parcel.names:
            self._known[name] = known
            self._touched.discard(name)

    def _drafts(self, names: list[str], urgent: Callable[[], bool]) -> tuple[list[_Draft], dict[str, str]]:
        drafts: list[_Draft] = []
        stuck: dict[str, str] = {}
        for name in names:
            try:
                drafts += self._drafts_of([(name,)], urgent=urgent)
            except InterruptedCopyError:
                raise
            except Exception as error:
                stuck[name] = f"{type(error).__name__}: {error}"
        groups = _joined(drafts)
        joint = [group for group in groups if len(group) > 1]
        single = {group[0] for group in groups if len(group) == 1}
        alone = [draft for draft in drafts if draft.names[0] in single]
        return alone + self._drafts_of(joint, urgent=urgent), stuck

    def _drafts_of(
        self, groups: Iterable[tuple[str, ...]], contents: bool = True, urgent: Callable[[], bool] = lambda: False
    ) -> list[_Draft]:
        made = []
        for names in groups:
            file = io.BytesIO()
            buffers: list[pickle.PickleBuffer] = []
            pickler = _NamespacePickler(file, self.namespace, buffers, contents, urgent)
            pickler.dump([self.namespace[name] for name in names])
            views = tuple(each.raw() for each in buffers)
            reached, refers = frozenset(pickler.reached | pickler.devices.storages), frozenset(pickler.refers)
            made.append(_Draft(names, file.getvalue(), views, refers, reached, pickler.keep))
        return made


def unpacked(parcel: Parcel, namespace: dict[str, Any]) -> dict[str, Any]:
    """The parcel's values by name. Functions among them use ``namespace`` as their globals."""
    values = _NamespaceUnpickler(io.BytesIO(parcel.stream), namespace, parcel.buffers).load()
    return dict(zip(parcel.names, values))


def _joined(drafts: list[_Draft]) -> list[tuple[str, ...]]:
    """Groups of names whose drafts reach a common object, directly or through others (disjoint sets)."""
    parent: dict[str, str] = {draft.names[0]: draft.names[0] for draft in drafts}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    owner: dict[int, str] = {}
    for draft in drafts:
        for each in draft.reached:
            parent[root(draft.names[0])] = root(owner.setdefault(each, draft.names[0]))
    groups: dict[str, list[str]] = {}
    for name in parent:
        groups.setdefault(root(name), []).append(name)
    return [tuple(sorted(group)) for group in groups.values()]


def _parcel(draft: _Draft, urgent: Callable[[], bool]) -> Parcel:
    digests = [_digest(draft.stream)]
    for each in draft.buffers:
        if urgent():
            raise InterruptedCopyError
        digests.append(_digest(each))
    return Parcel(draft.names, draft.stream, draft.buffers, draft.refers, tuple(digests))


def _digest(content: Any) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
