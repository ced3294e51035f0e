"""Histories as CSV files: those of ``charterer simulate --save``, and published traces, known by their column names.

Each row needs the time of submission (seconds, or a timestamp), the GPUs, and the seconds of training on these GPUs.
All other columns have defaults: see ``COLUMNS`` and docs/simulator.md.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, pairwise
from math import ceil
from typing import Final, Protocol, TypeVar

from charterer.domain.job import ResizePolicy, SpotPolicy
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Phase, SpeedCurve, ThroughputTable
from charterer.domain.time import instant
from charterer.sentences import count, names
from charterer.tools.simulator.history.history import (
    History,
    PastJob,
    PastPool,
    covers,
    joined_curves,
    placeable_width,
    widest_point,
)
from charterer.tools.simulator.model.node_market import DEAREST, MOST_NODES, PoolModel
from charterer.tools.simulator.model.pools_file import (
    HIGHEST,
    MOST_PER_NODE,
    finite,
    gpus_of_a_node,
    nodes,
    positive,
    price,
    span,
    whole,
    whole_number,
)
from charterer.tools.simulator.model.workload import BadRow, check_unique, check_units

# Curves as text in a cell of a history: throughput by GPU type, phase and number of GPUs.


def curve_text(phases: Sequence[Phase]) -> str:
    """The curves as text. The first GPU type has no name in the text. Each other type that has a table in all phases
    follows with its name.
    """
    tables: dict[str, list[str]] = {}
    for phase in phases:
        for curve in phase.curves:
            assert isinstance(curve.form, ThroughputTable)
            points = " ".join(f"{gpus}:{rate!r}" for gpus, rate in curve.form.points)
            tables.setdefault(curve.gpu_type, []).append(f"{phase.until!r}={points}")
    whole = [(gpu_type, ";".join(parts)) for gpu_type, parts in tables.items() if len(parts) == len(phases)]
    return "|".join(text if not at else f"{gpu_type}@{text}" for at, (gpu_type, text) in enumerate(whole))


def with_type_first(phases: Iterable[Phase], gpu_type: str) -> tuple[Phase, ...]:
    """The phases with the curve of ``gpu_type`` first. A curve without a type counts as of this type.

    Empty if a phase has no such curve.
    """
    found = []
    for phase in phases:
        curves = {curve.gpu_type or gpu_type: curve.form for curve in phase.curves}
        if gpu_type not in curves:
            return ()
        types = (gpu_type, *(name for name in curves if name != gpu_type))
        found.append(Phase(phase.until, tuple(SpeedCurve(name, curves[name]) for name in types)))
    return tuple(found)


def typed_phases(text: str, gpu_type: str) -> tuple[Phase, ...]:
    """Parse curves of several types, like ``1:10 2:19|A100@1:30 2:55``. The first curve is of ``gpu_type``."""
    first, *rest = text.split("|")
    home, others = _phases(first, gpu_type), []
    for other in rest:
        name, at, curve = other.partition("@")
        phases = _phases(curve, name.strip())
        if not at or not name.strip() or [phase.until for phase in phases] != [phase.until for phase in home]:
            raise ValueError(text)
        others.append(phases)
    joined = joined_curves(home, others)
    seconds = {curve.gpu_type: _seconds(curve) for curve in joined[0].curves}
    if len(seconds) < len(joined[0].curves):
        raise ValueError(text)
    check_units(seconds, "curve")
    return joined


def _seconds(curve: SpeedCurve) -> Mapping[int, float]:
    assert isinstance(curve.form, ThroughputTable)
    return {gpus: 1.0 / rate for gpus, rate in curve.form.points}


def _phases(text: str, gpu_type: str) -> tuple[Phase, ...]:
    """Parse a curve: ``1:10 2:19``, or phases by the fraction of work at their end: ``0.3=1:10;1=1:12``."""
    phases = []
    for phase_text in text.split(";"):
        until, _, table_text = phase_text.rpartition("=")
        table = [
            (whole_number(gpus), positive(rate))
            for gpus, _, rate in (point.partition(":") for point in table_text.split())
        ]
        rises = all(few < many and slow <= fast for (few, slow), (many, fast) in pairwise(table))
        if not table or not rises:
            raise ValueError(text)
        phases.append(Phase(positive(until or "1"), (SpeedCurve(gpu_type, ThroughputTable(tuple(table))),)))
    ends = [phase.until for phase in phases]
    if ends[-1] != 1.0 or any(later <= earlier for earlier, later in pairwise(ends)):
        raise ValueError(text)
    return tuple(phases)


# Columns of published traces, and of Slurm's ``sacct -P``, that change what a row means.
#
# The columns of these traces are known by name: Philly (Microsoft), Helios and Acme (SenseTime, Shanghai AI Lab), PAI,
# openb and the spot trace of 2026 (Alibaba), Sia and Pollux, and sacct. The rules are:
#
# - If a job has several instances, the GPUs of one instance are multiplied by their number (num_inst, inst_num,
#   worker_num). plan_gpu counts hundredths of a GPU, gpu_milli thousandths. AllocTRES and ReqTRES are like
#   ``billing=64,gres/gpu=8``. A part of a GPU counts as a whole one.
# - Only a job that completed (state, status, pod_phase) has the same size under another policy.
# - A duration is seconds, or like 06:00:00, 1-02:03:04 and 1 day, 2:03:04. Without a duration, the time from start to
#   end is used.
# - A row of sacct whose JobID has a point is a step of the job before it. A requeued row is another try.


DELIMITERS: Final = (",", "|", ";", "\t")
STARTED: Final = ("start_time", "start", "scheduled_time", "started")
ENDED: Final = ("end_time", "end", "deletion_time", "ended", "completion_time")
_STATE: Final = ("state", "status", "job_status", "pod_phase", "phase")
_INSTANCES: Final = (
    *("num_inst", "inst_num", "worker_num", "num_workers", "num_instances", "instance_num", "instances", "workers"),
    "replicas",
)
_COMPLETED: Final = frozenset(
    ("COMPLETED", "COMPLETE", "SUCCEEDED", "SUCCESS", "PASS", "TERMINATED", "FINISHED", "DONE")
)
"""States of a job that completed, in upper case. PAI calls it Terminated."""
_TRIES: Final = ("restarts", "requeues", "num_restarts")
_HUNDREDTHS: Final = ("plan_gpu",)
_THOUSANDTHS: Final = "gpu_milli"
_TRES: Final = ("alloctres", "reqtres", "tres_alloc", "tres_req")
_TRES_GPUS: Final = re.compile(r"gres/gpu(:[^=,]*)?=(\d+)")
_TELLING: Final = re.compile(
    r"(?:^|[^a-z])(?:insts?|instances?|workers?|replicas?|tasks?|pods?|milli|percent|unit|state|status|phase|"
    r"requeue[sd]?|restart(?:s|ed)?|preempt\w*|attempts?|fraction|share)(?:$|[^a-z])"
)
"""Words in names of columns that change what a row means."""
_ELAPSED: Final = re.compile(r"(?:(\d+)(?:-| days?,? ))?(\d+):(\d{2})(?::(\d{2}(?:\.\d+)?))?")


def delimiter_of(header: str) -> str:
    """The character that separates the names of a header. It is a comma, or another character if the header has no
    comma.
    """
    return "," if "," in header else next((each for each in DELIMITERS if each in header), ",")


def seconds(text: str) -> float:
    """Seconds of a number, or of a time as Slurm and pandas write it. Raises ValueError for other text."""
    found = _ELAPSED.fullmatch(text)
    if found is None:
        return finite(text)
    days, first, second, third = found.groups()
    if third is None:  # minutes and seconds, or if there are days, hours and minutes
        first, second, third = (first, second, "0") if days else ("0", first, second)
    return ((int(days or 0) * 24 + int(first)) * 60 + int(second)) * 60 + float(third)


class Rows:
    """The rows of a file, by the names in its header in lower case.

    ``fields``: the column number of each field of a history.

    ``usable`` reads a row. After that ``gaps`` says what was left out, and what is not known.
    """

    def __init__(self, header: Sequence[str], fields: Mapping[str, int]) -> None:
        self._at = {name: number for number, name in enumerate(header)}
        self._fields = fields
        self._gpu_column = header[fields["gpus"]] if "gpus" in fields else ""
        self._of_slurm = bool({"elapsed", "elapsedraw"} & set(header))
        self._left_out: Counter[str] = Counter()
        self._parts = self._tries = 0
        known = {header[number] for number in fields.values()} | {*_STATE, *_INSTANCES, *_TRIES, _THOUSANDTHS}
        self._unknown = [name for name in header if name not in known and _TELLING.search(name)]

    def usable(self, cells: Sequence[str]) -> dict[str, str] | None:
        """The text of each field, or None if the row is no job to simulate."""
        found = {field: cells[at].strip() for field, at in self._fields.items() if at < len(cells)}
        if self._of_slurm and "." in found.get("name", ""):
            self._left_out["step of a job, which is a part of it"] += 1
            return None
        state = self._first(cells, _STATE).split(" ")[0].upper()
        if state and state not in _COMPLETED:
            what = f"job that is {state}: when it would have ended under another policy is not known"
            self._left_out[what] += 1
            return None
        gpus = self._gpus(found.get("gpus", ""), cells)
        if gpus == "0":
            self._left_out["job without a GPU"] += 1
            return None
        self._tries += self._first(cells, _TRIES) not in ("", "0")
        return {**found, "gpus": gpus}

    def gaps(self) -> Iterable[str]:
        """Sentences on what was left out of the file, and on what the file does not say."""
        for what, rows in sorted(self._left_out.items()):
            yield f"Left out: {rows} x {what}."
        if self._parts:
            yield f"{count(self._parts, 'job')} with a part of a GPU: it counts as a whole one."
        if self._tries:
            yield f"{count(self._tries, 'job')} began more than once: what its earlier tries did is not known."
        if self._unknown:
            yield (
                f"Not read: {names(self._unknown)}. If such a column multiplies GPUs, or marks rows that are no "
                "complete jobs, correct the file: the result is wrong."
            )

    def _first(self, cells: Sequence[str], known: Sequence[str]) -> str:
        at = next((self._at[name] for name in known if name in self._at), None)
        return "" if at is None or at >= len(cells) else cells[at].strip()

    def _gpus(self, text: str, cells: Sequence[str]) -> str:
        """The number of whole GPUs of the job, or the text itself if it is no number."""
        try:
            each = _tres(text) if self._gpu_column in _TRES else finite(text)
            instances = finite(self._first(cells, _INSTANCES) or "1")
            milli = finite(self._first(cells, (_THOUSANDTHS,)) or "0")
        except ValueError:
            return text
        if self._gpu_column in _HUNDREDTHS:
            each /= 100
        elif each == 1 and 0 < milli < 1000:
            each = milli / 1000
        gpus = each * instances
        if gpus < 0 or gpus != gpus:
            return text
        whole = ceil(gpus - 1e-9)
        self._parts += whole - gpus > 1e-9
        return str(whole)


def _tres(text: str) -> float:
    """The number of GPUs in Slurm's list of trackable resources: the total, or the sum over types."""
    found = _TRES_GPUS.findall(text)
    of_all = [int(number) for kind, number in found if not kind]
    return float(of_all[0] if of_all else sum(int(number) for _, number in found))


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
    """Write a row for each job by time of submission.

    ``read_history`` reads the same history back, except for pools in which no job ran.
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
    """The history in a file. Raises BadRow for the first row that cannot be used.

    ``pools``: their values are defaults. A row that names a pool gets the values of that pool, and any other row gets
    those of the first pool.
    ``restart_seconds``: used if neither row nor pool says.
    ``curves``: by class, for rows without a curve. A curve without a GPU type is of the type of the job's pool.
    ``on_sale``: whether pools in which no job ran are on sale too.
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
    """One row. ``where``: its file and line. ``cells``: the text of each field, or empty if the row has none."""

    where: str
    cells: Mapping[str, str]

    def get(self, field: str, parse: Callable[[str], V], what: str, default: V) -> V:
        """The field's value, or ``default`` if the cell is empty. Raises BadRow if the text is no ``what``."""
        return self.needed(field, parse, what) if self.cells.get(field) else default

    def needed(self, field: str, parse: Callable[[str], V], what: str) -> V:
        """The value of a field without a default. Raises BadRow if the text is no ``what``."""
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
    """The pools and curves of the rows read so far. All rows must agree about a pool, and about a class's curve on a
    pool.
    """

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
        gpus = placeable_width(row.needed("gpus", whole_number, _COUNT), pool.gpus_per_node)
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
            least=row.get("min_gpus", whole_number, _COUNT, 1),
            most=row.get("max_gpus", whole_number, _COUNT, widest_point(phases) if phases else gpus),
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
    """The column number of each field. If several columns fit, the one whose name is earlier in ``COLUMNS``."""
    at = {name: number for number, name in enumerate(names)}
    named = {field: next((name for name in known if name in at), None) for field, known in COLUMNS.items()}
    return {field: at[name] for field, name in named.items() if name is not None}


def _from_start_to_end(names: Sequence[str]) -> tuple[int, int] | None:
    """The columns with the start and the end of jobs, or None if one of them is missing."""
    found = [next((names.index(each) for each in known if each in names), None) for known in (STARTED, ENDED)]
    start, end = found
    return None if start is None or end is None else (start, end)


def _duration(text: str) -> float:
    return positive(repr(seconds(text)))


def _moment(text: str) -> float:
    """Seconds since any epoch. A timestamp without a time zone is taken as UTC."""
    try:
        return finite(text)
    except ValueError:
        stamp = datetime.fromisoformat(text)
    return instant(stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)) / 1e6
