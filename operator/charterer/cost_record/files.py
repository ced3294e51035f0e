"""The record of costs: what was spent, by whom and on what, in files that outlive rentals and jobs.

A file has rows of one budget and month: ``<budget>/<year-month>/<digest>.jsonl``, one JSON object a line, the month
being that of the rows in the budget's time zone. Its name is the digest (SHA-256, 32 hexadecimal digits) of its
content: a batch that is written twice is one file, and a file that was changed or cut off is found out.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from charterer.cost_record.bucket import Bucket
from charterer.cost_record.folder import Folder
from charterer.cost_record.json_lines import PartKey, UnreadableLine, decoded, encoded, parsed, part_of
from charterer.cost_record.places import RecordPlace, RecordUnavailable
from charterer.domain.period import period_bounds
from charterer.domain.spending.cost_row import CostRow
from charterer.domain.time import moment

_MONTH: Final = re.compile(r"\d{4}-(0[1-9]|1[0-2])")
_BUDGET: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
"""Names of GPUBudgets: a volume may have other folders, as lost+found."""
_SUFFIX: Final = ".jsonl"
_AT_ONCE: Final = 32
"""Files that are fetched at a time: a bucket takes tens of milliseconds to answer, whatever is asked."""
_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a month's files that are kept between the two looks at them; what is more is fetched twice."""


class DamagedRecord(RecordUnavailable):
    """A file of the record is not as it was written; the message names file and line."""


def month_of(row: CostRow) -> str:
    """The month that a row counts in, ``2026-11``: the period of its start, in the budget's time zone."""
    start = period_bounds(row.time_zone, row.start)[0]
    return f"{moment(start).astimezone(ZoneInfo(row.time_zone)):%Y-%m}"


class CostRecord:
    """The record at ``place``: a folder, ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``."""

    def __init__(self, place: str) -> None:
        """RecordUnavailable if ``place`` cannot be one."""
        self._place = place.rstrip("/") or place
        self._files: RecordPlace = Bucket(place) if "://" in place else Folder(Path(place))

    async def write(self, rows: Sequence[CostRow]) -> None:
        """Write the rows, in one file for each budget and month. All rows of a part must come at once.

        When it returns, all are on record. RecordUnavailable if not all are: then some of the files may be there, and
        the same rows are to be written again, or the parts in a later version.
        """
        batches: dict[tuple[str, str], list[CostRow]] = defaultdict(list)
        for row in rows:
            batches[row.budget, month_of(row)].append(row)
        for (budget, month), batch in sorted(batches.items()):
            content = encoded(batch)
            await asyncio.to_thread(self._files.write, f"{budget}/{month}/{_digest(content)}{_SUFFIX}", content)

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
                yield from self._rows(f"{budget}/{month}")

    def _budgets(self) -> Sequence[str]:
        return [name for name in self._files.folders("") if _BUDGET.fullmatch(name)]

    def _rows(self, folder: str) -> Iterator[CostRow]:
        """The rows of a budget's month, in two looks: which version of a part counts is known after the first."""
        names = [name for name in self._files.files(folder) if name.endswith(_SUFFIX)]
        counts: dict[PartKey, tuple[int, str]] = {}
        kept: dict[str, bytes] = {}
        room = _KEPT_BYTES
        for name, content in self._contents(names, kept):
            for line in self._lines(name, content):
                if line.version > counts.get(line.part, _NONE)[0]:
                    counts[line.part] = line.version, name
            if _digest(content) != name.rpartition("/")[2].removesuffix(_SUFFIX):
                raise self._damaged(
                    name, content.count(b"\n"), "here or before it, something was changed or is missing"
                )
            if len(content) <= room:
                kept[name] = content
                room -= len(content)
        for name, content in self._contents(names, kept):
            for line in self._lines(name, content):
                if counts[line.part] == (line.version, name):
                    try:
                        yield decoded(line.fields)
                    except UnreadableLine as error:
                        raise self._damaged(name, line.number, str(error)) from error

    def _contents(self, names: Sequence[str], kept: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """The files with their contents, in order; those that are not ``kept`` are fetched some at a time."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            coming: deque[Future[bytes]] = deque()
            missing = iter([name for name in names if name not in kept])
            for name in islice(missing, _AT_ONCE):
                coming.append(pool.submit(self._files.read, name))
            for name in names:
                if name in kept:
                    yield name, kept[name]
                    continue
                content = coming.popleft().result()
                coming.extend(pool.submit(self._files.read, following) for following in islice(missing, 1))
                yield name, content

    def _lines(self, name: str, content: bytes) -> Iterator[_Line]:
        for number, text in enumerate(content.splitlines(), 1):
            try:
                fields = parsed(text)
                yield _Line(number, *part_of(fields), fields)
            except UnreadableLine as error:
                raise self._damaged(name, number, str(error)) from error

    def _damaged(self, name: str, line: int, cause: str) -> DamagedRecord:
        return DamagedRecord(
            f"line {line} of {name} in the record of costs at {self._place} is not as it was written: {cause}; "
            "restore the file from a copy, or move it away, and what it has is missing"
        )


class _Line(NamedTuple):
    number: int
    part: PartKey
    version: int
    fields: Mapping[str, Any]


_NONE: Final = (-1, "")
"""The version of a part that was not seen."""


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]
