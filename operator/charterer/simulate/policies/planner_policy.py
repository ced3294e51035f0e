"""A policy by a planner that is shown everything at every event: the operator's."""

from __future__ import annotations

from collections.abc import Callable

from charterer.domain.plan import Allocate, Command, Plan, Release, Rent, moves_with
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.simulate.engine.policy import Policy
from charterer.simulate.engine.world import World
from charterer.simulate.policies.snapshot_view import SnapshotView

Planner = Callable[[Snapshot], Plan]
"""Sees all, and says what to do."""


class PlannerPolicy(Policy):
    """Does what a planner says that is shown everything, as often as it has something to say."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._commands: tuple[Command, ...] = ()

    def begins(self, world: World) -> None:
        """Nothing was seen yet."""
        self._world = world
        self._view = SnapshotView(world)

    def decide(self) -> Instant | None:
        """One plan, carried out."""
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
                case Allocate(job, allocation):
                    task = world.tasks[job]
                    task.predicted = task.predicted or command.predicted
                    task.moves = moves_with(snapshot.jobs[job], command)
                    if allocation is None:
                        world.stop(task)
                    else:
                        world.allocate(task, allocation)
        world.changed = bool(plan.commands)
        return plan.again_at

    def lately(self) -> str:
        """The plan's commands."""
        return f"lastly {self._commands}"
