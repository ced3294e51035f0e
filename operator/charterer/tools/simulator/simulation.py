"""The simulation loop: events in order of time, and after each instant the decisions of the policy."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import JobId, NodeName, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.money import Money
from charterer.domain.order import Traits
from charterer.domain.plan import Allocate, Command, Plan, ReasonCode, Release, Rent, moves_with
from charterer.domain.pool import PriceSegment, Survey
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import Instant, after
from charterer.tools.simulator.engine.events import Knowledge
from charterer.tools.simulator.engine.world import PlannerError, Policy, World
from charterer.tools.simulator.model.domain_objects import LastingFields, gpu_rental, kubernetes_node, training_job
from charterer.tools.simulator.model.node_market import SimMachine
from charterer.tools.simulator.model.result import EventCounts, JobResult, SimulationResult
from charterer.tools.simulator.model.scenario import Scenario
from charterer.tools.simulator.model.sim_job import SimJob

# A simulated world as the operator would observe it: a Snapshot in which unchanged objects stay the same.


_TRAITS = Traits(named=True, keeps_trying=False, together=False, lag_seconds=0.0, listed_seconds=3600.0)


@dataclass(frozen=True, slots=True)
class _PreviousJob:
    """A job as it was shown last, and the values from which it was made."""

    version: int
    done: float
    work: float | None
    lasting: LastingFields
    job: Job


@dataclass(frozen=True, slots=True)
class _PreviousMachine:
    """A machine as it was shown last, and the values from which it was made.

    ``state``: since when the machine is ready, whether it drains, and its prices. ``node``: its Node, or None before
    there is one.
    """

    state: tuple[Instant | None, bool, tuple[PriceSegment, ...]]
    rental: Rental
    node: Node | None


class SnapshotView:
    """Snapshots of a world. ``snapshot()`` equals the snapshot of a new view, whenever the last snapshot was taken.

    Every job in training has just reported. Objects that did not change are the same objects as before.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._jobs: dict[JobId, _PreviousJob] = {}
        self._market_version = -1
        self._machines: dict[SimMachine, _PreviousMachine] = {}
        self._rentals: Mapping[RentalId, Rental] = {}
        self._nodes: Mapping[NodeName, Node] = {}

    def snapshot(self) -> Snapshot:
        """The world as of now."""
        world = self._world
        now, budget = world.clock.instant, world.ledger.budget(world.clock.instant)
        self._jobs = {name: self._job(sim_job) for name, sim_job in world.jobs.items()}
        self._update_machines()
        return Snapshot(
            now=now,
            budgets={budget.id: budget},
            pools=world.market.pools,
            surveys=self._surveys(now),
            profiles=world.profiles,
            jobs={name: previous.job for name, previous in self._jobs.items()},
            rentals=self._rentals,
            nodes=self._nodes,
        )

    def _job(self, sim_job: SimJob) -> _PreviousJob:
        world = self._world
        sim_job.advance(world.clock.now)
        work = world.knowledge.expected_work(sim_job)
        previous = self._jobs.get(sim_job.id)
        if previous is not None and previous.version == sim_job.version:
            if previous.done == sim_job.done and previous.work == work:
                return previous
            lasting = previous.lasting
        else:
            lasting = world.lasting_fields(sim_job)
        usage = None if sim_job.session is None else sim_job.session.usage(world.clock.start)
        job = training_job(lasting, sim_job.done, work, after(world.clock.start, sim_job.progressed_at), usage)
        return _PreviousJob(sim_job.version, sim_job.done, work, lasting, job)

    def _update_machines(self) -> None:
        market = self._world.market
        if market.version == self._market_version:
            return
        self._market_version = market.version
        before, self._machines = self._machines, {}
        for machine in market.machines.values():
            previous = before.get(machine)
            if previous is None or previous.state != (machine.ready, machine.draining, machine.segments):
                if previous is not None and previous.state[0] == machine.ready:
                    node = previous.node
                else:
                    node = None if machine.node is None else kubernetes_node(machine, machine.node)
                state = machine.ready, machine.draining, machine.segments
                previous = _PreviousMachine(state, gpu_rental(machine), node)
            self._machines[machine] = previous
        machines = self._machines.values()
        self._rentals = {machine.rental.id: machine.rental for machine in machines}
        self._nodes = {machine.node.name: machine.node for machine in machines if machine.node is not None}

    def _surveys(self, now: Instant) -> Mapping[PoolId, Survey]:
        """The answers of the clouds. The answers add nothing to what the rentals say."""
        return {
            name: Survey(
                pool=name,
                target=0,
                ordered=frozenset(),
                instances=(),
                refusals=(),
                notices=(),
                asked=now,
                traits=_TRAITS,
                offering=pool.offering,
            )
            for name, pool in self._world.market.pools.items()
            if pool.offering is not None
        }


# A policy that calls a planner, such as the operator's, with a snapshot at every event.


Planner = Callable[[Snapshot], Plan]
"""Makes a plan from a snapshot."""


