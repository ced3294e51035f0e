"""Too little money, hard limits, and budgets beside each other, as short stories."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, InstanceId, JobId, PoolId
from charterer.domain.job import ResizePolicy
from charterer.domain.plan import ReasonCode, Rent
from charterer.domain.pool import Notice
from charterer.domain.profile import Amdahl, PowerLaw
from charterer.domain.time import after, month_bounds
from charterer.policy import plan
from tests.lanes import repeats
from tests.scenarios.policy.stories import placed, releases, rents, simple, why
from tests.worlds import World

COARSE, FINE = range(1_000, 30_000, 2_000), range(1_000, 30_000, 250)
"""Amounts in dollars."""


def test_a_budget_too_small_for_all_runs_the_cheapest_jobs_first_and_the_others_queue() -> None:
    world = simple(amount="2880")  # $8/h: 4 GPUs
    world.job("long", gpus=4, hours_left=500.0, age_seconds=100)
    world.job("short", gpus=4, hours_left=1.0)
    decided = plan(world.snapshot())
    assert rents(decided) == ["a100-1"]
    assert why(decided, "short") is ReasonCode.WAITING_FOR_NODE
    assert why(decided, "long") is ReasonCode.WAITING_FOR_BUDGET
    assert not decided.budgets[BudgetId("research")].feasible


def test_a_hard_limit_holds_as_it_is_written_in_the_month_in_which_a_budget_is_made() -> None:
    """An hour before the month's end $2 of $1,500 count: enough for a job of the next days if no limit is met."""
    world = World(now=after(month_bounds("UTC", World().now)[1], -3_600.0))
    budget = world.budget(amount="1500", hard_limit="1500", opening=None)
    world.pool(gpus=8, price="16")
    world.job("one", gpus=8, hours_left=3.0)
    assert budget.own_aim.dollars == pytest.approx(1500 / 720)
    assert rents(plan(world.snapshot())) == ["a100-1"]
    world.budgets[budget.id] = replace(budget, hard_limit=budget.own_aim)
    assert why(plan(world.snapshot()), "one") is ReasonCode.HARD_LIMIT


def test_a_job_dearer_than_the_allowed_rate_still_runs_when_nothing_else_does() -> None:
    world = simple(amount="2880")
    world.job("big", gpus=8)
    assert rents(plan(world.snapshot())) == ["a100-1"]


def test_the_first_job_of_a_class_with_a_known_rate_keeps_its_node_when_another_begins_beside_it() -> None:
    world = simple(amount="500")
    world.pool("h100", price="40")
    world.profile("rl", PowerLaw(0.8, 1.0), arrivals_per_hour=0.5, work_hours=4)
    world.rental("h100")
    world.job("first", gpus=1, profile="rl", gpu_types=("a100",))
    world.job("beside", gpus=1, gpu_types=("h100",), hours_left=2.0)
    decided = plan(world.snapshot())
    assert rents(decided) == ["a100-1"]
    assert "beside" in placed(decided)
    world.carry_out(decided)
    after_it = plan(world.snapshot())
    assert releases(after_it) == {}
    assert why(after_it, "first") is ReasonCode.WAITING_FOR_NODE


def test_a_class_whose_only_run_is_stopped_in_this_plan_has_its_next_first_job() -> None:
    world = simple(amount="500")
    world.profile("rl", PowerLaw(0.8, 1.0), arrivals_per_hour=0.5, work_hours=4)
    for name, profile, most in (("beside", None, None), ("spent", "rl", "3")):
        node = world.rental().id
        world.job(name, gpus=8, profile=profile, hours_left=10.0, max_cost=most)
        world.runs_on(name, node, gpus=8)
    world.passes(3600.0)
    world.job("next", gpus=8, profile="rl")
    decided = plan(world.snapshot())
    assert placed(decided) == {"spent": 0}
    assert why(decided, "next") is ReasonCode.WAITING_FOR_NODE


def test_a_job_without_options_that_runs_is_not_the_first_of_a_class() -> None:
    world = simple(amount="500")
    world.pool("h100", price="40")
    world.profile("rl", PowerLaw(0.8, 1.0), arrivals_per_hour=0.5, work_hours=4)
    world.job("alone", gpus=8, gpu_types=("h100",))
    world.runs_on("alone", world.rental("h100").id, gpus=8)
    world.jobs[JobId("alone")] = replace(world.jobs[JobId("alone")], gpu_types=("b200",))
    world.job("next", gpus=8, profile="rl", gpu_types=("a100",))
    assert why(plan(world.snapshot()), "next") is ReasonCode.WAITING_FOR_NODE


