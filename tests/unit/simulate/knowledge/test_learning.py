"""Simulations in which the planner knows only what trainers reported."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from charterer.domain.ids import ClassId, Rate
from charterer.domain.job import ResizePolicy, Widths
from charterer.estimate.learner import configurations
from charterer.estimate.observation import split
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.knowledge import LearnedKnowledge, ReportModel
from charterer.tools.simulator.model.ground_truth import Application, TrainerMeasurement
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.simulation import Simulation
from tests.unit.estimate.trainers import WIDTHS, Trainer, shape
from tests.unit.simulate.scenarios import NODE, START, budget, run

RESTART = 30.0
RATE = 0.02
"""Dollars that a second of a job's life is worth."""


@dataclass(frozen=True)
class Made:
    """What a made-up trainer measures, in epochs of equal length."""

    trainer: Trainer
    epochs: int = 10
    work: float = 60_000.0
    own_batch: int = 64
    largest_batch: int = 4096
    largest_local: int = 128
    smallest_local: int = 1

    def done(self, epoch: int) -> float:
        """In the middle of an epoch."""
        return (epoch + 0.5) / self.epochs

    def measurement(self, epoch: int, gpus: int, batch: int) -> TrainerMeasurement | None:
        batch = split(self.trainer.terms, shape(gpus), batch).batch
        return TrainerMeasurement(batch, self.trainer.seconds(gpus, batch), 1.0, self.trainer.noise(self.done(epoch)))

    def rate(self, epoch: int, gpus: int, batch: int) -> float | None:
        batch = split(self.trainer.terms, shape(gpus), batch).batch
        return self.trainer.goodput(gpus, batch, self.done(epoch)) / self.work

    def application(self) -> Application:
        """At the best batch size of each epoch and width."""
        terms = self.trainer.terms
        rates = [
            {
                gpus: max(
                    self.rate(epoch, gpus, configuration.batch) or 0.0
                    for configuration in configurations(terms, shape(gpus))
                )
                for gpus in WIDTHS
            }
            for epoch in range(self.epochs)
        ]
        ends = [(epoch + 1) / self.epochs for epoch in range(self.epochs)]
        return Application("resnet", ends, {NODE.gpu_type: rates}, {NODE.gpu_type: self})


RESNET = Made(Trainer()).application()


def scenario(arrivals: Sequence[float], application: Application = RESNET) -> Scenario:
    """Jobs of the class on nodes of four GPUs."""
    return Scenario(
        START,
        tuple(Submission(f"j{at}", second, "resnet", 1) for at, second in enumerate(arrivals)),
        {"resnet": application},
        (NODE,),
        replace(budget(rate=RATE), fixed_rate=Rate(RATE)),
        lambda _: JobTerms(Widths(1, 1, 32)),
        RESTART,
    )


def learned(given: Scenario, seed: int = 0, **how: float) -> tuple[SimulationResult, LearnedKnowledge]:
    """Simulate with nothing known at the beginning."""
    draw = random.Random(seed)
    knowledge = LearnedKnowledge(
        {class_of(name): application for name, application in given.applications.items()},
        {NODE.gpu_type: NODE.gpus_per_node},
        RESTART,
        given.budget.id,
        ReportModel(lambda: draw.gauss(0.0, 1.0), **how),
    )
    memo = Memo()
    return Simulation(given, lambda snapshot: plan(snapshot, memo), knowledge).run(), knowledge


EVERY_HOUR = [3600.0 * at for at in range(6)]


@pytest.mark.slow
def test_a_class_never_seen_is_soon_known_and_run_almost_as_well_as_one_that_is_known() -> None:
    exact = run(scenario(EVERY_HOUR))
    found, knowledge = learned(scenario(EVERY_HOUR))

    def worth(result: SimulationResult, name: str) -> float:
        job = next(job for job in result.jobs if job.name == name)
        assert job.completion_seconds is not None
        return RATE * job.completion_seconds + job.gpu_seconds * NODE.hourly.dollars_per_second / NODE.gpus_per_node

    assert worth(found, "j5") < 1.05 * worth(exact, "j5")
    assert worth(found, "j0") > worth(found, "j5")
    measurements = [
        entry
        for until, entry in knowledge.learner.profile(ClassId("team", "resnet"), WIDTHS).entries
        if until == 1.0 and entry.reports > 20
    ]
    assert measurements
    for entry in measurements:
        assert entry.goodput == pytest.approx(RESNET.rates[NODE.gpu_type][-1][entry.gpus] * 60_000.0, rel=0.1)


def test_the_same_seed_gives_the_same_result_and_another_one_another() -> None:
    short = scenario([0.0], Made(Trainer(), epochs=2, work=6_000.0).application())
    first, again, other = (learned(short, seed)[0] for seed in (1, 1, 2))
    assert first == again
    assert other != first


@pytest.mark.slow
def test_the_batch_size_is_chosen_anew_on_the_way() -> None:
    seen: set[int] = set()
    given = scenario([0.0])

    class Watched(LearnedKnowledge):
        __slots__ = ()

        def batch(self, job: SimJob) -> int:
            chosen = LearnedKnowledge.batch(self, job)
            seen.add(chosen)
            return chosen

    draw = random.Random(0)
    watched = Watched(
        {class_of("resnet"): RESNET},
        {NODE.gpu_type: NODE.gpus_per_node},
        RESTART,
        given.budget.id,
        ReportModel(lambda: draw.gauss()),
    )
    memo = Memo()
    Simulation(given, lambda snapshot: plan(snapshot, memo), watched).run()
    assert max(seen) > 4 * min(seen)


def test_while_pods_join_a_job_its_batch_size_is_that_of_the_width_at_which_it_trains() -> None:
    in_place = JobTerms(Widths(4, 4, 16), resize=ResizePolicy.IN_PLACE)
    given = replace(scenario([0.0], Made(Trainer(), epochs=2, work=6_000.0).application()), terms=lambda _: in_place)
    seen: list[tuple[int, int, int]] = []

    class Watched(LearnedKnowledge):
        __slots__ = ()

        def batch(self, job: SimJob) -> int:
            chosen = LearnedKnowledge.batch(self, job)
            if job.resized_from is not None and job.allocation is not None:
                widths = (job.resized_from.option.gpus, job.allocation.option.gpus)
                own, new = (self.learner.batch(job.class_id, job.gpu_type, gpus, job.done) for gpus in widths)
                seen.append((chosen, own, new))
            return chosen

    draw = random.Random(0)
    watched = Watched(
        {class_of("resnet"): given.applications["resnet"]},
        {NODE.gpu_type: NODE.gpus_per_node},
        RESTART,
        given.budget.id,
        ReportModel(lambda: draw.gauss()),
    )
    memo = Memo()
    Simulation(given, lambda snapshot: plan(snapshot, memo), watched).run()
    assert any(own != new for _, own, new in seen), "no report came while pods joined"
    assert all(chosen == own for chosen, own, _ in seen)


def test_an_application_of_one_batch_size_cannot_be_learned() -> None:
    with pytest.raises(ValueError, match="resnet: only an application measured at several batch sizes can be learned"):
        learned(scenario([0.0], replace(RESNET, measurements={})))
