"""The answer of ``charterer plan``: a plan and, for a what-if, the plan without it."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.cli.shared.plan_report import Action, PlanReport


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """``report``: the plan, with the what-if if there is one. ``before``: without it. ``changes``: it in sentences."""

    report: PlanReport
    before: PlanReport | None = None
    changes: tuple[str, ...] = ()

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
