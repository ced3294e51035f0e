"""How long a turn of the loop takes, cold and after one event of each sort:  python -m tests.bench.turn [--jobs 10000]
                                                                           python -m tests.bench.turn --full 1000 3000
                                                                           python -m tests.bench.turn --shared
                                                                           python -m tests.bench.turn --few

10,000 jobs of 200 classes on 20 pools and 32,000 nodes, all of them running and the best pool full: a budget gives jobs
in sight all that they can use, because it saves nothing for jobs that may never come. A turn is what the loop's thread
does: it observes, plans, publishes (status views are made, compared and encoded; the API server answers at once), and
works out the next steps. Milliseconds are of the processor; the world is frozen for the garbage collector, which is at
work as seldom as in the operator.

``--full``: so many jobs on five pools instead, all of them too small: eight GPUs for ten jobs, of which each could use
32. Most of the jobs wait.

``--shared``: two jobs share each GPU of every second pool.

``--few``: the plan of ten jobs that wait and choose together, which is what a small team's plan costs. The median of
twelve worlds of five pools. Only the plan is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import random
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, cast

from charterer.cluster import kinds
from charterer.cluster.client import Client
from charterer.cluster.kinds import AnyKind
from charterer.cluster.store import ObjectKey, Store, StoredVersion
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.observe import observe
from charterer.controller.status.jobs import JobOptions
from charterer.controller.status.publisher import viewed_objects
from charterer.controller.status.view_writer import ViewWriter
from charterer.controller.surveys import with_known_instances
from charterer.domain.ids import RentalId
from charterer.domain.job import Job
from charterer.domain.money import Money, Price
from charterer.domain.plan import Plan
from charterer.domain.profile import Amdahl, SpeedCurve
from charterer.domain.rental import RentalPhase
from charterer.domain.reports import Progress
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import after
from charterer.gpu_types import slice_type
from charterer.incremental import Memo
from charterer.lifecycle.next_steps import next_steps
from charterer.lifecycle.view import LifecycleView, uses_now
from charterer.policy.planner import SolvedPlan, plan, solved_plan
from tests.stored import as_stored
from tests.unit.cli.worlds import seen_of
from tests.worlds import World

JOBS, CLASSES, POOLS = 10_000, 200, 20
FULL_POOLS = 5
_SETTLED = 40
"""Plans, ten minutes apart, until the jobs have the widths that the money buys."""
_SETTLED_FULL = 5
"""The same where pools are full: then nobody moves any more."""
_REPEATS = 5
_TYPES = ("Tesla-P100-PCIE-16GB", "Tesla-V100-SXM2-16GB", "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3")
_PLACES = "mps-2"
_PARTS = ("observe", "plan", "views", "steps")


def busy_world(
    jobs: int = JOBS,
    classes: int = CLASSES,
    pools: int = POOLS,
    nodes: int = 5000,
    shared: bool = False,
    gpus: tuple[int, int, int] = (1, 4, 32),
) -> World:
    """Jobs of many classes, with money for the fastest options, of which the best pool has too few.

    ``nodes``: of each pool. ``shared``: two jobs share each GPU of every second pool.
    """
    draw = random.Random(2).uniform
    world = World()
    budget = world.budget()
    world.budgets[budget.id] = replace(budget, amount=Money(2_000_000_000 * jobs), guarded=True)
    gpu_types = [_TYPES[number % len(_TYPES)] for number in range(pools)]
    for number, gpu_type in enumerate(gpu_types):
        cut = _PLACES if shared and number % 2 else ""
        pool = world.pool(f"pool{number:02}", gpu_type=gpu_type, price=str(10 + number), max_nodes=nodes, cut=cut)
        world.pools[pool.id] = replace(pool, guarded=True)
    for number in range(classes):
        curves = [SpeedCurve(gpu_type, Amdahl(draw(0.8, 0.999), 1.0 + at)) for at, gpu_type in enumerate(_TYPES)]
        if shared:
            curves += [
                SpeedCurve(slice_type(each.gpu_type, _PLACES), Amdahl(0.0, draw(0.5, 1.0) * (1.0 + at)))
                for at, each in enumerate(curves)
            ]
        world.profile(f"class{number}", curves[0].form, gpu_type=_TYPES[0], work_hours=20, others=curves[1:])
    for number in range(jobs):
        world.job(
            f"job{number}",
            gpus=gpus,
            profile=f"class{number % classes}",
            age_seconds=number % 997,
            shared_mib=1024 if shared else 0,
        )
    return world


def full_world(jobs: int) -> World:
    """The same on five pools of eight-GPU nodes that have too few for all."""
    return busy_world(jobs, CLASSES, FULL_POOLS, max(jobs // 10 // FULL_POOLS, 1))


def settle(world: World, plans: int = _SETTLED) -> None:
    """Plan and carry out until little changes."""
    memo = Memo()
    for turn in range(plans):
        world.carry_out(plan(world.snapshot(), memo))
        if turn:
            world.everything_starts()
        world.passes(600.0)
    for rental in [rental for rental in world.rentals.values() if rental.phase is RentalPhase.ENDED]:
        del world.rentals[rental.id]  # folded and forgotten
    everything_is_labelled(world)


def everything_is_labelled(world: World) -> None:
    """What steps would have written: of a run its Service, labels, annotations and uses of nodes; of a budget its
    money's causes."""
    for budget in list(world.budgets.values()):
        assert budget.balance is not None
        through = budget.balance.costs.through
        if through is None or world.now > after(through, 30.0):
            costs = replace(budget.balance.costs, through=world.now, lifetime=budget.balance.lifetime)
            world.budgets[budget.id] = replace(budget, balance=replace(budget.balance, costs=costs))
    labels: dict[str, dict[str, str]] = {name: {} for name in world.nodes}
    for job in list(world.jobs.values()):
        world.jobs[job.id] = _prepared(job)
        for placement in () if job.allocation is None else job.allocation.placements:
            node = world.rentals[placement.rental].node
            if node in labels and job.allocation is not None:
                labels[node][job.run_label] = f"r{job.allocation.run}"
    for name, known in list(world.nodes.items()):
        if known.run_labels != labels[name]:
            world.nodes[name] = replace(known, run_labels=labels[name])
    snapshot = world.snapshot()
    uses = LifecycleView.of(snapshot).uses
    for rental in list(world.rentals.values()):
        world.rentals[rental.id] = uses_now(rental, uses.get(rental.id, ()), snapshot)


