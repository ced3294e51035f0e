"""A planner's knowledge of job classes: exact curves, or what trainers have reported so far."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import exp, inf, log
from typing import TYPE_CHECKING

from charterer.domain.ids import BudgetId, ClassId
from charterer.domain.profile import BatchTerms, ModelFacts, PairSpeed, Phase, Profile, SpeedCurve, ThroughputTable
from charterer.domain.reports import TRUSTED_FRACTION
from charterer.domain.time import Instant
from charterer.estimate.learned import MOST_WIDTHS, Learned, curve_widths, plannable_widths
from charterer.estimate.observation import Observation
from charterer.gpu_types import sharers, slice_profile
from charterer.tools.simulator.model.ground_truth import Application, with_variants
from charterer.tools.simulator.model.scenario import Scenario
from charterer.tools.simulator.model.sim_job import SimJob

if TYPE_CHECKING:
    from charterer.estimate.learner import Learner


# Exact knowledge: the true curves, phase by phase. No knowledge can be better than this.


MOST_PHASES = 128
"""Most phases of an exact profile. No measured application has more epochs, so none is lost."""
MERGE_BELOW = 0.001
"""Relative difference of speeds up to which neighbouring epochs are merged. A factor that all speeds have in common
does not count.
"""


@dataclass(frozen=True, slots=True)
class ExactKnowledge:
    """Given profiles, which are true and so never change."""

    class_profiles: Mapping[ClassId, Profile]
    report_seconds: float = float("inf")

    def profiles(self) -> Mapping[ClassId, Profile]:
        """The given profiles."""
        return self.class_profiles

    def expected_work(self, job: SimJob) -> float | None:
        """The mean work of the job's class, since all its jobs are equal."""
        profile = self.class_profiles.get(job.class_id)
        return None if profile is None else profile.mean_work

    def batch(self, job: SimJob) -> int:
        """Always 0: the best batch size of each epoch."""
        return 0

    def receive_report(self, job: SimJob, at: Instant) -> None:
        """Ignore the report: everything is known."""


@dataclass(slots=True)
class _EpochRange:
    """Consecutive epochs.

    ``until``: the fraction of the work at which they end.
    ``span``: the fraction of the work in them.
    ``seconds``: the seconds that they take, for each GPU type and width.
    """

    until: float
    span: float
    seconds: dict[tuple[str, int], float]

    def unlike(self, other: _EpochRange) -> float:
        """The largest ratio of the two ranges' speeds between two options, at least 1. A factor that all options have
        in common does not count.
        """
        ratios = [log(self.seconds[option] / self.span * other.span / other.seconds[option]) for option in self.seconds]
        return exp(max(ratios) - min(ratios))

    def join(self, other: _EpochRange) -> None:
        self.until = other.until
        self.span += other.span
        for option, seconds in other.seconds.items():
            self.seconds[option] += seconds


def exact_phases(
    application: Application, most: int = MOST_PHASES, merge_below: float = MERGE_BELOW
) -> tuple[Phase, ...]:
    """The application's epochs as at most ``most`` phases. Throughput is the fraction of the job done in a second.

    The most similar neighbours are merged first. While there are more than ``most`` phases, the cost of a merge grows
    with the difference of the two phases and with the work of the smaller one.
    """
    begins = (0.0, *application.ends)
    ranges = [
        _EpochRange(
            end,
            end - begin,
            {
                (gpu_type, width): (end - begin) / rate
                for gpu_type, epochs in application.rates.items()
                for width, rate in sorted(epochs[epoch].items())
            },
        )
        for epoch, (begin, end) in enumerate(zip(begins, application.ends, strict=False))
    ]
    while len(ranges) > 1:
        costs = [
            (first.unlike(second) - 1.0) * (1.0 if len(ranges) <= most else min(first.span, second.span))
            for first, second in pairwise(ranges)
        ]
        at = min(range(len(costs)), key=costs.__getitem__)
        if len(ranges) <= most and costs[at] >= merge_below:
            break
        ranges[at].join(ranges.pop(at + 1))
    return tuple(map(_phase, ranges))


def _phase(epochs: _EpochRange) -> Phase:
    """A phase with one curve for each GPU type."""
    points: dict[str, list[tuple[int, float]]] = {}
    for (gpu_type, width), seconds in epochs.seconds.items():
        points.setdefault(gpu_type, []).append((width, epochs.span / seconds))
    curves = (SpeedCurve(gpu_type, ThroughputTable(tuple(table))) for gpu_type, table in points.items())
    return Phase(epochs.until, tuple(curves))


def exact_profile(
    class_id: ClassId,
    phases: Sequence[Phase],
    restart_seconds: float,
    arrivals_per_hour: float | None = None,
    resize_seconds: float = 0.0,
) -> Profile:
    """The class's profile. All jobs have the same work.

    Work is in seconds of the reference option: the first phase's first curve at its smallest width.
    """
    form = phases[0].curves[0].form
    assert isinstance(form, ThroughputTable)
    work = 1.0 / form.points[0][1]
    return Profile(class_id, 1, tuple(phases), work, arrivals_per_hour, restart_seconds, resize_seconds=resize_seconds)


