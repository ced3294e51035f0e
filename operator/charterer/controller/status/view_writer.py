"""Writing views: at once when a word changes, seldom when only numbers do, never when nothing does.

The view is no record: a write that fails or comes too late is made up for by the next.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from charterer.api import decode, encode, names
from charterer.api.significant_change import differs_by
from charterer.api.view import BudgetView, Condition, InvalidView, JobView, PoolView, ProfileView
from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError, Conflict, NotFound
from charterer.cluster.patches import status_apply
from charterer.cluster.store import ObjectKey, Store, WatchedKind
from charterer.controller.status.conditions import dated

_log = logging.getLogger(__name__)

AnyView = JobView | BudgetView | PoolView | ProfileView | InvalidView

_DOLLARS = frozenset({"committed", "cost", "forecast", "forecastHigh", "forecastLow", "hourly", "remaining", "spent"})
_NUMBERS = _DOLLARS | frozenset(
    {"attribution", "eta", "message", "paysPerHourSaved", "progressPercent", "scarcityPrice"}
)
"""Fields that drift while nothing happens; written when the time has come, and by more than the least change."""
_DATES = frozenset({"asOf", "lastTransitionTime", "observedGeneration"})
_LEAST_CHANGE = 0.01
_AT_ONCE = 8
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ViewedObject:
    """A view to be shown: of which object, and by which key of the loop it is busy."""

    kind: WatchedKind[Any]
    key: ObjectKey
    loop_key: str
    view: AnyView


@dataclass(slots=True)
class _WrittenView:
    uid: str
    view: AnyView
    status: Mapping[str, Any]
    conditions: tuple[Condition, ...]
    at: float = field(default_factory=time.monotonic)


class ViewWriter:
    """Keeps the views of all objects written. ``busy``: whether the loop has a mutation of the object in flight."""

    def __init__(
        self, client: Client, store: Store, busy: Callable[[str], bool], *, seldom_seconds: float = 30.0
    ) -> None:
        self._client = client
        self._store = store
        self._busy = busy
        self._seldom = seldom_seconds
        self._written: dict[tuple[str, ObjectKey], _WrittenView] = {}
        self._wanted: dict[tuple[str, ObjectKey], ViewedObject] = {}
        self._news = asyncio.Event()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def show(self, shown: Iterable[ViewedObject]) -> None:
        """These are the views now, of all objects there are."""
        self._wanted = {(one.kind.name, one.key): one for one in shown}
        for gone in self._written.keys() - self._wanted.keys():
            del self._written[gone]
        self._news.set()

    async def run(self) -> None:
        """Write what is due, for ever."""
        while True:
            await self._news.wait()
            self._news.clear()
            due = [one for one in self._wanted.values() if self._due(one) and not self._busy(one.loop_key)]
            results = await asyncio.gather(*(self._write(one) for one in due))
            if not all(results):
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._news.set)

    def _due(self, shown: ViewedObject) -> bool:
        written = self._written.get((shown.kind.name, shown.key))
        if written is None or written.uid != self._store.uid(shown.kind, shown.key):
            return True
        if shown.view == written.view:
            return False
        status = _encoded(_dated(shown.view, written.conditions))
        if _words(status) != _words(written.status):
            return True
        return time.monotonic() - written.at >= self._seldom and differs_by(
            _LEAST_CHANGE, status, written.status, _DATES
        )

    async def _write(self, shown: ViewedObject) -> bool:
        async with self._slots:
            try:
                await self._apply(shown)
            except NotFound:
                return True
            except Conflict:
                return False
            except ApiError as error:
                _log.warning("status of %s %s not shown: %s", shown.kind.name, shown.key.name, error)
                return False
            return True

    async def _apply(self, shown: ViewedObject) -> None:
        at = (shown.kind.name, shown.key)
        path = shown.kind.resource.one(shown.key.name, shown.key.namespace or None)
        raw = await self._client.get(path)
        status = _encoded(_dated(shown.view, decode.conditions(raw)))
        version = raw["metadata"]["resourceVersion"]
        body = status_apply(shown.kind, shown.key, version, status)
        answer = await self._client.apply(f"{path}/status", body, names.MANAGER_VIEW)
        self._store.put(shown.kind, answer)
        self._written[at] = _WrittenView(answer["metadata"]["uid"], shown.view, status, decode.conditions(answer))


def _dated(view: AnyView, before: Iterable[Condition]) -> AnyView:
    return replace(view, conditions=dated(view.conditions, before))


def _encoded(view: AnyView) -> Mapping[str, Any]:
    match view:
        case JobView():
            return encode.job_view(view)
        case BudgetView():
            return encode.budget_view(view)
        case PoolView():
            return encode.pool_view(view)
        case ProfileView():
            return encode.profile_view(view)
        case InvalidView():
            return encode.invalid_view(view)


def _words(status: Any) -> Any:
    """The status without what drifts: of a number only that it is there."""
    if isinstance(status, Mapping):
        shown = {key: value for key, value in status.items() if key not in _DATES}
        return {key: key in _NUMBERS or _words(value) for key, value in shown.items()}
    if isinstance(status, list):
        return [_words(value) for value in status]
    return status
