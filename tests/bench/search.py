"""How well an unknown class is searched on line over width and batch size (Scavenger's measures).

    python -m tests.bench.search [--settings t4-4 a100-8 p100-4 v100-8] [--rates 4 16] [--only predictions]

Scavenger (Tyagi and Sharma, 2023) trains on a few widths and batch sizes, predicts time and cost of the others from
parallel and statistical efficiency, and claims errors of 2-5 %, a search that costs at most 10 % beyond an oracle, and
half of the time or of the cost of a user's own choice. On measured tables:

1. Predictions. A class reports for ten minutes from each of some widths, in the first tenth of a job. Error of the
   predicted seconds per work at widths that were not tried, up to four nodes (of the dollars it is the same, because
   GPUs and prices are known): on the node, and on several where it tried one. Nothing else is known; or classes of
   other programs of the table have run there; or their owners and its own also say what their models are.
2. Search. Jobs of one class, one after the other, at one exchange rate θ, in GPU-hours for an hour of a job's life:
   (θ·time + GPU-hours) beyond those of the same jobs with exact curves, from the first job on.
3. Defaults. Time and GPU-hours of the same jobs ÷ those of the owner's own width and batch size.

``link_prior.MODEL_SPREAD`` and ``ALIKE`` are from Gavel's jobs on P100 (p100-4), and derived again; no other constant
is from here.
"""

from __future__ import annotations

import argparse
import copy
import math
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import correlation, fmean, median, stdev

from charterer.domain.ids import ClassId, Rate
from charterer.domain.money import Price
from charterer.domain.profile import BatchTerms
from charterer.domain.time import Instant
from charterer.estimate.learner import Learner
from charterer.estimate.observation import Observation
from charterer.estimate.priors import link_prior
from charterer.estimate.priors.link_prior import MeasuredLink
from charterer.estimate.throughput import Unknown
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.simulate.engine.knowledge import Knowledge
from charterer.simulate.knowledge.exact_knowledge import ExactKnowledge, exact_profiles
from charterer.simulate.knowledge.learned_knowledge import LearnedKnowledge, ReportModel
from charterer.simulate.model.ground_truth import GPU_TYPE, Application
from charterer.simulate.model.node_market import PoolModel
from charterer.simulate.model.result import JobResult
from charterer.simulate.model.scenario import Scenario, class_of, new_budget
from charterer.simulate.model.workload import Submission
from charterer.simulate.policy_registry import ApplicationWidths
from charterer.simulate.simulation import Simulation
from tests.bench import _gavel as gavel
from tests.bench import _pollux as pollux
from tests.bench._models import PARAMETERS, model_of
from tests.bench.learning import RESTART_SECONDS, SETTINGS, Setting, setting

JOBS = 3
REPORTS = 60
"""Of a width: ten minutes."""
STEP_SCATTER, GRADIENT_SCATTER = 0.05, 0.1
TRIED: Sequence[Sequence[int]] = ((1,), (1, 2), (1, 2, 4))
KNOWN = ("nothing", "others", "models")
"""What is known beside the class's own reports: nothing; classes of other programs ran; and all say what they are."""

Errors = dict[str, list[float]]


def terms(application: Application) -> BatchTerms:
    """What would be declared of the application."""
    measured = application.measurements[GPU_TYPE]
    return BatchTerms(measured.own_batch, measured.largest_batch, measured.largest_local, measured.smallest_local)


