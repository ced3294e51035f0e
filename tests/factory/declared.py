"""Objects that users write, declared in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from charterer.clouds.existing import ExistingNodes
from charterer.clouds.fake import FakeGroup
from charterer.domain.budget import EVERYTHING, GPU_HOUR, Budget, GpuHours, Mode, Selector
from charterer.domain.ids import BudgetId, ClassId, JobId, PoolId, Rate
from charterer.domain.interactive import Interactive
from charterer.domain.job import Job, ResizePolicy, SpotPolicy, Widths
from charterer.domain.money import Money, Price
from charterer.domain.node_demands import NO_DEMANDS, NodeDemands
from charterer.domain.pool import CapacityType, Commitment, Offering, Partition, Pool, Quote
from charterer.domain.profile import Amdahl, Phase, PowerLaw, Profile, SpeedCurve, ThroughputTable
from charterer.domain.time import Calendar, Instant, after, parse_instant
from tests import factory
from tests.factory.pools import cooled

NAMESPACE = "team"
NO_LABELS: Mapping[str, str] = {}
NO_ROOM: Mapping[str, int] = {}
MID_MONTH = parse_instant("2026-06-16T00:00:00Z")
"""Half of June, a month of 30 days, is over: 360 hours are left."""
_MONTHS = Calendar("UTC")


@dataclass
class Declared:
    """Budgets, pools, profiles and jobs by name, and the clock."""

    now: Instant = MID_MONTH
    budgets: dict[BudgetId, Budget] = field(default_factory=dict)
    pools: dict[PoolId, Pool] = field(default_factory=dict)
    profiles: dict[ClassId, Profile] = field(default_factory=dict)
    jobs: dict[JobId, Job] = field(default_factory=dict)

    def budget(
        self,
        name: str = "research",
        *,
        amount: str = "60000",
        spent: str = "0",
        hard_limit: str | None = None,
        max_hourly: str | None = None,
        ceiling: str | None = None,
        mode: Mode = Mode.ENFORCE,
        calendar: Calendar = _MONTHS,
        pools: Selector = EVERYTHING,
        parent: str | None = None,
        lends: bool = False,
        opening: str | None = "0",
        gpu_hours: Mapping[str, float] | None = None,
    ) -> Budget:
        """A budget made just now whose period is open and of which ``spent`` is settled; ``pools`` that it may rent.

        ``opening``: what was spent before; None where its owner does not say.
        """
        start = calendar.bounds(self.now)[0]
        made = factory.budget(
            id=BudgetId(name),
            uid=f"uid-{name}",
            created=self.now,
            amount=Money.parse(amount),
            calendar=calendar,
            mode=mode,
            hard_limit=None if hard_limit is None else Money.parse(hard_limit),
            max_hourly_rate=None if max_hourly is None else Price.parse(max_hourly),
            rate_ceiling=None if ceiling is None else Rate(Price.parse(ceiling).dollars_per_second),
            balance=factory.balance(period_start=start, settled=Money.parse(spent), lifetime=Money.parse(spent)),
            guarded=False,
            pool_selector=pools,
            parent=None if parent is None else BudgetId(parent),
            lends=lends,
            opening_spend=None if opening is None else Money.parse(opening),
            gpu_hours=tuple([GpuHours(name, round(hours * GPU_HOUR)) for name, hours in (gpu_hours or {}).items()]),
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
        labels: Mapping[str, str] = NO_LABELS,
        cut: str = "",
        committed_hours: float | None = None,
        payer: str = "research",
        own: bool = False,
        node_labels: Mapping[str, str] = NO_LABELS,
        room: Mapping[str, int] = NO_ROOM,
    ) -> Pool:
        """A pool whose nodes have ``gpus`` GPUs at ``price`` dollars an hour; its GPU type is its name by default.

        ``cut``: the MIG profile as which its GPUs are cut, or ``mps-2`` where two jobs share one.
        ``committed_hours``: for so long the ``payer`` pays for all of its nodes, used or not. ``own``: they are there
        anyway, for the ``payer``. ``node_labels`` and ``room`` (whole units): what its nodes have.
        """
        committed = own or committed_hours is not None
        until = None if own else after(self.now, (committed_hours or 0.0) * 3600.0)
        offering: Offering | None = Offering(gpu_type or name, gpus, f"{name}-{gpus}", "zone-a")
        partition = Partition(cut) if cut else None
        if partition is not None and offering is not None:
            offering = offering.cut(partition)
        quote = Quote(Price.parse(price), Price.parse(worst or price), billing_minimum, "test", self.now)
        made = factory.pool(
            id=PoolId(name),
            uid=f"uid-{name}",
            cloud=ExistingNodes((("pool", name),), BudgetId(payer)) if own else FakeGroup("http://cloud", name),
            max_nodes=max_nodes,
            capacity_type=capacity,
            start_seconds=start_seconds,
            cooldown_seconds=600.0,
            offering=offering,
            partition=partition,
            quote=quote,
            cooled=() if cooled_for is None else cooled(after(self.now, cooled_for), 600.0),
            guarded=False,
            labels=labels,
            price_override=Price.parse(price) if committed else None,
            committed=Commitment(until, BudgetId(payer)) if committed else None,
            node_labels=node_labels,
            node_resources={name: 1000 * amount for name, amount in room.items()},
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
        checkpoint_seconds: float | None = 30.0,
        others: Iterable[SpeedCurve] = (),
        budget: str | None = None,
    ) -> Profile:
        """A profile with one curve on ``gpu_type``, and ``others``, of a class whose jobs are known to save."""
        made = Profile(
            id=ClassId(NAMESPACE, name),
            generation=1,
            phases=(Phase(1.0, (SpeedCurve(gpu_type, form), *others)),),
            mean_work=None if work_hours is None else work_hours * 3600,
            arrivals_per_hour=arrivals_per_hour,
            restart_seconds=restart_seconds,
            checkpoint_seconds=checkpoint_seconds,
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
        interactive: Interactive | None = None,
        slices: tuple[str, ...] = (),
        shared_mib: int = 0,
        each: int = 0,
        demands: NodeDemands = NO_DEMANDS,
    ) -> Job:
        """A job that waits; ``gpus`` is a rigid width or (min, preferred, max); its target is hours from now.

        ``each``: the GPUs of every pod, as an adopted object has them.
        """
        widths = Widths(*((gpus, gpus, gpus) if isinstance(gpus, int) else gpus), slices, shared_mib, each=each)
        class_id = ClassId(NAMESPACE, profile) if profile else ClassId.of_job(JobId(name))
        followed = self.profiles.get(class_id)
        declared = followed.mean_work if followed is not None else None
        made = factory.job(
            name,
            id=JobId(name),
            namespace=NAMESPACE,
            created=after(self.now, -age_seconds),
            budget=None if budget is None else BudgetId(budget),
            class_id=class_id,
            weight=weight,
            widths=widths,
            gpu_types=gpu_types,
            spot=spot,
            resize=resize,
            suspend=suspend,
            backoff_limit=3,
            max_restarts=100,
            grace_seconds=grace_seconds,
            pod_gpus=widths.preferred,
            remaining=declared if hours_left is None else hours_left * 3600,
            has_service=False,
            max_cost=None if max_cost is None else Money.parse(max_cost),
            target_completion=None if target_hours is None else after(self.now, target_hours * 3600.0),
            interactive=interactive,
            demands=demands,
        )
        self.jobs[made.id] = made
        return made
