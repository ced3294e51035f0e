"""A policy that gives a planner, such as the operator's, a snapshot at every event."""

from __future__ import annotations

from collections.abc import Callable

from charterer.domain.plan import Allocate, Command, Plan, ReasonCode, Release, Rent, moves_with
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.simulate.engine.policy import Policy
from charterer.simulate.engine.world import World
from charterer.simulate.policies.snapshot_view import SnapshotView

Planner = Callable[[Snapshot], Plan]
"""From a snapshot to a plan."""


class PlannerPolicy(Policy):
    """Carries out the planner's commands, again and again until there are none."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._commands: tuple[Command, ...] = ()

    def begin_simulation(self, world: World) -> None:
        """Start with an empty view."""
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
                    sim_job.moves = moves_with(snapshot.jobs[job], command)
                    if allocation is None:
                        world.stop(sim_job, answer=why.code is ReasonCode.NO_GPU_WANTED)
                    else:
                        world.allocate(sim_job, allocation)
        world.changed = bool(plan.commands)
        return plan.again_at

    def last_action(self) -> str:
        """The last plan's commands."""
        return f"lastly {self._commands}"
