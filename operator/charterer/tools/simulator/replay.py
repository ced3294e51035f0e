"""A history that is simulated under a policy. Jobs of one class differ in size.

The planner knows of a job what the operator would know: its class, and the work left. The work left is computed from
the class's mean until a twentieth of the job is done. Afterwards it is computed from the job's own progress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

from charterer.domain.ids import ClassId, JobId, PoolId, Rate
from charterer.domain.job import SpotPolicy
from charterer.domain.profile import Profile, ThroughputTable
from charterer.domain.reports import TRUSTED_FRACTION
from charterer.domain.time import Instant
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.events import Knowledge
from charterer.tools.simulator.history.history import HistoryPart, PastJob, PastPool, reference_throughput
from charterer.tools.simulator.knowledge import learning_from_reports
from charterer.tools.simulator.model.ground_truth import Application, with_step_times
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, new_budget
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policy_registry import PolicyChoice, baseline_policy
from charterer.tools.simulator.simulation import Simulation

_START = Instant(0)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a simulation of jobs that share pools. ``pools``: the models of these pools."""

    pools: tuple[PoolModel, ...]
    result: SimulationResult


def replay(part: HistoryPart, choice: PolicyChoice, tell: Callable[[float], None] | None = None) -> ReplayResult:
    """Simulate the part's jobs under the policy. Raises UnknownPolicy if there is none. ``tell``: as in
    ``Simulation.run``.
    """
    jobs = {job.name: (past, job) for past in part.pasts for job in past.jobs}
    applications = {job.name: past.application(job, part.pools) for past, job in jobs.values()}
    homes = {past.pool.name: replace(past.pool, restart_seconds=past.restart_seconds) for past in part.pasts}
    pools = tuple(homes.get(pool.name, pool) for pool in part.pools)

    def seconds(submission: Submission, gpu_type: str, gpus: int) -> float:
        return applications[submission.name].seconds_left(0.0, gpu_type, gpus)

    rate = None if choice.rate is None else Rate(choice.rate / 3600.0)
    ordered = sorted((job for _, job in jobs.values()), key=lambda job: (job.submitted, job.name))
    scenario = Scenario(
        _START,
        tuple(Submission(job.name, job.submitted, job.name, job.gpus) for job in ordered),
        applications,
        pools,
        new_budget(_START, rate=rate),
        _PastTerms(jobs),
        part.pasts[0].restart_seconds,
        classes=_PastClasses(jobs),
    )
    policy = baseline_policy(choice.text, attrgetter("gpus"), seconds) or partial(plan, memo=Memo(), verdicts=False)
    knowledge: Knowledge = ReplayedSizes(jobs, _profiles(part))
    if choice.noise is not None:
        reporting = {name: _reporting(*jobs[name], application) for name, application in applications.items()}
        scenario = replace(scenario, applications=reporting)
        knowledge = learning_from_reports(scenario, _class_applications(part), choice.noise)
    return ReplayResult(pools, Simulation(choice.world(scenario), policy, knowledge).run(tell))


def _class(past: PastPool, kind: str) -> ClassId:
    """The class of a kind in one pool.

    There is a class for each pool, since its curves begin with the pool's GPU type.
    """
    return ClassId(past.pool.name, kind)


def _reporting(past: PastPool, job: PastJob, application: Application) -> Application:
    """The application with step times to report, if a curve gives them. A step takes a second on the reference
    option.
    """
    return with_step_times(application, past.work(job)) if job.kind in past.curves else application


def _class_applications(part: HistoryPart) -> Mapping[ClassId, Application]:
    """For each class, an application with what all of its jobs have in common."""
    applications = {}
    for past in part.pasts:
        for kind in past.mean_work:
            phases, rates = past.curves[kind], dict[str, list[dict[int, float]]]()
            for phase in phases:
                for curve in phase.curves:
                    assert isinstance(curve.form, ThroughputTable)
                    rates.setdefault(curve.gpu_type, []).append(dict(curve.form.points))
            whole = {gpu_type: epochs for gpu_type, epochs in rates.items() if len(epochs) == len(phases)}
            application = Application(kind, [phase.until for phase in phases], whole)
            applications[_class(past, kind)] = with_step_times(application, 1.0)
    return applications


_PastJobs = Mapping[str, tuple[PastPool, PastJob]]
"""For each job by name, the pool in which it ran, and the job."""


@dataclass(frozen=True, slots=True)
class _PastTerms:
    jobs: _PastJobs

    def __call__(self, submission: Submission) -> JobTerms:
        past, job = self.jobs[submission.name]
        spot = SpotPolicy.ALLOWED if past.spot(job) else SpotPolicy.NEVER
        return JobTerms(past.bounds(job), job.resize, spot, job.weight, asked_pool=past.pool.name)


@dataclass(frozen=True, slots=True)
class _PastClasses:
    jobs: _PastJobs

    def __call__(self, submission: Submission, _: Application) -> ClassId:
        past, job = self.jobs[submission.name]
        return _class(past, job.kind) if job.kind in past.curves else ClassId.of_job(JobId(submission.name))


@dataclass(frozen=True, slots=True)
class ReplayedSizes:
    """Knowledge of the true curves. A job's size is known only once enough of it is done, as for the operator."""

    jobs: _PastJobs
    class_profiles: Mapping[ClassId, Profile]
    report_seconds: float = float("inf")

    def profiles(self) -> Mapping[ClassId, Profile]:
        """The profiles of the history's classes."""
        return self.class_profiles

    def expected_work(self, sim_job: SimJob) -> float | None:
        """The class's mean work, and later the job's own, or None without a curve."""
        past, job = self.jobs[sim_job.submission.name]
        if job.kind not in past.curves:
            return None
        return past.work(job) if sim_job.done >= TRUSTED_FRACTION else past.mean_work[job.kind]

    def batch(self, sim_job: SimJob) -> int:
        """Always 0, because batch sizes do not matter."""
        return 0

    def receive_report(self, sim_job: SimJob, at: Instant) -> None:
        """Ignore the report: the curves are known."""


def _profiles(part: HistoryPart) -> Mapping[ClassId, Profile]:
    profiles = {}
    for past in part.pasts:
        for kind, mean_work in past.mean_work.items():
            phases, name = past.curves[kind], _class(past, kind)
            assert reference_throughput(phases) > 0
            profiles[name] = Profile(name, 1, phases, mean_work, None, past.restart_seconds)
    return profiles


def dollars_by_job(replayed: Sequence[ReplayResult]) -> Mapping[str, float]:
    """Each job's part of its pools' dollars, divided by the GPU time of the jobs in each pool. The cost of starting and
    idle nodes is included.

    The dollars of a pool in which no job ever ran are shared equally by all jobs of the simulation.
    """
    dollars: dict[str, float] = {}
    for part in replayed:
        jobs, held = part.result.jobs, dict[PoolId, float]()
        for job in jobs:
            for pool, seconds in job.pool_gpu_seconds.items():
                held[pool] = held.get(pool, 0.0) + seconds
        unused = sum(spent.dollars for pool, spent in part.result.spent_in.items() if not held.get(pool))
        for job in jobs:
            parts = (
                part.result.spent_in[pool].dollars * seconds / held[pool]
                for pool, seconds in job.pool_gpu_seconds.items()
                if held[pool]
            )
            dollars[job.name] = sum(parts) + unused / len(jobs)
    return dollars
