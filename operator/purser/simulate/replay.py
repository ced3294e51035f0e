"""A history under a policy: the simulator's own events, with jobs of one class that differ in size.

The planner sees of a job what the operator would: its class, and the work left as its mean says until a twentieth
of the job is done, from then on as the job's own progress says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from purser.domain.ids import ClassId, JobId, Rate
from purser.domain.job import TRUSTED_FRACTION, Job, SpotPolicy
from purser.domain.plan import Plan
from purser.domain.profile import Profile
from purser.domain.snapshot import Snapshot
from purser.domain.time import Instant
from purser.policy.planner import Memo, plan
from purser.simulate.choices import Choice, baseline
from purser.simulate.history import Fleet, PastJob, reference
from purser.simulate.learning import Exact
from purser.simulate.market import PoolModel
from purser.simulate.result import Result
from purser.simulate.simulation import Planner, Scenario, Simulation, Terms, class_of, new_budget
from purser.simulate.workload import Submission

_START = Instant(0)


@dataclass(frozen=True, slots=True)
class Replayed:
    """A fleet's simulation. ``pool`` tells what its nodes are and cost."""

    pool: PoolModel
    result: Result


def replay(fleet: Fleet, choice: Choice) -> Replayed:
    """The fleet's jobs under the policy. UnknownPolicy."""
    jobs = {JobId(job.name): job for job in fleet.jobs}
    applications = {job.name: fleet.application(job) for job in fleet.jobs}

    def asked(job: Job) -> int:
        return jobs[job.id].gpus

    def seconds(job: Job, gpus: int) -> float:
        return applications[job.name].seconds_left(0.0, gpus)

    rate = None if choice.rate is None else Rate(choice.rate / 3600.0)
    scenario = Scenario(
        _START,
        tuple(Submission(job.name, job.submitted, job.name, job.gpus) for job in fleet.jobs),
        applications,
        (fleet.pool,),
        new_budget(_START, rate=rate),
        _Bounds(fleet, {job.name: job for job in fleet.jobs}),
        fleet.restart_seconds,
    )
    planner = baseline(choice.text, asked, seconds) or partial(plan, memo=Memo())
    profiles = _profiles(fleet)
    return Replayed(fleet.pool, Simulation(scenario, _classed(planner, fleet, jobs), Exact(profiles)).run())


@dataclass(frozen=True, slots=True)
class _Bounds:
    fleet: Fleet
    jobs: Mapping[str, PastJob]

    def __call__(self, submission: Submission) -> Terms:
        job = self.jobs[submission.name]
        return Terms(self.fleet.bounds(job), job.resize, SpotPolicy.ALLOWED, job.weight)


def _classed(planner: Planner, fleet: Fleet, jobs: Mapping[JobId, PastJob]) -> Callable[[Snapshot], Plan]:
    """The planner, with each job in the class that it belongs to."""

    def classed(snapshot: Snapshot) -> Plan:
        return planner(
            replace(snapshot, jobs={name: seen(job, jobs[name], fleet) for name, job in snapshot.jobs.items()})
        )

    return classed


def seen(job: Job, past: PastJob, fleet: Fleet) -> Job:
    """The job as the operator would see it: in its class, with the work left that is expected of it."""
    if past.kind not in fleet.curves:
        return replace(job, class_id=ClassId(f"uid/{job.id}"), remaining=None)
    done = 0.0 if job.progress is None else job.progress.fraction or 0.0
    work = fleet.work(past) if done >= TRUSTED_FRACTION else fleet.mean_work[past.kind]
    return replace(job, class_id=class_of(past.kind), remaining=work * (1.0 - done))


def _profiles(fleet: Fleet) -> Mapping[ClassId, Profile]:
    found = {}
    for kind, mean_work in fleet.mean_work.items():
        phases = fleet.curves[kind]
        assert reference(phases) > 0
        found[class_of(kind)] = Profile(class_of(kind), 1, phases, mean_work, None, fleet.restart_seconds)
    return found


def dollars_by_job(replayed: Sequence[Replayed]) -> Mapping[str, float]:
    """What each job cost: its fleet's dollars, nodes that start or idle included, by the GPU-time that it held."""
    found: dict[str, float] = {}
    for one in replayed:
        held = sum(job.gpu_seconds for job in one.result.jobs)
        for job in one.result.jobs:
            found[job.name] = one.result.spent.dollars * (job.gpu_seconds / held if held else 0.0)
    return found
