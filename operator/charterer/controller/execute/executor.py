"""One command or step, by its type, to the hand that carries it out."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.cluster.errors import Conflict, NamespaceTerminating, NotFound
from charterer.controller.execute.money import MONEY
from charterer.controller.execute.nodes import NODES
from charterer.controller.execute.runs import RUNS
from charterer.controller.execute.tools import Hand, Stale, Tools
from charterer.controller.outcome import Outcome
from charterer.domain.plan import Command
from charterer.domain.steps import Step
from charterer.ledger.balance import StalePeriod

HANDS: Mapping[type, Hand] = {**MONEY, **NODES, **RUNS}


class ClusterExecutor:
    """The executor of production."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def execute(self, do: Command | Step) -> Outcome:
        """Carry it out. STALE: what it was decided on has changed. Raises ApiError or ProviderError."""
        try:
            return await HANDS[type(do)](self._tools, do)
        except (Stale, StalePeriod, Conflict, NotFound, NamespaceTerminating):
            return Outcome.STALE
