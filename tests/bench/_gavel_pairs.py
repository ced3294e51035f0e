"""Jobs that may share GPUs in pairs: what Gavel (OSDI'20) measured of pairs of jobs on one GPU, under MPS.

Only pairs on one GPU were measured: a wider job is taken to keep the same. A pair without rates did not fit.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, product

from charterer.domain.ids import Rate
from charterer.domain.job import Widths
from charterer.domain.money import Price
from charterer.domain.pool import SharingMechanism
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.pairs import PairKey, PairMember, PairTable
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from tests.bench import _gavel as measured
from tests.bench import _pollux as pollux

RESTART_SECONDS = 30.0
MPS = SharingMechanism.MPS
_SCALES = ((1, 0.70), (2, 0.10), (4, 0.15), (8, 0.05))
"""GPUs of a job and how often (Gavel, §7.1)."""
_MINUTES = (3.0, 300.0)
"""A job alone at its own width, evenly in the logarithm."""


@cache
def models(gpu_type: str) -> tuple[str, ...]:
    """All (model, batch size) that were measured alone on one GPU."""
    names = [str(key).split("'")[1] for key in measured.throughputs()[gpu_type] if str(key).endswith(", 1)")]
    return tuple(name for name in names if measured.steps_per_second(gpu_type, name, 1))


def usual(gpu_type: str) -> tuple[str, ...]:
    """Those of the other benches, one batch size each."""
    return tuple(name for name in models(gpu_type) if name in measured.APPLICATIONS)


def constant(kept: float) -> PairTable:
    """Every job keeps the same beside any other, and all fit."""
    return PairTable({}, absent=lambda _: kept)


@cache
def table(gpu_type: str, *, sub_batches: bool = True) -> PairTable:
    """What was measured. In k passes a job does a step of its own batch size in k steps of a k-th of it."""
    names = models(gpu_type)
    members = {PairMember(name): name for name in names}
    if sub_batches:
        members |= {member: smaller for name in names for member, smaller in _smaller(name, names)}
    pairs: dict[PairKey, float] = {}
    for own, other in product(members, members):
        beside = _beside(gpu_type, members[own], members[other])
        whole = measured.steps_per_second(gpu_type, own.class_name, 1)
        pairs[gpu_type, MPS, own, other] = min(beside / own.passes / whole, _alone(gpu_type, own, members[own]))
    alone = {
        (gpu_type, member): _alone(gpu_type, member, smaller)
        for member, smaller in members.items()
        if member.passes > 1
    }
    return PairTable(pairs, alone=alone)


def _alone(gpu_type: str, member: PairMember, smaller: str) -> float:
    """The part of its speed that the member keeps alone."""
    steps = measured.steps_per_second(gpu_type, smaller, 1)
    return steps / member.passes / measured.steps_per_second(gpu_type, member.class_name, 1)


def _beside(gpu_type: str, own: str, other: str) -> float:
    """Steps a second beside the other on one GPU; 0 where the two do not fit."""
    rates = measured.throughputs()[gpu_type].get(str((own, 1)), {}).get(str((other, 1)))
    if not isinstance(rates, list) or not rates[0] or not rates[1]:
        return 0.0
    return float(rates[0])


def _smaller(name: str, names: Sequence[str]) -> list[tuple[PairMember, str]]:
    family, batch = _family(name)
    found = []
    for other in names:
        other_family, smaller = _family(other)
        if other_family == family and 0 < smaller < batch and batch % smaller == 0:
            found.append((PairMember(name, batch // smaller), other))
    return found


def _family(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.*) \(batch size (\d+)\)", name)
    return (match[1], int(match[2])) if match else (name, 0)


@dataclass(frozen=True)
class PairBed:
    """Jobs of fixed sizes and widths. ``kinds``: the class of each job's application, by the application's name."""

    submissions: tuple[Submission, ...]
    applications: Mapping[str, Application]
    kinds: Mapping[str, str]
    pairs: PairTable

    def shared(self, pools: Sequence[PoolModel]) -> Scenario:
        """The jobs at the widths asked for, in a world in which they may share GPUs."""
        return replace(
            self._scenario(pools, 0.0, lambda submission: JobTerms(Widths(*(submission.gpus,) * 3))),
            classes=lambda _, application: class_of(self.kinds[application.name]),
            pairs=self.pairs,
        )

    def alone(self, pools: Sequence[PoolModel], rate: float, *, elastic: bool) -> Scenario:
        """The jobs in a world in which nobody shares, each of a class of its own, as their sizes are.

        ``rate``: dollars of an hour of a job's life. ``elastic``: on any width that was measured.
        """

        def terms(submission: Submission) -> JobTerms:
            widths = self.applications[submission.application].widths if elastic else (submission.gpus,)
            return JobTerms(Widths(widths[0], submission.gpus, widths[-1]))

        return self._scenario(pools, rate, terms)

    def _scenario(self, pools: Sequence[PoolModel], rate: float, terms: Callable[[Submission], JobTerms]) -> Scenario:
        budget = new_budget(pollux.START, rate=Rate(rate / 3600.0))
        return Scenario(pollux.START, self.submissions, self.applications, tuple(pools), budget, terms, RESTART_SECONDS)


def bed(gpu_type: str, kinds: Sequence[str], pairs: PairTable, load: float, seed: int, jobs: int, gpus: int) -> PairBed:
    """``jobs`` jobs that come at random, on average ``load`` times as fast as so many GPUs can do them alone.

    The curves of an application have what was measured on each GPU type, but at most n times the speed of one GPU on n
    (two V100 were measured in another machine than one); where its own width was not, it runs on that one only.
    """
    draw = random.Random(seed)
    drawn = []
    for _ in range(jobs):
        (width,) = draw.choices([width for width, _ in _SCALES], [share for _, share in _SCALES])
        seconds = 60.0 * math.exp(draw.uniform(*map(math.log, _MINUTES)))
        drawn.append((width, seconds, kinds[draw.randrange(len(kinds))]))
    span = sum(width * seconds for width, seconds, _ in drawn) / gpus / load
    at, submissions, applications, of_class = 0.0, [], {}, {}
    for number, (width, seconds, kind) in enumerate(drawn):
        name = f"j{number}"
        own = speeds(gpu_type, kind).get(width)
        if own is None:
            rates = {gpu_type: ({width: 1.0 / seconds},)}
        else:
            others = {of_type: speeds(of_type, kind) for of_type in (gpu_type, *measured.GPU_HOURS)}
            rates = {
                of_type: ({n: steps / own / seconds for n, steps in speeds.items()},)
                for of_type, speeds in others.items()
                if speeds
            }
        applications[name] = Application(name, (1.0,), rates)
        of_class[name] = kind
        submissions.append(Submission(name, at, name, width))
        at += draw.expovariate(jobs / span)
    return PairBed(tuple(submissions), applications, of_class, pairs)


def speeds(gpu_type: str, kind: str) -> Mapping[int, float]:
    """Steps a second by width, at most linear in it; between measured widths on a straight line."""
    one = measured.steps_per_second(gpu_type, kind, 1)
    found = {width: measured.steps_per_second(gpu_type, kind, width) for width in measured.WIDTHS}
    speeds = {width: min(steps, width * one) for width, steps in found.items() if steps}
    for low, high in pairwise(list(speeds)):
        for width in range(low + 1, high):
            speeds[width] = speeds[low] + (speeds[high] - speeds[low]) * (width - low) / (high - low)
    return dict(sorted(speeds.items()))


def pool(gpu_type: str, most: int, start_seconds: float = 0.0) -> PoolModel:
    """Nodes of one GPU each, which two jobs may share."""
    price = Price.parse(str(measured.GPU_HOURS[gpu_type]))
    return PoolModel(gpu_type, 1, price, gpu_type, start_seconds, most, sharing=MPS)
