"""Write a view at once if a text changes, rarely if only numbers change, and never if nothing changes.

A view is made anew only if something that it shows may have changed. A view is not a record, so the next write corrects
a write that failed or came late.

If many views are due, they are written in this order: jobs that need a person, together with all other kinds; other
jobs without a state; texts of jobs that run or have run; texts of jobs that wait; numbers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from charterer.api import decode, names
from charterer.api.metadata import differs_by
from charterer.api.models.base import Condition, InvalidObjectView, dump
from charterer.api.models.gpubudget_status import GPUBudgetView
from charterer.api.models.gpupool import GPUPoolView
from charterer.api.models.gpupoolset import GPUPoolSetStatus
from charterer.api.models.speedupprofile import SpeedupProfileView
from charterer.api.models.trainingjob_status import TrainingJobView
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError, BadRequest, Conflict, NotFound, Withheld
from charterer.cluster.kinds import AnyKind, status_apply
from charterer.cluster.store import ObjectKey, Store
from charterer.controller.status.conditions import dated
from charterer.controller.surveys import Backoff
from charterer.domain.ids import StepKey
from charterer.domain.snapshot import Snapshot

_log = logging.getLogger(__name__)

AnyView = TrainingJobView | GPUBudgetView | GPUPoolView | GPUPoolSetStatus | SpeedupProfileView | InvalidObjectView

_DOLLARS = frozenset(
    {
        "committed",
        "cost",
        "forecast",
        "forecastHigh",
        "forecastLow",
        "hourly",
        "inSight",
        "remaining",
        "spent",
        "toCome",
    }
)
_NUMBERS = _DOLLARS | frozenset(
    {
        "attribution",
        "costLeft",
        "eta",
        "message",
        "paysPerHourSaved",
        "perHour",
        "perHourSaved",
        "progressPercent",
        "scarcityPrice",
        "secondsLeft",
    }
)
"""Fields that change while nothing happens. Such a change is written after a pause, and only if it is large enough."""
_NOTHING = ("0.00", 0)
"""Dollars and percents of zero. A change from zero is written at once. Otherwise a job that has begun would still show
zero and look broken.
"""
_COUNTS = frozenset({"gpusInUse", "interruptions", "launches", "nodes", "readyNodes"})
"""Top-level fields of a status that change with each node. Such a change is written after a pause. Otherwise each node
would cause a write.
"""
_DATES = frozenset({"asOf", "lastTransitionTime", "optionsAsOf"})
"""Fields whose change alone causes no write."""
_LEAST_CHANGE = 0.01
"""Smallest relative change of a number that is written. A person would not notice a smaller one."""
_WRITES_AT_ONCE = 8
"""Most requests in flight. They use an API server well and do not delay the loop's own requests."""
_WRITES_AT_A_TIME = 64
"""Writes after which the order of urgency is computed again. These writes take less than a second."""
_BATCH = 100
"""Views made before other tasks get the thread. They take about ten milliseconds."""
_FIRST_RETRY_SECONDS = 1.0
"""Seconds until a failed write is tried again. Each further failure doubles the seconds."""
_LAST_RETRY_SECONDS = 30.0
"""Most seconds until a failed write is tried again."""
_LAST_REFUSED_SECONDS = 300.0
"""Most seconds until a write that was refused as invalid is tried again. It is refused until the object changes."""
_SOON_SECONDS = 1.0
"""Seconds until the next check of the view of a job whose GPUs have cost nothing yet."""
_COUNTS_SECONDS = 5.0
"""Seconds between two writes of an object of which only counts change."""
_SELDOM_SECONDS = 30.0
"""Seconds between two writes of an object of which only numbers change. Twice a minute is enough for a person."""
_NUMBERS_A_SECOND = 20
"""Most objects written in a second of which only numbers change. With many objects, each is written less often."""


class Urgency(IntEnum):
    """The order in which changed texts are written."""

    FIRST = 0
    """All kinds other than jobs, and jobs that need a person."""
    RUNS = 1
    """Jobs that run or have run."""
    WAITS = 2


