"""What it brings to wait for GPUs that others are about to leave:  python -m tests.bench.waiting [--seeds 20]
                                  [--first 0] [--loads 0.4 0.7 1.0] [--arrivals unknown known]

Worlds drawn by a seed: one or two pools of good GPUs with one or two nodes each, and a pool of slow GPUs (6 to 14 times
as slow) that is never full. The load is the GPU time of all jobs on good GPUs, by that of the good nodes while jobs
come. Two families: 6 to 14 jobs, each of a class of its own, so that nobody knows which come next; and three classes
whose arrivals are known, for three days. Jobs that are never resized, and jobs that are. An hour of a job is worth $8
to $137.50. A row has θ·a + m of all jobs, without waits and with them, and their hours; minus is better.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import fmean
from unittest.mock import patch

from charterer.domain.ids import Rate
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Price
from charterer.domain.profile import Profile
from charterer.domain.time import parse_instant
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_phases, exact_profile
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.simulation import Simulation

START = parse_instant("2026-06-01T00:00:00Z")
WIDTHS = (1, 2, 4, 8)
RESTART_SECONDS = 60.0
START_SECONDS = 120.0
SLOW_NODES = 30
LONGEST = 12.0
"""Hours of a job."""
RIGID = 0.6
WORTHS = (8.0, 20.0, 60.0, 137.5)
"""Dollars of a job-hour."""
ARRIVALS = {"unknown": None, "known": 3.0}
"""The days for which jobs of known classes come."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs that take ``hours`` on ``gpus`` of the first good pool."""

    gpus: int
    hours: float
    parallel: float
    rigid: bool

    def application(self, name: str, speeds: dict[str, float]) -> Application:
        """The truth, by GPU type."""
        alone = 1.0 - self.parallel + self.parallel / self.gpus

        def rates(speed: float) -> tuple[dict[int, float]]:
            return (
                {k: speed * alone / (3600.0 * self.hours * (1.0 - self.parallel + self.parallel / k)) for k in WIDTHS},
            )

        return Application(name, (1.0,), {gpu_type: rates(speed) for gpu_type, speed in speeds.items()})


@dataclass(frozen=True, slots=True)
class World:
    """Pools with their speeds, kinds of jobs, and when a job of which kind comes (hours)."""

    pools: tuple[PoolModel, ...]
    speeds: dict[str, float]
    kinds: tuple[Kind, ...]
    jobs: tuple[tuple[float, int], ...]
    arrivals: tuple[float | None, ...]
    worth: float


def world(seed: int, load: float, days: float | None) -> World:
    """The world of a seed. ``days``: for so long jobs of three known classes come; None: a few of unknown ones."""
    draw = random.Random(seed)
    size, speeds = draw.choice((4, 8)), {"h100": 1.0}
    pools = [_pool("h100", size, draw.uniform(2.5, 4.0), draw.choice((1, 1, 2)))]
    if draw.random() < 1 / 3:
        pools.append(_pool("h200", size, draw.uniform(4.0, 6.0), 1))
        speeds["h200"] = 1.3
    good = size * sum(pool.max_nodes or 0 for pool in pools)
    speeds["t4"] = 1.0 / draw.uniform(6.0, 14.0)
    pools.append(_pool("t4", 4, draw.uniform(0.4, 0.9), SLOW_NODES))
    count = draw.randint(6, 14) if days is None else 3
    kinds = tuple(_kind(draw, size) for _ in range(count))
    jobs, arrivals = _jobs(draw, kinds, good * load, days)
    return World(tuple(pools), speeds, kinds, tuple(sorted(jobs)), arrivals, draw.choice(WORTHS))


def _pool(name: str, size: int, price: float, nodes: int) -> PoolModel:
    return PoolModel(name, size, Price.parse(f"{price * size:.2f}"), name, start_seconds=START_SECONDS, max_nodes=nodes)


def _kind(draw: random.Random, size: int) -> Kind:
    gpus = draw.choice([gpus for gpus in WIDTHS if gpus <= size])
    hours = min(max(draw.lognormvariate(0.7, 0.9), 0.2), LONGEST)
    return Kind(gpus, hours, draw.choice((0.9, 0.97, 0.995)), draw.random() < RIGID)


