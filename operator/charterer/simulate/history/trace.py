"""Histories as CSV files: what ``charterer simulate --save`` writes, and published traces, by the names in the header.

Each row needs the time of submission (seconds, or a timestamp), the GPUs, and the seconds of training on them.
Everything else has a default: see ``COLUMNS`` and docs/simulator.md.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Final, Protocol, TypeVar

from charterer.domain.job import ResizePolicy, SpotPolicy
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Phase
from charterer.domain.time import instant
from charterer.simulate.history.curve_text import curve_text, typed_phases, with_type_first
from charterer.simulate.history.history import (
    History,
    PastJob,
    PastPool,
    covers,
    placeable_width,
    widest_point,
)
from charterer.simulate.history.published import ENDED, STARTED, Rows, delimiter_of, seconds
from charterer.simulate.model.cells import (
    HIGHEST,
    MOST_PER_NODE,
    count,
    finite,
    gpus_of_a_node,
    nodes,
    positive,
    price,
    span,
    whole,
)
from charterer.simulate.model.node_market import DEAREST, MOST_NODES, PoolModel
from charterer.simulate.model.workload import BadRow, check_unique

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("name", "job_id", "jobid", "job_name", "job"),
    "submitted": (
        *("submitted", "submitted_time", "submit_time", "submission_time", "submit", "creation_time", "timestamp"),
        "time",
    ),
    "gpus": (
        *("gpus", "gpu_num", "num_gpus", "num_gpu", "gpu_count", "num_replicas", "gpu_request", "plan_gpu"),
        *("alloctres", "reqtres"),
    ),
    "duration": ("duration", "duration_seconds", "run_time", "runtime", "elapsedraw", "elapsed"),
    "class": ("class", "application", "model"),
    **{
        field: (field,)
        for field in ("min_gpus", "max_gpus", "resize", "weight", "took", "curve", "pool", "gpu_type", "gpus_per_node")
    },
    **{
        field: (field,)
        for field in ("node_price", "start_seconds", "billing_minimum_seconds", "max_nodes", "capacity_type")
    },
    **{field: (field,) for field in ("restart_seconds", "gpu_types", "spot", "slices")},
}
"""The column names of each field in files in circulation (upper or lower case), the preferred one first."""

_NEEDED = ("submitted", "gpus", "duration")
_COUNT = f"whole number from 1 to {HIGHEST:,.0f}"
_SECONDS = f"number of seconds above 0, up to {HIGHEST:,.0f}, and no time like 1-06:00:00"
_PRICE = f"price of a node: dollars an hour like 19.80, up to {DEAREST.decimal()}"
_SPAN = f"number of seconds from 0 to {HIGHEST:,.0f}"

V = TypeVar("V")
Curves = Mapping[str, tuple[Phase, ...]]


class _Sink(Protocol):
    def write(self, text: str, /) -> object: ...


# --- writing ----------------------------------------------------------------------------------------------------------


def write_history(history: History, to: _Sink) -> None:
    """Write a row for each job by time of submission; ``read_history`` reads back the same history, but for pools in
    which no job ran.
    """
    writer = csv.writer(to, lineterminator="\n")
    writer.writerow(COLUMNS)
    rows = [(job.submitted, job.name, _cells(job, past)) for past in history.pools for job in past.jobs]
    writer.writerows(cells for _, _, cells in sorted(rows))


def _cells(job: PastJob, past: PastPool) -> list[str]:
    pool, phases = past.pool, past.curves.get(job.kind, ())
    return [
        job.name,
        repr(job.submitted),
        str(job.gpus),
        repr(job.seconds),
        job.kind,
        str(job.least),
        str(job.most),
        job.resize.value,
        repr(job.weight),
        "" if job.took is None else repr(job.took),
        curve_text(phases),
        pool.name,
        pool.gpu_type,
        str(pool.gpus_per_node),
        pool.hourly.decimal(),
        repr(pool.start_seconds),
        str(pool.billing_minimum_seconds),
        str(pool.max_nodes),
        pool.capacity_type.value,
        repr(past.restart_seconds),
        " ".join(job.gpu_types),
        job.spot.value,
        " ".join(job.slices),
    ]


# --- reading ----------------------------------------------------------------------------------------------------------


def is_trace(header: str) -> bool:
    """Whether the header of a file has a column for the jobs' training time."""
    names = _names(next(csv.reader([header], delimiter=delimiter_of(header)), []))
    return "duration" in _mapping(names) or _from_start_to_end(names) is not None


