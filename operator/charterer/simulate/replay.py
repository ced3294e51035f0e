"""A history under a policy: the simulator's own events, with jobs of one class that differ in size.

The planner sees of a job what the operator would: its class, and the work left, from the class's mean until a
twentieth of the job is done, and from then on from the job's own progress.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from charterer.domain.ids import ClassId, JobId, PoolId, Rate
from charterer.domain.job import TRUSTED_FRACTION, SpotPolicy
from charterer.domain.profile import Profile
from charterer.domain.time import Instant
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.simulate.engine.knowledge import Knowledge
from charterer.simulate.history.history import PastJob, PastPool, curve_points, reference_throughput
from charterer.simulate.knowledge.learned_knowledge import learning_from_reports
from charterer.simulate.model.ground_truth import Application, with_step_times
from charterer.simulate.model.node_market import PoolModel
from charterer.simulate.model.result import SimulationResult
from charterer.simulate.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.simulate.model.sim_job import SimJob
from charterer.simulate.model.workload import Submission
from charterer.simulate.policy_registry import PolicyChoice, baseline_policy
from charterer.simulate.simulation import Simulation

_START = Instant(0)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The simulation of jobs that share pools. ``pools``: their nodes and prices."""

    pools: tuple[PoolModel, ...]
    result: SimulationResult


def replay(past: PastPool, choice: PolicyChoice) -> ReplayResult:
    """Simulate the pool's jobs under the policy. UnknownPolicy."""
    jobs = {job.name: job for job in past.jobs}
    applications = {job.name: past.application(job) for job in past.jobs}

    def seconds(submission: Submission, gpu_type: str, gpus: int) -> float:
        return applications[submission.name].seconds_left(0.0, gpu_type, gpus)

    rate = None if choice.rate is None else Rate(choice.rate / 3600.0)
    scenario = Scenario(
        _START,
        tuple(Submission(job.name, job.submitted, job.name, job.gpus) for job in past.jobs),
        applications,
        (past.pool,),
        new_budget(_START, rate=rate),
        _PastTerms(past, jobs),
        past.restart_seconds,
        classes=_PastClasses(past, jobs),
    )
    policy = baseline_policy(choice.text, attrgetter("gpus"), seconds) or partial(plan, memo=Memo())
    knowledge: Knowledge = ReplayedSizes(past, jobs, _profiles(past))
    if choice.noise is not None:
        reporting = {name: _reporting(past, jobs[name], application) for name, application in applications.items()}
        scenario = replace(scenario, applications=reporting)
        knowledge = learning_from_reports(scenario, _class_applications(past), choice.noise)
    return ReplayResult((past.pool,), Simulation(scenario, policy, knowledge).run())


def _reporting(past: PastPool, job: PastJob, application: Application) -> Application:
    """The application with steps to report where a curve gives their time: one a second on the reference option."""
    return with_step_times(application, past.work(job)) if job.kind in past.curves else application


def _class_applications(past: PastPool) -> Mapping[ClassId, Application]:
    """By class: what all of its jobs have in common."""
    applications = {}
    for kind in past.mean_work:
        phases = past.curves[kind]
        rates = {past.pool.gpu_type: [dict(curve_points(phase)) for phase in phases]}
        application = Application(kind, [phase.until for phase in phases], rates)
        applications[class_of(kind)] = with_step_times(application, 1.0)
    return applications


@dataclass(frozen=True, slots=True)
class _PastTerms:
    past: PastPool
    jobs: Mapping[str, PastJob]

    def __call__(self, submission: Submission) -> JobTerms:
        job = self.jobs[submission.name]
        return JobTerms(self.past.bounds(job), job.resize, SpotPolicy.ALLOWED, job.weight)


@dataclass(frozen=True, slots=True)
class _PastClasses:
    past: PastPool
    jobs: Mapping[str, PastJob]

    def __call__(self, submission: Submission, _: Application) -> ClassId:
        kind = self.jobs[submission.name].kind
        return class_of(kind) if kind in self.past.curves else ClassId.of_job(JobId(submission.name))


@dataclass(frozen=True, slots=True)
class ReplayedSizes:
    """Knowledge of the true curves; a job's size is known only once enough of it is done, as to the operator."""

    past: PastPool
    jobs: Mapping[str, PastJob]
    class_profiles: Mapping[ClassId, Profile]
    report_seconds: float = float("inf")

    def profiles(self) -> Mapping[ClassId, Profile]:
        """The profiles of the history's classes."""
        return self.class_profiles

    def expected_work(self, sim_job: SimJob) -> float | None:
        """The class's mean, and later the job's own work; None without a curve."""
        job = self.jobs[sim_job.submission.name]
        if job.kind not in self.past.curves:
            return None
        return self.past.work(job) if sim_job.done >= TRUSTED_FRACTION else self.past.mean_work[job.kind]

    def batch(self, sim_job: SimJob) -> int:
        """Batch sizes do not matter."""
        return 0

    def receive_report(self, sim_job: SimJob, at: Instant) -> None:
        """Ignore it: the curves are known."""


def _profiles(past: PastPool) -> Mapping[ClassId, Profile]:
    profiles = {}
    for kind, mean_work in past.mean_work.items():
        phases = past.curves[kind]
        assert reference_throughput(phases) > 0
        profiles[class_of(kind)] = Profile(class_of(kind), 1, phases, mean_work, None, past.restart_seconds)
    return profiles


def dollars_by_job(replayed: Sequence[ReplayResult]) -> Mapping[str, float]:
    """Each job's share of its pools' dollars, starting and idle nodes included, by the GPU time that it held there.

    The dollars of a pool in which no job ever ran are shared by all of the simulation's jobs alike.
    """
    dollars: dict[str, float] = {}
    for part in replayed:
        jobs, held = part.result.jobs, dict[PoolId, float]()
        for job in jobs:
            for pool, seconds in job.pool_gpu_seconds.items():
                held[pool] = held.get(pool, 0.0) + seconds
        unused = sum(spent.dollars for pool, spent in part.result.spent_in.items() if not held.get(pool))
        for job in jobs:
            shares = (
                part.result.spent_in[pool].dollars * seconds / held[pool]
                for pool, seconds in job.pool_gpu_seconds.items()
                if held[pool]
            )
            dollars[job.name] = sum(shares) + unused / len(jobs)
    return dollars
