"""Writes to the record of costs, and what is known of the place where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from charterer.controller.execute.decided import Stale
from charterer.controller.outcome import Held
from charterer.cost_record.files import CostRecord
from charterer.cost_record.places import RecordUnavailable
from charterer.domain.spending.cost_row import CostRow
from charterer.domain.spending.use import CostRecording
from charterer.domain.time import Instant


class CostWriter:
    """Writes files of rows. ``recording``: the record as it is known now."""

    def __init__(self, recording: CostRecording, now: Callable[[], Instant]) -> None:
        self.recording = recording
        self._now = now

    async def write(self, rows: Sequence[CostRow]) -> None:
        """Put the rows on record. Held, by the place, as long as it takes nothing; Stale where there is no record."""
        if not self.recording.place:
            raise Stale
        if not rows:
            return
        try:
            await CostRecord(self.recording.place).write(rows)
        except RecordUnavailable as error:
            self.recording = replace(self.recording, refused=str(error))
            raise Held(str(error)) from error
        self.recording = replace(self.recording, refused="", written=self._now())
