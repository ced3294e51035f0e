"""The conditions of a job's own limits: whether its target can be met and its maxCost suffices, with the numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.api.models.base import Condition
from charterer.controller.status.publisher import viewed_objects
from charterer.domain.ids import JobId
from charterer.domain.job import Finish, FinishKind
from charterer.domain.job_quote import JobQuote
from charterer.domain.money import Money
from charterer.domain.profile import Amdahl
from charterer.domain.time import Instant, after, moment
from charterer.policy.planner import plan
from tests.worlds import World

JOB = JobId("train")


def a_world(amount: str = "60000", **fields: Any) -> World:
    """One job of 40 hours on one GPU, which the fastest path ends in less than two hours."""
    world = World()
    world.budget(amount=amount)
    world.pool(gpus=8, price="16")
    world.profile("sft", Amdahl(0.97, 1.0), work_hours=40)
    world.job("train", gpus=(1, 8, 64), profile="sft")
    edit(world, **fields)
    return world


def edit(world: World, **fields: Any) -> None:
    world.jobs[JOB] = replace(world.jobs[JOB], **fields)


def runs(world: World) -> World:
    for _ in range(2):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    return world


def shown(world: World, kind: str) -> Condition | None:
    snapshot = world.snapshot()
    views = viewed_objects(snapshot, plan(snapshot), {})
    (view,) = [viewed.make(snapshot) for viewed in views if viewed.kind.name == "TrainingJob"]
    return next((condition for condition in view.conditions if condition.type == kind), None)


def told(world: World, kind: str = "OnTarget") -> tuple[str, str, str]:
    condition = shown(world, kind)
    assert condition is not None
    return condition.status.value, condition.reason, condition.message


def minute(at: Instant) -> str:
    return f"{moment(at):%Y-%m-%dT%H:%MZ}"


def test_a_job_without_limits_of_its_own_shows_none() -> None:
    assert shown(a_world(), "OnTarget") is None
    assert shown(a_world(), "WithinMaxCost") is None


def test_a_target_that_cannot_be_met_is_a_condition_with_both_times_until_it_can_be_met_again() -> None:
    world = runs(a_world())
    target = after(world.now, 600.0)
    edit(world, target_completion=target)
    status, reason, message = told(world)
    assert (status, reason) == ("False", "TargetMissed")
    assert message.startswith(f"target {minute(target)} cannot be met: the fastest path ends {minute(world.now)[:11]}")
    assert "min after it; so the job is treated as one without a target, and is expected to end 2" in message
    later = after(world.now, 40 * 3600.0)
    edit(world, target_completion=later)
    status, reason, message = told(world)
    assert (status, reason) == ("True", "InTime")
    assert message.endswith(f"; target {minute(later)}")


def test_a_job_on_a_faster_path_than_its_target_needs_is_expected_to_end_when_that_ends() -> None:
    world = runs(a_world(target_completion=after(World().now, 86_400.0)))
    left = plan(world.snapshot()).jobs[JOB].remaining_seconds
    assert left is not None
    assert told(world)[2].startswith(f"expected to end {minute(after(world.now, left))};")


def test_the_end_of_a_job_with_a_quote_says_quote_and_outcome() -> None:
    start = World().now
    world = a_world(quote=JobQuote(start, Money.parse("10"), Money.parse("40"), start, after(start, 7200.0)))
    assert shown(world, "WithinQuote") is None
    end = Finish(FinishKind.COMPLETE, after(start, 3600.0), "Completed", "")
    edit(world, finish=end, earlier_cost=Money.parse("12.5"))
    said = "the job cost $12.50 and ended 2026-06-16T01:00Z; its quote of 2026-06-16T00:00Z said $10.00 to $40.00"
    ends = f"{said}, and an end from 2026-06-16T00:00Z to 2026-06-16T02:00Z"
    assert told(world, "WithinQuote") == ("True", "QuoteHeld", ends)
    edit(world, earlier_cost=Money.parse("41"))
    assert told(world, "WithinQuote")[:2] == ("False", "QuoteMissed")
    edit(world, earlier_cost=Money.parse("12.5"), finish=replace(end, at=after(start, 7201.0)))
    assert told(world, "WithinQuote")[:2] == ("False", "QuoteMissed")
    edit(world, quote=JobQuote(start, Money.parse("10"), Money.parse("40")), finish=end)
    assert told(world, "WithinQuote") == ("True", "QuoteHeld", said)
    edit(world, finish=replace(end, kind=FinishKind.FAILED))
    assert shown(world, "WithinQuote") is None


def test_a_target_that_only_more_money_would_meet_says_so() -> None:
    world = a_world("20", target_completion=after(World().now, 3 * 3600.0))
    status, _, message = told(world)
    assert status == "False"
    assert "cannot be met with what is left of the budget: the fastest path that it pays for ends" in message
    assert "if it starts now" in message
    assert "; the fastest of all ends " in message


def test_a_target_that_passes_is_missed_without_a_change_of_the_job() -> None:
    world = runs(a_world(target_completion=after(World().now, 86_400.0)))
    assert told(world)[:2] == ("True", "InTime")
    edit(world, target_completion=after(world.now, -1.0))
    status, reason, message = told(world)
    assert (status, reason) == ("False", "TargetMissed")
    assert "has passed; the job is expected to end" in message


def test_a_job_of_a_fixed_width_is_held_against_its_target_too() -> None:
    world = a_world()
    world.job("train", gpus=8, profile="sft")
    runs(world)
    edit(world, target_completion=after(world.now, 600.0))
    assert told(world)[:2] == ("False", "TargetMissed")
    edit(world, target_completion=after(world.now, 86_400.0))
    assert told(world)[:2] == ("True", "InTime")


def test_of_a_job_of_unknown_speed_nothing_is_said() -> None:
    world = a_world(target_completion=after(World().now, 86_400.0), remaining=None)
    world.profiles.clear()
    assert told(world)[:2] == ("Unknown", "EndUnknown")


@pytest.mark.parametrize(
    ("kind", "late_seconds", "status", "message"),
    [
        (FinishKind.COMPLETE, -60.0, "True", "the job ended {end}; target {target}"),
        (FinishKind.COMPLETE, 300.0, "False", "the job ended {end}, 5 min after target {target}"),
        (FinishKind.FAILED, -60.0, "False", "the job ended {end} as Failed; target {target}"),
    ],
    ids=["in time", "late", "failed"],
)
def test_a_job_that_has_ended_says_whether_it_was_in_time(
    kind: FinishKind, late_seconds: float, status: str, message: str
) -> None:
    world = a_world()
    target, end = world.now, after(world.now, late_seconds)
    edit(world, target_completion=target, finish=Finish(kind, end, "Ended", "it is over"))
    said = told(world)
    assert (said[0], said[2]) == (status, message.format(end=minute(end), target=minute(target)))


def test_the_words_of_a_view_change_when_a_target_can_be_met_again() -> None:
    world = runs(a_world(target_completion=after(World().now, 600.0)))

    def facts() -> tuple[object, ...] | None:
        snapshot = world.snapshot()
        views = viewed_objects(snapshot, plan(snapshot), {})
        (found,) = [viewed.facts for viewed in views if viewed.kind.name == "TrainingJob"]
        assert found is not None
        return found[1:]

    missed = facts()
    edit(world, target_completion=after(world.now, 86_400.0))
    assert facts() != missed


def test_a_max_cost_that_does_not_suffice_is_told_while_the_job_still_runs() -> None:
    world = runs(a_world(max_cost=Money.parse("1000")))
    status, reason, message = told(world, "WithinMaxCost")
    assert (status, reason) == ("True", "NotLimited")
    assert message.endswith("; spec.maxCost is $1,000.00")
    edit(world, remaining=4_000 * 3600.0)
    status, reason, message = told(world, "WithinMaxCost")
    assert (status, reason) == ("False", "MaxCost")
    assert "the job would be stopped before its end: it needs about $" in message
    assert message.endswith("spec.maxCost is $1,000.00: raise spec.maxCost")


def test_where_nothing_says_how_much_work_a_job_is_its_cost_is_told_as_not_known() -> None:
    world = World()
    world.budget()
    world.pool()
    world.job("train", gpus=8, max_cost="10")
    status, reason, message = told(world, "WithinMaxCost")
    assert (status, reason) == ("Unknown", "EndUnknown")
    assert message == (
        "$0.00 of $10.00 (spec.maxCost) are spent; nothing says how much work it is, so its cost is not known, and it "
        "is stopped before it costs more"
    )


def test_the_max_cost_of_a_budget_for_its_jobs_is_told_with_the_budget_and_what_to_do() -> None:
    world = runs(a_world(default_max_cost=Money.parse("1000")))
    where = "spec.jobDefaults.maxCost of GPUBudget research is $1,000.00"
    assert told(world, "WithinMaxCost")[2].endswith(f"; {where}")
    edit(world, remaining=4_000 * 3600.0)
    assert told(world, "WithinMaxCost")[2].endswith(f"{where}: set the job's own spec.maxCost above $1,000.00")
    edit(world, max_cost=Money.parse("2000"))
    assert told(world, "WithinMaxCost")[2].endswith("spec.maxCost is $2,000.00: raise spec.maxCost")


def test_a_max_cost_for_which_a_job_cannot_start_is_told_in_the_planners_words() -> None:
    status, reason, message = told(a_world(max_cost=Money.parse("5")), "WithinMaxCost")
    assert (status, reason) == ("False", "MaxCost")
    assert message.startswith("spec.maxCost is $5.00")
