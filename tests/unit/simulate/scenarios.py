"""Small scenarios whose outcome can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from charterer.domain.budget import Budget
from charterer.domain.ids import ClassId, Rate
from charterer.domain.job import SpotPolicy, Widths
from charterer.domain.money import Money, Price
from charterer.domain.profile import Profile
from charterer.domain.time import parse_instant
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.world import Policy
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.ground_truth import Application, application_from_speeds
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.simulation import Planner, Simulation

START = parse_instant("2026-06-01T00:00:00Z")
NODE = PoolModel("a100", 4, Price.parse("14400"))
"""Four GPUs for four dollars a second."""
HALVES: Application = application_from_speeds("halves", {1: 1000.0, 2: 500.0, 4: 250.0})
"""Twice the GPUs, half the time."""


def budget(*, amount: str = "1000000000", rate: float | None = None) -> Budget:
    """A budget, at a fixed exchange rate if one is given (dollars a second)."""
    return new_budget(START, Money.parse(amount), None if rate is None else Rate(rate))


def scenario(*arrivals: float, application: Application = HALVES, pool: PoolModel = NODE, **changes: Any) -> Scenario:
    """Jobs of one application that arrive at these seconds."""
    made = Scenario(
        start=START,
        submissions=tuple(Submission(f"j{at}", second, application.name, 1) for at, second in enumerate(arrivals)),
        applications={application.name: application},
        pools=(pool,),
        budget=budget(rate=0.0),
        terms=lambda _: JobTerms(Widths(1, 1, 64), spot=SpotPolicy.ALLOWED),
        restart_seconds=0.0,
    )
    return replace(made, **changes)


def exact(applications: Sequence[Application], restart: float) -> Mapping[ClassId, Profile]:
    """The exact profiles of the applications."""
    return exact_profiles({class_of(application.name): application for application in applications}, restart)


def run(given: Scenario, planner: Policy | Planner | None = None) -> SimulationResult:
    """Simulate with the operator's planner, which knows the true curves."""
    profiles = exact(tuple(given.applications.values()), given.restart_seconds)
    memo = Memo()
    return Simulation(given, planner or (lambda snapshot: plan(snapshot, memo)), ExactKnowledge(profiles)).run()
