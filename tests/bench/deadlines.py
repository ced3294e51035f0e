"""Jobs with a target on spot nodes: cost as a multiple of what one pays who knows the future, and who is late.

    python -m tests.bench.deadlines [--traces 40] [--slacks 0.15 0.5 1] [--policies greedy uniform rule9 ours wider]

A job takes 10 hours on four nodes; it is as fast as the number of its nodes to the power of 0.8. Its target is the
slack later than it would end on demand. A node costs $1 an hour, on spot $0.30; it starts in 240 s, a restart takes
60 s, a checkpoint 30 s. All spot nodes are there or away together: they stay for as long as machines of Google or CM-
DARE lived, and are away for a lognormal time (σ = 1), so that they are there for 80, 50 or 30 % of the time. Nothing
is known of them when a job begins. ``greedy``: spot nodes while there is slack, then on demand to the end.
``uniform``: Uniform Progress ("Can't Be Late", NSDI'24): on demand where there is no spot and the job is behind the
line from its start to its target, and on spot again when it is two starts ahead of that. ``rule9``: no on-demand node
before a buffer of starts and losses is touched, by the true mean times. ``ours``: the operator's planner, at an
exchange rate of 0; ``wider``: the same with 4 to 16 nodes. Who knows the future pays each start, but writes no
checkpoint and loses no work; its nodes are four.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from math import cos, exp, inf, log, pi, sqrt

import numpy as np

from charterer.domain.ids import PoolId, Rate
from charterer.domain.job import Allocation, SpotPolicy, Widths
from charterer.domain.time import Instant, after
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.world import Policy, World
from charterer.tools.simulator.knowledge import ExactKnowledge
from charterer.tools.simulator.model.node_market import SimMachine
from charterer.tools.simulator.model.pools_file import measured, uniform
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, new_budget
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policies.fleet import BaselineFleet
from charterer.tools.simulator.simulation import Simulation
from tests.bench.spot import CHECKPOINT, RESTART, SPOT_PRICE, START, Kind, two_pools
from tests.lifetimes import CMDARE, GCP, lifetimes, missing

NODES, HOURS, BOOT = 4, 10.0, 240.0
ENTRY = BOOT + RESTART
LOST = 300.0
"""Seconds of work that an interruption is taken to lose."""
STEP = 60.0
TICK = 300.0
AVAILABLE = (0.8, 0.5, 0.3)
SPOT, ON_DEMAND = PoolId("spot"), PoolId("on-demand")
KIND = Kind("p80-10h", 0.8, HOURS * NODES**0.8)
_SEED = 11


@dataclass(frozen=True)
class Trace:
    """When spot nodes are there: from ``changes`` of even number to the next one. ``on``, ``cycle``: mean seconds."""

    changes: tuple[float, ...]
    on: float
    cycle: float

    def there(self, begin: float, end: float) -> bool:
        """Whether they are from ``begin`` to ``end``."""
        at = sum(change <= begin for change in self.changes)
        return at % 2 == 1 and (at == len(self.changes) or self.changes[at] >= end)


def traces(file: str, available: float, count: int, horizon: float) -> Iterator[Trace]:
    """Traces of that availability, which begin in the midst of things."""
    draw = measured([(machine.hours * 3600.0, not machine.died) for machine in lifetimes(file)], _SEED, 24 * 3600.0)
    on = sum(draw(number) for number in range(1, 2001)) / 2000
    off, at = on * (1.0 - available) / available, 0
    for number in range(count):
        lengths: list[float] = []
        begin = -uniform(_SEED + 1, number) * 2.0 * (on + off)
        while begin + sum(lengths) < horizon:
            at += 1
            normal = sqrt(-2.0 * log(uniform(_SEED + 2, at))) * cos(2.0 * pi * uniform(_SEED + 3, at))
            lengths += [draw(at), off * exp(normal - 0.5)]
        changes = [max(change, 0.0) for change in accumulate(lengths, initial=begin)]
        first = max((at for at, change in enumerate(changes) if change == 0.0), default=0)
        yield Trace(tuple(changes[first:] if first % 2 == 0 else [*changes[first + 1 :]]), on, on + off)


# --- who knows the future ---------------------------------------------------------------------------------------------


def clairvoyant(trace: Trace, slack: float) -> float:
    """The least dollars, in steps of a minute. On-demand nodes are started ahead of their use."""
    work, boots = round(HOURS * 3600.0 / STEP), round(BOOT / STEP)
    steps = int(horizon(slack) / STEP)
    hour = STEP / 3600.0 * NODES
    done = np.full(work + 1, inf)
    done[work] = 0.0
    idle, spot, demand = done.copy(), done.copy(), done.copy()
    starting = [done.copy() for _ in range(boots + 1)]  # the first step of a spot start is number 0
    restarting = done.copy()
    for step in reversed(range(steps)):
        here = trace.there(step * STEP, (step + 1) * STEP)
        ahead = np.append(spot[1:], 0.0)
        on_spot = SPOT_PRICE * hour + ahead if here else np.full(work + 1, inf)
        on_demand = hour + np.append(demand[1:], 0.0)
        restart = hour + demand
        begins = [SPOT_PRICE * hour + later if here else np.full(work + 1, inf) for later in (*starting[1:], spot)]
        enter = np.minimum(np.minimum(idle, boots * hour + restart), begins[0])
        idle, restarting, starting = enter, restart, begins
        spot, demand = np.minimum(on_spot, enter), np.minimum(on_demand, enter)
        for values in (idle, spot, demand, restarting, *starting):
            values[work] = 0.0
    return float(idle[0])


# --- baselines --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Situation:
    """Seconds since the beginning, to the target, of work that is done and left. ``there``: spot nodes are. ``here``:
    the pool where the job runs.
    """

    now: float
    left: float
    done: float
    rest: float
    there: bool
    here: PoolId | None
    trace: Trace

    @property
    def slack(self) -> float:
        """Seconds that may be lost."""
        return self.left - self.rest


Rule = Callable[[Situation], PoolId | None]


def greedy(given: Situation) -> PoolId | None:
    """Spot nodes while there is slack for one more start; then on demand to the end."""
    if given.slack <= ENTRY + LOST + (0.0 if given.here == ON_DEMAND else TICK):
        return ON_DEMAND
    return SPOT if given.there else None


def uniform_progress(given: Situation) -> PoolId | None:
    """Even progress, with a hysteresis of two starts."""
    if given.slack <= 2.0 * ENTRY + LOST:
        return ON_DEMAND
    whole = given.done + given.rest
    pace = whole / (given.now + given.left)
    if given.here == ON_DEMAND and given.done < (given.now + 2.0 * ENTRY) * pace:
        return ON_DEMAND
    if given.there:
        return SPOT
    return ON_DEMAND if given.done < given.now * pace else None


def buffer_rule(given: Situation) -> PoolId | None:
    """No on-demand node before the buffer is touched."""
    buffer = 3.0 * ENTRY + (ENTRY + LOST) * (2.0 + given.rest / given.trace.cycle)
    if given.there and given.slack >= 2.0 * ENTRY + LOST + (0.0 if given.here == SPOT else TICK):
        return SPOT
    if given.slack > (buffer + ENTRY if given.here == ON_DEMAND else buffer):
        return None
    return ON_DEMAND


RULES: Mapping[str, Rule] = {"greedy": greedy, "uniform": uniform_progress, "rule9": buffer_rule}


class ByRule(Policy):
    """One job where a rule says. It runs on where it is until the nodes are ready, and is looked at every 5 minutes."""

    def __init__(self, rule: Rule, trace: Trace, target: float) -> None:
        self._rule, self._trace, self._target = rule, trace, target
        self._job: SimJob | None = None

    def begin_simulation(self, world: World) -> None:
        """Begin."""
        self._world = world
        self._fleets = {pool: BaselineFleet(world, pool) for pool in (SPOT, ON_DEMAND)}

    def job_arrived(self, job: SimJob) -> None:
        """The job."""
        self._job = job

    def job_completed(self, job: SimJob) -> None:
        """It is over."""
        assert job.allocation is not None
        self._job = None
        self._fleets[job.allocation.option.pool].give_back(job.allocation.placements)

    def job_interrupted(self, job: SimJob, held: Allocation) -> None:
        """Its nodes are gone."""
        self._fleets[held.option.pool].give_back(held.placements)

    def machine_ready(self, machine: SimMachine) -> None:
        """A node is ready."""
        self._fleets[machine.order.pool].machine_ready(machine)

    def machine_lost(self, machine: SimMachine) -> None:
        """A node is gone, perhaps before it was ready."""
        self._fleets[machine.order.pool].machine_lost(machine)

    def decide(self) -> Instant | None:
        """Rent, move, release."""
        job, world = self._job, self._world
        wanted = None if job is None else self._wanted(job)
        if job is not None and wanted is not None:
            fleet = self._fleets[wanted]
            here = None if job.allocation is None else job.allocation.option.pool
            if here != wanted:
                places = fleet.place(NODES)
                if places is None:
                    fleet.rent(NODES - len(fleet))
                else:
                    if job.allocation is not None:
                        self._fleets[job.allocation.option.pool].give_back(job.allocation.placements)
                    fleet.start(job, places)
        elif job is not None and job.allocation is not None:
            held = job.allocation
            world.stop(job)
            self._fleets[held.option.pool].give_back(held.placements)
        for pool, fleet in self._fleets.items():
            if pool != wanted:
                fleet.release(fleet.idle_nodes())
        return None if job is None else after(world.clock.instant, TICK)

    def _wanted(self, job: SimJob) -> PoolId | None:
        now = self._world.clock.now
        job.advance(now)
        done = job.done * HOURS * 3600.0
        here = None if job.allocation is None else job.allocation.option.pool
        there = self._world.market.stock[SPOT] is None
        given = Situation(now, self._target - now, done, HOURS * 3600.0 - done, there, here, self._trace)
        return self._rule(given)


# --- runs -------------------------------------------------------------------------------------------------------------


def horizon(slack: float) -> float:
    """Seconds from a job's beginning to its target."""
    return (HOURS * 3600.0 + ENTRY) * (1.0 + slack)


