"""Events (events.k8s.io/v1) for people. Repetitions are counted as series. An event may be lost, but recording never
blocks the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn

from charterer.api.manifests import EventSubject, Reporter, event
from charterer.cluster.client import Client
from charterer.cluster.errors import ApiError, Gone, NotFound
from charterer.cluster.paths import EVENTS
from charterer.domain.time import Instant, format_instant

log = logging.getLogger(__name__)

WINDOW: Final = 600.0
"""Seconds within which repetitions of an event count as one series, as in Kubernetes' own components."""
UPDATE: Final = 60.0
"""Seconds between two writes of the count of one series."""
REMEMBERED: Final = 1_000
"""Number of series in memory. The series whose last repetition is oldest is dropped first."""
PENDING: Final = 500
"""Most new events that wait. They are sent in less than a minute. Further events are dropped and counted."""
PACE: Final = 0.1
"""Seconds between two requests, so that a burst of events does not delay the operator's other calls."""


class _Key(NamedTuple):
    subject: EventSubject
    reason: str
    action: str
    note: str
    warning: bool


@dataclass(slots=True)
class _Series:
    """An event and its repetitions. ``count``: number of occurrences. ``written_count``: the number that the Event
    ``name`` in the cluster has.

    ``began`` and ``written`` are seconds of the steady clock.
    """

    first: Instant
    last: Instant
    began: float
    count: int = 1
    written_count: int = 0
    name: str = ""
    written: float = float("-inf")


class Recorder:
    """Records events and sends them later, from one event loop.

    ``now`` is the wall clock for the timestamps that people read. ``clock`` is the steady clock that times the series.
    """

    def __init__(
        self,
        client: Client,
        *,
        instance: str,
        now: Callable[[], Instant] = lambda: Instant(time.time_ns() // 1_000),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._reporter = Reporter("charterer.dev/operator", instance)
        self._now = now
        self._clock = clock
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self._new: OrderedDict[_Key, _Series] = OrderedDict()
        self._pending = asyncio.Event()
        self.dropped = 0
        """Number of events that were never sent, because too many waited or the API server refused them."""

    def record(self, subject: EventSubject, reason: str, note: str, *, action: str, warning: bool = False) -> None:
        """Queue an event about ``subject``. ``reason`` and ``action`` are CamelCase words. Never blocks or raises."""
        key = _Key(subject, reason, action, note, warning)
        time_now, at = self._clock(), self._now()
        series = self._series.get(key)
        if series is not None and time_now - series.began < WINDOW:
            series.count += 1
            series.last = at
            self._series.move_to_end(key)
            return
        if len(self._new) >= PENDING:
            self.dropped += 1
            return
        self._series[key] = self._new[key] = _Series(at, at, time_now)
        self._series.move_to_end(key)
        while len(self._series) > REMEMBERED:
            self._series.popitem(last=False)
        self._pending.set()

    def said(self, subject: EventSubject, reason: str) -> bool:
        """Whether an event with this subject and reason began a series in the last ``WINDOW`` seconds."""
        began = (series.began for key, series in self._series.items() if (key.subject, key.reason) == (subject, reason))
        return any(self._clock() - at < WINDOW for at in began)

    @property
    def waiting(self) -> int:
        """Number of new events that are still to be sent."""
        return len(self._new)

    async def run(self) -> NoReturn:
        """Send events until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(UPDATE):
                    await self._pending.wait()
            await self._send(PACE)

    async def flush(self) -> None:
        """Send all waiting events now, before the process ends."""
        await self._send(0.0)

    async def _send(self, pace: float) -> None:
        self._pending.clear()
        while self._new:
            key, series = self._new.popitem(last=False)
            await self._create(key, series)
            await asyncio.sleep(pace)
        for key, series in list(self._series.items()):
            if series.name and series.count > series.written_count and self._clock() - series.written >= UPDATE:
                await self._update(key, series)
                await asyncio.sleep(pace)

    async def _create(self, key: _Key, series: _Series) -> None:
        body = event(
            key.subject,
            self._reporter,
            series.first,
            reason=key.reason,
            action=key.action,
            note=key.note,
            warning=key.warning,
        )
        try:
            await self._client.post(EVENTS.all(body["metadata"]["namespace"]), body)
        except ApiError as error:
            self.dropped += 1
            self._series.pop(key, None)
            log.debug("event %s of %s was not recorded: %s", key.reason, key.subject.name, error)
            return
        series.name, series.written_count, series.written = body["metadata"]["name"], 1, self._clock()

    async def _update(self, key: _Key, series: _Series) -> None:
        path = EVENTS.one(series.name, key.subject.namespace or "default")
        count = series.count
        series.written = self._clock()
        try:
            await self._client.merge_patch(
                path, {"series": {"count": count, "lastObservedTime": format_instant(series.last)}}
            )
        except (NotFound, Gone):
            self._series.pop(key, None)  # the Event has expired, so a repetition begins a new series
        except ApiError as error:
            log.debug("event %s of %s was not counted: %s", key.reason, key.subject.name, error)
        else:
            series.written_count = count
