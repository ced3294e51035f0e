"""Sums of the rows of the record of costs by what a person asks for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import click

from charterer.domain.budget import Cause, DayCosts
from charterer.domain.money import ZERO, Money, apportion
from charterer.domain.spending.cost_row import CostRow, Payer
from charterer.sentences import similar_names

LABEL: Final = "label:"
PURPOSE: Final = "purpose"
NAMESPACE: Final = "namespace"

_OF_JOBS: Final[Mapping[str, Callable[[Payer], str]]] = {
    NAMESPACE: lambda payer: payer.namespace,
    "class": lambda payer: payer.job_class,
    "user": lambda payer: payer.user,
    "job": lambda payer: f"{payer.namespace}/{payer.job}",
}
_OF_ALL: Final[Mapping[str, Callable[[CostRow], str]]] = {
    "pool": lambda row: row.pool,
    PURPOSE: lambda row: purpose(row.cause),
}


def purpose(cause: Cause) -> str:
    """The cause in words: ``job``, ``incomplete gang``."""
    return cause.value.replace("_", " ")


class KeysType(click.ParamType[tuple[str, ...]]):
    """What to sum by: names with commas between them."""

    name = "keys"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names, each once."""
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
    """``cells``: the values of the keys asked for, None without a job. ``cause``: None where all are together."""

    budget: str
    cells: tuple[str | None, ...]
    cause: Cause | None


@dataclass(slots=True)
class CostSum:
    """``open_cost``: the part that is not on record yet. ``waste``: what was shared out to it, beside its own cost."""

    cost: Money = ZERO
    open_cost: Money = ZERO
    waste: Money = ZERO
    gpu_seconds: int = 0


@dataclass(slots=True)
class CostSums:
    """The rows summed by ``keys``, in each budget and pool. ``labels``: keys of labels that were seen."""

    keys: Sequence[str]
    by_pool: dict[tuple[SumKey, str], CostSum] = field(default_factory=lambda: defaultdict(CostSum))
    labels: set[str] = field(default_factory=set)
    jobs: int = 0

    @property
    def of_jobs(self) -> bool:
        """Whether a key is one of jobs, so that what no job held has sums of its own."""
        return any(key not in _OF_ALL for key in self.keys)

    @property
    def with_cause(self) -> bool:
        """Whether the causes have sums of their own."""
        return self.of_jobs or PURPOSE in self.keys

    def add(self, rows: Iterable[tuple[CostRow, bool]]) -> None:
        """Add rows, each with whether it is still open."""
        values = [_value_of(key) for key in self.keys]
        with_cause = self.with_cause
        for row, is_open in rows:
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
        """Add days of a budget's status, which know namespaces and purposes only."""
        for day in days:
            amounts: list[tuple[Cause, str | None, Money]] = [
                (cause, None, amount) for cause, amount in day.by_cause.items() if cause is not Cause.JOB
            ]
            amounts += [(Cause.JOB, name, amount) for name, amount in day.by_namespace.items()]
            for cause, namespace, amount in amounts:
                cells = tuple(namespace if key == NAMESPACE else purpose(cause) for key in self.keys)
                self.by_pool[SumKey(budget, cells, cause if self.with_cause else None), ""].cost += amount

    def share_waste(self) -> None:
        """Share out what no job held of each pool to the jobs of that pool and budget, in proportion to their cost.

        What was spent on a pool that no job used stays where it is.
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
        """By budget, jobs before all else, and the largest amount first."""
        found: dict[SumKey, CostSum] = defaultdict(CostSum)
        for (key, _), each in self.by_pool.items():
            one = found[key]
            one.cost += each.cost
            one.open_cost += each.open_cost
            one.waste += each.waste
            one.gpu_seconds += each.gpu_seconds
        return sorted(found.items(), key=_order)


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
