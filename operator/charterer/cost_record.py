"""The record of costs: files that outlive the cluster and say who spent how much on what."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import astuple, replace
from datetime import timedelta
from errno import EACCES, EDQUOT, EINVAL, EIO, ELOOP, ENOENT, ENOSPC, ENOTDIR, ENOTSUP, EPERM, EROFS
from functools import lru_cache
from hashlib import sha256
from io import FileIO
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic_core import from_json

from charterer.domain.budget import Cause, JobTime
from charterer.domain.cost_row import BilledMachine, CostRow, Payer
from charterer.domain.money import ZERO, Money, total
from charterer.domain.time import Instant, after, format_instant, moment, month_bounds, parse_instant

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig


# The storage of a record of costs: its operations and errors.


class RecordUnavailable(Exception):
    """The record cannot be written or read. The message is a sentence with location, cause and remedy."""


MOST_BYTES: Final = 256 * 1024 * 1024
"""Maximum bytes of a file that is read. The operator writes far smaller files."""


def refuse_large(name: str, size: int) -> None:
    """Raise RecordUnavailable if a file is too large to be part of the record."""
    if size > MOST_BYTES:
        raise RecordUnavailable(
            f"{name} in the record of costs has {size:,} bytes, which is no file of it: move it away"
        )


class RecordPlace(Protocol):
    """Files at a location, by names with slashes. All methods block, and raise RecordUnavailable.

    ``at_once``: the number of threads that may read at the same time.
    """

    at_once: int

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically. If the file exists already, its content is the same."""

    def read(self, name: str) -> bytes:
        """The content of a file."""

    def folders(self, name: str) -> Sequence[str]:
        """The names of the folders in a folder, or none if the folder does not exist. An empty name means the location
        itself.
        """

    def files(self, name: str) -> Sequence[str]:
        """The names of the files in a folder, each with the folder's name. None are returned if the folder does not
        exist.
        """


# A record of costs in a bucket of S3, Google Cloud Storage or Azure Blob Storage, through obstore.
#
# Credentials, region and endpoint come from the sources that the clouds' own tools use: environment variables, workload
# identity, and the machine's metadata.


_SCHEMES: Final = {"s3": "S3", "gs": "Google Cloud Storage", "az": "Azure Blob Storage"}
_URL: Final = re.compile(r"(s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]*(/[^?#]*)?")
_CLIENT: Final[ClientConfig] = {
    "timeout": timedelta(seconds=20),
    "connect_timeout": timedelta(seconds=5),
    "allow_http": True,  # Used only if the endpoint that a person sets is http.
}
_RETRIES: Final[RetryConfig] = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
_STATUS: Final = re.compile(r"status code: (\d{3})")
_METADATA: Final = "169.254.169.254"
"""The metadata service that gives a cloud machine's credentials. It is used if there is no other source."""
_MESSAGE: Final = re.compile(r"<Message>(.*?)</Message>|\"message\": *\"(.*?)\"", re.DOTALL)
_LAYERS: Final = re.compile(r"^Generic [^:]*error: ")


