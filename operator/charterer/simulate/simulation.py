"""The simulation loop: events in order of time, and after each instant the decisions of the policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from charterer.domain.ids import PoolId
from charterer.domain.money import Money
from charterer.simulate.engine.knowledge import Knowledge
from charterer.simulate.engine.policy import Policy
from charterer.simulate.engine.world import PlannerError, World
from charterer.simulate.model.result import EventCounts, JobResult, SimulationResult
from charterer.simulate.model.scenario import Scenario
from charterer.simulate.policies.planner_policy import Planner, PlannerPolicy

_TELL_EVERY = 100
"""Instants after which it is told how far the simulation is."""
_MOST_DECISIONS = 50
"""Decisions in a row at one instant after which a policy counts as one that will never come to rest."""


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
        """Simulate to the end of the last job and machine, or until no job can progress, or to the scenario's end.

        ``tell``: gets the fraction of the jobs that are complete, now and then.
        """
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
