"""No node is rented for a job while nodes that are there anyway have the room for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.ids import PoolId, Rate, RentalId
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.plan import Allocate, Plan, Rent
from charterer.domain.pool import Commitment
from charterer.domain.reasons.nodes import JobDemand
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.simulation import Simulation
from tests import lanes
from tests.unit.simulate.scenarios import START

SIZE = 8
WIDTHS = (1, 2, 4, 8, 16)
APPLICATION = Application("even", (1.0,), {"gpu": ({width: width**0.9 / 4000.0 for width in WIDTHS},)})
OWN = PoolId("own")


def some_scenario(draw: Random, amount: Money | None) -> Scenario:
    """A dozen jobs on one to three own nodes beside as many rented ones as are wanted. ``amount``: None for a fixed
    exchange rate."""
    at, submissions = 0.0, []
    for number in range(draw.randint(2, 14)):
        at += draw.choice([0.0, 30.0, draw.uniform(0.0, 3000.0)])
        submissions.append(Submission(f"j{number}", at, "even", draw.choice([1, 2, 4, 8])))
    rate = Rate(draw.choice([1.0, 4.0, 16.0]) / 3600.0) if amount is None else None
    budget = new_budget(START, rate=rate) if amount is None else new_budget(START, amount)
    start = draw.choice([60.0, 300.0])
    own = PoolModel(OWN, SIZE, Price(0), max_nodes=draw.randint(1, 3), committed=Commitment(None, budget.id))
    rented = PoolModel("rented", SIZE, Price.parse("16"), start_seconds=start, max_nodes=1000)
    terms = JobTerms(Widths(1, draw.choice([1, 2, 4]), draw.choice([8, 16])), ResizePolicy.RESTART)
    return Scenario(START, tuple(submissions), {"even": APPLICATION}, (rented, own), budget, lambda _: terms, 30.0)


def own_gpus_left(snapshot: Snapshot, decided: Plan) -> Sequence[int]:
    """The GPUs of each own node that is ready, which no job has after the plan."""
    given = {job.id: job.allocation for job in snapshot.jobs.values()}
    given |= {command.job: command.allocation for command in decided.commands if isinstance(command, Allocate)}
    used = Counter[RentalId]()
    for allocation in [*given.values(), *(old for job in snapshot.jobs.values() for old in job.replaced)]:
        for place in () if allocation is None else allocation.placements:
            used[place.rental] += place.takes
    rentals = snapshot.rentals.values()
    ready = [rental.id for rental in rentals if rental.pool == OWN and rental.phase is RentalPhase.READY]
    return [SIZE - used[name] for name in ready]


def fits(takes: int, left: Sequence[int]) -> bool:
    """Whether a job that takes so many GPUs has the room on these nodes."""
    if takes < SIZE:
        return any(free >= takes for free in left)
    return sum(free == SIZE for free in left) >= takes // SIZE


@pytest.mark.slow
@settings(max_examples=lanes.examples(60), deadline=None)
@given(seed=st.integers(0, 100_000), amount=st.sampled_from([None, "500", "20000"]))
def test_nothing_is_rented_for_a_job_that_own_nodes_have_room_for(seed: int, amount: str | None) -> None:
    scenario = some_scenario(Random(seed), None if amount is None else Money.parse(amount))
    memo, faults = Memo(), list[str]()

    def decide(snapshot: Snapshot) -> Plan:
        decided = plan(snapshot, memo)
        left = own_gpus_left(snapshot, decided)
        for command in decided.commands:
            if not isinstance(command, Rent) or command.pool == OWN:
                continue
            demand = command.reason.facts
            if isinstance(demand, JobDemand) and fits(demand.option.takes, left):
                faults.append(f"{command.rental} is rented for {demand.option}, and own nodes have {left} GPUs")
        return decided

    classes = {class_of(name): application for name, application in scenario.applications.items()}
    knowledge = ExactKnowledge(exact_profiles(classes, scenario.restart_seconds))
    result = Simulation(scenario, decide, knowledge).run()
    assert all(job.finished is not None for job in result.jobs)
    assert faults == []


@pytest.mark.slow
@settings(max_examples=lanes.examples(20), deadline=None)
@given(seed=st.integers(0, 100_000))
def test_without_money_all_jobs_end_on_own_nodes_and_nothing_is_spent(seed: int) -> None:
    scenario = some_scenario(Random(seed), ZERO)
    memo = Memo()
    classes = {class_of(name): application for name, application in scenario.applications.items()}
    knowledge = ExactKnowledge(exact_profiles(classes, scenario.restart_seconds))
    result = Simulation(scenario, lambda snapshot: plan(snapshot, memo), knowledge).run()
    assert all(job.finished is not None for job in result.jobs)
    assert result.spent == ZERO
