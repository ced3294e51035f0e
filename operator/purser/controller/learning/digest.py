"""What a class's profile should say now: which widths, and what is believed of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import exp

from purser.domain.ids import ClassId
from purser.domain.job import Job, Widths
from purser.domain.profile import Source, SpeedCurve, Table
from purser.domain.snapshot import Snapshot
from purser.estimate.declared import with_declared
from purser.estimate.learned import MOST_WIDTHS, Entry, Learned
from purser.estimate.learner import Learner
from purser.policy.hope import STEP
from purser.policy.menu import offered_widths
from purser.policy.speedup import throughput

_NODES = (1, 2, 3, 4, 6)
"""Numbers of nodes that a curve has points at, each also times 2, 4, 8, …: between them it is read linearly."""


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
    widest = max((ran[-1] for ran in seen.values() if ran), default=0)
    allowed = {one.gpu_type for one in declared}
    stretches = tuple(
        replace(stretch, entries=_offered(stretch.entries, widest, seen.keys(), allowed))
        for stretch in learned.stretches
    )
    return replace(learned, reports=learner.state(class_id).reports, stretches=stretches)


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
        offered = offered_widths(size, between, most)
        found |= {gpus for gpus in offered if gpus < size or _round(gpus // size)}
    found |= {job.widths.preferred for job in jobs}
    found |= {gpus for one in declared if isinstance(one.form, Table) for gpus, _ in one.form.points}
    return sorted(found)[:MOST_WIDTHS]


def _round(nodes: int) -> bool:
    while nodes % 2 == 0 and nodes not in _NODES:
        nodes //= 2
    return nodes in _NODES


def _declared(curves: Iterable[SpeedCurve], gpu_type: str, gpus: int) -> float | None:
    form = next((one.form for one in curves if one.gpu_type == gpu_type), None)
    return None if form is None else throughput(form, gpus)


def _offered(entries: Iterable[Entry], widest: int, ran: Iterable[str], declared: Iterable[str]) -> tuple[Entry, ...]:
    """What jobs may be planned by.

    Not wider than twice what has run, and on a GPU type that the class never ran on not wider than what has, unless
    somebody declared a curve for it. How fast such a type is as a whole is not known, and counts for what it is
    expected to take: seconds are lognormal, so their mean is exp(v/2) times their median.
    """
    ran, declared = frozenset(ran), frozenset(declared)
    known = [
        one for one in entries if one.gpu_type in declared or one.gpus <= widest * (STEP if one.gpu_type in ran else 1)
    ]
    doubt: dict[str, float] = {}
    for one in known:
        if one.gpu_type not in ran and one.source is not Source.DECLARED:
            doubt[one.gpu_type] = min(doubt.get(one.gpu_type, one.variance), one.variance)
    slower = {gpu_type: exp(-variance / 2.0) for gpu_type, variance in doubt.items()}
    return tuple(_slower(one, slower.get(one.gpu_type, 1.0)) for one in known)


def _slower(entry: Entry, factor: float) -> Entry:
    goodput = entry.goodput * factor
    return replace(entry, goodput=goodput, low=min(entry.low, goodput))
