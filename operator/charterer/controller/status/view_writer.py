"""Writing views: at once when a word changes, seldom when only numbers do, never when nothing does.

A view is made anew only when something that it shows may have changed. It is no record: a write that fails or comes too
late is made up for by the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from charterer.api import decode, names
from charterer.api.models.base import Condition, InvalidObjectView, dump
from charterer.api.models.gpubudget_status import GPUBudgetView
from charterer.api.models.gpupool import GPUPoolView
from charterer.api.models.speedupprofile import SpeedupProfileView
from charterer.api.models.trainingjob_status import TrainingJobView
from charterer.api.significant_change import differs_by
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError, BadRequest, Conflict, NotFound, Withheld
from charterer.cluster.kinds import AnyKind
from charterer.cluster.patches import status_apply
from charterer.cluster.store import ObjectKey, Store
from charterer.controller.backoff import Backoff
from charterer.controller.status.conditions import dated
from charterer.domain.ids import StepKey
from charterer.domain.snapshot import Snapshot

_log = logging.getLogger(__name__)

AnyView = TrainingJobView | GPUBudgetView | GPUPoolView | SpeedupProfileView | InvalidObjectView

_DOLLARS = frozenset({"committed", "cost", "forecast", "forecastHigh", "forecastLow", "hourly", "remaining", "spent"})
_NUMBERS = _DOLLARS | frozenset(
    {"attribution", "eta", "message", "paysPerHourSaved", "progressPercent", "scarcityPrice"}
)
"""Fields that drift while nothing happens; written when the time has come, and by more than the least change."""
_NOTHING = ("0.00", 0)
"""Dollars and percents of nothing: what follows is written at once, so that what has begun does not look broken."""
_DATES = frozenset({"asOf", "lastTransitionTime", "observedGeneration"})
"""Fields whose change alone is no reason to write."""
_LEAST_CHANGE = 0.01
"""Ratio by which a number must have moved to be written: what a person reads as another number."""
_WRITES_AT_ONCE = 8
"""Requests in flight: as many as keep an API server busy without standing in the way of the loop's own."""
_BATCH = 100
"""Views made before other tasks get the thread: some ten milliseconds' worth."""
_FIRST_RETRY_SECONDS = 1.0
"""Seconds until a failed write is tried again; twice as many after each further failure."""
_LAST_RETRY_SECONDS = 30.0
"""Most seconds until a failed write is tried again."""
_LAST_REFUSED_SECONDS = 300.0
"""The same for a write that was refused as wrong: it will be again, until the object is another."""
_SOON_SECONDS = 1.0
"""Seconds until the view of a job is looked at again whose GPUs have cost nothing yet."""
_SELDOM_SECONDS = 30.0
"""Seconds between two writes of an object of which only numbers change: twice a minute is enough for a person."""


class ViewedObject(NamedTuple):
    """An object whose view is to be shown, and what its view is made of.

    ``uid``: the view is of the object with this uid, and never written to another of the same name; None where the
    name alone decides what the view says. ``step_key``: the object's key in the loop, None where the loop never changes
    it. ``facts``: values from which all words of the view follow: while they are equal, only its numbers can differ;
    None makes the view anew each time. ``estimate``: the object that numbers and messages come from. ``drifts``:
    whether numbers change with time even if that object stays the same. ``make`` makes the view as of a snapshot.
    """

    kind: AnyKind
    key: ObjectKey
    uid: str | None
    step_key: StepKey | None
    facts: tuple[object, ...] | None
    estimate: object
    drifts: bool
    make: Callable[[Snapshot], AnyView]


@dataclass(slots=True)
class _WrittenView:
    """What was written of an object ``at`` (clock), and what it was made of; not looked at again until ``check_at``.

    ``status`` is JSON text: ten thousand of them as objects would take ten times the memory, and be walked through by
    every search for garbage.
    """

    uid: str
    facts: tuple[object, ...] | None
    estimate: object
    status: bytes
    at: float
    check_at: float


