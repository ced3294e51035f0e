"""Scarcity prices against brute force and closed forms, and by the conditions that make a choice the best one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

import pytest

from charterer.domain.ids import BudgetId, PoolId
from charterer.policy.solve.exchange_rate import BudgetFit, Demand, solve
from charterer.policy.solve.hull import corners
from charterer.policy.solve.linear_program import minimise
from charterer.policy.solve.lp_columns import LpClass, LpColumn, LpColumns, pareto_front
from charterer.policy.solve.scarce_solution import ScarceSolution
from charterer.policy.solve.scarcity import solve_scarce

EXACT = 1e-9
Rooms = dict[PoolId, float]
Money = dict[BudgetId, float]


@dataclass(frozen=True)
class Case:
    """A drawn program."""

    classes: list[LpClass]
    budgets: Money
    capacity: Rooms


def case(seed: int, *, budgets: int, tight: bool = False, multi: bool = False, ceilings: bool = False) -> Case:
    """Random classes on random pools: budgets near what cheap ways cost, pools near what those use."""
    draw = random.Random(seed)
    pools = [PoolId(f"p{number}") for number in range(draw.randint(1, 5))]
    prices = {pool: draw.uniform(1, 5) / 3600 for pool in pools}
    owners = [BudgetId(f"b{number}") for number in range(budgets)]
    classes, spend, use = [], dict.fromkeys(owners, 0.0), dict.fromkeys(pools, 0.0)
    for number in range(draw.randint(budgets, 14)):
        parallel, work = draw.uniform(0.5, 0.999), draw.uniform(0.5, 20) * 3600
        ways = []
        for _ in range(draw.randint(1, 10)):
            pool, gpus = draw.choice(pools), 2 ** draw.randint(0, 6)
            took = work * ((1 - parallel) + parallel / gpus) * draw.uniform(0.7, 1.4)
            used = {pool: gpus * took}
            if multi and draw.random() < 0.4:
                part, other = draw.random(), draw.choice(pools)
                used[pool] *= part
                used[other] = used.get(other, 0.0) + (1 - part) * gpus * took
            ways.append(LpColumn(sum(prices[p] * u for p, u in used.items()) + draw.uniform(0, 2), took, used))
        load, weight = draw.uniform(0.1, 2) / 3600, draw.choice([1.0, 1.0, 2.0, 0.5])
        cheapest = min(ways, key=lambda way: way.money)
        ceiling = 20.0 * cheapest.money / cheapest.seconds if ceilings else 5.0
        one = LpClass(owners[number % budgets], load, weight, ceiling, LpColumns(ways))
        classes.append(one)
        typical = sorted(ways, key=lambda way: way.money)[min(len(ways) - 1, draw.randrange(4))]
        spend[one.budget] += one.load * typical.money
        for pool, used_there in typical.use.items():
            use[pool] += one.load * used_there
    low, high = (0.3, 1.1) if tight else (0.9, 2.5)
    return Case(
        classes,
        {owner: much * draw.uniform(low, high) for owner, much in spend.items()},
        {pool: max(much, 1.0) * draw.uniform(low, high) for pool, much in use.items()},
    )


def assert_feasible(drawn: Case, solution: ScarceSolution) -> None:
    spends, uses = dict.fromkeys(drawn.budgets, 0.0), dict.fromkeys(drawn.capacity, 0.0)
    for lp_class, mix, queued in zip(drawn.classes, solution.mixes, solution.queued, strict=True):
        assert sum(mix.values()) == pytest.approx(1.0, abs=EXACT)
        assert min(mix.values()) >= 0.0
        assert -EXACT <= queued <= 1 + EXACT
        for at, fraction in mix.items():
            spends[lp_class.budget] += lp_class.load * (1 - queued) * fraction * lp_class.columns[at].money
            for pool, amount in lp_class.columns[at].use.items():
                uses[pool] += lp_class.load * (1 - queued) * fraction * amount
    assert all(spends[budget] <= room * (1 + EXACT) + 1e-15 for budget, room in drawn.budgets.items())
    assert all(uses[pool] <= room * (1 + EXACT) + 1e-12 for pool, room in drawn.capacity.items())


def takes_its_best_columns(drawn: Case, solution: ScarceSolution) -> bool:
    for lp_class, mix in zip(drawn.classes, solution.mixes, strict=True):
        worth = lp_class.weight * min(solution.rates[lp_class.budget], lp_class.ceiling)
        values = [
            worth * column.seconds
            + column.money
            + sum(solution.price(lp_class.budget, pool) * amount for pool, amount in column.use.items())
            for column in lp_class.columns
        ]
        if any(values[at] > min(values) * (1 + 1e-6) for at in mix):
            return False
    return True


def assert_only_what_is_full_has_a_price(drawn: Case, solution: ScarceSolution) -> None:
    for pool, room in drawn.capacity.items():
        assert solution.prices[pool] >= 0.0
        if solution.prices[pool] > 0.0:
            assert solution.uses[pool] == pytest.approx(room, rel=1e-8)
    for budget, room in drawn.budgets.items():
        if solution.fits[budget] is BudgetFit.MET:
            assert solution.spends[budget] == pytest.approx(room, rel=1e-8)


@pytest.mark.parametrize("budgets", [1, 2, 4])
@pytest.mark.parametrize("multi", [False, True])
def test_a_choice_that_fits_at_prices_of_what_is_full_where_each_takes_its_best_is_the_best(
    budgets: int, multi: bool
) -> None:
    """Complementary slackness: these three conditions together say that the linear program is solved."""
    solved = 0
    for seed in range(60):
        drawn = case(seed, budgets=budgets, multi=multi)
        solution = solve_scarce(drawn.classes, drawn.budgets, drawn.capacity)
        assert_feasible(drawn, solution)
        if max(solution.queued) > 0.0:
            continue
        solved += 1
        assert takes_its_best_columns(drawn, solution)
        assert_only_what_is_full_has_a_price(drawn, solution)
        assert max(solution.dollars.values()) == pytest.approx(1.0)
    assert solved > 15


@pytest.mark.parametrize("multi", [False, True])
def test_classes_with_ceilings_of_their_own_take_their_best_columns_below_them(multi: bool) -> None:
    """Ceilings in one budget differ by up to a hundred times here; a few programs do not settle the last of them."""
    solved = settled = 0
    for seed in range(120):
        drawn = case(seed, budgets=1 + seed % 3, multi=multi, ceilings=True)
        solution = solve_scarce(drawn.classes, drawn.budgets, drawn.capacity)
        assert_feasible(drawn, solution)
        if max(solution.queued) == 0.0:
            assert_only_what_is_full_has_a_price(drawn, solution)
            solved += 1
            settled += takes_its_best_columns(drawn, solution)
    assert settled > 0.9 * solved > 30


def test_no_choice_on_a_grid_takes_less_time_with_the_same_money_and_room() -> None:
    budget, pool, fractions = BudgetId("b"), PoolId("p"), [step / 12 for step in range(13)]
    compared = 0
    for seed in range(60):
        draw = random.Random(seed)
        classes = [
            LpClass(
                budget,
                draw.uniform(0.1, 2.0),
                draw.choice([1.0, 2.0, 0.5]),
                1e3,
                LpColumns(
                    [
                        LpColumn(draw.uniform(1, 2), draw.uniform(6, 9), {pool: draw.uniform(1, 5)}),
                        LpColumn(draw.uniform(2, 4), draw.uniform(1, 6), {pool: draw.uniform(4, 20)}),
                    ]
                ),
            )
            for _ in range(3)
        ]

        def figures(mixture: Sequence[float], classes: Sequence[LpClass] = classes) -> tuple[float, float, float]:
            """Dollars, GPUs and weighted seconds, with that share of each class on its first column."""
            taken = [
                (lp_class.load * part, lp_class.weight, column)
                for lp_class, fraction in zip(classes, mixture, strict=True)
                for part, column in zip((fraction, 1.0 - fraction), lp_class.columns, strict=True)
            ]
            return (
                sum(load * column.money for load, _, column in taken),
                sum(load * column.use[pool] for load, _, column in taken),
                sum(load * weight * column.seconds for load, weight, column in taken),
            )

        (least_money, least_room, _), (most_money, most_room, _) = figures([1.0] * 3), figures([0.0] * 3)
        money, room = draw.uniform(least_money, most_money), draw.uniform(least_room, most_room)
        solution = solve_scarce(classes, {budget: money}, {pool: room})
        compared += solution.prices[pool] > 0.0
        grid = [figures(mixture) for mixture in product(fractions, repeat=3)]
        best = min(time for spend, use, time in grid if spend <= money and use <= room)
        assert solution.objective <= best * (1 + EXACT), seed
    assert compared > 15


def test_every_budget_bids_what_a_second_is_worth_to_it_with_room_for_all() -> None:
    contested = 0
    for seed in range(120):
        drawn = case(seed, budgets=3)
        solution = solve_scarce(drawn.classes, drawn.budgets, drawn.capacity)
        plain = solve_scarce(drawn.classes, drawn.budgets, {})
        if max(solution.queued) > 0.0 or not any(solution.prices.values()) or not all(plain.rates.values()):
            continue
        contested += 1
        bids = [solution.rates[budget] * solution.dollars[budget] / plain.rates[budget] for budget in drawn.budgets]
        assert bids == pytest.approx([bids[0]] * len(bids))
    assert contested > 20


def test_money_is_left_over_only_where_it_buys_nothing_below_the_ceiling() -> None:
    surpluses = 0
    for seed in range(120):
        drawn = case(seed, budgets=1)
        ceiling = random.Random(seed).uniform(0.001, 0.1)
        drawn = replace(drawn, classes=[replace(one, ceiling=ceiling) for one in drawn.classes])
        solution = solve_scarce(drawn.classes, drawn.budgets, drawn.capacity)
        (budget,) = drawn.budgets
        if max(solution.queued) > 0.0 or not any(solution.prices.values()):
            continue
        assert solution.rates[budget] <= ceiling * (1 + EXACT)
        if solution.fits[budget] is BudgetFit.SURPLUS:
            surpluses += 1
            assert solution.rates[budget] == pytest.approx(ceiling)
            assert solution.objective == pytest.approx(_seconds_bought_at(ceiling, drawn), rel=1e-6)
    assert surpluses > 5


def _seconds_bought_at(rate: float, drawn: Case) -> float:
    """Σ w·λ·a of the choice that minimises dollars and seconds at that rate, within money and room."""
    rows: list[str] = [*drawn.budgets, *drawn.capacity]
    limits = [*drawn.budgets.values(), *drawn.capacity.values()]
    columns = [(number, c, column) for number, c in enumerate(drawn.classes) for column in c.columns]
    optimum = minimise(
        [c.load * (c.weight * rate * column.seconds + column.money) for _, c, column in columns],
        [number for number, _, _ in columns],
        [
            [
                (0, c.load * column.money),
                *((rows.index(pool), c.load * use) for pool, use in column.use.items() if pool in rows),
            ]
            for _, c, column in columns
        ],
        limits,
    )
    assert optimum is not None
    return sum(
        fraction * c.load * c.weight * column.seconds
        for fraction, (_, c, column) in zip(optimum.fractions, columns, strict=True)
    )


def test_of_one_full_pool_and_money_enough_those_wait_who_weigh_least_for_the_room_they_take() -> None:
    """The fractional knapsack of jobs on their narrowest columns."""
    waited = 0
    for seed in range(40):
        draw = random.Random(seed)
        pool, budget = PoolId("p"), BudgetId("b")
        classes = [
            LpClass(
                budget,
                draw.uniform(0.1, 2.0),
                draw.choice([1.0, 2.0, 0.5]),
                1e3,
                LpColumns(
                    [LpColumn(draw.uniform(1, 9), draw.uniform(1, 9), {pool: draw.uniform(1, 20)}) for _ in range(3)]
                ),
            )
            for _ in range(draw.randint(1, 6))
        ]
        narrowest = [min(column.use[pool] for column in lp_class.columns) for lp_class in classes]
        room = draw.uniform(0.2, 0.9) * sum(
            lp_class.load * use for lp_class, use in zip(classes, narrowest, strict=True)
        )
        left, least = room, 0.0
        for lp_class, use in sorted(zip(classes, narrowest, strict=True), key=lambda pair: -pair[0].weight / pair[1]):
            served = min(left / (lp_class.load * use), 1.0)
            left -= served * lp_class.load * use
            least += lp_class.weight * lp_class.load * (1.0 - served)
        solution = solve_scarce(classes, {budget: 1e6}, {pool: room})
        waited += 1
        assert sum(o.weight * o.load * q for o, q in zip(classes, solution.queued, strict=True)) == pytest.approx(least)
        assert solution.short == {pool}
        assert solution.fits[budget] is not BudgetFit.INFEASIBLE
    assert waited == 40


@pytest.mark.parametrize("budgets", [1, 3])
def test_where_not_all_fit_it_is_said_for_want_of_what_and_the_others_fit(budgets: int) -> None:
    waited = 0
    for seed in range(60):
        drawn = case(seed, budgets=budgets, tight=True)
        solution = solve_scarce(drawn.classes, drawn.budgets, drawn.capacity)
        assert_feasible(drawn, solution)
        if max(solution.queued) <= 1e-7:
            continue
        waited += 1
        lacking = [budget for budget, fit in solution.fits.items() if fit is BudgetFit.INFEASIBLE]
        assert lacking or solution.short
        assert all(solution.rates[budget] == 0.0 for budget in lacking)
        assert all(solution.spends[budget] > drawn.budgets[budget] * (1 - 1e-8) for budget in lacking), seed
    assert waited > 15


def test_where_no_pool_binds_it_is_the_exchange_rate_of_each_budget_exactly() -> None:
    for seed in range(60):
        drawn = case(seed, budgets=1 + seed % 3, tight=seed % 2 == 0)
        room = dict.fromkeys(drawn.capacity, 1e9)
        solution = solve_scarce(drawn.classes, drawn.budgets, room)
        for budget, allowed in drawn.budgets.items():
            members = [at for at, lp_class in enumerate(drawn.classes) if lp_class.budget == budget]
            chains = [affordable(drawn.classes[at]) for at in members]
            plain = solve(
                [demand(drawn.classes[at], chain) for at, chain in zip(members, chains, strict=True)], allowed
            )
            assert (solution.fits[budget], solution.rates[budget]) == (plain.fit, plain.rate)
            assert solution.spends[budget] == plain.spend
            for number, (at, chain) in enumerate(zip(members, chains, strict=True)):
                level = plain.levels[number]
                expected = {chain[level]: 1.0}
                if number == plain.mixed and plain.mix > 0.0:
                    expected = {chain[level]: 1.0 - plain.mix, chain[level + 1]: plain.mix}
                assert solution.mixes[at] == expected
        assert not any(solution.prices.values())


def affordable(lp_class: LpClass) -> list[int]:
    """The corners of a class's hull whose seconds cost no more than its ceiling."""
    chain = corners([(column.money, column.seconds) for column in lp_class.columns])
    most = lp_class.ceiling * lp_class.weight
    return chain[: 1 + sum(slope < most for slope in demand(lp_class, chain).slopes)]


