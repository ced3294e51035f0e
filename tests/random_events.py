"""Events that may happen to a world between two plans; each of ``EVENTS`` draws its details at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from charterer.domain.budget import Mode, MoveLimits
from charterer.domain.ids import JobId, Rate
from charterer.domain.job import Finish, FinishKind, ResizePolicy, RunOutcome, RunRecord
from charterer.domain.money import Money, Price
from charterer.domain.pool import Notice, PriceSegment
from charterer.domain.profile import Amdahl, FailedWidth, Phase, PowerLaw, SpeedCurve
from charterer.domain.rental import RentalPhase
from charterer.domain.reports import Progress
from charterer.domain.time import QuietHours, after
from charterer.policy.planner import plan
from tests import factory
from tests.worlds import World

WIDTHS: tuple[int | tuple[int, int, int], ...] = (2, (1, 4, 32), (8, 16, 64))
PHASES = (
    Phase(0.4, (SpeedCurve("a100", PowerLaw(0.3, 1.0)),)),
    Phase(0.7, (SpeedCurve("a100", PowerLaw(0.7, 1.0)),)),
    Phase(1.0, (SpeedCurve("a100", PowerLaw(0.95, 1.0)),)),
)


def arrives(world: World, draw: Random) -> None:
    number = len(world.jobs) + draw.randrange(1000)
    world.job(
        f"j{number}",
        gpus=draw.choice(WIDTHS),
        profile=draw.choice([None, "sft", "phased", "rl", "unknown"]),
        budget=draw.choice([*world.budgets, *world.budgets, None]),
        weight=draw.choice([1.0, 1.0, 3.0]),
        resize=draw.choice(list(ResizePolicy)),
        grace_seconds=draw.choice([30, 300]),
        gpu_types=draw.choice([(), (), ("h100",)]),
        age_seconds=draw.randrange(100_000),
    )


def a_wave_arrives(world: World, draw: Random) -> None:
    """Many jobs that choose alike."""
    first, budget, profile = draw.randrange(1000), draw.choice([*world.budgets]), draw.choice(["sft", "phased"])
    for number in range(draw.randint(3, 9)):
        world.job(f"w{first}-{number}", gpus=(1, 4, 32), profile=profile, budget=budget, age_seconds=number * 7.0)


def some(world: World, draw: Random) -> JobId:
    if not world.jobs:
        arrives(world, draw)
    return draw.choice(sorted(world.jobs))


def reports(world: World, draw: Random) -> None:
    job = world.jobs[some(world, draw)]
    fraction = draw.choice([0.01, 0.3, 0.69, 0.95])
    run = 0 if job.allocation is None else job.allocation.run
    progress = Progress(run, fraction, None, None, world.now)
    left = draw.choice([None, 100.0, 36_000.0 * (1 - fraction), 4e6])
    world.jobs[job.id] = replace(job, progress=progress, remaining=left)


def completes(world: World, draw: Random) -> None:
    job = world.jobs[some(world, draw)]
    finish = Finish(FinishKind.COMPLETE, world.now, "Complete", "")
    world.jobs[job.id] = replace(job, finish=finish, allocation=None, runs=(), replaced=())


def is_edited(world: World, draw: Random) -> None:
    job = world.jobs[some(world, draw)]
    changes: list[dict[str, Any]] = [
        {"suspend": not job.suspend},
        {"weight": job.weight * 2},
        {"widths": replace(job.widths, min=1, preferred=2, max=2)},
        {"grace_seconds": 900},
        {"budget": draw.choice([*world.budgets, None])},
        {"checking": not job.checking},
        {"max_cost": draw.choice([Money.parse("40"), Money.parse("4000")])},
        {"target_completion": after(world.now, draw.choice([3600.0, 60_000.0]))},
    ]
    world.jobs[job.id] = replace(job, **draw.choice(changes))


def is_deleted(world: World, draw: Random) -> None:
    del world.jobs[some(world, draw)]


def one_node_is_ready(world: World, draw: Random) -> None:
    for rental in world.rentals.values():
        if rental.phase is RentalPhase.REQUESTED:
            world.launches(rental.id)
            world.becomes_ready(rental.id)
            return


def a_node_is_lost(world: World, draw: Random) -> None:
    if world.nodes:
        name = draw.choice(sorted(world.nodes))
        if draw.random() < 0.5:
            del world.nodes[name]
        else:
            world.nodes[name] = replace(world.nodes[name], ready=False, not_ready_since=world.now, foreign_gpus=1)


def a_rental_ends(world: World, draw: Random) -> None:
    if world.rentals:
        name = draw.choice(sorted(world.rentals))
        if draw.random() < 0.5 and world.rentals[name].launched is not None:
            world.ends(name)
        else:
            del world.rentals[name]


def a_pool_changes(world: World, draw: Random) -> None:
    name = draw.choice(sorted(world.pools))
    pool = world.pools[name]
    assert pool.quote is not None
    changes: list[dict[str, Any]] = [
        {"quote": replace(pool.quote, price=draw.choice([pool.quote.worst, Price.parse("4")]))},
        {"max_nodes": draw.choice([1, 5, 50])},
        {"cooled": factory.cooled(after(world.now, 60))},
        {"deleting": not pool.deleting},
        {"start_seconds": 300.0},
    ]
    world.pools[name] = replace(pool, **draw.choice(changes))
    held = [rental.instance for rental in world.rentals.values() if rental.pool == name and rental.instance]
    world.notices[name] = tuple(Notice(instance, world.now) for instance in held[: draw.randrange(2)])
    end = after(world.now, draw.choice([-60.0, 80.0, 900.0, 5000.0]))
    world.known_ends |= dict.fromkeys(held[: draw.randrange(3)], end)


def a_curve_is_learned(world: World, draw: Random) -> None:
    name = draw.choice(sorted(world.profiles))
    if draw.random() < 0.3 and len(world.profiles) > 1:
        del world.profiles[name]
    else:
        changed = replace(world.profiles[name], generation=2, mean_work=draw.choice([None, 40_000.0, 90_000.0]))
        world.profiles[name] = changed


def a_run_fails(world: World, draw: Random) -> None:
    """The run is recorded, and its width is avoided for a while."""
    job = world.jobs[some(world, draw)]
    gone, profile = job.allocation, world.profiles.get(job.class_id)
    if gone is None:
        return
    record = RunRecord(gone.run, RunOutcome.FAILED, gone.option, gone.placements, gone.since, world.now, "")
    failures = job.failures + 1
    world.jobs[job.id] = replace(
        job, allocation=None, runs=(), replaced=(), records=(*job.records, record), failures=failures
    )
    offering = world.pools[gone.option.pool].offering if gone.option.pool in world.pools else None
    if profile is not None and offering is not None:
        failed = FailedWidth(offering.gpu_type, gone.option.gpus, draw.choice([1, 2]), world.now, "")
        world.profiles[profile.id] = replace(profile, reports=5, failed=(failed,))


def money_changes(world: World, draw: Random) -> None:
    name = draw.choice(sorted(world.budgets))
    changes: list[dict[str, Any]] = [
        {"amount": Money.parse(draw.choice(["500", "20000", "900000"]))},
        {"hard_limit": draw.choice([None, Money.parse("3000")])},
        {"max_hourly_rate": draw.choice([None, Price.parse("50")])},
        {"mode": draw.choice(list(Mode))},
        {"moves": draw.choice([MoveLimits(per_job_and_day=0), MoveLimits(quiet_hours=(QuietHours(0, 1200),))])},
        {"fixed_rate": draw.choice([None, Rate(0.02), Rate(0.002), Rate(0.0002)])},
        {"fixed_rate": draw.choice([Rate(0.02), Rate(0.002), Rate(0.0002)])},
        {"deleting": True},
    ]
    world.budgets[name] = replace(world.budgets[name], **draw.choice(changes))


def a_price_changes_under_way(world: World, draw: Random) -> None:
    running = [rental for rental in world.rentals.values() if rental.billed]
    if running:
        rental = draw.choice(running)
        begun = rental.segments or (PriceSegment(rental.launched or world.now, rental.worst),)
        latest = PriceSegment(world.now, draw.choice([rental.worst, Price.parse("1")]))
        world.rentals[rental.id] = replace(rental, segments=(*begun, latest))


def a_rental_is_folded(world: World, draw: Random) -> None:
    """The rental's cost is in the balance, though its object still exists."""
    for rental in world.rentals.values():
        budget = world.budgets.get(rental.budget)
        if rental.ended is not None and budget is not None and budget.balance is not None:
            folded = budget.balance.folded | {rental.uid}
            world.budgets[budget.id] = replace(budget, balance=replace(budget.balance, folded=folded))
            return