def _prepared(job: Job) -> Job:
    if job.allocation is None:
        return job
    text = job.allocation.annotation
    if job.has_service and all(pod.allocation == text for run in job.runs for pod in run.pods):
        return job
    runs = tuple(replace(run, pods=tuple(replace(pod, allocation=text) for pod in run.pods)) for run in job.runs)
    return replace(job, has_service=True, runs=runs)


def narrow_world(jobs: int) -> World:
    """Jobs of one GPU that share nodes of eight with little money, whose price rises: nodes of another pool start."""
    world = busy_world(jobs, nodes=jobs // 4, gpus=(1, 1, 32))
    for budget in list(world.budgets.values()):
        world.budgets[budget.id] = replace(budget, amount=Money(20_000_000 * jobs))
    settle(world, _SETTLED_FULL)
    for job in list(world.jobs.values()):
        begun = Progress(job.last_run, 0.05, None, None, world.now)
        world.jobs[job.id] = replace(job, progress=begun, remaining=14 * 3600.0)
    for name in {rental.pool for rental in world.rentals.values()}:
        quote = world.pools[name].quote
        assert quote is not None
        dearer = Price(10 * quote.price.micros_per_hour)
        world.pools[name] = replace(world.pools[name], quote=replace(quote, price=dearer, worst=dearer))
    world.passes(12 * 3600.0)
    memo = Memo()
    for _ in range(3):
        world.carry_out(plan(world.snapshot(), memo))
        world.passes(60.0)
    for rental in [rental for rental in world.rentals.values() if rental.phase is RentalPhase.REQUESTED]:
        world.launches(rental.id)
    everything_is_labelled(world)
    return world


def few_world(seed: int) -> World:
    """Ten jobs of one to 32 GPUs that wait, each of its own class, on five pools without a node."""
    draw = random.Random(seed).uniform
    world = World()
    for number, price in enumerate((4, 10, 14, 30, 20)):
        world.pool(f"pool{number}", gpu_type=_TYPES[number % len(_TYPES)], price=str(price), max_nodes=20)
    world.budget()
    for number in range(10):
        curves = [SpeedCurve(gpu_type, Amdahl(draw(0.8, 0.999), 1.0 + at)) for at, gpu_type in enumerate(_TYPES)]
        hours = draw(2.0, 40.0)
        world.profile(f"class{number}", curves[0].form, gpu_type=_TYPES[0], work_hours=hours, others=curves[1:])
        world.job(f"job{number}", gpus=(1, 2, 32), profile=f"class{number}", age_seconds=number)
    return world


def few() -> float:
    """Seconds of a processor of one plan of ``few_world``: the median of twelve seeds."""
    seconds = []
    for snapshot in [few_world(seed).snapshot() for seed in range(12)]:
        began = time.process_time()
        plan(snapshot)
        seconds.append(time.process_time() - began)
    return statistics.median(seconds)


# --- the loop's surroundings ------------------------------------------------------------------------------------------


def state_of(world: World, before: ClusterState | None = None) -> ClusterState:
    """The world as a store would hold it, with the clouds' surveys; what is as ``before`` is the same object."""
    services = {ObjectKey(job.namespace, job.name): job.id for job in world.jobs.values() if job.has_service}
    known = {} if before is None else before.surveys
    surveys = {name: with_known_instances(survey, known.get(name)) for name, survey in world.snapshot().surveys.items()}
    return as_stored(replace(seen_of(world), services=services, surveys=surveys), before)


def uid_of(resource: str, name: str) -> str:
    """The uid that an object has in the world."""
    return name if resource == kinds.TRAINING_JOBS.resource.plural else f"uid-{name}"


class LaunchHistory:
    """An API server that takes every status."""

    async def get(self, path: str) -> Mapping[str, Any]:
        resource, name = path.split("/")[-2:]
        uid, created = uid_of(resource, name), "2026-06-01T00:00:00Z"
        metadata = {"name": name, "uid": uid, "resourceVersion": "1", "creationTimestamp": created}
        return {"kind": "TrainingJob", "metadata": metadata}

    async def apply(self, path: str, body: Mapping[str, Any], manager: str) -> Mapping[str, Any]:
        answer = await self.get(path.removesuffix("/status"))
        return {**answer, "status": {"conditions": body["status"]["conditions"]}}


class UidsOfTheWorld(Store):
    """A store in which every object is there and is never read back."""

    def put(self, kind: AnyKind, raw: Mapping[str, Any]) -> bool:
        return False

    def stored_version(self, kind: AnyKind, key: ObjectKey) -> StoredVersion | None:
        return StoredVersion(uid_of(kind.resource.plural, key.name), 1, 1, shows_state=True)


def status_writer() -> ViewWriter:
    """A writer that never looks at numbers again: in the operator that takes place every half minute, job by job."""
    store = UidsOfTheWorld(kinds.COMMON)
    return ViewWriter(cast(Client, LaunchHistory()), store, set(), lambda *_: None, seldom_seconds=math.inf)


@dataclass
class Turns:
    """Turns over a world, with what a loop remembers between them."""

    world: World
    state: ClusterState | None = None
    seen: Memo = field(default_factory=Memo)
    memo: Memo = field(default_factory=Memo)
    stepped: Memo = field(default_factory=Memo)
    viewed: Memo = field(default_factory=Memo)
    writer: ViewWriter = field(default_factory=status_writer)
    options: JobOptions = field(default_factory=JobOptions)

    async def turn(self) -> tuple[Plan, Mapping[str, float]]:
        """The plan, and the seconds of each part."""
        self.state = state_of(self.world, self.state)
        times = [time.process_time()]

        def mark() -> None:
            times.append(time.process_time())

        snapshot = observe(self.state, self.world.now, self.seen)
        mark()
        made = solved_plan(snapshot, self.memo)
        mark()
        await self._publish(snapshot, made)
        mark()
        self.steps, self.waits = next_steps(snapshot, self.stepped)
        mark()
        seconds = [later - earlier for earlier, later in pairwise(times)]
        return made.plan, dict(zip(_PARTS, seconds, strict=True))

    async def _publish(self, snapshot: Snapshot, made: SolvedPlan) -> None:
        self.options.planned(snapshot, made.solutions)
        self.writer.show(viewed_objects(snapshot, made.plan, {}, self.viewed, options=self.options), snapshot)
        await self.writer.write_due()

    async def after(self, event: Callable[[World, int], None], number: int) -> Mapping[str, float]:
        """The seconds of the turn after one event. What it decided is carried out, and seen in a turn of its own."""
        event(self.world, number)
        self.world.passes(1.0)
        decided, seconds = await self.turn()
        self.world.carry_out(decided)
        everything_is_labelled(self.world)
        await self.turn()
        return seconds


# --- events -----------------------------------------------------------------------------------------------------------


def nothing(world: World, number: int) -> None:
    """Only time passes."""


def reports(world: World, number: int) -> None:
    """A running job says how far it is."""
    job = world.jobs[list(world.jobs)[(777 * number + 5) % len(world.jobs)]]
    run = 0 if job.allocation is None else job.allocation.run
    world.jobs[job.id] = replace(job, progress=Progress(run, 0.3, None, None, world.now), remaining=14 * 3600.0)


def arrives(world: World, number: int) -> None:
    """A job is submitted."""
    world.job(f"new{number}", gpus=(1, 4, 32), profile=f"class{number}")


def ends(world: World, number: int) -> None:
    """A job is gone."""
    del world.jobs[list(world.jobs)[(500 * number + 9) % len(world.jobs)]]
    everything_is_labelled(world)


def ready(world: World, number: int) -> None:
    """A node that was rented takes pods."""
    coming = [
        rental.id for rental in world.rentals.values() if rental.phase is not RentalPhase.READY and rental.ended is None
    ]
    name: RentalId = coming[0] if coming else world.rental(f"pool{number:02}", phase=RentalPhase.STARTING).id
    world.becomes_ready(name)


def line(title: str, seconds: Mapping[str, float]) -> str:
    """All parts in milliseconds."""
    each = ", ".join(f"{part} {1e3 * seconds[part]:.0f}" for part in _PARTS)
    return f"{title:28} {1e3 * sum(seconds.values()):6.0f} ms ({each})"


async def measure(world: World) -> None:
    """Print a cold turn, and the median of some turns after each sort of event."""
    turns = Turns(world)
    _, cold = await turns.turn()
    print(line("cold", cold))
    for event in (nothing, reports, arrives, ends, ready):
        runs = [await turns.after(event, number) for number in range(_REPEATS)]
        middle = {part: statistics.median(run[part] for run in runs) for part in _PARTS}
        print(line(f"after: {event.__name__}", middle))
    print(f"at the end {len(turns.steps)} steps and {len(turns.waits)} waits")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--shared", action="store_true", help="two jobs share each GPU of every second pool")
    parser.add_argument("--narrow", action="store_true", help="jobs of one GPU, little money, nodes that start")
    parser.add_argument("--few", action="store_true", help="only the plan of ten jobs that wait")
    parser.add_argument("--full", type=int, nargs="*", default=(), help="so many jobs on full pools instead")
    chosen = parser.parse_args()
    if chosen.few:
        few()  # imports what only a plan needs
        print(f"a plan of ten jobs that wait: {1e3 * few():.0f} ms of a processor")
        parser.exit()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for jobs in chosen.full or (chosen.jobs,):
        if chosen.narrow:
            made = narrow_world(jobs)
        else:
            made = full_world(jobs) if chosen.full else busy_world(jobs, shared=chosen.shared)
            settle(made, _SETTLED_FULL if chosen.full else _SETTLED)
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000)
        empty = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{jobs} jobs, of which {sum(job.allocation is not None for job in made.jobs.values())} have GPUs")
        asyncio.run(measure(made))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"memory at most: {peak:.0f} MB (imports {before:.0f} MB, with the world and its plans {empty:.0f} MB)")
