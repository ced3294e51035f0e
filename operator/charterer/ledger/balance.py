"""OpenPeriod and the entries of KeepBooks, applied to a balance. Applying a step again does not change the balance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, assert_never

from charterer.domain.billing import accrued
from charterer.domain.budget import (
    DAYS_KEPT,
    HISTORY_HALF_LIFE_SECONDS,
    LENDING_KEPT,
    PERIODS_KEPT,
    WEEK_SECONDS,
    Balance,
    Budget,
    Cause,
    ClassHistory,
    Costs,
    DayCosts,
    JobTime,
    PastPeriod,
    decay,
)
from charterer.domain.ids import BudgetId, ClassId, PoolId
from charterer.domain.job_quote import log_ratio
from charterer.domain.money import ZERO, Money, Price, apportion, total
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import AddCosts, BookEntry, CountedJob, CountJobs, Fold, OpenPeriod, PruneFolded
from charterer.domain.time import Instant, after, day_bounds, seconds_between
from charterer.ledger.attribution import by_purpose, divided, gpus_of, in_vain

# Finished jobs, each counted once in a budget's balance. The cost factor κ and the arrival rates are estimated from
# the sums.
#
# Money is summed exactly (``jobs_cost``). The statistics of a class decay with time.


UIDS_KEPT_SECONDS = 86_400.0
"""Seconds for which a counted job's uid is kept: a day, the longest assumed delay until a job's end is seen."""
CLASSES_KEPT = 1_000
"""Maximum number of classes in a balance, which bounds its size. The class whose last job finished longest ago is
dropped first."""


def learn(history: ClassHistory | None, job: CountedJob) -> ClassHistory:
    """The class's sums with one more job. A job whose predicted cost is zero counts only as an arrival."""
    before = (history or ClassHistory(0.0, 0.0, 0.0, 0.0, job.created, job.finished)).aged(job.finished)
    age, arrived = seconds_between(job.created, before.at), 0.0 if job.opening else 1.0
    with_arrival = replace(
        before,
        arrivals=before.arrivals + arrived * decay(age, HISTORY_HALF_LIFE_SECONDS),
        recent_arrivals=before.recent_arrivals + arrived * decay(age, WEEK_SECONDS),
        since=min(before.since, job.created),
    )
    predicted, actual = job.predicted.dollars, job.actual.dollars
    if predicted <= 0:
        return with_arrival
    if job.predicted_end is not None:
        expected, took = seconds_between(job.created, job.predicted_end), seconds_between(job.created, job.finished)
        cost, life = log_ratio(actual, predicted), log_ratio(max(took, 0.0), max(expected, 0.0))
        with_arrival = replace(
            with_arrival,
            complete=before.complete + 1.0,
            cost_logs=before.cost_logs + cost,
            cost_log_squares=before.cost_log_squares + cost**2,
            life_logs=before.life_logs + life,
            life_log_squares=before.life_log_squares + life**2,
        )
    return replace(
        with_arrival,
        jobs=before.jobs + 1.0,
        predicted=before.predicted + predicted,
        actual=before.actual + actual,
        squares=before.squares + actual**2 / predicted,
    )


def apply_count(balance: Balance, step: CountJobs) -> Balance:
    """The balance plus the jobs of the step that were not counted yet. If all jobs of the step are counted already,
    the result is the same balance."""
    fresh = [job for job in step.jobs if not balance.counts(job.uid, job.finished)]
    if not fresh:
        return balance
    classes = dict(balance.class_history)
    for job in sorted(fresh, key=lambda counted: (counted.finished, counted.uid)):
        classes[job.class_id] = learn(classes.get(job.class_id), job)
    through = after(max(job.finished for job in fresh), -UIDS_KEPT_SECONDS)
    if balance.counted_through is not None:
        through = max(balance.counted_through, through)
    counted = {**balance.counted, **{job.uid: job.finished for job in fresh}}
    return replace(
        balance,
        class_history=_latest(classes),
        jobs_cost=sum((job.actual for job in fresh), balance.jobs_cost),
        counted={uid: at for uid, at in counted.items() if at > through},
        counted_through=through,
    )


def _latest(classes: Mapping[ClassId, ClassHistory]) -> Mapping[ClassId, ClassHistory]:
    latest = sorted(classes, key=lambda class_id: (-classes[class_id].at, class_id))[:CLASSES_KEPT]
    return {class_id: classes[class_id] for class_id in sorted(latest)}


# A budget's dollars by pool, cause and namespace: sums over all its periods, which never decrease.
#
# Each step adds the spending since the previous one, apportioned by the use of the GPUs. No step subtracts anything,
# so the sums can be read as counters. An amount may turn out too high afterwards, because a machine had ended some
# seconds before the cloud reported it. Then later steps add less, and the reduction falls on the purposes that have
# costs in those steps. So the sum of one pool stays too high, and that of another may become too low. After all
# rentals are folded, the sums equal ``lifetime`` to the micro-dollar, or exceed ``lifetime`` by the excess that later
# steps have not yet compensated.


