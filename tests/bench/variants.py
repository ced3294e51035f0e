"""What variants of a job bring, in MariusGNN's case: a graph network on 4 to 16 GPUs, or out of core on one.

    python -m tests.bench.variants [--rates 0.1 1 4 16] [--speeds 1 0.5 0.25] [--jobs 12] [--restart 120]
                                   [--seeds 1 2 3]

The distributed program does .62, 1 and 1.55 of a job in eight hours on 4, 8 and 16 GPUs; out of core, one GPU does as
much as eight, half, or a quarter of it. A rate is what the budget pays for a job-hour, in prices of a GPU-hour, and
fixed. Jobs come every two hours, on nodes of one GPU that are there at once.

Each figure is money and time together, at the rate, by those without the variant: in the simulator with exact curves,
by arithmetic, and with nothing known at first (the class's own curve neither, in both of the two, so that the figure is
what the variant brings and what its trials cost; the mean of the seeds). ``worst``: the largest. The last line says how
many jobs began in another variant than is best by arithmetic. Without seeds nothing is learned.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from statistics import fmean

from charterer.domain.ids import ClassId, Rate
from charterer.domain.job import Widths
from charterer.domain.money import Price
from charterer.domain.time import parse_instant
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.events import Knowledge
from charterer.tools.simulator.knowledge import ExactKnowledge, LearnedKnowledge, ReportModel, exact_profiles
from charterer.tools.simulator.model.ground_truth import GPU_TYPE, Application, application_from_speeds, with_step_times
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.simulation import Simulation

JOB_SECONDS = 8 * 3600.0
"""Of a job on eight GPUs."""
DISTRIBUTED = {4: 0.62, 8: 1.0, 16: 1.55}
"""GPUs and speed; the graph does not fit into fewer."""
DOLLARS = 1.0
"""Of a GPU-hour."""
VARIANT = "outofcore"
_EVERY_SECONDS = 7200.0
_STEPS = 288_000.0
"""Steps of a job: a tenth of a second each on eight GPUs."""


@dataclass(frozen=True, slots=True)
class Setting:
    """``rate``: dollars that an hour of a job is worth; ``speed``: of the variant, None without one."""

    rate: float
    speed: float | None
    jobs: int
    restart: float
    seed: int

    @property
    def application(self) -> Application:
        """The program with its variant."""
        distributed = application_from_speeds("gnn", {gpus: JOB_SECONDS / by for gpus, by in DISTRIBUTED.items()})
        variants: Mapping[str, Application] = {}
        if self.speed is not None:
            variants = {VARIANT: application_from_speeds("gnn", {1: JOB_SECONDS / self.speed})}
        return with_step_times(replace(distributed, variants=variants), _STEPS)

    @property
    def scenario(self) -> Scenario:
        """Its jobs and nodes."""
        budget = new_budget(parse_instant("2026-06-01T00:00:00Z"), rate=Rate(self.rate / 3600.0))
        return Scenario(
            budget.created,
            tuple(Submission(f"j{at}", _EVERY_SECONDS * at, "gnn", 4) for at in range(self.jobs)),
            {"gnn": self.application},
            (PoolModel("a100", 1, Price.parse(f"{DOLLARS}"), GPU_TYPE, start_seconds=0.0, max_nodes=4000),),
            budget,
            lambda _: JobTerms(Widths(4, 4, 16)),
            self.restart,
        )

    def simulated(self, *, learn: bool) -> SimulationResult:
        """The result with exact curves, or with nothing known at first."""
        scenario = self.scenario
        classes: Mapping[ClassId, Application] = {class_of("gnn"): self.application}
        knowledge: Knowledge = ExactKnowledge(exact_profiles(classes, self.restart))
        if learn:
            draw = random.Random(self.seed)
            reports = ReportModel(lambda: draw.gauss(0.0, 1.0), seconds=30.0)
            knowledge = LearnedKnowledge(
                classes, {GPU_TYPE: 1}, self.restart, scenario.budget.id, reports, declare_batches=False
            )
        return Simulation(scenario, partial(plan, memo=Memo()), knowledge).run()


def price(result: SimulationResult, rate: float) -> float:
    """Dollars of nodes, and of the time of all jobs at the rate."""
    return result.spent.dollars + rate * sum([job.completion_seconds or float("inf") for job in result.jobs]) / 3600.0


def learned_price(setting: Setting, seeds: Sequence[int]) -> float:
    """The mean over the seeds, with nothing known at first; not a number without seeds."""
    prices = [price(replace(setting, seed=seed).simulated(learn=True), setting.rate) for seed in seeds]
    return fmean(prices) if prices else nan


def by_arithmetic(rate: float, speed: float) -> tuple[float, bool]:
    """A unit of work with the variant by one without it, and whether the variant is the best."""
    alone = min((rate + DOLLARS * gpus) / by for gpus, by in DISTRIBUTED.items())
    out_of_core = (rate + DOLLARS) / speed
    return min(out_of_core, alone) / alone, out_of_core < alone


def begins_on_one(result: SimulationResult) -> int:
    """How many jobs began on one GPU, which only the variant can."""
    return sum(job.widths[0][1] == 1 for job in result.jobs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rates", type=float, nargs="+", default=[0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0])
    parser.add_argument("--speeds", type=float, nargs="+", default=[1.0, 0.5, 0.25])
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--restart", type=float, default=120.0)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    asked = parser.parse_args(arguments)
    print(f"{asked.jobs} jobs, restart {asked.restart:g} s; money and time with the variant by those without it")
    print(f"{'rate':>6} " + " ".join(f"{f'speed {speed:g}: exact, arithmetic, learned':>39}" for speed in asked.speeds))
    worst = {"exact": 0.0, "learned": 0.0}
    wrong = 0
    for rate in asked.rates:
        cells = []
        alone = Setting(rate * DOLLARS, None, asked.jobs, asked.restart, 0)
        without = price(alone.simulated(learn=False), alone.rate), learned_price(alone, asked.seeds)
        for speed in asked.speeds:
            setting = replace(alone, speed=speed)
            exact = setting.simulated(learn=False)
            expected, best = by_arithmetic(setting.rate, speed)
            wrong += asked.jobs - begins_on_one(exact) if best else begins_on_one(exact)
            ratios = price(exact, setting.rate) / without[0], learned_price(setting, asked.seeds) / without[1]
            worst = {key: max(worst[key], ratio) for key, ratio in zip(worst, ratios, strict=True)}
            cells.append(f"{ratios[0]:17.2f}, {expected:10.2f}, {ratios[1]:8.2f}")
        print(f"{rate:6g} " + " ".join(cells))
    print(f"worst: exact {worst['exact']:.3f}, learned {worst['learned']:.3f}")
    print(f"jobs that began in another variant than is best by arithmetic, exact curves: {wrong}")


if __name__ == "__main__":
    main()
