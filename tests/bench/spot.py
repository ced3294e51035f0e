"""Jobs on spot nodes that are taken back: against on-demand nodes only, and against spot without a plan for it.

    python -m tests.bench.spot [--jobs 120] [--rates 0.25 1 4] [--worlds CM-DARE]

Jobs of 0.5 to 40 hours, as fast as the number of their nodes (1 to 16) to the power of 0.6, 0.8 or 0.95, arrive twelve
a day. A node costs $1 an hour, on spot $0.30; it starts in 120 s, a restart takes 60 s, a checkpoint 30 s. Nothing is
known of the spot pool when it begins. Half of the nodes rented one after the other die at the same age, so that wide
jobs lose nodes together. Lifetimes: machines of Google and of CM-DARE as they were measured, and three invented ones.
At each exchange rate θ (dollars for an hour of a job's life) the operator's planner runs with both pools, with the
on-demand pool only, and beside it every job at the spot width that would be best without interruptions, with a
checkpoint each half hour, which waits for its nodes ("careless").
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import exp, log

from charterer.domain.ids import ClassId, Rate
from charterer.domain.job import SpotPolicy, Widths
from charterer.domain.money import Price
from charterer.domain.pool import NOTHING_COUNTED, CapacityType, EndedNode, Hazard
from charterer.domain.profile import Phase, PowerLaw, Profile, SpeedCurve
from charterer.domain.time import after, parse_instant
from charterer.estimate.hazard import TOGETHER_SECONDS, hazard, with_ended
from charterer.incremental import Memo
from charterer.policy.options.market import RunTimes, interruptions, node_hazard
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.world import Policy
from charterer.tools.simulator.knowledge import ExactKnowledge
from charterer.tools.simulator.model.ground_truth import Application, application_from_speeds
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.pools_file import exponential, measured, uniform
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policies.baselines import RequestedWidth
from charterer.tools.simulator.simulation import Simulation
from tests.lifetimes import CMDARE, GCP, lifetimes, missing

START = parse_instant("2026-06-01T00:00:00Z")
RESTART, BOOT, CHECKPOINT = 60.0, 120.0, 30.0
SPOT_PRICE, JOINT, MOST = 0.3, 0.53, 16
HALF_HOUR = 1800.0
_JOBS_A_DAY = 12.0
_SEED = 7
_POOLS = 40
Draw = Callable[[int], float]


def jointly(draw: Draw) -> Draw:
    """Half of the nodes rented one after the other live exactly as long as the one before."""

    def joint(number: int) -> float:
        while number > 1 and uniform(_SEED + 1, number) < JOINT:
            number -= 1
        return draw(number)

    return joint


def of_file(name: str) -> Draw:
    """The measured lifetimes, of which none is longer than a day."""
    rows = [(machine.hours * 3600.0, not machine.died) for machine in lifetimes(name)]
    return measured(rows, _SEED, most=24 * 3600.0)


def mixed(number: int) -> float:
    """A third of the nodes die at 2 an hour, the others at 0.02."""
    mean = 1800.0 if uniform(_SEED + 2, number) < 1 / 3 else 180_000.0
    return exponential(mean, _SEED)(number)


def worlds() -> Mapping[str, Draw]:
    """By name, how long a spot node lives."""
    found: dict[str, Draw] = {}
    for label, name in (("Google 2019", GCP), ("CM-DARE", CMDARE)):
        if why := missing(name):
            print(f"skipped {label}: {why}")
        else:
            found[label] = of_file(name)
    invented = {rate: exponential(3600.0 / rate, _SEED) for rate in (0.03, 0.3)}
    return found | {f"{rate:g} an hour": draw for rate, draw in invented.items()} | {"a mixture": mixed}


@dataclass(frozen=True)
class Kind:
    """An application as fast as that power of the nodes, whose jobs take ``hours`` on one node."""

    name: str
    exponent: float
    hours: float

    def speed(self, nodes: int) -> float:
        """Relative to one node."""
        return float(nodes**self.exponent)

    def application(self) -> Application:
        """As the simulator runs it."""
        widths = range(1, MOST + 1)
        return application_from_speeds(self.name, {width: self.hours * 3600.0 / self.speed(width) for width in widths})

    def profile(self) -> Profile:
        """As the planner knows it."""
        phase = Phase(1.0, (SpeedCurve("gpu", PowerLaw(self.exponent, 1.0)),))
        return Profile(self.class_id, 1, (phase,), self.hours * 3600.0, None, RESTART, checkpoint_seconds=CHECKPOINT)

    @property
    def class_id(self) -> ClassId:
        """Its class."""
        return class_of(self.name)


KINDS = [Kind(f"p{round(100 * p)}-{hours:g}h", p, hours) for p in (0.6, 0.8, 0.95) for hours in (0.5, 2.0, 10.0, 40.0)]


def two_pools(start_seconds: float) -> tuple[PoolModel, PoolModel]:
    """Nodes of one GPU: on demand for $1 an hour, and on spot."""
    on_demand = PoolModel("on-demand", 1, Price.parse("1"), start_seconds=start_seconds)
    spot_price = Price.parse(str(SPOT_PRICE))
    return on_demand, replace(on_demand, name="spot", hourly=spot_price, capacity_type=CapacityType.SPOT)


def scenario(jobs: int, theta: float, draw: Draw, *, spot: bool, on_demand: bool, every: float | None) -> Scenario:
    """The jobs, one after the other of each kind in turn, on the pools that are there."""
    gaps = [-log(uniform(_SEED + 3, number)) for number in range(jobs)]
    scale = jobs / _JOBS_A_DAY * 86_400.0 / sum(gaps)
    arrivals = [scale * sum(gaps[: number + 1]) for number in range(jobs)]
    kinds = [KINDS[number * 5 % len(KINDS)] for number in range(jobs)]
    always, taken_back = two_pools(BOOT)
    pools = (always, replace(taken_back, draw_lifetime=jointly(draw)))
    return Scenario(
        start=START,
        submissions=tuple(
            Submission(f"j{number}", at, kind.name, 1)
            for number, (at, kind) in enumerate(zip(arrivals, kinds, strict=True))
        ),
        applications={kind.name: kind.application() for kind in KINDS},
        pools=tuple(pool for pool, there in zip(pools, (on_demand, spot), strict=True) if there),
        budget=new_budget(START, rate=Rate(theta / 3600.0)),
        terms=lambda _: JobTerms(Widths(1, 1, MOST), spot=SpotPolicy.ALLOWED),
        restart_seconds=RESTART,
        checkpoint_seconds=every,
        checkpoint_write_seconds=CHECKPOINT,
    )


@dataclass(frozen=True)
class Outcome:
    """Of one simulation, per job: dollars billed, hours of life, and interruptions. ``by_kind``: hours and dollars of
    the GPUs that its jobs held, without idle ones.
    """

    dollars: float
    hours: float
    interruptions: float
    by_kind: Mapping[str, tuple[float, float]]

    def objective(self, theta: float) -> float:
        """θ·a + m."""
        return theta * self.hours + self.dollars

    def to(self, other: Outcome, theta: float) -> float:
        """Mean over the kinds of jobs of the part by which θ·a + m lies above the other's."""
        ratios = [
            (theta * self.by_kind[name][0] + self.by_kind[name][1]) / (theta * hours + dollars)
            for name, (hours, dollars) in other.by_kind.items()
        ]
        return sum(ratios) / len(ratios) - 1.0


