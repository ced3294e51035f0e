"""What columns of published traces, and of Slurm's ``sacct -P``, do to a row beside what they say of the job.

Known by name are the columns of Philly (Microsoft), Helios and Acme (SenseTime, Shanghai AI Lab), PAI, openb and the
spot trace of 2026 (Alibaba), Sia and Pollux, and sacct:

- GPUs of each of several instances are multiplied (num_inst, inst_num, worker_num); plan_gpu counts hundredths of a
  GPU, gpu_milli thousandths; AllocTRES and ReqTRES are like ``billing=64,gres/gpu=8``. A part of a GPU counts as a
  whole one.
- Only a job that completed (state, status, pod_phase) has a size that another policy would give it, too.
- A time is seconds, or like 06:00:00, 1-02:03:04 and 1 day, 2:03:04; without one it is the time from start to end.
- A row of sacct whose JobID has a point is a step of the job before it, and one that was requeued is another try.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Final

from charterer.sentences import count, names
from charterer.simulate.model.cells import finite

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
"""In upper case. PAI calls a job Terminated that came to its end."""
_TRIES: Final = ("restarts", "requeues", "num_restarts")
_HUNDREDTHS: Final = ("plan_gpu",)
_THOUSANDTHS: Final = "gpu_milli"
_TRES: Final = ("alloctres", "reqtres", "tres_alloc", "tres_req")
_TRES_GPUS: Final = re.compile(r"gres/gpu(:[^=,]*)?=(\d+)")
_TELLING: Final = re.compile(
    r"(?:^|[^a-z])(?:insts?|instances?|workers?|replicas?|tasks?|pods?|milli|percent|unit|state|status|phase|"
    r"requeue[sd]?|restart(?:s|ed)?|preempt\w*|attempts?|fraction|share)(?:$|[^a-z])"
)
"""Words of columns that change what a row means."""
_ELAPSED: Final = re.compile(r"(?:(\d+)(?:-| days?,? ))?(\d+):(\d{2})(?::(\d{2}(?:\.\d+)?))?")


def delimiter_of(header: str) -> str:
    """What stands between the names of a header: a comma, unless it has none and has another."""
    return "," if "," in header else next((each for each in DELIMITERS if each in header), ",")


def seconds(text: str) -> float:
    """Seconds of a number, or of a time as Slurm and pandas write it. ValueError."""
    found = _ELAPSED.fullmatch(text)
    if found is None:
        return finite(text)
    days, first, second, third = found.groups()
    if third is None:  # minutes and seconds, or with days hours and minutes
        first, second, third = (first, second, "0") if days else ("0", first, second)
    return ((int(days or 0) * 24 + int(first)) * 60 + int(second)) * 60 + float(third)


class Rows:
    """The rows of a file whose header has these names, in lower case.

    ``usable`` gives those that are jobs; after that ``gaps`` says what was left out, and what is not known.
    ``fields``: the number of the column of each field of a history.
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
        """The text of each field; None for a row that is no job to simulate."""
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
        """What was left out of the file, and what of it is not known, in sentences."""
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
        """All GPUs of the job, in whole ones; the text itself if it is no number."""
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
    """GPUs in Slurm's list of trackable resources: the count of all, or those of each type together."""
    found = _TRES_GPUS.findall(text)
    of_all = [int(number) for kind, number in found if not kind]
    return float(of_all[0] if of_all else sum(int(number) for _, number in found))
