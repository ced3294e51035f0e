"""Somebody else changes the cluster just before the operator acts on what it saw there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from charterer.cluster.client import Client
from charterer.controller.outcome import ActionOutcome, Executor
from charterer.domain.plan import Command
from charterer.domain.steps import Step


@dataclass(frozen=True, slots=True)
class Meddler:
    """Merge-patches (or, without a ``patch``, deletes) what is at ``path``, just before the first ``step``."""

    step: str
    kubeconfig: Path
    path: str
    patch: Mapping[str, object] | None = None

    def around(self, executor: Executor) -> Executor:
        """The executor with this around it."""
        return _Meddling(executor, self)


@dataclass(slots=True)
class _Meddling:
    inner: Executor
    plan: Meddler
    done: bool = field(default=False)

    async def execute(self, action: Command | Step) -> ActionOutcome:
        if type(action).__name__ == self.plan.step and not self.done:
            self.done = True
            async with await Client.connect(self.plan.kubeconfig) as client:
                if self.plan.patch is None:
                    await client.delete(self.plan.path)
                else:
                    await client.merge_patch(self.plan.path, self.plan.patch)
        return await self.inner.execute(action)
