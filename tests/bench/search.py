"""How well an unknown class is searched on line over width and batch size (Scavenger's measures).

    python -m tests.bench.search [--settings t4-4 a100-8 p100-4 k80-8 v100-8] [--seeds 1] [--only predictions]

Scavenger (Tyagi and Sharma, 2023) trains on a few widths and batch sizes, predicts time and cost of the others from
parallel and statistical efficiency, and claims errors of 2-5 %, a search that costs at most 10 % beyond an oracle, and
half of the time or of the cost of a user's own choice. On measured tables, of a class that is held out: nothing else is
known; or classes of other programs of the table have run there; or their owners and its own also say what their models
are. Medians and 90th percentiles.

1. Predictions. The class reports for ten minutes from each of some widths, in the first tenth of a job. Error of the
   predicted seconds per work at widths that were not tried, up to four nodes (of the dollars it is the same, because
   GPUs and prices are known): on the node, and on several.
2. Search. Two jobs of the class, one after the other, at an exchange rate θ, in GPU-hours for an hour of a job's life:
   (θ·time + GPU-hours) beyond those of a job with exact curves, for the first job and the second. The width asked for
   is one of the four narrowest, drawn by the seed; every second class has the other of two rates.
3. Defaults. Time and GPU-hours of the same jobs ÷ those of the owner's own width and batch size, and (θ·time +
   GPU-hours) too.

A job reports every ten seconds while its width has fewer than thirty reports, and then every minute, so that the bench
takes minutes. ``link_prior.MODEL_SPREAD`` and ``ALIKE`` are from Gavel's jobs on P100 (p100-4), and derived again; no
other constant is from here. Gavel's V100s are of two kinds: eight of them train 2 to 5.5 times as fast as four.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from statistics import correlation, fmean, median, stdev

from charterer.domain.ids import Rate
from charterer.domain.money import Price
from charterer.domain.time import Instant
from charterer.estimate import priors
from charterer.estimate.priors import MeasuredLink
from charterer.estimate.throughput import Unknown
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.events import Knowledge
from charterer.tools.simulator.knowledge import ExactKnowledge, LearnedKnowledge, ReportModel, exact_profiles
from charterer.tools.simulator.model.ground_truth import GPU_TYPE
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import JobResult
from charterer.tools.simulator.model.scenario import Scenario, class_of, new_budget
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policy_registry import ApplicationWidths
from charterer.tools.simulator.simulation import Simulation
from tests.bench import _gavel as gavel
from tests.bench import _pollux as pollux
from tests.bench._models import PARAMETERS, model_of
from tests.bench._taught import GRADIENT_SCATTER, KNOWN, STEP_SCATTER, Runs, held_out, taught, tell, up_to_four_nodes
from tests.bench.learning import RESTART_SECONDS, SETTINGS, setting

JOBS = 2
REPORTS = 60
"""Of a width: ten minutes."""
OFTEN, SELDOM, MEASURED_REPORTS = 10.0, 60.0, 30
"""Seconds between reports until a width has so many, and from then on."""
TRIED: Sequence[Sequence[int]] = ((1,), (1, 2), (1, 2, 4))
RATES = (4.0, 16.0)
SEARCHED = ("nothing", "models")
WHERE = ("on the node", "on several")

Errors = dict[str, list[float]]


def spread(values: Sequence[float]) -> str:
    """Median and 90th percentile, in percent."""
    if not values:
        return f"{'-':>6} {'-':>6}"
    return f"{median(values):6.1%} {sorted(values)[min(int(0.9 * len(values)), len(values) - 1)]:6.1%}"


# --- predictions ------------------------------------------------------------------------------------------------------


def prediction_errors(name: str, application: str, known: str, tried: Sequence[int], seed: int) -> Errors:
    """|predicted ÷ true − 1| of the seconds per work, at the batch size that the learner would choose."""
    chosen, (learner, class_id) = setting(name), held_out(name, application, known)
    here = chosen.applications[application]
    tried = [gpus for gpus in tried if gpus in here.widths]
    tell(learner, here, chosen.node_gpus, Runs(tried, REPORTS, 0.1, seed))
    widths = up_to_four_nodes(here, chosen.node_gpus)
    learned = learner.profile(class_id, widths)
    measured, phase = here.measurements[GPU_TYPE], learned.phase(0.05)
    errors: Errors = {}
    for gpus in widths:
        entry = learned.entry(phase, gpus)
        rate = measured.rate(here.epoch(0.05), gpus, entry.batch)
        if rate and gpus not in tried:
            where = WHERE[gpus > chosen.node_gpus]
            errors.setdefault(where, []).append(abs(rate * measured.work / entry.goodput - 1.0))
    return errors


def setting_errors(name: str, known: str, tried: Sequence[int], seed: int) -> Errors:
    """Of the applications of a setting whose parameters are known."""
    errors: Errors = {}
    for application in setting(name).applications:
        if model_of(application).parameters is not None:
            for where, found in prediction_errors(name, application, known, tried, seed).items():
                errors.setdefault(where, []).extend(found)
    return errors


def link_spreads() -> tuple[Mapping[Unknown, float], float]:
    """How far log seconds a parameter differ between Gavel's jobs on P100, and their correlation on the two links."""
    learner = taught("p100-4", "others")
    found: dict[Unknown, list[float]] = {}
    for name in setting("p100-4").applications:
        link = MeasuredLink.of(
            PARAMETERS[name.split(" (", maxsplit=1)[0]], learner.step_times(class_of(name), GPU_TYPE)
        )
        for sync, (value, _) in link.per_parameter.items():
            found.setdefault(sync, []).append(value)
    return {sync: stdev(values) for sync, values in found.items()}, correlation(*found.values())


