"""θ* against a linear program, a brute force and closed forms, and the laws of its step function."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from charterer.domain.ids import PoolId, Rate
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.profile import Amdahl, PowerLaw
from charterer.policy.options.speeds import throughput
from charterer.policy.solve.hull import (
    BudgetFit,
    Demand,
    Hull,
    Solution,
    corners,
    hull,
    rates_of_mixtures,
    solve,
    spend_rate,
)
from tests import lanes

Points = list[tuple[float, float]]
POINT = st.tuples(st.floats(0.5, 100.0), st.floats(0.5, 100.0))
POINTS = st.lists(POINT, min_size=1, max_size=12)
CLASSES = st.lists(st.tuples(POINTS, st.floats(0.01, 5.0), st.sampled_from([1.0, 0.5, 3.0])), min_size=1, max_size=6)


def demand_of(points: Points, load: float, weight: float = 1.0, ceiling: float = 1e4) -> tuple[Demand, Points]:
    """The demand of a class and the corners of its hull. Its ceiling is higher than ``ceiling`` if a slope is."""
    chain = [points[at] for at in corners(points)]
    slopes = [(m1 - m0) / (a0 - a1) for (m0, a0), (m1, a1) in itertools.pairwise(chain)]
    return Demand(
        slopes, [m for m, _ in chain], load, weight, max([ceiling, *(each / weight for each in slopes)])
    ), chain


def waiting(solution: Solution, demands: list[Demand], chains: list[Points]) -> float:
    """Σ w·λ·a at the solution, the mean weighted number of jobs."""
    total = 0.0
    for at, (demand, chain) in enumerate(zip(demands, chains, strict=True)):
        a = chain[solution.levels[at]][1]
        if at == solution.mixed:
            a += solution.mix * (chain[solution.levels[at] + 1][1] - a)
        total += demand.weight * demand.load * a
    return total


def lp_optimum(classes: list[tuple[Points, float, float]], allowed: float) -> float:
    """min Σ w·λ·Σ_o p_o·a_o with Σ λ·Σ_o p_o·m_o ≤ b, each class's p a distribution over ALL its options."""
    sizes = [len(points) for points, _, _ in classes]
    cost = [weight * load * a for points, load, weight in classes for _, a in points]
    spend = [[load * m for points, load, _ in classes for m, _ in points]]
    equal = np.zeros((len(classes), sum(sizes)))
    for at, size in enumerate(sizes):
        equal[at, sum(sizes[:at]) : sum(sizes[:at]) + size] = 1.0
    found = linprog(cost, A_ub=spend, b_ub=[allowed], A_eq=equal, b_eq=np.ones(len(classes)), method="highs")
    assert found.status == 0
    return float(found.fun)


@settings(max_examples=lanes.examples(150))
@given(CLASSES, st.floats(0.0, 1.2))
def test_theta_is_optimal_among_all_mixtures_of_all_options(
    classes: list[tuple[Points, float, float]], fraction: float
) -> None:
    made = [demand_of(*each) for each in classes]
    demands, chains = [demand for demand, _ in made], [chain for _, chain in made]
    base = sum(demand.load * demand.spends[0] for demand in demands)
    top = sum(demand.load * demand.spends[-1] for demand in demands)
    allowed = base * 1.0000001 + fraction * (top - base)

    solution = solve(demands, allowed)

    assert solution.spend <= allowed * (1 + 1e-9)
    assert waiting(solution, demands, chains) == pytest.approx(lp_optimum(classes, allowed), rel=1e-6)


@settings(max_examples=lanes.examples(150))
@given(CLASSES, st.floats(0.01, 0.99))
def test_a_budget_between_cheapest_and_fastest_is_met_exactly_by_one_mixing_class(
    classes: list[tuple[Points, float, float]], fraction: float
) -> None:
    demands = [demand_of(*each)[0] for each in classes]
    base = sum(demand.load * demand.spends[0] for demand in demands)
    top = sum(demand.load * demand.spends[-1] for demand in demands)
    if top - base < 1e-6 * top:
        return
    allowed = base + fraction * (top - base)
    solution = solve(demands, allowed)
    spent = 0.0
    for at, demand in enumerate(demands):
        level = solution.levels[at]
        spent += demand.load * demand.spends[level]
        if at == solution.mixed:
            spent += solution.mix * demand.load * (demand.spends[level + 1] - demand.spends[level])
    assert solution.fit is BudgetFit.MET
    assert spent == pytest.approx(allowed, rel=1e-9)


@settings(max_examples=lanes.examples(100))
@given(CLASSES, st.floats(0.0, 50.0), st.floats(0.0, 50.0))
def test_spend_never_falls_as_a_second_is_worth_more(
    classes: list[tuple[Points, float, float]], one: float, other: float
) -> None:
    demands = [demand_of(*each)[0] for each in classes]
    low, high = sorted((one, other))
    assert spend_rate(demands, Rate(low)) <= spend_rate(demands, Rate(high)) + 1e-9


@settings(max_examples=lanes.examples(100))
@given(CLASSES, st.floats(0.5, 300.0), st.floats(1.0, 3.0))
def test_more_money_never_lowers_theta(
    classes: list[tuple[Points, float, float]], allowed: float, factor: float
) -> None:
    demands = [demand_of(*each)[0] for each in classes]
    assert solve(demands, allowed).rate <= solve(demands, allowed * factor).rate


