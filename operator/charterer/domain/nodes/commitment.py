"""Nodes that are paid for whether they are used or not: a reservation, or a committed-use discount."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import BudgetId
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class Commitment:
    """That ``budget`` pays for all nodes of a pool until then, used or not (docs/development/adr/0077)."""

    until: Instant
    budget: BudgetId
