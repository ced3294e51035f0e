"""What is odd in a job that runs all the same is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.api.decode import DecodedJob
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.observe import observe
from charterer.domain.budget import JobShare
from charterer.domain.cost_row import CostRecording
from charterer.domain.ids import ClassId
from charterer.domain.job import CostLimit, Variant
from charterer.domain.money import Money
from charterer.domain.profile import Amdahl, ThroughputTable
from tests.unit.cli.worlds import seen_of
from tests.worlds import NAMESPACE, World


@pytest.mark.parametrize(
    ("priority_class", "weights", "told"),
    [
        ("urgnet", (("urgent", 4.0),), True),
        ("urgent", (("urgent", 4.0),), False),
        ("", (("urgent", 4.0),), False),
        ("urgnet", (), False),
    ],
)
def test_a_job_has_the_weight_of_its_priority_class_and_is_told_when_that_has_none(
    priority_class: str, weights: tuple[tuple[str, float], ...], told: bool
) -> None:
    world = World()
    budget = world.budget()
    world.budgets[budget.id] = replace(budget, weights=weights)
    job = world.job("train", gpus=4)
    state = replace(seen_of(world), jobs={ObjectKey(NAMESPACE, "train"): DecodedJob(job, priority_class, "")})
    seen = observe(state, world.now)
    assert [problem.field for problem in seen.problems] == (["spec.priorityClassName"] if told else [])
    assert seen.jobs[job.id].weight == dict(weights).get(priority_class, 1.0)
    assert all("has no weight in GPUBudget research" in problem.message for problem in seen.problems)


@pytest.mark.parametrize(("own", "default", "counts"), [(None, "5", "5"), ("9", "5", "9"), ("9", None, "9")])
def test_a_job_without_a_max_cost_has_the_one_of_its_budget_and_says_so(
    own: str | None, default: str | None, counts: str
) -> None:
    world = World()
    budget = world.budget()
    world.budgets[budget.id] = replace(budget, job_max_cost=None if default is None else Money.parse(default))
    job = world.job("train", gpus=4, max_cost=own)
    limit = observe(seen_of(world), world.now).jobs[job.id].cost_limit
    assert limit == CostLimit(Money.parse(counts), None if own else budget.id)


@pytest.mark.parametrize(("users", "share"), [(True, "ann"), (False, "team")])
def test_a_job_is_of_the_first_share_that_has_it_and_of_no_users_where_nobody_knows_who_made_it(
    users: bool, share: str
) -> None:
    world = World()
    budget = world.budget()
    shares = JobShare("ann", 0.2, user="ann@example.com"), JobShare("team", 0.3, namespace=NAMESPACE)
    world.budgets[budget.id] = replace(budget, job_shares=shares)
    job = replace(world.job("train", gpus=4), user="ann@example.com")
    state = replace(
        seen_of(world),
        jobs={ObjectKey(NAMESPACE, "train"): DecodedJob(job, "", "")},
        cost_recording=CostRecording(users=users),
    )
    assert observe(state, world.now).jobs[job.id].share == share


def test_a_job_is_told_which_variables_of_its_template_are_misleading() -> None:
    world = World()
    job = world.job("train", gpus=4)
    odd = DecodedJob(job, "", "", variables="MASTER_ADDR is the same for every pod")
    (problem,) = observe(replace(seen_of(world), jobs={ObjectKey(NAMESPACE, "train"): odd}), world.now).problems
    assert (problem.reason, problem.name) == ("MisleadingVariables", "train")
    assert (problem.field, problem.message) == ("spec.template.spec.containers[0].env", odd.variables)


def test_a_job_whose_profile_is_misspelled_is_told_which_one_may_be_meant() -> None:
    world = World()
    world.profile("vit", Amdahl(0.97, 1.0))
    job = replace(world.job("train", gpus=4), class_id=ClassId(NAMESPACE, "vti"))
    state = replace(seen_of(world), jobs={ObjectKey(NAMESPACE, "train"): DecodedJob(job, "", "vti")})
    (problem,) = observe(state, world.now).problems
    assert problem.message.startswith("no SpeedupProfile 'vti' in namespace team: did you mean vit? Create it, correct")


@pytest.mark.parametrize(
    ("points", "told"),
    [
        (((1, 300.0),), ""),
        (((1, 0.5),), "a GPU of a100 does 0.5 samples a second, and 155 by SpeedupProfile gnn, which is more than 100"),
        (((2, 300.0), (4, 500.0)), "it may have 1 GPUs, and SpeedupProfile gnn.one has curves at 2 to 4 only: correct"),
    ],
)
def test_a_job_is_told_which_variants_curves_contradict_and_what_to_do(
    points: tuple[tuple[int, float], ...], told: str
) -> None:
    world = World()
    world.budget()
    world.pool(gpus=8)
    world.profile("gnn", ThroughputTable(((4, 620.0), (8, 1000.0))))
    other = world.profile("gnn.one", ThroughputTable(points))
    world.profiles[other.id] = replace(other, declared=other.phases[0].curves)
    job = replace(world.job("train", gpus=(4, 8, 8), profile="gnn"), variants=(Variant("one", other.id, 1, 1, 1),))
    state = replace(seen_of(world), jobs={ObjectKey(NAMESPACE, "train"): DecodedJob(job, "", "gnn")})
    problems = observe(state, world.now).problems
    assert [(each.field, each.reason) for each in problems] == (
        [("spec.variants[0]", "VariantContradicts")] if told else []
    )
    assert all(told in each.message and each.message.startswith("variant one: ") for each in problems)