def demand(lp_class: LpClass, chain: list[int]) -> Demand:
    columns = [lp_class.columns[at] for at in chain]
    slopes = [(fast.money - cheap.money) / (cheap.seconds - fast.seconds) for cheap, fast in pairwise(columns)]
    return Demand(slopes, [column.money for column in columns], lp_class.load, lp_class.weight, lp_class.ceiling)


@pytest.mark.parametrize("multi", [False, True])
def test_columns_that_are_dropped_could_never_have_been_taken(multi: bool) -> None:
    for seed in range(30):
        drawn = case(seed, budgets=2, multi=multi)
        kept = [
            replace(lp_class, columns=LpColumns([lp_class.columns[at] for at in pareto_front(lp_class.columns)]))
            for lp_class in drawn.classes
        ]
        whole = solve_scarce(drawn.classes, drawn.budgets, drawn.capacity)
        fewer = solve_scarce(kept, drawn.budgets, drawn.capacity)
        assert fewer.objective == pytest.approx(whole.objective, rel=1e-8), seed


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_at_most_as_many_classes_mix_as_rows_bind(seed: int) -> None:
    drawn = case(seed, budgets=2)
    solution = solve_scarce(drawn.classes, drawn.budgets, drawn.capacity)
    binding = sum(price > 0.0 for price in solution.prices.values()) + sum(
        f is BudgetFit.MET for f in solution.fits.values()
    )
    if max(solution.queued) == 0.0:
        assert sum(len(mix) - 1 for mix in solution.mixes) <= binding


