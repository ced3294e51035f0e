"""The operator's copy of the cluster: the decoded objects of the watched kinds, written from any thread.

The thread that delivers an event decodes the object once and drops its JSON. Of two versions of an object the store
keeps the one with the higher resourceVersion (Kubernetes allows this comparison since 1.35). So the watch, the repair
list and the answers to the operator's own writes may arrive in any order.
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
"""Number of deleted objects whose uids are stored, so that an older list cannot add the objects again.

The longest list takes minutes. Even if thousands of jobs end at once, fewer objects are deleted in that time.
"""

DEPARTED_KEPT = 1_000
"""Most deleted objects of a kind whose last values are stored. Readers need these values within seconds."""


class ObjectKey(NamedTuple):
    """The namespace and name of an object. The namespace is empty for cluster-scoped kinds."""

    namespace: str
    name: str


def _itself(value: object) -> object:
    return value


@dataclass(frozen=True, eq=False)
class WatchedKind(Generic[V]):
    """A watched kind. ``decode`` returns the stored value or None for an irrelevant object, or raises InvalidObject.

    ``name`` is the CamelCase kind. Only objects that match the selectors ``labels`` and ``fields`` are watched. If
    kinds of one resource have different selectors, all objects are watched, and each ``decode`` filters its own.
    ``outlives`` decides whether the last value of a deleted object is kept (``KindView.departed``); None keeps no
    value. ``optional``: an API server may not serve the kind, or forbid reading it. Then the store has no object of the
    kind. ``unversioned``: the value without the object's resourceVersion, if the value has it.
    """

    name: str
    resource: Resource
    decode: Callable[[Mapping[str, Any]], V | None]
    labels: str = ""
    fields: str = ""
    outlives: Callable[[V], bool] | None = None
    optional: bool = False
    unversioned: Callable[[V], object] = _itself


@dataclass(frozen=True, slots=True)
class KindView(Generic[V]):
    """All objects of a kind at one moment, immutable. ``version`` grows with every change of the kind.

    An object is in ``objects``, or in ``problems`` if it could not be decoded. ``departed`` has the last values of the
    latest deleted objects that ``outlives`` selects, by uid. The mapping is the same object until a value is added.
    """

    version: int
    objects: Mapping[ObjectKey, V]
    problems: Mapping[ObjectKey, Problem]
    departed: Mapping[str, V]


@dataclass(frozen=True, slots=True)
class KindStats:
    """``events``: number of puts and removals. ``age``: seconds since the last of them, or None before the first."""

    events: int
    age: float | None
    objects: int
    problems: int


class StoredVersion(NamedTuple):
    """The version of an object in the store. ``shows_state``: whether its status has a ``state`` yet."""

    uid: str
    version: int
    generation: int
    shows_state: bool


@dataclass(slots=True)
class _CacheEntry:
    uid: str
    version: int
    generation: int
    shows_state: bool
    value: object


@dataclass(slots=True)
class _KindCache:
    entries: dict[ObjectKey, _CacheEntry] = field(default_factory=dict)
    departed: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    view: KindView[Any] | None = None
    events: int = 0
    last: float | None = None


_DELETED = float("inf")


class Store:
    """Decoded objects by kind. Every method may be called from any thread."""

    def __init__(self, kinds: Iterable[WatchedKind[Any]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._caches: dict[WatchedKind[Any], _KindCache] = {kind: _KindCache() for kind in kinds}
        self._clock = clock
        self._lock = threading.Lock()
        self._tombstones: OrderedDict[str, float] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_change: Callable[[], None] | None = None
        self._waking = False

    @property
    def kinds(self) -> tuple[WatchedKind[Any], ...]:
        """The kinds of this store."""
        return tuple(self._caches)

    def bind(self, on_change: Callable[[], None]) -> None:
        """Set the callback for changes.

        The callback runs in the running event loop, once for several changes close together.
        """
        self._loop = asyncio.get_running_loop()
        self._on_change = on_change

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(self, kind: WatchedKind[Any], raw: Mapping[str, Any]) -> bool:
        """Store an object unless a newer version is known. Returns whether its value changed.

        Invalid content is accepted. If only the version changed, as with a node's heartbeat or the operator's own
        columns, nobody is woken, because nothing new follows from that.
        """
        key, uid, version = _identity(raw)
        cache = self._caches[kind]
        with self._lock:
            self._count(cache)
            if not self._is_newer(cache, key, uid, version):
                return False
        value = _decoded(kind, key, raw)
        with self._lock:
            if not self._is_newer(cache, key, uid, version):
                return False
            if value is None:
                if cache.entries.pop(key, None) is None:
                    return False
                self._add_tombstone(uid, version)
            else:
                generation = int(raw["metadata"].get("generation") or 0)
                before = cache.entries.get(key)
                known = before is not None and (before.uid, before.generation) == (uid, generation)
                if before is not None and known and before.value == value:
                    value = before.value
                cache.entries[key] = _CacheEntry(uid, version, generation, _shows_state(raw), value)
                if before is not None and known and _unversioned(kind, before.value) == _unversioned(kind, value):
                    cache.version += value is not before.value
                    return False
            self._changed(cache)
        return True

    def remove(self, kind: WatchedKind[Any], raw: Mapping[str, Any]) -> bool:
        """Remove a deleted object. An object of the same name with another uid stays.

        Returns whether anything changed.
        """
        key, uid, _ = _identity(raw)
        cache = self._caches[kind]
        with self._lock:
            self._count(cache)
            self._add_tombstone(uid, _DELETED)
            entry = cache.entries.get(key)
            if entry is None or entry.uid != uid:
                return False
            del cache.entries[key]
            _outlive(kind, cache, entry)
            self._changed(cache)
        return True

    def listed(self, kind: WatchedKind[Any], present: Iterable[str], version: int) -> tuple[ObjectKey, ...]:
        """Remove the objects that are absent from a whole list of the kind. The list's objects must have been put
        before.

        ``present``: the uids in the list. ``version``: the list's resourceVersion. Objects newer than the list stay.
        Returns the removed keys, which are the deletions that the watch had missed.
        """
        cache = self._caches[kind]
        listed = frozenset(present)
        with self._lock:
            gone = {
                key: entry
                for key, entry in cache.entries.items()
                if entry.uid not in listed and entry.version <= version
            }
            for key, entry in gone.items():
                del cache.entries[key]
                self._add_tombstone(entry.uid, _DELETED)
            if gone:
                self._changed(cache)
        return tuple(gone)

    # --- reading ------------------------------------------------------------------------------------------------------

    def view(self, kind: WatchedKind[V]) -> KindView[V]:
        """All objects of the kind now. The objects are copied only if one changed since the last call."""
        cache = self._caches[kind]
        with self._lock:
            if cache.view is None or cache.view.version != cache.version:
                objects = {
                    key: entry.value for key, entry in cache.entries.items() if not isinstance(entry.value, Problem)
                }
                problems = {
                    key: entry.value for key, entry in cache.entries.items() if isinstance(entry.value, Problem)
                }
                cache.view = KindView(
                    cache.version, MappingProxyType(objects), MappingProxyType(problems), cache.departed
                )
            return cast("KindView[V]", cache.view)

    def get(self, kind: WatchedKind[V], name: str, namespace: str = "") -> V | None:
        """One decoded object, or None if it does not exist or could not be decoded."""
        with self._lock:
            entry = self._caches[kind].entries.get(ObjectKey(namespace, name))
        return None if entry is None or isinstance(entry.value, Problem) else cast(V, entry.value)

    def uid(self, kind: WatchedKind[Any], key: ObjectKey) -> str | None:
        """The uid of the object under this key, even if the object could not be decoded."""
        stored = self.stored_version(kind, key)
        return None if stored is None else stored.uid

    def stored_version(self, kind: WatchedKind[Any], key: ObjectKey) -> StoredVersion | None:
        """The version of the object under this key, even if the object could not be decoded."""
        with self._lock:
            entry = self._caches[kind].entries.get(key)
        return None if entry is None else StoredVersion(entry.uid, entry.version, entry.generation, entry.shows_state)

    @property
    def version(self) -> int:
        """A number that grows with every change of any kind."""
        with self._lock:
            return sum(cache.version for cache in self._caches.values())

    def stats(self) -> Mapping[str, KindStats]:
        """The statistics by kind name, for metrics and health."""
        now = self._clock()
        with self._lock:
            return {kind.name: _stats(cache, now) for kind, cache in self._caches.items()}

    # --- under the lock -----------------------------------------------------------------------------------------------

    def _is_newer(self, cache: _KindCache, key: ObjectKey, uid: str, version: int) -> bool:
        entry = cache.entries.get(key)
        return (entry is None or version > entry.version) and version > self._tombstones.get(uid, -1)

    def _add_tombstone(self, uid: str, version: float) -> None:
        self._tombstones[uid] = max(version, self._tombstones.pop(uid, -1))
        while len(self._tombstones) > TOMBSTONES_KEPT:
            self._tombstones.popitem(last=False)

    def _count(self, cache: _KindCache) -> None:
        cache.events += 1
        cache.last = self._clock()

    def _changed(self, cache: _KindCache) -> None:
        cache.version += 1
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
    """The decoded value. If the object cannot be decoded, a Problem, so that it does not stop the other objects."""
    try:
        return cast("object | None", kind.decode(raw))
    except InvalidObject as error:
        return error.problem
    except Exception as error:
        log.exception("%s %s/%s cannot be decoded", kind.name, key.namespace, key.name)
        message = f"the operator cannot read this object ({type(error).__name__}: {error}); please report it"
        return Problem(kind.name, key.namespace, key.name, "", "Undecodable", message)


def _unversioned(kind: WatchedKind[Any], value: object) -> object:
    return value if isinstance(value, Problem) else kind.unversioned(value)


def _shows_state(raw: Mapping[str, Any]) -> bool:
    status = raw.get("status")
    return isinstance(status, Mapping) and bool(status.get("state"))


def _outlive(kind: WatchedKind[Any], cache: _KindCache, deleted: _CacheEntry) -> None:
    """Keep the last value of a deleted object if its kind's ``outlives`` selects it."""
    if kind.outlives is None or isinstance(deleted.value, Problem) or not kind.outlives(deleted.value):
        return
    latest = [*cache.departed.items(), (deleted.uid, deleted.value)][-DEPARTED_KEPT:]
    cache.departed = MappingProxyType(dict(latest))


def _stats(cache: _KindCache, now: float) -> KindStats:
    problems = sum(isinstance(entry.value, Problem) for entry in cache.entries.values())
    age = None if cache.last is None else now - cache.last
    return KindStats(cache.events, age, len(cache.entries) - problems, problems)
