"""Widths that were never measured: which are tried, by whom, and what a budget spends on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, ClassId, JobId
from charterer.domain.job import RunOutcome, RunRecord, Widths
from charterer.domain.plan import Allocate
from charterer.domain.profile import CurveSource, FailedWidth, Origin, Phase, Profile, SpeedCurve, ThroughputTable
from charterer.domain.time import after
from charterer.policy.explain.alternatives import Comparison, alternatives
from charterer.policy.jobs.groups import TRIAL_SECONDS
from charterer.policy.options.sources import curves_of
from charterer.policy.options.speeds import exploration_candidates, optimistic_speed
from charterer.policy.planner import plan, solve_budgets
from tests.worlds import World

NAME = ClassId("team", "sft")
SFT = JobId("sft")


def learned(profile: Profile, *points: tuple[int, float, int, float]) -> Profile:
    """A class with such a curve: number of GPUs, throughput, reports (0: it never ran), upper end of the interval."""
    origins = tuple(
        Origin(CurveSource.MEASURED if reports else CurveSource.EXTRAPOLATED, reports, value / 2, high)
        for _, value, reports, high in points
    )
    curve = SpeedCurve("a100", ThroughputTable(tuple((gpus, value) for gpus, value, _, _ in points)), origins)
    budget = BudgetId("research")
    return replace(profile, phases=(Phase(1.0, (curve,)),), reports=5, budget=budget)


def world_with(*, percent: int = 2, high: float = 4.0, reports: int = 0, opening: str | None = "0") -> World:
    """A class measured on 8 GPUs; 16 are expected to bring nothing, and may bring up to ``high``."""
    world = World()
    budget = world.budget(amount="12000", opening=opening)
    world.budgets[budget.id] = replace(budget, exploration_percent=percent)
    world.pool("a100", gpus=8, price="16")
    world.profile("sft", ThroughputTable(((8, 1.0), (16, 1.0))), work_hours=10)
    world.profiles[NAME] = learned(world.profiles[NAME], (8, 1.0, 50, 1.1), (16, 1.0, reports, high))
    world.job("sft", gpus=(8, 8, 32), profile="sft", hours_left=10)
    return world


def chosen(world: World) -> list[tuple[int, bool]]:
    """What the job is given once its nodes are there: its width, and whether that is a trial."""
    for _ in range(3):
        decided = plan(world.snapshot())
        found = [
            command.allocation
            for command in decided.commands
            if isinstance(command, Allocate) and command.allocation is not None
        ]
        if found:
            return [(allocation.option.gpus, allocation.option.trial) for allocation in found]
        world.carry_out(decided)
        world.everything_starts()
    return []


def test_a_width_that_may_be_much_faster_than_expected_is_tried() -> None:
    assert chosen(world_with()) == [(16, True)]


def test_before_any_report_no_width_beyond_twice_the_preferred_one_is_believed() -> None:
    world = world_with()
    world.profiles[NAME] = replace(
        learned(world.profiles[NAME], *((gpus, float(gpus), 0, 2.0 * gpus) for gpus in (8, 16, 32))), reports=0
    )
    assert chosen(world) == [(16, False)]


def test_one_that_could_not_pay_even_then_is_not_tried() -> None:
    assert chosen(world_with(high=1.0)) == [(8, False)]


def test_one_that_was_measured_is_believed() -> None:
    assert chosen(world_with(reports=30)) == [(8, False)]


def test_one_unlucky_report_does_not_keep_a_class_away_for_good() -> None:
    assert chosen(world_with(reports=1)) == [(16, True)]


def test_without_money_for_it_nothing_is_tried() -> None:
    assert chosen(world_with(percent=0)) == [(8, False)]


@pytest.mark.parametrize(("opening", "before", "trial"), [("0", 10, True), ("0", 40, False), (None, 20, False)])
def test_trials_cost_no_more_in_a_period_than_their_part_of_what_counts_of_the_amount(
    opening: str | None, before: int, trial: bool
) -> None:
    world = world_with(percent=1, opening=opening)
    seen = world_with()
    plan_until_placed(seen)
    here = seen.jobs[SFT].allocation
    assert here is not None
    assert here.option.price.cost(round(here.option.entry_seconds + TRIAL_SECONDS)).dollars == pytest.approx(
        4.0, rel=0.5
    )
    begun = after(world.now, -86_400.0)
    record = RunRecord(1, RunOutcome.STOPPED, here.option, here.placements, begun, after(begun, 7200.0), "")
    last_month = replace(record, since=after(begun, -30 * 86_400.0), until=after(begun, -29 * 86_400.0))
    world.job("gone", profile="sft", suspend=True)
    world.jobs[JobId("gone")] = replace(world.jobs[JobId("gone")], records=(last_month, *(record,) * before))
    assert chosen(world) == [(16, True) if trial else (8, False)]


def plan_until_placed(world: World) -> None:
    for _ in range(3):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()


def test_a_job_whose_trial_disappoints_goes_back() -> None:
    world = world_with()
    plan_until_placed(world)
    assert world.jobs[SFT].allocation is not None
    world.passes(120.0)
    world.profiles[NAME] = learned(world.profiles[NAME], (8, 1.0, 50, 1.1), (16, 0.9, 10, 0.95))
    assert chosen(world) == [(8, False)]


def test_a_job_stays_until_its_trial_is_measured_or_should_have_been() -> None:
    world = world_with()
    plan_until_placed(world)
    world.passes(120.0)
    world.profiles[NAME] = learned(world.profiles[NAME], (8, 1.0, 50, 1.1), (16, 0.9, 3, 0.95))
    decided = plan(world.snapshot())
    assert not [command for command in decided.commands if isinstance(command, Allocate)]
    assert "the job's speed on 16 GPUs is being measured, until" in decided.jobs[SFT].reason.message
    assert decided.again_at is not None
    world.passes((decided.again_at - world.now) / 1e6)
    assert chosen(world) == [(8, False)]


def test_a_budget_that_only_observes_says_what_it_would_try() -> None:
    world = world_with()
    budget = BudgetId("research")
    world.budgets[budget] = replace(world.budgets[budget], mode=Mode.OBSERVE)
    world.rental()
    world.rental()
    decided = plan(world.snapshot())
    assert not decided.commands
    allocations = [command.allocation for command in decided.observed_commands if isinstance(command, Allocate)]
    assert [allocation and allocation.option.trial for allocation in allocations] == [True]


@pytest.mark.parametrize(
    ("ran", "tries"),
    [((), {1}), ((1,), {2}), ((1, 2), {4}), ((4,), {1, 2, 8}), ((1, 2, 4, 12), {24}), ((8,), {1, 2, 4, 16})],
)
def test_widths_to_try_double(ran: tuple[int, ...], tries: set[int]) -> None:
    world = world_with()
    points = [(gpus, float(gpus), 30 * int(gpus in ran), 2.0 * gpus) for gpus in (1, 2, 4, 8, 12, 16, 20, 24, 32)]
    assert exploration_candidates(learned(world.profiles[NAME], *points)).get("a100", set()) == tries


def test_a_declared_curve_has_nothing_to_try() -> None:
    world = World()
    world.profile("sft", ThroughputTable(((8, 1.0), (16, 1.0))), work_hours=10)
    declared = world.profiles[NAME]
    assert optimistic_speed(declared, exploration_candidates(declared)) is declared


def test_a_hoped_speed_lies_half_way_to_the_upper_end() -> None:
    world = world_with(high=4.0)
    form = optimistic_speed(world.profiles[NAME], exploration_candidates(world.profiles[NAME])).phases[0].curves[0].form
    assert isinstance(form, ThroughputTable)
    assert [throughput for _, throughput in form.points] == pytest.approx([1.0, 2.0])


# --- widths on which runs failed --------------------------------------------------------------------------------------


def failed(world: World, times: int = 1) -> World:
    """The class's runs failed on 16 GPUs so often, the last one just now."""
    widths = (FailedWidth("a100", 16, times, world.now, "pod sft-r1-0 exited with 1: out of memory"),)
    world.profiles[NAME] = replace(world.profiles[NAME], failed=widths)
    return world


