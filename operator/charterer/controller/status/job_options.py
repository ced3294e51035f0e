"""The options of jobs for their status: what ``charterer explain`` compares, for those who may read only the job."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import TypeAdapter

from charterer.api.models.compared_option import MOST_SECONDS, OPTIONS_SHOWN, ComparedOption
from charterer.domain.ids import BudgetId, JobId
from charterer.domain.job import Job
from charterer.domain.money import Money
from charterer.domain.plan import Verdict
from charterer.domain.pool import Pool
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.alternatives import Alternative, Comparison, Rank, compared_options
from charterer.policy.explain.ruled_out import RuledOut, ruled_out
from charterer.policy.solve.phase_dp import key_of

_log = logging.getLogger(__name__)

RULED_OUT = "ruled out"
"""The verdict on an option that the job may not have."""
_FRESH_SECONDS = 30.0
"""Seconds for which options are shown again while the decision is the same: as often as numbers are written."""
_COMPARED_A_SECOND = 1_000
"""Options compared a second at most, over all jobs: 20 to 60 ms of the thread, the less the more options a job has."""

_ROWS: TypeAdapter[tuple[ComparedOption, ...]] = TypeAdapter(tuple[ComparedOption, ...])


class ShownOptions(NamedTuple):
    """Options, and when they were compared; None where nothing was."""

    rows: tuple[ComparedOption, ...] = ()
    as_of: Instant | None = None


NO_OPTIONS = ShownOptions()


@dataclass(frozen=True, slots=True)
class _Kept:
    """The options of a job, for as long as ``decision`` stays the same. ``rows`` is JSON text, as in ``ViewWriter``."""

    decision: tuple[object, ...]
    rows: bytes
    as_of: Instant


class JobOptions:
    """Compares the options of jobs in the last plan, at most so many a second, and remembers them for a while."""

    def __init__(self) -> None:
        self._solutions: dict[BudgetId, BudgetSolution] = {}
        self._budgets: dict[BudgetId, Comparison] = {}
        self._kept: dict[JobId, _Kept] = {}
        self._left = float(_COMPARED_A_SECOND)
        self._looked: Instant | None = None

    def planned(self, snapshot: Snapshot, solutions: Iterable[BudgetSolution]) -> None:
        """A plan of this snapshot was made from these solutions: none where no plan could be made."""
        self._solutions = {solution.budget.id: solution for solution in solutions}
        self._budgets = {}
        for gone in self._kept.keys() - snapshot.jobs.keys():
            del self._kept[gone]

    def of(self, job: Job, verdict: Verdict | None, now: Instant) -> ShownOptions:
        """The options of a job of the last plan's snapshot; none while it is not its turn."""
        solution = None if job.budget is None else self._solutions.get(job.budget)
        if solution is None or verdict is None or not job.wants_to_run:
            self._kept.pop(job.id, None)
            return NO_OPTIONS
        has = None if job.allocation is None else key_of(job.allocation.option)
        wants = None if verdict.option is None else key_of(verdict.option)
        decision = job.generation, has, wants, verdict.reason.code
        kept = self._kept.get(job.id)
        if kept is not None and kept.decision != decision:
            del self._kept[job.id]
            kept = None
        fresh = kept is not None and seconds_between(kept.as_of, now) < _FRESH_SECONDS
        if not fresh and self._may_compare(now):
            rows: tuple[ComparedOption, ...] = ()
            try:
                rows = self._compared(job, verdict, solution)
            except Exception:  # the rest of the view is shown anyway
                if kept is None:
                    _log.exception("options of TrainingJob %s/%s; please report it", job.namespace, job.name)
            self._kept[job.id] = _Kept(decision, _ROWS.dump_json(rows, exclude_none=True), now)
            return ShownOptions(rows, now)
        return NO_OPTIONS if kept is None else ShownOptions(_ROWS.validate_json(kept.rows), kept.as_of)

    def _may_compare(self, now: Instant) -> bool:
        passed = 0.0 if self._looked is None else max(seconds_between(self._looked, now), 0.0)
        self._left = min(self._left + passed * _COMPARED_A_SECOND, _COMPARED_A_SECOND)
        self._looked = now
        return self._left > 0.0

    def _compared(self, job: Job, verdict: Verdict, solution: BudgetSolution) -> tuple[ComparedOption, ...]:
        budget = self._budgets.get(solution.budget.id)
        if budget is None:
            budget = self._budgets[solution.budget.id] = Comparison.of(solution)
        self._left -= 1
        found, pools = compared_options(job, verdict, budget, OPTIONS_SHOWN), budget.snapshot.pools
        self._left -= found.compared
        if found.rows:
            return tuple([_compared(row, verdict, pools.get(row.option.pool)) for row in found.rows])
        selected = budget.snapshot.pools_of(solution.budget)
        excluded = [each for each in ruled_out(job, verdict, solution) if each.pool in selected]
        return tuple([_ruled_out(each, selected[each.pool]) for each in excluded[:OPTIONS_SHOWN]])


def _compared(row: Alternative, verdict: Verdict, pool: Pool | None) -> ComparedOption:
    return ComparedOption(
        pool=row.option.pool,
        gpu_type=_gpu_type(pool),
        capacity_type=None if pool is None else pool.capacity_type,
        gpus=row.option.gpus,
        variant=row.option.variant or None,
        hourly=row.option.price,
        seconds_left=_seconds(row.seconds),
        cost_left=_money(row.dollars + row.empty),
        per_hour_saved=None if row.per_hour_saved is None else _money(row.per_hour_saved),
        verdict=str(row.rank),
        nodes=str(row.nodes),
        message=verdict.reason.message if row.rank is Rank.CHOSEN else "",
    )


def _ruled_out(found: RuledOut, pool: Pool) -> ComparedOption:
    return ComparedOption(
        pool=found.pool,
        gpu_type=_gpu_type(pool),
        capacity_type=pool.capacity_type,
        gpus=None if found.option is None else found.option.gpus,
        variant=None if found.option is None else found.option.variant or None,
        hourly=None if found.option is None else found.option.price,
        seconds_left=None if found.seconds is None else _seconds(found.seconds),
        cost_left=None if found.dollars is None else _money(found.dollars),
        verdict=RULED_OUT,
        message=found.why,
    )


def _gpu_type(pool: Pool | None) -> str | None:
    return None if pool is None or pool.offering is None else pool.offering.gpu_type


def _seconds(seconds: float) -> int:
    return round(min(max(seconds, 0.0), MOST_SECONDS))


def _money(dollars: float) -> Money:
    return Money.of(max(dollars, 0.0))