class Bucket:
    """The objects below a URL such as ``s3://bucket/prefix``. Each operation takes tens of milliseconds."""

    at_once = 32

    def __init__(self, url: str) -> None:
        """Raise RecordUnavailable if the URL has another form, or if obstore is not installed."""
        if _URL.fullmatch(url) is None:
            raise RecordUnavailable(
                f"{url} is no place for a record of costs: write a path, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or "
                "az://CONTAINER/PREFIX"
            )
        try:
            from obstore.store import from_url
        except ImportError as error:
            raise RecordUnavailable(
                f"the record of costs at {url} needs obstore: pip install '.[records]' in a checkout"
            ) from error
        self._url = url.rstrip("/")
        self._cloud = _SCHEMES[url.partition("://")[0]]
        with self._explained("be opened"):
            self._store: ObjectStore = from_url(self._url, client_options=_CLIENT, retry_config=_RETRIES)

    def write(self, name: str, content: bytes) -> None:
        """Write as ``RecordPlace`` says. The write needs no right to replace objects."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with self._explained("be written"):
            try:
                obstore.put(self._store, name, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return

    def read(self, name: str) -> bytes:
        import obstore

        with self._explained("be read"):
            found = obstore.get(self._store, name)
            refuse_large(name, found.meta["size"])
            return bytes(found.bytes())

    def folders(self, name: str) -> Sequence[str]:
        import obstore

        with self._explained("be read"):
            prefixes = obstore.list_with_delimiter(self._store, name or None)["common_prefixes"]
            return [prefix.rstrip("/").rpartition("/")[2] for prefix in sorted(prefixes)]

    def files(self, name: str) -> Sequence[str]:
        import obstore

        with self._explained("be read"):
            stream = obstore.list(self._store, name, chunk_size=1000)
            return sorted(found["path"] for chunk in stream for found in chunk)

    @contextmanager
    def _explained(self, done: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError, ValueError) as error:
            cause, advice = _cause(str(error)), self._advice(str(error))
            message = f"the record of costs at {self._url} cannot {done}: {cause}; {advice}"
            raise RecordUnavailable(message) from error

    def _advice(self, text: str) -> str:
        status = _STATUS.search(text)
        match "" if status is None else status[1]:
            case "401":
                return f"give this process credentials for {self._cloud}"
            case "403":
                return "give this process the rights to list, read and create objects there"
            case "404":
                return "make the bucket, or correct its name"
            case "301" | "307" | "400" if self._url.startswith("s3:"):
                return "set AWS_REGION to the region of the bucket"
            case "" if "redential" in text or _METADATA in text:
                return f"give this process credentials for {self._cloud}"
        return f"check the address, the network and {self._cloud}"


def _cause(text: str) -> str:
    """The vendor's own message in an error of obstore. If there is none, the error's first paragraph without its
    prefixes.
    """
    if (message := _MESSAGE.search(text)) is not None:
        return " ".join((message[1] or message[2]).split()).rstrip(".")
    first = " ".join(text.partition("\n\nDebug source")[0].split())
    return _LAYERS.sub("", first.rpartition(" - ")[2])[:300].rstrip(".")


# A record of costs in a folder of a disk or volume.


_ADVICE: Final = {
    ENOSPC: "make room there, or enlarge the volume",
    EDQUOT: "make room there, or raise the quota",
    EACCES: "give the user of this process the right to it",
    EPERM: "give the user of this process the right to it",
    EROFS: "mount the volume for writing",
    ENOENT: "mount the volume, or make the folder",
    ENOTDIR: "name a folder",
    EIO: "look at the disk",
    ELOOP: "move the link away that leads to itself",
}


class Folder:
    """A folder of a disk or volume. The folder must exist. If it were created, files would be lost while the volume is
    not mounted.

    ``at_once`` is 1, because a disk reads files faster than Python decodes them. More threads would only wait for each
    other.
    """

    at_once = 1

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, name: str, content: bytes) -> None:
        """Write as ``RecordPlace`` says. The file then survives a power failure, unless the disk itself loses data."""
        file = self._root / name
        with self._explained("be written"):
            self._root.stat()
            for folder in (file.parent.parent, file.parent):
                if not folder.is_dir():
                    folder.mkdir(exist_ok=True)
                    _sync(folder.parent)
            partial = file.parent / f".{token_hex(8)}.partial"
            try:
                with partial.open("xb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())
                partial.replace(file)
            except BaseException:
                with suppress(OSError):
                    partial.unlink()
                raise
            _sync(file.parent)

    def read(self, name: str) -> bytes:
        with self._explained("be read"), FileIO(f"{self._root}/{name}") as stream:
            refuse_large(name, os.fstat(stream.fileno()).st_size)
            return stream.readall()

    def folders(self, name: str) -> Sequence[str]:
        with self._explained("be read"):
            return [entry.name for entry in self._entries(name) if entry.is_dir()]

    def files(self, name: str) -> Sequence[str]:
        with self._explained("be read"):
            return [f"{name}/{entry.name}" for entry in self._entries(name) if entry.is_file()]

    def _entries(self, name: str) -> Sequence[os.DirEntry[str]]:
        with self._explained("be read"):
            self._root.stat()
            try:
                with os.scandir(self._root / name) as entries:
                    return sorted(entries, key=lambda entry: entry.name)
            except (FileNotFoundError, NotADirectoryError):
                if name:
                    return []
                raise

    @contextmanager
    def _explained(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = "" if error.filename in (None, str(self._root)) else f" ({error.filename})"
            advice = _ADVICE.get(error.errno or 0, "look at the volume")
            cause = error.strerror or str(error)
            message = f"the record of costs in {self._root} cannot {done}: {cause}{where}; {advice}"
            raise RecordUnavailable(message) from error


def _sync(folder: Path) -> None:
    """Flush a folder's file names to the disk, if the file system supports it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (EINVAL, ENOTSUP):
            raise
    finally:
        os.close(handle)


# Encoding a row of the record as one line of JSON, and decoding the line.
#
# As in the API, money is a decimal string and an instant is an RFC 3339 timestamp, so that neither is ever a float.


FORMAT: Final = 1
"""The number of the lines' format. If an older reader would misread a changed format, the number changes."""


