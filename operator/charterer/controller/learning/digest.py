"""What a class's profile should say now: which widths, and what is believed of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from charterer.domain.ids import ClassId
from charterer.domain.job import Job, Widths
from charterer.domain.profile import SpeedCurve, ThroughputTable
from charterer.domain.snapshot import Snapshot
from charterer.estimate.declared import with_declared
from charterer.estimate.learned import MOST_WIDTHS, Learned
from charterer.estimate.learner import Learner
from charterer.estimate.plannable_widths import plannable_widths, curve_widths
from charterer.policy.options.menu import offered_widths
from charterer.policy.options.speedup import throughput


def digest(learner: Learner, class_id: ClassId, snapshot: Snapshot) -> Learned | None:
    """None while no job of the class is in sight: nothing says then which widths matter, and what stands is kept."""
    jobs = [job for job in snapshot.jobs.values() if job.class_id == class_id and job.finish is None]
    if not jobs:
        return None
    profile = snapshot.profiles.get(class_id)
    declared = () if profile is None else profile.declared
    seen = learner.seen(class_id)
    nodes = _nodes(jobs, snapshot)
    for gpu_type, size in nodes.items():
        learner.nodes_have(gpu_type, size)
    types = tuple(sorted(nodes.keys() | seen.keys()))
    widths = _widths(jobs, nodes, snapshot, seen.values(), declared)
    if not widths or not types:
        return None
    learned = learner.profile(class_id, widths, types)
    if declared:
        learned = with_declared(learned, lambda gpu_type, gpus: _declared(declared, gpu_type, gpus))
    learned = plannable_widths(learned, seen, {one.gpu_type for one in declared})
    return replace(learned, reports=learner.state(class_id).reports)


def _nodes(jobs: Iterable[Job], snapshot: Snapshot) -> dict[str, int]:
    """GPUs of the largest node by GPU type, of the types that the class's jobs may use and a pool offers."""
    wanted = [frozenset(job.gpu_types) for job in jobs]
    found: dict[str, int] = {}
    for pool in snapshot.pools.values():
        offering = pool.offering
        if offering is not None and any(not types or offering.gpu_type in types for types in wanted):
            found[offering.gpu_type] = max(found.get(offering.gpu_type, 1), offering.gpus_per_node)
    return found


def _range(jobs: Iterable[Job]) -> Widths:
    widths = [job.widths for job in jobs]
    return Widths(min(one.min for one in widths), widths[0].preferred, max(one.max for one in widths))


def _widths(
    jobs: Sequence[Job],
    nodes: dict[str, int],
    snapshot: Snapshot,
    seen: Iterable[Sequence[int]],
    declared: Sequence[SpeedCurve],
) -> list[int]:
    """The numbers of GPUs that a curve has points at: what pools offer, what has run, what is declared."""
    most = max((pool.max_nodes for pool in snapshot.pools.values()), default=1)
    between = _range(jobs)
    found = {gpus for widths in seen for gpus in widths}
    for size in nodes.values():
        found |= set(curve_widths(offered_widths(size, between, most), size))
    found |= {job.widths.preferred for job in jobs}
    found |= {gpus for one in declared if isinstance(one.form, ThroughputTable) for gpus, _ in one.form.points}
    return sorted(found)[:MOST_WIDTHS]


def _declared(curves: Iterable[SpeedCurve], gpu_type: str, gpus: int) -> float | None:
    form = next((one.form for one in curves if one.gpu_type == gpu_type), None)
    return None if form is None else throughput(form, gpus)
