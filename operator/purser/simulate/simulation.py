"""The simulation: events in order of time, and after each the planner's commands, carried out at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from purser.domain.billing import accrued
from purser.domain.budget import Budget, Mode, Selector
from purser.domain.ids import BudgetId, ClassId, JobId, PoolId, Rate, RentalId
from purser.domain.job import Allocation, ResizePolicy, RunOutcome, SpotPolicy, Widths
from purser.domain.money import ZERO, Money
from purser.domain.plan import Allocate, Plan, Release, Rent, moves_with
from purser.domain.rental import RentalPhase
from purser.domain.snapshot import Snapshot
from purser.domain.time import Instant, after
from purser.simulate import books
from purser.simulate.learning import Knowledge
from purser.simulate.market import Market, PoolModel
from purser.simulate.result import JobResult, Result
from purser.simulate.tasks import Task, new_task
from purser.simulate.truth import Application
from purser.simulate.workload import Submission

_AT_ONCE = 50
"""A planner that has commands so many times in a row at one instant will never come to rest."""

UNLIMITED = Money.parse("1000000000")
"""Dollars a month that are enough for anything."""

Planner = Callable[[Snapshot], Plan]


@dataclass(frozen=True, slots=True)
class Terms:
    """How jobs may run: their widths, resize and spot policy, weight."""

    widths: Widths
    resize: ResizePolicy = ResizePolicy.RESTART
    spot: SpotPolicy = SpotPolicy.NEVER
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens, whoever plans. ``start``: the instant of second 0.

    ``applications`` by name; ``class_of`` gives an application's class. ``restart_seconds``: from a run's begin to its
    first step, at the first start as well. ``checkpoint_seconds``: work of so long at most is lost with a spot node.
    ``until``: when it is over at the latest.
    """

    start: Instant
    submissions: tuple[Submission, ...]
    applications: Mapping[str, Application]
    pools: tuple[PoolModel, ...]
    budget: Budget
    terms: Callable[[Submission], Terms]
    restart_seconds: float = 30.0
    checkpoint_seconds: float = 600.0
    until: float = float("inf")


def new_budget(created: Instant, amount: Money = UNLIMITED, rate: Rate | None = None) -> Budget:
    """A budget that begins at ``created``; with ``rate``, that is its exchange rate whatever is spent."""
    return Budget(
        id=BudgetId("simulated"),
        uid="simulated",
        resource_version="1",
        generation=1,
        created=created,
        amount=amount,
        time_zone="UTC",
        selector=Selector((), ()),
        mode=Mode.ENFORCE,
        hard_limit=None,
        max_hourly_rate=None,
        opening_spend=ZERO,
        weights=(),
        balance=None,
        deleting=False,
        fixed_rate=rate,
    )


def class_of(application: str) -> ClassId:
    """The class of an application's jobs."""
    return ClassId(f"team/{application}")


class PlannerError(RuntimeError):
    """A planner that goes on giving commands though nothing happens, or gives one that cannot be carried out."""


@dataclass(slots=True)
class _Clock:
    """The future: what happens when. Events of one instant happen in the order in which they were put there."""

    start: Instant
    now: float = 0.0
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _put: int = 0

    def at(self, when: float, happens: Callable[[], None]) -> None:
        self._put += 1
        heappush(self._events, (when, self._put, happens))

    def step(self, until: float) -> bool:
        """Everything of the next instant happens; False when nothing is left before ``until``."""
        if not self._events or self._events[0][0] > until:
            return False
        self.now = self._events[0][0]
        while self._events and self._events[0][0] <= self.now:
            heappop(self._events)[2]()
        return True

    @property
    def instant(self) -> Instant:
        return after(self.start, self.now)


