"""The answer of ``charterer plan``: a plan and, for a what-if, the plan without it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from charterer.domain.ids import BudgetId, JobId
from charterer.domain.money import Money
from charterer.policy.solve.phase_dp import key_of
from charterer.tools.commands.shared.plan_report import Action, PlanReport
from charterer.tools.frontier import mean_seconds


@dataclass(frozen=True, slots=True)
class AmountEffect:
    """The effect of another amount on the rest of this period. ``part``: of its own that the budget has more or less.

    ``word``: for its period.

    ``seconds`` and ``seconds_before``: mean completion time of its jobs; None while they queue. ``more_spent``: dollars
    of the period's forecast. Without a history these three are None, and only the jobs in sight are compared:
    ``changed`` of the ``jobs`` would have other GPUs.
    """

    budget: BudgetId
    word: str
    part: float
    seconds_before: float | None
    seconds: float | None
    more_spent: Money | None
    jobs: int
    changed: int


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """``report``: the plan, with the what-if if there is one. ``before``: without it. ``changes``: it in sentences.

    ``only_amounts``: whether the what-if changes nothing else, so that the jobs are the same.
    """

    report: PlanReport
    before: PlanReport | None = None
    changes: tuple[str, ...] = ()
    only_amounts: bool = False

    @property
    def added(self) -> list[Action]:
        """The actions that only the what-if brings; without a what-if all actions."""
        before = set() if self.before is None else {action.key for action in self.before.actions}
        return [action for action in self.report.actions if action.key not in before]

    @property
    def dropped(self) -> list[Action]:
        """The actions that the what-if saves."""
        after = {action.key for action in self.report.actions}
        return [] if self.before is None else [action for action in self.before.actions if action.key not in after]

    @property
    def changes_anything(self) -> bool:
        """Whether anything would be done; with a what-if, whether it makes a difference to that."""
        return bool(self.added or self.dropped)

    @property
    def effects(self) -> Iterable[AmountEffect]:
        """The effect on each budget whose jobs are the same and whose amount is another."""
        if self.before is None or not self.only_amounts:
            return
        before = {solution.budget.id: solution for solution in self.before.solutions}
        for solution in self.report.solutions:
            name, own = solution.budget.id, before[solution.budget.id]
            real, asked = own.budget.amount, solution.budget.amount
            frontier = self.report.frontiers[name]
            if real == asked or not real.micros or frontier.empty:
                continue
            jobs = [job.id for job in self.report.snapshot.jobs.values() if job.budget == name and job.finish is None]
            yield AmountEffect(
                budget=name,
                word=solution.budget.calendar.word,
                part=asked.micros / real.micros - 1.0,
                seconds_before=mean_seconds(own) if frontier.told else None,
                seconds=mean_seconds(solution) if frontier.told else None,
                more_spent=self._more_spent(name, self.before) if frontier.told else None,
                jobs=len(jobs),
                changed=sum(_option(job, self.report) != _option(job, self.before) for job in jobs),
            )

    def _more_spent(self, budget: BudgetId, before: PlanReport) -> Money:
        return self.report.plan.budgets[budget].expected - before.plan.budgets[budget].expected


def _option(job: JobId, report: PlanReport) -> object:
    """The option that a job has or gets; None while it waits without one."""
    verdict = report.plan.jobs.get(job)
    return None if verdict is None or verdict.option is None else key_of(verdict.option)
