"""Worlds of newcomers, drawn by a seed (see ``first_budgets``)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from charterer.domain.job import ResizePolicy, Widths
from tests.bench.small_teams import Team, TeamJob

HOUR, DAY = 3600.0, 86_400.0
PRICE = 16.0
"""Dollars an hour of a node of eight GPUs, where there is one pool only."""
ASKED = 2
"""GPUs that each elastic job asks for, so that all have the same ceiling of what an hour may cost."""
_WIDE_NODES = (("h100", 8, 55.0, 5.0), ("a100", 8, 25.6, 2.3), ("v100", 8, 16.0, 1.0))
_ONE_POOL = (("v100", 8, PRICE, 1.0),)
_SATURN = ((1, 0.62), (2, 0.10), (4, 0.12), (8, 0.12), (16, 0.04))
"""GPUs that jobs ask for, and how many of them do."""
_TYPES = (("T4", 4, 3.91, 0.31), ("V100", 8, 19.84, 1.0), ("A100", 8, 21.96, 1.9))
_SHORTEST, _LONGEST = 60.0, 3 * DAY


@dataclass(frozen=True, slots=True)
class Asked:
    """A team with a month's amount."""

    team: Team
    amount: float


def narrow(seed: int) -> Asked:
    """One to six jobs of one or two GPUs, on nodes of eight; the amount is 0.7 to 4 times what their GPUs cost."""
    draw = random.Random(seed)
    pools = tuple(draw.sample(_WIDE_NODES, draw.choice((1, 1, 2))))
    spread = draw.choice((0.0, 0.0, 8.0, 48.0)) * HOUR
    resize = draw.choice((ResizePolicy.NEVER, ResizePolicy.RESTART))
    jobs = []
    for number in range(draw.randint(1, 6)):
        widths = draw.choice((Widths(1, 1, 1), Widths(1, 1, 2), Widths(1, 2, 2), Widths(2, 2, 2)))
        hours = math.exp(draw.gauss(math.log(20.0), 0.9))
        jobs.append(_job(f"job-{number}", draw.uniform(0.0, spread), hours, draw.uniform(0.6, 0.95), widths, resize))
    team = _team(pools, jobs)
    return Asked(team, round(gpus_cost(team) * math.exp(draw.uniform(math.log(0.7), math.log(4.0))), 2))


def batch(seed: int) -> Asked:
    """Six to thirty elastic jobs that come at once, and more money than they can use."""
    draw = random.Random(seed)
    jobs = [_elastic(draw, f"job-{number}", 0.0, 12.0) for number in range(draw.randint(6, 30))]
    team = _team(_ONE_POOL, jobs)
    return Asked(team, round(60.0 * gpus_cost(team), 2))


def day(seed: int, jobs: int = 40) -> Team:
    """Elastic jobs that come over a day."""
    draw = random.Random(seed)
    return _team(_ONE_POOL, [_elastic(draw, f"job-{at}", draw.uniform(0.0, DAY), 6.0) for at in range(jobs)])


def week(seed: int, types: int, jobs: int = 250) -> Team:
    """A week of a cluster like Saturn (Helios, SC'21): most jobs are of one GPU and minutes, most of the time is that
    of long and wide ones, and nights are quiet. ``types``: of GPUs; durations are those on the V100."""
    draw = random.Random(seed)
    found: list[TeamJob] = []
    while len(found) < jobs:
        at = draw.uniform(0.0, 7 * DAY)
        if draw.random() > 0.6 - 0.4 * math.cos(2.0 * math.pi * at / DAY):
            continue
        (gpus,) = draw.choices([gpus for gpus, _ in _SATURN], [part for _, part in _SATURN])
        seconds = min(max(draw.lognormvariate(math.log(1200.0 * gpus**0.5), 1.9), _SHORTEST), _LONGEST)
        exponent = draw.uniform(0.7, 0.95)
        hours = seconds / HOUR * gpus**exponent
        found.append(_job(f"job-{len(found)}", at, hours, exponent, Widths(gpus, gpus, gpus), ResizePolicy.NEVER))
    return _team(_TYPES if types > 1 else _TYPES[1:2], found)


def gpus_cost(team: Team) -> float:
    """Dollars of the jobs' GPUs alone, each on one GPU, or as few as it may have, where that costs least."""
    gpu_hour = min(hourly / size / speed for _, size, hourly, speed in team.pools)
    return gpu_hour * sum([job.hours * math.pow(job.widths.min, 1.0 - job.exponent) for job in team.jobs])


def _elastic(draw: random.Random, name: str, at: float, hours: float) -> TeamJob:
    size = math.exp(draw.gauss(math.log(hours), 1.0))
    return _job(name, at, size, draw.uniform(0.55, 0.95), Widths(1, ASKED, 16), ResizePolicy.RESTART)


def _job(name: str, at: float, hours: float, exponent: float, widths: Widths, resize: ResizePolicy) -> TeamJob:
    return TeamJob(name, at, hours, exponent, widths, resize)


def _team(pools: Sequence[tuple[str, int, float, float]], jobs: Sequence[TeamJob]) -> Team:
    return Team(tuple(pools), tuple(sorted(jobs, key=lambda job: job.at)))
