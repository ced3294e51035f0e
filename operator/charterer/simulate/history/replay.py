"""A history under a policy: the simulator's own events, with jobs of one class that differ in size.

The planner sees of a job what the operator would: its class, and the work left as its mean says until a twentieth
of the job is done, from then on as the job's own progress says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from charterer.domain.ids import ClassId, JobId, Rate
from charterer.domain.job import TRUSTED_FRACTION, SpotPolicy
from charterer.domain.profile import Profile
from charterer.domain.time import Instant
from charterer.policy.planner import Memo, plan
from charterer.simulate.engine.node_market import PoolModel
from charterer.simulate.engine.result import Result
from charterer.simulate.engine.scenario import Scenario, Terms, class_of, new_budget
from charterer.simulate.engine.sim_job import SimJob
from charterer.simulate.engine.workload import Submission
from charterer.simulate.history.history import PastJob, PastPool, points, reference
from charterer.simulate.knowledge.ground_truth import Application, timed
from charterer.simulate.knowledge.learning import Knowledge, from_reports
from charterer.simulate.policy_registry import PolicyChoice, baseline
from charterer.simulate.simulation import Simulation

_START = Instant(0)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A fleet's simulation. ``pool`` tells what its nodes are and cost."""

    pool: PoolModel
    result: Result


def replay(fleet: PastPool, choice: PolicyChoice) -> ReplayResult:
    """The fleet's jobs under the policy. UnknownPolicy."""
    jobs = {job.name: job for job in fleet.jobs}
    applications = {job.name: fleet.application(job) for job in fleet.jobs}

    def seconds(submission: Submission, gpus: int) -> float:
        return applications[submission.name].seconds_left(0.0, gpus)

    rate = None if choice.rate is None else Rate(choice.rate / 3600.0)
    scenario = Scenario(
        _START,
        tuple(Submission(job.name, job.submitted, job.name, job.gpus) for job in fleet.jobs),
        applications,
        (fleet.pool,),
        new_budget(_START, rate=rate),
        _Bounds(fleet, jobs),
        fleet.restart_seconds,
        classes=_Classes(fleet, jobs),
    )
    policy = baseline(choice.text, attrgetter("gpus"), seconds) or partial(plan, memo=Memo())
    knowledge: Knowledge = ReplayedSizes(fleet, jobs, _profiles(fleet))
    if choice.scatter is not None:
        scenario = replace(
            scenario, applications={name: _timed(fleet, jobs[name], one) for name, one in applications.items()}
        )
        knowledge = from_reports(scenario, _kinds(fleet), choice.scatter)
    return ReplayResult(fleet.pool, Simulation(scenario, policy, knowledge).run())


def _timed(fleet: PastPool, job: PastJob, application: Application) -> Application:
    """With steps to report, where a curve says how long they are: one a second on the reference option."""
    return timed(application, fleet.work(job)) if job.kind in fleet.curves else application


def _kinds(fleet: PastPool) -> Mapping[ClassId, Application]:
    """What is the same for all jobs of a class."""
    found = {}
    for kind in fleet.mean_work:
        phases = fleet.curves[kind]
        application = Application(kind, [one.until for one in phases], [dict(points(one)) for one in phases])
        found[class_of(kind)] = timed(application, 1.0)
    return found


@dataclass(frozen=True, slots=True)
class _Bounds:
    fleet: PastPool
    jobs: Mapping[str, PastJob]

    def __call__(self, submission: Submission) -> Terms:
        job = self.jobs[submission.name]
        return Terms(self.fleet.bounds(job), job.resize, SpotPolicy.ALLOWED, job.weight)


@dataclass(frozen=True, slots=True)
class _Classes:
    fleet: PastPool
    jobs: Mapping[str, PastJob]

    def __call__(self, submission: Submission, _: Application) -> ClassId:
        kind = self.jobs[submission.name].kind
        return class_of(kind) if kind in self.fleet.curves else ClassId.of_job(JobId(submission.name))


@dataclass(frozen=True, slots=True)
class ReplayedSizes:
    """Knows the curves, and a job's size only once enough of it is done to tell: as the operator would."""

    fleet: PastPool
    jobs: Mapping[str, PastJob]
    known: Mapping[ClassId, Profile]
    report_seconds: float = float("inf")

    def profiles(self) -> Mapping[ClassId, Profile]:
        """Those of the history's kinds."""
        return self.known

    def mean_work(self, task: SimJob) -> float | None:
        """Its class's mean; later its own."""
        job = self.jobs[task.submission.name]
        if job.kind not in self.fleet.curves:
            return None
        return self.fleet.work(job) if task.done >= TRUSTED_FRACTION else self.fleet.mean_work[job.kind]

    def batch(self, task: SimJob) -> int:
        """Batch sizes do not matter."""
        return 0

    def reported(self, task: SimJob, at: Instant) -> None:
        """Nothing that was not known."""


def _profiles(fleet: PastPool) -> Mapping[ClassId, Profile]:
    found = {}
    for kind, mean_work in fleet.mean_work.items():
        phases = fleet.curves[kind]
        assert reference(phases) > 0
        found[class_of(kind)] = Profile(class_of(kind), 1, phases, mean_work, None, fleet.restart_seconds)
    return found


def dollars_by_job(replayed: Sequence[ReplayResult]) -> Mapping[str, float]:
    """What each job cost: its fleet's dollars, nodes that start or idle included, by the GPU-time that it held."""
    found: dict[str, float] = {}
    for one in replayed:
        held = sum(job.gpu_seconds for job in one.result.jobs)
        for job in one.result.jobs:
            found[job.name] = one.result.spent.dollars * (job.gpu_seconds / held if held else 0.0)
    return found
