"""One command or step, by its type, to the hand that carries it out."""

from __future__ import annotations

from collections.abc import Mapping

from purser.cluster.errors import Conflict, NamespaceTerminating, NotFound
from purser.controller.execute.money import MONEY
from purser.controller.execute.nodes import NODES
from purser.controller.execute.runs import RUNS
from purser.controller.execute.tools import Hand, Stale, Tools
from purser.controller.outcome import Outcome
from purser.domain.plan import Command
from purser.domain.steps import Step
from purser.ledger.balance import StalePeriod

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
