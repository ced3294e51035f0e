"""A further pool, a lower price or more nodes make no job slower, at amounts that bind and at amounts that do not.

An hour of a job may cost γ at most, so what an amount buys is the least γ·time + dollars within it, and one thing more
to choose never makes that more. Time may become longer only where γ binds afterwards, and each hour then saves more
than γ. By default γ follows the dearest pool (``options.menu``): the law is for changes that leave it alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.money import Money
from charterer.domain.profile import Amdahl, PowerLaw, SpeedCurve
from charterer.policy.planner import solve_budgets
from charterer.tools.frontier import Frontier
from tests import lanes
from tests.worlds import World

TIMES = st.sampled_from([1.02, 1.1, 1.3, 1.6, 2.0, 3.0, 30.0])
"""Amounts, in multiples of what all jobs cost at the least."""
AMPLE = 900_000.0
EXACT = 1.01
"""Jobs that come in the last hours are paid for in part: their number goes with their life."""


@dataclass(frozen=True)
class Sold:
    """A pool: dollars an hour of a GPU, the speed of one, and its nodes of ``gpus`` GPUs."""

    price: float
    speed: float
    gpus: int
    nodes: int


@dataclass(frozen=True)
class Figures:
    """Mean ``hours`` and ``dollars`` of a job at what its class is given; ``most``, ``rate``: γ and θ, dollars an hour.

    ``feasible``: no job waits for money.
    """

    hours: float
    dollars: float
    most: float
    rate: float
    feasible: bool


def world(sold: list[Sold], form: Amdahl | PowerLaw, amount: float, arrivals: float | None, jobs: int) -> World:
    """Half of the month is over; jobs of five hours on the first type ask for four GPUs and may have one to 32."""
    made = World()
    made.budget(amount=f"{amount:.2f}")
    curves = [SpeedCurve(f"type-{number}", replace(form, value=each.speed)) for number, each in enumerate(sold)]
    for curve, each in zip(curves, sold, strict=True):
        made.pool(curve.gpu_type, gpus=each.gpus, price=f"{each.price * each.gpus:.2f}", max_nodes=each.nodes)
    first = curves[0]
    made.profile(
        "sft", first.form, gpu_type=first.gpu_type, work_hours=5.0, arrivals_per_hour=arrivals, others=curves[1:]
    )
    for number in range(jobs):
        made.job(f"job-{number}", gpus=(1, 4, 32), profile="sft")
    return made


def least(made: World) -> float:
    """Dollars of all jobs of the rest of the month on their cheapest option."""
    (solution,) = solve_budgets(made.snapshot())
    (assignment,) = solution.assignments.values()
    number = assignment.group.arrivals * solution.pacing.horizon + assignment.group.in_sight
    return number * assignment.group.hull.money[0]


def figures(made: World) -> Figures:
    """What the class is given; where its arrivals are known, in the long run of what is allowed."""
    (solution,) = solve_budgets(made.snapshot())
    (assignment,) = solution.assignments.values()
    frontier = Frontier(solution)
    if not frontier.empty:
        point = frontier.at(Money.of(solution.allowed * frontier.period_seconds))
        return Figures(
            hours=(point.mean_seconds or 0.0) / 3600.0,
            dollars=point.spend.dollars / frontier.period_seconds / assignment.arrivals,
            most=assignment.group.most * 3600.0,
            rate=point.rate * 3600.0,
            feasible=point.mean_seconds is not None,
        )
    return Figures(
        hours=assignment.mean_seconds / 3600.0,
        dollars=assignment.mean_dollars,
        most=assignment.group.most * 3600.0,
        rate=solution.rate * 3600.0,
        feasible=solution.feasible,
    )


@st.composite
def pools(draw: st.DrawFn, nodes: st.SearchStrategy[int]) -> list[Sold]:
    """The first is the dearest, and no other costs less than a third of it: they leave γ alone."""
    dearest = draw(st.sampled_from([1.0, 2.0, 5.0]))
    first = Sold(dearest, draw(st.sampled_from([1.0, 1.3, 2.0])), draw(st.sampled_from([1, 8])), draw(nodes))
    other = st.builds(
        Sold,
        price=st.floats(0.34, 1.0).map(lambda part: round(part * dearest, 2)),
        speed=st.sampled_from([0.5, 1.0, 1.3, 2.0]),
        gpus=st.sampled_from([1, 8]),
        nodes=nodes,
    )
    return [first, *draw(st.lists(other, min_size=1, max_size=2))]


def changed(sold: list[Sold], change: str) -> list[Sold]:
    """With one thing more to choose, of the last pool."""
    *others, last = sold
    if change == "price":
        return [*others, replace(last, price=round(max(0.6 * last.price, 0.34 * sold[0].price), 2))]
    if change == "nodes":
        return [*others, replace(last, nodes=2 * last.nodes)]
    return [*sold, replace(last, price=round(max(0.8 * last.price, 0.34 * sold[0].price), 2))]


CHANGES = st.sampled_from(["price", "nodes", "pool"])
FORMS = st.sampled_from([Amdahl(0.97, 1.0), Amdahl(0.8, 1.0), PowerLaw(0.8, 1.0)])


def check(before: Figures, after: Figures) -> None:
    if not before.feasible:
        return
    assert after.most * (1 + 1e-9) >= before.most
    if after.rate < before.most:
        assert after.hours <= before.hours * EXACT, (before, after)
    assert before.most * after.hours + after.dollars <= (before.most * before.hours + before.dollars) * EXACT or (
        after.hours <= before.hours
    ), (before, after)


@settings(max_examples=lanes.examples(80))
@given(pools(st.just(1000)), FORMS, TIMES, st.sampled_from([0.02, 0.3]), st.integers(1, 6), CHANGES)
def test_with_room_for_all_one_thing_more_to_choose_makes_no_job_slower(
    sold: list[Sold], form: Amdahl | PowerLaw, times: float, arrivals: float, jobs: int, change: str
) -> None:
    amount = times * least(world(sold, form, AMPLE, arrivals, jobs))
    before, after = (figures(world(each, form, amount, arrivals, jobs)) for each in (sold, changed(sold, change)))
    check(before, after)


@settings(max_examples=lanes.examples(80))
@given(
    pools(st.just(1000)),
    FORMS,
    st.sampled_from([50.0, 200.0, 1000.0, 5000.0, AMPLE]),
    st.integers(1, 6),
    st.sampled_from(["nodes", "pool"]),
)
def test_nor_where_the_load_is_assumed(
    sold: list[Sold], form: Amdahl | PowerLaw, amount: float, jobs: int, change: str
) -> None:
    """A lower price can mean more jobs there: the amount was made for some load at the prices of all pools."""
    before, after = (figures(world(each, form, amount, None, jobs)) for each in (sold, changed(sold, change)))
    check(before, after)