def show_predictions(pool: Executor, names: Sequence[str], seeds: Sequence[int]) -> None:
    """A line for each setting, what else is known, and set of widths tried; and all settings."""
    print("1. error of predicted time and cost at widths not tried: median, 90th percentile (number)")
    keys = [(name, known, tried) for name in names for known in KNOWN for tried in TRIED]
    runs = {key: [pool.submit(setting_errors, *key, seed) for seed in seeds] for key in keys}
    every: dict[tuple[str, Sequence[int]], list[Errors]] = {}
    for (name, known, tried), of_key in runs.items():
        found = [run.result() for run in of_key]
        every.setdefault((known, tried), []).extend(found)
        _line(name, known, tried, found)
    for (known, tried), errors in every.items():
        _line("all", known, tried, errors)
    spreads, alike = link_spreads()
    again = ", ".join(f"{sync.name} {value:.2f}" for sync, value in spreads.items())
    print(f"  link_prior.MODEL_SPREAD {priors.MODEL_SPREAD}, again: {again}")
    print(f"  link_prior.ALIKE {priors.ALIKE}, again: {alike:.2f}")


def _line(name: str, known: str, tried: Sequence[int], errors: Iterable[Errors]) -> None:
    joined = {where: [one for each in errors for one in each.get(where, ())] for where in WHERE}
    cells = [f"{where} {spread(found)} ({len(found)})" for where, found in joined.items()]
    print(f"  {name:7} {known:8} tried {tried!s:10} {'   '.join(cells)}", flush=True)


# --- search -----------------------------------------------------------------------------------------------------------


class Reports(LearnedKnowledge):
    """Jobs of one class report often until the width on which they train is measured, and then seldom."""

    reported = 0

    @property
    def report_seconds(self) -> float:
        """Until the next report of the only job that trains."""
        return OFTEN if self.reported < MEASURED_REPORTS else SELDOM

    def receive_report(self, job: SimJob, at: Instant) -> None:
        """Learn from it."""
        super().receive_report(job, at)
        assert job.allocation is not None
        cells = self.learner.state(job.class_id).times[job.gpu_type].cells
        gpus = job.allocation.option.gpus
        self.reported = sum(cell.count for where, cell in cells.items() if where.shape.gpus == gpus)


@dataclass(frozen=True, slots=True)
class Case:
    """A class that is searched, and at which exchange rate."""

    setting: str
    application: str
    rate: float
    seed: int

    @property
    def asked(self) -> int:
        """The width asked for."""
        widths = setting(self.setting).applications[self.application].widths[:4]
        return random.Random(f"{self.setting}/{self.application}/{self.seed}").choice(widths)


def simulate(case: Case, known: str | None) -> Sequence[JobResult]:
    """Jobs of one class one after the other, with what was reported, or one job with exact curves (None)."""
    chosen = setting(case.setting)
    application = chosen.applications[case.application]
    gap = 2.0 * application.reference_seconds + 7200.0
    jobs = JOBS if known else 1
    submissions = tuple(Submission(f"job-{at}", at * gap, application.name, case.asked) for at in range(jobs))
    applications = {application.name: application}
    budget = new_budget(pollux.START, rate=Rate(case.rate / 3600.0))
    pool = PoolModel("pool", chosen.node_gpus, Price.parse(str(chosen.node_gpus)))
    scenario = Scenario(
        pollux.START, submissions, applications, (pool,), budget, ApplicationWidths(applications), RESTART_SECONDS
    )
    classes = {class_of(application.name): application}
    knowledge: Knowledge = ExactKnowledge(exact_profiles(classes, RESTART_SECONDS))
    if known:
        noise = random.Random(str(case))
        reporting = ReportModel(lambda: noise.gauss(0.0, 1.0), step=STEP_SCATTER, gradient=GRADIENT_SCATTER)
        knowledge = Reports(classes, {GPU_TYPE: chosen.node_gpus}, RESTART_SECONDS, budget.id, reporting)
        knowledge.learner, _ = held_out(case.setting, case.application, known)
    memo = Memo()
    return Simulation(scenario, lambda snapshot: plan(snapshot, memo), knowledge).run().jobs


