"""A job with one slow node: dollars and hours with the planner's rule and without, and how often it acts on noise.

    python -m tests.bench.slow_nodes [--hours 1 4 24 96] [--slow 1.15 1.43 2] [--healthy 50]

A job of three nodes of eight GPUs at $16 an hour each, on demand, at an exchange rate of $8 for an hour of its life.
One node computes so many times as long as the others, from the start; communication takes a tenth of a step. The
detector (``estimate.bottlenecks``) hears simulated reports of ``tests.bench.bottlenecks`` and its finding is handed to
the operator's planner, which plans every half minute while there is one, as in a cluster. A node takes 240 s to start,
a restart 60 s and the work since the last checkpoint, 300 s. Each line: hours left without the slow node, the ratio,
when the job moved, hours and dollars without the rule and with it, and by how much the dollars differ.

Then undisturbed jobs with all of them left, an hour each: how many moved.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import replace

from charterer.domain.ids import BudgetId, JobId, Rate, RentalId
from charterer.domain.job import ResizePolicy
from charterer.domain.plan import Allocate, Rent
from charterer.domain.profile import PowerLaw
from charterer.domain.reports import Bottleneck
from charterer.domain.time import Instant, after
from charterer.estimate.bottlenecks import RunReports
from charterer.policy.planner import plan
from tests.bench.bottlenecks import Fault, Trainer
from tests.worlds import World

JOB = JobId("train")
PRICE, PODS, GPUS = 16.0, 3, 24
SPEED = GPUS**0.9
START, RESTART, LOST = 240.0, 60.0, 300.0
TURN = 30.0


def a_world(hours: float) -> World:
    """The job on its three nodes, with so many hours left where none is slow."""
    world = World()
    world.budget()
    budget = world.budgets[BudgetId("research")]
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(8.0 / 3600.0))
    world.pool("a100", gpus=8, price="16")
    world.profile("sft", PowerLaw(0.9, 1.0), work_hours=40)
    for _ in range(PODS):
        world.rental()
    world.job("train", gpus=GPUS, profile="sft", hours_left=hours * SPEED)
    job = world.runs_on("train", "a100-1", "a100-2", "a100-3", gpus=GPUS, speed=SPEED)
    world.jobs[JOB] = replace(job, resize=ResizePolicy.RESTART)
    return world


def findings(ratio: float, seed: str) -> list[tuple[float, tuple[Bottleneck, ...]]]:
    """What is found in the first hour, and from when on."""
    reports, heard = RunReports(1, PODS), list[tuple[float, tuple[Bottleneck, ...]]]()
    for post in Trainer(random.Random(seed), PODS, 1.0, Fault(0.0, ratio)).posts(3600.0):
        if reports.add(post.pod, post.parts, after(Instant(0), post.at)):
            found = [
                replace(finding, rental=RentalId(f"a100-{finding.pod + 1}"))
                for finding in reports.findings()
                if finding.pod is not None
            ]
            heard.append((post.at, tuple(found)))
    return heard


def moved_at(hours: float, ratio: float, seed: str) -> float | None:
    """When the job goes on without the slow node, in seconds; None: not within an hour."""
    world, heard = a_world(hours), findings(ratio, seed)
    begin, ready = world.now, dict[RentalId, Instant]()
    for turn in range(int(3600.0 / TURN)):
        seconds = turn * TURN
        world.now = after(begin, seconds)
        for rental in [name for name, at in ready.items() if at <= world.now]:
            world.launches(rental, at=after(ready.pop(rental), -START))
            world.becomes_ready(rental)
        found = next((found for at, found in reversed(heard) if at <= seconds), ())
        left = max(hours * 3600.0 - seconds / slowdown(ratio), 0.0)
        world.jobs[JOB] = replace(world.jobs[JOB], bottlenecks=found, remaining=left * SPEED)
        decided = plan(world.snapshot()) if found else None
        for command in () if decided is None else decided.commands:
            if isinstance(command, Allocate):
                return seconds
            if isinstance(command, Rent):
                world.write(command)
                ready[command.rental] = after(world.now, START)
    return None


def slowdown(ratio: float) -> float:
    """How many times as long a step takes: a tenth of it is communication."""
    return 0.9 * ratio + 0.1


def outcome(hours: float, ratio: float, moved: float | None) -> tuple[float, float]:
    """Hours and dollars of the job from now on."""
    whole = hours * 3600.0 * slowdown(ratio)
    if moved is None or moved >= whole:
        return whole / 3600.0, whole / 3600.0 * PODS * PRICE
    work_left = hours * 3600.0 - moved / slowdown(ratio)
    seconds = moved + RESTART + LOST + work_left
    return seconds / 3600.0, (seconds * PODS + START) / 3600.0 * PRICE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, nargs="+", default=[1.0, 4.0, 24.0, 96.0])
    parser.add_argument("--slow", type=float, nargs="+", default=[1.15, 1.43, 2.0])
    parser.add_argument("--healthy", type=int, default=50)
    options = parser.parse_args()
    for ratio in options.slow:
        for hours in options.hours:
            moved = moved_at(hours, ratio, f"{hours}/{ratio}")
            before, after_it = outcome(hours, ratio, None), outcome(hours, ratio, moved)
            when = "stays" if moved is None else f"moved after {moved / 60.0:.0f} min"
            print(
                f"{hours:5.0f} h left, {ratio:.2f} times: {when:20s} {before[0]:6.1f} h ${before[1]:7.0f} -> "
                f"{after_it[0]:6.1f} h ${after_it[1]:7.0f} ({after_it[1] / before[1] - 1.0:+.0%})"
            )
    longest = max(options.hours)
    moves = sum(moved_at(longest, 1.0, f"healthy/{number}") is not None for number in range(options.healthy))
    print(f"undisturbed hours of jobs with {longest:.0f} h left in which one moved: {moves} of {options.healthy}")


if __name__ == "__main__":
    main()
