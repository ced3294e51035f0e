"""A budget with money left over: what it does not buy, and whom it does not let wait."""

from __future__ import annotations

import pytest

from charterer.domain.ids import JobId
from charterer.domain.job import ResizePolicy
from charterer.domain.plan import ReasonCode, Rent
from charterer.domain.profile import PowerLaw
from charterer.policy.planner import plan
from tests.scenarios.policy.stories import placed, releases, why
from tests.worlds import World


def test_thirty_seconds_are_not_bought_for_a_hundred_dollars() -> None:
    """The same machine in two zones, at three times the price but ready 30 s earlier."""
    world = World()
    world.budget(amount="20000")
    world.pool("cheap", gpus=4, price="12.80", start_seconds=150, gpu_type="a100")
    world.pool("dear", gpus=4, price="40", start_seconds=120, gpu_type="a100")
    world.job("only", gpus=4)
    decided = plan(world.snapshot())
    assert [command.pool for command in decided.commands if isinstance(command, Rent)] == ["cheap"]
    (verdict,) = decided.budgets.values()
    assert verdict.rate is not None
    assert verdict.rate * 3600 == pytest.approx(5 * 40)


def test_a_new_budget_starts_two_jobs_that_it_can_pay_many_times_over_at_once() -> None:
    world = World()
    world.budget(amount="5000")
    world.pool("a100", gpus=4, price="12.80")
    for name in ("one", "two"):
        world.job(name, gpus=4)
    world.carry_out(plan(world.snapshot()))
    world.everything_starts()
    decided = plan(world.snapshot())
    assert placed(decided) == {"one": 4, "two": 4}
    (verdict,) = decided.budgets.values()
    assert verdict.feasible


def test_jobs_wait_for_money_when_they_and_those_before_them_cost_more_than_may_be_committed() -> None:
    """Four hours of four GPUs cost $51.73 each, start-up included; what $150 have for ten days pays for one."""
    world = World()
    world.budget(amount="150")
    world.pool("a100", gpus=4, price="12.80")
    for name in ("one", "two", "three"):
        world.job(name, gpus=4)
    decided = plan(world.snapshot())
    assert len([command for command in decided.commands if isinstance(command, Rent)]) == 1
    (verdict,) = decided.budgets.values()
    assert not verdict.feasible
    assert why(decided, "two") is ReasonCode.WAITING_FOR_BUDGET
    three = decided.jobs[JobId("three")].reason.message  # equally old: in the order of their names
    assert "it costs about $51.73, and the budget may commit only $48.27 to jobs now" in three


def test_a_paused_pool_keeps_what_runs_and_rents_nothing_more() -> None:
    world = World()
    world.budget()
    world.pool("a100", gpus=4, price="12.80")
    world.pool("dear", gpus=4, price="20", gpu_type="a100")
    world.job("runs", gpus=4)
    world.rental("a100")
    world.runs_on("runs", "a100-1", gpus=4)
    world.pool("a100", gpus=4, price="12.80", max_nodes=0)
    world.job("new", gpus=4)
    decided = plan(world.snapshot())
    assert [command.pool for command in decided.commands if isinstance(command, Rent)] == ["dear"]
    assert [command for command in decided.commands if not isinstance(command, Rent)] == []


@pytest.mark.parametrize("starts", [180, 900])
def test_the_nodes_of_a_first_batch_are_taken_as_they_were_rented_although_they_cost_money_while_they_started(
    starts: int,
) -> None:
    world = World()
    world.budget(amount="9000", opening="0")
    world.pool("a100", gpus=8, price="16", start_seconds=starts, max_nodes=100)
    for number in range(8):
        world.profile(f"class-{number}", PowerLaw(0.55 + 0.05 * number, 1.0), work_hours=12)
        world.job(f"job-{number}", gpus=(1, 2, 16), profile=f"class-{number}", resize=ResizePolicy.RESTART)
    wanted = plan(world.snapshot())
    world.carry_out(wanted)
    for name in tuple(world.rentals):
        world.launches(name)
    world.passes(float(starts))
    world.everything_starts()
    decided = plan(world.snapshot())
    widths = {name: verdict.option.gpus for name, verdict in wanted.jobs.items() if verdict.option is not None}
    assert placed(decided) == widths
    assert releases(decided) == {}