class Simulation:
    """One scenario under one planner, which knows of the classes what ``knowledge`` says whenever it is asked."""

    def __init__(self, scenario: Scenario, planner: Planner, knowledge: Knowledge) -> None:
        self._scenario = scenario
        self._planner = planner
        self._knowledge = knowledge
        self._profiles = knowledge.profiles()
        self._clock = _Clock(scenario.start)
        self._market = Market(scenario.pools, scenario.start)
        self._tasks: dict[JobId, Task] = {}
        self._ended: list[Task] = []
        self._budget = scenario.budget
        self._changed = False
        self._wake = float("inf")
        self._events = 0
        self._to_come = 0
        self._rented: list[tuple[float, int]] = []

    def run(self) -> Result:
        """Simulate to the end of the last job, or of the time."""
        for submission in self._scenario.submissions:
            self._clock.at(submission.at, lambda submission=submission: self._submitted(submission))  # type: ignore[misc]
        self._to_come = len(self._scenario.submissions)
        while self._clock.step(self._scenario.until):
            self._events += 1
            if self._changed:
                self._plan()
            if not self._to_come and not self._tasks and not self._market.rentals:
                break
        return self._result()

    # --- events -------------------------------------------------------------------------------------------------------

    def _submitted(self, submission: Submission) -> None:
        terms = self._scenario.terms(submission)
        task = new_task(
            submission,
            self._scenario.applications[submission.application],
            class_of(submission.application),
            self._budget.id,
            self._clock.instant,
            terms.widths,
            terms.resize,
            terms.spot,
            terms.weight,
        )
        self._tasks[task.job.id] = task
        self._to_come -= 1
        self._changed = True

    def _completes(self, task: Task, version: int) -> None:
        if task.version != version:
            return
        task.advance(self._clock.now)
        task.finished = self._clock.now
        self._budget = books.counted(self._budget, task.job, self._market.rentals, self._clock.instant)
        del self._tasks[task.job.id]
        self._ended.append(task)
        self._changed = True

    def _reports(self, task: Task, run: int) -> None:
        """The trainer of a run says what it measured, and goes on with the batch size that now seems best."""
        allocation = task.job.allocation
        if task.finished is not None or allocation is None or allocation.run != run:
            return
        task.advance(self._clock.now)
        self._knowledge.reported(task, self._clock.instant)
        batch = self._knowledge.batch(task)
        if batch != task.batch:
            task.batch = batch
            self._trains(task)
        profiles = self._knowledge.profiles()
        self._changed |= profiles is not self._profiles
        self._profiles = profiles
        self._clock.at(self._clock.now + self._knowledge.report_seconds, lambda: self._reports(task, run))

    def _ready(self, name: RentalId, uid: str) -> None:
        self._changed |= self._market.becomes_ready(name, uid, self._clock.instant)

    def _taken_back(self, name: RentalId, uid: str) -> None:
        """The cloud ends a spot node: its jobs lose what they did since their last checkpoint, and queue."""
        rental = self._market.rentals.get(name)
        if rental is None or rental.uid != uid:
            return
        for task in self._on(name):
            task.advance(self._clock.now)
            assert task.job.allocation is not None
            lost = min(self._scenario.checkpoint_seconds / 2, max(self._clock.now - task.trains_from, 0.0))
            task.loses(lost)
            task.version += 1
            task.stops(self._clock.instant, RunOutcome.INTERRUPTED)
        self._end(name)
        self._changed = True

    def _woken(self) -> None:
        self._wake = float("inf")
        self._changed = True

    # --- planning -----------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Ask the planner until it has nothing more to say at this instant."""
        for _ in range(_AT_ONCE):
            self._changed = False
            plan = self._planner(self._snapshot())
            for command in plan.commands:
                match command:
                    case Rent():
                        self._rent(command)
                    case Release(rental):
                        self._release(rental)
                    case Allocate(job, allocation):
                        task = self._tasks[job]
                        task.job = replace(
                            task.job,
                            predicted=task.job.predicted or command.predicted,
                            moves=moves_with(task.job, command),
                        )
                        self._allocate(task, allocation)
            if not plan.commands:
                self._wake_at(plan.again_at)
                self._rented.append((self._clock.now, len(self._market.rentals)))
                return
        raise PlannerError(f"at {self._clock.now:g} s: {_AT_ONCE} plans in a row had commands, lastly {plan.commands}")

    def _snapshot(self) -> Snapshot:
        now = self._clock.instant
        self._budget = books.opened(self._budget, self._market.rentals.values(), now)
        jobs = {}
        for name, task in self._tasks.items():
            task.advance(self._clock.now)
            jobs[name] = task.seen(now, self._knowledge.mean_work(task))
        return Snapshot(
            now=now,
            budgets={self._budget.id: self._budget},
            pools=dict(self._market.pools),
            surveys=self._market.surveys(now),
            profiles=self._profiles,
            jobs=jobs,
            rentals=dict(self._market.rentals),
            nodes=dict(self._market.nodes),
        )

    def _wake_at(self, again: Instant | None) -> None:
        if again is None:
            return
        when = max((again - self._scenario.start) / 1e6, self._clock.now + 1e-3)
        if when < self._wake:
            self._wake = when
            self._clock.at(when, self._woken)

    # --- commands -----------------------------------------------------------------------------------------------------

    def _rent(self, command: Rent) -> None:
        starts = self._market.rent(command, self._clock.instant)
        if starts is None:
            return
        rental = self._market.rentals[command.rental]
        name, uid = rental.id, rental.uid
        if starts <= 0.0:
            self._ready(name, uid)
        else:
            self._clock.at(self._clock.now + starts, lambda: self._ready(name, uid))
        lifetime = self._market.models[rental.pool].lifetime
        if lifetime is not None:
            self._clock.at(self._clock.now + starts + lifetime(), lambda: self._taken_back(name, uid))

    def _release(self, name: RentalId) -> None:
        rental = self._market.rentals[name]
        if self._on(name):
            self._market.rentals[name] = replace(rental, phase=RentalPhase.DRAINING)
        else:
            self._end(name)

    def _end(self, name: RentalId) -> None:
        rental, cost = self._market.end(name, self._clock.instant)
        self._budget = books.settled(self._budget, rental, cost, self._clock.instant)

    def _allocate(self, task: Task, allocation: Allocation | None) -> None:
        before = task.job.allocation
        task.advance(self._clock.now)
        task.version += 1
        if allocation is None:
            task.stops(self._clock.instant, RunOutcome.STOPPED)
        else:
            nodes = {place.rental: self._market.rentals[place.rental].node for place in allocation.placements}
            if task.started is None:
                task.started = self._clock.now
            task.restarts += 1
            task.trains_from = self._clock.now + self._scenario.restart_seconds
            task.runs(allocation, self._clock.instant, nodes)
            task.batch = self._knowledge.batch(task)
            self._trains(task)
            if self._knowledge.report_seconds < float("inf"):
                reports = task.trains_from + self._knowledge.report_seconds
                self._clock.at(reports, lambda: self._reports(task, allocation.run))
        for place in () if before is None else before.placements:
            rental = self._market.rentals.get(place.rental)
            if rental is not None and rental.phase is RentalPhase.DRAINING and not self._on(place.rental):
                self._end(place.rental)

    def _trains(self, task: Task) -> None:
        """It trains on, as it is now, until its end."""
        task.version += 1
        version = task.version
        self._clock.at(task.ends_at(), lambda: self._completes(task, version))

    def _on(self, name: RentalId) -> list[Task]:
        return [
            task
            for task in self._tasks.values()
            if task.job.allocation is not None and any(one.rental == name for one in task.job.allocation.placements)
        ]

    # --- money --------------------------------------------------------------------------------------------------------

    def _spent(self) -> Money:
        now = self._clock.instant
        running = sum((accrued(one, now) for one in self._market.rentals.values()), ZERO)
        return sum(self._market.spent.values(), running)

    # --- the result ---------------------------------------------------------------------------------------------------

    def _result(self) -> Result:
        now = self._clock.instant
        self._budget = books.opened(self._budget, self._market.rentals.values(), now)
        gpu_hours: dict[PoolId, float] = {}
        for pool, seconds in self._market.node_seconds.items():
            alive = sum((now - one.created) / 1e6 for one in self._market.rentals.values() if one.pool == pool)
            gpu_hours[pool] = (seconds + alive) * self._market.models[pool].gpus_per_node / 3600.0
        balance = self._budget.balance
        return Result(
            jobs=tuple(_job_result(task) for task in (*self._ended, *self._tasks.values())),
            rented_gpu_hours=gpu_hours,
            spent=self._spent(),
            periods=() if balance is None else balance.history,
            rented=tuple(self._rented),
            events=self._events,
            ended=self._clock.now,
        )


def _job_result(task: Task) -> JobResult:
    return JobResult(
        name=task.submission.name,
        application=task.submission.application,
        submitted=task.submission.at,
        started=task.started,
        finished=task.finished,
        restarts=max(task.restarts, 0),
        gpu_seconds=task.gpu_seconds,
    )
