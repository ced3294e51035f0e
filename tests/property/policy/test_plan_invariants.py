"""What holds for every plan, whatever the world looks like."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.budget import EVERYTHING, Mode, Selector
from charterer.domain.budget_tree import budget_tree
from charterer.domain.ids import BudgetId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import ResizePolicy
from charterer.domain.money import Money
from charterer.domain.node_demands import NO_DEMANDS, NodeDemands
from charterer.domain.plan import Allocate, Command, Plan, ReasonCode, Release, Rent
from charterer.domain.pool import Notice
from charterer.domain.profile import Amdahl, PowerLaw, SpeedCurve, ThroughputTable
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import after
from charterer.policy import plan
from charterer.policy.nodes.rentals import held_by
from charterer.policy.planner import solve_budgets
from tests import factory, lanes
from tests.worlds import World

DISTURBANCES = st.lists(
    st.sampled_from(["suspend", "cool", "notice", "end", "node", "edit", "survey", "pool", "labels", "selector"]),
    max_size=3,
)
LABELS = st.dictionaries(st.sampled_from(["tier", "team"]), st.sampled_from(["a", "b"]))
EXPRESSIONS = st.one_of(
    st.tuples(st.just("tier"), st.sampled_from(["In", "NotIn"]), st.sampled_from([("a",), ("a", "b")])),
    st.tuples(st.sampled_from(["tier", "team"]), st.sampled_from(["Exists", "DoesNotExist"]), st.just(())),
)
SELECTORS = st.one_of(
    st.just(EVERYTHING),
    st.builds(
        Selector, LABELS.map(lambda labels: tuple(sorted(labels.items()))), st.lists(EXPRESSIONS, max_size=1).map(tuple)
    ),
)
WIDTHS: st.SearchStrategy[int | tuple[int, int, int]] = st.sampled_from(
    [1, 2, 4, 8, 16, (1, 1, 4), (1, 4, 32), (2, 8, 64), (8, 16, 64)]
)

SHAPES = st.sampled_from([None, None, (1, 5), (1, 12), (2, 4), (3, 2), (3, 5), (4, 3), (8, 2)])
"""GPUs of each pod and number of pods, of jobs whose pods are what they are."""
DEMANDS = st.sampled_from([NO_DEMANDS, *(NodeDemands(asks=(("cpu", 1000 * cpu),)) for cpu in (4, 9, 20))])
ROOM: st.SearchStrategy[dict[str, int]] = st.sampled_from([{}, {"cpu": 32}])


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A world that has lived through a few plans, with things going on and things gone wrong."""
    world = World(lag_seconds=draw(st.sampled_from([0.0, 20.0])))
    money = st.sampled_from(["500", "5000", "60000", "900000"])
    limits = st.sampled_from([None, None, "120", "4000", "61000"])
    parent = draw(st.sampled_from([None, None, "company"]))
    if parent is not None:
        hourly = draw(st.sampled_from([None, "60", "400"]))
        world.budget(parent, amount=draw(money), hard_limit=draw(limits), max_hourly=hourly)
    for name in draw(st.sampled_from([["research"], ["research", "prod"]])):
        world.budget(
            name,
            parent=parent,
            amount=draw(money),
            hard_limit=draw(limits),
            max_hourly=draw(st.sampled_from([None, "40", "400"])),
            mode=draw(st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, Mode.ENFORCE, Mode.OBSERVE])),
            pools=draw(SELECTORS),
        )
    rooms = st.sampled_from([1, 3, 50])
    world.pool(
        "a100",
        labels=draw(LABELS),
        price="16",
        max_nodes=draw(rooms),
        billing_minimum=draw(st.sampled_from([0, 3600])),
        committed_hours=draw(st.sampled_from([None, None, None, 3.0, 900.0])),
        payer=draw(st.sampled_from(["research", "prod"])),
        room=draw(ROOM),
    )
    world.pool(
        "h100", labels=draw(LABELS), gpus=draw(st.sampled_from([4, 8])), price="40", worst="60", max_nodes=draw(rooms)
    )
    world.profile("sft", Amdahl(0.97, 1.0), work_hours=20, others=(SpeedCurve("h100", Amdahl(0.98, 2.0)),))
    world.profile("rl", PowerLaw(0.8, 1.0), arrivals_per_hour=0.5, work_hours=4)
    world.profile("table", ThroughputTable(((1, 10.0), (4, 30.0), (8, 45.0))))
    for number in range(draw(st.integers(0, 9))):
        shape = draw(SHAPES)
        world.job(
            f"j{number}",
            gpus=draw(WIDTHS) if shape is None else shape[0] * shape[1],
            each=0 if shape is None else shape[0],
            demands=draw(DEMANDS),
            profile=draw(st.sampled_from([None, "sft", "rl", "table"])),
            budget=draw(st.sampled_from([*world.budgets, *world.budgets, None])),
            weight=draw(st.sampled_from([1.0, 5.0])),
            resize=draw(st.sampled_from(list(ResizePolicy))),
            hours_left=draw(st.sampled_from([None, 0.1, 5.0, 100.0])),
            grace_seconds=draw(st.sampled_from([0, 30, 600])),
            age_seconds=draw(st.integers(0, 1000)),
            target_hours=draw(st.sampled_from([None, None, 0.1, 3.0, 30.0])),
            max_cost=draw(st.sampled_from([None, None, "3", "300"])),
        )
    for _ in range(draw(st.integers(0, 4))):
        world.carry_out(plan(world.snapshot()))
        if draw(st.booleans()):
            world.everything_starts()
        world.passes(draw(st.sampled_from([1.0, 300.0, 20_000.0])))
    _disturb(draw, world)
    return world


