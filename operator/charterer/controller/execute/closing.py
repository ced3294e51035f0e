"""Gives back machines whose nodes take no more pods first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from charterer.controller.execute.context import ExecutionContext
from charterer.controller.execute.node_steps import cordon
from charterer.controller.execute.rental_steps import mark_draining
from charterer.domain.steps import Cordon, MarkDraining

Closing: TypeAlias = Iterable[MarkDraining | Cordon]


async def close(context: ExecutionContext, steps: Closing) -> None:
    """Carry the steps out, one after the other."""
    for step in steps:
        await (cordon(context, step) if isinstance(step, Cordon) else mark_draining(context, step))
