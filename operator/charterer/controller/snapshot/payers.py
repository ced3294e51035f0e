"""The budget that pays for a namespace, and the budgets that select the same namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charterer.api.decode import DecodedNamespace
from charterer.cluster.store import ObjectKey
from charterer.domain.budget import Budget, Mode
from charterer.domain.budget_tree import budget_tree
from charterer.domain.ids import BudgetId
from charterer.domain.time import Instant
from charterer.sentences import is_or_are, names

_SAID = 20
"""Most overlaps and names in one message, so that the message fits into a condition. Of further overlaps and names the
message gives the number.
"""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Namespaces that the same budgets select. ``budgets``: at least two, and the one that pays is first."""

    namespaces: Sequence[str]
    budgets: Sequence[Budget]

    def payer(self, reader: BudgetId | None = None) -> str:
        """A clause that says which budget pays, and why. ``reader``: the budget whose condition has the clause."""
        first, second = self.budgets[:2]
        who = "this budget" if first.id == reader else first.id
        why = "being the oldest"
        if second.created == first.created:
            why = "being the first by name of those created in the same second"
            if first.mode is Mode.OBSERVE and second.mode is Mode.ENFORCE:
                why = "since of those created in the same second one that only observes comes first"
        what = "pays" if first.mode is Mode.ENFORCE else "counts, and nothing is rented (mode Observe)"
        return f"{who} {what}, {why}"

    def for_reader(self, reader: BudgetId) -> str:
        """A sentence for one of the budgets."""
        are = f"namespace{'' if len(self.namespaces) == 1 else 's'} {names(self.namespaces, _SAID)}"
        others = names((budget.id for budget in self.budgets if budget.id != reader), _SAID)
        return f"{are} {is_or_are(len(self.namespaces))} also selected by {others}; {self.payer(reader)}"


def budgets_by_namespace(
    budgets: Mapping[ObjectKey, Budget], namespaces: Mapping[ObjectKey, DecodedNamespace]
) -> Mapping[str, Sequence[Budget]]:
    """The budgets that select each namespace. The budget that pays is first. A budget above another of these budgets is
    left out.
    """
    in_order = sorted(budgets.values(), key=_precedence)
    tree = budget_tree({budget.id: budget for budget in in_order})
    return {
        namespace.name: tree.without_parents_among(
            [budget for budget in in_order if budget.selector.matches(namespace.labels)]
        )
        for namespace in namespaces.values()
    }


def _precedence(budget: Budget) -> tuple[Instant, bool, BudgetId]:
    """The sort key of budgets. The oldest budget is first.

    If budgets were created in the same second, nobody knows which was applied first. Among these, a budget in mode
    Observe is first, so that nothing is rented for its namespaces by accident. Then the name decides.
    """
    return budget.created, budget.mode is not Mode.OBSERVE, budget.id


def payers_of(
    budgets: Mapping[ObjectKey, Budget], namespaces: Mapping[ObjectKey, DecodedNamespace]
) -> Mapping[str, Budget]:
    """The budget that pays for each namespace."""
    selecting = budgets_by_namespace(budgets, namespaces)
    return {namespace: candidates[0] for namespace, candidates in selecting.items() if candidates}


def overlaps_among(
    budgets: Mapping[ObjectKey, Budget], namespaces: Mapping[ObjectKey, DecodedNamespace]
) -> Sequence[Overlap]:
    """The namespaces that several budgets select, grouped by these budgets."""
    overlaps: dict[tuple[BudgetId, ...], Overlap] = {}
    for namespace, candidates in sorted(budgets_by_namespace(budgets, namespaces).items()):
        if len(candidates) > 1:
            key = tuple(budget.id for budget in candidates)
            before = overlaps[key].namespaces if key in overlaps else ()
            overlaps[key] = Overlap((*before, namespace), candidates)
    return list(overlaps.values())


def overlaps_of(
    budgets: Mapping[ObjectKey, Budget], namespaces: Mapping[ObjectKey, DecodedNamespace]
) -> Mapping[BudgetId, str]:
    """For each budget that shares namespaces, a sentence that names the namespaces, the other budgets and the budget
    that pays.
    """
    overlaps: dict[BudgetId, list[Overlap]] = {}
    for overlap in overlaps_among(budgets, namespaces):
        for budget in overlap.budgets:
            overlaps.setdefault(budget.id, []).append(overlap)
    return {
        budget: in_words([(overlap, overlap.for_reader(budget)) for overlap in those])
        for budget, those in overlaps.items()
    }


def pay_nowhere(
    budgets: Mapping[ObjectKey, Budget], namespaces: Mapping[ObjectKey, DecodedNamespace]
) -> Mapping[BudgetId, str]:
    """For each budget that pays for no namespace, the reason. Budgets above other budgets are left out, because they
    need not pay for a namespace.
    """
    by_namespace = budgets_by_namespace(budgets, namespaces)
    selecting = {budget.id for candidates in by_namespace.values() for budget in candidates}
    paying = {candidates[0].id for candidates in by_namespace.values() if candidates}
    above = budget_tree({budget.id: budget for budget in budgets.values()}).below
    return {
        budget.id: "older budgets pay for all namespaces that spec.namespaceSelector selects"
        if budget.id in selecting
        else "spec.namespaceSelector selects no namespace"
        for budget in budgets.values()
        if budget.id not in paying and budget.id not in above
    }


def in_words(said: Sequence[tuple[Overlap, str]]) -> str:
    """The sentences about the first overlaps, and the number of namespaces in the other overlaps."""
    more = sum(len(overlap.namespaces) for overlap, _ in said[_SAID:])
    end = [f"and so on for {more} more"] if more else []
    return "; ".join([*(text for _, text in said[:_SAID]), *end])