_PART: Final = re.compile(
    rb'\{"format": %d, "rentalUid": "([^"\\\\]*)", "part": (\d{1,15}), "version": (\d{1,15}), "edition": (\d{1,15}), '
    % FORMAT
)
"""The pattern for the beginning of each line. It gives the part without decoding the whole line."""


class UnreadableLine(Exception):
    """A text that is not a row. The message says why."""


class PartKey(NamedTuple):
    """A part of a rental's cost. Several versions of a part may be on record, but only one counts."""

    rental_uid: str
    part: int


def encoded(rows: Iterable[CostRow]) -> bytes:
    """The content of a file with these rows, which does not depend on the order of the rows."""
    return "".join(sorted(f"{json.dumps(_plain(row), ensure_ascii=False)}\n" for row in rows)).encode()


def _plain(row: CostRow) -> Mapping[str, object]:
    machine, payer = row.machine, row.payer
    known = {kind.value: amount.decimal() for kind, amount in sorted(row.went_to.items())}
    return {
        "format": FORMAT,
        "rentalUid": row.rental_uid,
        "part": row.part,
        "version": row.version,
        "edition": row.edition,
        "start": format_instant(row.start),
        "end": format_instant(row.end),
        "cause": row.cause.value,
        "cost": row.cost.decimal(),
        "gpuSeconds": row.gpu_seconds,
        "hourly": row.hourly.decimal(),
        "budget": row.budget,
        "budgetUid": row.budget_uid,
        "timeZone": row.time_zone,
        "pool": row.pool,
        "rental": row.rental,
        "machine": dict(zip(_MACHINE, astuple(machine), strict=True)),
        "payer": payer
        and {
            "namespace": payer.namespace,
            "job": payer.job,
            "jobUid": payer.job_uid,
            "run": payer.run,
            "class": payer.job_class,
            "user": payer.user,
            "labels": dict(sorted(payer.labels.items())),
        },
        "correction": row.correction,
        **({"wentTo": known} if known else {}),
    }


class Version(NamedTuple):
    """The version of a written part. Of several versions, only the highest counts."""

    version: int
    edition: int

    @classmethod
    def of(cls, row: CostRow) -> Version:
        return cls(row.version, row.edition)


def part_of(line: bytes) -> tuple[PartKey, Version]:
    """The part of a line and its version. Raises UnreadableLine if the line is not in this format."""
    found = _PART.match(line)
    if found is None:
        raise UnreadableLine(_complaint(line))
    try:
        rental_uid = found[1].decode()
    except UnicodeDecodeError as error:
        raise UnreadableLine(f"it is no text in UTF-8 ({error})") from error
    return PartKey(rental_uid, int(found[2])), Version(int(found[3]), int(found[4]))


def _complaint(line: bytes) -> str:
    """Why a line is not in this format."""
    try:
        fields = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        return f"it is no JSON ({error})"
    if not isinstance(fields, dict):
        return "it is no JSON object"
    if fields.get("format") != FORMAT:
        return f"its format is {fields.get('format')!r}, and this version of Charterer reads {FORMAT}"
    return "it does not begin with format, rentalUid, part, version and edition"


