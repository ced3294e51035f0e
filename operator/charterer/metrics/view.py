"""A snapshot and its plan as gauges, made anew at every scrape, so that what is deleted disappears."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily

from charterer.domain.ids import PoolId
from charterer.domain.job import Job
from charterer.domain.plan import Plan
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.metrics import catalogue
from charterer.metrics.catalogue import MetricSpec

_SECONDS_PER_HOUR = 3600
_EXISTING = (RentalPhase.REQUESTED, RentalPhase.STARTING, RentalPhase.READY, RentalPhase.DRAINING)


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """What is shown: a snapshot, the plan made of it, and the function that gives the word in a job's State column."""

    snapshot: Snapshot
    plan: Plan
    state: Callable[[Job], str]


class _Family:
    def __init__(self, spec: MetricSpec) -> None:
        self._labels = spec.labels
        self.metric = GaugeMetricFamily(spec.name, spec.help, labels=spec.labels)

    def add(self, value: float, **labels: str) -> None:
        self.metric.add_metric([labels[name] for name in self._labels], value)


def families(view: MetricsSource) -> Iterator[GaugeMetricFamily]:
    """Every family of ``catalogue.FROM_SNAPSHOT``, also those without a sample."""
    collected = {spec.name: _Family(spec) for spec in catalogue.FROM_SNAPSHOT}
    _budgets(view, collected)
    _pools(view, collected)
    _jobs(view, collected)
    _rentals(view, collected)
    return (family.metric for family in collected.values())


def _budgets(view: MetricsSource, collected: Mapping[str, _Family]) -> None:
    rented = Counter[str]()
    for rental in view.snapshot.rentals.values():
        if rental.billed:
            rented[rental.budget] += _price_micros(rental)
    for name, budget in view.snapshot.budgets.items():
        collected[catalogue.BUDGET_AMOUNT.name].add(budget.amount.dollars, budget=name)
        collected[catalogue.BUDGET_HOURLY_RATE.name].add(rented[name] / 1_000_000, budget=name)
        if budget.hard_limit is not None:
            collected[catalogue.BUDGET_HARD_LIMIT.name].add(budget.hard_limit.dollars, budget=name)
        verdict = view.plan.budgets.get(name)
        if verdict is None:
            continue
        for spec, value in (
            (catalogue.BUDGET_SPENT, verdict.spent.dollars),
            (catalogue.BUDGET_COMMITTED, verdict.committed.dollars),
            (catalogue.BUDGET_FORECAST, verdict.forecast.dollars),
            (catalogue.BUDGET_PLANNED_RATE, verdict.planned.dollars_per_hour),
            (catalogue.BUDGET_ALLOWED_RATE, verdict.allowed.dollars_per_hour),
            (catalogue.BUDGET_EXCHANGE_RATE, verdict.rate * _SECONDS_PER_HOUR),
            (catalogue.BUDGET_FEASIBLE, float(verdict.feasible)),
        ):
            collected[spec.name].add(value, budget=name)


def _price_micros(rental: Rental) -> int:
    """The hourly price of the newest segment; the worst one while none is known."""
    return rental.price.micros_per_hour


def _pools(view: MetricsSource, collected: Mapping[str, _Family]) -> None:
    snapshot = view.snapshot
    used_on = _gpus_in_use(snapshot)
    nodes: Counter[tuple[PoolId, RentalPhase]] = Counter()
    gpus: Counter[tuple[PoolId, str]] = Counter()
    for rental in snapshot.rentals.values():
        nodes[rental.pool, rental.phase] += 1
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
        cooling = pool.cooled_until is not None and pool.cooled_until > snapshot.now
        collected[catalogue.POOL_COOLING.name].add(float(cooling), pool=name)
        verdict = view.plan.pools.get(name)
        scarcity = 0.0 if verdict is None else verdict.scarcity.dollars_per_hour
        collected[catalogue.POOL_SCARCITY.name].add(scarcity, pool=name)
        collected[catalogue.POOL_MAX_NODES.name].add(pool.max_nodes, pool=name)
        if pool.quote is not None:
            collected[catalogue.POOL_NODE_PRICE.name].add(pool.quote.price.dollars_per_hour, pool=name)


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
    for job in view.snapshot.jobs.values():
        states[job.namespace, str(view.state(job))] += 1
        if job.allocation is not None:
            gpus = job.allocation.option.gpus
            collected[catalogue.JOB_WIDTH.name].add(gpus, namespace=job.namespace, job=job.name)
        if job.finish is None and job.progress is not None and job.progress.fraction is not None:
            collected[catalogue.JOB_PROGRESS.name].add(job.progress.fraction, namespace=job.namespace, job=job.name)
    for (namespace, state), count in states.items():
        collected[catalogue.JOBS.name].add(count, namespace=namespace, state=state)


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
