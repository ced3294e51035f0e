"""The input of ``charterer simulate``: a history, or a workload file with its speeds."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path

from charterer.cli.shared.files.input_file import read_text
from charterer.cli.shared.processes import Tell
from charterer.domain.budget import Budget
from charterer.domain.money import Money, total
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Phase, SpeedCurve, ThroughputTable
from charterer.domain.time import parse_instant
from charterer.report.simulation import span
from charterer.sentences import count
from charterer.simulate.history.history import History, PastJob
from charterer.simulate.history.savings import rates_around
from charterer.simulate.history.trace import is_trace, read_history
from charterer.simulate.model.ground_truth import application_from_speeds, joined
from charterer.simulate.model.node_market import PoolModel
from charterer.simulate.model.pair_table import PairTable
from charterer.simulate.model.pairs_file import read_pairs
from charterer.simulate.model.pools_file import read_pools
from charterer.simulate.model.scenario import Scenario, new_budget
from charterer.simulate.model.workload import BadRow, Speeds, Submission, read_speeds, read_workload, since_first
from charterer.simulate.policy_registry import ApplicationWidths, PolicyChoice
from charterer.simulate.policy_registry import simulate_scenario as run_one
from charterer.simulate.replay import ReplayResult, replay

_RATES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_START = parse_instant("2026-01-01T00:00:00Z")
_LEFT_OUT = "Left out: storage, egress, CPU nodes"


@dataclass(frozen=True, slots=True)
class SimulationInput:
    """The input of the simulations. ``parts(choice)``: one simulation for each pool.

    ``rates``: the default exchange rates. ``budget``: dollars a month, drawn beside the spend.
    ``gaps``: the notes about what is not modelled or looks wrong, which go to stderr where the output is for programs.
    ``classes``: the applications of its jobs; ``gpu_types``: of its pools.
    """

    title: str
    notes: tuple[str, ...]
    parts: Callable[[PolicyChoice], Sequence[Callable[[Tell], ReplayResult]]]
    rates: tuple[float, ...]
    classes: frozenset[str]
    gpu_types: tuple[str, ...]
    budget: Money | None = None
    gaps: tuple[str, ...] = ()


def of_history(title: str, history: History, gaps: tuple[str, ...], budget: Money | None) -> SimulationInput:
    """A history, with notes on its pools and on what is not modelled."""
    jobs = history.jobs
    pools = ", ".join(
        f"{past.pool.name} ({past.pool.gpus_per_node} GPUs a node at {past.pool.hourly}, ready after "
        f"{past.pool.start_seconds:g} s; {past.restart_seconds:.3g} s a restart)"
        for past in history.pools
    )
    curves = f"{history.jobs_with_curve} of {len(jobs)} jobs have a curve, which is assumed to be true."
    notes = (f"{curves} Pools: {pools}. {_LEFT_OUT}.", *gaps)
    took = [job.took for job in jobs if job.took is not None]
    if took:
        measured = f"Actually measured: {span(sum(took) / len(took))} on average ({len(took)} jobs)."
        notes = (measured, *notes)

    def parts(choice: PolicyChoice) -> Sequence[Callable[[Tell], ReplayResult]]:
        return [partial(replay, part, choice) for part in history.parts]

    classes = frozenset(job.kind for job in jobs if job.kind)
    gpu_types = tuple(past.pool.gpu_type for past in history.pools)
    title, rates = f"{title}: {len(jobs)} jobs", rates_around(history, 2.0)
    return SimulationInput(title, notes, parts, rates, classes, gpu_types, budget, gaps)


def monthly_budget(jobs: Iterable[PastJob], payers: Mapping[str, Budget]) -> Money:
    """Dollars a month of the budgets that pay for these jobs of a cluster; ``payers``: the budget of each namespace."""
    namespaces = {job.name.partition("/")[0] for job in jobs}
    paying = {budget.id: budget.amount for name, budget in payers.items() if name in namespaces}
    return total(paying.values())


@dataclass(frozen=True, slots=True)
class OnSale:
    """The pools of jobs whose rows do not describe them, at least one, and the restart in those that say nothing.

    ``from_file``: whether a file names the pools, otherwise the options describe the only one.
    """

    pools: tuple[PoolModel, ...]
    restart_seconds: float
    from_file: bool


def on_sale(file: Path | None, default: PoolModel, restart_seconds: float, seed: int) -> OnSale:
    """The pools of a file, or the default one. BadRow."""
    if file is None:
        return OnSale((default,), restart_seconds, False)

    def beside(name: str) -> io.StringIO:
        if not (file.parent / name).is_file():
            raise BadRow(f"{file.name}: lifetimes {name!r} is no file in the folder of {file.name}: correct the name")
        return _lines(file.parent / name)

    with _csv_errors(file):
        return OnSale(read_pools(_lines(file), file.name, default, seed, beside), restart_seconds, True)


def from_file(workload: Path, speeds: Path | None, sale: OnSale, budget: Money | None) -> SimulationInput:
    """A workload file of either kind. BadRow where it cannot be used."""
    with _csv_errors(workload):
        return _from_lines(_lines(workload), workload, speeds, sale, budget)


@contextmanager
def _csv_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except csv.Error as error:
        raise BadRow(f"{file.name}: is no CSV file: {error}") from None


def _lines(file: Path) -> io.StringIO:
    """The file's text. ClickException."""
    return io.StringIO(read_text(file), newline="")