class PlannerPolicy(Policy):
    """Carries out the planner's commands, and asks again until there are none."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._commands: tuple[Command, ...] = ()

    def begin_simulation(self, world: World) -> None:
        """Begin a simulation with an empty view."""
        self._world = world
        self._view = SnapshotView(world)

    def decide(self) -> Instant | None:
        """Make one plan and carry it out."""
        world = self._world
        world.changed = False
        snapshot = self._view.snapshot()
        plan = self._planner(snapshot)
        self._commands = plan.commands
        for command in plan.commands:
            match command:
                case Rent():
                    world.rent(command)
                case Release(rental):
                    world.release(rental)
                case Allocate(job, allocation, why):
                    sim_job = world.jobs[job]
                    sim_job.predicted = sim_job.predicted or command.predicted
                    sim_job.predicted_end = sim_job.predicted_end or command.predicted_end
                    sim_job.moves = moves_with(snapshot.jobs[job], command)
                    if allocation is None:
                        world.stop(sim_job, answer=why.code is ReasonCode.NO_GPU_WANTED)
                    else:
                        world.allocate(sim_job, allocation)
        world.changed = bool(plan.commands)
        return plan.again_at

    def last_action(self) -> str:
        """The commands of the last plan."""
        return f"lastly {self._commands}"


_TELL_EVERY = 100
"""Number of instants after which progress is reported."""
_COLLECTION_THRESHOLD = 100_000
"""New objects after which Python looks for garbage in cycles, of which plans make little. Its default of 700 makes it
walk through what the planner remembers at every plan."""
_MOST_DECISIONS = 50
"""Most decisions in a row at one instant. A policy that makes more decisions counts as one that never stops."""


class Simulation:
    """One scenario under one policy or planner, with ``knowledge`` of the job classes."""

    def __init__(self, scenario: Scenario, planner: Policy | Planner, knowledge: Knowledge) -> None:
        self._policy = planner if isinstance(planner, Policy) else PlannerPolicy(planner)
        self._world = World(scenario, knowledge, self._policy)
        self._instants = 0
        self._rented_nodes: list[tuple[float, int]] = []
        self._rented_gpus: list[tuple[float, int]] = []
        self._hourly: list[tuple[float, float]] = []

    def run(self, tell: Callable[[float], None] | None = None) -> SimulationResult:
        """Simulate until the last job and machine end, or no job can progress, or the scenario ends.

        ``tell``: called now and then with the fraction of the jobs that are complete.
        """
        thresholds = gc.get_threshold()
        gc.set_threshold(_COLLECTION_THRESHOLD)
        try:
            return self._run(tell)
        finally:
            gc.set_threshold(*thresholds)

    def _run(self, tell: Callable[[float], None] | None) -> SimulationResult:
        world, until = self._world, self._world.scenario.until
        step, market, machines, rented, micros = world.clock.step, world.market, world.market.machines, 0, 0
        gpus = 0
        self._policy.begin_simulation(world)
        while step(until):
            self._instants += 1
            if tell is not None and self._instants % _TELL_EVERY == 0:
                tell(len(world.completed) / len(world.scenario.submissions))
            if world.changed:
                self._decide()
            if len(machines) != rented:
                rented = len(machines)
                self._rented_nodes.append((world.clock.now, rented))
            if market.gpus != gpus:
                gpus = market.gpus
                self._rented_gpus.append((world.clock.now, gpus))
            if market.micros_per_hour != micros:
                micros = market.micros_per_hour
                self._hourly.append((world.clock.now, micros / 1e6))
            if (not rented and not world.unsubmitted and not world.jobs) or world.stuck:
                break
        return self._result()

    def _decide(self) -> None:
        """Ask the policy until it has nothing more to do at this instant."""
        world, policy = self._world, self._policy
        for _ in range(_MOST_DECISIONS):
            world.changed = False
            again = policy.decide()
            if not world.changed:
                if again is not None:
                    world.wake_at(again)
                return
        raise PlannerError(
            f"at {world.clock.now:g} s: {_MOST_DECISIONS} plans in a row had commands, {policy.last_action()}"
        )

    def _result(self) -> SimulationResult:
        world, market = self._world, self._world.market
        now = world.clock.instant
        for job in world.jobs.values():
            job.advance(world.clock.now)
        balance = world.ledger.budget(now).balance
        gpu_hours: dict[PoolId, float] = {}
        for pool, micros in market.node_micros.items():
            running = sum(now - machine.created for machine in market.machines.values() if machine.order.pool == pool)
            gpu_hours[pool] = (micros + running) * market.models[pool].gpus_per_node / 3.6e9
        if self._rented_nodes and self._rented_nodes[-1][0] < world.clock.now:
            self._rented_nodes.append((world.clock.now, len(market.machines)))
            self._rented_gpus.append((world.clock.now, market.gpus))
            self._hourly.append((world.clock.now, market.micros_per_hour / 1e6))
        jobs = (*world.completed, *(job.result() for job in world.jobs.values()))
        return SimulationResult(
            jobs=jobs,
            rented_gpu_hours=gpu_hours,
            spent_in=self._spent_in(),
            periods=() if balance is None else tuple((period.start, period.spent) for period in balance.history),
            rented_nodes=tuple(self._rented_nodes),
            rented_gpus=tuple(self._rented_gpus),
            hourly=tuple(self._hourly),
            counts=self._counts(jobs),
            ended_at=world.clock.now,
        )

    def _spent_in(self) -> Mapping[PoolId, Money]:
        market, now = self._world.market, self._world.clock.instant
        spent = dict(market.spent)
        for machine in market.machines.values():
            spent[machine.order.pool] += machine.bill(now)
        return spent

    def _counts(self, jobs: Sequence[JobResult]) -> EventCounts:
        world, market = self._world, self._world.market
        return EventCounts(
            arrivals=len(jobs),
            starts=sum(job.restarts + (job.started is not None) for job in jobs),
            interruptions=world.interruptions,
            reports=world.reports,
            completions=len(world.completed),
            machines=market.rented_total,
            machine_ends=market.rented_total - len(market.machines),
            instants=self._instants,
        )