def _announce(draw: st.DrawFn, world: World, pool: PoolId, what: str) -> None:
    """One machine of the pool is taken back, or all of them end at a known time."""
    held = [rental.instance for rental in world.rentals.values() if rental.pool == pool and rental.instance]
    if what == "notice":
        world.notices[pool] = tuple(Notice(instance, world.now) for instance in held[:1])
    else:
        end = after(world.now, draw(st.sampled_from([-60.0, 30.0, 80.0, 300.0, 900.0, 5000.0])))
        world.known_ends |= dict.fromkeys(held, end)


def _disturb(draw: st.DrawFn, world: World) -> None:
    for what in draw(DISTURBANCES):
        pool = draw(st.sampled_from(list(world.pools)))
        if what == "cool":
            world.pools[pool] = replace(world.pools[pool], cooled=factory.cooled(after(world.now, 60)))
        elif what == "survey":
            world.unsurveyed.add(pool)
        elif what == "pool":
            world.pools[pool] = replace(world.pools[pool], deleting=True)
        elif what == "labels":
            world.pools[pool] = replace(world.pools[pool], labels=draw(LABELS))
        elif what == "selector":
            budget = draw(st.sampled_from(list(world.budgets)))
            world.budgets[budget] = replace(world.budgets[budget], pool_selector=draw(SELECTORS))
        elif what == "node" and world.nodes:
            node = draw(st.sampled_from(sorted(world.nodes)))
            world.nodes[node] = replace(world.nodes[node], ready=False)
        elif what in ("notice", "end"):
            _announce(draw, world, pool, what)
        elif world.jobs:
            job = world.jobs[draw(st.sampled_from(sorted(world.jobs)))]
            if what == "suspend":
                world.jobs[job.id] = replace(job, suspend=True)
            elif what == "edit":
                world.jobs[job.id] = replace(job, widths=replace(job.widths, min=1, preferred=2, max=2))


def nothing_is_rented_given_or_kept_idle_in_a_pool_that_its_budget_does_not_select(
    before: Snapshot, decided: Plan
) -> None:
    for command in (*decided.commands, *decided.observed_commands):
        if isinstance(command, Rent):
            assert command.pool in before.pools_of(before.budgets[command.budget])
        elif isinstance(command, Allocate) and command.allocation is not None:
            payer = before.jobs[command.job].budget
            assert payer is not None
            assert command.allocation.option.pool in before.pools_of(before.budgets[payer])
    enforcing = {name for name, budget in before.budgets.items() if budget.mode is Mode.ENFORCE}
    rental_of = {rental.node: rental.id for rental in before.rentals.values() if rental.node is not None}
    held = {rental for job in before.jobs.values() for rental in held_by(job, rental_of)}
    released = {command.rental for command in decided.commands if isinstance(command, Release)}
    for rental in before.rentals.values():
        paid = rental.launched is None or before.now >= after(rental.launched, rental.billing_minimum_seconds)
        selected = rental.pool in before.pools_of(before.budgets[rental.budget])
        idle = rental.phase not in (RentalPhase.DRAINING, RentalPhase.ENDED) and rental.id not in held
        if rental.budget in enforcing and idle and paid and not selected and rental.pool in before.surveys:
            assert rental.id in released


def the_same_snapshot_gives_the_same_plan(before: Snapshot, decided: Plan) -> None:
    assert plan(before) == decided


def no_object_is_written_twice_by_one_plan(before: Snapshot, decided: Plan) -> None:
    written = Counter(command.job if isinstance(command, Allocate) else command.rental for command in decided.commands)
    assert all(count == 1 for count in written.values())


