"""What an operator's metrics show, look by look: of a cluster in which all is well, and of one with a fault.

Scenes are made up, the metrics are the real ones: ``World`` hands each scene to ``charterer.metrics`` as the operator
does. A look stands for a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from charterer.domain.budget import GPU_HOUR, Cause, Costs
from charterer.domain.ids import InstanceId, JobId, NodeName, PoolId, Rate, RentalId
from charterer.domain.job import Finish, FinishKind, Job, RunOutcome, RunRecord
from charterer.domain.money import Money, Price
from charterer.domain.plan import (
    ArrivalsBasis,
    ArrivalsVerdict,
    BudgetVerdict,
    ForecastVerdict,
    GpuHoursVerdict,
    Limit,
    Plan,
    PoolVerdict,
    SpendVerdict,
)
from charterer.domain.pool import Quote
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot, Stop
from charterer.domain.steps import Forget
from charterer.domain.time import Instant, after
from charterer.metrics.instruments import Metrics
from tests import factory
from tests.factory import OFFERING, POOL, PRICE, TEAM

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Scene:
    """What is the case in one look. The amount of the budget is $1,000 and its hard limit $2,000.

    ``below``: what budgets below it have spent, empty without any. ``plan_seconds``: of each plan made.
    ``gpu_hours``: used of 2,000.
    ``dollars``: spent since the last look, by cause. ``failed`` and ``interrupted``: runs that ended so since the
    last look. ``waited``: seconds that a queued job has waited. ``slow``: phases of rentals that were asked for at
    the first look and never move on. ``gone``: the pool's object is.
    """

    leader: bool = True
    event_age: float = 1.0
    plan_seconds: tuple[float, ...] = (0.01, 0.02, 0.01, 0.01)
    turns_fail: bool = False
    failed_steps: int = 0
    refused_calls: int = 0
    spent: str = "400"
    below: str = ""
    gpu_hours: float = 100.0
    forecast_low: str = "800"
    feasible: bool = True
    dollars: Mapping[Cause, str] = field(default_factory=lambda: {Cause.JOB: "2", Cause.IDLE: "0.1"})
    price_age: float = 10.0
    cooling: bool = False
    scarcity: str = "0"
    waited: float = 30.0
    failed: int = 0
    interrupted: int = 0
    slow: tuple[RentalPhase, ...] = ()
    gone: bool = False
    stop: Stop | None = None


WELL = Scene()
BUSY = replace(WELL, below="100", cooling=True, scarcity="1.50", failed=1, interrupted=1, slow=(RentalPhase.STARTING,))
"""All is well enough, and everything that a dashboard asks for happens."""

FAULTS: Mapping[str, Scene] = {
    "ChartererNobodyLeads": replace(WELL, leader=False),
    "ChartererWatchSilent": replace(WELL, event_age=300.0),
    "ChartererNotPlanning": replace(WELL, turns_fail=True),
    "ChartererPlansSlow": replace(WELL, plan_seconds=(8.0,) * 4),
    "ChartererStepsFail": replace(WELL, failed_steps=2),
    "ChartererCloudRefuses": replace(WELL, refused_calls=2),
    "ChartererHardLimitExceeded": replace(WELL, spent="2000.01"),
    "ChartererGpuHoursNearlyUsed": replace(WELL, gpu_hours=1_801.0),
    "ChartererBudgetForecastHigh": replace(WELL, forecast_low="1001"),
    "ChartererBudgetTooSmall": replace(WELL, feasible=False),
    "ChartererMoneyIdle": replace(WELL, dollars={Cause.JOB: "2", Cause.IDLE: "2"}),
    "ChartererPriceStale": replace(WELL, price_age=7_200.0),
    "ChartererNodesDoNotStart": replace(WELL, slow=(RentalPhase.STARTING,)),
    "ChartererNodesDoNotEnd": replace(WELL, slow=(RentalPhase.DRAINING,)),
    "ChartererPoolGone": replace(WELL, gone=True),
    "ChartererPoolOutOfStock": replace(WELL, cooling=True),
    "ChartererStopped": replace(WELL, stop=Stop.RENT),
    "ChartererJobsWait": replace(WELL, waited=1.1 * _DAY),
    "ChartererRunsFail": replace(WELL, failed=1),
    "ChartererRunsInterrupted": replace(WELL, interrupted=1),
}
"""For each alert, the fault that it is for."""


class World:
    """An operator that shows one scene after the other; ``now`` is its clock. Its rentals are ``age`` seconds old."""

    def __init__(self, now: Callable[[], Instant], age: float = 0.0) -> None:
        self.metrics = Metrics(per_job=True)
        self._now = now
        self._began = after(now(), -age)
        self._spent: dict[tuple[PoolId, Cause], Money] = {}
        self._jobs: dict[JobId, Job] = {}
        self._looks = 0

    def look(self, scene: Scene) -> None:
        """Show the scene: its counters go up, its gauges are as of now."""
        metrics = self.metrics
        metrics.leading(scene.leader)
        metrics.last_event_age(lambda: scene.event_age)
        for seconds in scene.plan_seconds:
            metrics.plan_took(seconds)
            metrics.turned("failed" if scene.turns_fail else "done")
        for outcome, times in (("done", 3), ("failed", scene.failed_steps)):
            for _ in range(times):
                metrics.step_done(Forget(RentalId("a100-1")), outcome)
        for outcome, times in (("ok", 4), ("throttled", scene.refused_calls)):
            for _ in range(times):
                metrics.cloud_called("fake", "survey", outcome, 0.02)
        metrics.api_written("patch", "trainingjobs/status")
        self._looks += 1
        self._change_jobs(scene)
        for cause, dollars in scene.dollars.items():
            self._spent[POOL, cause] = self._spent.get((POOL, cause), Money(0)) + Money.parse(dollars)
        metrics.observe(replace(self._snapshot(scene), stop=scene.stop), _plan(scene), _state)

    def _change_jobs(self, scene: Scene) -> None:
        """A job waits, one runs, and with each look one starts, and others end."""
        now = self._now()
        self._jobs = {name: job for name, job in self._jobs.items() if job.finish is None}
        for job in [job for job in self._jobs.values() if job.name.startswith("short")]:
            self._end(job, RunOutcome.COMPLETE, now)
        for outcome, times in ((RunOutcome.FAILED, scene.failed), (RunOutcome.INTERRUPTED, scene.interrupted)):
            for number in range(times):
                self._end(self._add(f"{outcome.value.lower()}-{number}-{self._looks}", 60.0), outcome, now)
        self._add("waiting", scene.waited)
        self._add("running", 600.0, since=after(now, -300))
        self._add(f"short-{self._looks}", 90.0, since=now)

    def _add(self, name: str, age: float, since: Instant | None = None) -> Job:
        held = None if since is None else factory.allocation("a100-1", since=since)
        job = factory.job(
            name,
            id=JobId(name),
            created=after(self._now(), -age),
            allocation=held,
            progress=None,
        )
        self._jobs[job.id] = job
        return job

    def _end(self, job: Job, outcome: RunOutcome, now: Instant) -> None:
        held = factory.allocation("a100-1", since=after(now, -50))
        record = RunRecord(1, outcome, held.option, held.placements, held.since, now, "")
        kind = FinishKind.COMPLETE if outcome is RunOutcome.COMPLETE else FinishKind.FAILED
        self._jobs[job.id] = replace(
            job, allocation=None, records=(record,), finish=Finish(kind, now, outcome.value, "")
        )

    def _snapshot(self, scene: Scene) -> Snapshot:
        now = self._now()
        jobs_cost = {"research": self._spent.get((POOL, Cause.JOB), Money(0))}
        books = factory.balance(costs=Costs(dict(self._spent), jobs_cost, now))
        cooled = factory.cooled(after(now, 60)) if scene.cooling else ()
        return factory.snapshot(
            factory.budget(balance=books, hard_limit=Money.parse("2000")),
            factory.pool(
                offering=OFFERING,
                quote=Quote(PRICE, PRICE, 0, "list", after(now, -scene.price_age)),
                cooled=cooled,
                gone=scene.gone,
            ),
            *self._rentals(scene),
            *self._jobs.values(),
            now=now,
        )

    def _rentals(self, scene: Scene) -> list[Rental]:
        good = factory.rental("a100-1", machine=factory.instance(launched=self._began))
        return [
            good,
            *(
                replace(
                    good,
                    id=RentalId(f"a100-{phase.value.lower()}"),
                    phase=phase,
                    created=self._began,
                    instance=InstanceId(phase.value),
                    node=NodeName(phase.value),
                )
                for phase in scene.slow
            ),
        ]


def _plan(scene: Scene) -> Plan:
    low = Money.parse(scene.forecast_low)
    verdict = BudgetVerdict(
        rate=Rate(0.005),
        planned=Price.parse("40"),
        allowed=Price.parse("83.50"),
        feasible=scene.feasible,
        spent=Money.parse(scene.spent),
        committed=Money.parse(scene.spent),
        in_sight=Money.parse("100"),
        to_come=Money.parse("200"),
        arrivals=ArrivalsVerdict(0.5, ArrivalsBasis.COUNTED, 3, 20),
        forecast=ForecastVerdict(low, low, low),
        gpu_hours=(_hours(scene),),
        with_descendants=_together(scene, ForecastVerdict(low, low, low)) if scene.below else None,
    )
    worth = Price.parse(scene.scarcity)
    pools = {POOL: PoolVerdict(Limit.MAX_NODES, 6, worth, worth, short=False, payable=Price.parse("100"))}
    return Plan(
        commands=(), budgets={TEAM: verdict}, pools=pools, classes=(), jobs={}, observed_commands=(), again_at=None
    )


def _hours(scene: Scene) -> GpuHoursVerdict:
    used = round(scene.gpu_hours * GPU_HOUR)
    return GpuHoursVerdict("H100", 2_000 * GPU_HOUR, used, used, 2_000 * GPU_HOUR)


def _together(scene: Scene, forecast: ForecastVerdict) -> SpendVerdict:
    spent = Money.parse(scene.spent) + Money.parse(scene.below)
    return SpendVerdict(Money.parse("1000"), spent, spent, Price.parse("40"), forecast)


def _state(job: Job) -> str:
    if job.finish is not None:
        return job.finish.kind.value
    return "Queued" if job.allocation is None else "Running"
