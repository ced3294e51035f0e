"""A cheap pool without nodes from 9 to 17 on working days, and one at 1.5 times its price that always delivers.

    python -m tests.bench.failing_offers [--weeks 4]

Jobs of one node arrive all the time, one every two hours on average, and the planner gives each a pool; a refused pool
cools and is remembered as the life cycle does it. Two weeks pass before anything is measured. At each value of a job's
hour: the mean hours until a job has its node, the mean dollars of a job, and what both are worth together, with what is
known of the hours (``learnWaits``) and without it, where only the last row of refusals counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from charterer.domain.ids import BudgetId, JobId, PoolId, Rate
from charterer.domain.nodes.waits import NodeStart, slot_of, with_refusal, with_start
from charterer.domain.order import cool_down, with_cool_down
from charterer.domain.plan import Rent
from charterer.domain.profile import Amdahl, SpeedCurve
from charterer.domain.time import Instant, after, parse_instant, seconds_between
from charterer.policy.planner import plan
from tests import factory
from tests.worlds import World

_BEGAN = parse_instant("2026-06-01T00:00:00Z")
_NEAR, _FAR = PoolId("near"), PoolId("far")
_WEEK, _HOUR = 7 * 86_400.0, 3600.0
_LEARNING_WEEKS = 2
_BETWEEN = 2 * _HOUR
_START = 120.0
_SEED = 1
_VALUES = (1.0, 4.0, 16.0, 64.0)
"""Dollars that an hour of a job's life is worth."""


@dataclass(frozen=True, slots=True)
class _Served:
    """A job that got its node: seconds that it waited, and the dollars that it costs."""

    arrived: Instant
    waited: float
    dollars: float


def _office_hours(at: Instant) -> bool:
    day, hour = divmod(slot_of(at), 24)
    return day < 5 and 9 <= hour < 17


def _world(value: float, learns: bool) -> World:
    world = World()
    world.now = _BEGAN
    world.budget("research", amount="1000000")
    budget = world.budgets[BudgetId("research")]
    world.budgets[BudgetId("research")] = replace(budget, fixed_rate=Rate(value / _HOUR))
    for name, price in ((_NEAR, "16"), (_FAR, "24")):
        world.pool(name, price=price)
        pool = world.pools[name]
        world.pools[name] = replace(
            pool, learns_waits=learns, start_seconds=_START, cooldown_seconds=60.0, max_nodes=1000
        )
    form = Amdahl(0.95, 1.0)
    world.profile("sft", form, gpu_type=_NEAR, work_hours=24, others=[SpeedCurve(_FAR, form)])
    return world


def _simulate(value: float, weeks: int, learns: bool, out: Callable[[Instant], bool]) -> Sequence[_Served]:
    world, random = _world(value, learns), Random(_SEED)
    ends = after(_BEGAN, (_LEARNING_WEEKS + weeks) * _WEEK)
    arrivals, at = [], 0.0
    while (at := at + random.expovariate(1.0 / _BETWEEN)) < seconds_between(_BEGAN, ends):
        arrivals.append(after(_BEGAN, at))
    served: list[_Served] = []
    arrived: dict[JobId, Instant] = {}
    while arrivals or arrived:
        if not arrived:
            world.now = max(world.now, arrivals[0])
        while arrivals and arrivals[0] <= world.now:
            name = f"j{len(served) + len(arrived)}"
            arrived[JobId(name)] = arrivals.pop(0)
            world.job(name, gpus=(8, 8, 8), profile="sft")
        again = _turn(world, arrived, served, out)
        if arrived:
            world.now = min([again, *arrivals[:1]])
    return [job for job in served if job.arrived >= after(_BEGAN, _LEARNING_WEEKS * _WEEK)]


def _turn(
    world: World, arrived: dict[JobId, Instant], served: list[_Served], out: Callable[[Instant], bool]
) -> Instant:
    """Plan, let the cloud answer, and return when to plan again."""
    now, decided = world.now, plan(world.snapshot())
    asked = {command.pool for command in decided.commands if isinstance(command, Rent)}
    for name in asked:
        pool = world.pools[name]
        if name == _NEAR and out(now):
            new = cool_down(pool.cooled, factory.refusal(0), pool.cooldown_seconds, now, None)
            answers = with_refusal(pool.answers, now)
            world.pools[name] = replace(pool, cooled=with_cool_down(pool.cooled, new), answers=answers)
        else:
            answers = with_start(pool.answers, NodeStart(now, now, after(now, _START)))
            world.pools[name] = replace(pool, cooled=(), answers=answers)
    refused = asked & {_NEAR} if out(now) else frozenset[PoolId]()
    for job, verdict in decided.jobs.items():
        option = verdict.option
        if option is None or option.pool not in asked or option.pool in refused or job not in arrived:
            continue
        seconds = (verdict.remaining_seconds or 0.0) - _START
        waited = seconds_between(arrived[job], now)
        served.append(_Served(arrived.pop(job), waited, seconds * option.price.dollars_per_second))
        del world.jobs[job]
    if refused:
        return after(now, 1.0)
    return min(after(now, 600.0), max(after(now, 1.0), decided.again_at or after(now, 600.0)))


def _print(value: float, label: str, served: Sequence[_Served]) -> None:
    hours = sum(job.waited for job in served) / len(served) / _HOUR
    dollars = sum(job.dollars for job in served) / len(served)
    print(f"${value:>2g} an hour  {label:<12} {hours:6.2f} h  ${dollars:6.2f}  ${dollars + value * hours:6.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weeks", type=int, default=4, help="weeks that are measured (4)")
    given = parser.parse_args()
    print("a job's hour   waits         until it has a node, dollars of a job, both together")
    for each in _VALUES:
        for learns in (False, True):
            _print(each, "learned" if learns else "refusals", _simulate(each, given.weeks, learns, _office_hours))
