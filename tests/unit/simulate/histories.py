"""Small histories, and hypothesis strategies for any."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from hypothesis import strategies as st

from charterer.domain.job import ResizePolicy
from charterer.domain.money import Price
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Phase, SpeedCurve, ThroughputTable
from charterer.tools.simulator.history.history import History, PastJob, PastPool, placeable_width
from charterer.tools.simulator.model.node_market import PoolModel

POOL = PoolModel("a100", 8, Price.parse("16"), "a100", start_seconds=120.0, max_nodes=20)


def curve(points: dict[int, float], gpu_type: str = "a100", until: float = 1.0) -> Phase:
    """One phase with a table."""
    return Phase(until, (SpeedCurve(gpu_type, ThroughputTable(tuple(sorted(points.items())))),))


_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12)
_SPAN = st.floats(0.0, 1e7)
_ABOVE_ZERO = st.floats(1e-3, 1e7)
_WIDTHS = (1, 2, 4, 8, 16, 32)


@st.composite
def _curves(draw: st.DrawFn, gpu_type: str) -> tuple[Phase, ...]:
    widths = draw(st.integers(4, len(_WIDTHS)))
    ends = sorted(draw(st.sets(st.floats(0.01, 0.99), max_size=2)))
    phases = []
    for until in (*ends, 1.0):
        rises = draw(st.lists(_ABOVE_ZERO, min_size=widths, max_size=widths))
        rates = [sum(rises[: at + 1]) for at in range(widths)]
        phases.append(curve(dict(zip(_WIDTHS, rates, strict=False)), gpu_type, until))
    return tuple(phases)


@st.composite
def _fleets(draw: st.DrawFn, name: str, names: st.SearchStrategy[str]) -> PastPool:
    pool = PoolModel(
        name,
        draw(st.sampled_from((4, 8))),
        Price(draw(st.integers(0, 10**9))),
        draw(_TEXT),
        start_seconds=draw(_SPAN),
        max_nodes=draw(st.integers(4, 1000)),
        billing_minimum_seconds=draw(st.integers(0, 7200)),
        capacity_type=draw(st.sampled_from(CapacityType)),
    )
    curves = {kind: draw(_curves(pool.gpu_type)) for kind in draw(st.sets(_TEXT, min_size=1, max_size=2))}
    jobs = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["", *sorted(curves)]))
        gpus = draw(st.sampled_from((1, 2, 4, 8) if kind else (1, 2, 3, 4, 8)))
        gpus = placeable_width(gpus, pool.gpus_per_node)
        jobs.append(
            PastJob(
                draw(names),
                draw(_SPAN),
                gpus,
                draw(_ABOVE_ZERO),
                kind,
                draw(st.integers(1, gpus)),
                draw(st.integers(gpus, 64)),
                draw(st.sampled_from(ResizePolicy)),
                draw(_ABOVE_ZERO),
                draw(st.none() | _ABOVE_ZERO),
            )
        )
    used = {job.kind for job in jobs}
    known = {kind: phases for kind, phases in curves.items() if kind in used}
    return PastPool(pool, tuple(sorted(jobs, key=lambda job: (job.submitted, job.name))), known, draw(_SPAN))


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Any history whose first job is submitted at 0."""
    numbers = count()
    names = _TEXT.map(lambda name: f"{name}{next(numbers)}")
    pools = sorted(draw(st.sets(_TEXT, min_size=1, max_size=2)))
    fleets = [draw(_fleets(name, names)) for name in pools]
    first = min(job.submitted for fleet in fleets for job in fleet.jobs)
    return History(tuple(replace(fleet, jobs=_since(fleet.jobs, first)) for fleet in fleets))


def _since(jobs: tuple[PastJob, ...], first: float) -> tuple[PastJob, ...]:
    moved = (replace(job, submitted=job.submitted - first) for job in jobs)
    return tuple(sorted(moved, key=lambda job: (job.submitted, job.name)))