def _jobs(
    draw: random.Random, kinds: Sequence[Kind], gpus: float, days: float | None
) -> tuple[list[tuple[float, int]], tuple[float | None, ...]]:
    """The jobs that use so many GPUs on average, and how many of each kind are known to come an hour."""
    if days is None:
        span = sum(kind.gpus * kind.hours for kind in kinds) / gpus
        return [(draw.uniform(0.0, span), at) for at in range(len(kinds))], (None,) * len(kinds)
    hourly = [gpus / len(kinds) / (kind.gpus * kind.hours) for kind in kinds]
    return [(at, kind) for kind, rate in enumerate(hourly) for at in _poisson(draw, rate, days * 24.0)], tuple(hourly)


def _poisson(draw: random.Random, rate: float, hours: float) -> Iterator[float]:
    at = draw.expovariate(rate)
    while at < hours:
        yield at
        at += draw.expovariate(rate)


@dataclass(frozen=True, slots=True)
class Figures:
    """θ·a + m of all jobs, and mean hours of a job."""

    cost: float
    hours: float


def run(drawn: World, resize: ResizePolicy, *, waits: bool) -> Figures:
    """One simulation, until the last job is done."""
    names = [f"kind-{number}" for number in range(len(drawn.kinds))]
    applications = {name: kind.application(name, drawn.speeds) for name, kind in zip(names, drawn.kinds, strict=True)}
    size = drawn.pools[0].gpus_per_node
    terms = {
        name: JobTerms(Widths(kind.gpus, kind.gpus, kind.gpus) if kind.rigid else Widths(1, kind.gpus, size), resize)
        for name, kind in zip(names, drawn.kinds, strict=True)
    }
    scenario = Scenario(
        start=START,
        submissions=tuple(
            Submission(f"job-{number}", at * 3600.0, names[kind], drawn.kinds[kind].gpus)
            for number, (at, kind) in enumerate(drawn.jobs)
        ),
        applications=applications,
        pools=drawn.pools,
        budget=new_budget(START, rate=Rate(drawn.worth / 3600.0)),
        terms=lambda submission: terms[submission.application],
        restart_seconds=RESTART_SECONDS,
    )
    known = {
        class_of(name): _profile(name, applications[name], hourly)
        for name, hourly in zip(names, drawn.arrivals, strict=True)
    }
    memo = Memo()
    with nullcontext() if waits else patch("charterer.policy.actions.admission.shortage.waits_for_room", lambda *_: {}):
        found = Simulation(scenario, lambda snapshot: plan(snapshot, memo), ExactKnowledge(known)).run()
    hours = found.mean_completion_seconds / 3600.0
    return Figures(drawn.worth * hours * len(found.jobs) + found.spent.dollars, hours)


def _profile(name: str, application: Application, hourly: float | None) -> Profile:
    return exact_profile(class_of(name), exact_phases(application), RESTART_SECONDS, hourly)


def main() -> None:
    """A row for each family, load and policy of resizing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--loads", type=float, nargs="*", default=[0.4, 0.7, 1.0])
    parser.add_argument("--arrivals", nargs="*", choices=ARRIVALS, default=list(ARRIVALS))
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    print("arrivals  resize   load   theta*a + m: without    with   change   worst world   hours of a job")
    for arrivals in chosen.arrivals:
        for load in chosen.loads:
            for resize in (ResizePolicy.NEVER, ResizePolicy.RESTART):
                pairs = [
                    [run(drawn, resize, waits=waits) for waits in (False, True)]
                    for drawn in (world(seed, load, ARRIVALS[arrivals]) for seed in seeds)
                ]
                before, after = (sum(pair[at].cost for pair in pairs) for at in (0, 1))
                worst = max(with_waits.cost / without.cost - 1.0 for without, with_waits in pairs)
                hours = " ".join(f"{fmean(pair[at].hours for pair in pairs):7.2f}" for at in (0, 1))
                print(
                    f"{arrivals:8}  {resize.value:8} {load:4.1f} {before:22,.0f} {after:7,.0f}"
                    f" {after / before - 1.0:+8.1%} {worst:+13.1%} {hours}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
