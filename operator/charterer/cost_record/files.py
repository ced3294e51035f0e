"""The record of costs: what was spent, by whom and on what, in files that outlive rentals and jobs.

A file has rows of one budget and month: ``<budget>/<year-month>/<digest>.jsonl``, one JSON object a line, the month
being that of the rows in the budget's time zone. Its name is the digest (SHA-256, 32 hexadecimal digits) of its
content: a batch that is written twice is one file, and a file that was changed or cut off is found out.

A part that is written again may have moved to the month before or after: the budget has another time zone by now, or
the cloud tells another beginning. So near a month's end the other month is told, too: ``<budget>/moved-<year-month>``
has a row without cost for each part that is not in that month now, and older versions of it there count no more.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from charterer.cost_record.bucket import Bucket
from charterer.cost_record.folder import Folder
from charterer.cost_record.json_lines import PartKey, UnreadableLine, Version, decoded, encoded, part_of
from charterer.cost_record.places import RecordPlace, RecordUnavailable
from charterer.domain.budget import Cause
from charterer.domain.money import ZERO
from charterer.domain.period import period_bounds
from charterer.domain.spending.cost_row import CostRow
from charterer.domain.time import Instant, after, moment

_MONTH: Final = re.compile(r"\d{4}-(0[1-9]|1[0-2])")
_BUDGET: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
"""Names of GPUBudgets: a volume may have other folders, as lost+found."""
_SUFFIX: Final = ".jsonl"
_MOVED: Final = "moved-"
_PACKET: Final = 16
"""Files of a packet, since a thread's answer costs as much as reading some files of a disk."""
_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a month's files that are kept between the two looks at them; what is more is fetched twice."""


_MOVES: Final = 50 * 3_600.0
"""Seconds by which a part may move: time zones differ by 26 hours, and its first row begins within a day of it."""


class DamagedRecord(RecordUnavailable):
    """A file of the record is not as it was written; the message names file and line."""


def month_of(row: CostRow) -> str:
    """The month that a row counts in, ``2026-11``: the period of its start, in the budget's time zone."""
    return _month(row.time_zone, row.start)


def _month(time_zone: str, at: Instant) -> str:
    start = period_bounds(time_zone, at)[0]
    return f"{moment(start).astimezone(ZoneInfo(time_zone)):%Y-%m}"


