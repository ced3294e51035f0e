"""The recorder of Events: its end."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from charterer.api.manifests import EventSubject
from charterer.cluster.client import Client
from charterer.cluster.events import Recorder
from tests.patience import PATIENCE

SUBJECT = EventSubject("charterer.dev/v1alpha1", "GPUBudget", "", "team", "uid-team")


class Accepts:
    """An API server that takes every Event."""

    async def post(self, path: str, body: object, **options: object) -> dict[str, Any]:
        return {"metadata": {"name": "event"}}


@pytest.mark.parametrize("steps", range(6))
def test_a_recorder_ends_when_it_is_cancelled_however_shortly_after_an_event(steps: int) -> None:
    async def main() -> None:
        recorder = Recorder(cast(Client, Accepts()), instance="pod-0")
        running = asyncio.create_task(recorder.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        recorder.record(SUBJECT, "SpentUntilDeletion", "it had spent $1", action="RemoveFinalizer")
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait((running,), timeout=PATIENCE)
        assert running.cancelled()

    asyncio.run(main())