def test_a_job_that_waits_for_money_is_told_what_it_needs_and_those_behind_it_that_they_wait_too() -> None:
    world = simple(amount="1440")  # $4/h for the half of the month that is left
    world.profile("rl", PowerLaw(0.8, 1.0), arrivals_per_hour=0.5, work_hours=4)
    for name, hours in (("first", 1.0), ("second", 2.0), ("third", 3.0)):
        world.job(name, gpus=8, profile="rl", hours_left=hours)
    said = {str(name): verdict.reason.message for name, verdict in plan(world.snapshot()).jobs.items()}
    wanted = "8 GPUs on a100 wanted: "
    assert said["second"] == f"{wanted}it costs $16.00/h, other jobs $16.00/h, and the budget may spend $4.00/h now"
    assert said["third"] == f"{wanted}jobs before it in the queue wait for money too"


def test_a_job_that_loses_its_node_and_has_no_money_for_another_keeps_none_from_those_before_it_in_the_queue() -> None:
    world = simple(amount="3000")  # $8.13/h
    world.profile("rl", PowerLaw(0.8, 1.0), arrivals_per_hour=5, work_hours=4)
    for _ in range(3):
        world.rental()
    for name, gpus, node in (("stays", 1, "a100-1"), ("dear", 8, "a100-2")):
        world.job(name, gpus=gpus, profile="rl", hours_left=90.0, age_seconds=10.0)
        world.runs_on(name, node, gpus=gpus)
    world.job("small", gpus=2, profile="rl", hours_left=1.0, resize=ResizePolicy.NEVER)
    world.notices[PoolId("a100")] = (Notice(InstanceId("i-a100-2"), None),)
    decided = plan(world.snapshot())
    assert placed(decided) == {"dear": 0, "small": 2}
    assert why(decided, "dear") is ReasonCode.WAITING_FOR_BUDGET


def test_a_job_of_a_class_without_a_rate_is_told_what_it_costs_and_what_may_be_committed() -> None:
    world = simple(amount="480")  # of which ten days may be committed
    for name, hours in (("first", 10.0), ("second", 20.0)):
        world.job(name, gpus=8, hours_left=hours)
    said = plan(world.snapshot()).jobs[JobId("second")].reason.message
    assert re.fullmatch(
        r"8 GPUs .*: it costs about \$3\d\d\.\d\d, and the budget may commit only \$\d+\.\d\d to jobs now", said
    )


def test_nothing_is_started_when_the_money_is_gone() -> None:
    world = simple(amount="1000", spent="1000")
    world.job("train", gpus=8)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert why(decided, "train") is ReasonCode.WAITING_FOR_BUDGET


def test_the_hourly_limit_is_kept_at_worst_prices() -> None:
    world = simple(max_hourly="60")
    world.pool("a100", price="16", worst="30")
    for number in range(3):
        world.job(f"j{number}", gpus=8, age_seconds=10 - number)
    decided = plan(world.snapshot())
    assert rents(decided) == ["a100-1", "a100-2"]
    assert why(decided, "j2") is ReasonCode.HOURLY_LIMIT


def test_a_lowered_hourly_limit_releases_just_enough() -> None:
    world = simple(max_hourly="16")
    for number in range(2):
        world.rental()
        world.job(f"j{number}", gpus=8)
        world.runs_on(f"j{number}", f"a100-{number + 1}", gpus=8)
    decided = plan(world.snapshot())
    assert list(releases(decided).values()) == [ReasonCode.HOURLY_LIMIT]
    assert list(placed(decided).values()) == [0]
    world.carry_out(decided)
    assert plan(world.snapshot()).commands == ()


def test_everything_is_released_just_before_the_hard_limit_and_the_instant_is_known() -> None:
    world = simple(hard_limit="100")
    world.rental(age=60.0)
    world.job("train", gpus=8, grace_seconds=60)
    world.runs_on("train", "a100-1", gpus=8)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert decided.again_at is not None
    world.now = decided.again_at
    world.passes(1.0)
    decided = plan(world.snapshot())
    assert releases(decided) == {"a100-1": ReasonCode.HARD_LIMIT}
    assert placed(decided) == {"train": 0}
    assert why(decided, "train") is ReasonCode.HARD_LIMIT
    verdict = decided.budgets[BudgetId("research")]
    assert verdict.spent.dollars > 97
    assert verdict.committed.dollars <= 100