def no_gpu_is_given_twice_and_only_on_usable_nodes_of_the_own_budget(
    before: Snapshot, decided: Plan, later: Snapshot
) -> None:
    released = {command.rental for command in decided.commands if isinstance(command, Release)}
    for command in decided.commands:
        if isinstance(command, Allocate) and command.allocation is not None:
            job = before.jobs[command.job]
            assert sum(place.gpus for place in command.allocation.placements) == command.allocation.option.gpus
            assert sum(place.empty for place in command.allocation.placements) == command.allocation.option.empty
            assert {place.gpus for place in command.allocation.placements} == {
                job.widths.each or command.allocation.placements[0].gpus
            }
            kept = set() if job.allocation is None else set(job.allocation.placements)
            same_run = job.allocation is not None and job.allocation.run == command.allocation.run
            for place in command.allocation.placements:
                rental = before.rentals[place.rental]
                assert rental.budget == job.budget
                assert rental.pool == command.allocation.option.pool
                if same_run and place in kept:
                    continue
                assert rental.phase is RentalPhase.READY
                assert rental.node is not None
                assert before.nodes[rental.node].ready
                assert rental.id not in released
    rental_of = {rental.node: rental.id for rental in later.rentals.values() if rental.node is not None}
    given_out: Counter[str] = Counter()
    for job in later.jobs.values():
        given_out.update(held_by(job, rental_of))
    for rental in later.rentals.values():
        if rental.node in later.nodes:
            assert given_out[rental.id] <= later.nodes[NodeName(rental.node or "")].gpus


def pods_on_a_node_have_the_processors_that_they_ask_for(later: Snapshot) -> None:
    asked: Counter[str] = Counter()
    for job in later.jobs.values():
        for place in () if job.allocation is None else job.allocation.placements:
            asked[place.rental] += dict(job.demands.asks).get("cpu", 0)
    for name, cpu in asked.items():
        room = later.pools[later.rentals[RentalId(name)].pool].node_resources
        assert cpu <= room.get("cpu", cpu)


def pools_are_never_asked_for_what_they_cannot_give(before: Snapshot, decided: Plan) -> None:
    rents = [command for command in decided.commands if isinstance(command, Rent)]
    for pool, more in Counter(rent.pool for rent in rents).items():
        live = sum(rental.pool == pool and rental.phase is not RentalPhase.ENDED for rental in before.rentals.values())
        assert live + more <= before.pools[pool].max_nodes
        assert not before.pools[pool].deleting
        assert before.pools[pool].cooling(before.now) is None
        assert pool in before.surveys
    assert not {rent.rental for rent in rents} & set(before.rentals)


def renting_keeps_both_limits_in_the_worst_case(before: Snapshot, decided: Plan) -> None:
    below = budget_tree(before.budgets).below
    for budget in before.budgets.values():
        family = {budget.id, *below.get(budget.id, ())}
        rents = [command for command in decided.commands if isinstance(command, Rent) and command.budget in family]
        if not rents:
            continue
        live = [
            rental
            for rental in before.rentals.values()
            if rental.budget in family and rental.phase is not RentalPhase.ENDED
        ]
        if budget.hard_limit is not None:
            verdict = decided.budgets[budget.id].with_descendants or decided.budgets[budget.id]
            assert verdict.committed.micros + sum(rent.reserve.micros for rent in rents) <= budget.hard_limit.micros
        if budget.max_hourly_rate is not None:
            worst = sum(rental.worst.micros_per_hour for rental in live) + sum(
                rent.worst.micros_per_hour for rent in rents
            )
            assert worst <= budget.max_hourly_rate.micros_per_hour


def a_budget_that_observes_changes_nothing(before: Snapshot, decided: Plan) -> None:
    for command in decided.commands:
        owner = before.jobs[command.job].budget if isinstance(command, Allocate) else _payer(command, before)
        assert owner is not None
        assert before.budgets[owner].mode is Mode.ENFORCE


def _payer(command: Command, snapshot: Snapshot) -> BudgetId | None:
    if isinstance(command, Rent):
        return command.budget
    return snapshot.rentals[command.rental].budget if isinstance(command, Release) else None


def every_job_and_every_budget_is_judged_and_every_command_says_why(before: Snapshot, decided: Plan) -> None:
    assert set(decided.jobs) == set(before.jobs)
    assert set(decided.budgets) == set(before.budgets)
    assert all(command.reason.message for command in (*decided.commands, *decided.observed_commands))
    assert decided.again_at is None or decided.again_at > before.now


