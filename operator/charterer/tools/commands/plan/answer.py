"""The answer of ``charterer plan`` as a value: a plan and, for a what-if, the plan without it."""

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
    """The effect of another amount on the rest of the period. ``part`` is the relative change of the amount.

    ``word`` names the budget's period. ``seconds`` and ``seconds_before`` are the mean completion time of a job, or
    None if jobs queue. ``more_spent`` is the change of the forecast. For a budget without history, these three are
    None. Only the jobs in sight are then compared: ``changed`` of ``jobs`` would get other GPUs.
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
    """``report`` is the plan, with the what-if if there is one. ``before`` is the plan without the what-if.

    ``changes`` describe the what-if in sentences. If ``only_amounts`` is true, the what-if changes only amounts, so
    both plans have the same jobs.
    """

    report: PlanReport
    before: PlanReport | None = None
    changes: tuple[str, ...] = ()
    only_amounts: bool = False

    @property
    def added(self) -> list[Action]:
        """Actions that only the plan with the what-if has. Without a what-if, all actions."""
        before = set() if self.before is None else {action.key for action in self.before.actions}
        return [action for action in self.report.actions if action.key not in before]

    @property
    def dropped(self) -> list[Action]:
        """Actions that only the plan without the what-if has."""
        after = {action.key for action in self.report.actions}
        return [] if self.before is None else [action for action in self.before.actions if action.key not in after]

    @property
    def changes_anything(self) -> bool:
        """Whether the plan has actions. With a what-if, whether the actions differ from those without it."""
        return bool(self.added or self.dropped)

    @property
    def effects(self) -> Iterable[AmountEffect]:
        """The effect on each budget whose amount changes, if nothing else changes."""
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
    """Return the key of the option that a job has or gets, or None if it waits without an option."""
    verdict = report.plan.jobs.get(job)
    return None if verdict is None or verdict.option is None else key_of(verdict.option)
