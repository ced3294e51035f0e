"""What a simulation is of: who submits what when, what training really does, what nodes are sold, and the budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from charterer.domain.budget import Budget, Mode, Selector
from charterer.domain.ids import BudgetId, ClassId, Rate
from charterer.domain.job import ResizePolicy, SpotPolicy, Widths
from charterer.domain.money import ZERO, Money
from charterer.domain.time import Instant
from charterer.simulate.engine.node_market import PoolModel
from charterer.simulate.engine.workload import Submission
from charterer.simulate.knowledge.ground_truth import Application

UNLIMITED = Money.parse("1000000000")
"""Dollars a month that are enough for anything."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How jobs may run: their widths, resize and spot policy, weight."""

    widths: Widths
    resize: ResizePolicy = ResizePolicy.RESTART
    spot: SpotPolicy = SpotPolicy.NEVER
    weight: float = 1.0


def class_of(application: str) -> ClassId:
    """The class of an application's jobs."""
    return ClassId("team", application)


def _by_application(_: Submission, application: Application) -> ClassId:
    return class_of(application.name)


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens, whoever plans. ``start``: the instant of second 0.

    ``applications`` by the name that submissions give them. ``restart_seconds``: from a run's begin to its first step,
    at the first start as well. ``resize_seconds``: for which a run does not train when its pods become more or fewer.
    ``checkpoint_seconds``: work of so long at most is lost with a spot node. ``until``:
    when it is over at the latest. ``classes``: in which class a job is; by default that of its application's own name,
    so that applications of several sizes can be one class.
    """

    start: Instant
    submissions: tuple[Submission, ...]
    applications: Mapping[str, Application]
    pools: tuple[PoolModel, ...]
    budget: Budget
    terms: Callable[[Submission], Terms]
    restart_seconds: float = 30.0
    resize_seconds: float = 0.0
    checkpoint_seconds: float = 600.0
    until: float = float("inf")
    classes: Callable[[Submission, Application], ClassId] = _by_application


def new_budget(created: Instant, amount: Money = UNLIMITED, rate: Rate | None = None) -> Budget:
    """A budget that begins at ``created``; with ``rate``, that is its exchange rate whatever is spent."""
    return Budget(
        id=BudgetId("simulated"),
        uid="simulated",
        resource_version="1",
        generation=1,
        created=created,
        amount=amount,
        time_zone="UTC",
        selector=Selector((), ()),
        mode=Mode.ENFORCE,
        hard_limit=None,
        max_hourly_rate=None,
        opening_spend=ZERO,
        weights=(),
        balance=None,
        deleting=False,
        fixed_rate=rate,
    )
