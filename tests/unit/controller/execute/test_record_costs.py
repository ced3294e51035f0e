"""A file of costs is written before any rental says so, and only rentals that it was made from say so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from charterer.cluster.errors import Conflict
from charterer.controller.execute.context import CostWriter, ExecutionContext, Stale
from charterer.controller.execute.rental_steps import record_costs
from charterer.controller.outcome import ActionOutcome, Held
from charterer.cost_record import CostRecord
from charterer.domain.cost_row import CostRecording, RecordedCost
from charterer.domain.ids import RentalId
from charterer.domain.money import Money
from charterer.domain.rental import Rental
from charterer.domain.steps import RecordCosts, RecordedPart
from tests import factory as make
from tests.factory.cost_rows import cost_row

AFTER = RecordedCost(make.at(60), Money(5), 1)
RENTALS = [make.rental(f"a100-{number}", resource_version=str(number)) for number in range(1, 4)]


def step(*versions: str) -> RecordCosts:
    parts = [
        RecordedPart(rental.id, version, (replace(cost_row("5.00"), rental_uid=rental.uid),), AFTER)
        for rental, version in zip(RENTALS, versions, strict=True)
    ]
    return RecordCosts(make.TEAM, tuple(parts))


class Books:
    """Rentals as the store has them, and a record of costs."""

    def __init__(self, place: Path) -> None:
        self.writer = CostWriter(CostRecording(str(place)), lambda: make.at(100))
        self.marked: dict[RentalId, RecordedCost | None] = {}
        self.raises: Exception | None = None

    async def record(self, rental: Rental) -> None:
        if self.raises is not None and rental.id == RENTALS[0].id:
            raise self.raises
        self.marked[rental.id] = rental.recorded

    async def execute(self, costs: RecordCosts) -> ActionOutcome:
        known = {rental.id: rental for rental in RENTALS}
        context = SimpleNamespace(
            decided=SimpleNamespace(rental=lambda name: known[name]),
            objects=SimpleNamespace(record_rental=self.record),
            costs=self.writer,
        )
        return await record_costs(cast(ExecutionContext, context), costs)


async def test_the_file_is_written_and_each_rental_says_so(tmp_path: Path) -> None:
    books = Books(tmp_path)
    assert await books.execute(step("1", "2", "3")) is ActionOutcome.DONE
    assert books.marked == {rental.id: AFTER for rental in RENTALS}
    assert books.writer.recording.written == make.at(100)
    assert len(list(CostRecord(str(tmp_path)).read(["2026-11"]))) == 3


@pytest.mark.parametrize("raised", [Stale(), Conflict("PATCH", "/rental", 409, "Conflict", "changed")])
async def test_a_rental_that_has_changed_is_left_out_and_the_others_are_marked(
    tmp_path: Path, raised: Exception
) -> None:
    books = Books(tmp_path)
    books.raises = raised
    assert await books.execute(step("1", "2", "older")) is ActionOutcome.STALE
    assert set(books.marked) == {RENTALS[1].id}


async def test_an_error_of_the_api_server_is_raised_when_all_the_others_are_marked(tmp_path: Path) -> None:
    books = Books(tmp_path)
    books.raises = RuntimeError("the API server is away")
    with pytest.raises(RuntimeError):
        await books.execute(step("1", "2", "3"))
    assert len(books.marked) == 2


async def test_while_the_place_refuses_no_rental_is_marked_and_the_cause_is_kept(tmp_path: Path) -> None:
    books = Books(tmp_path / "absent")
    with pytest.raises(Held, match="absent"):
        await books.execute(step("1", "2", "3"))
    assert not books.marked
    assert "absent" in books.writer.recording.refused
    (tmp_path / "absent").mkdir()
    await books.execute(step("1", "2", "3"))
    assert (books.writer.recording.refused, len(books.marked)) == ("", 3)


async def test_a_place_that_can_be_none_is_told_like_one_that_refuses() -> None:
    writer = CostWriter(CostRecording("ftp://costs"), lambda: make.at(100))
    with pytest.raises(Held, match="ftp"):
        await writer.write([cost_row("5.00")])
    assert "ftp" in writer.recording.refused