@pytest.mark.parametrize("seed", range(40))
def test_where_the_program_begins_changes_nothing(seed: int) -> None:
    drawn = case(seed, budgets=2, tight=seed % 2 == 0, multi=seed % 3 == 0)
    alone = solve_scarce(drawn.classes, drawn.budgets, drawn.capacity)
    everything = [range(len(lp_class.columns)) for lp_class in drawn.classes]
    some_wait, nobody_waits = [1.0] * len(drawn.classes), [0.0] * len(drawn.classes)
    for like in (
        alone,
        replace(alone, tried=everything),
        replace(alone, queued=some_wait),
        replace(alone, queued=nobody_waits),
    ):
        again = solve_scarce(drawn.classes, drawn.budgets, drawn.capacity, like)
        assert again.objective == pytest.approx(alone.objective, rel=1e-8)
        assert again.queued == pytest.approx(alone.queued, abs=EXACT)
        assert again.fits == alone.fits


def test_few_of_many_columns_are_in_the_program() -> None:
    draw, budget = random.Random(1), BudgetId("b")
    pools = [PoolId(f"p{number}") for number in range(6)]
    classes = []
    for _ in range(20):
        parallel, ways = draw.uniform(0.8, 0.999), []
        for at, pool in enumerate(pools):
            for gpus in range(1, 33):
                took = 36_000.0 * ((1 - parallel) + parallel / gpus) / (1.0 + at / 10)
                ways.append(LpColumn((1.0 + at / 5) * gpus * took / 3600, took, {pool: gpus * took}))
        classes.append(LpClass(budget, 1 / 3600, 1.0, 5.0, LpColumns(ways)))
    room = dict.fromkeys(pools, 150.0)
    found = solve_scarce(classes, {budget: 1e6}, room)
    assert sum(price > 0.0 for price in found.prices.values()) > 2
    assert sum(len(tried) for tried in found.tried) < len(classes) * len(pools) * 32 / 6
    everything = replace(found, tried=[range(len(one.columns)) for one in classes])
    whole = solve_scarce(classes, {budget: 1e6}, room, everything)
    assert found.objective == pytest.approx(whole.objective, rel=1e-8)
    assert found.prices == pytest.approx(whole.prices)


def test_room_that_is_held_for_longer_than_predicted_is_counted_as_held() -> None:
    for seed in range(10):
        drawn = case(seed, budgets=1)
        held = [replace(one, held=2.0) for one in drawn.classes]
        twice = solve_scarce(held, drawn.budgets, {pool: 2.0 * room for pool, room in drawn.capacity.items()})
        once = solve_scarce(drawn.classes, drawn.budgets, drawn.capacity)
        assert twice.objective == pytest.approx(once.objective, rel=1e-8)
        assert twice.uses == pytest.approx({pool: 2.0 * used for pool, used in once.uses.items()})