NAMES_KEPT = 500
"""Maximum number of pools, and of namespaces, with sums of their own. The limit bounds the status."""
KNOWN_NAMES_KEPT = 100
"""Maximum number of namespaces with known uses of their dollars (``went_to``)."""
DAY_NAMES_KEPT = 10
"""Maximum number of namespaces with sums for one day."""
OTHER = "(other)"
"""The name, in sums and in metrics, under which all pools or namespaces beyond the limits are added up."""

_Key = tuple[PoolId, Cause, str]
"""A pool, a cause, and the namespace of the job; the namespace is empty without a job."""


def next_costs(budget: Budget, balance: Balance, rentals: Sequence[Rental], snapshot: Snapshot) -> AddCosts | None:
    """The step that adds the spending since the last one; None if nothing was spent. ``rentals``: the budget's own."""
    now, since = snapshot.now, balance.costs.through
    running = total(accrued(rental, now) for rental in rentals if rental.uid not in balance.folded)
    amount = balance.lifetime + running - balance.costs.total
    weights: Mapping[_Key, int] = {}
    did: Mapping[_Key, Mapping[JobTime, int]] = {}
    if amount > ZERO:
        weights, did = _weights(rentals, snapshot, Instant(0) if since is None else since)
        if not weights:
            weights, did = _weights(rentals, snapshot, Instant(0))
    if not weights and balance.lifetime == balance.costs.lifetime:
        return None
    by_pool: dict[tuple[PoolId, Cause], Money] = defaultdict(lambda: ZERO)
    by_namespace: dict[str, Money] = defaultdict(lambda: ZERO)
    went_to: dict[tuple[str, JobTime], Money] = defaultdict(lambda: ZERO)
    for key, part in apportion(amount, weights).items() if weights else ():
        pool, cause, namespace = key
        by_pool[pool, cause] += part
        if cause is Cause.JOB:
            by_namespace[namespace] += part
        for kind, known in divided(part, did.get(key, {}), weights[key]).items():
            went_to[namespace, kind] += known
    added = Costs(dict(by_pool), dict(by_namespace), now, balance.lifetime, went_to=dict(went_to))
    return AddCosts(budget.id, since, added, day_bounds(budget.calendar.time_zone, now)[0])


def _weights(
    rentals: Sequence[Rental], snapshot: Snapshot, since: Instant
) -> tuple[Mapping[_Key, int], Mapping[_Key, Mapping[JobTime, int]]]:
    """Micro-dollars spent since ``since`` by key, and what jobs' dollars are known to have been used for. A rental
    that began after ``since`` counts from its beginning."""
    weights: dict[_Key, int] = defaultdict(int)
    did: dict[_Key, dict[JobTime, int]] = defaultdict(lambda: defaultdict(int))
    vain = in_vain(rentals, snapshot)
    for rental in rentals:
        start = Instant(0) if rental.created > since else since
        parts = by_purpose(rental, gpus_of(rental, snapshot), start, snapshot.now, in_vain=rental.id in vain)
        for purpose, share in parts.items():
            key = rental.pool, purpose.cause, purpose.namespace
            weights[key] += share.cost.micros
            for kind, known in share.went_to.items():
                did[key][kind] += known.micros
    return {key: weight for key, weight in weights.items() if weight}, did


def apply_costs(balance: Balance, step: AddCosts) -> Balance:
    """The balance with the step's amounts. If amounts for that time were added already, the result
    is the same balance."""
    costs = balance.costs
    if costs.through != step.since:
        return balance
    pools: set[str] = {pool for pool, _ in costs.by_pool}
    into_pools = [
        ((PoolId(_kept(pool, pools)), cause), amount) for (pool, cause), amount in sorted(step.added.by_pool.items())
    ]
    by_pool = _plus(costs.by_pool, into_pools)
    by_namespace = _with(costs.by_namespace, step.added.by_namespace, NAMES_KEPT)
    days = _with_day(costs.days, step)
    went_to = _with_known(costs.went_to, step.added.went_to)
    added = Costs(by_pool, by_namespace, step.added.through, step.added.lifetime, costs.before, days, went_to)
    return replace(balance, costs=added)


def _with_day(days: tuple[DayCosts, ...], step: AddCosts) -> tuple[DayCosts, ...]:
    """The days with the step's amounts. If the clock was set back, the amounts go to the last day on record and not
    to an earlier day."""
    if not step.added.by_pool:
        return days
    before, last = days[:-1], days[-1] if days else DayCosts(step.day, {}, {})
    if step.day > last.start:
        before, last = days, DayCosts(step.day, {}, {})
    by_cause = _plus(last.by_cause, step.added.by_cause.items())
    by_namespace = _with(last.by_namespace, step.added.by_namespace, DAY_NAMES_KEPT)
    went_to = _plus(last.went_to, ((kind, amount) for (_, kind), amount in step.added.went_to.items()))
    return (*before, DayCosts(last.start, by_cause, by_namespace, went_to))[-DAYS_KEPT:]


