"""What the operator would see of a simulated world: a Snapshot, of which what did not change is the same object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from charterer.domain.ids import JobId, NodeName, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.pool import Survey
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import Instant, after
from charterer.simulate.engine.domain_objects import DomainObjects, node_of, rental_of, reporting
from charterer.simulate.engine.node_market import SimMachine
from charterer.simulate.engine.sim_job import SimJob
from charterer.simulate.engine.world import World


@dataclass(frozen=True, slots=True)
class _PreviousObjects:
    """A job as it was seen, and what it follows from."""

    version: int
    done: float
    total: float | None
    facts: DomainObjects
    job: Job


class SnapshotView:
    """Snapshots of a world: ``snapshot()`` is that of a View made just now, whenever the last one was.

    Every job in training has reported just now.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._jobs: dict[JobId, _PreviousObjects] = {}
        self._version = -1
        self._machines: dict[SimMachine, tuple[Instant | None, bool, Rental, Node | None]] = {}
        self._rentals: Mapping[RentalId, Rental] = {}
        self._nodes: Mapping[NodeName, Node] = {}

    def snapshot(self) -> Snapshot:
        """As it is now."""
        world = self._world
        now, budget = world.clock.instant, world.books.budget(world.clock.instant)
        self._jobs = {name: self._job(task) for name, task in world.tasks.items()}
        self._look_at_machines()
        return Snapshot(
            now=now,
            budgets={budget.id: budget},
            pools=world.market.pools,
            surveys=self._surveys(now),
            profiles=world.profiles,
            jobs={name: seen.job for name, seen in self._jobs.items()},
            rentals=self._rentals,
            nodes=self._nodes,
        )

    def _job(self, task: SimJob) -> _PreviousObjects:
        world = self._world
        task.advance(world.clock.now)
        total = world.knowledge.mean_work(task)
        seen = self._jobs.get(task.id)
        same = seen is not None and seen.version == task.version
        if seen is not None and same and seen.done == task.done and seen.total == total:
            return seen
        facts = seen.facts if seen is not None and same else world.facts(task)
        job = reporting(facts, task.done, total, after(world.clock.start, task.grown))
        return _PreviousObjects(task.version, task.done, total, facts, job)

    def _look_at_machines(self) -> None:
        market = self._world.market
        if market.version == self._version:
            return
        self._version = market.version
        before, self._machines = self._machines, {}
        for machine in market.machines.values():
            seen = before.get(machine)
            if seen is None or seen[:2] != (machine.ready, machine.draining):
                node = None if machine.node is None else node_of(machine, machine.node)
                if seen is not None and seen[0] == machine.ready:
                    node = seen[3]
                seen = machine.ready, machine.draining, rental_of(machine), node
            self._machines[machine] = seen
        self._rentals = {rental.id: rental for _, _, rental, _ in self._machines.values()}
        self._nodes = {node.name: node for _, _, _, node in self._machines.values() if node is not None}

    def _surveys(self, now: Instant) -> Mapping[PoolId, Survey]:
        """What the clouds say: nothing that the rentals do not say already."""
        return {
            name: Survey(
                pool=name,
                target=0,
                instances=(),
                failures=(),
                notices=(),
                asked=now,
                lag_seconds=0.0,
                listed_seconds=3600.0,
                offering=pool.offering,
            )
            for name, pool in self._world.market.pools.items()
            if pool.offering is not None
        }
