"""A scenario: the submissions, the true behaviour of training, the nodes on sale, and the budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from charterer.domain.budget import Budget, Mode, Selector
from charterer.domain.ids import BudgetId, ClassId, Rate
from charterer.domain.job import ResizePolicy, SpotPolicy, Widths
from charterer.domain.money import ZERO, Money
from charterer.domain.time import Calendar, Instant
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.pairs import PairTable
from charterer.tools.simulator.model.workload import Submission

UNLIMITED = Money.parse("1000000000")
"""Dollars a period that no simulation can spend."""
_MONTHS = Calendar("UTC")


@dataclass(frozen=True, slots=True)
class JobTerms:
    """How a job may run: its widths, resize policy, spot policy and weight.

    ``gpu_types``: GPU types that its owner permits; empty for all on which its application can run.
    ``asked_pool``: the pool in which it runs under policies that choose no pool; empty for any.
    ``target_seconds``: seconds from its submission to its targetCompletionTime; None if it has no target.
    """

    widths: Widths
    resize: ResizePolicy = ResizePolicy.RESTART
    spot: SpotPolicy = SpotPolicy.NEVER
    weight: float = 1.0
    gpu_types: tuple[str, ...] = ()
    asked_pool: str = ""
    target_seconds: float | None = None


def class_of(application: str) -> ClassId:
    """The class of an application's jobs."""
    return ClassId("team", application)


def _by_application(_: Submission, application: Application) -> ClassId:
    return class_of(application.name)


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that is the same under any policy.

    ``start``: the instant of second 0.
    ``applications``: by the name that submissions use.
    ``terms``: computes how the job of a submission may run.
    ``restart_seconds``: seconds from a run's start to its first step, in pools that do not say otherwise.
    ``resize_seconds``: pause in training when a run is resized in place. Joining pods get ready before it; with the
    pause that takes them a restart.
    ``checkpoint_seconds``: seconds between checkpoints of a job on nodes that can be taken back, which loses its work
    since the last one; None for the best interval by the known rate and the nodes' ages.
    ``checkpoint_write_seconds``: seconds without training to write a checkpoint.
    ``until``: the latest second at which the simulation ends.
    ``classes``: computes a job's class; by default its application's. So applications of several sizes can share a
    class.
    ``pairs``: what jobs keep beside each other on a GPU of a pool with ``sharing``; None if no two jobs share one.
    """

    start: Instant
    submissions: tuple[Submission, ...]
    applications: Mapping[str, Application]
    pools: tuple[PoolModel, ...]
    budget: Budget
    terms: Callable[[Submission], JobTerms]
    restart_seconds: float = 30.0
    resize_seconds: float = 0.0
    checkpoint_seconds: float | None = 600.0
    checkpoint_write_seconds: float = 0.0
    until: float = float("inf")
    classes: Callable[[Submission, Application], ClassId] = _by_application
    pairs: PairTable | None = None


def new_budget(
    created: Instant, amount: Money = UNLIMITED, rate: Rate | None = None, calendar: Calendar = _MONTHS
) -> Budget:
    """A budget of ``amount`` a period that begins at ``created``.

    With ``rate`` (dollars a second) its exchange rate is fixed.
    """
    return Budget(
        id=BudgetId("simulated"),
        uid="simulated",
        resource_version="1",
        generation=1,
        created=created,
        amount=amount,
        calendar=calendar,
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
