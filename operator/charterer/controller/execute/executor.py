"""One command or step, by its type, to the hand that carries it out."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.cluster.errors import Conflict, NamespaceTerminating, NotFound
from charterer.controller.execute.context import ExecutionContext, Handler, Stale
from charterer.controller.execute.node_steps import NODES
from charterer.controller.execute.rental_steps import MONEY
from charterer.controller.execute.run_steps import RUNS
from charterer.controller.outcome import ActionOutcome
from charterer.domain.plan import Command
from charterer.domain.steps import Step
from charterer.ledger.balance import StalePeriod

HANDLERS: Mapping[type, Handler] = {**MONEY, **NODES, **RUNS}


class ClusterExecutor:
    """The executor of production."""

    def __init__(self, tools: ExecutionContext) -> None:
        self._tools = tools

    async def execute(self, do: Command | Step) -> ActionOutcome:
        """Carry it out. STALE: what it was decided on has changed. Raises ApiError or ProviderError."""
        try:
            return await HANDLERS[type(do)](self._tools, do)
        except (Stale, StalePeriod, Conflict, NotFound, NamespaceTerminating):
            return ActionOutcome.STALE
