"""The answer of ``charterer costs``: sums of a month, and their comparison with the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import click

from charterer.cost_record import month_of
from charterer.domain.billing import accrued, opening_in, spent
from charterer.domain.budget import Budget, Cause, DayCosts, JobTime
from charterer.domain.cost_row import CostRow, Payer, RecordedCost
from charterer.domain.money import ZERO, Money, apportion, total
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, Period
from charterer.ledger.attribution import gpus_of, in_vain
from charterer.ledger.cost_rows import Part, next_part, rows
from charterer.sentences import similar_names
from charterer.tools.commands.shared.lost import Losses, pieces, word

# Sums over the rows of the record of costs, by the keys that the user names.


LABEL: Final = "label:"
PURPOSE: Final = "purpose"
NAMESPACE: Final = "namespace"
CAUSE: Final = "cause"
"""A key that divides dollars as PURPOSE does, and also divides the dollars of jobs by their known causes."""

_OF_JOBS: Final[Mapping[str, Callable[[Payer], str]]] = {
    NAMESPACE: lambda payer: payer.namespace,
    "class": lambda payer: payer.job_class,
    "user": lambda payer: payer.user,
    "job": lambda payer: f"{payer.namespace}/{payer.job}",
}
_OF_ALL: Final[Mapping[str, Callable[[CostRow], str]]] = {
    "pool": lambda row: row.pool,
    PURPOSE: lambda row: purpose(row.cause),
    CAUSE: lambda row: word(_cause_of(row)),
}


def purpose(cause: Cause) -> str:
    """Return the cause as text, such as ``job`` or ``incomplete gang``."""
    return cause.value.replace("_", " ")


def _cause_of(row: CostRow) -> Cause | JobTime | None:
    """Return the cause of a row that has only one cause. ``_by_cause`` makes such rows."""
    return row.cause if row.cause is not Cause.JOB else next(iter(row.went_to), None)


def _by_cause(row: CostRow) -> Iterator[CostRow]:
    """Divide the row into rows with one cause each."""
    found = dict(pieces(row.cause, row.cost, row.went_to))
    if len(found) == 1:
        yield row
        return
    names = {word(cause): amount.micros for cause, amount in found.items()}
    seconds = apportion(Money(row.gpu_seconds), names)
    for cause, amount in found.items():
        held = seconds.get(word(cause), ZERO).micros
        went_to = {cause: amount} if isinstance(cause, JobTime) else {}
        yield replace(row, cost=amount, gpu_seconds=held, went_to=went_to)


class KeysType(click.ParamType[tuple[str, ...]]):
    """Parameter type of the keys to sum by, separated by commas."""

    name = "keys"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the keys without duplicates."""
        if isinstance(value, tuple):
            return value
        keys = tuple(dict.fromkeys(part.strip() for part in str(value).split(",")))
        known = [*_OF_JOBS, *_OF_ALL, f"{LABEL}KEY"]
        for key in keys:
            if key == LABEL:
                self.fail("label: has no key: write label:team for the label team", param, ctx)
            if (key not in known and not key.startswith(LABEL)) or key == f"{LABEL}KEY":
                self.fail(f"{key!r} is nothing that costs can be summed by: {similar_names(key, known)}", param, ctx)
        return keys


@dataclass(frozen=True, slots=True)
class SumKey:
    """A group of rows. ``cells`` are the values of the keys. If no job held the GPUs, a key of jobs has the value None.

    ``cause`` is None if the group includes all causes.
    """

    budget: str
    cells: tuple[str | None, ...]
    cause: Cause | None


@dataclass(slots=True)
class CostSum:
    """Dollars of a group. ``open_cost`` is the part that is not on record yet.

    ``waste`` is the group's share of the dollars that no job held, in addition to ``cost``.
    """

    cost: Money = ZERO
    open_cost: Money = ZERO
    waste: Money = ZERO
    gpu_seconds: int = 0