def decoded(line: bytes) -> CostRow:
    """The row of a line. Raises UnreadableLine, which says what is missing or wrong."""
    try:
        fields = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        raise UnreadableLine(f"it is no JSON ({error})") from error
    try:
        return _row(fields)
    except KeyError as error:
        raise UnreadableLine(f"{error.args[0]} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise UnreadableLine(str(error)) from error


def _row(fields: Mapping[str, Any]) -> CostRow:
    machine, payer = fields["machine"], fields["payer"]
    _check(fields, str, ("budget", "budgetUid", "rental", "rentalUid", "pool"))
    _check(fields, int, ("gpuSeconds", "part", "version", "edition"))
    _check(fields, bool, ("correction",))
    cost, known = Money.parse(fields["cost"]), fields.get("wentTo", {})
    went_to = {JobTime(kind): Money.parse(amount) for kind, amount in known.items()}
    if went_to and (min(went_to.values()) < ZERO or total(went_to.values()) > max(cost, ZERO)):
        raise ValueError(f"wentTo is {known!r:.60}, which is no part of a cost of {fields['cost']}")
    return CostRow(
        budget=fields["budget"],
        budget_uid=fields["budgetUid"],
        time_zone=_zone(fields["timeZone"]),
        rental=fields["rental"],
        rental_uid=fields["rentalUid"],
        pool=fields["pool"],
        machine=_machine(*[machine[name] for name in _MACHINE]),
        start=_instant(fields["start"]),
        end=_instant(fields["end"]),
        cause=Cause(fields["cause"]),
        payer=None if payer is None else _payer(payer),
        gpu_seconds=fields["gpuSeconds"],
        hourly=_price(fields["hourly"]),
        cost=cost,
        correction=fields["correction"],
        part=fields["part"],
        version=fields["version"],
        edition=fields["edition"],
        went_to=went_to,
    )


_MACHINE: Final = ("cloud", "account", "region", "zone", "instance", "instanceType", "gpuType", "gpus", "capacityType")
"""The JSON fields of a machine, in the order of ``BilledMachine``."""


def _check(fields: Mapping[str, Any], kind: type, names: Iterable[str]) -> None:
    """Raise TypeError for a field of another type, and ValueError for a number that is too large."""
    for name in names:
        if type(fields[name]) is not kind:
            raise TypeError(f"{name} is {fields[name]!r:.60}, which is no {_KINDS[kind]}")
        if kind is int and abs(fields[name]) >= _TOO_LARGE:
            raise ValueError(f"{name} is not below {_TOO_LARGE:,}")


_TOO_LARGE: Final = 10**15
"""Limit of the counts in a row: GPU-seconds of a million GPUs in thirty years."""
_KINDS: Final[Mapping[type, str]] = {str: "text", int: "whole number", bool: "true or false", dict: "object"}


@lru_cache(maxsize=1024)
def _machine(*values: Any) -> BilledMachine:
    fields = dict(zip(_MACHINE, values, strict=True))
    _check(fields, int, ("gpus",))
    _check(fields, str, [name for name in _MACHINE if name != "gpus"])
    return BilledMachine(*values)


@lru_cache(maxsize=1024)
def _zone(name: Any) -> str:
    """The checked name of a time zone. Raises TypeError for any other text, such as a path to another file."""
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, OSError, ValueError, TypeError) as error:
        raise TypeError(f"timeZone is {name!r:.60}, which is no time zone") from error


_instant: Final = lru_cache(maxsize=1024)(parse_instant)
_price: Final = lru_cache(maxsize=1024)(Money.parse)
"""Caches. Adjacent rows often have the same values, and without caches parsing would take half of a row's time."""


def _payer(fields: Mapping[str, Any]) -> Payer:
    _check(fields, str, ("namespace", "job", "jobUid", "class", "user"))
    _check(fields, int, ("run",))
    _check(fields, dict, ("labels",))
    _check(fields["labels"], str, fields["labels"])
    return Payer(
        namespace=fields["namespace"],
        job=fields["job"],
        job_uid=fields["jobUid"],
        run=fields["run"],
        job_class=fields["class"],
        user=fields["user"],
        labels=fields["labels"],
    )


# The files of the record, which outlive rentals and jobs.
#
# A file has rows of one budget and month: ``<budget>/<year-month>/<digest>.jsonl``, one JSON object per line. The month
# is that of the rows in the budget's time zone. The name is the digest (SHA-256, 32 hexadecimal digits) of the content.
# So writing a batch twice makes one file, and a changed or truncated file is detected.
#
# When a part is written again, it may move to the month before or after. Causes are a change of the budget's time zone,
# and a cloud that reports another beginning. So near the end of a month a row is also written for the other month:
# ``<budget>/moved-<year-month>`` has a row without cost for each part that is not in that month now. The older versions
# of the part in that month then no longer count.


_MONTH: Final = re.compile(r"\d{4}-(0[1-9]|1[0-2])")
_BUDGET: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
"""Names of GPUBudgets. A volume may have other folders, such as lost+found."""
_SUFFIX: Final = ".jsonl"
_MOVED: Final = "moved-"
_REPORTS: Final = "_reports"
"""The folder of report pages and marks of sent reports. No GPUBudget can have that name."""
_PACKET: Final = 16
"""Files that a thread reads in one task, because passing a result between threads costs as much as reading some files.
"""
_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a month's files that are stored between the two passes over the files. Further files are fetched twice."""


_MOVES: Final = 50 * 3_600.0
"""Seconds by which a part may move. Time zones differ by up to 26 hours, and a part's first row begins within a day of
the part.
"""


class DamagedRecord(RecordUnavailable):
    """A file of the record was changed or damaged. The message names file and line."""


def month_of(row: CostRow) -> str:
    """The month in which a row counts, such as ``2026-11``: the month of its start in the budget's time zone."""
    return _month(row.time_zone, row.start)


def _month(time_zone: str, at: Instant) -> str:
    start = month_bounds(time_zone, at)[0]
    return f"{moment(start).astimezone(ZoneInfo(time_zone)):%Y-%m}"


