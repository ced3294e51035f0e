"""A snapshot of one budget, one pool of two nodes and two jobs, and the plan made of it."""

from __future__ import annotations

from charterer.domain.budget import Budget, Mode, Selector
from charterer.domain.ids import BudgetId, ClassId, InstanceId, JobId, NodeName, PoolId, Rate, RentalId
from charterer.domain.job import (
    Allocation,
    Job,
    Placement,
    Pod,
    PodPhase,
    Progress,
    ResizePolicy,
    Run,
    SpotPolicy,
    Widths,
)
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.option import Option
from charterer.domain.plan import BudgetVerdict, Plan
from charterer.domain.pool import CapacityType, FakeGroup, Offering, Pool, PriceSegment, Quote
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant

NOW = Instant(1_700_000_000_000_000)
TEAM = BudgetId("team")
A100 = PoolId("a100")
PRICE = Price.parse("12.00")


def budget() -> Budget:
    return Budget(
        id=TEAM,
        uid="u-team",
        resource_version="1",
        generation=1,
        created=NOW,
        amount=Money.parse("60000"),
        time_zone="UTC",
        selector=Selector((), ()),
        mode=Mode.ENFORCE,
        hard_limit=None,
        max_hourly_rate=None,
        opening_spend=ZERO,
        weights=(),
        balance=None,
        deleting=False,
    )


def pool(cooled_until: Instant | None = None) -> Pool:
    return Pool(
        id=A100,
        uid="u-a100",
        resource_version="1",
        generation=1,
        cloud=FakeGroup("http://cloud", "a100"),
        max_nodes=6,
        capacity_type=CapacityType.ON_DEMAND,
        start_seconds=120.0,
        cooldown_seconds=300.0,
        price_override=None,
        offering=Offering("NVIDIA-A100-SXM4-40GB", 4, "fake.a100-4x", "fake-1a"),
        quote=Quote(PRICE, PRICE, 0, "list", NOW),
        cooled_until=cooled_until,
        cooled_because="",
        deleting=False,
    )


def rental(name: str, phase: RentalPhase, node: str | None = None) -> Rental:
    launched = None if phase is RentalPhase.REQUESTED else NOW
    return Rental(
        id=RentalId(name),
        uid=f"u-{name}",
        resource_version="1",
        pool=A100,
        budget=TEAM,
        created=NOW,
        phase=phase,
        reserved=ZERO,
        worst=Price.parse("20.00"),
        billing_minimum_seconds=0,
        segments=() if launched is None else (PriceSegment(NOW, PRICE),),
        instance=InstanceId(f"i-{name}") if launched is not None else None,
        provider_id=f"fake:///i-{name}" if launched is not None else "",
        node=NodeName(node) if node is not None else None,
        launched=launched,
        ready=None,
        ended=NOW if phase is RentalPhase.ENDED else None,
        cost=None,
        released_because="",
        deleting=False,
    )


def pod(index: int, node: str, gpus: int, phase: PodPhase = PodPhase.RUNNING) -> Pod:
    return Pod(
        name=f"sft-r1-{index}",
        uid=f"u-{index}",
        run=1,
        index=index,
        gpus=gpus,
        node=NodeName(node),
        phase=phase,
        ready=True,
        deleting=False,
        disrupted=False,
        exit_code=None,
        finished=None,
        message="",
        allocation="",
        resource_version="1",
    )


def job(name: str, *, gpus: int = 0, pods: tuple[Pod, ...] = (), progress: float | None = None) -> Job:
    option = Option(A100, gpus, 1.0, PRICE)
    allocation = Allocation(1, option, (Placement(RentalId("a100-1"), gpus),), NOW) if gpus else None
    run = Run(1, f"{name}-r1", "u-run", "1", 1, False, False, NOW, NOW, None, None, "", pods)
    return Job(
        id=JobId(f"u-{name}"),
        namespace="research",
        name=name,
        generation=1,
        resource_version="1",
        created=NOW,
        budget=TEAM,
        class_id=ClassId.of_job(JobId(f"u-{name}")),
        weight=1.0,
        widths=Widths(1, 1, 4),
        gpu_types=(),
        spot=SpotPolicy.NEVER,
        resize=ResizePolicy.NEVER,
        suspend=False,
        deleting=False,
        backoff_limit=0,
        max_restarts=0,
        ready_timeout_seconds=600.0,
        ttl_seconds_after_finished=None,
        grace_seconds=30,
        pod_gpus=1,
        remaining=None,
        progress=Progress(1, progress, None, None, NOW) if progress is not None else None,
        allocation=allocation,
        last_run=1,
        records=(),
        failures=0,
        restarts=0,
        finish=None,
        invalid="",
        runs=(run,) if pods else (),
    )


def snapshot(
    *,
    pools: tuple[Pool, ...] = (pool(),),
    budgets: tuple[Budget, ...] = (budget(),),
    jobs: tuple[Job, ...] = (),
    rentals: tuple[Rental, ...] = (),
) -> Snapshot:
    return Snapshot(
        now=NOW,
        budgets={b.id: b for b in budgets},
        pools={p.id: p for p in pools},
        surveys={},
        profiles={},
        jobs={j.id: j for j in jobs},
        rentals={r.id: r for r in rentals},
        nodes={},
    )


def plan() -> Plan:
    verdict = BudgetVerdict(
        rate=Rate(0.005),
        planned=Price.parse("40"),
        allowed=Price.parse("83.50"),
        feasible=True,
        spent=Money.parse("1234.56"),
        committed=Money.parse("24"),
        forecast=Money.parse("58000"),
        forecast_low=Money.parse("58000"),
        forecast_high=Money.parse("58000"),
    )
    return Plan(commands=(), budgets={TEAM: verdict}, pools={}, classes=(), jobs={}, would=(), again_at=None)
