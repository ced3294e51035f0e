"""Clusters with a past: TrainingJobs that ended, and Jobs that are not Charterer's."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from charterer.api.decode import ForeignJob, ForeignWorker
from charterer.controller.snapshot.offline import OtherJobs
from charterer.domain.ids import PoolId
from charterer.domain.job import Finish, FinishKind, Job, RunOutcome, RunRecord
from charterer.domain.money import Price
from charterer.domain.node_demands import NO_DEMANDS
from charterer.domain.option import Option
from charterer.domain.reports import Progress
from charterer.domain.time import after
from tests.worlds import NAMESPACE, World

HOUR = 3600.0


def ended(
    world: World,
    name: str,
    *,
    hours_ago: float,
    hours: float,
    gpus: int = 8,
    speed: float = 1.0,
    kind: FinishKind = FinishKind.COMPLETE,
    pool: str = "a100",
    profile: str | None = None,
    widths: tuple[int, int, int] = (1, 8, 16),
) -> Job:
    """A TrainingJob that had one run of so many hours, with ten minutes before it."""
    job = world.job(name, gpus=widths, profile=profile, age_seconds=hours_ago * HOUR)
    begin = after(job.created, 600.0)
    until = after(begin, hours * HOUR)
    option = Option(PoolId(pool), gpus, speed, Price.parse("16"))
    record = RunRecord(1, RunOutcome.COMPLETE, option, (), begin, until, "")
    world.jobs[job.id] = replace(job, records=(record,), finish=Finish(kind, until, "Done", ""))
    return world.jobs[job.id]


def halfway(world: World, name: str, *, hours: float, speed: float, profile: str | None = None) -> Job:
    """A TrainingJob that has run for so many hours and reported just now that half of it is done."""
    job = world.job(name, gpus=(1, 8, 16), profile=profile, age_seconds=hours * HOUR)
    option = Option(PoolId("a100"), 8, speed, Price.parse("16"))
    record = RunRecord(1, RunOutcome.STOPPED, option, (), job.created, world.now, "")
    progress = Progress(1, 0.5, None, None, world.now)
    world.jobs[job.id] = replace(job, records=(record,), progress=progress, remaining=(hours * HOUR - 60.0) * speed)
    return world.jobs[job.id]


def foreign(
    world: World, name: str, *, hours_ago: float, hours: float, gpus: int = 8, profile: str = "", **changes: Any
) -> ForeignJob:
    """A Job that was made so long ago, trained so many hours, and is complete."""
    created = after(world.now, -hours_ago * HOUR)
    made = ForeignJob(
        uid=f"uid-{name}",
        namespace=NAMESPACE,
        name=name,
        gpus=gpus,
        gpu_type="",
        profile=profile,
        priority_class="",
        part_of="",
        suspended=False,
        created=created,
        started=created,
        complete=after(created, hours * HOUR),
        failed=None,
        demands=NO_DEMANDS,
    )
    return replace(made, **changes)


def worker(job: ForeignJob, *, started_after: float = 0.0) -> ForeignWorker:
    """The pod of a Job that succeeded."""
    started = after(job.created, started_after)
    return ForeignWorker(job.namespace, job.uid, "Job", job.gpus, False, True, started)


def observed(world: World, count: int = 40) -> OtherJobs:
    """Jobs of several widths and lengths, about one an hour, all of a class whose curve is known."""
    random = Random(4)
    jobs = tuple(
        foreign(
            world,
            f"j{at}",
            hours_ago=random.uniform(1.0, count) + 12.0,
            hours=random.choice((0.3, 1.0, 2.0, 8.0)),
            gpus=random.choice((2, 4, 8, 16)),
            profile="sft",
        )
        for at in range(count)
    )
    return OtherJobs(jobs, tuple(worker(job) for job in jobs))
