"""Which budget pays for a namespace, and which budgets select the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from charterer.api.decode import DecodedNamespace
from charterer.cluster.store import ObjectKey
from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId


def budgets_by_namespace(
    budgets: Mapping[ObjectKey, Budget], namespaces: Mapping[ObjectKey, DecodedNamespace]
) -> Mapping[str, Sequence[Budget]]:
    """The budgets that select each namespace, the oldest first."""
    by_age = sorted(budgets.values(), key=lambda budget: (budget.created, budget.id))
    return {
        namespace.name: [budget for budget in by_age if budget.selector.matches(namespace.labels)]
        for namespace in namespaces.values()
    }


def payers_of(
    budgets: Mapping[ObjectKey, Budget], namespaces: Mapping[ObjectKey, DecodedNamespace]
) -> Mapping[str, Budget]:
    """The budget that pays for each namespace: the oldest one that selects it."""
    selecting = budgets_by_namespace(budgets, namespaces)
    return {namespace: candidates[0] for namespace, candidates in selecting.items() if candidates}


def overlaps_of(
    budgets: Mapping[ObjectKey, Budget], namespaces: Mapping[ObjectKey, DecodedNamespace]
) -> Mapping[BudgetId, str]:
    """For each budget that selects a namespace together with another one: a sentence on the first such namespace."""
    sentences: dict[BudgetId, str] = {}
    for namespace, candidates in sorted(budgets_by_namespace(budgets, namespaces).items()):
        selecting = [budget.id for budget in candidates]
        for budget in selecting if len(selecting) > 1 else ():
            others = ", ".join(other for other in selecting if other != budget)
            pays = "this budget" if budget == selecting[0] else selecting[0]
            text = f"namespace {namespace} is also selected by {others}; {pays} pays, being the oldest"
            sentences.setdefault(budget, text)
    return sentences
