"""A step that only writes a rental's record writes it as the step says, and only onto the rental it was made from."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from charterer.cluster.store import Store
from charterer.controller.execute.context import DecidedObjects, ExecutionContext, Stale
from charterer.controller.execute.executor import HANDLERS
from charterer.controller.outcome import ActionOutcome
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.steps import (
    CloseUnfulfilled,
    MarkEnded,
    MarkMissing,
    MarkReady,
    RecordUses,
    Refresh,
    RentalRecord,
)
from tests import factory as make

STARTING = make.rental(machine=make.instance(), phase=RentalPhase.STARTING)
AFTER = replace(STARTING, phase=RentalPhase.READY)
STEPS = [MarkEnded(AFTER, estimated=False)] + [
    kind(AFTER) for kind in (CloseUnfulfilled, MarkMissing, MarkReady, RecordUses, Refresh)
]


class Records:
    """A store with one rental, and the records that were written."""

    def __init__(self, stored: Rental) -> None:
        self.written: list[Rental] = []
        store = SimpleNamespace(get=lambda kind, name: stored)
        decided = DecidedObjects(cast(Store, store), lambda: make.snapshot(STARTING))
        self.context = cast(ExecutionContext, SimpleNamespace(decided=decided, objects=self))

    async def record_rental(self, rental: Rental) -> None:
        self.written.append(rental)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
async def test_the_record_is_written_as_the_step_says(step: RentalRecord) -> None:
    records = Records(STARTING)
    assert await HANDLERS[type(step)](records.context, step) is ActionOutcome.DONE
    assert records.written == [AFTER]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
async def test_nothing_is_written_onto_a_rental_that_has_changed(step: RentalRecord) -> None:
    records = Records(replace(STARTING, released_because="not needed"))
    with pytest.raises(Stale):
        await HANDLERS[type(step)](records.context, step)
    assert records.written == []
