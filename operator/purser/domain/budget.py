"""A budget: what may be spent on which namespaces, and what has been."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from purser.domain.ids import BudgetId, Rate
from purser.domain.money import Money, Price
from purser.domain.time import Instant


class Mode(StrEnum):
    """Enforce rents and runs; Observe only decides and reports what it would do."""

    ENFORCE = "Enforce"
    OBSERVE = "Observe"


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector over namespaces; empty selects all. Each expression is (key, operator, values)."""

    match_labels: tuple[tuple[str, str], ...]
    match_expressions: tuple[tuple[str, str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Balance:
    """What the ledger has recorded for one budget, read back from its status.

    ``settled``: cost of folded rentals that fell into the period that began at ``period_start``. ``lifetime``: the
    whole cost of every folded rental ever. ``folded``: uids of rentals that are in both sums and whose objects may
    still exist (each is counted once, however often its step is repeated). ``history``: past periods (start, spent).
    """

    period_start: Instant
    settled: Money
    lifetime: Money
    folded: frozenset[str]
    history: tuple[tuple[Instant, Money], ...]


@dataclass(frozen=True, slots=True)
class Budget:
    """A GPUBudget with its balance. ``balance`` is None until the first period has been opened in status.

    ``opening_spend``: spent in the period of creation before Purser came (joining mid-month).
    ``weights``: weight by priorityClassName; 1 where none is named. ``fixed_rate``: the exchange rate that is used
    whatever is spent, for what-ifs and simulations. ``guarded``: it has the finalizer
    ``purser.dev/in-use``, which keeps it while rentals name it.
    """

    id: BudgetId
    uid: str
    resource_version: str
    generation: int
    created: Instant
    amount: Money
    time_zone: str
    selector: Selector
    mode: Mode
    hard_limit: Money | None
    max_hourly_rate: Price | None
    opening_spend: Money
    weights: tuple[tuple[str, float], ...]
    balance: Balance | None
    deleting: bool
    guarded: bool = False
    fixed_rate: Rate | None = None