def read_history(
    lines: Iterable[str],
    file: str,
    pools: Sequence[PoolModel],
    restart_seconds: float,
    curves: Curves | None = None,
    *,
    on_sale: bool = False,
) -> History:
    """The history in a file. BadRow for the first row that cannot be used.

    ``pools``: a row that names one has its values by default, any other row those of the first. ``on_sale``: whether
    those in which no job ran are on sale, too.
    ``restart_seconds``: where neither row nor pool says. ``curves``: by class, for rows without one; a curve without a
    GPU type holds for the type of the job's pool.
    """
    lines = iter(lines)
    header = next(lines, "")
    reader = csv.reader(chain([header], lines), delimiter=delimiter_of(header))
    names = _names(next(reader, []))
    columns = _mapping(names)
    span_of_time = None if "duration" in columns else _from_start_to_end(names)
    if span_of_time is not None:
        columns |= dict(zip(("started", "ended"), span_of_time, strict=True))
    missing = [f"{field} (or {', '.join(COLUMNS[field][1:])})" for field in _NEEDED if field not in columns]
    if span_of_time is not None:
        missing = [each for each in missing if not each.startswith("duration")]
    if missing:
        raise BadRow(f"{file}: no column {'; '.join(missing)}: its first line must name {', '.join(_NEEDED)}")
    check_unique(names, [names[at] for at in columns.values()], file)
    published = Rows(names, columns)
    rows = [
        _Row(f"{file} line {reader.line_num}", usable)
        for cells in reader
        if any(cells) and (usable := published.usable(cells)) is not None
    ]
    gaps = tuple(published.gaps())
    if not rows:
        raise BadRow(f"{file}: has no row: add at least one job. {' '.join(gaps)}".strip())
    history = replace(_HistoryReader(pools, restart_seconds, curves or {}).history(rows), gaps=gaps)
    if not on_sale:
        return history
    used = {past.pool.name for past in history.pools}
    return replace(history, others=tuple(pool for pool in pools if pool.name not in used))


@dataclass(frozen=True, slots=True)
class _Row:
    """``where`` names file and line; ``cells``: the text of each field, empty where the row has none."""

    where: str
    cells: Mapping[str, str]

    def get(self, field: str, parse: Callable[[str], V], what: str, default: V) -> V:
        """The field's value, ``default`` for an empty cell. BadRow: the text is no ``what``."""
        return self.needed(field, parse, what) if self.cells.get(field) else default

    def needed(self, field: str, parse: Callable[[str], V], what: str) -> V:
        """The value of a field without a default. BadRow."""
        try:
            return parse(self.cells.get(field, ""))
        except BadRow as fault:
            raise BadRow(f"{self.where}: {fault}") from None
        except (ValueError, OverflowError):
            raise self.bad(field, f"is no {what}: correct it, or leave the row out") from None

    def bad(self, field: str, fault: str) -> BadRow:
        """The error about one field of the row."""
        return BadRow(f"{self.where}: {field} {self.cells.get(field, '')!r} {fault}")