def test_a_job_whose_grace_could_break_the_hard_limit_is_not_started_on_a_ready_node() -> None:
    world = simple(hard_limit="20")
    world.pool("a100", billing_minimum=3600)
    world.rental(age=600.0)
    world.job("hasty", gpus=4, grace_seconds=0, age_seconds=5)
    world.job("slow", gpus=4, grace_seconds=3600)
    decided = plan(world.snapshot())
    assert placed(decided) == {"hasty": 4}
    assert why(decided, "slow") is ReasonCode.HARD_LIMIT


def test_a_deleted_budget_stops_its_jobs_and_ends_its_nodes() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    budget = world.budgets[BudgetId("research")]
    world.budgets[budget.id] = replace(budget, deleting=True)
    decided = plan(world.snapshot())
    assert releases(decided) == {"a100-1": ReasonCode.BUDGET_DELETED}
    assert placed(decided) == {"train": 0}
    assert rents(decided) == []


def test_a_clock_before_the_budgets_period_starts_nothing_and_ends_what_is_idle() -> None:
    world = simple()
    world.rental()
    world.rental()
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    world.job("next", gpus=8)
    budget = world.budgets[BudgetId("research")]
    assert budget.balance is not None
    balance = replace(budget.balance, period_start=after(world.now, 86_400.0))
    world.budgets[budget.id] = replace(budget, balance=balance)
    decided = plan(world.snapshot())
    assert releases(decided).keys() == {"a100-2"}
    assert placed(decided) == {}
    assert rents(decided) == []
    assert why(decided, "next") is ReasonCode.CLOCK_BEHIND


def test_an_observing_budget_says_what_it_would_do() -> None:
    world = World()
    world.budget(mode=Mode.OBSERVE)
    world.pool()
    world.job("train", gpus=8)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert [type(command) for command in decided.observed_commands] == [Rent]
    assert why(decided, "train") is ReasonCode.OBSERVE_ONLY


def test_jobs_never_share_a_node_with_another_budgets_jobs() -> None:
    world = simple()
    world.budget("prod")
    world.rental(budget="prod")
    world.job("ours", gpus=4)
    world.job("theirs", gpus=4, budget="prod")
    decided = plan(world.snapshot())
    assert placed(decided) == {"theirs": 4}
    assert rents(decided) == ["a100-2"]


def test_the_budget_that_pays_most_for_a_second_gets_the_last_node() -> None:
    world = simple(amount="130")
    world.budget("rich", amount="600000")
    world.pool("a100", max_nodes=1)
    world.job("poor", gpus=(1, 4, 8), profile="sft")
    world.job("urgent", gpus=(1, 4, 8), profile="sft", budget="rich")
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=40)
    decided = plan(world.snapshot())
    assert [command.budget for command in decided.commands if isinstance(command, Rent)] == ["rich"]


def test_the_first_day_of_a_month_is_not_charged_for_the_last_month() -> None:
    """Between the turn of the month and the write that opens the new period, θ* is already the new month's."""
    world = simple(spent="60000")
    balance = world.budgets[BudgetId("research")].balance
    assert balance is not None
    world.job("train", gpus=8)
    world.passes(15 * 86_400 + 60)
    assert rents(plan(world.snapshot())) == ["a100-1"]


@pytest.mark.parametrize("gpus", [1, 4, 8])
@pytest.mark.parametrize("dollars", [*COARSE, *repeats(*(amount for amount in FINE if amount not in COARSE))])
def test_a_node_rented_while_jobs_queue_for_money_is_not_given_back_at_once(dollars: int, gpus: int) -> None:
    """Renting makes the rate that is still allowed smaller, which must not undo it: each turn would cost a start-up."""
    world = simple(amount=str(dollars))
    for number in range(6):
        world.job(f"j{number}", gpus=gpus, profile="sft", resize=ResizePolicy.NEVER)
    for _ in range(8):
        decided = plan(world.snapshot())
        assert not releases(decided)
        world.carry_out(decided)
        world.everything_starts()


def test_a_budget_that_observes_names_no_node_that_it_would_only_rent() -> None:
    world = World()
    world.budget(mode=Mode.OBSERVE)
    world.pool(gpus=8, price="16")
    world.job("train", gpus=16)
    told = plan(world.snapshot()).jobs[JobId("train")].reason.message
    assert told == "nothing is done in mode Observe: 16 GPUs on a100 wanted: 2 nodes would be rented for it"