class ViewWriter:
    """Keeps the views of all objects written, except of those of which the loop has a mutation in flight.

    ``told`` is called after each write with the kind, the object as it was before, and the status written. For the
    running event loop's thread only, whose clock it uses.
    """

    def __init__(
        self,
        client: Client,
        store: Store,
        in_flight: Collection[StepKey],
        told: Callable[[str, RawObject, Mapping[str, Any]], None],
        *,
        seldom_seconds: float = _SELDOM_SECONDS,
    ) -> None:
        self._client = client
        self._store = store
        self._in_flight = in_flight
        self._told = told
        self._seldom = seldom_seconds
        self._clock = asyncio.get_running_loop().time
        self._written: dict[tuple[str, ObjectKey], _WrittenView] = {}
        self._shown: dict[tuple[str, ObjectKey], ViewedObject] = {}
        self._snapshot: Snapshot | None = None
        self._news = asyncio.Event()
        self._slots = asyncio.Semaphore(_WRITES_AT_ONCE)
        self._backoff: Backoff[tuple[str, ObjectKey]] = Backoff(self._clock, _FIRST_RETRY_SECONDS)
        self._made = 0

    def show(self, objects: Iterable[ViewedObject], snapshot: Snapshot) -> None:
        """These are all objects there are now; their views are made as of this snapshot."""
        self._snapshot = snapshot
        self._shown = {(shown.kind.name, shown.key): shown for shown in objects}
        for gone in self._written.keys() - self._shown.keys():
            del self._written[gone]
        self._backoff.retain(self._shown.keys())
        self._news.set()

    async def run(self) -> None:
        """Write what is due, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self.write_due()
            if (soonest := self._backoff.soonest()) is not None:
                asyncio.get_running_loop().call_at(max(soonest, self._clock() + _FIRST_RETRY_SECONDS), self._news.set)

    async def write_due(self) -> None:
        """Write every view that is due. Lets other tasks run in between.

        A view that could not be made or written is left alone for a while that grows with each failure in a row.
        """
        writing: list[asyncio.Task[None]] = []
        for key in list(self._shown):
            shown, snapshot = self._shown.get(key), self._snapshot
            if shown is None or snapshot is None or shown.step_key in self._in_flight or self._backoff.pausing(key):
                continue
            view = self._made_if_due(key, shown, snapshot)
            if view is not None:
                writing.append(asyncio.create_task(self._write(key, shown, view)))
            if self._made >= _BATCH:
                self._made = 0
                await asyncio.sleep(0)
        await asyncio.gather(*writing)

    def _made_if_due(self, key: tuple[str, ObjectKey], shown: ViewedObject, snapshot: Snapshot) -> AnyView | None:
        """The view, if it is to be written now; one that cannot be made stops no other."""
        try:
            return self._due(key, shown, snapshot)
        except Exception:
            _log.exception("status of %s %s cannot be made; please report it", shown.kind.name, shown.key.name)
            self._backoff.failed(key, _LAST_REFUSED_SECONDS)
            return None

    def _due(self, key: tuple[str, ObjectKey], shown: ViewedObject, snapshot: Snapshot) -> AnyView | None:
        """The view, if it is to be written now."""
        written, now = self._written.get(key), self._clock()
        if written is None or written.uid != self._store.uid(shown.kind, shown.key):
            self._made += 1
            return shown.make(snapshot)
        if shown.facts is not None and shown.facts == written.facts:
            if shown.estimate is written.estimate and not shown.drifts:
                return None
            if now < written.check_at:
                return None
        self._made += 1
        view, before = shown.make(snapshot), from_json(written.status)
        status = dump(view)
        if _words(status) != _words(before):
            return view
        moved = differs_by(_LEAST_CHANGE, status, before, _DATES)
        if moved and now >= written.at + self._seldom:
            return view
        written.facts = shown.facts
        if moved:
            written.check_at = written.at + self._seldom
        else:
            written.estimate = shown.estimate
            written.check_at = self._next_look(status)
        return None

    async def _write(self, key: tuple[str, ObjectKey], shown: ViewedObject, view: AnyView) -> None:
        async with self._slots:
            try:
                await self._apply(key, shown, view)
            except NotFound:
                return
            except Withheld:
                self._backoff.failed(key, _LAST_RETRY_SECONDS)
            except Conflict:
                self._backoff.failed(key, _FIRST_RETRY_SECONDS)
            except ApiError as error:
                _log.warning("status of %s %s not shown: %s", shown.kind.name, shown.key.name, error)
                self._backoff.failed(
                    key, _LAST_REFUSED_SECONDS if isinstance(error, BadRequest) else _LAST_RETRY_SECONDS
                )
            else:
                self._backoff.succeeded(key)

    async def _apply(self, key: tuple[str, ObjectKey], shown: ViewedObject, view: AnyView) -> None:
        path = shown.kind.resource.one(shown.key.name, shown.key.namespace or None)
        raw = await self._client.get(path)
        if shown.uid is not None and raw["metadata"]["uid"] != shown.uid:
            return  # another object has taken the name, and is shown once it has been seen
        status = dump(_dated(view, decode.conditions(raw)))
        version = raw["metadata"]["resourceVersion"]
        body = status_apply(shown.kind, shown.key, version, status)
        answer = await self._client.apply(f"{path}/status", body, names.MANAGER_VIEW)
        self._store.put(shown.kind, answer)
        self._told(shown.kind.name, raw, status)
        uid, look = answer["metadata"]["uid"], self._next_look(status)
        self._written[key] = _WrittenView(uid, shown.facts, shown.estimate, to_json(status), self._clock(), look)

    def _next_look(self, status: Mapping[str, Any]) -> float:
        """When (clock) numbers that were looked at now are looked at again: soon while GPUs have cost nothing yet."""
        begins = status.get("gpus") and status.get("cost") in _NOTHING
        return self._clock() + (_SOON_SECONDS if begins else self._seldom)


def _dated(view: AnyView, before: Iterable[Condition]) -> AnyView:
    return view.model_copy(update={"conditions": dated(view.conditions, before)})


def _words(status: Any) -> Any:
    """The status without what drifts: of a number only that it is there, and whether it is more than nothing."""
    if isinstance(status, Mapping):
        shown = {key: value for key, value in status.items() if key not in _DATES}
        return {key: value not in _NOTHING if key in _NUMBERS else _words(value) for key, value in shown.items()}
    if isinstance(status, list):
        return [_words(value) for value in status]
    return status