def _with_known(
    sums: Mapping[tuple[str, JobTime], Money], added: Mapping[tuple[str, JobTime], Money]
) -> Mapping[tuple[str, JobTime], Money]:
    """The sums with the added amounts. Namespaces beyond ``KNOWN_NAMES_KEPT`` are counted as ``OTHER``."""
    known = {namespace for namespace, _ in sums}
    return _plus(
        sums,
        (
            ((_kept(namespace, known, KNOWN_NAMES_KEPT), kind), amount)
            for (namespace, kind), amount in sorted(added.items())
        ),
    )


def _with(sums: Mapping[str, Money], added: Mapping[str, Money], most: int) -> Mapping[str, Money]:
    """The sums with the added amounts. If there are ``most`` names already, new names are counted as ``OTHER``."""
    known = set(sums)
    return _plus(sums, ((_kept(name, known, most), amount) for name, amount in sorted(added.items())))


_Named = TypeVar("_Named")


def _plus(sums: Mapping[_Named, Money], added: Iterable[tuple[_Named, Money]]) -> dict[_Named, Money]:
    new = dict(sums)
    for key, amount in added:
        new[key] = new.get(key, ZERO) + amount
    return new


def _kept(name: str, known: set[str], most: int = NAMES_KEPT) -> str:
    """The name under which an amount is counted: ``name``, which is added to ``known``, or ``OTHER`` if ``known`` is
    full."""
    if name not in known and len(known) >= most:
        return OTHER
    known.add(name)
    return name


class StalePeriod(ValueError):
    """The step was made for another period than the balance has. The caller must observe and plan again."""


def apply_fold(balance: Balance, step: Fold) -> Balance:
    """The balance with a rental's cost and uid; the same balance if the balance lists the uid already. ``Fold`` says
    when StalePeriod is raised."""
    if step.rental_uid in balance.folded:
        return balance
    if step.period_start != balance.period_start:
        raise StalePeriod(
            f"GPURental {step.rental} was to be folded into the period of GPUBudget {step.budget} that began at "
            f"{step.period_start}, but the balance is in the one that began at {balance.period_start}: plan again"
        )
    return replace(
        balance,
        settled=balance.settled + step.in_period,
        lifetime=balance.lifetime + step.whole,
        folded=balance.folded | {step.rental_uid},
        gpu_time=added_up(balance.gpu_time, step.gpu_time),
    )


def added_up(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    """The sums of GPU-time by GPU type."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted({*one, *other})}


def apply_open_period(balance: Balance | None, step: OpenPeriod) -> Balance:
    """The balance in the new period, with the past one in its history; the same balance if the period has begun.

    Raises StalePeriod if the step ends another period than the balance has.
    """
    if balance is None:
        if step.last_start is not None:
            raise StalePeriod(f"GPUBudget {step.budget} has no balance whose period could end: plan again")
        return Balance(step.start, ZERO, ZERO, frozenset(), ())
    if balance.period_start >= step.start:
        return balance
    if step.last_start != balance.period_start or step.last_spent is None:
        raise StalePeriod(
            f"the period of GPUBudget {step.budget} that was to end began at {step.last_start}, but the balance is in "
            f"the one that began at {balance.period_start}: plan again"
        )
    past = PastPeriod(balance.period_start, step.last_spent, step.last_aim, step.borrowed, step.last_gpu_time)
    history = (*_without_old_lenders(balance.history), past)[-PERIODS_KEPT:]
    costs = replace(balance.costs, before=balance.costs.by_cause)
    return replace(
        balance,
        period_start=step.start,
        settled=ZERO,
        history=history,
        carried=step.carried,
        costs=costs,
        gpu_time={},
    )


def _without_old_lenders(history: Sequence[PastPeriod]) -> Iterable[PastPeriod]:
    """The periods, of which only the latest ``LENDING_KEPT`` - 1 keep their lenders. The caller adds one more period
    with lenders."""
    first_kept = len(history) - LENDING_KEPT + 1
    return (
        replace(past, borrowed={}) if number < first_kept and past.borrowed else past
        for number, past in enumerate(history)
    )


def apply_prune_folded(balance: Balance, step: PruneFolded) -> Balance:
    """The balance without the uids of deleted rentals. The sums of the balance do not change."""
    return replace(balance, folded=balance.folded - frozenset(step.rental_uids))


def apply_entries(balance: Balance, entries: Iterable[BookEntry]) -> Balance:
    """The balance after all entries, in order. Raises StalePeriod if an entry is for another period."""
    for entry in entries:
        match entry:
            case PruneFolded():
                balance = apply_prune_folded(balance, entry)
            case Fold():
                balance = apply_fold(balance, entry)
            case CountJobs():
                balance = apply_count(balance, entry)
            case AddCosts():
                balance = apply_costs(balance, entry)
            case _ as never:
                assert_never(never)
    return balance


def current_rate(budget: BudgetId, rentals: Iterable[Rental]) -> Price:
    """The sum of the newest prices of the budget's nodes that the cloud may be billing now."""
    billed = (rental for rental in rentals if rental.budget == budget and rental.billed)
    return Price(sum(rental.price.micros_per_hour for rental in billed))