def tell(learner: Learner, class_id: ClassId, application: Application, node_gpus: int, runs: Runs) -> None:
    """Reports of a class to a learner."""
    draw, measured = random.Random(f"{class_id}/{runs}"), application.measurements[GPU_TYPE]
    for gpus in runs.widths:
        for at in range(runs.reports):
            done = runs.life * at / runs.reports
            batch = learner.batch(class_id, GPU_TYPE, gpus, done)
            found = measured.measurement(application.epoch(done), gpus, batch)
            if found is None:
                continue
            off = [math.exp(draw.gauss(0.0, scatter)) for scatter in (STEP_SCATTER, *2 * (GRADIENT_SCATTER,))]
            times = -(-gpus // node_gpus), gpus, found.batch, found.step_seconds * off[0], done, Instant(0)
            learner.report(Observation(class_id, GPU_TYPE, *times, found.grad_sqr * off[1], found.grad_var * off[2]))


@dataclass(frozen=True, slots=True)
class Runs:
    """Widths from each of which so many reports came, in the first part of a job's life."""

    widths: Sequence[int]
    reports: int
    life: float


def up_to_four_nodes(application: Application, node_gpus: int) -> Sequence[int]:
    """The widths of one, two and four nodes, and those below a node."""
    return [gpus for gpus in application.widths if gpus <= node_gpus or gpus in (2 * node_gpus, 4 * node_gpus)]


def _id(application: str) -> ClassId:
    return ClassId("team", application)


def taught(chosen: Setting, known: str) -> Learner:
    """A learner to which every application of the setting reported from all widths, or (``nothing``) none."""
    learner = Learner(
        {_id(name): terms(each) for name, each in chosen.applications.items()}, {GPU_TYPE: chosen.node_gpus}, 0.1
    )
    for name, each in chosen.applications.items():
        if known == "models":
            learner.describe(_id(name), model_of(name))
        if known != "nothing":
            widths = up_to_four_nodes(each, chosen.node_gpus)
            tell(learner, _id(name), each, chosen.node_gpus, Runs(widths, 15, 1.0))
            learner.profile(_id(name), widths)
    return learner


def prediction_errors(chosen: Setting, all_known: Learner, name: str, known: str, tried: Sequence[int]) -> Errors:
    """|predicted ÷ true − 1| of the seconds per work, at the batch size that the learner would choose."""
    learner, application, class_id = copy.deepcopy(all_known), chosen.applications[name], _id(name)
    for other in chosen.applications:
        if model_of(other).family == model_of(name).family:
            learner.forget(_id(other))
    learner.declare(class_id, terms(application))
    if known == "models":
        learner.describe(class_id, model_of(name))
    tried = [gpus for gpus in tried if gpus in application.widths]
    tell(learner, class_id, application, chosen.node_gpus, Runs(tried, REPORTS, 0.1))
    widths = up_to_four_nodes(application, chosen.node_gpus)
    learned = learner.profile(class_id, widths)
    measured, phase = application.measurements[GPU_TYPE], learned.phase(0.05)
    errors: Errors = {}
    for gpus in widths:
        entry = learned.entry(phase, gpus)
        rate = measured.rate(application.epoch(0.05), gpus, entry.batch)
        if rate and gpus not in tried:
            where = "on the node" if gpus <= chosen.node_gpus else "on several"
            errors.setdefault(where, []).append(abs(rate * measured.work / entry.goodput - 1.0))
    return errors


def link_spreads() -> tuple[Mapping[Unknown, float], float]:
    """How far log seconds a parameter differ between Gavel's jobs on P100, and their correlation on the two links."""
    chosen = setting("p100-4")
    learner = taught(chosen, "others")
    found: dict[Unknown, list[float]] = {}
    for name in chosen.applications:
        link = MeasuredLink.of(PARAMETERS[name.split(" (", maxsplit=1)[0]], learner.step_times(_id(name), GPU_TYPE))
        for sync, (value, _) in link.per_parameter.items():
            found.setdefault(sync, []).append(value)
    return {sync: stdev(values) for sync, values in found.items()}, correlation(*found.values())


def simulate(chosen: Setting, application: Application, asked: int, rate: float, learned: bool) -> Sequence[JobResult]:
    """Jobs of one class one after the other, at an exchange rate, with exact curves or with what was reported."""
    gap = 2.0 * application.reference_seconds + 7200.0
    submissions = tuple(Submission(f"job-{at}", at * gap, application.name, asked) for at in range(JOBS))
    applications = {application.name: application}
    budget = new_budget(pollux.START, rate=Rate(rate / 3600.0))
    pool = PoolModel("pool", chosen.node_gpus, Price.parse(str(chosen.node_gpus)))
    scenario = Scenario(
        pollux.START, submissions, applications, (pool,), budget, ApplicationWidths(applications), RESTART_SECONDS
    )
    classes = {class_of(application.name): application}
    knowledge: Knowledge = ExactKnowledge(exact_profiles(classes, RESTART_SECONDS))
    if learned:
        noise = random.Random(f"{application.name}/{asked}/{rate}")
        reporting = ReportModel(lambda: noise.gauss(0.0, 1.0), step=STEP_SCATTER, gradient=GRADIENT_SCATTER)
        knowledge = LearnedKnowledge(classes, {GPU_TYPE: chosen.node_gpus}, RESTART_SECONDS, budget.id, reporting)
    memo = Memo()
    return Simulation(scenario, lambda snapshot: plan(snapshot, memo), knowledge).run().jobs


@dataclass(frozen=True, slots=True)
class Found:
    """Of one class, width asked for and θ: hours of time and GPU-hours of each job, learned, exact, and by default."""

    learned: tuple[tuple[float, float], ...]
    exact: tuple[tuple[float, float], ...]
    default: tuple[float, float] | None
    rate: float

    def overhead(self, job: int) -> float:
        """Of the search for one job."""
        exact, learned = (self.rate * hours + gpus for hours, gpus in (self.exact[job], self.learned[job]))
        return learned / exact - 1.0

    def better(self, job: int) -> bool:
        """Whether neither time nor GPU-hours are more than by default."""
        return self.default is not None and all(
            mine <= own for mine, own in zip(self.learned[job], self.default, strict=True)
        )


def hours(jobs: Sequence[JobResult]) -> tuple[tuple[float, float], ...]:
    """Time and GPU-hours of each job."""
    return tuple(((job.completion_seconds or math.nan) / 3600.0, job.gpu_seconds / 3600.0) for job in jobs)


def find(name: str, application: str, asked: int, rate: float) -> Found:
    """Both simulations, and the owner's own choice: that width, with the own batch size where it fits."""
    chosen = setting(name)
    known = chosen.applications[application]
    learned, exact = (hours(simulate(chosen, known, asked, rate, told)) for told in (True, False))
    default = None
    try:
        batch = known.measurements[GPU_TYPE].own_batch
        seconds = known.width_rates(GPU_TYPE, asked, batch).seconds_left(0.0) + RESTART_SECONDS
        default = seconds / 3600.0, seconds * asked / 3600.0
    except ValueError:
        pass
    return Found(learned, exact, default, rate)


def show_predictions(names: Sequence[str]) -> None:
    """A line for each setting, set of widths tried, and what else is known; applications with parameters only."""
    print("1. error of predicted time and cost at widths not tried: median, mean (number)")
    every: dict[tuple[str, str], Errors] = {}
    for name in names:
        chosen = setting(name)
        for known in KNOWN:
            learner = taught(chosen, known)
            for tried in TRIED:
                errors: Errors = {}
                for application in chosen.applications:
                    if model_of(application).parameters is None:
                        continue
                    for where, found in prediction_errors(chosen, learner, application, known, tried).items():
                        errors.setdefault(where, []).extend(found)
                        every.setdefault((known, str(tried)), {}).setdefault(where, []).extend(found)
                _line(name, known, str(tried), errors)
    for (known, shown), errors in every.items():
        _line("all", known, shown, errors)
    spreads, alike = link_spreads()
    again = ", ".join(f"{sync.name} {spread:.2f}" for sync, spread in spreads.items())
    print(f"  link_prior.MODEL_SPREAD {link_prior.MODEL_SPREAD}, again: {again}")
    print(f"  link_prior.ALIKE {link_prior.ALIKE}, again: {alike:.2f}")


def _line(name: str, known: str, tried: str, errors: Errors) -> None:
    cells = [
        f"{where} {median(errors[where]):6.1%} {fmean(errors[where]):6.1%} ({len(errors[where])})"
        for where in ("on the node", "on several")
        if errors.get(where)
    ]
    print(f"  {name:7} {known:8} tried {tried:10} {'   '.join(cells)}", flush=True)


def show_search(names: Sequence[str], rates: Sequence[float]) -> None:
    """A line for each class, and means."""
    print("\n2. and 3. search beyond the oracle, by job; time and GPU-hours ÷ the owner's default, first job and last")
    every: list[Found] = []
    with ProcessPoolExecutor() as pool:
        runs = {
            (name, application): [
                pool.submit(find, name, application, asked, rate)
                for asked in setting(name).applications[application].widths[:4:2]
                for rate in rates
            ]
            for name in names
            for application in setting(name).applications
        }
        for (name, application), of_class in runs.items():
            found = [run.result() for run in of_class]
            every += found
            print(f"  {name:7} {application:27} {summary(found)}", flush=True)
    print(f"  {'mean':35} {summary(every)}")
    for rate in rates:
        print(f"  {f'θ {rate:g}':35} {summary([one for one in every if one.rate == rate])}")
    print(f"  both below the default's, of jobs: first {_share(every, 0):.0%}, last {_share(every, -1):.0%}")


def summary(found: Sequence[Found]) -> str:
    """Means of overheads, geometric means of ratios."""
    cells = [f"{fmean(one.overhead(job) for one in found):6.1%}" for job in range(JOBS)]
    for job in (0, JOBS - 1):
        with_default = [(one.learned[job], one.default) for one in found if one.default]
        for part in (0, 1):
            ratios = [mine[part] / own[part] for mine, own in with_default]
            cells.append(f"{pollux.geometric_mean(ratios):5.2f}")
    return " ".join(cells)


def _share(found: Sequence[Found], job: int) -> float:
    return fmean(one.better(job) for one in found if one.default)


def main() -> None:
    """Print the three measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="*", choices=list(SETTINGS), default=["t4-4", "a100-8", "p100-4", "v100-8"])
    parser.add_argument("--rates", type=float, nargs="*", default=[4.0, 16.0], help="exchange rates")
    parser.add_argument("--only", choices=["predictions", "search"])
    arguments = parser.parse_args()
    pollux.need_data()
    gavel.need_data()
    if arguments.only != "search":
        show_predictions(arguments.settings)
    if arguments.only != "predictions":
        show_search(arguments.settings, arguments.rates)


if __name__ == "__main__":
    main()
