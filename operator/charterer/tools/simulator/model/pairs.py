"""The fractions of their speeds that two jobs keep if they share a GPU, as a table that is read from a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from charterer.domain.pool import SharingMechanism
from charterer.tools.simulator.model.workload import BadRow, check_unique

# The fraction of its speed alone that a job keeps if it shares a GPU with another job.


class PairMember(NamedTuple):
    """A job that shares a GPU, by the name of its class. ``passes``: number of passes in which the job does a step.

    A job with several passes accumulates the gradients of several sub-batches, one in each pass. It needs less memory
    and is slower.
    """

    class_name: str
    passes: int = 1


PairKey = tuple[str, SharingMechanism, PairMember, PairMember]
"""GPU type, mechanism of sharing, a job, and its partner."""


def _not_run(_: PairKey) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class PairTable:
    """The fraction of its speed alone, in one pass, that a job keeps beside another job on each of its GPUs.

    ``pairs``: that fraction, by the key of the job that keeps it. So a pair of jobs has two entries. The fraction is 0
    if the two jobs do not fit on a GPU.
    ``absent``: computes the fraction for pairs that are not in ``pairs``. By default such jobs do not run together.
    ``alone``: the fraction that a job in several passes keeps alone, by GPU type and job.
    ``memory``: the most GiB that a job needs on each of its GPUs.
    ``gpu_memory``: GiB of a GPU, by its type. If two jobs are known to need more, they do not fit, whatever ``pairs``
    says.
    """

    pairs: Mapping[PairKey, float]
    absent: Callable[[PairKey], float] = _not_run
    alone: Mapping[tuple[str, PairMember], float] = field(default_factory=dict)
    memory: Mapping[PairMember, float] = field(default_factory=dict)
    gpu_memory: Mapping[str, float] = field(default_factory=dict)

    def kept_alone(self, gpu_type: str, own: PairMember) -> float:
        """The fraction that a job keeps on GPUs of its own. Raises KeyError for a number of passes that the table does
        not have.
        """
        return 1.0 if own.passes == 1 else self.alone[gpu_type, own]

    def kept(self, gpu_type: str, mechanism: SharingMechanism, own: PairMember, other: PairMember) -> float:
        """The fraction that ``own`` keeps beside ``other``, or 0 if the two do not fit."""
        if not self._fits(gpu_type, own, other):
            return 0.0
        key = gpu_type, mechanism, own, other
        found = self.pairs.get(key)
        return self.absent(key) if found is None else found

    def both_kept(
        self, gpu_type: str, mechanism: SharingMechanism, own: PairMember, other: PairMember
    ) -> tuple[float, float] | None:
        """The fractions that ``own`` and ``other`` keep beside each other, or None if the two do not fit."""
        kept = self.kept(gpu_type, mechanism, own, other), self.kept(gpu_type, mechanism, other, own)
        return kept if min(kept) > 0.0 else None

    def passes(self, gpu_type: str, class_name: str) -> tuple[int, ...]:
        """The numbers of passes in which jobs of the class can do a step, ascending from 1."""
        more = {own.passes for of_type, own in self.alone if of_type == gpu_type and own.class_name == class_name}
        return (1, *sorted(more - {1}))

    def _fits(self, gpu_type: str, own: PairMember, other: PairMember) -> bool:
        there, taken = self.gpu_memory.get(gpu_type), (self.memory.get(own), self.memory.get(other))
        return there is None or taken[0] is None or taken[1] is None or taken[0] + taken[1] <= there


# Reading the fractions that jobs keep beside each other from a CSV file with a header.


_NEEDED = ("application", "beside", "kept")
FILE_MECHANISM = SharingMechanism.TIME_SLICING
"""The mechanism that all nodes have in a simulation from files. The rows are taken to be measured with this
mechanism.
"""


def read_pairs(lines: Iterable[str], file: str, gpu_types: Iterable[str]) -> PairTable:
    """Read the columns application, beside and kept. If pools have several GPU types, the column gpu_type too. Raises
    BadRow for the first bad row.

    A row says what fraction of its speed alone a job of ``application`` keeps beside a job of the application
    ``beside``. ``gpu_types``: GPU types of the pools. Rows of other types are checked and left out.
    """
    reader = csv.DictReader(lines)
    names, types = reader.fieldnames or (), sorted(set(gpu_types))
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise BadRow(f"{file}: no column {', '.join(missing)}: its first line must name {', '.join(_NEEDED)}")
    check_unique(names, (*_NEEDED, "gpu_type"), file)
    if len(types) > 1 and "gpu_type" not in names:
        raise BadRow(
            f"{file}: no column gpu_type, and the pools have several: say of each row whether it is about "
            f"{' or '.join(types)}"
        )
    pairs: dict[PairKey, float] = {}
    where: dict[PairKey, str] = {}
    for row in reader:
        line = f"{file} line {reader.line_num}"
        own, other = (row.get(name) or "" for name in ("application", "beside"))
        gpu_type = (row.get("gpu_type") or "") if "gpu_type" in names else types[0]
        key = gpu_type, FILE_MECHANISM, PairMember(own), PairMember(other)
        if key in pairs:
            raise BadRow(f"{line}: application {own!r} has two rows beside {other!r}: leave one out")
        pairs[key], where[key] = _kept(row.get("kept") or "", line), line
    for gpu_type, mechanism, first, second in pairs:
        if (gpu_type, mechanism, second, first) not in pairs:
            line = where[gpu_type, mechanism, first, second]
            raise BadRow(
                f"{line}: application {second.class_name!r} has no row beside {first.class_name!r}: say what it keeps "
                "there"
            )
    return PairTable({key: kept for key, kept in pairs.items() if key[0] in types})


def _kept(text: str, line: str) -> float:
    try:
        kept = float(text)
    except ValueError:
        kept = -1.0
    if not 0.0 <= kept <= 1.0:
        raise BadRow(
            f"{line}: kept {text!r} is no part of a speed: give a number from 0 (the two do not fit on a GPU) to 1"
        )
    return kept
