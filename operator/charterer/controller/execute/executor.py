"""Finds the handler of a command or step by its type."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.cluster.errors import Conflict, NamespaceTerminating, NotFound, Withheld
from charterer.controller.execute.context import ExecutionContext, Handler
from charterer.controller.execute.decided import Stale
from charterer.controller.execute.node_steps import NODE_HANDLERS
from charterer.controller.execute.pool_set_steps import POOL_SET_HANDLERS
from charterer.controller.execute.rental_steps import RENTAL_HANDLERS
from charterer.controller.execute.run_steps import RUN_HANDLERS
from charterer.controller.outcome import ActionOutcome
from charterer.domain.plan import Command
from charterer.domain.steps import Step
from charterer.ledger.balance import StalePeriod
from charterer.providers.errors import CloudCallWithheld

HANDLERS: Mapping[type, Handler] = {**POOL_SET_HANDLERS, **RENTAL_HANDLERS, **NODE_HANDLERS, **RUN_HANDLERS}


class ClusterExecutor:
    """The ``Executor`` that acts on the cluster and the clouds."""

    def __init__(self, context: ExecutionContext) -> None:
        self._context = context

    async def execute(self, action: Command | Step) -> ActionOutcome:
        """Carry out one command or step; STALE when what it was decided on has changed, WITHHELD in a dry run.

        Raises ApiError and ProviderError.
        """
        try:
            return await HANDLERS[type(action)](self._context, action)
        except (Stale, StalePeriod, Conflict, NotFound, NamespaceTerminating):
            return ActionOutcome.STALE
        except (Withheld, CloudCallWithheld):
            return ActionOutcome.WITHHELD
