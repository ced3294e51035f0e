"""Shares of one budget's money: who is sure of what while there is work, and who has what others leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.budget import NO_SHARE, JobShare, share_of
from charterer.domain.ids import BudgetId, JobId
from charterer.domain.plan import Plan, ReasonCode, ShareVerdict
from charterer.domain.profile import PowerLaw
from charterer.policy import plan
from tests.scenarios.policy.stories import WIDE, placed, rents, settle, simple, why
from tests.worlds import World

RESEARCH = BudgetId("research")
HALVES = (("ann", 0.5), ("bob", 0.5))


def shared(*shares: tuple[str, float], amount: str) -> World:
    """A budget with shares by user, the only pool of ``simple``."""
    world = simple(amount=amount)
    parts = tuple([JobShare(name, part, user=name) for name, part in shares])
    world.budgets[RESEARCH] = replace(world.budgets[RESEARCH], job_shares=parts)
    return world


def job(world: World, name: str, share: str = NO_SHARE, **fields: object) -> None:
    made = world.job(name, **fields)  # type: ignore[arg-type]
    shares = world.budgets[RESEARCH].job_shares
    world.jobs[made.id] = replace(made, share=share_of(shares, share, made.namespace, {}), user=share)


def flood(world: World, share: str, jobs: int, hours: float = 10.0) -> None:
    for number in range(jobs):
        job(world, f"{share}-{number}", share, gpus=8, hours_left=hours, age_seconds=60.0)


def verdicts(decided: Plan) -> dict[str, ShareVerdict]:
    return {share.name: share for share in decided.budgets[RESEARCH].shares}


def test_who_floods_a_budget_that_is_too_small_takes_no_money_that_others_are_sure_of() -> None:
    """$1,440: $960 of it may be committed, five nodes for bob's jobs, which are the cheaper ones and come first."""
    alone, halves = simple(amount="1440"), shared(*HALVES, amount="1440")
    for world in (alone, halves):
        flood(world, "bob", 30)
        job(world, "ann-0", "ann", gpus=8, hours_left=20.0)
    without, decided = plan(alone.snapshot()), plan(halves.snapshot())
    assert "ann-0" not in _begin(without)
    assert "ann-0" in _begin(decided)
    assert len(_begin(decided)) == len(_begin(without)) > 1, "what ann's job costs is what bob's have less"
    found = verdicts(decided)
    assert (found["ann"].feasible, found["bob"].feasible) == (True, False)
    assert (found["ann"].jobs, found["bob"].jobs) == (1, 30)
    refused = [verdict.reason.message for name, verdict in decided.jobs.items() if name.startswith("bob")]
    assert any("and share bob of the budget may commit only $" in message for message in refused)


def test_a_job_of_a_share_with_few_jobs_is_as_wide_as_its_part_of_the_money_pays() -> None:
    alone, halves = simple(amount="60000"), shared(*HALVES, amount="60000")
    for world in (alone, halves):
        for number in range(30):
            job(world, f"bob-{number}", "bob", gpus=WIDE, profile="sft")
        job(world, "ann-0", "ann", gpus=WIDE, profile="sft")
    assert _width(halves, "ann-0") > _width(alone, "ann-0")
    found = verdicts(plan(halves.snapshot()))
    assert found["ann"].rate > found["bob"].rate > 0.0


def _begin(decided: Plan) -> set[str]:
    """The jobs that wait for nodes only."""
    return {name for name, verdict in decided.jobs.items() if verdict.reason.code is ReasonCode.WAITING_FOR_NODE}


def _width(world: World, name: str) -> int:
    option = plan(world.snapshot()).jobs[JobId(name)].option
    assert option is not None
    return option.gpus


@pytest.mark.parametrize("amount", ["1440", "60000"])
def test_what_a_share_without_jobs_would_have_goes_to_the_others(amount: str) -> None:
    alone, halves = simple(amount=amount), shared(*HALVES, amount=amount)
    for world in (alone, halves):
        flood(world, "bob", 10)
        for number in range(3):
            job(world, f"wide-{number}", "bob", gpus=WIDE, profile="sft")
    assert rents(plan(alone.snapshot())) == rents(plan(halves.snapshot()))
    assert placed(settle(alone)) == placed(settle(halves))
    assert verdicts(plan(halves.snapshot())).keys() == {"bob"}


def test_what_a_share_does_not_need_goes_to_the_others_in_proportion_to_their_parts() -> None:
    world = shared(("ann", 0.5), ("bob", 0.3), amount="20000")
    job(world, "ann-0", "ann", gpus=1, hours_left=1.0)
    for name in ("bob", NO_SHARE):
        for number in range(200):
            job(world, f"{name}-{number}", name, gpus=WIDE, profile="sft")
    found = verdicts(plan(world.snapshot()))
    whole, left = 20000.0 / 360, 20000.0 / 360 - found["ann"].planned.dollars_per_hour
    assert found["ann"].allowed.dollars_per_hour == pytest.approx(0.5 * whole)
    assert found["bob"].allowed.dollars_per_hour == pytest.approx(0.6 * left)
    assert found[NO_SHARE].allowed.dollars_per_hour == pytest.approx(0.4 * left)


def test_who_is_of_no_share_has_what_the_shares_leave() -> None:
    world = shared(("ann", 1.0), amount="1440")
    flood(world, "ann", 30)
    job(world, "guest", gpus=8, hours_left=1.0)
    assert why(plan(world.snapshot()), "guest") is ReasonCode.WAITING_FOR_BUDGET
    for number in range(30):
        del world.jobs[JobId(f"ann-{number}")]
    assert why(plan(world.snapshot()), "guest") is ReasonCode.WAITING_FOR_NODE


def test_jobs_of_all_shares_share_nodes() -> None:
    world = shared(*HALVES, amount="60000")
    for name in ("ann", "bob"):
        for number in range(4):
            job(world, f"{name}-{number}", name, gpus=1, hours_left=2.0)
    assert rents(plan(world.snapshot())) == ["a100-1"]


def test_a_target_takes_the_money_of_its_own_share_only() -> None:
    def bobs(targets: float | None) -> ShareVerdict:
        world = shared(*HALVES, amount="20000")
        world.profile("slow", PowerLaw(0.7, 1.0), work_hours=400)
        for number in range(20):
            job(world, f"bob-{number}", "bob", gpus=WIDE, profile="sft")
            job(world, f"ann-{number}", "ann", gpus=WIDE, profile="slow", target_hours=targets)
        return verdicts(plan(world.snapshot()))["bob"]

    assert bobs(60.0) == bobs(None)