def exact_profiles(
    applications: Mapping[ClassId, Application], restart_seconds: float, resize_seconds: float = 0.0
) -> Mapping[ClassId, Profile]:
    """The profiles of all classes, variants included."""
    return {
        class_id: exact_profile(class_id, exact_phases(application), restart_seconds, resize_seconds=resize_seconds)
        for class_id, application in with_variants(applications).items()
    }


# Learned knowledge: only what trainers have reported so far, as the operator's own learner sees it.


_LEAST_CHANGE = 0.02
_REPLAY_SECONDS = 30.0
"""Seconds between two reports of a job. Real trainers send more, but weeks of them are simulated."""


@dataclass(frozen=True, slots=True)
class ReportModel:
    """How trainers report.

    ``noise``: draws a standard normal number.
    ``seconds``: seconds between two reports.
    ``step``: standard deviation of the logarithm of the seconds of a step.
    ``gradient``: standard deviation of the logarithms of the gradient's squared norm and variance.
    ``model_misfit``: see ``Learner``.
    """

    noise: Callable[[], float]
    seconds: float = 10.0
    step: float = 0.05
    gradient: float = 0.1
    model_misfit: float = 0.1


@dataclass(slots=True)
class LearnedKnowledge:
    """Knowledge of what jobs reported, as the operator has it. At first only declared batch sizes and widths are known.

    ``applications``: by class. They must have measurements at several batch sizes. Nothing is ever known of jobs of
    other classes.
    ``node_gpus``: for each GPU type that is on sale, the GPUs of its largest node.
    ``restart_seconds``, ``resize_seconds``: known from the beginning, as after the first of each.
    ``size_known_from``: the fraction of a job from which on its reports show its size.
    ``models``: what owners say of their models.
    ``declare_batches``: whether profiles declare batch sizes, so that there is a curve from other classes before the
    first report.
    """

    applications: Mapping[ClassId, Application]
    node_gpus: Mapping[str, int]
    restart_seconds: float
    budget: BudgetId
    reports: ReportModel
    size_known_from: float = 0.0
    resize_seconds: float = 0.0
    models: Mapping[ClassId, ModelFacts] = field(default_factory=dict)
    declare_batches: bool = True
    learner: Learner = field(init=False)
    _widths: Mapping[ClassId, Collection[int]] = field(init=False)
    _learned: dict[ClassId, tuple[Learned, float | None, Profile]] = field(default_factory=dict)
    _profiles: Mapping[ClassId, Profile] = field(default_factory=dict)
    _class_work: dict[ClassId, float] = field(default_factory=dict)
    _jobs_of_known_size: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        from charterer.estimate.learner import Learner  # loads numpy and scipy, which most simulations do without

        self.applications = with_variants(self.applications)
        terms = {class_id: _terms(application) for class_id, application in self.applications.items()}
        self.learner = Learner(terms, self.node_gpus, self.reports.model_misfit)
        for class_id, model in self.models.items():
            self.learner.describe(class_id, model)
        self._widths = {
            class_id: {
                gpus
                for gpu_type in self._types(class_id)
                for gpus in curve_widths(application.widths, self.node_gpus[gpu_type])
            }
            for class_id, application in self.applications.items()
        }

    @property
    def report_seconds(self) -> float:
        """Seconds between two reports, by the report model."""
        return self.reports.seconds

    def profiles(self) -> Mapping[ClassId, Profile]:
        """Learned profiles. A class's profile is a new object only if its curves or its mean work changed."""
        changed = [self._update(class_id) for class_id in self.applications]
        if any(changed) or not self._profiles:
            self._profiles = {class_id: profile for class_id, (_, _, profile) in self._learned.items()}
        return self._profiles

    def expected_work(self, job: SimJob) -> float | None:
        """The job's own work once its reports show it, before that the mean of its class, or None for an unseen
        class.
        """
        if job.submission.name not in self._jobs_of_known_size:
            profile = self._profiles.get(job.class_id)
            return None if profile is None else profile.mean_work
        learned = self._learned.get(job.class_id)
        return None if learned is None else job.application.work / _reference(learned[0])

    def batch(self, job: SimJob) -> int:
        """The batch size with the highest expected goodput at the width on which the job trains."""
        if job.class_id not in self.applications:
            return 0
        return self.learner.batch(job.run_class, job.gpu_type, job.gpus, job.done)

    def receive_report(self, job: SimJob, at: Instant) -> None:
        """Learn from the measurement of the job's trainer, with noise."""
        width = job.allocation if job.resized_from is None else job.resized_from
        assert width is not None
        if job.class_id not in self.applications:
            return
        measurement, measured_type = job.measurement(), job.measured_type
        model, noise = self.reports, self.reports.noise
        observation = Observation(
            job.run_class,
            measured_type,
            len(width.placements),
            width.option.gpus,
            measurement.batch,
            measurement.step_seconds * exp(model.step * noise()),
            job.done,
            at,
            measurement.grad_sqr * exp(model.gradient * noise()),
            measurement.grad_var * exp(model.gradient * noise()),
        )
        if measured_type:
            self.learner.report(observation)
            if len(job.partners) == 1 and sharers(slice_profile(measured_type)) == 2 == self.node_gpus[measured_type]:
                self._learn_pair(observation, job.partners[0])
        if job.submission.name not in self._jobs_of_known_size and job.done >= self.size_known_from:
            self._jobs_of_known_size.add(job.submission.name)
            self.learner.completed(job.class_id, job.application.work)
            self._class_work.clear()

    def _learn_pair(self, observation: Observation, beside: ClassId) -> None:
        """Learn the fraction of its speed that a job keeps beside its partner. The fraction is known only on nodes with
        one GPU that two jobs share.
        """
        from charterer.estimate.learner import learn_pair  # loads numpy, too

        learn_pair(self.learner, observation, beside)

    def _types(self, class_id: ClassId) -> tuple[str, ...]:
        """The GPU types on which the class can run and that are on sale."""
        return tuple(gpu_type for gpu_type in self.applications[class_id].gpu_types if gpu_type in self.node_gpus)

    def _work(self, class_id: ClassId) -> float:
        """Mean work of a job of the class, in own-batch steps."""
        return self._class_work.get(class_id) or self._class_work.setdefault(
            class_id, self.learner.work(class_id).value
        )

    def _update(self, class_id: ClassId) -> bool:
        """Update the class's profile from the learner. Returns whether anything changed."""
        known = self.declare_batches or self.learner.state(class_id).reports
        if not self._types(class_id) or not known:
            return False
        ran = self.learner.widths_run(class_id)
        widths = set(self._widths[class_id]).union(*ran.values())
        learned = self.learner.profile(class_id, sorted(widths)[:MOST_WIDTHS], self._types(class_id))
        before = self._learned.get(class_id)
        work = self._work(class_id) if learned.reports else None
        from charterer.estimate.learner import learned_pairs

        pairs = learned_pairs(self.learner.state(class_id))
        if before is not None and before[0] is learned and before[1] == work and not _differ(before[2].pairs, pairs):
            return False
        profile = Profile(
            class_id,
            1 if before is None else before[2].generation + 1,
            plannable_widths(learned, ran).phases,
            None if work is None else work / _reference(learned),
            None,
            self.restart_seconds,
            self.budget,
            reports=learned.reports,
            resize_seconds=self.resize_seconds,
            samples=float(learned.own_batch),
            pairs=pairs,
        )
        self._learned[class_id] = learned, work, profile
        return True