class ViewedObject(NamedTuple):
    """An object whose view is shown, and the inputs of the view.

    ``uid``: the view is for the object with this uid, and is never written to another object of the same name. None if
    the view depends on the name alone. ``step_key``: the object's key in the loop, or None if the loop never changes
    it.

    ``facts``: values on which all texts of the view depend. While they are equal, only numbers of the view can differ.
    If ``facts`` is None, the view is made in each turn. ``estimate``: the object that numbers and messages come from.
    ``drifts``: whether numbers change with time even if ``estimate`` stays the same. ``make`` makes the view as of a
    snapshot.
    """

    kind: AnyKind
    key: ObjectKey
    uid: str | None
    urgency: Urgency
    step_key: StepKey | None
    facts: tuple[object, ...] | None
    estimate: object
    drifts: bool
    make: Callable[[Snapshot], AnyView]


@dataclass(slots=True)
class _WrittenView:
    """The view that was written of an object, with the view's inputs. ``at``: the time of the write by the clock. The
    view is not checked again until ``check_at``.

    ``status`` is JSON text. As Python objects, ten thousand statuses would take ten times the memory and slow the
    garbage collector.
    """

    uid: str
    facts: tuple[object, ...] | None
    estimate: object
    status: bytes
    at: float
    check_at: float