def money_drifts(world: World, draw: Random) -> None:
    """Amounts and rates change so little that most jobs would not move for it."""
    for name, budget in world.budgets.items():
        micros = round(budget.amount.micros * draw.choice([0.97, 0.999, 1.001, 1.03]))
        rate = None if budget.fixed_rate is None else Rate(budget.fixed_rate * draw.choice([0.97, 0.999, 1.001, 1.03]))
        world.budgets[name] = replace(budget, amount=Money(micros), fixed_rate=rate)


def nothing(world: World, draw: Random) -> None:
    """Only time passes."""


def is_carried_out(world: World, draw: Random) -> None:
    world.carry_out(plan(world.snapshot()))
    if draw.random() < 0.7:
        world.everything_starts()


EVENTS: tuple[Callable[[World, Random], None], ...] = (
    arrives,
    reports,
    reports,
    completes,
    is_edited,
    is_deleted,
    one_node_is_ready,
    a_node_is_lost,
    a_rental_ends,
    a_pool_changes,
    a_curve_is_learned,
    a_run_fails,
    money_changes,
    a_wave_arrives,
    a_price_changes_under_way,
    a_rental_is_folded,
    money_drifts,
    money_drifts,
    nothing,
    is_carried_out,
    is_carried_out,
    is_carried_out,
)


def some_world(draw: Random) -> World:
    world = World()
    for name in ["research", "prod"][: draw.randint(1, 2)]:
        made = world.budget(name, amount=draw.choice(["2000", "60000", "400000"]))
        world.budgets[made.id] = replace(made, fixed_rate=draw.choice([None, None, Rate(0.02), Rate(0.002)]))
    world.pool("a100", price="16", worst="20", max_nodes=draw.choice([3, 50]))
    world.pool("h100", price="40", worst="60", max_nodes=draw.choice([1, 50]))
    world.profile("sft", Amdahl(0.97, 1.0), work_hours=20, others=(SpeedCurve("h100", Amdahl(0.98, 2.0)),))
    world.profile("rl", PowerLaw(0.8, 1.0), arrivals_per_hour=0.5, work_hours=4, budget="research")
    phased = world.profile("phased", PowerLaw(0.8, 1.0), work_hours=30, restart_seconds=10.0)
    world.profiles[phased.id] = replace(phased, phases=PHASES)
    for _ in range(draw.randint(2, 8)):
        arrives(world, draw)
    return world
