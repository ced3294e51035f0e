"""Curves as text in a cell of a history: throughput by GPUs, by phase, and by GPU type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from charterer.domain.profile import Phase, SpeedCurve, ThroughputTable
from charterer.simulate.history.history import joined_curves
from charterer.simulate.model.cells import count, positive
from charterer.simulate.model.workload import check_units


def curve_text(phases: Sequence[Phase]) -> str:
    """The pool's type first, without its name; then each other type that all phases have a table for."""
    tables: dict[str, list[str]] = {}
    for phase in phases:
        for curve in phase.curves:
            assert isinstance(curve.form, ThroughputTable)
            points = " ".join(f"{gpus}:{rate!r}" for gpus, rate in curve.form.points)
            tables.setdefault(curve.gpu_type, []).append(f"{phase.until!r}={points}")
    whole = [(gpu_type, ";".join(parts)) for gpu_type, parts in tables.items() if len(parts) == len(phases)]
    return "|".join(text if not at else f"{gpu_type}@{text}" for at, (gpu_type, text) in enumerate(whole))


def with_type_first(phases: Iterable[Phase], gpu_type: str) -> tuple[Phase, ...]:
    """The phases with the curve of a GPU type first; a curve without a type is of this one. Empty where there is
    none.
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
    """Parse curves of several types, like ``1:10 2:19|A100@1:30 2:55``; the first is of ``gpu_type``."""
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
            (count(gpus), positive(rate)) for gpus, _, rate in (point.partition(":") for point in table_text.split())
        ]
        rises = all(few < many and slow <= fast for (few, slow), (many, fast) in pairwise(table))
        if not table or not rises:
            raise ValueError(text)
        phases.append(Phase(positive(until or "1"), (SpeedCurve(gpu_type, ThroughputTable(tuple(table))),)))
    ends = [phase.until for phase in phases]
    if ends[-1] != 1.0 or any(later <= earlier for earlier, later in pairwise(ends)):
        raise ValueError(text)
    return tuple(phases)
