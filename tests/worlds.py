"""Tiny worlds for tests: build a Snapshot in a few words, carry out a Plan on it, let time pass.

    world = World()
    world.budget("research", amount="60000")
    world.pool("a100", gpus=8, price="19.80")
    world.profile("sft", Amdahl(0.97, 1.0), work_hours=40)
    job = world.job("train", gpus=(1, 8, 32), profile="sft")
    world.carry_out(plan(world.snapshot()))     # intents are written, as the controller does
    world.everything_starts()                   # nodes boot, runs start

Names stand for ids everywhere: a job's id is its name, an instance of rental ``a100-1`` is ``i-a100-1``, its node
``n-a100-1``. Nothing here decides anything; ``everything_starts`` is the shortest life cycle there can be.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from charterer.domain.billing import accrued
from charterer.domain.budget_tree import with_shares
from charterer.domain.ids import BudgetId, InstanceId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import (
    Allocation,
    Job,
    Placement,
    RunOutcome,
    RunRecord,
)
from charterer.domain.job_records import with_report, with_run_given, with_session_over
from charterer.domain.money import ZERO, Price
from charterer.domain.option import GPU, Option
from charterer.domain.plan import Allocate, Command, Plan, Reason, ReasonCode, Release, Rent, moves_with
from charterer.domain.pool import (
    Instance,
    InstanceState,
    Notice,
    PriceSegment,
    Survey,
)
from charterer.domain.reasons.nodes import AnyDemand
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.reports import Progress
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import Instant, after
from tests import factory
from tests.factory.declared import MID_MONTH, NAMESPACE, Declared

__all__ = ["MID_MONTH", "NAMESPACE", "World", "one_job_runs"]

_NO_REASON = Reason(ReasonCode.DEMAND, 0.0, ZERO, AnyDemand(ZERO))


@dataclass
class World(Declared):
    """The objects by name, and the clock. Change them freely; ``snapshot`` freezes what is there."""

    rentals: dict[RentalId, Rental] = field(default_factory=dict)
    nodes: dict[NodeName, Node] = field(default_factory=dict)
    notices: dict[PoolId, tuple[Notice, ...]] = field(default_factory=dict)
    known_ends: dict[InstanceId, Instant] = field(default_factory=dict)
    unsurveyed: set[PoolId] = field(default_factory=set)
    lag_seconds: float = 0.0

    # --- what is there already ----------------------------------------------------------------------------------------

    def rental(
        self,
        pool: str = "a100",
        *,
        budget: str = "research",
        phase: RentalPhase = RentalPhase.READY,
        age: float = 3600.0,
    ) -> Rental:
        """A rental, ``age`` seconds old, named like the planner names them; with its node when it is Ready."""
        ordinal = 1
        while (name := RentalId(f"{pool}-{ordinal}")) in self.rentals:
            ordinal += 1
        quote = self.pools[PoolId(pool)].quote
        assert quote is not None
        command = Rent(name, PoolId(pool), BudgetId(budget), ZERO, quote.worst, _NO_REASON)
        self._rented(command, after(self.now, -age))
        if phase is not RentalPhase.REQUESTED:
            self.launches(name, at=after(self.now, -age))
        if phase in (RentalPhase.READY, RentalPhase.DRAINING):
            self.becomes_ready(name)
        if phase is RentalPhase.DRAINING:
            self.rentals[name] = replace(self.rentals[name], phase=phase, released_because="test")
        return self.rentals[name]

    def runs_on(self, job: str, *rentals: str, gpus: int, speed: float = 1.0) -> Job:
        """The job has ``gpus`` GPUs, spread evenly over rentals, and all its pods run and have reported a step."""
        pool = self.pools[self.rentals[RentalId(rentals[0])].pool]
        assert pool.offering is not None
        assert pool.quote is not None
        option = Option(pool.id, gpus, speed, pool.quote.price.for_gpus(gpus, pool.offering.gpus_per_node))
        places = tuple(Placement(RentalId(rental), gpus // len(rentals)) for rental in rentals)
        name = JobId(job)
        run = self.jobs[name].last_run + 1
        given, told = self.jobs[name], Progress(run, None, 1, None, self.now)
        self.jobs[name] = replace(
            given, allocation=Allocation(run, option, places, self.now), last_run=run, progress=given.progress or told
        )
        self.starts(job)
        return self.jobs[name]

    # --- what the controller and the life cycles do -------------------------------------------------------------------

    def carry_out(self, plan: Plan) -> None:
        """Write the intents of a plan."""
        for command in plan.commands:
            self.write(command)

    def write(self, command: Command) -> None:
        """Write one intent."""
        match command:
            case Rent():
                self._rented(command, self.now)
            case Release(rental, why):
                self.rentals[rental] = replace(
                    self.rentals[rental], phase=RentalPhase.DRAINING, released_because=why.code, released=self.now
                )
            case Allocate(name, allocation, _, predicted, predicted_end):
                job = self.jobs[name]
                if command.reason.code is ReasonCode.NO_GPU_WANTED:
                    job = with_session_over(with_report(job, job.progress))
                moves = moves_with(job, command)
                same = job.allocation is None or (allocation is not None and allocation.run == job.allocation.run)
                replaced = job.replaced if same or job.allocation is None else (*job.replaced, job.allocation)
                first, end = job.predicted or predicted, job.predicted_end or predicted_end
                last = job.last_run if allocation is None else max(job.last_run, allocation.run)
                changed = replace(job, allocation=allocation, replaced=replaced, last_run=last)
                slow = command.reason.code is ReasonCode.SLOW_NODE
                changed = replace(changed, nodes_replaced=job.nodes_replaced + slow)
                if allocation is not None:
                    changed = with_run_given(changed)
                self.jobs[name] = replace(changed, predicted=first, predicted_end=end, moves=moves)

    def _rented(self, command: Rent, at: Instant) -> None:
        quote = self.pools[command.pool].quote
        self.rentals[command.rental] = factory.rental(
            command.rental,
            uid=f"uid-{command.rental}-{at}",
            pool=command.pool,
            cloud=self.pools[command.pool].cloud,
            budget=command.budget,
            created=at,
            reserved=command.reserve,
            worst=command.worst,
            billing_minimum_seconds=0 if quote is None else quote.billing_minimum_seconds,
            gang=command.gang,
        )

    def launches(self, name: str, *, at: Instant | None = None, price: Price | None = None) -> None:
        """An instance is adopted by the rental; billing began at ``at`` (now)."""
        rental = self.rentals[RentalId(name)]
        quote = self.pools[rental.pool].quote
        assert quote is not None
        launched = self.now if at is None else at
        draining = rental.phase is RentalPhase.DRAINING
        self.rentals[rental.id] = replace(
            rental,
            phase=RentalPhase.DRAINING if draining else RentalPhase.STARTING,
            instance=InstanceId(f"i-{name}"),
            provider_id=f"fake://{name}",
            launched=launched,
            segments=(PriceSegment(launched, price or quote.price),),
        )

    def becomes_ready(self, name: str) -> None:
        """The rental's node is Ready."""
        rental = self.rentals[RentalId(name)]
        offering = self.pools[rental.pool].offering
        assert offering is not None
        size, whole = offering.gpus_per_node, offering.resource == GPU
        slices = {} if whole else {offering.resource: size}
        node = factory.node(name, provider_id=rental.provider_id, gpus=size if whole else 0, others=slices)
        self.rentals[rental.id] = replace(rental, phase=RentalPhase.READY, node=node.name, ready=self.now)
        self.nodes[node.name] = node

    def starts(self, name: str) -> None:
        """The job's former runs have ended and are recorded; the run of its allocation runs with all pods."""
        self.stops(name)
        job = self.jobs[JobId(name)]
        allocation = job.allocation
        if allocation is None:
            return
        pods = [
            factory.pod(
                index,
                allocation.run,
                job.name,
                gpus=place.gpus,
                node=self.rentals[place.rental].node,
                allocation=allocation.annotation,
            )
            for index, place in enumerate(allocation.placements)
        ]
        run = factory.run(allocation.run, *pods, job=job.name, created=self.now, started=self.now)
        self.jobs[job.id] = replace(job, runs=(run,))

    def stops(self, name: str) -> None:
        """The pods of the job's former runs are gone, and how those ended is recorded."""
        job = self.jobs[JobId(name)]
        records = tuple(
            RunRecord(former.run, RunOutcome.STOPPED, former.option, former.placements, former.since, self.now, "")
            for former in job.replaced
        )
        current = 0 if job.allocation is None else job.allocation.run
        runs = tuple(run for run in job.runs if run.number == current)
        self.jobs[job.id] = replace(job, records=(*job.records, *records), replaced=(), runs=runs)

    def ends(self, name: str) -> None:
        """The rental's instance has ended; its cost is final and its node gone."""
        rental = self.rentals[RentalId(name)]
        cost = accrued(rental, self.now)
        if rental.node is not None:
            self.nodes.pop(rental.node, None)
        self.rentals[rental.id] = replace(rental, phase=RentalPhase.ENDED, ended=self.now, cost=cost)

    def everything_starts(self) -> None:
        """Requested nodes launch and get ready, draining ones without pods end, and every allocation's run runs."""
        for name, job in list(self.jobs.items()):
            if job.allocation is None or not any(run.number == job.allocation.run for run in job.runs):
                self.starts(name)
        used = {place.rental for job in self.jobs.values() if job.allocation for place in job.allocation.placements}
        for rental in list(self.rentals.values()):
            if rental.phase is RentalPhase.REQUESTED:
                self.launches(rental.id)
            if self.rentals[rental.id].phase is RentalPhase.STARTING:
                self.becomes_ready(rental.id)
            if rental.phase is RentalPhase.DRAINING and rental.id not in used:
                self.ends(rental.id)

    def passes(self, seconds: float) -> None:
        """Time passes; nothing happens by itself, but the cloud is asked again."""
        self.now = after(self.now, seconds)

    def everything_trains(self, seconds: float) -> None:
        """Each run advances for so long at the speed of its option; the last moment of its work is still to come."""
        for name, job in self.jobs.items():
            if job.allocation is not None and job.remaining is not None and job.current_run is not None:
                left = max(job.remaining - seconds * job.allocation.option.speed, 1.0)
                self.jobs[name] = replace(job, remaining=left)

    # --- what is seen -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Everything as it is now, every cloud asked just now."""
        return Snapshot(
            now=self.now,
            budgets=with_shares(dict(self.budgets)),
            pools=dict(self.pools),
            surveys={pool: self._survey(pool) for pool in self.pools if pool not in self.unsurveyed},
            profiles=dict(self.profiles),
            jobs=dict(self.jobs),
            rentals=dict(self.rentals),
            nodes=dict(self.nodes),
        )

    def _survey(self, pool: PoolId) -> Survey:
        offering = self.pools[pool].offering
        assert offering is not None
        own = [rental for rental in self.rentals.values() if rental.pool == pool and rental.instance is not None]
        instances = tuple(
            Instance(
                id=rental.instance or InstanceId(""),
                state=InstanceState.ENDED if rental.phase is RentalPhase.ENDED else InstanceState.RUNNING,
                provider_id=rental.provider_id,
                node=rental.node,
                launched=rental.launched or self.now,
                ended=rental.ended,
                segments=rental.segments,
                billing_minimum_seconds=rental.billing_minimum_seconds,
                ends=self.known_ends.get(rental.instance or InstanceId("")),
            )
            for rental in own
        )
        survey = factory.survey(
            *instances,
            target=sum(rental.phase is not RentalPhase.ENDED for rental in own),
            pool=pool,
            notices=self.notices.get(pool, ()),
            traits=replace(factory.COUNTED, lag_seconds=self.lag_seconds),
            offering=offering,
        )
        return replace(survey, asked=self.now)


def one_job_runs() -> World:
    """A budget, a pool, and the job ``train`` on the eight GPUs of the node ``a100-1``."""
    world = World()
    world.budget()
    world.pool()
    world.rental()
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    return world
