"""The record of costs counts each part once, whatever moves between file and mark, and whenever the operator dies."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from charterer.cost_record import CostRecord
from charterer.domain.billing import cost
from charterer.domain.cost_row import CostRow
from charterer.domain.money import Price, total
from charterer.domain.pool import PriceSegment
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.time import Calendar, Instant, instant
from charterer.ledger.cost_rows import correction_begun, next_part, rows
from tests import lanes
from tests.factory import budget, pool, rental

HOUR = 3_600_000_000
NEW_MONTH = instant(datetime(2026, 12, 1, tzinfo=UTC))
ZONES = ("UTC", "Pacific/Kiritimati", "Etc/GMT+12", "Europe/Berlin")
MONTHS = ("2026-10", "2026-11", "2026-12", "2027-01")
EDITS = ("zone", "earlier", "free", "dear", "back", "nothing")


def rented(launched: Instant, hourly: int, version: int, before: Rental | None = None) -> Rental:
    """A machine of 30 hours whose cost is final, as this version of its rental says."""
    ended = Instant(NEW_MONTH + 60 * HOUR)
    segments = (PriceSegment(launched, Price(hourly)),)
    return rental(
        phase=RentalPhase.ENDED,
        created=launched,
        launched=launched,
        ready=launched,
        ended=ended,
        cost=cost(segments, 0, launched, ended),
        segments=segments,
        resource_version=str(version),
        recorded=None if before is None else before.recorded,
    )


def on_record(place: str) -> list[CostRow]:
    """All that the record has, each month read by itself."""
    return [row for month in MONTHS for row in CostRecord(place).read([month])]


class Died(Exception):
    """The operator has ended."""


class DyingRecord(CostRecord):
    """A record whose writer dies after so many files."""

    def __init__(self, place: str, files: int) -> None:
        super().__init__(place)
        kept, left = self._files.write, iter(range(files))

        def write(name: str, content: bytes) -> None:
            if next(left, None) is None:
                raise Died
            kept(name, content)

        self._files = SimpleNamespace(write=write)


Turn = tuple[str, int]
"""What is edited, and after how many files the operator dies: 9 is after all of them, and -1 after the mark."""


@settings(max_examples=lanes.examples(300))
@given(
    st.integers(-30, 30).map(lambda hours: Instant(NEW_MONTH + hours * HOUR)),
    st.lists(st.tuples(st.sampled_from(EDITS), st.sampled_from((0, 1, 2, 9, -1))), max_size=8),
)
@example(Instant(NEW_MONTH - HOUR), [("nothing", 9), ("zone", -1)])
@example(Instant(NEW_MONTH - HOUR), [("nothing", 9), ("free", -1)])
@example(Instant(NEW_MONTH + HOUR), [("nothing", 9), ("earlier", -1)])
@example(Instant(NEW_MONTH), [*[("nothing", -1)] * 6, ("free", -1), ("nothing", 9), ("back", -1)])
def test_each_part_counts_once(launched: Instant, turns: list[Turn]) -> None:
    zones, version, hourly = list(ZONES), 1, 7_000_000
    known = rented(launched, hourly, version)
    with TemporaryDirectory() as place:
        for generation, (edit, dies) in enumerate([*turns, *[("nothing", -1)] * 12]):
            if edit == "zone":
                zones.append(zones.pop(0))  # of the budget: the rental's version stays
            elif edit != "nothing" and known.launched is not None:
                version += 1
                start = Instant(known.launched - 5 * HOUR) if edit == "earlier" else known.launched
                hourly = {"free": 0, "dear": 9_000_000, "back": 7_000_000}.get(edit, hourly)
                known = rented(start if known.recorded is None else known.launched, hourly, version, known)
            part, begun = next_part(known, zones[0]), correction_begun(known)
            if part is None:
                continue
            if begun is not None:
                version += dies != 0
                known = known if dies == 0 else replace(known, recorded=begun, resource_version=str(version))
                continue
            made = rows(
                part, known, budget(calendar=Calendar(zones[0]), generation=generation), pool(), 4, in_vain=False
            )
            with suppress(Died):
                asyncio.run(DyingRecord(place, 9 if dies == -1 else dies).write(made))
            if dies == -1:
                version += 1
                known = replace(known, recorded=part.after, resource_version=str(version))
        assert known.recorded is not None
        assert total(row.cost for row in on_record(place)) == known.cost
        together = list(CostRecord(place).read(MONTHS))
        assert total(row.cost for row in together) == known.cost
