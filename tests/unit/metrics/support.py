"""A snapshot of one budget, one pool and two jobs as metrics tests want them, and a plan made of it."""

from __future__ import annotations

from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId, InstanceId, JobId, NodeName, PoolId, Rate, RentalId
from charterer.domain.job import Allocation, Job, Placement, Widths
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.order import CoolDown
from charterer.domain.plan import ArrivalsBasis, ArrivalsVerdict, BudgetVerdict, ForecastVerdict, Plan
from charterer.domain.pod import Pod, PodPhase
from charterer.domain.pool import Offering, Pool, PriceSegment, Quote
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.reports import Progress
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from tests import factory

NOW = Instant(1_700_000_000_000_000)
TEAM = BudgetId("team")
A100 = PoolId("a100")
PRICE = Price.parse("12.00")


def budget() -> Budget:
    return factory.budget(created=NOW, amount=Money.parse("60000"), balance=None)


def pool(cooled: tuple[CoolDown, ...] = ()) -> Pool:
    return factory.pool(
        max_nodes=6,
        offering=Offering("NVIDIA-A100-SXM4-40GB", 4, "fake.a100-4x", "fake-1a"),
        quote=Quote(PRICE, PRICE, 0, "list", NOW),
        cooled=cooled,
    )


def rental(name: str, phase: RentalPhase, node: str | None = None) -> Rental:
    launched = None if phase is RentalPhase.REQUESTED else NOW
    return factory.rental(
        name,
        phase=phase,
        created=NOW,
        worst=Price.parse("20.00"),
        segments=() if launched is None else (PriceSegment(NOW, PRICE),),
        instance=None if launched is None else InstanceId(f"i-{name}"),
        provider_id="" if launched is None else f"fake:///i-{name}",
        node=None if node is None else NodeName(node),
        launched=launched,
        ended=NOW if phase is RentalPhase.ENDED else None,
    )


def pod(index: int, node: str, gpus: int, phase: PodPhase = PodPhase.RUNNING) -> Pod:
    return factory.pod(index, node=NodeName(node), gpus=gpus, phase=phase)


def job(name: str, *, gpus: int = 0, pods: tuple[Pod, ...] = (), progress: float | None = None) -> Job:
    allocation = Allocation(1, Option(A100, gpus, 1.0, PRICE), (Placement(RentalId("a100-1"), gpus),), NOW)
    return factory.job(
        name,
        id=JobId(f"u-{name}"),
        created=NOW,
        widths=Widths(1, 1, 4),
        allocation=allocation if gpus else None,
        last_run=1,
        progress=None if progress is None else Progress(1, progress, None, None, NOW),
        runs=(factory.run(1, *pods, job=name),) if pods else (),
    )


def snapshot(
    *,
    pools: tuple[Pool, ...] = (pool(),),
    budgets: tuple[Budget, ...] = (budget(),),
    jobs: tuple[Job, ...] = (),
    rentals: tuple[Rental, ...] = (),
) -> Snapshot:
    return factory.snapshot(*pools, *budgets, *jobs, *rentals, now=NOW, bare=True)


def plan() -> Plan:
    verdict = BudgetVerdict(
        rate=Rate(0.005),
        planned=Price.parse("40"),
        allowed=Price.parse("83.50"),
        feasible=True,
        spent=Money.parse("1234.56"),
        committed=Money.parse("24"),
        in_sight=Money.parse("100"),
        to_come=Money.parse("200"),
        arrivals=ArrivalsVerdict(0.5, ArrivalsBasis.COUNTED, 3, 20),
        forecast=ForecastVerdict(Money.parse("58000"), Money.parse("57000"), Money.parse("59000")),
    )
    return Plan(
        commands=(), budgets={TEAM: verdict}, pools={}, classes=(), jobs={}, observed_commands=(), again_at=None
    )
