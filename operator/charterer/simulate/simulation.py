"""The simulation: what happens, in order of time, and after each instant what the policy does about it."""

from __future__ import annotations

from collections.abc import Sequence

from charterer.domain.ids import PoolId
from charterer.domain.money import ZERO, Money
from charterer.simulate.engine.policy import Policy
from charterer.simulate.engine.result import JobResult, Result, Tally
from charterer.simulate.engine.scenario import Scenario
from charterer.simulate.engine.world import PlannerError, World
from charterer.simulate.knowledge.learning import Knowledge
from charterer.simulate.policies.planner_policy import Planner, PlannerPolicy

_AT_ONCE = 50
"""A policy that acts so many times in a row at one instant will never come to rest."""


class Simulation:
    """One scenario under one policy, or a planner, which knows of the classes what ``knowledge`` says when asked."""

    def __init__(self, scenario: Scenario, planner: Policy | Planner, knowledge: Knowledge) -> None:
        self._policy = planner if isinstance(planner, Policy) else PlannerPolicy(planner)
        self._world = World(scenario, knowledge, self._policy)
        self._instants = 0
        self._rented: list[tuple[float, int]] = []

    def run(self) -> Result:
        """Simulate to the end of the last job and machine, or of the time."""
        world, until = self._world, self._world.scenario.until
        step, machines, rented = world.clock.step, world.market.machines, 0
        self._policy.begins(world)
        while step(until):
            self._instants += 1
            if world.changed:
                self._decide()
            if len(machines) != rented:
                rented = len(machines)
                self._rented.append((world.clock.now, rented))
            if not rented and not world.to_come and not world.tasks:
                break
        return self._result()

    def _decide(self) -> None:
        """Ask the policy until it has nothing more to do at this instant."""
        world, policy = self._world, self._policy
        for _ in range(_AT_ONCE):
            world.changed = False
            again = policy.decide()
            if not world.changed:
                if again is not None:
                    world.wake_at(again)
                return
        raise PlannerError(f"at {world.clock.now:g} s: {_AT_ONCE} plans in a row had commands, {policy.lately()}")

    def _result(self) -> Result:
        world, market = self._world, self._world.market
        now = world.clock.instant
        balance = world.books.budget(now).balance
        gpu_hours: dict[PoolId, float] = {}
        for pool, seconds in market.node_seconds.items():
            alive = sum((now - one.created) / 1e6 for one in market.machines.values() if one.terms.pool == pool)
            gpu_hours[pool] = (seconds + alive) * market.models[pool].gpus_per_node / 3600.0
        if self._rented and self._rented[-1][0] < world.clock.now:
            self._rented.append((world.clock.now, len(market.machines)))
        jobs = (*world.ended, *(task.result() for task in world.tasks.values()))
        return Result(
            jobs=jobs,
            rented_gpu_hours=gpu_hours,
            spent=self._spent(),
            periods=() if balance is None else tuple((one.start, one.spent) for one in balance.history),
            rented=tuple(self._rented),
            tally=self._tally(jobs),
            ended=world.clock.now,
        )

    def _spent(self) -> Money:
        market, now = self._world.market, self._world.clock.instant
        running = sum((machine.bill(now) for machine in market.machines.values()), ZERO)
        return sum(market.spent.values(), running)

    def _tally(self, jobs: Sequence[JobResult]) -> Tally:
        world, market = self._world, self._world.market
        return Tally(
            arrivals=len(jobs),
            starts=sum(job.restarts + (job.started is not None) for job in jobs),
            interruptions=world.interruptions,
            reports=world.reports,
            completions=len(world.ended),
            machines=market.made,
            machine_ends=market.made - len(market.machines),
            instants=self._instants,
        )
