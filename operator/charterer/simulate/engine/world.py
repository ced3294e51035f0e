"""The simulated world: jobs and machines as they are, what happens to them, and what a policy can do with them."""

from __future__ import annotations

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Allocation, RunOutcome
from charterer.domain.money import Price
from charterer.domain.plan import Rent
from charterer.domain.time import Instant
from charterer.simulate.engine.clock import Clock
from charterer.simulate.engine.domain_objects import DomainObjects, lasting, reporting
from charterer.simulate.engine.node_market import NodeMarket, SimMachine
from charterer.simulate.engine.policy import Policy
from charterer.simulate.engine.result import JobResult
from charterer.simulate.engine.scenario import Scenario
from charterer.simulate.engine.sim_job import SimJob
from charterer.simulate.engine.sim_ledger import SimLedger
from charterer.simulate.knowledge.learning import Knowledge


class PlannerError(RuntimeError):
    """A planner that goes on giving commands though nothing happens, or gives one that cannot be carried out."""


class World:
    """``tasks``: jobs in sight, in order of submission. ``changed``: whether anything happened that may matter.

    ``ended``: what came of complete ones, in order of completion. ``to_come``: how many are not yet submitted.
    ``profiles``: what is known of the classes. Reports and interruptions (runs that lost a machine) are counted.
    """

    def __init__(self, scenario: Scenario, knowledge: Knowledge, policy: Policy) -> None:
        self.scenario = scenario
        self.clock = Clock(scenario.start)
        self.market = NodeMarket(scenario.pools, scenario.start)
        self.books = SimLedger(scenario.budget, self.market, scenario.start)
        self.knowledge = knowledge
        self.profiles = knowledge.profiles()
        self.tasks: dict[JobId, SimJob] = {}
        self.ended: list[JobResult] = []
        self.changed = False
        self.reports = 0
        self.interruptions = 0
        self._policy = policy
        self._report_seconds = knowledge.report_seconds
        self._wakes = float("inf")
        self._coming = sorted(scenario.submissions, key=lambda one: one.at)
        self.to_come = len(self._coming)
        for name, model in self.market.models.items():
            for at, hourly in model.prices:
                self.clock.at(at, self._repriced, name, hourly)
        self._expect(0)

    def facts(self, task: SimJob) -> DomainObjects:
        """What of its TrainingJob stays as long as its allocation does."""
        scenario = self.scenario
        return lasting(task, scenario.budget.id, scenario.terms(task.submission), self.market.machines)

    # --- what a policy can do -----------------------------------------------------------------------------------------

    def rent(self, terms: Rent) -> None:
        """Ask for a machine; where the cloud has none, the pool cools."""
        machine = self.market.rent(terms, self.clock.instant)
        if machine is None:
            return
        model, now = machine.model, self.clock.now
        starts = model.start_seconds if model.starts is None else model.starts()
        if starts <= 0.0:
            self._becomes_ready(machine)
        else:
            self.clock.at(now + starts, self._becomes_ready, machine)
        if model.lifetime is not None:
            self.clock.at(now + starts + model.lifetime(), self._taken_back, machine)

    def release(self, rental: RentalId) -> None:
        """End a machine: at once, or when nobody uses it any more."""
        machine = self.market.machines[rental]
        if machine.users:
            self.market.drain(machine)
        else:
            self.books.end(machine, self.clock.instant)

    def allocate(self, task: SimJob, allocation: Allocation) -> None:
        """The task's next run begins there, and the former one, if any, is over; or its run is resized in place."""
        clock = self.clock
        task.advance(clock.now)
        resized = task.allocation is not None and task.allocation.run == allocation.run
        if task.allocation is not None:
            self._leaves(task, task.allocation)
        machines = self.market.machines
        for place in allocation.placements:
            machine = machines.get(place.rental)
            if machine is None or machine.ready is None:
                raise PlannerError(
                    f"at {clock.now:g} s: job {task.id} was given GPUs of {place.rental}, which is not ready"
                )
            machine.users[task.id] = task
        if not resized and allocation.run != task.runs + 1:
            raise PlannerError(f"at {clock.now:g} s: job {task.id} was given run {allocation.run} after {task.runs}")
        if resized:
            task.resized(allocation, clock.now + self.scenario.resize_seconds, clock.instant)
        else:
            task.begins(allocation, clock.now + self.scenario.restart_seconds, clock.instant)
        self._trains(task, self.knowledge.batch(task))
        if not resized and self._report_seconds < float("inf"):
            clock.at(task.trains_from + self._report_seconds, self._reports, task, allocation.run)

    def stop(self, task: SimJob) -> None:
        """The task's run is over; it waits."""
        task.advance(self.clock.now)
        if task.allocation is not None:
            self._leaves(task, task.allocation)
        task.stops(self.clock.instant, RunOutcome.STOPPED)

    def wake_at(self, again: Instant) -> None:
        """Something may matter at that instant, or a millisecond from now, even if nothing happens before."""
        when, least = (again - self.clock.start) / 1e6, self.clock.now + 1e-3
        if when < least:
            when = least
        if when < self._wakes:
            self._wakes = when
            self.clock.at(when, self._woken)

    # --- what happens -------------------------------------------------------------------------------------------------

    def _expect(self, number: int) -> None:
        """The submission of that number will be; each lets the next be expected, so that few events are to come."""
        if number < len(self._coming):
            self.clock.before_all(self._coming[number].at, number, self._submitted, number)

    def _submitted(self, number: int) -> None:
        submission, scenario, clock = self._coming[number], self.scenario, self.clock
        application = scenario.applications[submission.application]
        name, now = JobId(submission.name), clock.now
        task = SimJob(name, submission, application, scenario.classes(submission, application), clock.instant, now, now)
        self.tasks[name] = task
        self.to_come -= 1
        self.changed = True
        self._policy.arrived(task)
        self._expect(number + 1)

    def _repriced(self, pool: PoolId, hourly: Price) -> None:
        self.market.reprice(pool, hourly, self.clock.instant)
        self.changed = True

    def _completes(self, task: SimJob, version: int) -> None:
        if task.version != version:
            return
        task.completes(self.clock.now)
        if task.predicted is not None:
            now = self.clock.instant
            self.books.count(reporting(self.facts(task), task.done, None, now), now)
        assert task.allocation is not None
        self._leaves(task, task.allocation)
        del self.tasks[task.id]
        self.ended.append(task.result())
        self.changed = True
        self._policy.completed(task)

    def _reports(self, task: SimJob, run: int) -> None:
        """The trainer of a run says what it measured, and goes on with the batch size that now seems best."""
        if task.runs != run or task.allocation is None or task.finished is not None:
            return
        task.advance(self.clock.now)
        self.reports += 1
        self.knowledge.reported(task, self.clock.instant)
        batch = self.knowledge.batch(task)
        if batch != task.batch:
            self._trains(task, batch)
        profiles = self.knowledge.profiles()
        self.changed |= profiles is not self.profiles
        self.profiles = profiles
        self.clock.at(self.clock.now + self._report_seconds, self._reports, task, run)

    def _becomes_ready(self, machine: SimMachine) -> None:
        if not machine.ended:
            self.market.becomes_ready(machine, self.clock.instant)
            self.changed = True
            self._policy.ready(machine)

    def _taken_back(self, machine: SimMachine) -> None:
        """The cloud ends a spot machine: its jobs lose what they did since their last checkpoint, and queue."""
        if machine.ended:
            return
        for task in tuple(machine.users.values()):
            held = task.allocation
            assert held is not None
            task.advance(self.clock.now)
            done = max(self.clock.now - task.trains_from, 0.0)
            task.loses(min(self.scenario.checkpoint_seconds / 2, done))
            self._leaves(task, held)
            task.stops(self.clock.instant, RunOutcome.INTERRUPTED)
            self.interruptions += 1
            self._policy.interrupted(task, held)
        if not machine.ended:
            self.books.end(machine, self.clock.instant)
        self.changed = True
        self._policy.taken(machine)

    def _woken(self) -> None:
        self._wakes = float("inf")
        self.changed = True

    # --- what follows -------------------------------------------------------------------------------------------------

    def _trains(self, task: SimJob, batch: int) -> None:
        """It trains on with that batch size, until its end if nothing happens before."""
        self.clock.at(task.trains(batch), self._completes, task, task.version)

    def _leaves(self, task: SimJob, held: Allocation) -> None:
        """What it held is free; a machine that waited for that is ended."""
        for place in held.placements:
            machine = self.market.machines.get(place.rental)
            if machine is not None:
                machine.users.pop(task.id, None)
                if machine.draining and not machine.users:
                    self.books.end(machine, self.clock.instant)
