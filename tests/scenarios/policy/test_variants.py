"""Which variant a job runs, as short stories."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.ids import ClassId, JobId
from charterer.domain.job import ResizePolicy, Variant
from charterer.domain.plan import Plan, ReasonCode
from charterer.domain.profile import ThroughputTable
from charterer.policy import plan
from tests.scenarios.policy.stories import settle, why
from tests.worlds import World

ONE = Variant("outofcore", ClassId("team", "gnn.outofcore"), 1, 1, 1)
TRAIN = JobId("train")


def graph(speed: float | None, *, nodes: int = 99, hours_left: float = 40.0, amount: str = "60000") -> World:
    """A job that is distributed over 4 to 16 GPUs, or out of core on one, ``speed`` times as fast as on eight."""
    world = World()
    world.budget(amount=amount)
    world.pool("a100", gpus=8, price="16", max_nodes=nodes)
    world.profile("gnn", ThroughputTable(((4, 620.0), (8, 1000.0), (16, 1550.0))))
    if speed is not None:
        world.profile("gnn.outofcore", ThroughputTable(((1, 1000.0 * speed),)))
    world.job("train", gpus=(4, 8, 16), profile="gnn", hours_left=hours_left)
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], variants=(ONE,))
    return world


def running(world: World, gpus: int = 8, variant: str = "") -> World:
    """The job runs on one node."""
    node = world.rental()
    allocation = world.runs_on("train", node.id, gpus=gpus, speed=1.0).allocation
    assert allocation is not None
    option = replace(allocation.option, variant=variant)
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], allocation=replace(allocation, option=option))
    return world


def chosen(decided: Plan) -> tuple[str, int]:
    option = decided.jobs[TRAIN].option
    assert option is not None
    return option.variant, option.gpus


def test_a_job_begins_in_the_variant_that_costs_less_and_is_as_fast() -> None:
    assert chosen(plan(graph(1.6).snapshot())) == ("outofcore", 1)
    assert chosen(plan(graph(0.01).snapshot()))[0] == ""


def test_a_running_job_changes_to_a_better_variant_by_a_restart() -> None:
    world = running(graph(1.6))
    decided = plan(world.snapshot())
    assert why(decided, "train") is ReasonCode.MOVE_PAYS
    assert "1 GPU on a100 (outofcore)" in decided.jobs[TRAIN].reason.message
    world.carry_out(decided)
    settle(world)
    allocation = world.jobs[TRAIN].allocation
    assert allocation is not None
    assert (allocation.run, allocation.option.variant, allocation.option.gpus) == (2, "outofcore", 1)


def test_the_one_gate_of_moves_holds_a_change_of_variant() -> None:
    world = running(graph(1.6))
    (budget,) = world.budgets.values()
    world.budgets[budget.id] = replace(budget, moves=replace(budget.moves, per_job_and_day=0))
    assert plan(world.snapshot()).commands == ()


def test_a_job_that_is_nearly_done_does_not_pay_the_restart() -> None:
    assert plan(running(graph(1.6, hours_left=0.01)).snapshot()).commands == ()


def test_a_job_that_is_resized_in_place_changes_its_variant_by_a_restart() -> None:
    world = running(graph(1.6))
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], resize=ResizePolicy.IN_PLACE)
    world.carry_out(plan(world.snapshot()))
    settle(world)
    allocation = world.jobs[TRAIN].allocation
    assert allocation is not None
    assert (allocation.run, allocation.option.variant) == (2, "outofcore")


def test_a_variant_that_the_spec_no_longer_names_is_left() -> None:
    world = running(graph(1.6), gpus=1, variant="outofcore")
    assert plan(world.snapshot()).commands == ()
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], variants=())
    decided = plan(world.snapshot())
    assert why(decided, "train") is ReasonCode.WIDTH_NO_LONGER_ALLOWED
    assert "spec.variants no longer names outofcore" in decided.jobs[TRAIN].reason.message
    assert chosen(decided)[0] == ""


def test_a_never_job_keeps_a_variant_that_the_spec_no_longer_names() -> None:
    world = running(graph(1.6), gpus=1, variant="outofcore")
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], variants=(), resize=ResizePolicy.NEVER)
    assert plan(world.snapshot()).commands == ()


def test_a_variant_whose_widths_were_edited_must_move() -> None:
    world = running(graph(1.6), gpus=1, variant="outofcore")
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], variants=(ONE._replace(least=2, preferred=2, most=2),))
    assert why(plan(world.snapshot()), "train") is ReasonCode.WIDTH_NO_LONGER_ALLOWED


def test_where_a_pool_is_full_a_job_begins_in_the_variant_that_fits() -> None:
    world = graph(0.4, nodes=1)
    world.job("other", gpus=4, profile="gnn", hours_left=40.0)
    node = world.rental()
    world.runs_on("other", node.id, gpus=4)
    world.job("more", gpus=2, hours_left=40.0)
    world.runs_on("more", node.id, gpus=2)
    decided = plan(world.snapshot())
    assert chosen(decided) == ("outofcore", 1)
    assert TRAIN in {command.job for command in decided.commands if hasattr(command, "job")}


def learned(world: World, reports: int = 50) -> World:
    """The class has reported, so that its budget may pay for trials."""
    name = ClassId("team", "gnn")
    (budget,) = world.budgets
    world.profiles[name] = replace(world.profiles[name], reports=reports, budget=budget)
    return world


def test_a_budget_that_explores_has_one_job_try_a_variant_of_which_nothing_is_known() -> None:
    world = running(learned(graph(None)))
    decided = plan(world.snapshot())
    option = decided.jobs[TRAIN].option
    assert option is not None
    assert (option.variant, option.gpus, option.trial) == ("outofcore", 1, True)


def test_a_second_job_of_the_class_does_not_try_it_meanwhile() -> None:
    world = running(learned(graph(None)))
    second = world.job("second", gpus=(4, 8, 16), profile="gnn", hours_left=40.0, age_seconds=60.0)
    world.jobs[second.id] = replace(second, variants=(ONE,))
    decided = plan(world.snapshot())
    assert chosen(decided) == ("outofcore", 1)
    other = decided.jobs[second.id].option
    assert other is not None
    assert other.variant == ""


def test_an_unknown_variant_changes_nothing_where_the_budget_does_not_explore_or_the_class_never_reported() -> None:
    for world in (running(learned(graph(None))), running(graph(None)), graph(None)):
        (budget,) = world.budgets.values()
        if any(profile.reports for profile in world.profiles.values()):
            world.budgets[budget.id] = replace(budget, exploration_percent=0)
        decided = plan(world.snapshot())
        world.jobs[TRAIN] = replace(world.jobs[TRAIN], variants=())
        assert decided.commands == plan(world.snapshot()).commands


def test_a_job_leaves_a_variant_of_which_nothing_was_learned() -> None:
    world = running(learned(graph(None)))
    world.carry_out(plan(world.snapshot()))
    settle(world)
    allocation = world.jobs[TRAIN].allocation
    assert allocation is not None
    assert allocation.option.variant == "outofcore"
    assert plan(world.snapshot()).commands == ()
    world.passes(1200.0)
    decided = plan(world.snapshot())
    assert chosen(decided)[0] == ""
    assert "nothing was learned of variant outofcore" in decided.jobs[TRAIN].reason.message
    world.carry_out(decided)
    settle(world)
    assert plan(world.snapshot()).commands == ()


def test_another_variant_on_the_same_number_of_gpus_is_another_option() -> None:
    world = running(graph(None))
    world.profile("gnn.compressed", ThroughputTable(((4, 1300.0), (8, 2200.0), (16, 3300.0))))
    compressed = Variant("compressed", ClassId("team", "gnn.compressed"), 8, 8, 8)
    world.jobs[TRAIN] = replace(world.jobs[TRAIN], variants=(compressed,))
    decided = plan(world.snapshot())
    assert why(decided, "train") is ReasonCode.MOVE_PAYS
    assert chosen(decided) == ("compressed", 8)
    world.carry_out(decided)
    settle(world)
    assert plan(world.snapshot()).commands == ()