class CostRecord:
    """The record at ``place``: a folder, ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``."""

    def __init__(self, place: str) -> None:
        """RecordUnavailable if ``place`` cannot be one."""
        self._place = place.rstrip("/") or place
        self._files: RecordPlace = Bucket(place) if "://" in place else Folder(Path(place))

    async def write(self, rows: Sequence[CostRow]) -> None:
        """Write the rows, in one file for each budget and month. All rows of a part must come at once.

        What a part was before is taken out of the other month first, so that it never counts twice.
        When it returns, all are on record. RecordUnavailable if not all are: then some of the files may be there, and
        the same rows are to be written again, or the parts in a later version.
        """
        batches: dict[tuple[str, str], list[CostRow]] = defaultdict(list)
        firsts: dict[PartKey, CostRow] = {}
        for row in rows:
            batches[row.budget, month_of(row)].append(row)
            firsts.setdefault(PartKey(row.rental_uid, row.part), row)
        for row in firsts.values():
            nothing = replace(row, cost=ZERO, gpu_seconds=0, correction=False, cause=Cause.IDLE, payer=None)
            near = {_month(row.time_zone, after(row.start, moved)) for moved in (-_MOVES, _MOVES)}
            for month in near - {month_of(row)}:
                batches[row.budget, f"{_MOVED}{month}"].append(nothing)
        for (budget, folder), batch in sorted(batches.items(), key=lambda item: (_MOVED not in item[0][1], item[0])):
            content = encoded(batch)
            await asyncio.to_thread(self._files.write, f"{budget}/{folder}/{_digest(content)}{_SUFFIX}", content)

    def months(self) -> Mapping[str, Collection[str]]:
        """The months on record, ``2026-11``, by budget. RecordUnavailable if it cannot be read."""
        found = {budget: self._files.folders(budget) for budget in self._budgets()}
        return {
            budget: [month for month in months if _MONTH.fullmatch(month)]
            for budget, months in found.items()
            if any(map(_MONTH.fullmatch, months))
        }

    def read(self, months: Iterable[str], budgets: Iterable[str] | None = None) -> Iterator[CostRow]:
        """The rows of those months (``2026-11``), of all budgets or of those named, in no promised order.

        Of each part of a rental the highest version counts, once. Needs memory for the keys of one budget's month and
        for some files, not for the rows. RecordUnavailable if the place cannot be read, DamagedRecord for a file that
        is not as it was written.
        """
        wanted = sorted(set(months))
        for budget in sorted(set(self._budgets() if budgets is None else budgets)):
            for month in wanted:
                yield from self._rows(f"{budget}/{month}", f"{budget}/{_MOVED}{month}")

    def _budgets(self) -> Sequence[str]:
        return [name for name in self._files.folders("") if _BUDGET.fullmatch(name)]

    def _rows(self, *folders: str) -> Iterator[CostRow]:
        """The rows of a budget's month, in two looks: which version of a part counts is known after the first.

        What has moved to another month says so, but has no rows of this one.
        """
        names = [name for folder in folders for name in self._files.files(folder) if name.endswith(_SUFFIX)]
        counts: dict[PartKey, tuple[Version, str]] = {}
        kept: dict[str, bytes] = {}
        room = _KEPT_BYTES
        for name, content, digest in self._contents(names, kept):
            for _, part, version in self._parts(name, content):
                if version > counts.get(part, _NONE)[0]:
                    counts[part] = version, name
            if digest != _named(name):
                raise self._changed(name, content)
            if len(content) <= room:
                kept[name] = content
                room -= len(content)
        for name, content, _ in self._contents([name for name in names if not _has_moved(name)], kept):
            for number, line in enumerate(content.splitlines(), 1):
                try:
                    row = decoded(line)
                except UnreadableLine as error:
                    raise self._damaged(name, number, str(error)) from error
                if counts.get(PartKey(row.rental_uid, row.part)) == (Version.of(row), name) and not row.void:
                    yield row

    def _contents(self, names: Sequence[str], kept: Mapping[str, bytes]) -> Iterator[tuple[str, bytes, str]]:
        """The files with their contents and digests, in order; those that are not ``kept`` are fetched many at a time.

        Digests are made where files are fetched: a thread that makes one lets others go on, and would wait for them.
        """
        missing = [name for name in names if name not in kept]
        fetched = map(self._fetched, missing) if self._files.at_once == 1 else self._fetched_at_once(missing)
        for name in names:
            if name in kept:
                yield name, kept[name], _named(name)
            else:
                yield name, *next(fetched)

    def _fetched_at_once(self, names: Sequence[str]) -> Iterator[tuple[bytes, str]]:
        packets = iter([names[at : at + _PACKET] for at in range(0, len(names), _PACKET)])
        with ThreadPoolExecutor(self._files.at_once) as pool:
            coming = deque(pool.submit(self._packet, packet) for packet in islice(packets, self._files.at_once))
            while coming:
                yield from coming.popleft().result()
                coming.extend(pool.submit(self._packet, packet) for packet in islice(packets, 1))

    def _packet(self, names: Sequence[str]) -> list[tuple[bytes, str]]:
        return [self._fetched(name) for name in names]

    def _fetched(self, name: str) -> tuple[bytes, str]:
        content = self._files.read(name)
        return content, _digest(content)

    def _parts(self, name: str, content: bytes) -> Iterator[tuple[int, PartKey, Version]]:
        """The number of each line, its part, and the version of that."""
        for number, line in enumerate(content.splitlines(), 1):
            try:
                yield number, *part_of(line)
            except UnreadableLine as error:
                raise self._damaged(name, number, str(error)) from error

    def _changed(self, name: str, content: bytes) -> DamagedRecord:
        """The error for a file that is not what its name says: it names the first line that is none, or the last."""
        lines = content.splitlines()
        for number, line in enumerate(lines, 1):
            try:
                decoded(line)
            except UnreadableLine as error:
                return self._damaged(name, number, str(error))
        return self._damaged(name, len(lines), "up to it, something was changed or is missing")

    def _damaged(self, name: str, line: int, cause: str) -> DamagedRecord:
        return DamagedRecord(
            f"line {line} of {name} in the record of costs at {self._place} is not as it was written: {cause}; "
            "restore the file from a copy, or move it away, and what it has is missing"
        )


_NONE: Final = (Version(-1, 0), "")
"""The version of a part that was not seen."""


def _named(name: str) -> str:
    """The digest that the name of a file says."""
    return name.rpartition("/")[2].removesuffix(_SUFFIX)


def _has_moved(name: str) -> bool:
    """Whether a file says that its parts are in another month, and has no rows."""
    return name.split("/")[-2].startswith(_MOVED)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]
