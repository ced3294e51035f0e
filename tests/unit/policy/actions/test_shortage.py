"""Where a pool is too small for the jobs in sight, its room is shared out for all of them together; else never."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from unittest.mock import patch

from charterer.domain.budget import MoveLimits
from charterer.domain.ids import BudgetId, JobId, PoolId, Rate, RentalId
from charterer.domain.job import ResizePolicy
from charterer.domain.money import Money, Price
from charterer.domain.plan import Allocate, Limit, Plan, ReasonCode
from charterer.domain.profile import PowerLaw
from charterer.domain.snapshot import Stop
from charterer.domain.time import after
from charterer.incremental import Memo
from charterer.policy import plan
from charterer.policy.solve.linear_program import Allotment, Claimant, NodeRoom, SolverGaveUp, allocate
from tests.factory import cooled
from tests.scenarios.policy.stories import placed, why
from tests.worlds import World

ALLOCATE = "charterer.policy.actions.admission.shortage.allocate"


def one_node(*, max_nodes: int = 1) -> World:
    """A node of eight GPUs that is ready, and all that its pool has. A second is worth so much whatever is spent."""
    world = World()
    budget = world.budget()
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(20.0 / 3600.0))
    world.pool("a100", gpus=8, price="16", max_nodes=max_nodes)
    world.profile("sft", PowerLaw(0.5, 1.0), work_hours=8)
    world.rental()
    return world


def a_wide_job_runs(
    world: World, resize: ResizePolicy = ResizePolicy.RESTART, target_hours: float | None = None
) -> World:
    """A job has the whole node and could do with less; another that would end in an hour needs half of it."""
    world.job("wide", gpus=(2, 8, 8), profile="sft", resize=resize, target_hours=target_hours)
    world.runs_on("wide", "a100-1", gpus=8, speed=2.8)
    world.profile("short", PowerLaw(0.9, 1.0), work_hours=1)
    world.job("short", gpus=4, profile="short", age_seconds=-10.0)
    return world


def text(decided: Plan, job: str) -> str:
    return decided.jobs[JobId(job)].reason.message


def test_where_there_are_nodes_for_all_nothing_is_shared_out() -> None:
    world = a_wide_job_runs(one_node(max_nodes=2))
    with patch(ALLOCATE, side_effect=AssertionError("there is room")):
        plan(world.snapshot())


def beside_a_dearer_pool(resize: ResizePolicy, nodes: int) -> World:
    """Two jobs want the one node that is left of the cheap pool; the dearer pool has so many nodes."""
    world = one_node()
    world.pool("dear", gpus=8, price="20", gpu_type="a100", max_nodes=nodes)
    for number in range(2):
        world.job(f"job-{number}", gpus=(2, 8, 8), profile="sft", resize=resize, age_seconds=float(number))
    return world


def test_a_job_that_keeps_its_width_for_life_takes_wide_gpus_elsewhere_rather_than_few_of_the_cheap_pool() -> None:
    """Two GPUs of the cheap pool cost it less each second than eight of the dear one, and much more in all."""
    world = one_node()
    world.pool("dear", gpus=8, price="26", gpu_type="a100", max_nodes=5)
    world.job("there", gpus=6, profile="sft", hours_left=40)
    world.runs_on("there", "a100-1", gpus=6, speed=2.4)
    for resize, expected in ((ResizePolicy.NEVER, ("dear", 8)), (ResizePolicy.RESTART, ("a100", 2))):
        world.job("new", gpus=(2, 8, 8), profile="sft", resize=resize)
        option = plan(world.snapshot()).jobs[JobId("new")].option
        assert option is not None
        assert (option.pool, option.gpus) == expected


def test_a_job_that_ends_soon_goes_before_one_that_is_older_and_the_other_says_why_it_waits() -> None:
    world = one_node()
    world.job("long", gpus=8, profile="sft", hours_left=40, age_seconds=100.0)
    world.job("short", gpus=8, profile="sft", hours_left=1)
    decided = plan(world.snapshot())
    assert placed(decided) == {"short": 8}
    assert why(decided, "long") is ReasonCode.POOL_FULL
    assert "2 jobs wait for a100, and those get its room that lose most by waiting" in text(decided, "long")
    assert "a100 has the only node that spec.maxNodes allows; " in text(decided, "long")
    assert "one more node would be worth $" in text(decided, "long")


def test_jobs_of_other_namespaces_that_make_room_are_counted_and_not_named() -> None:
    world = a_wide_job_runs(one_node())
    world.jobs[JobId("short")] = replace(world.jobs[JobId("short")], namespace="other")
    said = text(plan(world.snapshot()), "short")
    assert "running jobs go on with fewer GPUs to make room for it (1 job of another namespace)" in said


def test_a_nodes_worth_is_bounded_by_what_the_budget_may_spend() -> None:
    world = one_node()
    world.job("long", gpus=8, profile="sft", hours_left=40, age_seconds=100.0)
    world.job("short", gpus=8, profile="sft", hours_left=1)
    budget = world.budgets[BudgetId("research")]
    world.budgets[budget.id] = replace(budget, max_hourly_rate=Price.parse("16"), fixed_rate=Rate(1000.0 / 3600.0))
    said = text(plan(world.snapshot()), "long")
    assert "one more node would be worth more to them than the $16.00/h that the budget may spend" in said
    assert "beyond its price" not in said


def test_a_heavy_job_goes_before_one_that_ends_sooner() -> None:
    world = one_node()
    world.job("heavy", gpus=8, profile="sft", hours_left=4, weight=10.0)
    world.job("short", gpus=8, profile="sft", hours_left=2, age_seconds=100.0)
    assert placed(plan(world.snapshot())) == {"heavy": 8}


def test_a_running_job_is_made_narrower_for_one_that_waits_and_says_what_that_costs_it() -> None:
    world = a_wide_job_runs(one_node())
    decided = plan(world.snapshot())
    assert placed(decided) == {"wide": 4}
    assert why(decided, "wide") is ReasonCode.MAKES_ROOM
    assert "running jobs go on with fewer GPUs to make room for it (team/wide)" in text(decided, "short")
    assert text(decided, "wide").startswith("4 GPUs on a100 instead of 8 GPUs on a100, to make room for jobs that wait")
    (command,) = (command for command in decided.commands if isinstance(command, Allocate))
    assert command.reason.seconds < 0.0
    assert decided.pools[PoolId("a100")].limit is Limit.MAX_NODES
    assert decided.pools[PoolId("a100")].node_scarcity.micros_per_hour > 0


def test_the_room_that_is_made_is_kept_for_whom_it_is_made() -> None:
    """Until the narrower run has replaced the wide one, its GPUs are not free: nobody takes less, or comes between."""
    world = a_wide_job_runs(one_node())
    world.carry_out(plan(world.snapshot()))
    world.passes(5.0)
    assert plan(world.snapshot()).commands == ()
    said = "4 GPUs on a100 wanted: a100 has the only node that spec.maxNodes allows, and running jobs "
    assert text(plan(world.snapshot()), "short") == f"{said}are leaving GPUs that it gets"
    world.everything_starts()
    assert placed(plan(world.snapshot())) == {"short": 4}


def test_a_job_that_made_room_is_not_made_wider_while_others_need_the_room() -> None:
    world = a_wide_job_runs(one_node())
    for _ in range(4):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
        world.passes(60.0)
    assert plan(world.snapshot()).commands == ()
    assert {name: job.allocation.option.gpus for name, job in world.jobs.items() if job.allocation} == {
        "wide": 4,
        "short": 4,
    }


def test_making_room_counts_as_a_move_of_the_day() -> None:
    world = a_wide_job_runs(one_node())
    world.carry_out(plan(world.snapshot()))
    assert len(world.jobs[JobId("wide")].moves) == 1


def test_a_job_that_may_not_be_restarted_stays_as_it_is() -> None:
    assert placed(plan(a_wide_job_runs(one_node(), resize=ResizePolicy.NEVER).snapshot())) == {}


def test_a_job_with_a_target_ahead_makes_no_room() -> None:
    assert placed(plan(a_wide_job_runs(one_node(), target_hours=3.5).snapshot())) == {}


def test_where_the_budget_allows_no_moves_nobody_makes_room() -> None:
    world = a_wide_job_runs(one_node())
    name = BudgetId("research")
    world.budgets[name] = replace(world.budgets[name], moves=MoveLimits(per_job_and_day=0))
    assert placed(plan(world.snapshot())) == {}


def test_no_room_is_made_that_the_hard_limit_would_not_let_anybody_use() -> None:
    """Else the job that made it would be made wider again, and narrower again, with a restart each time."""
    world = a_wide_job_runs(one_node())
    name = BudgetId("research")
    world.budgets[name] = replace(world.budgets[name], hard_limit=Money.parse("18"))
    assert placed(plan(world.snapshot())) == {}


def test_no_room_is_made_where_restarts_cost_more_than_the_short_time_for_which_it_is_wanted() -> None:
    world = a_wide_job_runs(one_node())
    profile = world.profiles[world.jobs[JobId("wide")].class_id]
    world.profiles[profile.id] = replace(profile, restart_seconds=1800.0)
    assert placed(plan(world.snapshot())) == {}


def test_a_gang_that_fits_beside_others_gets_whole_nodes_before_narrow_jobs_break_them() -> None:
    world = one_node(max_nodes=2)
    world.rental()
    for number in range(8):
        world.job(f"narrow-{number}", gpus=1, profile="sft", hours_left=20, age_seconds=100.0)
    world.profile("short", PowerLaw(0.9, 1.0), work_hours=1)
    world.job("gang", gpus=16, profile="short", weight=20.0)
    assert placed(plan(world.snapshot())) == {"gang": 16}


def test_a_pool_that_cools_is_looked_at_again_when_it_may_be_larger() -> None:
    world = one_node(max_nodes=5)
    pool = world.pools[PoolId("a100")]
    world.pools[pool.id] = replace(pool, cooled=cooled(after(world.now, 300.0), 300.0))
    world.job("first", gpus=8, profile="sft", hours_left=2)
    world.job("second", gpus=8, profile="sft", hours_left=4)
    decided = plan(world.snapshot())
    assert placed(decided) == {"first": 8}
    assert why(decided, "second") is ReasonCode.POOL_COOLING
    assert decided.again_at is not None
    assert decided.again_at <= after(world.now, 600.0)


def test_where_the_budget_is_too_small_jobs_wait_for_money_in_their_order() -> None:
    world = one_node()
    world.budget(amount="10")
    world.job("long", gpus=8, profile="sft", hours_left=40)
    world.job("short", gpus=8, profile="sft", hours_left=1)
    with patch(ALLOCATE, side_effect=AssertionError("money is short, not room")):
        plan(world.snapshot())


def test_where_the_solver_gives_up_one_job_after_the_other_takes_what_there_is() -> None:
    world = one_node()
    world.job("long", gpus=8, profile="sft", hours_left=40, age_seconds=100.0)
    world.job("short", gpus=8, profile="sft", hours_left=1)
    with patch(ALLOCATE, side_effect=SolverGaveUp("numbers too far apart")):
        assert placed(plan(world.snapshot())) == {"long": 8}


def test_a_gap_that_is_left_is_told() -> None:
    world = one_node()
    world.job("long", gpus=8, profile="sft", hours_left=40)
    world.job("short", gpus=8, profile="sft", hours_left=1)

    def half_as_good(jobs: Sequence[Claimant], pools: Mapping[PoolId, NodeRoom], work: int) -> Allotment:
        answer = allocate(jobs, pools, work)
        return replace(answer, bound=2.0 * answer.value)

    with patch(ALLOCATE, half_as_good):
        assert "(to within 50%)" in text(plan(world.snapshot()), "long")


def test_what_another_budget_has_rented_is_not_shared_out() -> None:
    world = one_node(max_nodes=2)
    world.budget("prod")
    world.rental(budget="prod")
    world.job("long", gpus=8, profile="sft", hours_left=40)
    world.job("short", gpus=8, profile="sft", hours_left=1)
    (command,) = (command for command in plan(world.snapshot()).commands if isinstance(command, Allocate))
    assert command.job == "short"
    assert command.allocation is not None
    assert {place.rental for place in command.allocation.placements} == {RentalId("a100-1")}


def test_a_target_out_of_reach_puts_no_job_ahead_of_others() -> None:
    world = one_node()
    world.job("late", gpus=8, profile="sft", hours_left=40, target_hours=1.0)
    world.job("short", gpus=8, profile="sft", hours_left=1)
    decided = plan(world.snapshot())
    assert placed(decided) == {"short": 8}
    assert "any price" not in text(decided, "late")


def test_a_target_that_is_just_missed_makes_no_price_of_a_node() -> None:
    """Such a job pays any price: the millions of dollars an hour by which it goes first are not a node's worth."""
    world = one_node()
    world.job("late", gpus=8, profile="sft", hours_left=40, target_hours=1.0)
    target = plan(world.snapshot()).jobs[JobId("late")].target
    assert target is not None
    job = world.jobs[JobId("late")]
    just_missed = after(world.now, 0.97 * target.fastest_seconds)
    world.jobs[job.id] = replace(job, target_completion=just_missed)
    world.job("short", gpus=8, profile="sft", hours_left=1)
    told = "; one of them is late for its targetCompletionTime whatever it gets, so it pays any price"
    decided = plan(world.snapshot())
    assert placed(decided) == {"late": 8}
    assert f"{told}; it starts about " in text(decided, "short")
    assert "would be worth $" not in text(decided, "short")