@dataclass(slots=True)
class CostSums:
    """Rows summed by ``keys`` within each budget and pool. ``labels`` has the label keys found in the rows."""

    keys: Sequence[str]
    by_pool: dict[tuple[SumKey, str], CostSum] = field(default_factory=lambda: defaultdict(CostSum))
    labels: set[str] = field(default_factory=set)
    jobs: int = 0

    @property
    def of_jobs(self) -> bool:
        """Whether a key is a property of jobs. If so, dollars that no job held have separate sums."""
        return any(key not in _OF_ALL for key in self.keys)

    @property
    def with_cause(self) -> bool:
        """Whether each cause has a separate sum."""
        return self.of_jobs or PURPOSE in self.keys

    def add(self, rows: Iterable[tuple[CostRow, bool]]) -> None:
        """Add rows. The flag beside each row says whether the row is still open."""
        values = [_value_of(key) for key in self.keys]
        with_cause = self.with_cause
        for row, is_open in _each_cause(rows) if CAUSE in self.keys else rows:
            payer = row.payer
            if payer is not None:
                self.jobs += 1
                self.labels.update(payer.labels)
            cells = tuple(value(row, payer) for value in values)
            added = self.by_pool[SumKey(row.budget, cells, row.cause if with_cause else None), row.pool]
            added.cost += row.cost
            added.gpu_seconds += row.gpu_seconds
            if is_open:
                added.open_cost += row.cost

    def add_days(self, budget: str, days: Iterable[DayCosts]) -> None:
        """Add days of a budget's status.

        Each day has either namespaces and purposes, or causes over all namespaces. Days have no other keys.
        """
        for day in days:
            amounts: list[tuple[Cause, str | None, Money]] = [
                (cause, None, amount) for cause, amount in day.by_cause.items() if cause is not Cause.JOB
            ]
            amounts += [(Cause.JOB, name, amount) for name, amount in day.by_namespace.items()]
            if CAUSE in self.keys:
                amounts = [(cause, None, amount) for cause, amount in day.by_cause.items()]
            for cause, namespace, whole in amounts:
                for piece, amount in pieces(cause, whole, day.went_to) if CAUSE in self.keys else ((cause, whole),):
                    said = {NAMESPACE: namespace, PURPOSE: purpose(cause), CAUSE: word(piece)}
                    cells = tuple(said[key] for key in self.keys)
                    self.by_pool[SumKey(budget, cells, cause if self.with_cause else None), ""].cost += amount

    def share_waste(self) -> None:
        """Divide the dollars that no job held among the jobs of the same pool and budget, in proportion to their cost.

        If no job used a pool, its dollars stay as they are.
        """
        pools: dict[tuple[str, str], dict[bool, list[tuple[SumKey, str]]]] = defaultdict(lambda: defaultdict(list))
        for key in self.by_pool:
            pools[key[0].budget, key[1]][key[0].cause is Cause.JOB].append(key)
        for found in pools.values():
            jobs = {str(number): key for number, key in enumerate(sorted(found[True], key=repr))}
            weights = {name: max(self.by_pool[key].cost.micros, 0) for name, key in jobs.items()}
            if not any(weights.values()):
                continue
            for key in found[False]:
                gone = self.by_pool.pop(key)
                for name, part in _shared(gone.cost, weights).items():
                    self.by_pool[jobs[name]].waste += part
                for name, part in _shared(gone.open_cost, weights).items():
                    self.by_pool[jobs[name]].open_cost += part

    def sums(self) -> list[tuple[SumKey, CostSum]]:
        """Return the sums in order of budget. In each budget the sums of jobs come first, and the largest amount
        first.
        """
        found: dict[SumKey, CostSum] = defaultdict(CostSum)
        for (key, _), each in self.by_pool.items():
            one = found[key]
            one.cost += each.cost
            one.open_cost += each.open_cost
            one.waste += each.waste
            one.gpu_seconds += each.gpu_seconds
        return sorted(found.items(), key=_order)


def _each_cause(rows: Iterable[tuple[CostRow, bool]]) -> Iterator[tuple[CostRow, bool]]:
    for row, is_open in rows:
        for part in _by_cause(row):
            yield part, is_open


def _shared(amount: Money, weights: Mapping[str, int]) -> Mapping[str, Money]:
    if amount.micros >= 0:
        return apportion(amount, weights)
    return {name: -part for name, part in apportion(-amount, weights).items()}


def _order(item: tuple[SumKey, CostSum]) -> tuple[str, bool, int, str]:
    key, found = item
    return key.budget, key.cause not in (Cause.JOB, None), -(found.cost + found.waste).micros, repr(key)


def _value_of(key: str) -> Callable[[CostRow, Payer | None], str | None]:
    if key in _OF_ALL:
        of_row = _OF_ALL[key]
        return lambda row, payer: of_row(row)
    if key in _OF_JOBS:
        of_job = _OF_JOBS[key]
        return lambda row, payer: None if payer is None else of_job(payer)
    label = key.removeprefix(LABEL)
    return lambda row, payer: None if payer is None else payer.labels.get(label, "")


# The rows of a month: rows on record, and rows computed from the cluster's present state.


@dataclass(frozen=True, slots=True)
class LedgerMonth:
    """A budget's ledger for a month in [start, end). ``is_open`` says that the month has not ended.

    ``spent`` includes ``opening``. ``spent`` is None if the ledger does not know the month. A budget whose ``period``
    is not a month is an example. ``amount`` is the budget's target, or None if unknown. ``with_below`` is the total for
    the budget and the budgets below it, or None if no budget is below.
    """

    start: Instant
    end: Instant
    is_open: bool
    spent: Money | None
    opening: Money = ZERO
    amount: Money | None = None
    with_below: Money | None = None
    period: Period = Period.MONTH


