"""Offers that fail, in the simulator: a cheap pool that is out of stock now and then, and one that always delivers.

    python -m tests.bench.failing_offers [--weeks 4] [--seeds 2] [--pattern office random]

Jobs of one 8-GPU node and about four hours arrive all the time, one every two hours on average; the second pool costs
1.5 times as much. The first gives no node from 9 to 17 on working days (``office``), or for three hours on average
after nine in which it does, at any time (``random``). Two weeks pass before anything is measured. For each value of a
job's hour: the mean hours from submission to completion, the mean dollars of a job, and restarts, without what is known
of waits (only the last row of refusals counts), with the pool's mean instead of the hour of the week, and as it is
(``learnWaits``); and by how much time and money together change, seed by seed, as it is against each of the other two.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import sqrt
from random import Random
from unittest.mock import patch

from charterer.domain.ids import Rate
from charterer.domain.job import Widths
from charterer.domain.money import Price
from charterer.domain.pool import SLOTS, LaunchHistory
from charterer.domain.time import Instant, parse_instant
from charterer.estimate import waits
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.simulation import Simulation

_BEGAN = parse_instant("2026-06-01T00:00:00Z")
"""A Monday."""
_HOUR, _DAY, _WEEK = 3600.0, 86_400.0, 7 * 86_400.0
_LEARNING = 2 * _WEEK
_BETWEEN = 2 * _HOUR
_LASTS = 4 * _HOUR
_GPUS, _START_SECONDS, _RESTART_SECONDS = 8, 120.0, 30.0
_OUT, _THERE = 3 * _HOUR, 9 * _HOUR
"""Mean lengths of the random outages and of what is between them."""
_MANY = 1000
_VALUES = (1.0, 4.0, 16.0, 64.0)
"""Dollars that an hour of a job's life is worth."""

Stock = tuple[tuple[float, int | None], ...]


@dataclass(frozen=True, slots=True)
class _Figures:
    """Means of the jobs submitted after the first two weeks."""

    hours: float
    dollars: float
    restarts: float


def _office(ends: float, _: Random) -> Stock:
    days = [day for day in range(int(ends / _DAY) + 1) if day % 7 < 5]
    return tuple((day * _DAY + hour * _HOUR, nodes) for day in days for hour, nodes in ((9, 0), (17, _MANY)))


def _random(ends: float, draw: Random) -> Stock:
    found: list[tuple[float, int | None]] = []
    at = 0.0
    while at < ends:
        begins = at + draw.expovariate(1.0 / _THERE)
        at = begins + draw.expovariate(1.0 / _OUT)
        found += [(begins, 0), (at, _MANY)]
    return tuple(found)


KNOWN = ("nothing", "mean", "hour")
"""What is known of a pool's waits."""
_PATTERNS = {"office": _office, "random": _random}


def _scenario(pattern: str, seed: int, value: float, learns: bool, ends: float) -> Scenario:
    draw = Random(seed)
    stock = _PATTERNS[pattern](ends, draw)
    submissions: list[Submission] = []
    at = 0.0
    while (at := at + draw.expovariate(1.0 / _BETWEEN)) < ends:
        submissions.append(Submission(f"j{len(submissions)}", at, "sft", _GPUS))
    rate = {_GPUS: 1.0 / _LASTS}
    pools = [
        PoolModel(
            name,
            _GPUS,
            Price.parse(price),
            name,
            start_seconds=_START_SECONDS,
            cooldown_seconds=60.0,
            later_stock=later,
            learns_waits=learns,
        )
        for name, price, later in (("near", "16", stock), ("far", "24", ()))
    ]
    return Scenario(
        start=_BEGAN,
        submissions=tuple(submissions),
        applications={"sft": Application("sft", (1.0,), {"near": (rate,), "far": (rate,)})},
        pools=tuple(pools),
        budget=new_budget(_BEGAN, rate=Rate(value / _HOUR)),
        terms=lambda _: JobTerms(Widths(_GPUS, _GPUS, _GPUS)),
        restart_seconds=_RESTART_SECONDS,
    )


def _same_every_hour(launches: LaunchHistory, now: Instant) -> waits._Week:
    """What a pool is expected to do, if every hour of the week were as its mean."""
    keep = waits._kept(launches, now)
    given, refused = sum(launches.given) * keep + waits.TRUSTED_HOURS, sum(launches.refused) * keep
    hours = given + refused
    mean = given / hours
    deviation = sqrt(mean * (1.0 - mean) / (hours + 1.0))
    seen = hours - waits.TRUSTED_HOURS
    return waits._Week(*((each,) * SLOTS for each in (mean, deviation, seen)))


def _simulate(pattern: str, seed: int, value: float, weeks: int, known: str) -> _Figures:
    scenario = _scenario(pattern, seed, value, known != "nothing", _LEARNING + weeks * _WEEK)
    memo = Memo()
    by_class = {class_of("sft"): scenario.applications["sft"]}
    knowledge = ExactKnowledge(exact_profiles(by_class, _RESTART_SECONDS))
    week = _same_every_hour if known == "mean" else waits._week
    with patch.object(waits, "_week", week):
        result = Simulation(scenario, lambda snapshot: plan(snapshot, memo), knowledge).run()
    jobs = [job for job in result.jobs if job.submitted >= _LEARNING]
    seconds = [job.completion_seconds for job in jobs if job.completion_seconds is not None]
    assert len(seconds) == len(jobs), "all end"
    restarts = statistics.mean(job.restarts for job in jobs)
    return _Figures(statistics.mean(seconds) / _HOUR, _dollars(result) / len(jobs), restarts)


def _dollars(result: SimulationResult) -> float:
    """The bill of all nodes after the first two weeks."""
    spans = pairwise([*result.hourly, (result.ended_at, 0.0)])
    return sum(hourly * max(end - max(begin, _LEARNING), 0.0) for (begin, hourly), (end, _) in spans) / _HOUR


def _mean(runs: Sequence[_Figures]) -> _Figures:
    return _Figures(
        hours=statistics.mean(run.hours for run in runs),
        dollars=statistics.mean(run.dollars for run in runs),
        restarts=statistics.mean(run.restarts for run in runs),
    )


def main() -> None:
    """A row for each pattern and value, the mean of the seeds, and what each seed gains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weeks", type=int, default=4, help="weeks that are measured (4)")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--pattern", nargs="+", choices=list(_PATTERNS), default=list(_PATTERNS))
    given = parser.parse_args()
    print("stock   a job's hour   hours, $, restarts of each kind of knowledge; together, by seed")
    for pattern, value in product(given.pattern, _VALUES):
        runs = {
            known: [_simulate(pattern, seed, value, given.weeks, known) for seed in range(1, given.seeds + 1)]
            for known in KNOWN
        }
        costs = {known: [value * run.hours + run.dollars for run in found] for known, found in runs.items()}
        texts = [f"{mean.hours:8.2f} {mean.dollars:8.2f} {mean.restarts:5.2f}" for mean in map(_mean, runs.values())]
        gains = []
        for known in KNOWN[:-1]:
            against = zip(costs[KNOWN[-1]], costs[known], strict=True)
            gains.append(f"against {known} " + ", ".join(f"{now / before - 1.0:+.1%}" for now, before in against))
        print(f"{pattern:6} {value:12g} {'   '.join(texts)}   {'; '.join(gains)}", flush=True)


if __name__ == "__main__":
    main()
