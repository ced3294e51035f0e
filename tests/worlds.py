"""Tiny worlds for tests of the thinking parts: build a Snapshot in a few words, carry out a Plan on it, let time pass.

    world = World()
    world.budget("research", amount="60000")
    world.pool("a100", gpus=8, price="19.80")
    world.profile("sft", Amdahl(0.97, 1.0), work_hours=40)
    job = world.job("train", gpus=(1, 8, 32), profile="sft")
    world.carry_out(plan(world.snapshot()))     # intents are written, as the controller does
    world.everything_starts()                   # nodes boot, runs start

Names stand for ids everywhere: a job's id is its name, an instance of rental ``a100-1`` is ``i-a100-1``, its node
``n-a100-1``. Nothing here decides anything; ``everything_starts`` is the shortest way a real life cycle can take.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from charterer.domain.billing import accrued
from charterer.domain.budget import Balance, Budget, Mode, Selector
from charterer.domain.ids import BudgetId, ClassId, InstanceId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import (
    Allocation,
    Job,
    Placement,
    Pod,
    PodPhase,
    ResizePolicy,
    Run,
    RunOutcome,
    RunRecord,
    SpotPolicy,
    Widths,
)
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.option import Option
from charterer.domain.period import period_bounds
from charterer.domain.plan import Allocate, Command, Plan, Reason, ReasonCode, Release, Rent, moves_with
from charterer.domain.pool import (
    CapacityType,
    FakeGroup,
    Instance,
    InstanceState,
    Notice,
    Offering,
    Pool,
    PriceSegment,
    Quote,
    Survey,
)
from charterer.domain.profile import Amdahl, Phase, PowerLaw, Profile, SpeedCurve, ThroughputTable
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import Instant, after, parse_instant

NAMESPACE = "team"
MID_MONTH = parse_instant("2026-06-16T00:00:00Z")
"""Half of June, a month of 30 days, is over: 360 hours are left."""

_NO_REASON = Reason(ReasonCode.DEMAND, 0.0, ZERO, "it was there before")


@dataclass
class World:
    """The objects by name, and the clock. Change them freely; ``snapshot`` freezes what is there."""

    now: Instant = MID_MONTH
    budgets: dict[BudgetId, Budget] = field(default_factory=dict)
    pools: dict[PoolId, Pool] = field(default_factory=dict)
    profiles: dict[ClassId, Profile] = field(default_factory=dict)
    jobs: dict[JobId, Job] = field(default_factory=dict)
    rentals: dict[RentalId, Rental] = field(default_factory=dict)
    nodes: dict[NodeName, Node] = field(default_factory=dict)
    notices: dict[PoolId, tuple[Notice, ...]] = field(default_factory=dict)
    unsurveyed: set[PoolId] = field(default_factory=set)
    lag_seconds: float = 0.0

    # --- what users write ---------------------------------------------------------------------------------------------

    def budget(
        self,
        name: str = "research",
        *,
        amount: str = "60000",
        spent: str = "0",
        hard_limit: str | None = None,
        max_hourly: str | None = None,
        mode: Mode = Mode.ENFORCE,
        time_zone: str = "UTC",
    ) -> Budget:
        """A budget made just now whose period is open and of which ``spent`` is settled."""
        start = period_bounds(time_zone, self.now)[0]
        made = Budget(
            id=BudgetId(name),
            uid=f"uid-{name}",
            resource_version="1",
            generation=1,
            created=self.now,
            amount=Money.parse(amount),
            time_zone=time_zone,
            selector=Selector((), ()),
            mode=mode,
            hard_limit=None if hard_limit is None else Money.parse(hard_limit),
            max_hourly_rate=None if max_hourly is None else Price.parse(max_hourly),
            opening_spend=ZERO,
            weights=(),
            balance=Balance(start, Money.parse(spent), Money.parse(spent), frozenset(), ()),
            deleting=False,
        )
        self.budgets[made.id] = made
        return made

    def pool(
        self,
        name: str = "a100",
        *,
        gpus: int = 8,
        price: str = "16",
        worst: str | None = None,
        gpu_type: str | None = None,
        max_nodes: int = 100,
        capacity: CapacityType = CapacityType.ON_DEMAND,
        start_seconds: float = 120.0,
        billing_minimum: int = 0,
        cooled_for: float | None = None,
    ) -> Pool:
        """A pool whose nodes have ``gpus`` GPUs at ``price`` dollars an hour; its GPU type is its name by default."""
        quote = Quote(Price.parse(price), Price.parse(worst or price), billing_minimum, "test", self.now)
        made = Pool(
            id=PoolId(name),
            uid=f"uid-{name}",
            resource_version="1",
            generation=1,
            cloud=FakeGroup("http://cloud", name),
            max_nodes=max_nodes,
            capacity_type=capacity,
            start_seconds=start_seconds,
            cooldown_seconds=600.0,
            price_override=None,
            offering=Offering(gpu_type or name, gpus, f"{name}-{gpus}", "zone-a"),
            quote=quote,
            cooled_until=None if cooled_for is None else after(self.now, cooled_for),
            cooled_because="" if cooled_for is None else "StockOut",
            deleting=False,
        )
        self.pools[made.id] = made
        return made

    def profile(
        self,
        name: str,
        form: ThroughputTable | Amdahl | PowerLaw,
        *,
        gpu_type: str = "a100",
        work_hours: float | None = None,
        arrivals_per_hour: float | None = None,
        restart_seconds: float = 30.0,
        others: Iterable[SpeedCurve] = (),
        budget: str | None = None,
    ) -> Profile:
        """A profile with one curve on ``gpu_type``, and ``others``."""
        made = Profile(
            id=ClassId(NAMESPACE, name),
            generation=1,
            phases=(Phase(1.0, (SpeedCurve(gpu_type, form), *others)),),
            mean_work=None if work_hours is None else work_hours * 3600,
            arrivals_per_hour=arrivals_per_hour,
            restart_seconds=restart_seconds,
            budget=None if budget is None else BudgetId(budget),
        )
        self.profiles[made.id] = made
        return made

    def job(
        self,
        name: str,
        *,
        gpus: int | tuple[int, int, int] = 8,
        profile: str | None = None,
        budget: str | None = "research",
        weight: float = 1.0,
        gpu_types: tuple[str, ...] = (),
        spot: SpotPolicy = SpotPolicy.NEVER,
        resize: ResizePolicy = ResizePolicy.RESTART,
        hours_left: float | None = None,
        grace_seconds: int = 30,
        age_seconds: float = 0.0,
        suspend: bool = False,
        target_hours: float | None = None,
        max_cost: str | None = None,
    ) -> Job:
        """A job that waits; ``gpus`` is a rigid width or (min, preferred, max); its target is hours from now."""
        widths = Widths(gpus, gpus, gpus) if isinstance(gpus, int) else Widths(*gpus)
        class_id = ClassId(NAMESPACE, profile) if profile else ClassId.of_job(JobId(name))
        known = self.profiles.get(class_id)
        declared = known.mean_work if known is not None else None
        made = Job(
            id=JobId(name),
            namespace=NAMESPACE,
            name=name,
            generation=1,
            resource_version="1",
            created=after(self.now, -age_seconds),
            budget=None if budget is None else BudgetId(budget),
            class_id=class_id,
            weight=weight,
            widths=widths,
            gpu_types=gpu_types,
            spot=spot,
            resize=resize,
            suspend=suspend,
            deleting=False,
            backoff_limit=3,
            max_restarts=100,
            ready_timeout_seconds=600.0,
            ttl_seconds_after_finished=None,
            grace_seconds=grace_seconds,
            pod_gpus=widths.preferred,
            remaining=declared if hours_left is None else hours_left * 3600,
            progress=None,
            allocation=None,
            last_run=0,
            records=(),
            failures=0,
            restarts=0,
            finish=None,
            invalid="",
            runs=(),
            max_cost=None if max_cost is None else Money.parse(max_cost),
            target_completion=None if target_hours is None else after(self.now, target_hours * 3600.0),
        )
        self.jobs[made.id] = made
        return made

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
        """The job has ``gpus`` GPUs, spread evenly over rentals, and all its pods run."""
        pool = self.pools[self.rentals[RentalId(rentals[0])].pool]
        assert pool.offering is not None
        assert pool.quote is not None
        option = Option(pool.id, gpus, speed, pool.quote.price.share(gpus, pool.offering.gpus_per_node))
        places = tuple(Placement(RentalId(rental), gpus // len(rentals)) for rental in rentals)
        name = JobId(job)
        run = self.jobs[name].last_run + 1
        self.jobs[name] = replace(self.jobs[name], allocation=Allocation(run, option, places, self.now), last_run=run)
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
                    self.rentals[rental], phase=RentalPhase.DRAINING, released_because=why.message
                )
            case Allocate(name, allocation, _, predicted):
                job = self.jobs[name]
                moves = moves_with(job, command)
                same = job.allocation is None or (allocation is not None and allocation.run == job.allocation.run)
                replaced = job.replaced if same or job.allocation is None else (*job.replaced, job.allocation)
                first = job.predicted or predicted
                last = job.last_run if allocation is None else max(job.last_run, allocation.run)
                changed = replace(job, allocation=allocation, replaced=replaced, last_run=last)
                self.jobs[name] = replace(changed, predicted=first, moves=moves)

    def _rented(self, command: Rent, at: Instant) -> None:
        quote = self.pools[command.pool].quote
        self.rentals[command.rental] = Rental(
            id=command.rental,
            uid=f"uid-{command.rental}-{at}",
            resource_version="1",
            pool=command.pool,
            budget=command.budget,
            created=at,
            phase=RentalPhase.REQUESTED,
            reserved=command.reserve,
            worst=command.worst,
            billing_minimum_seconds=0 if quote is None else quote.billing_minimum_seconds,
            segments=(),
            instance=None,
            provider_id="",
            node=None,
            launched=None,
            ready=None,
            ended=None,
            cost=None,
            released_because="",
            deleting=False,
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
        node = NodeName(f"n-{name}")
        self.rentals[rental.id] = replace(rental, phase=RentalPhase.READY, node=node, ready=self.now)
        self.nodes[node] = Node(
            name=node,
            uid=f"uid-{node}",
            resource_version="1",
            provider_id=rental.provider_id,
            ready=True,
            unschedulable=False,
            deleting=False,
            gpus=offering.gpus_per_node,
            foreign_gpus=0,
            run_labels={},
        )

    def starts(self, name: str) -> None:
        """The job's former runs have ended and are recorded; the run of its allocation runs with all pods."""
        self.stops(name)
        job = self.jobs[JobId(name)]
        allocation = job.allocation
        if allocation is None:
            return
        pods = tuple(
            _pod(job, allocation, index, place, self.rentals[place.rental].node)
            for index, place in enumerate(allocation.placements)
        )
        run = Run(
            number=allocation.run,
            name=f"{job.name}-r{allocation.run}",
            uid=f"uid-{job.name}-r{allocation.run}",
            resource_version="1",
            completions=len(pods),
            suspended=False,
            deleting=False,
            created=self.now,
            started=self.now,
            complete=None,
            failed=None,
            failed_message="",
            pods=pods,
        )
        self.jobs[job.id] = replace(job, runs=(run,))

    def stops(self, name: str) -> None:
        """The pods of the job's former runs are gone, and how those ended is recorded."""
        job = self.jobs[JobId(name)]
        records = tuple(
            RunRecord(one.run, RunOutcome.STOPPED, one.option, one.placements, one.since, self.now, "")
            for one in job.replaced
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

    # --- what is seen -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Everything as it is now, every cloud asked just now."""
        return Snapshot(
            now=self.now,
            budgets=dict(self.budgets),
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
            )
            for rental in own
        )
        return Survey(
            pool=pool,
            target=sum(rental.phase is not RentalPhase.ENDED for rental in own),
            instances=instances,
            failures=(),
            notices=self.notices.get(pool, ()),
            asked=self.now,
            lag_seconds=self.lag_seconds,
            listed_seconds=3600.0,
            offering=offering,
        )


def _pod(job: Job, allocation: Allocation, index: int, place: Placement, node: NodeName | None) -> Pod:
    name = f"{job.name}-r{allocation.run}-{index}"
    return Pod(
        name=name,
        uid=f"uid-{name}",
        run=allocation.run,
        index=index,
        gpus=place.gpus,
        node=node,
        phase=PodPhase.RUNNING,
        ready=True,
        deleting=False,
        disrupted=False,
        exit_code=None,
        finished=None,
        message="",
        allocation=allocation.annotation,
        resource_version="1",
    )