def ledger_month(
    budget: Budget, rentals: Sequence[Rental], bounds: tuple[Instant, Instant], now: Instant
) -> LedgerMonth:
    """Return the ledger of the month within ``bounds``."""
    start, end = bounds
    balance, period = budget.balance, budget.calendar.period
    if period is not Period.MONTH:
        return LedgerMonth(start, end, now < end, None, period=period)
    if balance is not None and start <= balance.period_start < end:
        opening = opening_in(budget, balance.period_start)
        share = budget.share
        with_below = None if share is None or share.below <= ZERO else share.in_all
        return LedgerMonth(start, end, True, spent(budget, rentals, now), opening, budget.own_aim, with_below)
    for past in () if balance is None else balance.history:
        if start <= past.start < end:
            opening = opening_in(budget, past.start) if budget.created < end else ZERO
            return LedgerMonth(start, end, False, past.spent, opening, past.aim)
    return LedgerMonth(start, end, now < end, None)


def open_rows(snapshot: Snapshot, budget: Budget) -> list[CostRow]:
    """Return the rows of the budget's rentals up to now that are not on record yet. They are the rows that will be
    recorded.
    """
    rentals = [rental for rental in snapshot.rentals.values() if rental.budget == budget.id]
    vain = in_vain(rentals, snapshot)
    return [
        row
        for rental in rentals
        for part, then in _open_parts(rental, budget, snapshot.now)
        for row in rows(
            part,
            then,
            budget,
            snapshot.pools.get(rental.pool),
            gpus_of(rental, snapshot),
            in_vain=rental.id in vain,
        )
    ]


def _open_parts(rental: Rental, budget: Budget, now: Instant) -> Iterator[tuple[Part, Rental]]:
    """Yield the rental's parts that are not on record, the last one up to now.

    Each part comes with the rental's state at the time when that part will be recorded.
    """
    while (part := next_part(rental, budget.calendar.time_zone)) is not None and part.start <= now:
        if part.end > now:
            part = replace(part, end=now, after=RecordedCost(now, accrued(rental, now), part.after.parts))
        yield part, rental
        if part.end >= (now if rental.ended is None else min(now, rental.ended)):
            return
        rental = replace(rental, recorded=part.after)


def month_rows(
    month: str, recorded: Iterable[CostRow], still_open: Sequence[CostRow]
) -> Iterator[tuple[CostRow, bool]]:
    """Yield each row of the month, and whether the row is still open.

    ``recorded`` has the month's rows of the record of costs, which must be read after the cluster. ``still_open`` has
    the cluster's rows of all months. A row that was recorded between the two reads counts once, as open.
    """
    first: dict[str, int] = {}
    for row in still_open:
        first[row.rental_uid] = min(row.part, first.get(row.rental_uid, row.part))
    for row in recorded:
        if row.rental_uid not in first or row.part < first[row.rental_uid]:
            yield row, False
    for row in still_open:
        if month_of(row) == month:
            yield row, True


@dataclass(frozen=True, slots=True)
class BudgetMonth:
    """A budget's month. ``ledger`` is None if the cluster was not read or has no such budget.

    ``losses`` is None unless the user sums by cause.
    """

    budget: str
    time_zone: str
    ledger: LedgerMonth | None
    sums: Sequence[tuple[SumKey, CostSum]]
    losses: Losses | None = None

    @property
    def cost(self) -> Money:
        """Known cost of the budget's rentals."""
        return total(found.cost + found.waste for _, found in self.sums)

    @property
    def still_open(self) -> Money:
        """The part of the cost that is not on record yet."""
        return total(found.open_cost for _, found in self.sums)

    @property
    def on_record(self) -> Money:
        """The part of the cost that is on record."""
        return self.cost - self.still_open

    @property
    def not_on_record(self) -> Money:
        """Dollars that the ledger has and the rows lack.

        The amount is negative if the rows include a former budget with the same name.
        """
        if self.ledger is None or self.ledger.spent is None:
            return ZERO
        return self.ledger.spent - self.ledger.opening - self.cost


@dataclass(frozen=True, slots=True)
class CostsAnswer:
    """The sums by ``keys`` of each budget. If ``with_cause`` is true, dollars that no job held have separate sums.

    If ``shares_waste`` is true, the jobs share those dollars instead. ``place`` is the location of the record, or
    empty.
    """

    month: str
    keys: Sequence[str]
    with_cause: bool
    shares_waste: bool
    place: str
    budgets: Sequence[BudgetMonth]
