"""Which budget pays for a namespace."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.domain.budget import Budget, Selector


def payers_of(seen: ClusterState) -> Mapping[str, Budget]:
    """By namespace: the oldest budget that selects it."""
    by_age = sorted(seen.budgets.values(), key=lambda budget: (budget.created, budget.id))
    payers: dict[str, Budget] = {}
    for name, labels in seen.namespaces.values():
        payer = next((budget for budget in by_age if selects(budget.selector, labels)), None)
        if payer is not None:
            payers[name] = payer
    return payers


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
