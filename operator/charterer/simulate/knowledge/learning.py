"""What a planner knows: everything, or only what trainers reported so far, from which it learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import TYPE_CHECKING, Protocol

from charterer.domain.ids import BudgetId, ClassId
from charterer.domain.job import TRUSTED_FRACTION
from charterer.domain.profile import BatchTerms, Profile, ThroughputTable
from charterer.domain.time import Instant
from charterer.estimate.learned import MOST_WIDTHS, Learned
from charterer.estimate.observation import Observation
from charterer.estimate.plannable_widths import curve_widths, plannable_widths
from charterer.simulate.engine.scenario import Scenario
from charterer.simulate.engine.sim_job import SimJob
from charterer.simulate.knowledge.ground_truth import Application

if TYPE_CHECKING:
    from charterer.estimate.learner import Learner

_REPLAY_SECONDS = 30.0
"""Between two reports of a job of a workload: rarer than trainers send them, because weeks of them are simulated."""


class Knowledge(Protocol):
    """What the simulation asks of it."""

    @property
    def report_seconds(self) -> float:
        """How often a job in training reports; infinite where reports tell nothing new."""

    def profiles(self) -> Mapping[ClassId, Profile]:
        """What is known of the classes now; the same objects as long as nothing changed."""

    def mean_work(self, task: SimJob) -> float | None:
        """The whole work of a job as it is expected, in reference seconds of its class's profile."""

    def batch(self, task: SimJob) -> int:
        """With which total batch size a job trains on from now on; 0 for the best one at any time."""

    def reported(self, task: SimJob, at: Instant) -> None:
        """A job in training reports."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Knows the truth, and that does not change."""

    known: Mapping[ClassId, Profile]
    report_seconds: float = float("inf")

    def profiles(self) -> Mapping[ClassId, Profile]:
        """The given ones."""
        return self.known

    def mean_work(self, task: SimJob) -> float | None:
        """All jobs of a class are alike."""
        profile = self.known.get(task.class_id)
        return None if profile is None else profile.mean_work

    def batch(self, task: SimJob) -> int:
        """The best."""
        return 0

    def reported(self, task: SimJob, at: Instant) -> None:
        """Nothing that was not known."""


@dataclass(frozen=True, slots=True)
class Reporting:
    """How trainers report. ``scatter``: standard normal deviates, of which the others are the standard deviations.

    ``seconds`` between two reports; ``step`` of the logarithm of seconds a step, ``gradient`` of the logarithms of the
    gradient's squared norm and variance. ``model_misfit``: see ``Learner``.
    """

    scatter: Callable[[], float]
    seconds: float = 10.0
    step: float = 0.05
    gradient: float = 0.1
    model_misfit: float = 0.1


