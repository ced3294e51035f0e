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

    ``gpu_types``: GPU types that the job's owner permits, or empty for all on which its application can run.
    ``asked_pool``: the pool in which the job runs under policies that choose no pool, or empty for any.
    ``target_seconds``: seconds from the job's submission to its targetCompletionTime, or None if it has no target.
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
    """Everything that is the same under any policy.

    ``start``: the instant of second 0.
    ``applications``: by the name that submissions use.
    ``terms``: computes how the job of a submission may run.
    ``restart_seconds``: seconds from a run's start to its first step, in pools without a value of their own.
    ``resize_seconds``: pause in training when a run is resized in place. Joining pods get ready before the pause.
    Getting ready and the pause together take a joining pod as long as a restart.
    ``checkpoint_seconds``: seconds between checkpoints of a job on nodes that can be taken back. If a node is taken
    back, the job loses its work since the last checkpoint. None means the best interval by the known rate and the
    nodes' ages.
    ``checkpoint_write_seconds``: seconds without training to write a checkpoint.
    ``until``: the latest second at which the simulation ends.
    ``classes``: computes a job's class. By default the class is that of the job's application. Another function lets
    applications of several sizes share a class.
    ``pairs``: the fractions of their speeds that jobs keep beside each other on a GPU of a pool with ``sharing``, or
    None if no two jobs share a GPU.
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
    """A budget of ``amount`` a period. The first period begins at ``created``.

    If ``rate`` (dollars a second) is given, the budget's exchange rate is fixed at it.
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
