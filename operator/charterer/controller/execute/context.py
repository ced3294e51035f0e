"""The tools of the handlers of commands and steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from charterer.cluster.client import Client
from charterer.controller.execute.balance_writer import BalanceWriter
from charterer.controller.execute.cloud_writer import CloudWriter
from charterer.controller.execute.cost_writer import CostWriter
from charterer.controller.execute.decided import DecidedObjects
from charterer.controller.execute.object_writer import ObjectWriter
from charterer.controller.outcome import ActionOutcome
from charterer.domain.ids import JobId
from charterer.domain.time import Instant
from charterer.workloads import RunEnvironment, Workload


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """``client`` is for uncached reads before a mutation; writes go through ``objects``, ``balances``, ``clouds`` and
    ``costs``.

    ``unwritten`` is told of a job whose record the API server refuses. ``matching`` is held from the look whether a
    rental names a machine until one does: two pools of one group may match the same machine at once.
    """

    decided: DecidedObjects
    objects: ObjectWriter
    balances: BalanceWriter
    clouds: CloudWriter
    costs: CostWriter
    client: Client
    workload: Workload
    environment: RunEnvironment
    now: Callable[[], Instant]
    unwritten: Callable[[JobId, str], None]
    matching: asyncio.Lock = field(default_factory=asyncio.Lock)


Handler: TypeAlias = Callable[[ExecutionContext, Any], Awaitable[ActionOutcome]]
"""Carries out one type of command or step."""