def failed_itself(world: World) -> World:
    """The job's own run failed on 16 GPUs."""
    elsewhere = world_with()
    plan_until_placed(elsewhere)
    tried = elsewhere.jobs[SFT].allocation
    assert tried is not None
    run = RunRecord(1, RunOutcome.FAILED, tried.option, tried.placements, tried.since, after(tried.since, 20.0), "")
    world.jobs[SFT] = replace(world.jobs[SFT], records=(run,), failures=1, last_run=1)
    world.passes(60.0)
    return world


def test_a_width_on_which_a_run_failed_is_not_tried_for_a_while() -> None:
    assert chosen(failed(world_with())) == [(8, False)]


@pytest.mark.parametrize(("times", "hours"), [(1, 1), (2, 4), (3, 16), (30, 30 * 24)])
def test_each_failure_makes_it_avoided_four_times_as_long_up_to_a_month(times: int, hours: int) -> None:
    world = failed(world_with(), times)
    world.passes(hours * 3600.0 - 1000.0)
    assert chosen(world) == [(8, False)]
    late = failed(world_with(), times)
    late.passes(hours * 3600.0)
    assert chosen(late) == [(16, True)]


def test_what_is_left_alone_is_told_with_when_that_ends() -> None:
    snapshot = failed(world_with()).snapshot()
    own = failed_itself(world_with()).snapshot()
    found = []
    for seen in (snapshot, own):
        decided = plan(seen).jobs[SFT]
        weighed = alternatives(seen.jobs[SFT], decided, Comparison.of(solve_budgets(seen)[0]))
        assert weighed is not None
        found += [(alone.gpus, alone.until) for alone in weighed.left_alone]
    assert found == [(16, after(snapshot.now, 3600.0)), (16, None)]


