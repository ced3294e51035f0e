"""The profile of a class as it should be written now: which widths, and what is believed of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from charterer.domain.ids import ClassId
from charterer.domain.job import Job
from charterer.domain.jobs.variant import Variant
from charterer.domain.jobs.widths import Widths
from charterer.domain.profile import SpeedCurve, ThroughputTable
from charterer.domain.snapshot import Snapshot
from charterer.estimate.declared import with_declared
from charterer.estimate.learned import MOST_WIDTHS, Learned
from charterer.estimate.learner import Learner
from charterer.estimate.plannable_widths import curve_widths, plannable_widths
from charterer.gpu_types import may_use, slice_profile
from charterer.policy.options.sources import offered_widths
from charterer.policy.options.speedup import throughput


def digest(learner: Learner, class_id: ClassId, snapshot: Snapshot) -> Learned | None:
    """The class's profile; None while there is no unfinished job of the class, which says which widths matter."""
    jobs = [job for job in snapshot.jobs.values() if class_id in job.classes and job.finish is None]
    if not jobs:
        return None
    asked = [each for job in jobs for each in job.ways if each.class_id == class_id]
    profile = snapshot.profiles.get(class_id)
    declared = () if profile is None else profile.declared
    ran = learner.widths_run(class_id)
    nodes = _nodes(jobs, snapshot)
    for gpu_type, size in nodes.items():
        learner.set_node_gpus(gpu_type, size)
    types = tuple(sorted(nodes.keys() | ran.keys()))
    widths = _widths(asked, nodes, snapshot, ran.values(), declared)
    if not widths or not types:
        return None
    learned = _without_wide_slices(learner.profile(class_id, widths, types))
    if declared:
        learned = with_declared(learned, lambda gpu_type, gpus: _declared(declared, gpu_type, gpus))
    learned = plannable_widths(learned, ran, {curve.gpu_type for curve in declared})
    return replace(learned, reports=learner.state(class_id).reports)


def _without_wide_slices(learned: Learned) -> Learned:
    """The curves without widths that no job can have: a job has one slice at most."""
    phases = [
        replace(
            phase,
            entries=tuple([entry for entry in phase.entries if entry.gpus == 1 or not slice_profile(entry.gpu_type)]),
        )
        for phase in learned.learned_phases
    ]
    return replace(learned, learned_phases=tuple(phases))


def _nodes(jobs: Iterable[Job], snapshot: Snapshot) -> dict[str, int]:
    """GPUs of the largest node by GPU type, of the types that the class's jobs may use and a pool offers."""
    wanted = [(frozenset(job.gpu_types), way.slices, way.shared_mib) for job in jobs for way in job.ways]
    largest: dict[str, int] = {}
    for pool in snapshot.pools.values():
        offering = pool.offering
        if offering is not None and any(may_use(offering.gpu_type, *choice) for choice in wanted):
            largest[offering.gpu_type] = max(largest.get(offering.gpu_type, 1), offering.gpus_per_node)
    return largest


def _range(asked: Sequence[Variant]) -> Widths:
    return Widths(min(each.least for each in asked), asked[0].preferred, max(each.most for each in asked))


def _widths(
    asked: Sequence[Variant],
    nodes: dict[str, int],
    snapshot: Snapshot,
    ran: Iterable[Sequence[int]],
    declared: Sequence[SpeedCurve],
) -> list[int]:
    """The numbers of GPUs that a curve has points at: those that pools offer, that have run and that are declared."""
    most = max((pool.max_nodes for pool in snapshot.pools.values()), default=1)
    between = _range(asked)
    points = {gpus for widths in ran for gpus in widths}
    for gpu_type, size in nodes.items():
        points |= set(curve_widths(offered_widths(gpu_type, size, between, most), size))
    points |= {each.preferred for each in asked}
    points |= {gpus for curve in declared if isinstance(curve.form, ThroughputTable) for gpus, _ in curve.form.points}
    return sorted(points)[:MOST_WIDTHS]


def _declared(curves: Iterable[SpeedCurve], gpu_type: str, gpus: int) -> float | None:
    form = next((curve.form for curve in curves if curve.gpu_type == gpu_type), None)
    return None if form is None else throughput(form, gpus)