def simulate(given: Scenario, policy: Policy | None = None) -> Outcome:
    """Under the operator's planner, or a policy of its own."""
    knowledge = ExactKnowledge({kind.class_id: kind.profile() for kind in KINDS})
    result: SimulationResult = Simulation(given, policy or partial(plan, memo=Memo()), knowledge).run()
    assert all(job.finished is not None for job in result.jobs)
    count = len(result.jobs)
    hours = (result.mean_completion_seconds or 0.0) / 3600.0
    by_kind: dict[str, list[tuple[float, float]]] = {}
    for job in result.jobs:
        assert job.finished is not None
        prices = {"spot": SPOT_PRICE, "on-demand": 1.0}
        dollars = sum(seconds / 3600.0 * prices[pool] for pool, seconds in job.pool_gpu_seconds.items())
        by_kind.setdefault(job.application, []).append(((job.finished - job.submitted) / 3600.0, dollars))
    means = {
        name: (sum(hours for hours, _ in rows) / len(rows), sum(dollars for _, dollars in rows) / len(rows))
        for name, rows in by_kind.items()
    }
    return Outcome(result.spent.dollars / count, hours, result.counts.interruptions / count, means)


def careless_width(kind: Kind, theta: float) -> int:
    """The spot width that is best where no node is ever taken back."""
    return min(range(1, MOST + 1), key=lambda nodes: (theta + SPOT_PRICE * nodes) / kind.speed(nodes))


def careless(theta: float) -> Policy:
    """Every job at that width, on spot; it waits for its nodes."""
    widths = {kind.name: careless_width(kind, theta) for kind in KINDS}
    return RequestedWidth(lambda submission: widths[submission.application], 600.0)


def known(draw: Draw, nodes: int, first: int = 1) -> Hazard:
    """What is known after so many nodes lived to their end, half of them together with the one before.

    ``first``: the number of the first one.
    """
    counted, whole, at, before = NOTHING_COUNTED, jointly(draw), START, 0.0
    for number in range(first, first + nodes):
        hours = min(whole(number) / 3600.0, 24.0)
        at, before = at if hours == before else after(at, 2.0 * TOGETHER_SECONDS), hours
        counted = with_ended(counted, EndedNode(str(number), hours, at, hours < 24.0, 0))
    return replace(hazard(counted, (), at, CapacityType.SPOT), joint=JOINT)


