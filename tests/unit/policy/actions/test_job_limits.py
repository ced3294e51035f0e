"""What a job's owner and its budget's owner bound: when it ends, what it costs, when it moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.budget import MoveLimits
from charterer.domain.ids import BudgetId, JobId
from charterer.domain.job import Job, RunOutcome, RunRecord
from charterer.domain.money import Money
from charterer.domain.plan import Allocate, Plan, ReasonCode
from charterer.domain.profile import Amdahl
from charterer.domain.reports import Progress
from charterer.domain.time import QuietHours, after, seconds_between
from charterer.policy.planner import plan, solve_budgets
from tests import lanes
from tests.worlds import World

JOB = JobId("train")


def world(amount: str = "6000", *, left: float = 40.0) -> World:
    """A budget that gives its one job less than all it could use."""
    made = World()
    made.budget(amount=amount)
    made.pool(gpus=8, price="16")
    made.profile("sft", Amdahl(0.97, 1.0), work_hours=left)
    made.job("train", gpus=(1, 8, 64), profile="sft")
    return made


def aims(made: World, **fields: Any) -> World:
    made.jobs[JOB] = replace(made.jobs[JOB], **fields)
    return made


def starts(made: World) -> Plan:
    made.carry_out(plan(made.snapshot()))
    made.everything_starts()
    decided = plan(made.snapshot())
    made.carry_out(decided)
    made.everything_starts()
    return decided


def option_of(made: World) -> float:
    verdict = plan(made.snapshot()).jobs[JOB].option
    return 0.0 if verdict is None else verdict.speed


# --- targets ----------------------------------------------------------------------------------------------------------


def test_a_target_gets_the_least_that_meets_it() -> None:
    plain = option_of(world("3000"))
    aimed = option_of(aims(world("3000"), target_completion=after(World().now, 2.3 * 3600.0)))
    assert aimed > plain
    assert 40 / aimed < 2.3
    assert option_of(aims(world("3000"), target_completion=after(World().now, 400 * 3600.0))) == plain


def test_a_target_that_no_path_meets_counts_as_none_and_is_said_so() -> None:
    made = aims(world("6000"), target_completion=after(World().now, 600.0))
    assert option_of(made) == option_of(world("6000"))
    verdict = starts(made).jobs[JOB]
    assert (
        "cannot be met, so the job is planned as one without a target: the fastest path ends" in verdict.reason.message
    )
    assert verdict.target is not None
    assert not verdict.target.counts


def test_a_target_that_is_missed_by_little_still_counts() -> None:
    impossible = plan(aims(world("3000"), target_completion=after(World().now, 1.0)).snapshot()).jobs[JOB].target
    assert impossible is not None
    late = aims(world("3000"), target_completion=after(World().now, 0.97 * impossible.fastest_seconds))
    verdict = plan(late.snapshot()).jobs[JOB]
    assert verdict.target is not None
    assert (verdict.target.met, verdict.target.counts) == (False, True)
    assert option_of(late) > option_of(world("3000"))


def test_a_job_that_falls_behind_its_target_for_good_moves_once_and_then_rests() -> None:
    made = aims(world("3000"), target_completion=after(World().now, 8 * 3600.0))
    starts(made)
    fast, runs = option_of(made), set()
    for turn in range(12):
        made.passes(600.0)
        job = made.jobs[JOB]
        assert job.allocation is not None
        done = 0.0 if turn < 6 else seconds_between(job.created, made.now) * job.allocation.option.speed
        made.jobs[JOB] = replace(job, remaining=40 * 3600 - 0.5 * done * (1.02 if turn % 2 else 0.98))
        made.carry_out(plan(made.snapshot()))
        made.everything_starts()
        runs.add(made.jobs[JOB].last_run)
    assert len(runs) <= 3
    assert option_of(made) <= fast


def test_a_target_out_of_reach_makes_no_running_job_narrower() -> None:
    made = world("6000")
    made.job("late", gpus=(1, 8, 64), profile="sft")
    without = made.snapshot()
    late = JobId("late")
    made.jobs[late] = replace(made.jobs[late], target_completion=after(made.now, 600.0))
    with_target = plan(made.snapshot())
    assert [type(command) for command in with_target.commands] == [type(command) for command in plan(without).commands]
    assert with_target.jobs[JOB].option == plan(without).jobs[JOB].option


def test_a_target_that_has_passed_changes_nothing() -> None:
    assert option_of(aims(world("3000"), target_completion=after(World().now, -1.0))) == option_of(world("3000"))


def test_what_a_target_takes_is_taken_from_the_others() -> None:
    made = world("20000")
    made.profile("other", Amdahl(0.97, 1.0), work_hours=40)
    made.job("other", gpus=(1, 8, 64), profile="other")
    before = solve_budgets(made.snapshot())[0].allowed
    aims(made, target_completion=after(made.now, 2.3 * 3600.0))
    assert solve_budgets(made.snapshot())[0].allowed < before


@settings(max_examples=lanes.examples(25))
@given(st.floats(2, 60), st.floats(2, 60), st.sampled_from(["100", "3000", "6000"]))
def test_a_tighter_target_in_reach_never_makes_a_job_slower(one: float, other: float, amount: str) -> None:
    worlds = [
        aims(world(amount), target_completion=after(World().now, hours * 3600.0)) for hours in sorted((one, other))
    ]
    verdict = plan(worlds[0].snapshot()).jobs[JOB]
    tight, loose = map(option_of, worlds)
    assert tight >= loose or (verdict.target is not None and not verdict.target.counts)


def test_a_target_does_not_lift_the_hourly_limit() -> None:
    made = aims(world("6000"), target_completion=after(World().now, 4 * 3600.0))
    budget = made.budgets[BudgetId("research")]
    quote = next(iter(made.pools.values())).quote
    assert quote is not None
    made.budgets[budget.id] = replace(budget, max_hourly_rate=quote.worst)
    starts(made)
    assert len(made.rentals) <= 1


def test_reports_that_jitter_do_not_send_a_job_to_and_fro() -> None:
    made = aims(world("3000"), target_completion=after(World().now, 8 * 3600.0))
    starts(made)
    runs = set()
    for turn in range(12):
        made.passes(600.0)
        job = made.jobs[JOB]
        assert job.allocation is not None
        speed = job.allocation.option.speed
        left = 40 * 3600 - seconds_between(job.created, made.now) * speed
        made.jobs[JOB] = replace(job, remaining=left * (1.02 if turn % 2 else 0.98))
        made.carry_out(plan(made.snapshot()))
        made.everything_starts()
        runs.add(made.jobs[JOB].last_run)
    assert len(runs) <= 2


# --- cost -------------------------------------------------------------------------------------------------------------


def test_a_job_that_cannot_be_done_for_its_max_cost_is_not_started() -> None:
    decided = plan(aims(world(), max_cost=Money.parse("5")).snapshot())
    assert not decided.commands
    assert decided.jobs[JOB].reason.code is ReasonCode.MAX_COST
    for word in ("maxCost", "5", "cheapest way", "or more to start it"):
        assert word in decided.jobs[JOB].reason.message


def test_a_job_of_unknown_size_is_not_started_if_what_its_class_leads_to_expect_is_above_its_max_cost() -> None:
    """Ten hours of a node of $16, as another job of its class has left; nothing is measured yet."""

    def starts(dollars: str) -> Plan:
        made = World()
        made.budget()
        made.pool()
        made.rental()
        made.job("mate", gpus=8, profile="new", hours_left=10.0)
        made.runs_on("mate", "a100-1", gpus=8)
        made.job("train", gpus=8, profile="new", max_cost=dollars)
        return plan(made.snapshot())

    refused = starts("100").jobs[JOB]
    assert (refused.option, refused.reason.code) == (None, ReasonCode.MAX_COST)
    assert "spec.maxCost is $100.00, and the cheapest way to finish (8 GPUs on a100) needs $161." in (
        refused.reason.message
    )
    assert starts("200").jobs[JOB].reason.code is ReasonCode.WAITING_FOR_NODE


def test_a_running_job_is_stopped_before_its_max_cost_is_reached_and_not_started_again() -> None:
    made = aims(world(), max_cost=Money.parse("200"))
    starts(made)
    job = made.jobs[JOB]
    assert job.allocation is not None
    price = job.allocation.option.price.dollars_per_second
    for _ in range(10_000):
        decided = plan(made.snapshot())
        stops = [
            command for command in decided.commands if isinstance(command, Allocate) and command.allocation is None
        ]
        if stops:
            break
        assert decided.again_at is not None
        made.passes(seconds_between(made.now, decided.again_at))
        made.jobs[JOB] = replace(made.jobs[JOB], remaining=40 * 3600.0)
    assert stops[0].reason.code is ReasonCode.MAX_COST
    spent = seconds_between(made.jobs[JOB].created, made.now) * price
    assert spent > 150
    assert spent + price * (job.grace_seconds + 180) <= 200
    made.carry_out(decided)
    made.stops("train")
    made.everything_starts()
    again = plan(made.snapshot())
    assert not any(isinstance(command, Allocate) for command in again.commands)
    assert again.jobs[JOB].reason.code is ReasonCode.MAX_COST


def test_a_job_whose_size_nobody_knows_starts_if_it_can_train_for_a_while_before_it_is_stopped() -> None:
    made = World()
    made.budget(amount="6000")
    made.pool(gpus=8, price="16")
    made.job("train", gpus=(8, 8, 8))
    entry = (made.pools[next(iter(made.pools))].start_seconds + 30) * 16 / 3600
    least = entry + 16 / 3600 * (600 + made.jobs[JOB].grace_seconds + 240)
    assert (
        starts(aims(made, max_cost=Money.parse(f"{least + 0.01:.2f}"))).jobs[JOB].reason.code is not ReasonCode.MAX_COST
    )
    refused = starts(aims(made, max_cost=Money.parse(f"{least - 0.01:.2f}"), allocation=None)).jobs[JOB].reason
    assert refused.code is ReasonCode.MAX_COST
    assert "training for 600 s (8 GPUs on a100) needs" in refused.message


@settings(max_examples=lanes.examples(25))
@given(st.integers(50, 800), st.integers(50, 800))
def test_a_smaller_max_cost_never_makes_a_job_dearer(one: int, other: int) -> None:
    def cost(dollars: int) -> float:
        option = plan(aims(world("60000"), max_cost=Money.parse(str(dollars))).snapshot()).jobs[JOB].option
        return 0.0 if option is None else option.price.dollars_per_second / option.speed

    small, large = sorted((one, other))
    assert cost(small) <= cost(large) + 1e-9


def test_max_cost_wins_over_a_target() -> None:
    target = after(World().now, 4 * 3600.0)
    free = option_of(aims(world("3000"), target_completion=target))
    capped = aims(world("3000"), target_completion=target, max_cost=Money.parse("95"))
    assert 0 < option_of(capped) < free


# --- moves ------------------------------------------------------------------------------------------------------------


def wants_to_move(limits: MoveLimits) -> World:
    made = world("60000")
    made.rental()
    made.runs_on("train", "a100-1", gpus=1)
    budget = made.budgets[BudgetId("research")]
    made.budgets[budget.id] = replace(budget, moves=limits)
    return made


def moved(made: World) -> Job:
    for _ in range(2):
        made.carry_out(plan(made.snapshot()))
        made.everything_starts()
    return made.jobs[JOB]


def test_a_move_that_pays_is_made_and_remembered() -> None:
    job = moved(wants_to_move(MoveLimits()))
    assert job.last_run > 1
    assert job.moves


@pytest.mark.parametrize("limits", [MoveLimits(0), MoveLimits(None, (QuietHours(0, 120),))])
def test_no_job_is_moved_where_the_limits_forbid_it(limits: MoveLimits) -> None:
    made = wants_to_move(limits)
    decided = plan(made.snapshot())
    assert not decided.commands
    assert "would pay, but" in decided.jobs[JOB].reason.message


def test_the_planner_wakes_when_the_quiet_hours_end_and_moves_then() -> None:
    made = wants_to_move(MoveLimits(None, (QuietHours(0, 120),)))
    again = plan(made.snapshot()).again_at
    assert again == after(made.now, 7200.0)
    made.passes(7200.0)
    assert moved(made).last_run > 1


def came_from(gpus: int) -> World:
    """It was moved for gain to where it wants away from."""
    made = wants_to_move(MoveLimits())
    job = made.jobs[JOB]
    assert job.allocation is not None
    since = made.now
    allocation = replace(job.allocation, since=since)
    record = RunRecord(1, RunOutcome.STOPPED, replace(allocation.option, gpus=gpus), (), after(since, -60.0), since, "")
    made.jobs[JOB] = replace(job, allocation=allocation, moves=(since,), records=(record,))
    return made


def test_a_move_that_takes_back_the_last_one_waits_until_that_is_worth_it() -> None:
    made = came_from(8)
    decided = plan(made.snapshot())
    assert not decided.commands
    assert "would pay, but the job came from 8 GPUs" in decided.jobs[JOB].reason.message
    assert decided.again_at is not None
    waits = seconds_between(made.now, decided.again_at)
    assert 0.0 < waits < 600.0
    made.passes(max(waits, 300.0))
    assert moved(made).moves[1:]


def test_a_move_to_another_node_in_between_does_not_make_it_sooner() -> None:
    made = came_from(8)
    job = made.jobs[JOB]
    assert job.allocation is not None
    waits = plan(made.snapshot()).again_at
    here, since = job.allocation.option, after(made.now, 30.0)
    record = RunRecord(2, RunOutcome.STOPPED, here, (), made.now, since, "")
    allocation = replace(job.allocation, since=since)
    made.jobs[JOB] = replace(job, allocation=allocation, moves=(*job.moves, since), records=(*job.records, record))
    made.passes(30.0)
    decided = plan(made.snapshot())
    assert not decided.commands
    assert decided.again_at == waits


def test_a_move_that_goes_on_in_the_same_direction_waits_for_ten_times_what_it_costs() -> None:
    """A restart takes 30 s."""
    made = came_from(1)
    made.passes(299.0)
    decided = plan(made.snapshot())
    assert not decided.commands
    assert "would pay, but it was moved " in decided.jobs[JOB].reason.message
    assert "another move takes 30 s of its time" in decided.jobs[JOB].reason.message
    assert decided.again_at == after(made.now, 1.0)
    made.passes(1.0)
    assert moved(made).moves[1:]


def test_a_job_that_never_showed_that_it_saves_is_not_moved_for_money() -> None:
    made = wants_to_move(MoveLimits())
    silent = replace(made.jobs[JOB], progress=None)
    (profile,) = made.profiles.values()
    made.profiles[profile.id] = replace(profile, checkpoint_seconds=None)
    made.jobs[JOB] = silent
    decided = plan(made.snapshot())
    assert not decided.commands
    assert "would pay, but the job has never reported how far it is" in decided.jobs[JOB].reason.message
    made.jobs[JOB] = replace(silent, progress=Progress(1, None, 7, None, made.now))
    assert moved(made).last_run > 1
    made.jobs[JOB], made.profiles[profile.id] = silent, profile
    assert moved(made).last_run > 1


def test_after_a_day_a_move_counts_no_more() -> None:
    made = wants_to_move(MoveLimits(1))
    made.jobs[JOB] = replace(made.jobs[JOB], moves=(after(made.now, -80_000.0),))
    decided = plan(made.snapshot())
    assert not decided.commands
    assert decided.again_at == after(made.now, 6_400.0)
    made.passes(6_400.0)
    assert moved(made).last_run > 1


def test_in_quiet_hours_jobs_start_and_lost_nodes_are_made_up_for() -> None:
    made = world()
    budget = made.budgets[BudgetId("research")]
    made.budgets[budget.id] = replace(budget, moves=MoveLimits(0, (QuietHours(0, 1440),)))
    starts(made)
    assert made.jobs[JOB].allocation is not None
