"""How long a plan takes, cold and after one event, and what the loop does around it:  python -m tests.bench.plan

10,000 jobs of 200 classes on 20 pools, most of them running. Seconds are of the processor; the world is frozen for the
garbage collector, which is at work as seldom as in the operator. The ratio is to the plan without a memo.
"""

from __future__ import annotations

import gc
import random
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from charterer.controller.snapshot.observe import ObservationCache, observe
from charterer.controller.status.jobs import job_state, job_view
from charterer.domain.ids import RentalId
from charterer.domain.job import Progress
from charterer.domain.money import Money
from charterer.domain.plan import Plan
from charterer.domain.profile import Amdahl, SpeedCurve
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.incremental import Memo
from charterer.lifecycle.next_steps import next_steps
from charterer.policy.planner import plan
from tests.unit.cli.worlds import seen_of
from tests.worlds import World

JOBS, CLASSES, POOLS = 10_000, 200, 20
_SETTLED = 40
"""So many plans, ten minutes apart, until the jobs have the widths that the money buys."""
_REPEATS = 5


def busy_world(jobs: int = JOBS, classes: int = CLASSES, pools: int = POOLS) -> World:
    """Jobs of many classes, a dollar an hour and GPU or two for each; the pools have room for all."""
    draw = random.Random(2).uniform
    world = World()
    budget = world.budget()
    world.budgets[budget.id] = replace(budget, amount=Money(2_000_000_000 * jobs))
    kinds = [f"gpu{number % 4}" for number in range(pools)]
    for number, kind in enumerate(kinds):
        world.pool(f"pool{number:02}", gpu_type=kind, price=str(10 + number), max_nodes=5000)
    for number in range(classes):
        curves = [SpeedCurve(kind, Amdahl(draw(0.8, 0.999), 1.0 + at)) for at, kind in enumerate(kinds[:4])]
        world.profile(f"class{number}", curves[0].form, gpu_type="gpu0", work_hours=20, others=curves[1:])
    for number in range(jobs):
        world.job(f"job{number}", gpus=(1, 4, 32), profile=f"class{number % classes}", age_seconds=number % 997)
    return world


def settle(world: World) -> None:
    """Plan and carry out until little changes."""
    memo = Memo()
    for turn in range(_SETTLED):
        world.carry_out(plan(world.snapshot(), memo))
        if turn:
            world.everything_starts()
        world.passes(600.0)


def took(work: Callable[[], object]) -> float:
    """Seconds of the processor."""
    began = time.process_time()
    work()
    return time.process_time() - began


def reports(world: World, turn: int) -> None:
    """A running job says how far it is."""
    job = world.jobs[list(world.jobs)[777 * turn + 5]]
    run = 0 if job.allocation is None else job.allocation.run
    world.jobs[job.id] = replace(job, progress=Progress(run, 0.3, None, None, world.now), remaining=14 * 3600.0)


def arrives(world: World, turn: int) -> None:
    """A job is submitted, and given its place."""
    world.job(f"new{turn}", gpus=(1, 4, 32), profile=f"class{turn}")


def ends(world: World, turn: int) -> None:
    """A job is gone."""
    del world.jobs[list(world.jobs)[500 * turn + 9]]


def ready(world: World, turn: int) -> None:
    """A node that was rented takes pods."""
    coming = [one.id for one in world.rentals.values() if one.phase is not RentalPhase.READY and one.ended is None]
    name: RentalId = coming[0] if coming else world.rental(f"pool{turn:02}", phase=RentalPhase.STARTING).id
    world.becomes_ready(name)


def after_events(world: World) -> None:
    """Each kind of event some times, everything that was decided carried out."""
    memo, memory = Memo(), ObservationCache()
    cold = took(lambda: plan(world.snapshot(), memo))
    without = statistics.median(took(lambda: plan(world.snapshot())) for _ in range(3))
    print(f"plan, cold: {cold:.3f} s; without a memo {without:.3f} s")
    observe(seen_of(world), world.now, memory)
    for happens in (reports, arrives, ends, ready):
        seconds: list[float] = []
        for turn in range(_REPEATS):
            happens(world, turn)
            world.passes(1.0)
            snapshot = world.snapshot()
            decided: list[Plan] = []
            seconds.append(took(lambda: decided.append(plan(snapshot, memo))))  # noqa: B023
            world.carry_out(decided[0])
        middle = statistics.median(seconds)
        each = " ".join(f"{1e3 * one:.0f}" for one in seconds)
        print(f"plan after a job or node {happens.__name__}: {1e3 * middle:.0f} ms ({each}), {middle / without:.2f}")


def around(world: World) -> None:
    """The other steps of a turn of the loop."""
    memory, seen = ObservationCache(), seen_of(world)
    print(f"observe, cold: {took(lambda: observe(seen, world.now, memory)):.3f} s", end="")
    print(f"; when nothing changed {took(lambda: observe(seen, world.now, memory)):.3f} s")
    snapshot = observe(seen, world.now, memory)
    snapshot = replace(snapshot, surveys=world.snapshot().surveys)
    decided = plan(snapshot)
    print(f"next steps: {took(lambda: next_steps(snapshot)):.3f} s")
    print(f"job views: {took(lambda: show(snapshot, decided)):.3f} s")


def show(snapshot: Snapshot, decided: Plan) -> None:
    """What is shown of each job."""
    for job in snapshot.jobs.values():
        job_state(job)
        job_view(job, snapshot, decided, {})


if __name__ == "__main__":
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    made = busy_world()
    settle(made)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)
    empty = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    after_events(made)
    around(made)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory at most: {peak:.0f} MB (imports {before:.0f} MB, with the world and its plans {empty:.0f} MB)")