@dataclass(slots=True)
class Learning:
    """Knows what jobs reported, as the operator does. At the beginning no class was ever seen; what is declared are
    batch sizes and widths.

    ``applications`` by class; those must have been measured with batch sizes. Of jobs of other classes nothing is ever
    known. ``node_gpus``: GPUs of a node. ``told_at``: once that part of a job is done, its reports tell how large it
    is.
    """

    applications: Mapping[ClassId, Application]
    gpu_type: str
    node_gpus: int
    restart_seconds: float
    budget: BudgetId
    reporting: Reporting
    told_at: float = 0.0
    learner: Learner = field(init=False)
    _points: Mapping[ClassId, Sequence[int]] = field(init=False)
    _known: dict[ClassId, tuple[Learned, float, Profile]] = field(default_factory=dict)
    _all: Mapping[ClassId, Profile] = field(default_factory=dict)
    _works: dict[ClassId, float] = field(default_factory=dict)
    _heard: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        from charterer.estimate.learner import Learner  # loads numpy and scipy, which most simulations do without

        terms = {name: _terms(application) for name, application in self.applications.items()}
        self.learner = Learner(terms, {self.gpu_type: self.node_gpus}, self.reporting.model_misfit)
        self._points = {name: curve_widths(one.widths, self.node_gpus) for name, one in self.applications.items()}

    @property
    def report_seconds(self) -> float:
        """As trainers do."""
        return self.reporting.seconds

    def profiles(self) -> Mapping[ClassId, Profile]:
        """Learned curves; a class's profile is a new object only once they, or its mean work, changed."""
        changed = [self._profile(name) for name in self.applications]
        if any(changed) or not self._all:
            self._all = {name: profile for name, (_, _, profile) in self._known.items()}
        return self._all

    def mean_work(self, task: SimJob) -> float | None:
        """Its own total once it told, else its class's mean; None before the class reported."""
        if task.submission.name not in self._heard:
            profile = self._all.get(task.class_id)
            return None if profile is None else profile.mean_work
        assert task.application.measured is not None
        return task.application.measured.work / _reference(self._known[task.class_id][0])

    def batch(self, task: SimJob) -> int:
        """The one with the highest goodput as it is expected."""
        assert task.allocation is not None
        if task.class_id not in self.applications:
            return 0
        gpus = task.allocation.option.gpus
        return self.learner.batch(task.class_id, self.gpu_type, gpus, task.done)

    def reported(self, task: SimJob, at: Instant) -> None:
        """Learn from it."""
        allocation = task.allocation
        assert allocation is not None
        if task.class_id not in self.applications:
            return
        reading = task.reading()
        draw, terms = self.reporting.scatter, self.reporting
        report = Observation(
            task.class_id,
            self.gpu_type,
            len(allocation.placements),
            allocation.option.gpus,
            reading.batch,
            reading.step_seconds * exp(terms.step * draw()),
            task.done,
            at,
            reading.grad_sqr * exp(terms.gradient * draw()),
            reading.grad_var * exp(terms.gradient * draw()),
        )
        self.learner.report(report)
        if task.submission.name not in self._heard and task.done >= self.told_at:
            self._heard.add(task.submission.name)
            assert task.application.measured is not None
            self.learner.completed(task.class_id, task.application.measured.work)
            self._works.clear()

    def _profile(self, name: ClassId) -> bool:
        """Look at what is learned of a class; whether anything changed."""
        if not self.learner.state(name).reports:
            return False
        ran = self.learner.widths_run(name)
        widths = {*self._points[name], *ran.get(self.gpu_type, ())}
        learned = self.learner.profile(name, sorted(widths)[:MOST_WIDTHS], (self.gpu_type,))
        known = self._known.get(name)
        work = self._works.get(name) or self._works.setdefault(name, self.learner.work(name).value)
        if known is not None and known[0] is learned and known[1] == work:
            return False
        generation = 1 if known is None else known[2].generation + 1
        mean = work / _reference(learned)
        phases = plannable_widths(learned, ran).phases
        self._known[name] = (
            learned,
            work,
            Profile(
                name,
                generation,
                phases,
                mean,
                None,
                self.restart_seconds,
                self.budget,
                reports=learned.reports,
            ),
        )
        return True


def from_reports(
    scenario: Scenario, applications: Mapping[ClassId, Application], scatter: Callable[[], float]
) -> Learning:
    """Curves learned from what the scenario's jobs report, and a job's size once its progress tells it."""
    pool = scenario.pools[0]
    return Learning(
        applications,
        pool.gpu_type,
        pool.gpus_per_node,
        scenario.restart_seconds,
        scenario.budget.id,
        Reporting(scatter, seconds=_REPLAY_SECONDS),
        TRUSTED_FRACTION,
    )


def _reference(learned: Learned) -> float:
    """Goodput of the reference option: the first phase's first curve at its smallest width."""
    form = learned.phases[0].curves[0].form
    assert isinstance(form, ThroughputTable)
    return form.points[0][1]


def _terms(application: Application) -> BatchTerms:
    """The batch sizes that are declared of it; ValueError where it was measured at one only."""
    measured = application.measured
    if measured is None:
        raise ValueError(f"{application.name}: only an application measured at several batch sizes can be learned")
    return BatchTerms(measured.own_batch, measured.largest_batch, measured.largest_local, measured.smallest_local)
