"""The loop observes, plans, writes the intents, takes the next steps and publishes. The loop is level-triggered and has
no memory.

Between two turns, the loop stores only three things about its own attempts: the mutations in flight, the pauses of
objects whose mutation failed, and memos that make the next plan faster. If a crash loses them, nothing is lost but
time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from charterer.cluster.errors import ApiError
from charterer.controller.outcome import ActionOutcome, Executor, Held
from charterer.controller.surveys import Backoff
from charterer.domain.ids import StepKey, StepKind
from charterer.domain.plan import Allocate, Command, Plan, ReasonCode, Release, Rent
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import Step, Wait
from charterer.domain.time import Instant, after, seconds_between
from charterer.incremental import Memo
from charterer.lifecycle.next_steps import next_steps
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.set_aside import Faults, PlanAroundFaults, plan_around
from charterer.providers.errors import ProviderError, Throttled
from charterer.spans import Span, no_span

# Rents wait until the demand for nodes has not changed for a moment, so that jobs that arrive together are planned
# together.
#
# Without this wait, the first of three jobs would rent nodes for itself alone. Half a second later, the plan for all
# three would release these nodes, which would cost their billing minimum. Idle nodes are released by the same rule,
# since the next job of a batch may use them. Karpenter batches in the same way.


_BATCHED_RELEASES: Final = frozenset({ReasonCode.IDLE, ReasonCode.NOT_NEEDED, ReasonCode.INCOMPLETE_GANG})

_Demand = Counter[tuple[str, str]]
"""Nodes to rent by pool and budget, and rentals to release by name."""


class RentBatch:
    """Holds commands back while the demand for nodes changes. Times are seconds of one monotonic clock."""

    def __init__(self, idle_seconds: float, longest_seconds: float) -> None:
        self._idle = idle_seconds
        self._longest = longest_seconds
        self._demand: _Demand = Counter()
        self._began = 0.0
        self._changed = 0.0
        self._let_through: _Demand = Counter()

    def ready(self, commands: Iterable[Command], now: float) -> tuple[Sequence[Command], float | None]:
        """The commands to carry out now, and the seconds until those held back are due, or None if none is held back.

        Once a command was let through, it is not held back again while plans still contain it, for example after a
        failure.
        """
        wanted = list(commands)
        demand = Counter(key for command in wanted if (key := _key(command)) is not None)
        self._let_through &= demand
        if demand <= self._let_through:
            self._demand = Counter()
            return wanted, None
        if not self._demand:
            self._began = now
        if demand != self._demand:
            self._demand, self._changed = demand, now
        due = min(self._changed + self._idle, self._began + self._longest)
        if now >= due:
            self._let_through, self._demand = demand, Counter()
            return wanted, None
        return [command for command in wanted if _key(command) is None], due - now


def _key(command: Command) -> tuple[str, str] | None:
    if isinstance(command, Rent):
        return command.pool, command.budget
    if isinstance(command, Release) and command.reason.code in _BATCHED_RELEASES:
        return "", command.rental
    return None


_log = logging.getLogger(__name__)

_COOLDOWN_FACTOR = 1.0
"""The pause before the next plan, as a multiple of the last planning time. At most half of the thread's time is thus
spent on plans. The other half is left for mutations, reports and status writes.
"""
_SHORTEST_WAIT_SECONDS = 0.05
"""Least seconds to wait for an instant that a plan named. If the instant has just passed, the loop would spin without
this wait.
"""
_FAILED_TURN_SECONDS = 5.0
"""Seconds from a failed turn to the next turn. If all turns fail, ``seconds_since_turn`` grows."""
_FORGET_RETRY_SECONDS = 60.0
"""Seconds after the end of a pause at which the length of the pause is forgotten. The next failure then causes a first
pause.
"""


@dataclass(frozen=True, slots=True)
class LoopTiming:
    """Seconds between the loop's actions.

    ``debounce_seconds``: to gather events before planning. ``idle_seconds``: between two plans if nothing happens.
    ``first_retry_seconds``: the pause after a first failure. Each further failure doubles the pause, up to
    ``last_retry_seconds``. If the decision was only out of date, the longest pause is ``last_stale_seconds``.

    Nodes are rented ``batch_idle_seconds`` after the demand for nodes last changed, or at the latest
    ``batch_longest_seconds`` after the demand arose.
    """

    debounce_seconds: float = 0.02
    idle_seconds: float = 15.0
    first_retry_seconds: float = 0.25
    last_retry_seconds: float = 30.0
    last_stale_seconds: float = 2.0
    batch_idle_seconds: float = 1.0
    batch_longest_seconds: float = 5.0


class TurnObserver(Protocol):
    """Receives the decisions and results of each turn to publish them as metrics, status views and Events."""

    def planned(self, snapshot: Snapshot, decided: Plan, solutions: Sequence[BudgetSolution], seconds: float) -> None:
        """A plan was made from these ``solutions`` (none if it failed) in ``seconds``."""

    def done(self, action: Command | Step, outcome: ActionOutcome, message: str) -> None:
        """A command or step ended with this ``outcome``. ``message``: the error or the obstacle, otherwise empty."""

    def turned(self, *, failed: bool) -> None:
        """A turn ended. ``failed``: no plan could be made, or something other than an action raised."""


class Loop:
    """One planning loop. ``observe`` makes a snapshot of the present. ``executor`` carries out one mutation at a time.

    The loop takes a turn soon after ``awake`` is set. ``in_flight`` has the keys of the steps that it has begun and
    that have not ended. ``span`` makes the spans of turns and of their commands and steps. Use it only in the running
    event loop's thread, whose clock it uses.
    """

    def __init__(
        self,
        observe: Callable[[], Snapshot],
        now: Callable[[], Instant],
        executor: Executor,
        observer: TurnObserver,
        awake: asyncio.Event,
        in_flight: set[StepKey],
        timing: LoopTiming,
        span: Span = no_span,
    ) -> None:
        self._observe = observe
        self._now = now
        self._executor = executor
        self._observer = observer
        self._timing = timing
        self._span = span
        self._clock = asyncio.get_running_loop().time
        self._awake = awake
        self._in_flight = in_flight
        self._tasks: set[asyncio.Task[None]] = set()
        self._backoff: Backoff[StepKey] = Backoff(self._clock, timing.first_retry_seconds)
        self._plan_seconds = 0.0
        self._batch = RentBatch(timing.batch_idle_seconds, timing.batch_longest_seconds)
        self._plans = Memo()
        self._faults: Faults = {}
        self._failures: dict[str, str] = {}
        self._awaited: dict[StepKey, str] = {}
        self._steps = Memo()
        self._turned: float | None = None
        self._failed = False

    def seconds_since_turn(self) -> float:
        """Seconds since the end of the last turn. Before the first turn, seconds since ``run`` began, or 0 if it has
        not begun.
        """
        return 0.0 if self._turned is None else self._clock() - self._turned

    async def run(self) -> None:
        """Take a turn after each event and at each instant that the last turn named, until cancelled."""
        again_at: Instant | None = None
        self._turned = self._clock()
        try:
            while True:
                await self._rest(again_at)
                try:
                    again_at = await self.turn()
                except Exception as error:
                    self._log_once("a turn", error)
                    self._failed = True
                    again_at = after(self._now(), _FAILED_TURN_SECONDS)
                else:
                    self._turned = self._clock()
                self._observer.turned(failed=self._failed)
        finally:
            for task in self._tasks:
                task.cancel()

    async def turn(self) -> Instant | None:
        """Observe, plan, write the intents and wait for them, start the next steps. Returns the next turn's time."""
        with self._span("turn", {}):
            return await self._turn()

    async def _turn(self) -> Instant | None:
        began = self._clock()
        with self._span("observe", {}):
            snapshot = self._observe()
        with self._span("plan", {}):
            decided = self._plan(snapshot)
        self._plan_seconds = self._clock() - began
        commands, held_seconds = self._batch.ready(decided.commands, self._clock())
        if commands:
            await self._write_intents(commands)
            snapshot = self._observe()
        steps, waits = next_steps(snapshot, self._steps)
        self._log_waits(waits)
        for key, step in steps.items():
            if self._free(key):
                self._begin(key, step)
        self._backoff.forget_ended(_FORGET_RETRY_SECONDS)
        instants = [wait.until for wait in waits.values() if wait.until is not None]
        if held_seconds is not None:
            instants.append(after(self._now(), held_seconds))
        return min([*instants, *([] if decided.again_at is None else [decided.again_at])], default=None)

    def _plan(self, snapshot: Snapshot) -> Plan:
        began = self._clock()
        made = plan_around(snapshot, self._plans, self._faults)
        self._log_faults(made)
        self._faults = made.faults
        self._failed = made.error is not None
        try:
            self._observer.planned(snapshot, made.plan, made.solutions, self._clock() - began)
        except Exception as error:
            self._log_once("publishing", error)
            self._failed = True
        return made.plan

    def _log_faults(self, made: PlanAroundFaults) -> None:
        """Log each object that was newly set aside, and a plan that failed for no single object."""
        for at, fault in made.faults.items():
            if at not in self._faults:
                _log.error("%s %s is set aside: %s", at.kind, at.id, fault.problem.message, exc_info=fault.error)
        if made.error is not None:
            self._log_once("planning", made.error)

    def _log_waits(self, waits: Mapping[StepKey, Wait]) -> None:
        """Log the errors among the waits, and at level DEBUG each new wait."""
        for key, wait in waits.items():
            if wait.error is not None:
                self._log_once(f"the next step of {key}", wait.error)
        if _log.isEnabledFor(logging.DEBUG):
            for key, wait in waits.items():
                if self._awaited.get(key) != wait.reason:
                    _log.debug("%s waits: %s", key, wait.reason)
            self._awaited = {key: wait.reason for key, wait in waits.items()}

    def _log_once(self, what: str, error: Exception) -> None:
        """Log an error with its traceback, unless it equals the last logged error of its kind."""
        if self._failures.get(what) != repr(error):
            self._failures[what] = repr(error)
            _log.error("%s fails; please report it", what, exc_info=error)

    async def _rest(self, again_at: Instant | None) -> None:
        delay = self._timing.idle_seconds
        if again_at is not None:
            delay = min(delay, max(seconds_between(self._now(), again_at), _SHORTEST_WAIT_SECONDS))
        try:
            async with asyncio.timeout(delay):
                await self._awake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(max(self._timing.debounce_seconds, _COOLDOWN_FACTOR * self._plan_seconds))
        self._awake.clear()

    async def _write_intents(self, commands: Iterable[Command]) -> None:
        """Carry out the commands and wait for them, so that no plan is made while an intent is being written.

        The commands of one plan do not depend on each other. So a command whose object has a mutation in flight, or a
        pause after a failure, does not delay the other commands.
        """
        free = [(key, command) for command in commands if self._free(key := command_key(command))]
        outcomes = await asyncio.gather(*(self._attempt(key, command) for key, command in free))
        if any(outcome is not ActionOutcome.DONE for outcome in outcomes):
            self._awake.set()

    def _free(self, key: StepKey) -> bool:
        return key not in self._in_flight and not self._backoff.pausing(key)

    def _begin(self, key: StepKey, step: Step) -> None:
        async def carry_out() -> None:
            try:
                await self._attempt(key, step)
            finally:
                self._in_flight.discard(key)
                self._awake.set()

        self._in_flight.add(key)
        task = asyncio.create_task(carry_out(), name=str(key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attempt(self, key: StepKey, action: Command | Step) -> ActionOutcome:
        """Carry out one mutation. After a failure its key gets a pause that grows with each failure."""
        least = 0.0
        try:
            with self._span(type(action).__name__, {"charterer.object": str(key)}):
                outcome = await self._executor.execute(action)
            message = ""
        except Held as held:
            outcome, message = ActionOutcome.HELD, str(held)
            _log.info("%s %s: held: %s", key, type(action).__name__, message)
        except Exception as error:
            outcome, message = ActionOutcome.FAILED, f"{type(error).__name__}: {error}"
            least = error.retry_after if isinstance(error, ApiError | Throttled) else 0.0
            _log.warning("%s %s failed: %s", key, type(action).__name__, message, exc_info=_unexpected(error))
        else:
            _log.info("%s %s: %s%s", key, type(action).__name__, outcome.value, _reason(action))
        self._observer.done(action, outcome, message)
        if outcome is ActionOutcome.DONE:
            self._backoff.succeeded(key)
        else:
            self._pause(key, outcome, least)
        return outcome

    def _pause(self, key: StepKey, outcome: ActionOutcome, least: float) -> None:
        """Begin a pause. ``least``: seconds that the server asked for, up to the longest pause."""
        timing = self._timing
        longest = timing.last_stale_seconds if outcome is ActionOutcome.STALE else timing.last_retry_seconds
        seconds = self._backoff.failed(key, longest, least)
        asyncio.get_running_loop().call_later(seconds, self._awake.set)


def command_key(command: Command) -> StepKey:
    """The key of the object that a command writes."""
    match command:
        case Rent() | Release():
            return StepKey(StepKind.RENTAL, command.rental)
        case Allocate():
            return StepKey(StepKind.JOB, command.job)


def _reason(action: Command | Step) -> str:
    return (
        f" ({action.reason.code.value}: {action.reason.message})"
        if isinstance(action, Rent | Release | Allocate)
        else ""
    )


def _unexpected(error: Exception) -> bool:
    """Whether the error comes neither from a cluster nor from a cloud, so that the log needs a traceback."""
    return not isinstance(error, ApiError | ProviderError)
