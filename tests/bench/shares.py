"""What one user's job gets beside many of another one's: in one budget, with shares of it, and with a budget each.

    python -m tests.bench.shares [--jobs 1 10 30 100 300]

Both users are to have a half of $6,000 a month, of which half is over, on nodes of eight GPUs at $16.00 an hour. In
the first table ann has one job of 40 GPU-hours whose speed grows with the 0.9th power of its GPUs, and bob so many. A
row has the hours from now in which ann's job ends, and its dollars, as a plan gives it GPUs. In the second table both
have as many jobs of one GPU and two hours, and a row has the nodes that the plan rents.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from charterer.domain.budget import JobShare
from charterer.domain.ids import BudgetId, JobId
from charterer.domain.plan import Rent
from charterer.domain.profile import PowerLaw
from charterer.policy.planner import plan
from tests.worlds import World

_WAYS = ("one budget", "shares of one", "a budget each")


def _world(way: str) -> World:
    world = World()
    if way == "a budget each":
        for name in ("ann", "bob"):
            world.budget(name, amount="3000")
    else:
        budget = world.budget("team", amount="6000")
        halves = JobShare("ann", 0.5, user="ann"), JobShare("bob", 0.5, user="bob")
        world.budgets[budget.id] = replace(budget, job_shares=halves if way == "shares of one" else ())
    world.pool("a100", gpus=8, price="16", max_nodes=2_000)
    world.profile("sft", PowerLaw(0.9, 1.0), work_hours=40)
    return world


def _job(world: World, way: str, user: str, number: int, **fields: object) -> None:
    budget = user if way == "a budget each" else "team"
    made = world.job(f"{user}-{number}", budget=budget, **fields)  # type: ignore[arg-type]
    share = user if world.budgets[BudgetId(budget)].job_shares else ""
    world.jobs[made.id] = replace(made, share=share)


def beside(way: str, others: int) -> tuple[float, float]:
    """Hours and dollars of ann's job beside so many of bob's."""
    world = _world(way)
    for number in range(others):
        _job(world, way, "bob", number, gpus=(1, 4, 64), profile="sft")
    _job(world, way, "ann", 0, gpus=(1, 4, 64), profile="sft")
    verdict = plan(world.snapshot()).jobs[JobId("ann-0")]
    assert verdict.option is not None
    seconds = 40 * 3600.0 / verdict.option.speed
    return seconds / 3600.0, verdict.option.price.dollars_per_second * seconds


def nodes(way: str, each: int) -> int:
    """Nodes for so many jobs of one GPU of each user."""
    world = _world(way)
    for user in ("ann", "bob"):
        for number in range(each):
            _job(world, way, user, number, gpus=1, hours_left=2.0)
    return sum(isinstance(command, Rent) for command in plan(world.snapshot()).commands)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 10, 30, 100, 300])
    asked = parser.parse_args()
    print(f"{'bob has':>8}  " + "  ".join(f"{way:>16}" for way in _WAYS))
    for others in asked.jobs:
        cells = [f"{hours:5.1f} h  ${dollars:6.2f}" for hours, dollars in (beside(way, others) for way in _WAYS)]
        print(f"{others:>8}  " + "  ".join(f"{cell:>16}" for cell in cells))
    print(f"{'each has':>8}  " + "  ".join(f"{way:>16}" for way in _WAYS))
    for each in (1, 3, 6):
        print(f"{each:>8}  " + "  ".join(f"{nodes(way, each):>10} nodes" for way in _WAYS))


if __name__ == "__main__":
    main()