def simulate(trace: Trace, slack: float, name: str) -> tuple[float, bool]:
    """Dollars, and whether the job was late."""
    target = horizon(slack)
    first = trace.changes[0] if trace.changes else inf
    later = [(at, None if number % 2 == 0 else 0) for number, at in enumerate(trace.changes)]
    on_demand, spot = two_pools(BOOT)
    given = Scenario(
        start=START,
        submissions=(Submission("job", 0.0, KIND.name, 1),),
        applications={KIND.name: KIND.application()},
        pools=(
            on_demand,
            replace(
                spot,
                stock=None if first <= 0.0 else 0,
                later_stock=tuple(change for change in later if change[0] > 0.0),
            ),
        ),
        budget=new_budget(START, rate=Rate(0.0)),
        terms=lambda _: JobTerms(
            Widths(NODES, NODES, 16 if name == "wider" else NODES), spot=SpotPolicy.ALLOWED, target_seconds=target
        ),
        restart_seconds=RESTART,
        checkpoint_seconds=None,
        checkpoint_write_seconds=CHECKPOINT,
    )
    knowledge = ExactKnowledge({KIND.class_id: KIND.profile()})
    policy = ByRule(RULES[name], trace, target) if name in RULES else partial(plan, memo=Memo())
    result = Simulation(given, policy, knowledge).run()
    [job] = result.jobs
    return result.spent.dollars, (job.finished or inf) > target


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=40, help="of each availability")
    parser.add_argument("--slacks", type=float, nargs="+", default=[0.15, 0.5, 1.0])
    parser.add_argument("--policies", nargs="+", default=[*RULES, "ours", "wider"])
    given = parser.parse_args()
    print(f"{'lifetimes':>12} {'slack':>6} " + " ".join(f"{name:>16}" for name in given.policies))
    for label, file in (("Google 2019", GCP), ("CM-DARE", CMDARE)):
        if why := missing(file):
            print(f"skipped {label}: {why}")
            continue
        for slack in given.slacks:
            cells: dict[str, tuple[list[float], list[bool]]] = {name: ([], []) for name in given.policies}
            for available in AVAILABLE:
                found = list(traces(file, available, given.traces, horizon(slack)))
                best = [clairvoyant(trace, slack) for trace in found]
                for name, (ratios, late) in cells.items():
                    runs = [simulate(trace, slack, name) for trace in found]
                    ratios.append(sum(dollars for dollars, _ in runs) / sum(best))
                    late += [missed for _, missed in runs]
            print(
                f"{label:>12} {slack:6.0%} "
                + " ".join(
                    f"{'/'.join(f'{ratio:.2f}' for ratio in ratios)} {sum(late) / len(late):.0%}"
                    for ratios, late in cells.values()
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
