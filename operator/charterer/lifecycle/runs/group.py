"""A run that is resized in place: which of its pods should train together, and when its width follows.

One step at a time (docs/development/adr/0063-in-place.md). Pods that join are made first, and become members when they
are there; pods that leave are no members first, and end when their leader says that it trains without them. A trainer
that names no generation forms its group in its own way: its width changes at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from charterer.domain.job import Allocation, Job, ResizePolicy, Run
from charterer.domain.jobs.group import FORMED_SECONDS, TrainingGroup, first_group
from charterer.domain.steps import RecordGroup, ResizeRun, RunStep, Wait
from charterer.domain.time import Instant
from charterer.sentences import count, names

RETRIES: Final = 10_000
"""How many pods of a run may fail while some join it. The plan gives the change up at the first, so that no number of
them that fail at once ends the run."""


def group_step(job: Job, allocation: Allocation, run: Run, obstacle: str, now: Instant) -> RunStep | Wait | None:
    """The next step towards the allocation's width, or what it waits for. ``obstacle``: to more pods; empty if none."""
    if job.resize is not ResizePolicy.IN_PLACE:
        if run.completions == len(allocation.placements):
            return None
        fixed = f"{job.run_title(run.number)} cannot change its width"
        return Wait(f"an allocation of {run.completions} pods or another run: {fixed}")
    group, pods = group_of(job, run), live_pods(run)
    said = _said(job, run, group)
    if said is not None:
        return _record(job, allocation, group.trained(said, {index: pods.get(index, "") for index in group.indexes}))
    if group.formed:
        return _regroup(job, allocation, run, group, obstacle, now)
    return _change_at_once(job, allocation, run, group, obstacle, now)


def group_of(job: Job, run: Run) -> TrainingGroup:
    """The group that the run should form, also where none is on record yet."""
    group = job.group
    return (
        first_group(run.number, run.completions, run.created, group)
        if group is None or group.run != run.number
        else group
    )


def live_pods(run: Run) -> Mapping[int, str]:
    """The uids of the run's pods that live and are not to end, or have done their work, by index."""
    return {pod.index: pod.uid for pod in run.pods if (pod.live or pod.proves_completion) and not pod.deleting}


def steady(job: Job, allocation: Allocation, run: Run) -> bool:
    """Whether nothing about the run's group is under way, as mostly."""
    group, pods = group_of(job, run), live_pods(run)
    everybody = group.indexes == tuple(range(len(allocation.placements)))
    quiet = everybody and not group.pending and not job.regroups and _said(job, run, group) is None
    return quiet and not run.retries and not (group.formed and group.lacks(pods))


def _said(job: Job, run: Run, group: TrainingGroup) -> int | None:
    """The generation that the run's leader has named since the group was asked for, where that is news."""
    progress = job.progress
    if progress is None or progress.run != run.number or progress.generation is None or progress.at < group.since:
        return None
    return progress.generation if group.formed < progress.generation <= group.generation else None


def _record(job: Job, allocation: Allocation, group: TrainingGroup) -> RecordGroup:
    """Record what the leader said. The width counts if the group that trains now is that of the allocation."""
    everybody = group.indexes == tuple(range(len(allocation.placements)))
    former = job.resized_from
    counts = former is not None and everybody and not group.pending
    if counts and former is not None and len(allocation.placements) > len(former.placements):
        group = replace(group, withdrawn=0, withdrawn_at=None)
    return RecordGroup(job.id, group, counts)


def _change_at_once(
    job: Job, allocation: Allocation, run: Run, group: TrainingGroup, obstacle: str, now: Instant
) -> RunStep | Wait | None:
    pods = len(allocation.placements)
    if run.completions != pods:
        if obstacle and pods > run.completions:
            return Wait(obstacle)
        return ResizeRun(job.id, run.number, pods)
    if group.indexes != tuple(range(pods)):
        return RecordGroup(job.id, group.started_again(pods, now))
    return None


def _regroup(
    job: Job, allocation: Allocation, run: Run, group: TrainingGroup, obstacle: str, now: Instant
) -> RunStep | Wait | None:
    pods, wanted = live_pods(run), len(allocation.placements)
    lost = group.lacks(pods)
    staying = {index: pods[index] for index in group.indexes if index < wanted and index not in lost}
    if len(staying) < len(group.indexes):
        if staying:
            return RecordGroup(job.id, group.followed_by(staying, now, FORMED_SECONDS))
        return _start_again(job, run, group, wanted, now)
    if group.pending:
        wanted_group = f"{count(len(group.indexes), 'pod')} (generation {group.generation})"
        return Wait(f"{job.run_title(run.number)} to train with {wanted_group}", until=group.by)
    joining = [index for index in range(wanted) if index not in group.indexes]
    retries = RETRIES if joining else 0
    if run.completions != wanted or bool(run.retries) != bool(retries):
        if obstacle and wanted > run.completions:
            return Wait(obstacle)
        return ResizeRun(job.id, run.number, wanted, retries)
    if joining:
        missing = [f"{run.name}-{index}" for index in joining if index not in pods]
        if missing:
            return Wait(f"{names(missing)} to be made")
        everybody = {index: pods[index] for index in range(wanted)}
        return RecordGroup(job.id, group.followed_by(everybody, now, job.ready_timeout_seconds))
    return None if job.resized_from is None else RecordGroup(job.id, group, counts=True)


def _start_again(job: Job, run: Run, group: TrainingGroup, wanted: int, now: Instant) -> RunStep | Wait:
    """No member stays: others begin from the last checkpoint, once none of those can train any more."""
    if run.completions > wanted:
        return ResizeRun(job.id, run.number, wanted)
    ending = [pod.name for pod in run.pods if pod.live and group.has(pod.uid)]
    if ending:
        return Wait(f"{names(ending)} to end")
    return RecordGroup(job.id, group.started_again(wanted, now))