def test_while_the_operator_is_stopped_no_job_is_told_how_room_is_shared() -> None:
    world = one_node()
    world.job("long", gpus=8, profile="sft", hours_left=40)
    world.job("short", gpus=8, profile="sft", hours_left=1)
    decided = plan(replace(world.snapshot(), stop=Stop.RENT))
    assert why(decided, "long") is ReasonCode.STOPPED
    assert "the operator was stopped" in text(decided, "long")
    assert "worth" not in text(decided, "long")


def test_no_job_is_made_narrower_where_that_lets_nobody_start() -> None:
    """It would be dearer and slower there; a second of it loses less, because it lasts for more of them."""
    world = World()
    budget = world.budget()
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(0.0))
    world.pool("small", gpu_type="P", gpus=2, price="1", max_nodes=1)
    world.pool("large", gpu_type="P", gpus=3, price="19.80", max_nodes=1)
    world.profile("sft", PowerLaw(1.4, 1.0), work_hours=3, gpu_type="P")
    for name, rental, gpus, speed in (("first", "small-1", 2, 2.6), ("second", "large-1", 3, 4.6)):
        world.rental(rental.removesuffix("-1"))
        world.job(name, gpus=(2, gpus, 3), profile="sft", resize=ResizePolicy.RESTART)
        world.runs_on(name, rental, gpus=gpus, speed=speed)
    world.job("third", gpus=(2, 2, 3), profile="sft")
    decided = plan(world.snapshot())
    assert [command for command in decided.commands if isinstance(command, Allocate)] == []


def test_while_only_time_passes_the_answer_is_not_worked_out_again() -> None:
    world, memo = a_wide_job_runs(one_node()), Memo()
    world.job("long", gpus=8, profile="sft", hours_left=40)
    plan(world.snapshot(), memo)
    world.passes(1.0)
    with patch(ALLOCATE, side_effect=AssertionError("it is known")):
        again = plan(world.snapshot(), memo)
    assert again == plan(world.snapshot())
    world.job("short-2", gpus=8, profile="sft", hours_left=1)
    with patch(ALLOCATE, side_effect=allocate) as asked:
        plan(world.snapshot(), memo)
    assert asked.call_count == 1
