"""A snapshot and its plan as metrics, computed at every scrape, so that series of deleted objects disappear."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from charterer.domain.budget import GPU_HOUR, Budget, Cause
from charterer.domain.ids import BudgetId, JobId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.job_quote import outcome
from charterer.domain.job_records import SessionState, job_cost, session_state, spans
from charterer.domain.money import total
from charterer.domain.plan import Plan, SpendVerdict
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.metrics import catalogue
from charterer.metrics.catalogue import MetricSpec, MetricType

# Counts of job waits, durations and run ends: each is the difference between a snapshot and the previous one.
#
# Events during which no process led are not counted, because the first snapshot is only a base for comparison.


class JobTimesObserver(Protocol):
    """Receives events of jobs. Seconds are not negative; ``budget`` and ``namespace`` are those of the job."""

    def started(self, budget: str, namespace: str, waited: float) -> None:
        """A job got GPUs for the first time, ``waited`` seconds after its creation."""

    def run_ended(self, budget: str, namespace: str, outcome: str) -> None:
        """A run ended. ``outcome``: the word of ``RunOutcome`` in lower case."""

    def finished(self, budget: str, namespace: str, result: str, ran: float, took: float) -> None:
        """A job ended for good.

        ``result``: ``complete`` or ``failed``; ``ran``: seconds of its runs; ``took``: since creation.
        """

    def quoted(self, budget: str, namespace: str, figure: str, *, held: bool) -> None:
        """A job with a quote completed. ``figure``: ``cost`` or ``end``."""


class JobTimes:
    """Compares each snapshot with the previous one."""

    def __init__(self, observer: JobTimesObserver, label: Callable[[str], str]) -> None:
        self._observer = observer
        self._label = label
        self._before: Mapping[JobId, Job] | None = None

    def look(self, snapshot: Snapshot) -> None:
        """Count the events since the last call, in time linear in the changed jobs."""
        before, self._before = self._before, snapshot.jobs
        if before is None:
            return
        for name, job in snapshot.jobs.items():
            earlier = before.get(name)
            if earlier is not job and job.budget is not None:
                self._compare(earlier, job, snapshot)

    def _compare(self, earlier: Job | None, job: Job, snapshot: Snapshot) -> None:
        payer = (str(job.budget), self._label(job.namespace))
        started = first_start(job)
        if started is not None and (earlier is None or first_start(earlier) is None):
            self._observer.started(*payer, _seconds(job.created, started))
        known = set() if earlier is None else {record.number for record in earlier.records}
        for record in job.records:
            if record.number not in known:
                self._observer.run_ended(*payer, record.outcome.value.lower())
        if job.finish is not None and (earlier is None or earlier.finish is None):
            ran = sum(_seconds(start, end) for _, start, end in spans(job, job.finish.at))
            self._observer.finished(*payer, job.finish.kind.value.lower(), ran, _seconds(job.created, job.finish.at))
            if job.quote is not None and job.finish.done:
                came = outcome(job.quote, job_cost(job, snapshot.rentals, snapshot.now), job.finish.at)
                self._observer.quoted(*payer, "cost", held=came.cost)
                if came.end is not None:
                    self._observer.quoted(*payer, "end", held=came.end)


def first_start(job: Job) -> Instant | None:
    """The time at which the job first got GPUs, as far as its record goes back; None before that."""
    current = () if job.allocation is None else (job.allocation,)
    intended = [allocation.since for allocation in (*current, *job.replaced)]
    return min([*intended, *(record.since for record in job.records)], default=None)


def waiting_since(job: Job) -> Instant:
    """The time since which a job without an allocation waits: its creation, or the end of its last run."""
    return max((record.until for record in job.records), default=job.created)


def _seconds(start: Instant, end: Instant) -> float:
    return max(seconds_between(start, end), 0.0)


_SECONDS_PER_HOUR = 3600
_EXISTING = (RentalPhase.REQUESTED, RentalPhase.STARTING, RentalPhase.READY, RentalPhase.DRAINING)


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """The source of all series: a snapshot, its plan, and the function that returns the word in a job's State column.

    ``draining_since``: when this process first saw each rental draining. ``per_job``: whether each job has series.
    ``label``: the label's value for a namespace, from a bounded set of values.
    """

    snapshot: Snapshot
    plan: Plan
    state: Callable[[Job], str]
    draining_since: Mapping[RentalId, Instant]
    per_job: bool
    label: Callable[[str], str]


class _Family:
    def __init__(self, spec: MetricSpec) -> None:
        self._labels = spec.labels
        made = CounterMetricFamily if spec.kind is MetricType.COUNTER else GaugeMetricFamily
        self.metric = made(spec.name, spec.help, labels=spec.labels)

    def add(self, value: float, **labels: str) -> None:
        self.metric.add_metric([labels[name] for name in self._labels], value)


def families(view: MetricsSource) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    """Every family of ``catalogue.FROM_SNAPSHOT``, including those without a sample."""
    collected = {spec.name: _Family(spec) for spec in catalogue.FROM_SNAPSHOT}
    _budgets(view, collected)
    _pools(view, collected)
    _jobs(view, collected)
    _rentals(view, collected)
    _operator(view, collected)
    return (family.metric for family in collected.values())


def _operator(view: MetricsSource, collected: Mapping[str, _Family]) -> None:
    snapshot, limits = view.snapshot, view.snapshot.limits
    collected[catalogue.NODES.name].add(sum(rental.phase in _EXISTING for rental in snapshot.rentals.values()))
    if snapshot.stop is not None:
        collected[catalogue.STOPPED.name].add(1.0, mode=snapshot.stop.value)
    if limits.nodes is not None:
        collected[catalogue.NODES_LIMIT.name].add(limits.nodes)
    if limits.hourly is not None:
        collected[catalogue.HOURLY_LIMIT.name].add(limits.hourly.dollars_per_hour)


def _budgets(view: MetricsSource, collected: Mapping[str, _Family]) -> None:
    rented = Counter[str]()
    for rental in view.snapshot.rentals.values():
        if rental.billed:
            rented[rental.budget] += _price_micros(rental)
    waits = _longest_waits(view)
    for name, budget in view.snapshot.budgets.items():
        collected[catalogue.BUDGET_AMOUNT.name].add(budget.amount.dollars, budget=name)
        collected[catalogue.BUDGET_RENTED_RATE.name].add(rented[name] / 1_000_000, budget=name)
        collected[catalogue.LONGEST_WAIT.name].add(waits.get(name, 0.0), budget=name)
        _costs(budget, collected)
        if budget.limit is not None:
            collected[catalogue.BUDGET_HARD_LIMIT.name].add(budget.limit.dollars, budget=name)
        verdict = view.plan.budgets.get(name)
        loans = () if verdict is None else verdict.loans
        collected[catalogue.BUDGET_AIM.name].add(replace(budget, loans=loans).aim.dollars, budget=name)
        if verdict is None:
            continue
        for hours in verdict.gpu_hours:
            for spec, micros in (
                (catalogue.BUDGET_GPU_HOURS, hours.amount),
                (catalogue.BUDGET_GPU_HOURS_USED, hours.used),
                (catalogue.BUDGET_GPU_HOURS_RELEASED, hours.released),
            ):
                collected[spec.name].add(micros / GPU_HOUR, budget=name, gpu_type=hours.gpu_type)
        for spec, value in (
            (catalogue.BUDGET_SPENT, verdict.spent.dollars),
            (catalogue.BUDGET_COMMITTED, verdict.committed.dollars),
            (catalogue.BUDGET_IN_SIGHT, verdict.in_sight.dollars),
            (catalogue.BUDGET_TO_COME, verdict.to_come.dollars),
            (catalogue.BUDGET_PLANNED_RATE, verdict.planned.dollars_per_hour),
            (catalogue.BUDGET_ALLOWED_RATE, verdict.allowed.dollars_per_hour),
            (catalogue.BUDGET_EXCHANGE_RATE, (verdict.rate or 0.0) * _SECONDS_PER_HOUR),
            (catalogue.BUDGET_FEASIBLE, float(verdict.feasible)),
        ):
            collected[spec.name].add(value, budget=name)
        if verdict.with_descendants is not None:
            _together(budget, verdict.with_descendants, collected)
        if verdict.forecast is not None:
            collected[catalogue.BUDGET_FORECAST.name].add(verdict.forecast.expected.dollars, budget=name)
            collected[catalogue.BUDGET_FORECAST_LOW.name].add(verdict.forecast.low.dollars, budget=name)
            collected[catalogue.BUDGET_FORECAST_HIGH.name].add(verdict.forecast.high.dollars, budget=name)


def _together(budget: Budget, family: SpendVerdict, collected: Mapping[str, _Family]) -> None:
    """Add the sums of a budget and all budgets below it."""
    together = [
        (catalogue.BUDGET_TREE_AMOUNT, family.amount),
        (catalogue.BUDGET_TREE_SPENT, family.spent),
        (catalogue.BUDGET_TREE_COMMITTED, family.committed),
    ]
    if family.forecast is not None:
        together.append((catalogue.BUDGET_TREE_FORECAST, family.forecast.expected))
    for spec, dollars in together:
        collected[spec.name].add(dollars.dollars, budget=budget.id)


def _costs(budget: Budget, collected: Mapping[str, _Family]) -> None:
    """Add the costs on record. Recorded costs survive a restart, so the counters do not decrease."""
    if budget.balance is None:
        return
    costs = budget.balance.costs
    for (pool, cause), amount in costs.by_pool.items():
        collected[catalogue.SPENT.name].add(amount.dollars, budget=budget.id, pool=pool, cause=cause.value)
    for namespace, amount in costs.by_namespace.items():
        collected[catalogue.NAMESPACE_SPENT.name].add(amount.dollars, budget=budget.id, namespace=namespace)
    lost = {("", cause.value): amount for cause, amount in costs.by_cause.items() if cause is not Cause.JOB}
    lost |= {(namespace, kind.value): amount for (namespace, kind), amount in costs.went_to.items() if kind.lost}
    unknown = total(costs.by_namespace.values()) - total(costs.went_to.values())
    collected[catalogue.UNKNOWN.name].add(unknown.dollars, budget=budget.id)
    for (namespace, why), amount in lost.items():
        collected[catalogue.LOST.name].add(amount.dollars, budget=budget.id, namespace=namespace, cause=why)


def _longest_waits(view: MetricsSource) -> Mapping[BudgetId, float]:
    waits: dict[BudgetId, float] = {}
    for job in view.snapshot.jobs.values():
        if job.budget is not None and job.allocation is None and job.wants_to_run:
            waited = seconds_between(waiting_since(job), view.snapshot.now)
            waits[job.budget] = max(waits.get(job.budget, 0.0), waited)
    return waits


def _price_micros(rental: Rental) -> int:
    """The hourly price of the newest segment; the worst price while none is known."""
    return rental.price.micros_per_hour


def _pools(view: MetricsSource, collected: Mapping[str, _Family]) -> None:
    snapshot = view.snapshot
    used_on = _gpus_in_use(snapshot)
    nodes: Counter[tuple[PoolId, RentalPhase]] = Counter()
    gpus: Counter[tuple[PoolId, str]] = Counter()
    starting: dict[PoolId, float] = {}
    ending: dict[PoolId, float] = {}
    for rental in snapshot.rentals.values():
        nodes[rental.pool, rental.phase] += 1
        if rental.phase in (RentalPhase.REQUESTED, RentalPhase.STARTING):
            _keep_longest(starting, rental.pool, seconds_between(rental.created, snapshot.now))
        elif rental.phase is RentalPhase.DRAINING:
            since = view.draining_since.get(rental.id, snapshot.now)
            _keep_longest(ending, rental.pool, seconds_between(since, snapshot.now))
        pool = snapshot.pools.get(rental.pool)
        if pool is None or pool.offering is None or not rental.billed:
            continue
        size = pool.offering.gpus_per_node
        if rental.phase in (RentalPhase.REQUESTED, RentalPhase.STARTING):
            gpus[rental.pool, "starting"] += size
            continue
        used = min(used_on[rental.node or ""], size)
        gpus[rental.pool, "used"] += used
        gpus[rental.pool, "idle"] += size - used
    for name, pool in snapshot.pools.items():
        if pool.gone:
            left = sum(count for (named, phase), count in nodes.items() if named == name and phase in _EXISTING)
            collected[catalogue.POOL_GONE_RENTALS.name].add(left, pool=name)
            continue
        for state in ("starting", "used", "idle"):
            collected[catalogue.POOL_GPUS.name].add(gpus[name, state], pool=name, state=state)
        for phase in _EXISTING:
            collected[catalogue.POOL_NODES.name].add(nodes[name, phase], pool=name, state=phase.lower())
        cooling = pool.cooling(snapshot.now) is not None
        collected[catalogue.POOL_COOLING.name].add(float(cooling), pool=name)
        verdict = view.plan.pools.get(name)
        scarcity = 0.0 if verdict is None else verdict.scarcity.dollars_per_hour
        collected[catalogue.POOL_SCARCITY.name].add(scarcity, pool=name)
        collected[catalogue.POOL_MAX_NODES.name].add(pool.max_nodes, pool=name)
        collected[catalogue.POOL_LONGEST_START.name].add(starting.get(name, 0.0), pool=name)
        collected[catalogue.POOL_LONGEST_END.name].add(ending.get(name, 0.0), pool=name)
        if pool.quote is not None:
            collected[catalogue.POOL_NODE_PRICE.name].add(pool.quote.price.dollars_per_hour, pool=name)
            collected[catalogue.POOL_PRICE_TIMESTAMP.name].add(pool.quote.as_of / 1_000_000, pool=name)


def _keep_longest(longest: dict[PoolId, float], pool: PoolId, seconds: float) -> None:
    longest[pool] = max(longest.get(pool, 0.0), seconds)


def _gpus_in_use(snapshot: Snapshot) -> Counter[str]:
    """GPUs that live pods of training jobs hold, by node."""
    used: Counter[str] = Counter()
    for job in snapshot.jobs.values():
        for run in job.runs:
            for pod in run.pods:
                if pod.live and pod.node is not None:
                    used[pod.node] += pod.gpus
    return used


def _jobs(view: MetricsSource, collected: Mapping[str, _Family]) -> None:
    states: Counter[tuple[str, str]] = Counter()
    allocated: Counter[str] = Counter()
    held_up: Counter[tuple[str, str]] = Counter()
    lost: Counter[tuple[str, str]] = Counter()
    sessions: Counter[tuple[str, str]] = Counter()
    for job in view.snapshot.jobs.values():
        namespace = view.label(job.namespace)
        states[namespace, str(view.state(job))] += 1
        allocated[namespace] += 0 if job.allocation is None else job.allocation.option.gpus
        if job.interactive is not None:
            now = session_state(job)
            for each in SessionState:
                sessions[namespace, each] += _micros_per_hour(job) if each is now else 0
        for found in job.bottlenecks:
            held_up[namespace, found.kind] += 1
            lost[namespace, found.kind] += round(found.lost * _micros_per_hour(job))
        if view.per_job:
            _job(job, collected)
    for (namespace, state), count in states.items():
        collected[catalogue.JOBS.name].add(count, namespace=namespace, state=state)
    for namespace, gpus in allocated.items():
        collected[catalogue.NAMESPACE_GPUS.name].add(gpus, namespace=namespace)
    for (namespace, kind), count in held_up.items():
        collected[catalogue.BOTTLENECK_JOBS.name].add(count, namespace=namespace, bottleneck=kind)
        micros = lost[namespace, kind]
        collected[catalogue.BOTTLENECK_RATE.name].add(micros / 1_000_000, namespace=namespace, bottleneck=kind)
    for (namespace, use), micros in sessions.items():
        collected[catalogue.INTERACTIVE_RATE.name].add(micros / 1_000_000, namespace=namespace, state=use)


def _micros_per_hour(job: Job) -> int:
    return 0 if job.allocation is None else job.allocation.option.price.micros_per_hour


def _job(job: Job, collected: Mapping[str, _Family]) -> None:
    if job.allocation is not None:
        gpus = job.allocation.option.gpus
        collected[catalogue.JOB_WIDTH.name].add(gpus, namespace=job.namespace, training_job=job.name)
    if job.finish is None and job.progress is not None and job.progress.fraction is not None:
        collected[catalogue.JOB_PROGRESS.name].add(
            job.progress.fraction, namespace=job.namespace, training_job=job.name
        )


def _rentals(view: MetricsSource, collected: Mapping[str, _Family]) -> None:
    for rental in view.snapshot.rentals.values():
        if not rental.billed or rental.node is None:
            continue
        pool = view.snapshot.pools.get(rental.pool)
        offering = pool.offering if pool is not None else None
        collected[catalogue.RENTAL_INFO.name].add(
            1,
            node=rental.node,
            provider_id=rental.provider_id,
            instance_type=offering.instance_type if offering is not None else "",
            pool=rental.pool,
            budget=rental.budget,
        )
