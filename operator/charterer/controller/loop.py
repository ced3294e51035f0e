"""The loop: see, plan, write the intents, take the next steps, show. Level-triggered; nothing is remembered.

What it keeps between two turns is only about its own attempts: which mutations are in flight, and how long to leave
a thing alone whose mutation failed; and what makes the next plan faster. Losing that (a crash) costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from charterer.cluster.errors import ApiError
from charterer.controller.outcome import ActionOutcome, Executor
from charterer.domain.plan import Allocate, Command, Plan, Release, Rent
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import Step
from charterer.domain.time import Instant, seconds_between
from charterer.incremental import Memo
from charterer.lifecycle.next_steps import next_steps
from charterer.policy.planner import plan
from charterer.providers.errors import ProviderError

_log = logging.getLogger(__name__)

_COOLDOWN_FACTOR = 2.0
"""So many times as long as a thought took nothing is thought: what was decided, seen and shown needs the thread too."""


@dataclass(frozen=True, slots=True)
class LoopTiming:
    """Seconds: to gather events before thinking, between two thoughts when nothing happens, and of retries."""

    debounce_seconds: float = 0.02
    idle_seconds: float = 15.0
    first_retry_seconds: float = 0.25
    last_retry_seconds: float = 30.0
    last_stale_seconds: float = 2.0


class TurnObserver(Protocol):
    """Who is shown each turn: metrics, status views, events."""

    def planned(self, snapshot: Snapshot, decided: Plan, seconds: float) -> None:
        """A plan was made."""

    def done(self, do: Command | Step, outcome: ActionOutcome, message: str) -> None:
        """A command or step was carried out, found stale, or failed with ``message``."""


class Loop:
    """One planning loop. ``see`` joins what is known now; ``execute`` carries out one mutation."""

    def __init__(
        self,
        see: Callable[[], Snapshot],
        now: Callable[[], Instant],
        executor: Executor,
        witness: TurnObserver,
        pace: LoopTiming | None = None,
    ) -> None:
        self._see = see
        self._now = now
        self._executor = executor
        self._witness = witness
        self._pace = pace or LoopTiming()
        self._wake = asyncio.Event()
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._retry: dict[str, _Retry] = {}
        self._thought = 0.0
        self._memo = Memo()
        self.turned = time.monotonic()

    def wake(self) -> None:
        """Something happened: think again soon. For the loop's own thread."""
        self._wake.set()

    def busy(self, key: str) -> bool:
        """Whether a mutation of this object is in flight."""
        return key in self._in_flight

    async def run(self) -> None:
        """Turn whenever something happened or an instant that the plan named has come, until cancelled."""
        again_at: Instant | None = None
        try:
            while True:
                await self._rest(again_at)
                again_at = await self.turn()
                self.turned = time.monotonic()
        finally:
            for task in self._in_flight.values():
                task.cancel()

    async def turn(self) -> Instant | None:
        """See, plan, write the intents and wait for them, start the next steps. Returns when to look again."""
        began = time.perf_counter()
        snapshot, decided = self._think()
        self._thought = time.perf_counter() - began
        if decided.commands:
            await self._write_intents(decided.commands)
            snapshot = self._see()
        steps, waits = next_steps(snapshot)
        for key, step in steps.items():
            if self._free(key):
                self._begin(key, step)
        self._retry = {key: retry for key, retry in self._retry.items() if retry.until > time.monotonic() - 60}
        instants = [wait.until for wait in waits.values() if wait.until is not None]
        return min([*instants, *([] if decided.again_at is None else [decided.again_at])], default=None)

    def _think(self) -> tuple[Snapshot, Plan]:
        snapshot = self._see()
        began = time.perf_counter()
        decided = plan(snapshot, self._memo)
        self._witness.planned(snapshot, decided, time.perf_counter() - began)
        return snapshot, decided

    async def _rest(self, again_at: Instant | None) -> None:
        delay = self._pace.idle_seconds
        if again_at is not None:
            delay = min(delay, max(seconds_between(self._now(), again_at), 0.05))
        try:
            async with asyncio.timeout(delay):
                await self._wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(max(self._pace.debounce_seconds, _COOLDOWN_FACTOR * self._thought))
        self._wake.clear()

    async def _write_intents(self, commands: Iterable[Command]) -> None:
        """Carry out the commands and wait for them: no plan is made while an intent is in the air.

        The commands of a plan rely on nothing that another of them does, so those that must be left for later (their
        object has a mutation in flight, or is left alone after a failure) hold no others up.
        """
        free = [(key, command) for command in commands if self._free(key := command_key(command))]
        outcomes = await asyncio.gather(*(self._attempt(key, command) for key, command in free))
        if any(outcome is not ActionOutcome.DONE for outcome in outcomes):
            self._wake.set()

    def _free(self, key: str) -> bool:
        if key in self._in_flight:
            return False
        retry = self._retry.get(key)
        return retry is None or time.monotonic() >= retry.until

    def _begin(self, key: str, step: Step) -> None:
        async def carry_out() -> None:
            try:
                await self._attempt(key, step)
            finally:
                del self._in_flight[key]
                self._wake.set()

        self._in_flight[key] = asyncio.create_task(carry_out(), name=key)

    async def _attempt(self, key: str, do: Command | Step) -> ActionOutcome:
        """One mutation. A failure is logged, and the key left alone for a while (doubling up to the last)."""
        try:
            outcome = await self._executor.execute(do)
            message = ""
        except Exception as error:
            outcome, message = ActionOutcome.FAILED, f"{type(error).__name__}: {error}"
            _log.warning("%s %s failed: %s", key, type(do).__name__, message, exc_info=_unexpected(error))
        else:
            _log.info("%s %s: %s%s", key, type(do).__name__, outcome.value, _reason(do))
        self._witness.done(do, outcome, message)
        if outcome is ActionOutcome.DONE:
            self._retry.pop(key, None)
        else:
            self._hold_back(key, outcome)
        return outcome

    def _hold_back(self, key: str, outcome: ActionOutcome) -> None:
        last = self._retry.get(key)
        most = self._pace.last_stale_seconds if outcome is ActionOutcome.STALE else self._pace.last_retry_seconds
        delay = self._pace.first_retry_seconds if last is None else min(last.delay * 2, most)
        self._retry[key] = _Retry(time.monotonic() + delay, delay)
        asyncio.get_running_loop().call_later(delay, self._wake.set)


@dataclass(frozen=True, slots=True)
class _Retry:
    until: float
    delay: float


def command_key(command: Command) -> str:
    """The key of the object that a command writes, in the key space of ``lifecycle.next_steps``."""
    match command:
        case Rent() | Release():
            return f"rental/{command.rental}"
        case Allocate():
            return f"job/{command.job}"


def _reason(do: Command | Step) -> str:
    return f" ({do.reason.why.value}: {do.reason.message})" if isinstance(do, Rent | Release | Allocate) else ""


def _unexpected(error: Exception) -> bool:
    """Whether the error is none that a cluster or a cloud makes: then the log wants a traceback."""
    return not isinstance(error, ApiError | ProviderError)