def _from_lines(
    lines: io.StringIO,
    workload: Path,
    speeds: Path | None,
    sale: OnSale,
    budget: Money | None,
) -> SimulationInput:
    trace = is_trace(lines.readline().rstrip("\r\n"))
    lines.seek(0)
    gpu_types = [""] if trace and not sale.from_file else [pool.gpu_type for pool in sale.pools]
    known = None if speeds is None else read_speeds(_lines(speeds), speeds.name, gpu_types)
    if trace:
        curves, warnings = ({}, ()) if known is None else (_curves(known), known.warnings)
        history = read_history(lines, workload.name, sale.pools, sale.restart_seconds, curves, on_sale=sale.from_file)
        return of_history(workload.name, history, (*history.gaps, *warnings), budget)
    if speeds is None or known is None:
        raise BadRow(
            f"{workload.name}: has no column duration, so nothing tells how long its jobs take: add that column, or "
            "give --speeds"
        )
    submissions = read_workload(lines, workload.name, known.seconds)
    scenario = _scenario(submissions, known, speeds.name, sale)
    late = f" Time begins with the first submission, at {submissions[0].at:,.0f} s of the file." * bool(
        submissions[0].at
    )
    notes = (f"{_nodes_on_sale(sale)} {_LEFT_OUT}.{late}", *known.warnings)
    title = f"{workload.name}: {len(scenario.submissions)} jobs"
    return SimulationInput(
        title,
        notes,
        lambda choice: [partial(_simulate, scenario, choice)],
        _RATES,
        frozenset(submission.application for submission in submissions),
        tuple(gpu_types),
        budget,
        known.warnings,
    )


def with_pairs(subject: SimulationInput, file: Path) -> tuple[SimulationInput, PairTable]:
    """The pairs of a file, and the input with a note on how many of its pairs the file knows. BadRow."""
    with _csv_errors(file):
        table = read_pairs(_lines(file), file.name, subject.gpu_types)
    known = {tuple(sorted((own.class_name, other.class_name))) for _, _, own, other in table.pairs}
    wanted = set(combinations_with_replacement(sorted(subject.classes), 2))
    names = ", ".join(sorted(subject.classes)) or "none"
    if not known & wanted:
        raise BadRow(f"{file.name}: has no pair of the workload's applications ({names}): use their names")
    of_all = f"{len(known & wanted)} of {count(len(wanted), 'pair')}"
    note = f"{file.name} knows {of_all} of the workload's applications; others never share."
    return replace(subject, notes=(*subject.notes, note)), table


def _simulate(scenario: Scenario, choice: PolicyChoice, tell: Tell) -> ReplayResult:
    return ReplayResult(scenario.pools, run_one(scenario, choice, tell))


def _nodes_on_sale(sale: OnSale) -> str:
    if len(sale.pools) > 1:
        return "Pools: " + "; ".join(_described(pool, sale.restart_seconds) for pool in sale.pools) + "."
    (pool,) = sale.pools
    restart = sale.restart_seconds if pool.restart_seconds is None else pool.restart_seconds
    return (
        f"{pool.gpus_per_node} GPUs a node at {pool.hourly}, ready after {pool.start_seconds:g} s; a restart takes "
        f"{restart:g} s."
    )


def _described(pool: PoolModel, restart_seconds: float) -> str:
    restart = restart_seconds if pool.restart_seconds is None else pool.restart_seconds
    spot = " spot" if pool.capacity_type is CapacityType.SPOT else ""
    return (
        f"{pool.name} ({pool.gpus_per_node} x {pool.gpu_type}{spot} at {pool.hourly}, ready after "
        f"{pool.start_seconds:g} s, {restart:g} s a restart)"
    )


def _curves(speeds: Speeds) -> dict[str, tuple[Phase, ...]]:
    return {
        name: (Phase(1.0, tuple(SpeedCurve(gpu_type, _table(seconds)) for gpu_type, seconds in by_type.items())),)
        for name, by_type in speeds.seconds.items()
    }


def _table(seconds: Mapping[int, float]) -> ThroughputTable:
    return ThroughputTable(tuple((gpus, 1.0 / time) for gpus, time in sorted(seconds.items())))


def _scenario(submissions: Sequence[Submission], speeds: Speeds, file: str, sale: OnSale) -> Scenario:
    sizes = sorted({pool.gpus_per_node for pool in sale.pools})
    applications = {}
    for name, by_type in speeds.seconds.items():
        widest = max(gpus for seconds in by_type.values() for gpus in seconds)
        widths = {gpus for size in sizes for gpus in _placeable(size, widest)}
        applications[name] = joined(
            [application_from_speeds(name, seconds, widths, gpu_type) for gpu_type, seconds in by_type.items()]
        )
        without = [gpu_type for gpu_type, epochs in applications[name].rates.items() if not epochs[0]]
        if without:
            of_type = f" of type {without[0]}" if len(by_type) > 1 else ""
            raise BadRow(
                f"{file}: application {name!r} has no width that fits nodes of {' or '.join(map(str, sizes))} GPUs"
                f"{of_type}: give 1, 2, 4, ... or whole nodes"
            )
    return Scenario(
        _START,
        since_first(submissions),
        applications,
        sale.pools,
        new_budget(_START),
        ApplicationWidths(applications),
        sale.restart_seconds,
    )


def _placeable(size: int, widest: int) -> Iterator[int]:
    """The widths that nodes of ``size`` GPUs can place: powers of two below one, and whole nodes."""
    yield from (1 << power for power in range(size.bit_length()) if 1 << power < size)
    yield from range(size, widest + 1, size)
