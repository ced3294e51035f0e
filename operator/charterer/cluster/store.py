"""What the operator knows of the cluster: the decoded objects of the watched kinds, put here from any thread.

Each event is decoded once, in the thread that brings it, and its JSON is let go. Of two versions of an object the
higher resourceVersion is kept (comparable within a kind since Kubernetes 1.35, in fact ever since etcd), so that watch,
repair list and the answers to the operator's own writes may arrive in any order.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar, cast

from charterer.cluster.paths import Resource
from charterer.domain.errors import InvalidObject, Problem

log = logging.getLogger(__name__)

V = TypeVar("V")

TOMBSTONES_KEPT = 20_000
"""How many deleted objects' uids are remembered, so that a list older than the deletion cannot bring them back."""


class ObjectKey(NamedTuple):
    """Where an object is; the namespace is empty for cluster-scoped ones."""

    namespace: str
    name: str


@dataclass(frozen=True, eq=False)
class WatchedKind(Generic[V]):
    """A watched kind. ``decode`` makes the kept value, None for an object of no interest, or raises InvalidObject.

    Only objects that match ``labels`` and ``fields`` (selectors) are asked for. ``name`` is the CamelCase kind.
    """

    name: str
    resource: Resource
    decode: Callable[[Mapping[str, Any]], V | None]
    labels: str = ""
    fields: str = ""


@dataclass(frozen=True, slots=True)
class KindView(Generic[V]):
    """All objects of a kind at one moment; never changed after. ``version`` grows with every change of the kind.

    An object is in ``objects`` or in ``problems`` (it could not be decoded), never in both.
    """

    version: int
    objects: Mapping[ObjectKey, V]
    problems: Mapping[ObjectKey, Problem]


@dataclass(frozen=True, slots=True)
class KindStats:
    """``events``: how often something was put or removed. ``age``: seconds since the last time, None before it."""

    events: int
    age: float | None
    objects: int
    problems: int


@dataclass(slots=True)
class _CacheEntry:
    uid: str
    version: int
    value: object


@dataclass(slots=True)
class _KindCache:
    held: dict[ObjectKey, _CacheEntry] = field(default_factory=dict)
    version: int = 0
    view: KindView[Any] | None = None
    listed: bool = False
    events: int = 0
    last: float | None = None


_DELETED = float("inf")