@settings(max_examples=lanes.examples(100))
@given(CLASSES, st.floats(0.5, 300.0), st.sampled_from([0.25, 2.0, 8.0]))
def test_prices_and_budget_scaled_alike_leave_every_choice_and_scale_theta(
    classes: list[tuple[Points, float, float]], allowed: float, factor: float
) -> None:
    plain = [demand_of(*each)[0] for each in classes]
    dear = [
        demand_of([(m * factor, a) for m, a in points], load, weight, 1e4 * factor)[0]
        for points, load, weight in classes
    ]
    before, scaled = solve(plain, allowed), solve(dear, allowed * factor)
    assert (scaled.fit, list(scaled.levels), scaled.mixed) == (before.fit, list(before.levels), before.mixed)
    assert scaled.rate == pytest.approx(before.rate * factor)


@settings(max_examples=lanes.examples(200))
@given(POINTS, st.floats(0.0, 200.0))
def test_the_hull_holds_a_best_point_for_every_theta(points: Points, theta: float) -> None:
    chain = corners(points)
    assert min(theta * points[at][1] + points[at][0] for at in chain) == pytest.approx(
        min(theta * a + m for m, a in points)
    )
    assert all(points[left][0] < points[right][0] for left, right in itertools.pairwise(chain))


def test_too_small_a_budget_gives_everybody_the_cheapest_and_values_a_second_at_nothing() -> None:
    demand, _ = demand_of([(10.0, 5.0), (20.0, 2.0)], 1.0)
    solution = solve([demand], 9.0)
    assert (solution.fit, solution.rate, list(solution.levels)) == (BudgetFit.INFEASIBLE, 0.0, [0])


def test_a_surplus_gives_everybody_the_fastest_at_the_highest_ceiling() -> None:
    classes = [demand_of([(10.0, 5.0), (20.0, 2.0)], 1.0, ceiling=ceiling)[0] for ceiling in (5.0, 7.0)]
    solution = solve(classes, 100.0)
    assert solution.fit is BudgetFit.SURPLUS
    assert (solution.spend, solution.rate) == (40.0, 7.0)


def test_no_class_at_all_leaves_a_surplus() -> None:
    assert solve([], 5.0) == Solution(BudgetFit.SURPLUS, Rate(0.0), [], None, 0.0, 0.0)


def options(form: Amdahl | PowerLaw, price: Price, most: int) -> list[Option]:
    reference = throughput(form, 1) or 1.0
    return [
        Option(PoolId("a"), gpus, (throughput(form, gpus) or 0.0) / reference, price.for_gpus(gpus, 1))
        for gpus in range(1, most + 1)
    ]


def widths(found: Hull, theta: float) -> float:
    return found.best(Rate(theta))[0].gpus


@settings(max_examples=lanes.examples(100))
@given(st.floats(0.5, 0.995), st.floats(1e-5, 1e-2))
def test_amdahl_gives_the_closed_form_width(parallel: float, theta: float) -> None:
    """(θ + c·k)·((1-p) + p/k) is least at k = √(θ·p / (c·(1-p))); a whole width is beside it."""
    price = Price.parse("3.6")  # $0.001 a second
    ideal = math.sqrt(theta * parallel / (price.dollars_per_second * (1 - parallel)))
    chosen = widths(hull(options(Amdahl(parallel, 7.0), price, 256), 3600.0), theta)
    assert min(max(math.floor(ideal), 1), 256) <= chosen <= min(max(math.ceil(ideal), 1), 256)


@settings(max_examples=lanes.examples(100))
@given(st.floats(0.3, 0.95), st.floats(1e-4, 1e-2))
def test_a_power_law_gives_the_closed_form_width(exponent: float, theta: float) -> None:
    """(θ + c·k)/k^α is least at k = α·θ / (c·(1-α))."""
    price = Price.parse("3.6")
    ideal = exponent * theta / (price.dollars_per_second * (1 - exponent))
    chosen = widths(hull(options(PowerLaw(exponent, 7.0), price, 256), 3600.0), theta)
    assert min(max(math.floor(ideal), 1), 256) <= chosen <= min(max(math.ceil(ideal), 1), 256)


@settings(max_examples=lanes.examples(150))
@given(CLASSES, st.lists(st.floats(0.0, 4.0), min_size=1, max_size=4), st.floats(0.0, 1.0), st.floats(0.0, 3.0))
def test_rates_of_many_loads_are_those_of_each_alone(
    classes: list[tuple[Points, float, float]], factors: list[float], part: float, fraction: float
) -> None:
    demands = [demand_of(*each)[0] for each in classes]
    least = [[part * spend for spend in demand.spends] for demand in demands]
    allowed = fraction * sum(demand.load * demand.spends[-1] for demand in demands)
    found = rates_of_mixtures(demands, least, factors, allowed)
    for factor, rate in zip(factors, found, strict=True):
        loads = [
            replace(
                demand, spends=[sure + factor * (all_ - sure) for all_, sure in zip(demand.spends, of, strict=True)]
            )
            for demand, of in zip(demands, least, strict=True)
        ]
        assert rate in (solve(loads, allowed * (1.0 - 1e-9)).rate, solve(loads, allowed * (1.0 + 1e-9)).rate)