def a_never_job_keeps_its_width_while_it_runs(before: Snapshot, decided: Plan) -> None:
    for command in decided.commands:
        if isinstance(command, Allocate) and command.allocation is not None:
            job = before.jobs[JobId(command.job)]
            if job.resize is ResizePolicy.NEVER and job.allocation is not None:
                assert command.reason.code in (
                    ReasonCode.INTERRUPTION,
                    ReasonCode.LOST_NODE,
                    ReasonCode.POOL_DELETED,
                    ReasonCode.HOURLY_LIMIT,
                )


def after_commands(world: World, decided: Plan) -> Snapshot:
    world.carry_out(decided)
    return world.snapshot()


@settings(max_examples=lanes.examples(200))
@given(worlds())
def test_every_plan_keeps_the_laws(world: World) -> None:
    before = world.snapshot()
    decided = plan(before)
    later = after_commands(world, decided)
    nothing_is_rented_given_or_kept_idle_in_a_pool_that_its_budget_does_not_select(before, decided)
    the_same_snapshot_gives_the_same_plan(before, decided)
    no_object_is_written_twice_by_one_plan(before, decided)
    no_gpu_is_given_twice_and_only_on_usable_nodes_of_the_own_budget(before, decided, later)
    pods_on_a_node_have_the_processors_that_they_ask_for(later)
    pools_are_never_asked_for_what_they_cannot_give(before, decided)
    renting_keeps_both_limits_in_the_worst_case(before, decided)
    a_budget_that_observes_changes_nothing(before, decided)
    every_job_and_every_budget_is_judged_and_every_command_says_why(before, decided)
    a_never_job_keeps_its_width_while_it_runs(before, decided)


@settings(max_examples=lanes.examples(50))
@given(worlds(), SELECTORS)
def test_what_is_spent_and_the_hard_limit_do_not_depend_on_the_selected_pools(world: World, other: Selector) -> None:
    def money(world: World) -> list[tuple[Money, Money]]:
        return [(verdict.spent, verdict.committed) for verdict in plan(world.snapshot()).budgets.values()]

    before = money(world)
    for name, budget in world.budgets.items():
        world.budgets[name] = replace(budget, pool_selector=other)
    assert sorted(money(world)) == sorted(before)


@settings(max_examples=lanes.examples(120))
@given(worlds())
def test_a_plan_that_was_carried_out_is_not_taken_back_by_the_next(world: World) -> None:
    before = world.snapshot()
    first = plan(before)
    second = plan(after_commands(world, first))
    rented = {command.rental for command in first.commands if isinstance(command, Rent)}
    placed = {
        command.job for command in first.commands if isinstance(command, Allocate) and command.allocation is not None
    }
    # What ended frees money from the next plan on: θ, and what is held back of a hard limit, are those of what is left.
    left = any(isinstance(command, Allocate) and before.jobs[command.job].allocation for command in first.commands)
    given_back = {before.rentals[command.rental].pool for command in first.commands if isinstance(command, Release)}
    stopped = {
        command.job: command.reason.code
        for command in first.commands
        if isinstance(command, Allocate)
        and command.allocation is None
        and command.reason.code is not ReasonCode.NOT_STARTING
    }
    # The world has no record of withdrawn runs, so their jobs ask for nodes again; in a cluster they rest.
    withdrawn = any(
        isinstance(command, Allocate) and command.reason.code is ReasonCode.NOT_STARTING for command in first.commands
    )
    for command in second.commands:
        match command:
            case Release(rental) if not withdrawn:
                assert rental not in rented
            case Allocate(job, allocation):
                assert job not in placed
                assert job not in stopped or allocation is not None
            case Rent(pool=pool) if not withdrawn:
                assert left or given_back, "the first plan rented too few"
                assert pool not in given_back, "the first plan released too many"


@settings(max_examples=lanes.examples(60))
@given(worlds())
def test_a_plan_leaves_the_overhead_on_which_it_rests_as_it_was(world: World) -> None:
    def overheads() -> dict[BudgetId, float]:
        return {solution.budget.id: solution.calibration.overhead for solution in solve_budgets(world.snapshot())}

    before = overheads()
    world.carry_out(plan(world.snapshot()))
    assert overheads() == pytest.approx(before)


@settings(max_examples=lanes.examples(150))
@given(worlds())
def test_carrying_out_plans_without_time_passing_comes_to_rest(world: World) -> None:
    for _ in range(12):
        decided = plan(world.snapshot())
        if not decided.commands:
            return
        world.carry_out(decided)
    raise AssertionError(f"still {decided.commands}")


def test_pools_that_were_never_surveyed_are_left_alone() -> None:
    world = World()
    world.budget()
    world.pool()
    world.rental()
    world.unsurveyed.add(PoolId("a100"))
    assert plan(world.snapshot()).commands == ()