class CostRecord:
    """The record at ``place``: a folder, ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``."""

    def __init__(self, place: str) -> None:
        """Raise RecordUnavailable if ``place`` is no valid location."""
        self._place = place.rstrip("/") or place
        self._files: RecordPlace = Bucket(place) if "://" in place else Folder(Path(place))

    async def write(self, rows: Sequence[CostRow]) -> None:
        """Write the rows, in one file for each budget and month. All rows of a part must be in the same call.

        The rows that move a part out of another month are written first, so that no part ever counts twice. All rows
        are on record when the method returns. Raises RecordUnavailable if some rows are not on record. Some files may
        exist even then. These rows, or later versions of their parts, must be written again.
        """
        batches: dict[tuple[str, str], list[CostRow]] = defaultdict(list)
        firsts: dict[PartKey, CostRow] = {}
        for row in rows:
            batches[row.budget, month_of(row)].append(row)
            firsts.setdefault(PartKey(row.rental_uid, row.part), row)
        for row in firsts.values():
            nothing = replace(row, cost=ZERO, gpu_seconds=0, correction=False, cause=Cause.IDLE, payer=None, went_to={})
            near = {_month(row.time_zone, after(row.start, moved)) for moved in (-_MOVES, _MOVES)}
            for month in near - {month_of(row)}:
                batches[row.budget, f"{_MOVED}{month}"].append(nothing)
        for (budget, folder), batch in sorted(batches.items(), key=lambda item: (_MOVED not in item[0][1], item[0])):
            content = encoded(batch)
            await asyncio.to_thread(self._files.write, f"{budget}/{folder}/{_digest(content)}{_SUFFIX}", content)

    def months(self) -> Mapping[str, Collection[str]]:
        """The recorded months, such as ``2026-11``, by budget. Raises RecordUnavailable if the record cannot be
        read.
        """
        found = {budget: self._files.folders(budget) for budget in self._budgets()}
        return {
            budget: [month for month in months if _MONTH.fullmatch(month)]
            for budget, months in found.items()
            if any(map(_MONTH.fullmatch, months))
        }

    def read(self, months: Iterable[str], budgets: Iterable[str] | None = None) -> Iterator[CostRow]:
        """The rows of these months (such as ``2026-11``) of all or the named budgets, in no particular order.

        If the record has several versions of a part of a rental, only the highest version is returned. Memory is needed
        for the keys of one budget's month and for some files, but not for all rows. Raises RecordUnavailable if the
        record cannot be read, and DamagedRecord for a damaged file.
        """
        wanted = sorted(set(months))
        for budget in sorted(set(self._budgets() if budgets is None else budgets)):
            for month in wanted:
                yield from self._rows(f"{budget}/{month}", f"{budget}/{_MOVED}{month}")

    def report_files(self, budget: str) -> frozenset[str]:
        """The names of the pages and marks about a budget. Raises RecordUnavailable if the folder cannot be read."""
        names = self._files.files(f"{_REPORTS}/{budget}")
        return frozenset([name.rpartition("/")[2] for name in names])

    def write_report(self, budget: str, name: str, content: bytes) -> None:
        """Write a page or a mark about a budget. Raises RecordUnavailable if it cannot be written."""
        self._files.write(f"{_REPORTS}/{budget}/{name}", content)

    def _budgets(self) -> Sequence[str]:
        return [name for name in self._files.folders("") if _BUDGET.fullmatch(name)]

    def _rows(self, *folders: str) -> Iterator[CostRow]:
        """The rows of a budget's month, in two passes over the files. The first pass finds out which version of a part
        counts.

        Files about parts that moved to another month have versions but no rows of this month.
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
        """The files with their contents and digests, in order. Files that are not ``kept`` are fetched many at a time.

        Digests are computed in the fetching threads. In the main thread, hashing would release the interpreter lock and
        then wait for it.
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
        """The number of each line, its part, and its version."""
        for number, line in enumerate(content.splitlines(), 1):
            try:
                yield number, *part_of(line)
            except UnreadableLine as error:
                raise self._damaged(name, number, str(error)) from error

    def _changed(self, name: str, content: bytes) -> DamagedRecord:
        """The error for a file whose name is not its digest. The error names the first unreadable line, or if all lines
        can be read, the last line.
        """
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
"""The version of a part that no file has shown yet. It is lower than any other version."""


def _named(name: str) -> str:
    """The digest in the name of a file."""
    return name.rpartition("/")[2].removesuffix(_SUFFIX)


def _has_moved(name: str) -> bool:
    """Whether a file only says that its parts are now in another month."""
    return name.split("/")[-2].startswith(_MOVED)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]