class ViewWriter:
    """Writes the views of all objects, and keeps them current. An object that has a mutation of the loop in flight is
    left out until the mutation ends.

    An object that has no state yet gets its first view even during a mutation. Otherwise a job that has one step after
    another would show no state until it runs. If the step writes the same object, the API server refuses one of the two
    writes, which is then repeated.

    ``told`` is called after each write with the kind, the status before and the whole object as written. Use this class
    only in the running event loop's thread, because it reads that loop's clock.
    """

    def __init__(
        self,
        client: Client,
        store: Store,
        in_flight: Collection[StepKey],
        told: Callable[[str, Mapping[str, Any], RawObject], None],
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
        self._looked: dict[tuple[str, ObjectKey], ViewedObject] = {}
        """The last checked version of each object without ``facts``, with nothing left to write."""

    def show(self, objects: Iterable[ViewedObject], snapshot: Snapshot) -> None:
        """Replace the objects to show, whose views are made as of this snapshot."""
        self._snapshot = snapshot
        self._looked.clear()
        self._shown = {(shown.kind.name, shown.key): shown for shown in objects}
        for gone in self._written.keys() - self._shown.keys():
            del self._written[gone]
        self._backoff.retain(self._shown.keys())
        self._news.set()

    async def run(self) -> None:
        """Write the views that are due, until cancelled."""
        while True:
            await self._news.wait()
            await self.write_due()
            if (soonest := self._backoff.soonest()) is not None:
                asyncio.get_running_loop().call_at(max(soonest, self._clock() + _FIRST_RETRY_SECONDS), self._news.set)

    async def write_due(self) -> None:
        """Write every view that is due, the most urgent first. Other tasks run in between.

        An object whose view could not be made or written gets a pause, which grows with each failure in a row.
        """
        while await self._write_some():
            pass

    async def _write_some(self) -> bool:
        """Write views that are due, the most urgent first, until ``show`` is called. Returns whether some are left."""
        self._news.clear()
        writing: list[asyncio.Task[None]] = []
        for key in self._by_urgency():
            shown, snapshot = self._shown.get(key), self._snapshot
            if shown is None or snapshot is None or self._held_back(shown):
                continue
            view = self._made_if_due(key, shown, snapshot)
            if view is not None:
                writing.append(asyncio.create_task(self._write(key, shown, view)))
            if len(writing) == _WRITES_AT_A_TIME:
                await asyncio.gather(*writing)
                writing.clear()
                if self._news.is_set():
                    return True
            if self._made >= _BATCH:
                self._made = 0
                await asyncio.sleep(0)
        await asyncio.gather(*writing)
        return False

    def _by_urgency(self) -> list[tuple[str, ObjectKey]]:
        """Objects whose texts may have changed, in the order of the module's docstring. Objects whose numbers are to be
        checked follow. Of these, the one that has waited longest is first.
        """
        bare: list[tuple[str, ObjectKey]] = []
        words: dict[Urgency, list[tuple[str, ObjectKey]]] = {urgency: [] for urgency in Urgency}
        numbers: list[tuple[str, ObjectKey]] = []
        now = self._clock()
        for key, shown in self._shown.items():
            if self._backoff.pausing(key) or self._held_back(shown):
                continue
            written = self._written.get(key)
            if self._may_differ(key, shown, written):
                first = shown.urgency is not Urgency.FIRST and self._is_bare(shown)
                (bare if first else words[shown.urgency]).append(key)
            elif written is not None and now >= written.check_at and self._may_drift(shown, written):
                numbers.append(key)
        numbers.sort(key=lambda key: self._written[key].check_at)
        return [*words[Urgency.FIRST], *bare, *words[Urgency.RUNS], *words[Urgency.WAITS], *numbers]

    def _held_back(self, shown: ViewedObject) -> bool:
        """Whether the object has a state already and has a mutation of the loop in flight."""
        return shown.step_key in self._in_flight and not self._is_bare(shown)

    def _is_bare(self, shown: ViewedObject) -> bool:
        """Whether the object exists and has no state yet."""
        stored = self._store.stored_version(shown.kind, shown.key)
        return stored is not None and not stored.shows_state

    def _may_differ(self, key: tuple[str, ObjectKey], shown: ViewedObject, written: _WrittenView | None) -> bool:
        """Whether the texts of the view may differ from those written, as far as is known before it is made."""
        if written is None or written.uid != self._store.uid(shown.kind, shown.key):
            return True
        return self._looked.get(key) is not shown if shown.facts is None else shown.facts != written.facts

    def _may_drift(self, shown: ViewedObject, written: _WrittenView) -> bool:
        return shown.drifts or shown.estimate is not written.estimate

    def _made_if_due(self, key: tuple[str, ObjectKey], shown: ViewedObject, snapshot: Snapshot) -> AnyView | None:
        """The view, if it is due. If one view cannot be made, the others are still written."""
        try:
            return self._due(key, shown, snapshot)
        except Exception:
            _log.exception("status of %s %s cannot be made; please report it", shown.kind.name, shown.key.name)
            self._backoff.failed(key, _LAST_REFUSED_SECONDS)
            return None

    def _due(self, key: tuple[str, ObjectKey], shown: ViewedObject, snapshot: Snapshot) -> AnyView | None:
        """The view, if it is due."""
        written, now = self._written.get(key), self._clock()
        if not self._may_differ(key, shown, written) and (written is None or now < written.check_at):
            return None
        self._made += 1
        view = shown.make(snapshot)
        if written is None or written.uid != self._store.uid(shown.kind, shown.key):
            return view
        status, before = dump(view), from_json(written.status)
        if _words(status) != _words(before):
            return view
        pause, moved = self._pause(), differs_by(_LEAST_CHANGE, status, before, _DATES)
        if _counts(status) != _counts(before):
            pause, moved = _COUNTS_SECONDS, True
        if moved and now >= written.at + pause:
            return view
        self._note_looked(key, shown)
        written.facts = shown.facts
        if moved:
            written.check_at = written.at + pause
        else:
            written.estimate = shown.estimate
            written.check_at = self._next_look(status)
        return None

    async def _write(self, key: tuple[str, ObjectKey], shown: ViewedObject, view: AnyView) -> None:
        async with self._slots:
            try:
                await self._apply(key, shown, view)
            except Withheld:
                self._backoff.failed(key, _LAST_RETRY_SECONDS)
            except (Conflict, NotFound):
                self._backoff.failed(key, _FIRST_RETRY_SECONDS)
            except ApiError as error:
                _log.warning("status of %s %s not shown: %s", shown.kind.name, shown.key.name, error)
                longest = _LAST_REFUSED_SECONDS if isinstance(error, BadRequest) else _LAST_RETRY_SECONDS
                self._backoff.failed(key, longest, error.retry_after)
            else:
                self._backoff.succeeded(key)

    async def _apply(self, key: tuple[str, ObjectKey], shown: ViewedObject, view: AnyView) -> None:
        known = self._known(key, shown)
        if known is not None:
            with suppress(Conflict):  # the object has changed since the store saw it
                return await self._apply_over(known, key, shown, view)
        path = shown.kind.resource.one(shown.key.name, shown.key.namespace or None)
        await self._apply_over(await self._client.get(path), key, shown, view)

    def _known(self, key: tuple[str, ObjectKey], shown: ViewedObject) -> RawObject | None:
        """The object's metadata and status, if they are known without a request to the API server."""
        stored, written = self._store.stored_version(shown.kind, shown.key), self._written.get(key)
        if stored is None:
            return None
        metadata = {"name": shown.key.name, "uid": stored.uid, "resourceVersion": str(stored.version)}
        if shown.key.namespace:
            metadata["namespace"] = shown.key.namespace
        if not stored.shows_state:
            return {"metadata": metadata, "status": {}}
        if written is None or written.uid != stored.uid:
            return None
        return {"metadata": metadata, "status": from_json(written.status)}

    async def _apply_over(
        self, before: RawObject, key: tuple[str, ObjectKey], shown: ViewedObject, view: AnyView
    ) -> None:
        """Write the view, if the object is still as ``before``. Raises Conflict otherwise."""
        metadata = before["metadata"]
        status_path = shown.kind.resource.status(shown.key.name, shown.key.namespace or None)
        if shown.uid is not None and metadata["uid"] != shown.uid:
            # Another object has taken the name. The view of that object is shown once the store has it.
            raise Conflict("PATCH", status_path, 0, "Conflict", "another object has taken the name")
        status = dump(_dated(view, decode.conditions(before.get("status") or {})))
        body = status_apply(shown.kind, shown.key, metadata["resourceVersion"], status)
        answer = await self._client.apply(status_path, body, names.MANAGER_VIEW)
        self._store.put(shown.kind, answer)
        self._told(shown.kind.name, before.get("status") or {}, answer)
        uid, look = answer["metadata"]["uid"], self._next_look(status)
        self._note_looked(key, shown)
        self._written[key] = _WrittenView(uid, shown.facts, shown.estimate, to_json(status), self._clock(), look)

    def _note_looked(self, key: tuple[str, ObjectKey], shown: ViewedObject) -> None:
        if shown.facts is None:
            self._looked[key] = shown

    def _pause(self) -> float:
        """Seconds between two writes of an object of which only numbers change."""
        return max(self._seldom, len(self._shown) / _NUMBERS_A_SECOND)

    def _next_look(self, status: Mapping[str, Any]) -> float:
        """The time of the clock at which numbers are checked again. If GPUs have cost nothing yet, the check is
        soon.
        """
        begins = status.get("gpus") and status.get("cost") in _NOTHING
        return self._clock() + (_SOON_SECONDS if begins else self._pause())


def _dated(view: AnyView, before: Iterable[Condition]) -> AnyView:
    return view.model_copy(update={"conditions": dated(view.conditions, before)})


def _counts(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in status.items() if key in _COUNTS}


def _words(status: Mapping[str, Any]) -> Any:
    return _without_numbers({key: value for key, value in status.items() if key not in _COUNTS})


def _without_numbers(status: Any) -> Any:
    """The status without dates and numbers. Each number is replaced by whether it differs from zero."""
    if isinstance(status, Mapping):
        shown = {key: value for key, value in status.items() if key not in _DATES}
        return {
            key: value not in _NOTHING if key in _NUMBERS else _without_numbers(value) for key, value in shown.items()
        }
    if isinstance(status, list):
        return [_without_numbers(value) for value in status]
    return status
