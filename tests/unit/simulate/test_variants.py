"""Jobs with variants in a simulated world."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

from charterer.domain.ids import ClassId, Rate
from charterer.domain.job import Widths
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.knowledge import LearnedKnowledge, ReportModel
from charterer.tools.simulator.model.ground_truth import GPU_TYPE, application_from_speeds, with_step_times
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of
from charterer.tools.simulator.simulation import Simulation
from tests.unit.simulate.scenarios import NODE, budget, run, scenario

DISTRIBUTED = application_from_speeds("gnn", {4: 4000.0, 8: 2500.0})
GRAPH = replace(DISTRIBUTED, variants={"outofcore": application_from_speeds("gnn", {1: 3000.0})})
POOL = PoolModel("a100", 1, replace(NODE.hourly, micros_per_hour=3_600_000_000), GPU_TYPE)
"""Nodes of one GPU for a dollar a second."""


def graphs(*arrivals: float, rate: float = 0.0) -> Scenario:
    return scenario(
        *arrivals,
        application=with_step_times(GRAPH, 30_000.0),
        pool=POOL,
        budget=replace(budget(rate=rate), fixed_rate=Rate(rate)),
        terms=lambda _: JobTerms(Widths(4, 4, 8)),
        restart_seconds=10.0,
    )


def learned(given: Scenario) -> tuple[SimulationResult, LearnedKnowledge]:
    draw = random.Random(1)
    by_class = {class_of(name): application for name, application in given.applications.items()}
    reports = ReportModel(lambda: draw.gauss(0.0, 1.0), seconds=30.0)
    knowledge = LearnedKnowledge(by_class, {GPU_TYPE: 1}, 10.0, given.budget.id, reports, declare_batches=False)
    return Simulation(given, partial(plan, memo=Memo()), knowledge).run(), knowledge


def test_a_job_takes_as_long_as_its_variant_does() -> None:
    (job,) = run(graphs(0.0)).jobs
    assert [gpus for _, gpus in job.widths] == [1, 0]
    assert job.completion_seconds == 3010.0


def test_where_time_is_dear_the_distributed_program_is_used() -> None:
    (job,) = run(graphs(0.0, rate=100.0)).jobs
    assert [gpus for _, gpus in job.widths] == [8, 0]


def test_a_variant_of_which_nothing_is_known_is_tried_by_one_job_and_then_used_by_all() -> None:
    result, knowledge = learned(graphs(0.0, 600.0, 6000.0))
    began = [job.widths[0][1] for job in result.jobs]
    assert began[0] == 4
    assert began[-1] == 1
    assert knowledge.learner.state(ClassId("team", "gnn.outofcore")).reports > 10
    assert set(knowledge.profiles()) == {ClassId("team", "gnn"), ClassId("team", "gnn.outofcore")}
