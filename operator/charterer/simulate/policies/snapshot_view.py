"""A simulated world as the operator would observe it: a Snapshot that keeps unchanged objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from charterer.domain.ids import JobId, NodeName, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.order import Traits
from charterer.domain.pool import PriceSegment, Survey
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import Instant, after
from charterer.simulate.engine.world import World
from charterer.simulate.model.domain_objects import LastingFields, gpu_rental, kubernetes_node, training_job
from charterer.simulate.model.node_market import SimMachine
from charterer.simulate.model.sim_job import SimJob

_TRAITS = Traits(named=True, keeps_trying=False, together=False, lag_seconds=0.0, listed_seconds=3600.0)


@dataclass(frozen=True, slots=True)
class _PreviousJob:
    """A job as it was shown last, and the values from which that was made."""

    version: int
    done: float
    work: float | None
    lasting: LastingFields
    job: Job


@dataclass(frozen=True, slots=True)
class _PreviousMachine:
    """The same of a machine. ``state``: since when it is ready, whether it drains, its prices; ``node`` is None before
    there is one.
    """

    state: tuple[Instant | None, bool, tuple[PriceSegment, ...]]
    rental: Rental
    node: Node | None


class SnapshotView:
    """Snapshots of a world. ``snapshot()`` equals that of a new view, whenever the last one was taken.

    Every job in training has reported just now. Objects that did not change are the same objects as before.
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
        """The answers of the clouds; they add nothing to what the rentals say."""
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