def test_the_job_whose_run_it_was_does_not_go_there_again() -> None:
    world = failed_itself(world_with())
    world.passes(10 * 86_400.0)
    assert chosen(world) == [(8, False)]


def test_nor_is_it_moved_there() -> None:
    assert plan_moves(world_with(high=9.0)) == [16]
    assert plan_moves(failed_itself(world_with(high=9.0))) == []


def test_a_width_that_was_measured_since_is_as_good_as_any() -> None:
    world = world_with(reports=30)
    world.profiles[NAME] = learned(world.profiles[NAME], (8, 1.0, 50, 1.1), (16, 3.0, 30, 3.1))
    assert chosen(failed_itself(failed(world))) == [(16, False)]


def test_a_job_that_can_only_run_there_does() -> None:
    world = failed_itself(failed(world_with()))
    world.jobs[SFT] = replace(world.jobs[SFT], widths=Widths(16, 16, 16))
    assert [gpus for gpus, _ in chosen(world)] == [16]


def plan_moves(world: World) -> list[int]:
    """Where a job that runs on 8 GPUs is moved to."""
    world.rental()
    world.runs_on("sft", "a100-1", gpus=8)
    return [gpus for gpus, _ in chosen(world)]


def test_a_trial_of_the_reference_width_makes_no_other_width_slower() -> None:
    world = world_with()
    profile = learned(world.profiles[NAME], (4, 1.0, 0, 4.0), (8, 1.5, 50, 1.6))
    expected, hoped = (curves_of(profile, explore) for explore in (False, True))
    assert hoped.trials == {"a100": {4}}
    assert expected.speeds("a100", 8) == hoped.speeds("a100", 8) == [1.5]
    assert (expected.speeds("a100", 4), hoped.speeds("a100", 4)) == ([1.0], [2.0])