class Store:
    """Decoded objects by kind. Every method may be called from any thread."""

    def __init__(self, kinds: Iterable[WatchedKind[Any]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._shelves: dict[WatchedKind[Any], _KindCache] = {kind: _KindCache() for kind in kinds}
        self._clock = clock
        self._lock = threading.Lock()
        self._buried: OrderedDict[str, float] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_change: Callable[[], None] | None = None
        self._waking = False

    @property
    def kinds(self) -> tuple[WatchedKind[Any], ...]:
        """The kinds it holds."""
        return tuple(self._shelves)

    def bind(self, on_change: Callable[[], None]) -> None:
        """From now on call ``on_change`` in the running event loop after changes (once for many close together)."""
        self._loop = asyncio.get_running_loop()
        self._on_change = on_change

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(self, kind: WatchedKind[Any], raw: Mapping[str, Any]) -> bool:
        """Take in an object unless a newer version is known; whether anything changed. Never raises for bad content."""
        key, uid, version = _identity(raw)
        shelf = self._shelves[kind]
        with self._lock:
            self._count(shelf)
            if not self._is_news(shelf, key, uid, version):
                return False
        value = _decoded(kind, key, raw)
        with self._lock:
            if not self._is_news(shelf, key, uid, version):
                return False
            if value is None:
                if shelf.held.pop(key, None) is None:
                    return False
                self._bury(uid, version)
            else:
                shelf.held[key] = _CacheEntry(uid, version, value)
            self._changed(shelf)
        return True

    def remove(self, kind: WatchedKind[Any], raw: Mapping[str, Any]) -> bool:
        """Take out a deleted object; a successor of the same name (another uid) stays. Whether anything changed."""
        key, uid, _ = _identity(raw)
        shelf = self._shelves[kind]
        with self._lock:
            self._count(shelf)
            self._bury(uid, _DELETED)
            held = shelf.held.get(key)
            if held is None or held.uid != uid:
                return False
            del shelf.held[key]
            self._changed(shelf)
        return True

    def listed(self, kind: WatchedKind[Any], present: Iterable[str], version: int) -> tuple[ObjectKey, ...]:
        """A whole list of the kind was put: remove what it did not have.

        ``present``: the uids in the list; ``version``: the list's resourceVersion. What is newer than the list stays.
        Returns the keys removed: deletions that the watch had missed.
        """
        shelf = self._shelves[kind]
        there = frozenset(present)
        with self._lock:
            gone = {key: held for key, held in shelf.held.items() if held.uid not in there and held.version <= version}
            for key, held in gone.items():
                del shelf.held[key]
                self._bury(held.uid, _DELETED)
            if gone or not shelf.listed:
                shelf.listed = True
                self._changed(shelf)
        return tuple(gone)

    # --- reading ------------------------------------------------------------------------------------------------------

    def view(self, kind: WatchedKind[V]) -> KindView[V]:
        """All objects of the kind now. Copied only if something changed since the last call."""
        shelf = self._shelves[kind]
        with self._lock:
            if shelf.view is None or shelf.view.version != shelf.version:
                objects = {key: held.value for key, held in shelf.held.items() if not isinstance(held.value, Problem)}
                problems = {key: held.value for key, held in shelf.held.items() if isinstance(held.value, Problem)}
                shelf.view = KindView(shelf.version, MappingProxyType(objects), MappingProxyType(problems))
            return cast("KindView[V]", shelf.view)

    def get(self, kind: WatchedKind[V], name: str, namespace: str = "") -> V | None:
        """One decoded object, if it is there and could be decoded."""
        with self._lock:
            held = self._shelves[kind].held.get(ObjectKey(namespace, name))
        return None if held is None or isinstance(held.value, Problem) else cast(V, held.value)

    def uid(self, kind: WatchedKind[Any], key: ObjectKey) -> str | None:
        """Which object it is that is there under this key, also if it could not be decoded."""
        with self._lock:
            held = self._shelves[kind].held.get(key)
        return None if held is None else held.uid

    @property
    def synced(self) -> bool:
        """Whether every kind was listed at least once: before that, absence means nothing."""
        return all(shelf.listed for shelf in self._shelves.values())

    @property
    def version(self) -> int:
        """Grows with every change of any kind."""
        with self._lock:
            return sum(shelf.version for shelf in self._shelves.values())

    def stats(self) -> Mapping[str, KindStats]:
        """By kind name, for metrics and health."""
        now = self._clock()
        with self._lock:
            return {kind.name: _stats(shelf, now) for kind, shelf in self._shelves.items()}

    # --- under the lock -----------------------------------------------------------------------------------------------

    def _is_news(self, shelf: _KindCache, key: ObjectKey, uid: str, version: int) -> bool:
        held = shelf.held.get(key)
        return (held is None or version > held.version) and version > self._buried.get(uid, -1)

    def _bury(self, uid: str, version: float) -> None:
        self._buried[uid] = max(version, self._buried.pop(uid, -1))
        while len(self._buried) > TOMBSTONES_KEPT:
            self._buried.popitem(last=False)

    def _count(self, shelf: _KindCache) -> None:
        shelf.events += 1
        shelf.last = self._clock()

    def _changed(self, shelf: _KindCache) -> None:
        shelf.version += 1
        if self._loop is None or self._waking or self._loop.is_closed():
            return
        self._waking = True
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        with self._lock:
            self._waking = False
        if self._on_change is not None:
            self._on_change()


def _identity(raw: Mapping[str, Any]) -> tuple[ObjectKey, str, int]:
    metadata = raw["metadata"]
    key = ObjectKey(metadata.get("namespace") or "", metadata["name"])
    return key, metadata["uid"], int(metadata.get("resourceVersion") or 0)


def _decoded(kind: WatchedKind[Any], key: ObjectKey, raw: Mapping[str, Any]) -> object | None:
    """The value, or the Problem that the object is: one that cannot be decoded must not stop the others."""
    try:
        return cast("object | None", kind.decode(raw))
    except InvalidObject as error:
        return error.problem
    except Exception as error:
        log.exception("%s %s/%s cannot be decoded", kind.name, key.namespace, key.name)
        message = f"the operator cannot read this object ({type(error).__name__}: {error}); please report it"
        return Problem(kind.name, key.namespace, key.name, "", "Undecodable", message)


def _stats(shelf: _KindCache, now: float) -> KindStats:
    problems = sum(isinstance(held.value, Problem) for held in shelf.held.values())
    age = None if shelf.last is None else now - shelf.last
    return KindStats(shelf.events, age, len(shelf.held) - problems, problems)
