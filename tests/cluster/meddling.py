"""Somebody else changes the cluster after the operator has read what it acts on, and before it writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from charterer.cluster.client import Client, RawObject
from charterer.controller.outcome import ActionOutcome, Executor
from charterer.domain.plan import Command
from charterer.domain.steps import Step

_MEDDLE: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("meddle", default=None)
"""What is done before the next write of this task."""


@dataclass(frozen=True, slots=True)
class Meddler:
    """Merge-patches (or, without a ``patch``, deletes) what is at ``path``, just before the first ``step`` writes.

    Before the step begins would be too early: it acts on the newest snapshot, which may hold the change by then.
    """

    step: str
    kubeconfig: Path
    path: str
    patch: Mapping[str, object] | None = None

    def around(self, executor: Executor) -> Executor:
        """The executor with this around it."""
        _meddle_before_writes()
        return _Meddling(executor, self)


def _meddle_before_writes() -> None:
    """Have every client of this process call what is in _MEDDLE once, before it writes."""
    call = Client.raw

    async def raw(self: Client, method: str, path: str, **options: Any) -> RawObject:
        if method != "GET" and (meddle := _MEDDLE.get()) is not None:
            _MEDDLE.set(None)
            await meddle()
        return await call(self, method, path, **options)

    setattr(Client, "raw", raw)  # noqa: B010 - a method cannot be assigned


@dataclass(slots=True)
class _Meddling:
    inner: Executor
    plan: Meddler
    done: bool = field(default=False)

    async def execute(self, action: Command | Step) -> ActionOutcome:
        if type(action).__name__ != self.plan.step or self.done:
            return await self.inner.execute(action)
        self.done = True
        meddle = _MEDDLE.set(self._meddle)
        try:
            return await self.inner.execute(action)
        finally:
            _MEDDLE.reset(meddle)

    async def _meddle(self) -> None:
        async with await Client.connect(self.plan.kubeconfig) as client:
            if self.plan.patch is None:
                await client.delete(self.plan.path)
            else:
                await client.merge_patch(self.plan.path, self.plan.patch)
