"""The simulated world: jobs and machines as they are, the events of their lives, and the actions of a policy."""

from __future__ import annotations

from collections.abc import Callable

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Allocation, RunOutcome
from charterer.domain.money import Price
from charterer.domain.plan import Rent
from charterer.domain.pool import BAND_ENDS, CapacityType
from charterer.domain.time import Instant, after
from charterer.tools.simulator.engine.events import Knowledge, WorldEvents
from charterer.tools.simulator.engine.shared_gpus import Clock, SharedGpus, SharedRun
from charterer.tools.simulator.model.domain_objects import LastingFields, SimLedger, lasting_fields, training_job
from charterer.tools.simulator.model.node_market import NodeMarket, PoolModel, SimMachine
from charterer.tools.simulator.model.result import JobResult
from charterer.tools.simulator.model.scenario import Scenario
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.model.workload import SimSession

# The events of interactive jobs: cells arrive, wait for a GPU, run, and end.


class Sessions:
    """The interactive jobs.

    ``changed`` is called when anything of interest happens, ``over`` when a job's last cell ends.
    """

    def __init__(self, clock: Clock, changed: Callable[[], None], over: Callable[[SimJob], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._over = over

    def begin(self, job: SimJob, session: SimSession) -> None:
        """Begin with a job that was submitted. Its owner now thinks about the first cell."""
        self._think(job, session)

    def run_starts(self, job: SimJob, session: SimSession) -> None:
        """Give the job GPUs. Once the worker of this run is ready, the run serves all requests so far."""
        session.stop(answer=False)
        session.served = session.asks
        self._clock.at(job.training_from, self._worker_ready, job, session, session.event, self._clock.now)

    def _think(self, job: SimJob, session: SimSession) -> None:
        cell = session.notebook.cells[session.cell]
        self._clock.at(self._clock.now + cell.think, self._cell_comes, job, session)

    def _cell_comes(self, job: SimJob, session: SimSession) -> None:
        session.asked_at = self._clock.now
        session.asks += 1
        if session.ready:
            session.served = session.asks
            self._run_cell(job, session)
        self._happened(job)

    def _worker_ready(self, job: SimJob, session: SimSession, event: int, given: float) -> None:
        if session.event != event:
            return
        now = self._clock.now
        session.ready, session.idle_since, session.start_seconds = True, now, now - given
        if session.asked_at is not None:
            self._run_cell(job, session)
        self._happened(job)

    def _run_cell(self, job: SimJob, session: SimSession) -> None:
        now = self._clock.now
        session.busy, session.idle_since = True, None
        seconds = session.notebook.cells[session.cell].seconds
        self._clock.at(now + seconds, self._cell_ends, job, session, session.event)
        if len(session.waits) == session.cell and session.asked_at is not None:
            session.waits.append(now - session.asked_at)

    def _cell_ends(self, job: SimJob, session: SimSession, event: int) -> None:
        if session.event != event or not session.busy:
            return
        session.busy, session.asked_at, session.idle_since = False, None, self._clock.now
        session.cell += 1
        if session.over:
            self._over(job)
        else:
            self._think(job, session)
        self._happened(job)

    def _happened(self, job: SimJob) -> None:
        job.version += 1
        self._changed()


_DAY = 86_400.0
_PATIENCE_SECONDS = 7 * _DAY
"""Seconds without progress after which waiting jobs count as stuck. The time is so long because the planner expects
waits by the hour of the week.
"""
_LEAST_PROGRESS = 1e-9
"""Least fraction of a job that counts as progress. Rounding errors are smaller."""


class PlannerError(RuntimeError):
    """A planner gives commands without end although nothing happens, or gives a command that cannot be carried out."""


class World:
    """A simulated cluster and cloud.

    ``jobs``: submitted jobs that are not complete, in order of submission.
    ``unsubmitted``: number of jobs that are still to be submitted.
    ``completed``: the results of complete jobs, in order of completion.
    ``changed``: whether anything happened that may matter to a policy.
    ``profiles``: what is known of the classes.
    ``reports``, ``interruptions``: number of reports, and of runs that lost a machine.
    ``shared_gpus``: which jobs are on which GPUs, or None if jobs may not share GPUs.
    """

    def __init__(self, scenario: Scenario, knowledge: Knowledge, listener: WorldEvents) -> None:
        self.scenario = scenario
        self.clock = Clock(scenario.start)
        self.market = NodeMarket(scenario.pools, scenario.start)
        self.ledger = SimLedger(scenario.budget, self.market, scenario.start)
        self.knowledge = knowledge
        self.profiles = knowledge.profiles()
        self.jobs: dict[JobId, SimJob] = {}
        self.completed: list[JobResult] = []
        self.changed = False
        self.reports = 0
        self.interruptions = 0
        self._listener = listener
        self._progressed_at = 0.0
        self._changes_to_come = 0
        fixed = scenario.budget.fixed_rate is not None
        # If the amount limits spending, this time includes the beginnings of two periods, each of which brings new
        # money.
        self._patience = _PATIENCE_SECONDS if fixed else 2 * scenario.budget.calendar.usual_seconds + 4 * _DAY
        self._next_wake = float("inf")
        self._submissions = sorted(scenario.submissions, key=lambda submission: submission.at)
        self.unsubmitted = len(self._submissions)
        for pool, model in self.market.models.items():
            for at, hourly in model.later_prices:
                self.clock.at(at, self._reprice, pool, hourly)
            for at, nodes in model.later_stock:
                self.clock.at(at, self._restock, pool, nodes)
            for at, nodes in model.later_quota:
                self.clock.at(at, self._change_quota, pool, nodes)
            self._changes_to_come += len(model.later_prices) + len(model.later_stock) + len(model.later_quota)
        self._sessions = Sessions(self.clock, self._session_changed, self._session_over)
        self.shared_gpus: SharedGpus | None = None
        if scenario.pairs is not None:
            self.shared_gpus = SharedGpus(self.clock, self.market, scenario.pairs, self._train_on)
        self._schedule_submission(0)

    def lasting_fields(self, job: SimJob) -> LastingFields:
        """The fields of the job's TrainingJob that stay the same while its allocation does."""
        scenario = self.scenario
        return lasting_fields(job, scenario.budget.id, scenario.terms(job.submission), self.market.machines)

    @property
    def stuck(self) -> bool:
        """Whether all jobs wait in vain, or lose their work again and again.

        Three conditions must hold: no job is still to be submitted, no pool will change, and for a long time no job has
        completed, made more progress than ever, or kept its run.
        """
        since = self._progressed_at
        if self.unsubmitted or self._changes_to_come or self.clock.now - since <= self._patience:
            return False
        begin = after(self.clock.start, since)
        return not any(job.allocation is not None and job.allocation.since <= begin for job in self.jobs.values())

    # --- actions of a policy ------------------------------------------------------------------------------------------

    def rent(self, order: Rent) -> None:
        """Ask for a machine.

        If the cloud has none, the pool cools down. Raises PlannerError if the pool already has its most nodes.
        """
        most = self.market.models[order.pool].max_nodes
        if self.market.live[order.pool] >= most:
            raise PlannerError(f"at {self.clock.now:g} s: pool {order.pool} may have {most} nodes, and has them")
        machine = self.market.rent(order, self.clock.instant)
        if machine is None:
            return
        model, now = machine.model, self.clock.now
        start_seconds = model.start_seconds if model.draw_start_seconds is None else model.draw_start_seconds()
        if start_seconds <= 0.0:
            self._machine_ready(machine)
        else:
            self.clock.at(now + start_seconds, self._machine_ready, machine)
        if model.draw_lifetime is not None:
            self.clock.at(now + start_seconds + model.draw_lifetime(machine.in_pool), self._take_back, machine)

    def release(self, rental: RentalId) -> None:
        """End a machine. If jobs are on it, the machine ends when its last job leaves."""
        machine = self.market.machines[rental]
        if machine.users:
            self.market.drain(machine)
        else:
            self.ledger.end(machine, self.clock.instant)

    def allocate(self, job: SimJob, allocation: Allocation, shared: SharedRun | None = None) -> None:
        """Start the job's next run on this allocation, which ends its present run. Or resize the present run in place.

        ``shared``: the GPUs that the run gets. None means any GPUs without a job. Raises PlannerError if a machine is
        not ready, a GPU is not available, or the number of the run is not the next one.
        """
        clock = self.clock
        job.advance(clock.now)
        self._keep_progress(job)
        resized = job.allocation is not None and job.allocation.run == allocation.run
        if job.allocation is not None:
            self._free(job, job.allocation)
        machines = self.market.machines
        for place in allocation.placements:
            machine = machines.get(place.rental)
            if machine is None or machine.ready is None:
                raise PlannerError(
                    f"at {clock.now:g} s: job {job.id} was given GPUs of {place.rental}, which is not ready"
                )
            machine.users[job.id] = job
        if not resized and allocation.run != job.runs + 1:
            raise PlannerError(f"at {clock.now:g} s: job {job.id} was given run {allocation.run} after {job.runs}")
        if resized:
            self._resize(job, allocation, shared)
            return
        model = self.market.models[allocation.option.pool]
        job.start_run(allocation, model.gpu_type, clock.now + self._restart_seconds(model), clock.instant)
        self._enter(job, allocation, shared)
        if job.session is not None:
            job.version += 1
            self._sessions.run_starts(job, job.session)
            return
        self._plan_checkpoints(job)
        self._train(job, self.knowledge.batch(job))
        if self.knowledge.report_seconds < float("inf"):
            clock.at(job.training_from + self.knowledge.report_seconds, self._report, job, allocation.run)

    def _enter(self, job: SimJob, allocation: Allocation, shared: SharedRun | None) -> None:
        """Put the job on its GPUs, if the simulation follows single GPUs."""
        try:
            if self.shared_gpus is not None:
                self.shared_gpus.enter(job, allocation, shared)
            elif shared is not None:
                raise ValueError(f"GPUs {shared.gpus}, and the scenario has no table of pairs")
        except ValueError as error:
            raise PlannerError(f"at {self.clock.now:g} s: job {job.id} was given {error}") from None

    def _resize(self, job: SimJob, allocation: Allocation, shared: SharedRun | None) -> None:
        """Resize the run in place. Pods that join get ready while the other pods train on. Getting ready and the pause
        for the resize together take as long as a restart.
        """
        before = job.gpus
        job.resize_run(allocation, self.clock.instant)
        self._enter(job, allocation, shared)
        if allocation.option.gpus <= before:
            self._regroup(job, allocation)
            return
        model = self.market.models[allocation.option.pool]
        ready = max(self._restart_seconds(model) - self.scenario.resize_seconds, 0.0)
        self._train(job, job.batch)
        self.clock.at(self.clock.now + ready, self._regroup, job, allocation)

    def _regroup(self, job: SimJob, allocation: Allocation) -> None:
        """Form the group once all pods of the allocation are ready. Training stands still until the group is formed."""
        if job.allocation is not allocation or job.finished is not None:
            return
        job.advance(self.clock.now)
        job.regroup(self.clock.now + self.scenario.resize_seconds)
        if self.shared_gpus is not None:
            self.shared_gpus.stands(job)
        self._plan_checkpoints(job)
        self._train(job, self.knowledge.batch(job))
        self.changed = True

    def _restart_seconds(self, model: PoolModel) -> float:
        """Seconds from a run's start to its first step."""
        return self.scenario.restart_seconds if model.restart_seconds is None else model.restart_seconds

    def stop(self, job: SimJob, *, answer: bool = False) -> None:
        """End the job's run, so that the job waits.

        ``answer``: whether an interactive job is stopped because it was unused.
        """
        job.advance(self.clock.now)
        self._keep_progress(job)
        if job.allocation is not None:
            self._free(job, job.allocation)
        job.stop_run(self.clock.instant, RunOutcome.STOPPED)
        if job.session is not None:
            job.session.stop(answer=answer)

    def wake_at(self, again: Instant) -> None:
        """Let the policy decide at that instant even if nothing happens, but not before a millisecond from now."""
        when, earliest = (again - self.clock.start) / 1e6, self.clock.now + 1e-3
        if when < earliest:
            when = earliest
        if when < self._next_wake:
            self._next_wake = when
            self.clock.at(when, self._wake)

    # --- events -------------------------------------------------------------------------------------------------------

    def _schedule_submission(self, number: int) -> None:
        """Schedule the submission with that number. Each submission schedules the next one, which keeps the queue
        short.
        """
        if number < len(self._submissions):
            self.clock.before_all(self._submissions[number].at, number, self._submit, number)

    def _submit(self, number: int) -> None:
        submission, scenario, clock = self._submissions[number], self.scenario, self.clock
        application = scenario.applications[submission.application]
        name, now = JobId(submission.name), clock.now
        job = SimJob(name, submission, application, scenario.classes(submission, application), clock.instant, now, now)
        self.jobs[name] = job
        if submission.notebook is not None:
            job.session = SimSession(submission.notebook)
            self._sessions.begin(job, job.session)
        self.unsubmitted -= 1
        self._progressed_at = now
        self.changed = True
        self._listener.job_arrived(job)
        self._schedule_submission(number + 1)

    def _reprice(self, pool: PoolId, hourly: Price) -> None:
        self.market.reprice(pool, hourly, self.clock.instant)
        self._pool_changed()

    def _restock(self, pool: PoolId, nodes: int | None) -> None:
        """Change the cloud's stock from now on. If it is too small, the cloud takes back the spot nodes rented last."""
        self.market.stock[pool] = nodes
        self._pool_changed()
        model = self.market.models[pool]
        if nodes is not None and model.capacity_type is CapacityType.SPOT:
            rented = [machine for machine in self.market.machines.values() if machine.order.pool == pool]
            for machine in rented[nodes:]:
                self._take_back(machine)

    def _change_quota(self, pool: PoolId, nodes: int | None) -> None:
        self.market.quota[pool] = nodes
        self._pool_changed()

    def _pool_changed(self) -> None:
        self._changes_to_come -= 1
        self._progressed_at = self.clock.now
        self.changed = True

    def _complete(self, job: SimJob, version: int) -> None:
        if job.version != version:
            return
        job.complete(self.clock.now)
        self._progressed_at = self.clock.now
        if job.predicted is not None:
            now = self.clock.instant
            self.ledger.count(training_job(self.lasting_fields(job), job.done, None, now), now)
        assert job.allocation is not None
        self._free(job, job.allocation)
        del self.jobs[job.id]
        self.completed.append(job.result())
        self.changed = True
        self._listener.job_completed(job)

    def _report(self, job: SimJob, run: int) -> None:
        """Receive the measurements of a run's trainer, and let the run train on with the batch size that now seems
        best.
        """
        if job.runs != run or job.allocation is None or job.finished is not None:
            return
        job.advance(self.clock.now)
        self.reports += 1
        self.knowledge.receive_report(job, self.clock.instant)
        batch = self.knowledge.batch(job)
        if batch != job.batch:
            self._train(job, batch)
        profiles = self.knowledge.profiles()
        self.changed |= profiles is not self.profiles
        self.profiles = profiles
        self.clock.at(self.clock.now + self.knowledge.report_seconds, self._report, job, run)

    def _machine_ready(self, machine: SimMachine) -> None:
        if not machine.ended:
            self.market.mark_ready(machine, self.clock.instant)
            self.changed = True
            self._listener.machine_ready(machine)

    def _take_back(self, machine: SimMachine) -> None:
        """Let the cloud end a spot machine. Its jobs lose their progress since the last checkpoint, and wait."""
        if machine.ended:
            return
        machine.draining = False  # the cloud ends the machine now, before its last job leaves
        for job in tuple(machine.users.values()):
            held = job.allocation
            assert held is not None
            job.advance(self.clock.now)
            job.lose_progress()
            self._keep_progress(job)
            self._free(job, held)
            job.stop_run(self.clock.instant, RunOutcome.INTERRUPTED)
            if job.session is not None:
                job.session.stop(answer=not job.session.busy)
            self.interruptions += 1
            self._listener.job_interrupted(job, held)
        self.ledger.end(machine, self.clock.instant, taken=True)
        self.changed = True
        self._listener.machine_lost(machine)

    def _session_changed(self) -> None:
        self._progressed_at = self.clock.now
        self.changed = True

    def _session_over(self, job: SimJob) -> None:
        """End an interactive job whose cells have all run. Its owner deletes the job."""
        self._complete(job, job.version)

    def _wake(self) -> None:
        self._next_wake = float("inf")
        self.changed = True

    def _plan_checkpoints(self, job: SimJob) -> None:
        """Choose the interval between checkpoints.

        If the interval depends on the nodes' ages, it is chosen again at the end of each band of ages.
        """
        scenario, held = self.scenario, job.allocation
        assert held is not None
        model = self.market.models[held.option.pool]
        if model.draw_lifetime is None and model.capacity_type is not CapacityType.SPOT:
            job.checkpoint_every(0.0, 0.0)
            return
        interval = scenario.checkpoint_seconds
        if interval is None:
            nodes = [place.rental for place in held.placements]
            interval = self.market.checkpoint_seconds(nodes, scenario.checkpoint_write_seconds, self.clock.instant)
            for hours in BAND_ENDS[:-1]:
                self.clock.at(self.clock.now + 3600.0 * hours, self._replan_checkpoints, job, job.runs)
        job.checkpoint_every(interval, scenario.checkpoint_write_seconds)

    def _replan_checkpoints(self, job: SimJob, run: int) -> None:
        held, scenario = job.allocation, self.scenario
        if job.runs != run or held is None or job.finished is not None:
            return
        job.advance(self.clock.now)
        nodes = [place.rental for place in held.placements]
        interval = self.market.checkpoint_seconds(nodes, scenario.checkpoint_write_seconds, self.clock.instant)
        job.change_interval(interval, scenario.checkpoint_write_seconds)
        self._train(job, job.batch)

    def _keep_progress(self, job: SimJob) -> None:
        """Note, when a run ends or is resized, whether the job got further than ever before."""
        if job.done > job.kept + _LEAST_PROGRESS:
            job.kept = job.done
            self._progressed_at = self.clock.now

    # --- consequences -------------------------------------------------------------------------------------------------

    def _train_on(self, job: SimJob) -> None:
        """Train on at a speed that has changed."""
        self._train(job, job.batch)

    def _train(self, job: SimJob, batch: int) -> None:
        """Train on with that batch size. Schedule the completion at the time that follows if nothing happens before."""
        self.clock.at(job.train_with(batch), self._complete, job, job.version)

    def _free(self, job: SimJob, held: Allocation) -> None:
        """Free the GPUs that the job held. A draining machine is ended when its last job leaves."""
        if self.shared_gpus is not None:
            self.shared_gpus.leave(job)
        for place in held.placements:
            machine = self.market.machines.get(place.rental)
            if machine is not None:
                machine.users.pop(job.id, None)
                if machine.draining and not machine.users:
                    self.ledger.end(machine, self.clock.instant)


# The interface of a policy, which makes the decisions in a simulated world.


class Policy(WorldEvents):
    """Receives the world's events, and is asked to act after each instant at which anything happened.

    This class does nothing. A policy overrides the methods that it needs.
    """

    def begin_simulation(self, world: World) -> None:
        """Begin a simulation. From now on the policy decides in this world, which is still empty."""

    def decide(self) -> Instant | None:
        """Act in the world. Returns when the policy wants to be asked again if nothing happens before, or None for
        never.

        If the policy's actions themselves changed anything (``World.changed``), the policy is asked again at once.
        """
        return None

    def last_action(self) -> str:
        """A description of the last action, for error messages."""
        return type(self).__name__
