"""The variants of a job that are no option for it, each with the reason."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.job import Job, ResizePolicy
from charterer.domain.jobs.variant import Variant
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.options.menu import Menu
from charterer.policy.options.variants import has_curve, measuring_profile, units_differ, widths_differ


@dataclass(frozen=True, slots=True)
class UnusedVariant:
    """A variant without any option, and ``why``."""

    name: str
    why: str


def unused_variants(job: Job, menu: Menu, solution: BudgetSolution) -> tuple[UnusedVariant, ...]:
    """Those of the job's variants that are not on its menu."""
    offered = {option.variant for option in menu.options}
    out = [variant for variant in job.variants if variant.name not in offered]
    return tuple([UnusedVariant(variant.name, _why(job, variant, solution)) for variant in out])


def _why(job: Job, variant: Variant, solution: BudgetSolution) -> str:
    profiles = solution.inputs.snapshot.profiles
    profile = profiles.get(variant.class_id)
    measure = measuring_profile([profiles.get(class_id) for class_id in job.classes])
    if profile is not None and measure is not None and has_curve(profile):
        no_pool = "no pool that is open to it has a number of GPUs at which its speed is known, or runs failed there"
        return units_differ(profile, measure) or widths_differ(variant, profile) or no_pool
    unknown = f"nothing is known of its speed, and SpeedupProfile {variant.class_id.name} declares none"
    template = profiles.get(job.class_id)
    if not solution.budget.exploration_percent:
        return f"{unknown}; spec.explorationPercent of GPUBudget {solution.budget.id} pays for no trial"
    if job.resize is ResizePolicy.NEVER:
        return f"{unknown}; a job with resizePolicy Never tries nothing, because it could not leave it again"
    if template is None or not template.reports:
        return f"{unknown}; it is tried once jobs of the class have reported batch sizes and step times"
    return f"{unknown}; one job of the class at a time tries it, while the budget pays for trials"
