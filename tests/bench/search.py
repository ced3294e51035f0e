"""How well an unknown class is searched on line over width and batch size (Scavenger's measures).

    python -m tests.bench.search [--settings t4-4 a100-8 p100-4 v100-8] [--rates 4 16] [--only predictions]

Scavenger (Tyagi and Sharma, 2023) trains on a few widths and batch sizes, predicts time and cost of the others from
parallel and statistical efficiency, and claims errors of 2-5 %, a search that costs at most 10 % beyond an oracle, and
half of the time or of the cost of a user's own choice. On tables from which no constant was taken:

1. Predictions. A class of which nothing is known reports for ten minutes from each of some widths, in the first tenth of
   a job. Error of the predicted seconds per work of widths that were not tried (of the dollars it is the same, because
   GPUs and prices are known). ``farther``: up to four times the widest; ``between``: within those tried.
2. Search. Jobs of one class, one after the other, at one exchange rate θ, in GPU-hours for an hour of a job's life:
   (θ·time + GPU-hours) beyond those of the same jobs with exact curves, from the first job on.
3. Defaults. Time and GPU-hours of the same jobs ÷ those of the owner's own width and batch size.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean, median

from charterer.domain.ids import ClassId, Rate
from charterer.domain.money import Price
from charterer.domain.profile import BatchTerms
from charterer.domain.time import Instant
from charterer.estimate.learner import Learner
from charterer.estimate.observation import Observation
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
from tests.bench.learning import RESTART_SECONDS, SETTINGS, Setting, setting

JOBS = 3
REPORTS = 60
"""Of a width: ten minutes."""
STEP_SCATTER, GRADIENT_SCATTER = 0.05, 0.1
TRIED: Sequence[Sequence[int]] = ((1,), (1, 2), (1, 2, 4), (1, 4, 16))
NAME = ClassId("team", "new")


def terms(application: Application) -> BatchTerms:
    """What would be declared of the application."""
    measured = application.measurements[GPU_TYPE]
    return BatchTerms(measured.own_batch, measured.largest_batch, measured.largest_local, measured.smallest_local)


def told(application: Application, node_gpus: int, tried: Sequence[int]) -> Learner:
    """A learner to which a class reported from the widths that were tried, in the first tenth of a job's life."""
    learner = Learner({NAME: terms(application)}, {GPU_TYPE: node_gpus}, 0.1)
    draw, measured = random.Random(f"{application.name}/{tried}"), application.measurements[GPU_TYPE]
    for gpus in tried:
        for at in range(REPORTS):
            done = 0.1 * at / REPORTS
            batch = learner.batch(NAME, GPU_TYPE, gpus, done)
            found = measured.measurement(application.epoch(done), gpus, batch)
            if found is not None:
                off = [math.exp(draw.gauss(0.0, scatter)) for scatter in (STEP_SCATTER, *2 * (GRADIENT_SCATTER,))]
                nodes = -(-gpus // node_gpus)
                learner.report(
                    Observation(
                        NAME,
                        GPU_TYPE,
                        nodes,
                        gpus,
                        found.batch,
                        found.step_seconds * off[0],
                        done,
                        Instant(0),
                        found.grad_sqr * off[1],
                        found.grad_var * off[2],
                    )
                )
    return learner


def prediction_errors(application: Application, node_gpus: int, tried: Sequence[int]) -> Mapping[str, list[float]]:
    """|predicted ÷ true − 1| of the seconds per work, at the batch size that the learner would choose."""
    widths = [gpus for gpus in application.widths if gpus <= 4 * tried[-1]]
    tried = [gpus for gpus in tried if gpus in widths]
    others = [gpus for gpus in widths if gpus not in tried]
    if not tried or not others:
        return {}
    learned = told(application, node_gpus, tried).profile(NAME, widths)
    measured, phase = application.measurements[GPU_TYPE], learned.phase(0.05)
    errors: dict[str, list[float]] = {}
    for gpus in others:
        entry = learned.entry(phase, gpus)
        rate = measured.rate(application.epoch(0.05), gpus, entry.batch)
        if rate:
            where = "between" if gpus < tried[-1] else "next" if gpus <= 2 * tried[-1] else "farther"
            errors.setdefault(where, []).append(abs(rate * measured.work / entry.goodput - 1.0))
    return errors


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
    """A line for each setting and set of widths tried."""
    print("1. error of predicted time and cost at widths not tried: median, mean (number)")
    every: dict[tuple[str, str], list[float]] = {}
    for name in names:
        chosen = setting(name)
        for tried in TRIED:
            errors: dict[str, list[float]] = {}
            for application in chosen.applications.values():
                for where, found in prediction_errors(application, chosen.node_gpus, tried).items():
                    errors.setdefault(where, []).extend(found)
                    every.setdefault((str(tried), where), []).extend(found)
            _line(name, str(tried), errors)
    for shown in TRIED:
        _line("all", str(shown), {where: found for (widths, where), found in every.items() if widths == str(shown)})


def _line(name: str, tried: str, errors: Mapping[str, Sequence[float]]) -> None:
    cells = [
        f"{where} {median(errors[where]):6.1%} {fmean(errors[where]):6.1%} ({len(errors[where])})"
        for where in ("between", "next", "farther")
        if errors.get(where)
    ]
    print(f"  {name:7} tried {tried:12} {'   '.join(cells)}")


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
    better: Callable[[Found], bool] = lambda one: (
        one.default is not None
        and all(  # noqa: E731
            mine <= own for mine, own in zip(one.learned[job], one.default, strict=True)
        )
    )
    return fmean(better(one) for one in found)


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
