"""The plain budget-optimal policy in a simulation, as a reference for the planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil

from charterer.domain.job import Allocation
from charterer.domain.time import Instant, after, seconds_between
from charterer.tools.simulator.engine.world import Policy, World
from charterer.tools.simulator.model.node_market import SimMachine
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.policies.fleet import BaselineFleet, nodes_for


class BoaReference(Policy):
    """The plain budget-optimal policy (BOA): at each tick, each job at the width that is best in its present epoch.

    ``worth``: dollars that a second of a job's life is worth. ``rates(job, done)[gpus]``: the fraction of the job a
    second at the fraction ``done``. It knows neither job sizes nor the cost of a restart: the theory without
    refinements, as a reference for the planner.
    """

    def __init__(
        self, worth: float, rates: Callable[[SimJob, float], Mapping[int, float]], tick_seconds: float = 60.0
    ) -> None:
        self._worth = worth
        self._rates = rates
        self._tick_seconds = tick_seconds

    def begin_simulation(self, world: World) -> None:
        self._world = world
        (pool,) = world.market.models
        self._fleet = BaselineFleet(world, pool)

    def job_completed(self, job: SimJob) -> None:
        assert job.allocation is not None
        self._fleet.give_back(job.allocation.placements)

    def job_interrupted(self, job: SimJob, held: Allocation) -> None:
        self._fleet.give_back(held.placements)

    def machine_ready(self, machine: SimMachine) -> None:
        self._fleet.machine_ready(machine)

    def machine_lost(self, machine: SimMachine) -> None:
        self._fleet.machine_lost(machine)

    def decide(self) -> Instant | None:
        """At a tick, choose each job's width anew; rent nodes for jobs that do not fit, or end the idle ones."""
        world, fleet = self._world, self._fleet
        now = world.clock.instant
        ticks = seconds_between(self._epoch(now), now) / self._tick_seconds
        if ticks != int(ticks):
            return after(self._epoch(now), ceil(ticks) * self._tick_seconds)
        price = fleet.price.dollars_per_second / fleet.size
        missing: list[int] = []
        for job in sorted(world.jobs.values(), key=lambda job: (job.created, job.id)):
            job.advance(world.clock.now)
            rates = self._rates(job, job.done)
            gpus = min(rates, key=lambda width: (self._worth + price * width) / rates[width])
            held = job.allocation
            if held is not None and held.option.gpus == gpus:
                continue
            if held is not None:
                fleet.give_back(held.placements)
            placements = fleet.place(gpus)
            if placements is not None:
                fleet.start(job, placements)
                continue
            missing.append(gpus)
            if held is not None:
                fleet.take(held.placements)
        if missing:
            fleet.rent(nodes_for(missing, fleet.size) - fleet.idle - fleet.booting)
        else:
            fleet.release(fleet.idle_nodes())
        return after(now, self._tick_seconds) if world.jobs or world.market.machines else None

    @staticmethod
    def _epoch(now: Instant) -> Instant:
        """Ticks are counted from full hours."""
        return Instant(now - now % 3_600_000_000)
