"""Which budget pays for a namespace, and which budgets select the same one."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.cluster.store import ObjectKey
from charterer.domain.budget import Budget, Selector
from charterer.domain.ids import BudgetId


def payers_of(
    budgets: Mapping[ObjectKey, Budget], namespaces: Mapping[ObjectKey, tuple[str, Mapping[str, str]]]
) -> Mapping[str, Budget]:
    """The budget that pays for each namespace: the oldest one that selects it."""
    by_age = sorted(budgets.values(), key=lambda budget: (budget.created, budget.id))
    payers: dict[str, Budget] = {}
    for name, labels in namespaces.values():
        payer = next((budget for budget in by_age if selects(budget.selector, labels)), None)
        if payer is not None:
            payers[name] = payer
    return payers


def overlaps_of(
    budgets: Mapping[ObjectKey, Budget], namespaces: Mapping[ObjectKey, tuple[str, Mapping[str, str]]]
) -> Mapping[BudgetId, str]:
    """For each budget that selects a namespace together with another one: a sentence on the first such namespace."""
    by_age = sorted(budgets.values(), key=lambda budget: (budget.created, budget.id))
    sentences: dict[BudgetId, str] = {}
    for name, labels in sorted(namespaces.values(), key=lambda namespace: namespace[0]):
        selecting = [budget.id for budget in by_age if selects(budget.selector, labels)]
        for budget in selecting if len(selecting) > 1 else ():
            others = ", ".join(other for other in selecting if other != budget)
            pays = "this budget" if budget == selecting[0] else selecting[0]
            sentences.setdefault(
                budget, f"namespace {name} is also selected by {others}; {pays} pays, being the oldest"
            )
    return sentences


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; all its terms must hold, and an empty one always does."""
    return all(labels.get(key) == value for key, value in selector.match_labels) and all(
        _holds(operator, values, labels.get(key)) for key, operator, values in selector.match_expressions
    )


def _holds(operator: str, values: tuple[str, ...], value: str | None) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            raise ValueError(f"no selector operator: {operator}")