def learning_from_reports(
    scenario: Scenario, applications: Mapping[ClassId, Application], noise: Callable[[], float]
) -> LearnedKnowledge:
    """Knowledge that comes from the reports of the scenario's jobs: the curves, and a job's size once its progress
    shows it.
    """
    node_gpus: dict[str, int] = {}
    for pool in scenario.pools:
        node_gpus[pool.gpu_type] = max(pool.gpus_per_node, node_gpus.get(pool.gpu_type, 0))
    return LearnedKnowledge(
        applications,
        node_gpus,
        scenario.restart_seconds,
        scenario.budget.id,
        ReportModel(noise, seconds=_REPLAY_SECONDS),
        TRUSTED_FRACTION,
        scenario.resize_seconds,
        declare_batches=False,
    )


def _differ(before: Sequence[PairSpeed], now: Sequence[PairSpeed]) -> bool:
    """Whether a pair is new, or differs by more than the smallest change that the operator would write."""
    known = {(pair.gpu_type, pair.beside): pair.kept for pair in before}
    return any(abs(pair.kept / known.get((pair.gpu_type, pair.beside), inf) - 1.0) > _LEAST_CHANGE for pair in now)


def _reference(learned: Learned) -> float:
    """Goodput of the reference option: the first phase's first curve at its smallest width."""
    form = learned.phases[0].curves[0].form
    assert isinstance(form, ThroughputTable)
    return form.points[0][1]


def _terms(application: Application) -> BatchTerms:
    """The declared batch sizes of an application, feasible on all of its GPU types. Raises ValueError if none are
    known.
    """
    measured = tuple(application.measurements.values())
    if not measured:
        raise ValueError(f"{application.name}: only an application measured at several batch sizes can be learned")
    return BatchTerms(
        measured[0].own_batch,
        measured[0].largest_batch,
        min(table.largest_local for table in measured),
        max(table.smallest_local for table in measured),
    )
