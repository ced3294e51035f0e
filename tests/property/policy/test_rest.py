"""What is carried out comes to rest: without an event no job moves twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.ids import JobId
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Money, Price
from charterer.domain.plan import Allocate, Release
from charterer.domain.profile import PowerLaw, SpeedCurve
from charterer.domain.time import parse_instant
from charterer.incremental import Memo
from charterer.policy import plan
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.simulation import Simulation
from tests import lanes
from tests.worlds import World

MOST_PLANS = 20
"""Plans at one instant after which there must be nothing left to do."""


@dataclass(frozen=True)
class Sold:
    """A GPU type: dollars an hour of a node of ``gpus`` GPUs, and the speed of one GPU."""

    price: str
    speed: float
    gpus: int = 8
    nodes: int = 100


TWO = {"p100": Sold("11.68", 1.0), "v100": Sold("19.84", 1.3)}
THREE_TIMES = {"cheap": Sold("1", 1.0, gpus=1), "dear": Sold("16", 3.0, gpus=1)}


def still_world(
    amount: float, sold: Mapping[str, Sold], jobs: int, hours: float, gpus: int | tuple[int, int, int] = 1
) -> World:
    """Half of the month is over, and jobs of one class wait."""
    world = World()
    world.budget(amount=f"{amount:.2f}")
    curves = [SpeedCurve(name, PowerLaw(0.8, each.speed)) for name, each in sold.items()]
    for name, each in sold.items():
        world.pool(name, price=each.price, gpus=each.gpus, max_nodes=each.nodes)
    world.profile("sft", PowerLaw(0.8, 1.0), gpu_type=curves[0].gpu_type, work_hours=hours, others=curves[1:])
    for number in range(jobs):
        world.job(f"job-{number}", gpus=gpus, profile="sft", hours_left=hours, age_seconds=float(number))
    return world


def moves_until_rest(world: World, memo: Memo) -> Counter[JobId]:
    """The moves of each job, at one instant, until a plan has no commands."""
    moved = Counter[JobId]()
    for _ in range(MOST_PLANS):
        before = world.snapshot()
        decided = plan(before, memo)
        if not decided.commands:
            return moved
        moved.update(
            command.job
            for command in decided.commands
            if isinstance(command, Allocate) and before.jobs[command.job].allocation is not None
        )
        world.carry_out(decided)
        world.everything_starts()
    pytest.fail(f"{MOST_PLANS} plans in a row had commands; moves: {dict(moved)}")


def moves(world: World, minutes: int) -> Counter[JobId]:
    """The moves of each job in so many minutes in which jobs train as was foreseen, and nothing else happens."""
    memo, moved = Memo(), Counter[JobId]()
    for _ in range(minutes):
        moved += moves_until_rest(world, memo)
        world.passes(60.0)
        world.everything_trains(60.0)
    return moved


@st.composite
def still_worlds(draw: st.DrawFn) -> World:
    """One to five jobs, rigid or elastic, short or long, and two or three GPU types."""
    node = st.builds(
        Sold,
        price=st.sampled_from(["1.00", "1.48", "2.74", "8.00", "11.68", "19.84", "32.00"]),
        speed=st.sampled_from([1.0, 1.3, 2.0, 3.0, 5.0]),
        gpus=st.sampled_from([1, 4, 8]),
        nodes=st.sampled_from([1, 2, 100]),
    )
    nodes = draw(st.lists(node, min_size=2, max_size=3))
    widths: st.SearchStrategy[int | tuple[int, int, int]] = st.sampled_from([1, 4, 8, (1, 1, 8), (1, 4, 16)])
    return still_world(
        draw(st.sampled_from([300.0, 1000.0, 2365.0, 5000.0, 20_000.0])),
        {f"type-{number}": each for number, each in enumerate(nodes)},
        draw(st.integers(1, 5)),
        draw(st.sampled_from([2.0, 20.0, 150.0, 1000.0])),
        draw(widths),
    )


@settings(
    max_examples=lanes.examples(30), derandomize=True
)  # with more jobs than choose together it has an exception (ADR 12)
@given(still_worlds())
def test_at_one_instant_no_job_moves_twice_whatever_gpu_types_are_sold(world: World) -> None:
    assert max(moves(world, minutes=60).values(), default=0) <= 1


def test_jobs_on_three_nodes_that_become_narrower_move_once() -> None:
    sold = {"single": Sold("1.00", 1.0, 1, 1), "wide": Sold("8.00", 1.0, 8, 100)}
    assert max(moves(still_world(1000.0, sold, 5, 150.0, (1, 4, 16)), minutes=60).values(), default=0) <= 1


def test_jobs_that_share_a_dear_node_beside_cheap_pools_of_one_node_move_once() -> None:
    sold = {"slow": Sold("1.00", 1.0, 1, 1), "dear": Sold("32.00", 5.0, 4, 100), "cheap": Sold("1.48", 3.0, 1, 1)}
    world = still_world(1000.0, sold, 5, 2.0, (1, 4, 16))
    assert max(moves(world, minutes=60).values(), default=0) <= 1


@pytest.mark.parametrize(
    ("amount", "sold", "jobs", "hours"),
    [(2365.0, TWO, 3, 150.0), (2365.0, TWO, 1, 1000.0), (3000.0, TWO, 2, 1000.0)],
)
def test_jobs_of_one_width_do_not_go_back_and_forth_between_two_gpu_types(
    amount: float, sold: Mapping[str, Sold], jobs: int, hours: float
) -> None:
    assert max(moves(still_world(amount, sold, jobs, hours), minutes=60).values(), default=0) <= 1


@pytest.mark.parametrize("amount", [2365, *lanes.repeats(500, 1000, 1500, 2000, 3000, 4000, 4821, 7000, 10_000)])
def test_on_a_grid_of_amounts_no_job_moves_twice_at_one_instant(amount: int) -> None:
    """Jobs of one GPU, and amounts between those for which all wait and those that pay for the dearest type."""
    for sold, jobs, hours in product((TWO, THREE_TIMES), (1, 2, 3), (20.0, 150.0, 1000.0)):
        found = moves(still_world(amount, sold, jobs, hours), minutes=60)
        assert max(found.values(), default=0) <= 1, (amount, sold, jobs, hours)


def test_a_month_from_its_first_day_ends_when_two_gpu_types_cost_nearly_the_same_for_a_job() -> None:
    seconds = 150.0 * 3600.0
    application = Application("sft", (1.0,), {"p100": ({1: 1.0 / seconds},), "v100": ({1: 1.3 / seconds},)})
    start = parse_instant("2026-06-01T00:00:00Z")
    scenario = Scenario(
        start=start,
        submissions=tuple(Submission(f"job-{number}", 0.0, "sft", 1) for number in range(3)),
        applications={"sft": application},
        pools=tuple(
            PoolModel(name, each.gpus, Price.parse(each.price), name, start_seconds=120.0) for name, each in TWO.items()
        ),
        budget=new_budget(start, Money.parse("4821")),
        terms=lambda _: JobTerms(Widths(1, 1, 1), ResizePolicy.RESTART),
    )
    memo = Memo()
    known = exact_profiles({class_of("sft"): application}, scenario.restart_seconds)
    counts = Simulation(scenario, lambda snapshot: plan(snapshot, memo), ExactKnowledge(known)).run().counts
    assert counts.completions == 3
    assert counts.starts <= 9


@pytest.mark.parametrize("amount", range(100, 400, 20))
def test_where_money_is_short_no_node_is_rented_for_a_job_that_is_not_let_in_once_it_is_ready(amount: int) -> None:
    """Only one of the jobs can have the cheap node; each of the others counts at what it costs on a dear one."""
    world = World()
    world.budget(amount=f"{amount}", ceiling="5")
    curves = [SpeedCurve(name, PowerLaw(0.8, 1.0)) for name in ("cheap", "dear")]
    world.pool("cheap", price="0.42", gpus=1, max_nodes=1)
    world.pool("dear", price="1.00", gpus=1)
    world.profile("sft", curves[0].form, gpu_type="cheap", work_hours=100.0, others=curves[1:])
    for number in range(6):
        world.job(f"job-{number}", gpus=1, profile="sft", hours_left=60.0 + 20.0 * number, age_seconds=float(number))
    world.carry_out(plan(world.snapshot()))
    world.everything_starts()
    assert not [command for command in plan(world.snapshot()).commands if isinstance(command, Release)]