def mean_regret(draw: Draw, nodes: int, true: Hazard, theta: float) -> float:
    """The mean regret after so many nodes, of forty pools with other nodes each."""
    pools = range(1 if nodes == 0 else _POOLS)
    return sum(regret(known(draw, nodes, 1 + 137 * pool), true, theta) for pool in pools) / len(pools)


def regret(chosen: Hazard, true: Hazard, theta: float) -> float:
    """Mean part of θ·a + m that the choice of pool and width by one hazard costs, where the other one is true."""
    lost = []
    for kind in KINDS:
        widths = range(1, MOST + 1)
        best = {(pool, width): cost(kind, theta, width, true if pool else None) for pool in (0, 1) for width in widths}
        believed = {key: cost(kind, theta, key[1], chosen if key[0] else None) for key in best}
        lost.append(best[min(believed, key=believed.__getitem__)] / min(best.values()) - 1.0)
    return sum(lost) / len(lost)


def cost(kind: Kind, theta: float, nodes: int, rates: Hazard | None) -> float:
    """θ·a + m of a job by the formulas; None: on demand."""
    price, kept, there = 1.0, 1.0, None if rates is None else node_hazard(rates)
    if there is not None:
        price = SPOT_PRICE
        narrower = kind.speed(nodes - 1) / kind.speed(nodes) if nodes > 1 else None
        seconds = kind.hours * 3600.0 / kind.speed(nodes)
        kept = interruptions(there, nodes, seconds, RunTimes(CHECKPOINT, RESTART, BOOT), narrower).kept
    return (theta + price * nodes) * (kind.hours / (kind.speed(nodes) * kept) + (BOOT + RESTART) / 3600.0)


def dollars_at(points: Sequence[Outcome], hours: float) -> float | None:
    """Dollars for that mean time, log-log between neighbouring points; None beyond them."""
    ordered = sorted(points, key=lambda point: point.hours)
    for fast, slow in pairwise(ordered):
        if fast.hours <= hours <= slow.hours:
            part = log(hours / fast.hours) / log(slow.hours / fast.hours) if slow.hours > fast.hours else 0.0
            return exp((1.0 - part) * log(fast.dollars) + part * log(slow.dollars))
    return None


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=120)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.25, 1.0, 4.0])
    parser.add_argument("--worlds", nargs="+", default=[], help="only these rows")
    given = parser.parse_args()
    jobs, rates = given.jobs, given.rates
    never: Draw = exponential(1e12, _SEED)
    on_demand = {
        theta: simulate(scenario(jobs, theta, never, spot=False, on_demand=True, every=None)) for theta in rates
    }
    print("on-demand only:", *(f"θ {theta:g}: ${o.dollars:.2f}, {o.hours:.2f} h;" for theta, o in on_demand.items()))
    print("θa + m: of all that is billed, and the mean over kinds of jobs; regret after 0, 3, 10 and 100 nodes")
    heads = ("lifetimes", "θ", "$ a job", "hours", "ends", "to on-demand", "to careless", "$ at equal time", "regret")
    print("{:>12} {:>5} {:>8} {:>6} {:>5} {:>15} {:>15} {:>16} {:>23}".format(*heads))
    for label, draw in worlds().items():
        if given.worlds and label not in given.worlds:
            continue
        both = {theta: simulate(scenario(jobs, theta, draw, spot=True, on_demand=True, every=None)) for theta in rates}
        true = known(draw, 3_000)
        for theta, ours in both.items():
            half_hours = scenario(jobs, theta, draw, spot=True, on_demand=False, every=HALF_HOUR)
            naive = simulate(half_hours, careless(theta))
            same_time = dollars_at(tuple(both.values()), on_demand[theta].hours)
            saved = "-" if same_time is None else f"{same_time / on_demand[theta].dollars - 1.0:+.1%}"
            lost = " ".join(f"{mean_regret(draw, nodes, true, theta):.1%}" for nodes in (0, 3, 10, 100))
            against = [
                f"{ours.objective(theta) / other.objective(theta) - 1.0:+.1%} {ours.to(other, theta):+.1%}"
                for other in (on_demand[theta], naive)
            ]
            print(
                f"{label:>12} {theta:5g} {ours.dollars:8.2f} {ours.hours:6.2f} {ours.interruptions:5.2f} "
                f"{against[0]:>15} {against[1]:>15} {saved:>16} {lost:>23}",
                flush=True,
            )


if __name__ == "__main__":
    main()
