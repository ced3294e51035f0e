"""What jobs keep of their speeds beside each other, read from a CSV file with a header."""

from __future__ import annotations

import csv
from collections.abc import Iterable

from charterer.domain.nodes.partition import SharingMechanism
from charterer.simulate.model.pair_table import PairKey, PairMember, PairTable
from charterer.simulate.model.workload import BadRow, check_unique

_NEEDED = ("application", "beside", "kept")
FILE_MECHANISM = SharingMechanism.TIME_SLICING
"""The mechanism of all nodes in a simulation from files: the rows hold for what these nodes do."""


def read_pairs(lines: Iterable[str], file: str, gpu_types: Iterable[str]) -> PairTable:
    """Read columns application, beside, kept, and gpu_type where pools have several. BadRow for the first bad row.

    A row says which part of its speed alone a job of the application keeps beside one of the other. ``gpu_types``:
    those of the pools; rows of other types are read and left out.
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