Usage = tuple[float, float]
"""Hours of time, and GPU-hours."""


@dataclass(frozen=True, slots=True)
class Found:
    """Usage of the jobs by what else is known, of one with exact curves, and by default (None: it does not fit)."""

    case: Case
    learned: Mapping[str, Sequence[Usage]]
    exact: Usage
    default: Usage | None

    def total(self, usage: Usage) -> float:
        """In GPU-hours."""
        return self.case.rate * usage[0] + usage[1]

    def overhead(self, known: str, job: int) -> float:
        """Of the search for one job."""
        return self.total(self.learned[known][job]) / self.total(self.exact) - 1.0

    def beside_default(self, known: str, job: int) -> tuple[float, float, float]:
        """Time, GPU-hours and the total of one job ÷ the default's."""
        assert self.default is not None
        mine, own = self.learned[known][job], self.default
        return mine[0] / own[0], mine[1] / own[1], self.total(mine) / self.total(own)


def usage(jobs: Sequence[JobResult]) -> Sequence[Usage]:
    """Of each job."""
    return [((job.completion_seconds or math.nan) / 3600.0, job.gpu_seconds / 3600.0) for job in jobs]


def find(case: Case) -> Found:
    """The simulations, and the owner's own choice: that width, with the own batch size where it fits."""
    application = setting(case.setting).applications[case.application]
    default = None
    try:
        batch = application.measurements[GPU_TYPE].own_batch
        seconds = application.width_rates(GPU_TYPE, case.asked, batch).seconds_left(0.0) + RESTART_SECONDS
        default = seconds / 3600.0, seconds * case.asked / 3600.0
    except ValueError:
        pass
    (exact,) = usage(simulate(case, None))
    return Found(case, {known: usage(simulate(case, known)) for known in SEARCHED}, exact, default)


def show_search(pool: Executor, names: Sequence[str], seeds: Sequence[int]) -> None:
    """A line for each class, and for all."""
    print("\n2. search beyond the oracle by what else is known: first job of a class, second (mean of its cases)")
    runs: dict[tuple[str, str], list[Future[Found]]] = {
        (name, application): [
            pool.submit(find, Case(name, application, RATES[(at + seed) % len(RATES)], seed)) for seed in seeds
        ]
        for name in names
        for at, application in enumerate(setting(name).applications)
    }
    print(f"  {'':35} {'  '.join(f'{known:>13}' for known in SEARCHED)}")
    every: list[Found] = []
    for (name, application), of_class in runs.items():
        found = [run.result() for run in of_class]
        every += found
        means = [[fmean(one.overhead(known, job) for one in found) for job in range(JOBS)] for known in SEARCHED]
        print(
            f"  {name:7} {application:27} {'  '.join(f'{first:6.1%} {second:6.1%}' for first, second in means)}",
            flush=True,
        )
    groups = {"all": every} | {f"θ {rate:g}": [one for one in every if one.case.rate == rate] for rate in RATES}
    groups |= {name: [one for one in every if one.case.setting == name] for name in names}
    print("  all cases, median and 90th percentile: first job, second; at most 10 %: first, second")
    for what, group in groups.items():
        for known in SEARCHED:
            jobs = [[one.overhead(known, job) for one in group] for job in range(JOBS)]
            within = [fmean(one <= 0.1 for one in of_job) for of_job in jobs]
            print(f"  {what:7} {known:8} {'   '.join(map(spread, jobs))}   {within[0]:4.0%} {within[1]:4.0%}")
    print("\n3. ÷ the owner's default, median and 90th percentile: time, GPU-hours, (θ·time + GPU-hours); by job")
    for what, group in groups.items():
        for known in SEARCHED:
            for job in range(JOBS):
                parts = zip(*(one.beside_default(known, job) for one in group if one.default), strict=True)
                print(f"  {what:7} {known:8} job {job + 1} {'   '.join(map(spread, parts))}")


def main() -> None:
    """Print the three measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["t4-4", "a100-8", "p100-4", "k80-8", "v100-8"]
    parser.add_argument("--settings", nargs="*", choices=list(SETTINGS), default=names)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1])
    parser.add_argument("--only", choices=["predictions", "search"])
    arguments = parser.parse_args()
    pollux.need_data()
    gavel.need_data()
    with ProcessPoolExecutor() as pool:
        if arguments.only != "search":
            show_predictions(pool, arguments.settings, arguments.seeds)
        if arguments.only != "predictions":
            show_search(pool, arguments.settings, arguments.seeds)


if __name__ == "__main__":
    main()
