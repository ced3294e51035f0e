"""What learning costs: mean completion time when all is learned from reports, against exact curves, at equal hours.

    python -m tests.bench.learning [--settings t4-4 v100-8 ...] [--jobs 80] [--seeds 1 2] [--rates 4 16]

Each setting has measured applications on one GPU type, in nodes of one size, and jobs that are drawn by a seed: classes
by the sizes of Philly's jobs (Pollux, OSDI'21, §5.1) or evenly, arrivals and widths asked for evenly. At the beginning
of each simulation no class was ever seen. A pair of simulations at one exchange rate θ, in GPU-hours for an hour of a
job's life, has mean times T and GPU-hours H; on the frontier of exact curves hours fall by θ for each hour of life, so
that at equal hours learning loses (θ·ΔT + ΔH) / (θ·T) of the time. It is given by rented GPU-hours and by those that
jobs held, which leave idle parts of nodes out; and the restarts of a job.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from statistics import fmean

from charterer.domain.ids import Rate
from charterer.domain.money import Price
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.events import Knowledge
from charterer.tools.simulator.knowledge import ExactKnowledge, LearnedKnowledge, ReportModel, exact_profiles
from charterer.tools.simulator.model.ground_truth import GPU_TYPE, Application, with_step_times
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policy_registry import ApplicationWidths
from charterer.tools.simulator.simulation import Simulation
from demo.condense import data_dir
from tests.bench import _pollux as pollux
from tests.bench._gavel import WIDTHS, steps_per_second
from tests.bench._models import model_of
from tests.measured import EPOCHS, read_tables

RESTART_SECONDS = 30.0
SECONDS_PER_JOB = 180.0
"""Between two submissions on average: 160 jobs in 8 hours, as in Pollux's workloads."""
CATEGORIES = ((1.0, ("cifar10", "ncf")), (10.0, ("bert", "deepspeech2")), (100.0, ("yolov3",)), (1e9, ("imagenet",)))
"""Applications for jobs of Philly that took up to so many GPU-hours (Pollux, §5.1)."""
GAVEL = (
    "ResNet-18 (batch size 32)",
    "ResNet-18 (batch size 256)",
    "ResNet-50 (batch size 32)",
    "ResNet-50 (batch size 64)",
    "Transformer (batch size 32)",
    "Transformer (batch size 256)",
    "LM (batch size 5)",
    "LM (batch size 80)",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """Applications on a GPU type in nodes of one size; ``philly``: whether Philly's sizes choose among them."""

    applications: Mapping[str, Application]
    node_gpus: int
    philly: bool


SETTINGS: Mapping[str, tuple[str, str, int]] = {
    "t4-2": ("sia", "aws", 2),
    "t4-4": ("sia", "aws", 4),
    "a100-4": ("sia", "dgx", 4),
    "a100-8": ("sia", "dgx", 8),
    "k80-8": ("gavel", "k80", 8),
    "p100-4": ("gavel", "p100", 4),
    "v100-8": ("gavel", "v100", 8),
    "v100-2": ("gavel", "v100", 2),
}
"""By name: the data, the GPU type as the data call it, GPUs of a node."""


@cache
def setting(name: str) -> Setting:
    """The setting of that name."""
    source, gpu_type, node_gpus = SETTINGS[name]
    if source == "gavel":
        return Setting(_gavel(gpu_type), node_gpus, philly=False)
    widths = (1, 2, 4, *(node_gpus * nodes for nodes in range(1, 17)))
    folder = data_dir() / "pollux" / "traces"
    read = {}
    for name in EPOCHS:
        validations = {
            int(path.stem.removeprefix("validation-")): path.read_text()
            for path in (folder / name).glob("validation-*.csv")
        }
        steps = [
            (data_dir() / "sia" / "traces" / name / f"{what}-{gpu_type}.csv").read_text()
            for what in ("placements", "scalability")
        ]
        tables = read_tables(name, validations, steps[0], steps[1], node_gpus)
        read[name] = tables.application(sorted({gpus for gpus in widths if gpus <= node_gpus or gpus % node_gpus == 0}))
    return Setting(read, node_gpus, philly=True)


def _gavel(gpu_type: str) -> Mapping[str, Application]:
    """Gavel's models of one batch size: steps a second on 1, 2, 4 and 8 GPUs; sizes as Gavel draws them."""
    draw = random.Random("sizes")
    read = {}
    for name in GAVEL:
        rates = {gpus: steps_per_second(gpu_type, name, gpus) for gpus in WIDTHS}
        work = 10.0 ** draw.uniform(1.5, 3.0) * 60.0 * rates[1]
        known = {gpus: rate / work for gpus, rate in rates.items() if rate}
        read[name] = with_step_times(Application(name, (1.0,), {GPU_TYPE: (known,)}), work)
    return read


@cache
def _philly() -> Sequence[float]:
    """GPU-hours of Philly's jobs."""
    with (data_dir() / "pollux" / "philly.csv").open(newline="") as lines:
        return [float(row["gpu_time"]) / 3600.0 for row in csv.DictReader(lines)]


def submissions(chosen: Setting, jobs: int, seed: int) -> tuple[Submission, ...]:
    """So many jobs, drawn by the seed."""
    draw = random.Random(seed)
    times = sorted(draw.uniform(0.0, SECONDS_PER_JOB * jobs) for _ in range(jobs))
    drawn = []
    for number, at in enumerate(times):
        names = sorted(chosen.applications)
        if chosen.philly:
            hours = draw.choice(_philly())
            names = next(list(few) for most, few in CATEGORIES if hours < most)
        name = draw.choice(names)
        asked = draw.choice(chosen.applications[name].widths[:4])
        drawn.append(Submission(f"{name.split()[0].lower()}-{number}", at, name, asked))
    return tuple(drawn)


def simulate(name: str, jobs: int, seed: int, rate: float, learned: bool, described: bool = False) -> SimulationResult:
    """The operator's planner at one exchange rate, with exact curves or with what trainers reported so far.

    ``described``: whether owners say of their models what is known of them (``_models``).
    """
    chosen = setting(name)
    budget = new_budget(pollux.START, rate=Rate(rate / 3600.0))
    pool = PoolModel("pool", chosen.node_gpus, Price.parse(str(chosen.node_gpus)))
    terms = ApplicationWidths(chosen.applications)
    scenario = Scenario(
        pollux.START, submissions(chosen, jobs, seed), chosen.applications, (pool,), budget, terms, RESTART_SECONDS
    )
    classes = {class_of(application.name): application for application in chosen.applications.values()}
    knowledge: Knowledge = ExactKnowledge(exact_profiles(classes, RESTART_SECONDS))
    if learned:
        noise = random.Random(f"{name}/{seed}/{rate}")
        reporting = ReportModel(lambda: noise.gauss(0.0, 1.0))
        models = {class_id: model_of(each.name) for class_id, each in classes.items()} if described else {}
        nodes = {GPU_TYPE: chosen.node_gpus}
        knowledge = LearnedKnowledge(classes, nodes, RESTART_SECONDS, budget.id, reporting, models=models)
    memo = Memo()
    return Simulation(scenario, lambda snapshot: plan(snapshot, memo), knowledge).run()


@dataclass(frozen=True, slots=True)
class Loss:
    """What a pair of simulations lost by learning, as fractions of the mean time; ``restarts`` of a job, both."""

    rented: float
    held: float
    restarts: tuple[float, float]


def loss(name: str, jobs: int, seed: int, rate: float, described: bool = False) -> Loss:
    """The loss at one exchange rate."""
    exact, learned = (simulate(name, jobs, seed, rate, known, described) for known in (False, True))
    life = rate * jobs * exact.mean_completion_seconds / 3600.0
    longer = rate * jobs * (learned.mean_completion_seconds - exact.mean_completion_seconds) / 3600.0
    held = sum(job.gpu_seconds for job in learned.jobs) - sum(job.gpu_seconds for job in exact.jobs)
    return Loss(
        (longer + learned.total_gpu_hours - exact.total_gpu_hours) / life,
        (longer + held / 3600.0) / life,
        (exact.restarts / jobs, learned.restarts / jobs),
    )


def main() -> None:
    """Print a line for each setting, and the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="*", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--jobs", type=int, default=80)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rates", type=float, nargs="*", default=[4.0, 16.0], help="exchange rates")
    parser.add_argument("--models", action="store_true", help="owners declare FLOPs, parameters and families")
    arguments = parser.parse_args()
    pollux.need_data()
    found: list[Loss] = []
    with ProcessPoolExecutor() as pool:
        runs = {
            name: [
                pool.submit(loss, name, arguments.jobs, seed, rate, arguments.models)
                for seed in arguments.seeds
                for rate in arguments.rates
            ]
            for name in arguments.settings
        }
        for name, of_setting in runs.items():
            losses = [run.result() for run in of_setting]
            found += losses
            print(f"{name:8} {summary(losses)}   rented, each: {' '.join(f'{100 * one.rented:.1f}' for one in losses)}")
    print(f"{'mean':8} {summary(found)}")


def summary(losses: Sequence[Loss]) -> str:
    """The means of some losses, in percent."""
    rented, held = (100.0 * fmean(values) for values in zip(*((one.rented, one.held) for one in losses), strict=True))
    exact, learned = (fmean(values) for values in zip(*(one.restarts for one in losses), strict=True))
    return f"{rented:5.1f} % rented {held:5.1f} % held   restarts a job {exact:.2f} exact, {learned:.2f} learned"


if __name__ == "__main__":
    main()