class _HistoryReader:
    """The pools and curves of the rows read so far; rows must agree about a pool, and about a class's curve on it."""

    def __init__(self, pools: Sequence[PoolModel], restart_seconds: float, curves: Curves) -> None:
        self._default, self._restart_seconds, self._curves = pools[0], restart_seconds, curves
        self._by_name = {pool.name: pool for pool in pools}
        self._pools: dict[str, tuple[PoolModel, float, str]] = {}
        self._curves_seen: dict[tuple[str, str], tuple[tuple[Phase, ...], str]] = {}
        self._job_names: set[str] = set()

    def history(self, rows: Sequence[_Row]) -> History:
        moments = [row.needed("submitted", _moment, "time: seconds, or like 2026-01-31T12:00:00Z") for row in rows]
        first, last = (moments.index(end(moments)) for end in (min, max))
        if moments[last] - moments[first] > HIGHEST:
            raise rows[last].bad("submitted", f"is more than {HIGHEST:,.0f} s after {rows[first].where}: correct one")
        jobs: dict[str, list[PastJob]] = {}
        for number, (row, moment) in enumerate(zip(rows, moments, strict=True), start=1):
            pool = self._pool_of(row)
            jobs.setdefault(pool.name, []).append(self._job(row, number, moment - moments[first], pool))
        return History(tuple(self._past_pool(name, of_pool) for name, of_pool in sorted(jobs.items())))

    def _past_pool(self, name: str, jobs: list[PastJob]) -> PastPool:
        pool, restart_seconds, _ = self._pools[name]
        curves = {kind: phases for (of, kind), (phases, _) in self._curves_seen.items() if of == name}
        return PastPool(pool, tuple(sorted(jobs, key=lambda job: (job.submitted, job.name))), curves, restart_seconds)

    def _pool_of(self, row: _Row) -> PoolModel:
        name = row.cells.get("pool") or self._default.name
        default = self._by_name.get(name, self._default)
        capacity_type = row.get(
            "capacity_type", CapacityType, f"one of {', '.join(CapacityType)}", default.capacity_type
        )
        if capacity_type is not default.capacity_type and not row.cells.get("node_price"):
            raise row.bad("capacity_type", f"has no node_price: give the {capacity_type} price of a node of {name!r}")
        pool = replace(
            default,
            name=name,
            gpus_per_node=row.get(
                "gpus_per_node", gpus_of_a_node, f"whole number from 1 to {MOST_PER_NODE}", default.gpus_per_node
            ),
            hourly=row.get(
                "node_price",
                price,
                _PRICE,
                default.hourly,
            ),
            gpu_type=row.cells.get("gpu_type") or default.gpu_type,
            start_seconds=row.get("start_seconds", span, _SPAN, default.start_seconds),
            max_nodes=row.get("max_nodes", nodes, f"whole number from 1 to {MOST_NODES:,}", default.max_nodes),
            billing_minimum_seconds=row.get("billing_minimum_seconds", whole, _SPAN, default.billing_minimum_seconds),
            capacity_type=capacity_type,
        )
        usual = self._restart_seconds if pool.restart_seconds is None else pool.restart_seconds
        restart_seconds = row.get("restart_seconds", span, _SPAN, usual)
        first, restarts, where = self._pools.setdefault(name, (pool, restart_seconds, row.where))
        if (first, restarts) != (pool, restart_seconds):
            raise row.bad("pool", f"is described otherwise than on {where}: a pool is one thing; give it another name")
        return pool

    def _job(self, row: _Row, number: int, submitted: float, pool: PoolModel) -> PastJob:
        name = row.cells.get("name") or f"job-{number}"
        if name in self._job_names:
            raise BadRow(f"{row.where}: name {name!r} occurs twice: give it another")
        self._job_names.add(name)
        gpus = placeable_width(row.needed("gpus", count, _COUNT), pool.gpus_per_node)
        if gpus > pool.max_nodes * pool.gpus_per_node:
            has = f"{pool.max_nodes} nodes of {pool.gpus_per_node} GPUs"
            raise row.bad(
                "gpus", f"is more than pool {pool.name!r} has ({has}): give it more nodes, or leave the row out"
            )
        kind = row.cells.get("class", "")
        phases = self._curve(row, kind, gpus, pool)
        return PastJob(
            name=name,
            submitted=submitted,
            gpus=gpus,
            seconds=self._seconds(row),
            kind=kind,
            least=row.get("min_gpus", count, _COUNT, 1),
            most=row.get("max_gpus", count, _COUNT, widest_point(phases) if phases else gpus),
            resize=row.get("resize", ResizePolicy, f"one of {', '.join(ResizePolicy)}", ResizePolicy.NEVER),
            weight=row.get("weight", positive, f"number above 0, up to {HIGHEST:,.0f}", 1.0),
            took=row.get("took", positive, _SECONDS, None),
            gpu_types=tuple(row.cells.get("gpu_types", "").split()),
            spot=row.get("spot", SpotPolicy, f"one of {', '.join(SpotPolicy)}", SpotPolicy.NEVER),
            slices=tuple(row.cells.get("slices", "").split()),
        )

    @staticmethod
    def _seconds(row: _Row) -> float:
        if "started" not in row.cells:
            return row.needed("duration", _duration, _SECONDS)
        began, ended = (row.needed(field, _moment, "time, like 2026-01-31T12:00:00Z") for field in ("started", "ended"))
        if not 0.0 < ended - began <= HIGHEST:
            raise row.bad("ended", f"is not after {row.cells['started']!r}: correct it, or leave the row out")
        return ended - began

    def _curve(self, row: _Row, kind: str, gpus: int, pool: PoolModel) -> tuple[Phase, ...]:
        default = with_type_first(self._curves.get(kind, ()), pool.gpu_type)
        what = "curve: write throughput by GPUs, rising, like 1:10 2:19 4:36"
        phases = row.get("curve", lambda text: typed_phases(text, pool.gpu_type), what, default)
        if not kind and phases:
            raise row.bad("class", "is empty though the row has a curve: name the class that has it")
        if not phases:
            return ()
        previous, where = self._curves_seen.setdefault((pool.name, kind), (phases, row.where))
        if previous != phases:
            raise row.bad("curve", f"is not that of class {kind!r} on {where}: a class has one; name another class")
        if not covers(phases, gpus):
            raise row.bad("gpus", f"is outside the curve of class {kind!r}: extend the curve, or leave the class empty")
        return phases


def _names(header: Sequence[str]) -> Sequence[str]:
    return [name.strip().lower() for name in header]


def _mapping(names: Sequence[str]) -> dict[str, int]:
    """The column number of each field; of several candidates the one whose name is earlier in ``COLUMNS``."""
    at = {name: number for number, name in enumerate(names)}
    named = {field: next((name for name in known if name in at), None) for field, known in COLUMNS.items()}
    return {field: at[name] for field, name in named.items() if name is not None}


def _from_start_to_end(names: Sequence[str]) -> tuple[int, int] | None:
    """The columns with the times between which jobs ran, if there are both."""
    found = [next((names.index(each) for each in known if each in names), None) for known in (STARTED, ENDED)]
    start, end = found
    return None if start is None or end is None else (start, end)


def _duration(text: str) -> float:
    return positive(repr(seconds(text)))


def _moment(text: str) -> float:
    """Seconds since any epoch; a timestamp without a zone is UTC."""
    try:
        return finite(text)
    except ValueError:
        stamp = datetime.fromisoformat(text)
    return instant(stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)) / 1e6
