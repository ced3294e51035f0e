"""How long scarcity prices take:  python -m tests.bench.scarcity [--classes 200]

Amdahl classes of several budgets, 40 columns each on 5 of 20 pools; budgets between the cheapest and the fastest; then
some or all pools get only a fraction of the room that the plain choice would use.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Sequence

from charterer.domain.ids import BudgetId, PoolId
from charterer.policy.solve.lp_columns import LpClass, LpColumn, LpColumns
from charterer.policy.solve.scarce_solution import ScarceSolution
from charterer.policy.solve.scarcity import solve_scarce

CEILING = 1.0
"""Dollars a second that a second of life may cost, above most of what is offered."""
_REPEATS = 5


def classes_of(count: int, pools: int, budgets: int, seed: int) -> list[LpClass]:
    """Eight widths on each of five pools."""
    draw = random.Random(seed)
    prices = [draw.uniform(1, 5) / 3600 for _ in range(pools)]
    speeds = [price * 3600 * draw.uniform(0.7, 1.3) for price in prices]
    made = []
    for number in range(count):
        parallel, work = draw.uniform(0.8, 0.999), draw.uniform(1, 20) * 3600
        ways = []
        for pool in draw.sample(range(pools), min(5, pools)):
            for gpus in (1, 2, 4, 8, 16, 32, 64, 128):
                took = work / speeds[pool] * ((1 - parallel) + parallel / gpus)
                entry = draw.uniform(60, 200)
                ways.append(
                    LpColumn(
                        prices[pool] * gpus * (took + entry), took + entry, {PoolId(f"p{pool}"): gpus * (took + entry)}
                    )
                )
        owner = BudgetId(f"b{number % budgets}")
        made.append(
            LpClass(owner, draw.uniform(0.1, 2) / 3600, draw.choice([1.0, 1.0, 2.0, 0.5]), CEILING, LpColumns(ways))
        )
    return made


def report(name: str, classes: Sequence[LpClass], rooms: dict[BudgetId, float], capacity: dict[PoolId, float]) -> None:
    """Time it."""
    taken = []
    for _ in range(_REPEATS):
        began = time.process_time()
        found: ScarceSolution = solve_scarce(classes, rooms, capacity)
        taken.append((time.process_time() - began) * 1e3)
    dear = sum(price > 0.0 for price in found.prices.values())
    text = f"{name:28} {statistics.median(taken):7.1f} ms   {dear:2} pools with a price"
    if max(found.queued) > 0.0:
        print(f"{text}   {sum(found.queued):.2f} classes wait for {', '.join(sorted(found.short))}")
        return
    counts = ", ".join(f"{dollar:.2f}" for dollar in found.dollars.values())
    print(f"{text}   a dollar counts {counts}")


def main() -> None:
    """Rooms of fewer and more pools are cut."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    for seed in range(chosen.seeds):
        draw = random.Random(seed)
        classes = classes_of(chosen.classes, 20, 5, seed)
        rooms = {}
        for budget in sorted({lp_class.budget for lp_class in classes}):
            mine = [lp_class for lp_class in classes if lp_class.budget == budget]
            low = sum(lp_class.load * min(way.money for way in lp_class.columns) for lp_class in mine)
            rooms[budget] = low * draw.uniform(1.2, 3.0)
        pools = [PoolId(f"p{number}") for number in range(20)]
        plain = solve_scarce(classes, rooms, {})
        used = {pool: plain.uses.get(pool, 0.0) for pool in pools}
        report("room for all", classes, rooms, {pool: max(2 * used[pool], 1e3) for pool in pools})
        busiest = sorted(pools, key=lambda pool: -used[pool])
        for cut, part in ((1, 0.8), (3, 0.7), (6, 0.6), (20, 0.9)):
            capacity = {
                pool: max(used[pool] * part, 1.0) if pool in busiest[:cut] else max(used[pool] * 1.5, 20.0)
                for pool in pools
            }
            report(f"{cut} pools cut to {part:.0%}", classes, rooms, capacity)


if __name__ == "__main__":
    main()
