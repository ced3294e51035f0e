"""``charterer simulate`` runs a workload, or the cluster's job history, under several policies."""

from __future__ import annotations

import csv
import io
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain, combinations_with_replacement
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from charterer.controller.snapshot.offline import snapshot_of
from charterer.controller.snapshot.payers import payers_of
from charterer.domain.budget import Budget
from charterer.domain.money import Money, Price, total
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Phase, SpeedCurve, ThroughputTable
from charterer.domain.time import Calendar, after, parse_instant
from charterer.sentences import count
from charterer.tools.commands.shared.cluster import ClusterOptions, cluster_options, read, read_others
from charterer.tools.commands.shared.cluster_history import ClusterHistory, JobFilter, cluster_history
from charterer.tools.commands.shared.completion import namespace_names
from charterer.tools.commands.shared.files import read_text
from charterer.tools.commands.shared.options import option_group
from charterer.tools.commands.shared.output import FORMATS, emit, when, write
from charterer.tools.commands.shared.processes import Interrupted, Tell, side_by_side
from charterer.tools.documents import html, simulation
from charterer.tools.documents.pictures import CannotDraw, file_format
from charterer.tools.documents.simulation import Simulated, span
from charterer.tools.simulator.history.history import History, PastJob
from charterer.tools.simulator.history.savings import rates_around
from charterer.tools.simulator.history.trace import is_trace, read_history, write_history
from charterer.tools.simulator.model.ground_truth import application_from_speeds, joined
from charterer.tools.simulator.model.node_market import DEAREST, MOST_NODES, PoolModel
from charterer.tools.simulator.model.pairs import PairTable, read_pairs
from charterer.tools.simulator.model.pools_file import read_pools
from charterer.tools.simulator.model.scenario import Scenario, new_budget
from charterer.tools.simulator.model.workload import BadRow, Speeds, Submission, read_speeds, read_workload, since_first
from charterer.tools.simulator.policy_registry import (
    SHARING,
    ApplicationWidths,
    CannotLearn,
    PolicyChoice,
    UnknownPolicy,
    check_policy,
    shares_gpus,
)
from charterer.tools.simulator.policy_registry import simulate_scenario as run_one
from charterer.tools.simulator.replay import ReplayResult, replay

# Groups of options: source, nodes, policies and output.


_SPAN = re.compile(r"(\d+(?:\.\d+)?)([mhdw])")
_LONGEST_SECONDS = 604_800.0
"""Longest node start or run restart that is accepted: a week."""
_HIGHEST_RATE = 1_000_000.0
_UNIT_SECONDS = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


class FiniteRange(click.FloatRange):
    """A range of numbers that excludes nan."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises click.BadParameter if it is not in the range."""
        number: float = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of the source: a workload file with its speeds, or the cluster's history."""

    from_cluster: bool
    last: str | None
    namespace: str | None
    save: Path | None
    speeds: Path | None

    def check(self, workload: Path | None) -> None:
        """Raise ClickException unless exactly one source is named and all options apply to it."""
        if self.from_cluster == (workload is not None):
            raise click.ClickException("name one thing to simulate: a workload file, or --from-cluster")
        options = {"--save": self.save, "--last": self.last, "--namespace": self.namespace}
        of_cluster = [name for name, value in options.items() if value]
        if of_cluster and not self.from_cluster:
            raise click.ClickException(f"{of_cluster[0]} is about the cluster's history: add --from-cluster")
        of_file = ["--speeds"] * (self.speeds is not None) + _given_node_options()
        if of_file and self.from_cluster:
            raise click.ClickException(
                f"{of_file[0]} is about a workload file, and the cluster has its own pools and profiles: leave it out, "
                "or --save the history and simulate that file"
            )

    @property
    def last_seconds(self) -> float | None:
        """``--last`` in seconds. Raises ClickException if it is no span of time."""
        if self.last is None:
            return None
        match = _SPAN.fullmatch(self.last)
        if match is None or not float(match[1]):
            raise click.ClickException(f"--last {self.last!r} is no span of time: write it like 90m, 12h, 7d or 2w")
        return float(match[1]) * _UNIT_SECONDS[match[2]]


source_options = option_group(
    "source",
    SourceOptions,
    click.option("--from-cluster", is_flag=True, help="Simulate the jobs that the cluster still has on record."),
    click.option("--last", metavar="7d", help="With --from-cluster: only jobs submitted in the last 90m, 12h, 7d, 2w."),
    click.option(
        "-n", "--namespace", shell_complete=namespace_names, help="With --from-cluster: only this namespace's jobs."
    ),
    click.option(
        "--save",
        type=click.Path(dir_okay=False, path_type=Path),
        help="With --from-cluster: write the history as a workload file, and stop.",
    ),
    click.option(
        "--speeds",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="CSV with columns application, gpus, seconds: the time that a job of each application takes by its GPUs.",
    ),
)


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Nodes for jobs whose rows do not describe any. ``node_price`` is dollars per hour.

    ``pools`` is a file of pools. ``seed`` is the seed of random node lifetimes.
    """

    pools: Path | None
    gpus_per_node: int
    node_price: str
    start_seconds: float
    restart_seconds: float
    max_nodes: int
    seed: int

    def pool(self) -> PoolModel:
        """Return the pool of these nodes. Raises ValueError if the price is invalid."""
        problem = f"--node-price {self.node_price} is no price of a node: give from $0 to {DEAREST}"
        try:
            price = Price.parse(self.node_price)
        except ValueError as error:
            raise ValueError(f"{problem} ({error})") from error
        if not Price(0) <= price <= DEAREST:
            raise ValueError(problem)
        return PoolModel("pool", self.gpus_per_node, price, start_seconds=self.start_seconds, max_nodes=self.max_nodes)


def _given_node_options() -> list[str]:
    """Return the node options that the user gave on the command line."""
    context = click.get_current_context()
    return [
        f"--{field.name.replace('_', '-')}"
        for field in fields(NodeOptions)
        if context.get_parameter_source(field.name) is ParameterSource.COMMANDLINE
    ]


node_options = option_group(
    "nodes",
    NodeOptions,
    click.option(
        "--pools",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="CSV of the pools on sale, where there are several: see docs/simulator.md.",
    ),
    click.option("--gpus-per-node", default=8, type=click.IntRange(1, 64), help="GPUs of a node, where no row says."),
    click.option("--node-price", default="16", help="Dollars an hour for a node, where no row says."),
    click.option(
        "--start-seconds",
        default=120.0,
        type=FiniteRange(0, _LONGEST_SECONDS),
        help="From asking for a node to its readiness.",
    ),
    click.option(
        "--restart-seconds",
        default=30.0,
        type=FiniteRange(0, _LONGEST_SECONDS),
        help="From the start of a run to its first step.",
    ),
    click.option(
        "--max-nodes",
        default=1000,
        type=click.IntRange(1, MOST_NODES),
        help="The most nodes that any policy may rent at once, where no row says.",
    ),
    click.option(
        "--seed",
        default=0,
        type=click.IntRange(0, 2**31),
        help="Another seed draws other lifetimes of spot nodes.",
    ),
)


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """Policies to compare. ``rates`` are dollars per job-hour saved, for the operator's planner.

    ``pairs`` is a file. It has the fraction of its speed that a job keeps beside another job on a shared GPU.
    """

    policies: Sequence[str]
    rates: Sequence[float]
    learn: bool
    pairs: Path | None

    def check(self) -> None:
        """Raise UnknownPolicy for an unknown policy, ClickException if --pairs is missing or no policy uses it."""
        for policy in self.policies:
            check_policy(policy)
        sharing = [policy for policy in self.policies if shares_gpus(policy)]
        if sharing and self.pairs is None:
            raise click.ClickException(
                f"{sharing[0]} lets jobs share GPUs, and nothing says how fast they are then: add --pairs"
            )
        if self.pairs is not None and not sharing:
            raise click.ClickException(
                f"--pairs is for policies under which jobs share GPUs: add one ({' or '.join(SHARING)}), like "
                "--policy fixed:16:sjf-bsbf, or leave it out"
            )

    def choices(self, default_rates: Sequence[float], pairs: PairTable | None) -> list[PolicyChoice]:
        """Return each policy. ``charterer`` is returned once for each rate.

        With ``learn``, all rates use the same random noise in reports. ``pairs`` is for policies under which jobs share
        GPUs.
        """
        choices = []
        for policy in self.policies:
            if policy != "charterer":
                choices.append(PolicyChoice(policy, pairs=pairs if shares_gpus(policy) else None))
                continue
            for rate in sorted(set(self.rates or default_rates)):
                choices.append(PolicyChoice(policy, rate, random.Random(0).gauss if self.learn else None))
        return choices


policy_options = option_group(
    "policy",
    PolicyOptions,
    click.option(
        "--policy",
        "policies",
        multiple=True,
        default=("charterer", "as-asked", "as-asked:0"),
        help="May be repeated; see above.",
    ),
    click.option(
        "--pays",
        "rates",
        multiple=True,
        type=FiniteRange(0, _HIGHEST_RATE),
        help="Dollars per job-hour saved, may be repeated. Default: rates around the cost of a job-hour.",
    ),
    click.option(
        "--pairs",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="CSV with columns application, beside, kept: the part of its speed that a job keeps on a GPU beside one "
        "of the other application; for sjf-ffs and sjf-bsbf.",
    ),
    click.option(
        "--learn", is_flag=True, help="Charterer does not know the curves: it learns them from the jobs' reports."
    ),
)


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Output options. ``budget`` is dollars per month. ``processes`` None means one per core."""

    budget: str | None
    processes: int | None
    output: str
    picture: Path | None
    page: Path | None

    def amount(self) -> Money | None:
        """Parse the budget. Raises ValueError."""
        if self.budget is None:
            return None
        problem = f"--budget {self.budget} is no budget: give dollars a month from 0 on"
        try:
            amount = Money.given(self.budget)
        except ValueError as error:
            raise ValueError(problem) from error
        if amount.micros < 0:
            raise ValueError(problem)
        return amount

    def check(self) -> None:
        """Raise CannotDraw if a picture has an unknown format."""
        if self.picture is not None:
            file_format(self.picture)


output_options = option_group(
    "show",
    OutputOptions,
    click.option("--budget", help="Dollars a month, drawn beside the spend. Default: none; of a cluster: its budgets."),
    click.option("--processes", type=click.IntRange(1), help="Simulations at the same time. Default: one per core."),
    click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Format on stdout."),
    click.option(
        "--picture", type=click.Path(dir_okay=False, path_type=Path), help="Write diagrams to FILE.svg or FILE.png."
    ),
    click.option(
        "--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write a single self-contained page."
    ),
)


# The input: a history, or a workload file with its speeds.


_RATES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_START = parse_instant("2026-01-01T00:00:00Z")
_LEFT_OUT = "Left out: storage, egress, CPU nodes"


@dataclass(frozen=True, slots=True)
class SimulationInput:
    """The input of the simulations. ``parts(choice)`` returns one simulation for each group of pools.

    ``rates``: default exchange rates. ``budget``: dollars per month, drawn beside the spending. ``gaps``: notes on what
    is not modelled or looks wrong. If the output is JSON or YAML, the notes go to stderr. ``classes``: the jobs'
    applications. ``gpu_types``: the pools' GPU types.
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
    """Make an input from a history, with notes on its pools and on what is not modelled."""
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
    """Sum the monthly dollars of the budgets that pay for these cluster jobs. ``payers`` maps namespaces to budgets."""
    namespaces = {job.name.partition("/")[0] for job in jobs}
    month = Calendar("UTC").usual_seconds
    paying = {
        budget.id: Money(round(budget.amount.micros * month / budget.calendar.usual_seconds))
        for name, budget in payers.items()
        if name in namespaces
    }
    return total(paying.values())


@dataclass(frozen=True, slots=True)
class OnSale:
    """The pools on sale (at least one) for jobs whose rows do not describe nodes. Also the restart time of pools that
    have none of their own.

    ``from_file`` says that a file names the pools. Otherwise the options describe the only pool.
    """

    pools: tuple[PoolModel, ...]
    restart_seconds: float
    from_file: bool


def on_sale(file: Path | None, default: PoolModel, restart_seconds: float, seed: int) -> OnSale:
    """Read the pools of a file, or return the default pool if there is none. Raises BadRow."""
    if file is None:
        return OnSale((default,), restart_seconds, False)

    def beside(name: str) -> io.StringIO:
        if not (file.parent / name).is_file():
            raise BadRow(f"{file.name}: lifetimes {name!r} is no file in the folder of {file.name}: correct the name")
        return _lines(file.parent / name)

    with _csv_errors(file):
        return OnSale(read_pools(_lines(file), file.name, default, seed, beside), restart_seconds, True)


def from_file(workload: Path, speeds: Path | None, sale: OnSale, budget: Money | None) -> SimulationInput:
    """Read a workload file of either kind. Raises BadRow if it cannot be used."""
    with _csv_errors(workload):
        return _from_lines(_lines(workload), workload, speeds, sale, budget)


@contextmanager
def _csv_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except csv.Error as error:
        raise BadRow(f"{file.name}: is no CSV file: {error}") from None


def _lines(file: Path) -> io.StringIO:
    """Return the file's text. Raises ClickException."""
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
        lambda choice: [partial(_simulate_all, scenario, choice)],
        _RATES,
        frozenset(submission.application for submission in submissions),
        tuple(gpu_types),
        budget,
        known.warnings,
    )


def with_pairs(subject: SimulationInput, file: Path) -> tuple[SimulationInput, PairTable]:
    """Read the pairs of a file, and add a note to the input. The note says how many of the workload's pairs the file
    has.

    Raises BadRow.
    """
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


def _simulate_all(scenario: Scenario, choice: PolicyChoice, tell: Tell) -> ReplayResult:
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
    """Yield the widths that nodes of ``size`` GPUs can place: powers of two below a node, and whole nodes."""
    yield from (1 << power for power in range(size.bit_length()) if 1 << power < size)
    yield from range(size, widest + 1, size)


# The command.


@click.command(context_settings={"show_default": True})
@click.argument("workload", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@source_options
@policy_options
@node_options
@output_options
@cluster_options
def simulate(
    workload: Path | None,
    source: SourceOptions,
    policy: PolicyOptions,
    nodes: NodeOptions,
    show: OutputOptions,
    cluster: ClusterOptions,
) -> None:
    """Simulate a WORKLOAD file, or the cluster's own job history, under policies side by side.

    \b
      charterer simulate --from-cluster --last 7d --html report.html
      charterer simulate --from-cluster --save history.csv && charterer simulate history.csv
      charterer simulate trace.csv --node-price 12 --policy charterer --policy fixed:16:fair
      charterer simulate jobs.csv --speeds speeds.csv --policy charterer --pays 2 --pays 10
      charterer simulate jobs.csv --speeds speeds.csv --policy charterer --learn
      charterer simulate jobs.csv --speeds speeds.csv --pools pools.csv
      charterer simulate jobs.csv --speeds speeds.csv -o json | jq '.[].meanCompletionSeconds'

    \b
    A WORKLOAD is a CSV file. The names in its first line tell its kind:
      submitted, gpus, duration           jobs as they ran: from --save, or a published trace. More columns
                                          add detail: class, curve, max_gpus, pool, node_price, ...
                                          (docs/simulator.md)
      name, time, application,            jobs whose running times come from --speeds
        num_replicas
    --pools names pools of several GPU types, on demand and spot, with their prices, lifetimes and stock; --speeds
    then has a column gpu_type.

    \b
    Policies:
      charterer                           the operator's planner, once for each --pays
      as-asked[:IDLE-SECONDS]             each job at the width asked for, on nodes of a cluster autoscaler, which
                                          ends a node after ten idle minutes (its default); as-asked:0 ends it at once
      fixed:NODES[:fifo|shortest|fair]    a fixed number of nodes (in each pool) and a gang queue
      fixed:NODES:las|srtf                the same, and running jobs are stopped, for those that have used least
                                          (least attained service), or have the shortest time left
      fixed:NODES:sjf-ffs|sjf-bsbf        shortest first, and what finds no free GPUs shares those of one other job:
                                          always (first fit), or where both end earlier so (best sharing benefit);
                                          needs --pairs
      utilisation[:LOW-HIGH]              a fleet that grows and shrinks with its use, in percent (50-80)

    The planner is the one that runs in the cluster. It knows the true curves, or, with --learn, nothing about a class
    until its first job reports. A job that needs less than a node runs as one pod of 1, 2, 4, ... GPUs; wider jobs
    get whole nodes. A job without a known curve runs only at the width that its owner asked for. --max-nodes binds
    every policy; what is wider never runs, and the table says so.
    """
    source.check(workload)
    try:
        show.check()
        policy.check()
        amount = show.amount()
        if workload is not None:
            sale = on_sale(nodes.pools, nodes.pool(), nodes.restart_seconds, nodes.seed)
            subject = from_file(workload, source.speeds, sale, amount)
        else:
            past, monthly = _cluster_history(source, cluster)
            history = _simulated_history(past)
            if source.save is not None:
                return _save(history, past, source.save)
            subject = of_history(
                f"The cluster's jobs from {when(past.began)} to {when(past.ended)}",
                history,
                tuple(_gap_sentences(past)),
                amount or monthly,
            )
        pairs = None
        if policy.pairs is not None:
            subject, pairs = with_pairs(subject, policy.pairs)
    except (BadRow, UnknownPolicy, CannotDraw, ValueError) as error:
        raise click.ClickException(str(error)) from None
    try:
        simulated = _simulate(subject, policy.choices(subject.rates, pairs), show.processes)
    except CannotLearn as error:
        raise click.ClickException(str(error)) from None
    _show(subject, simulated, show)


def _simulate(subject: SimulationInput, choices: Sequence[PolicyChoice], processes: int | None) -> list[Simulated]:
    """Run all simulations in parallel, and return one result per policy.

    After an interrupt, return complete results.
    """
    tasks = [list(subject.parts(choice)) for choice in choices]
    try:
        results: Mapping[int, Any] = dict(enumerate(side_by_side(list(chain.from_iterable(tasks)), processes)))
    except Interrupted as interrupted:
        results = interrupted.results
    numbers = iter(range(sum(map(len, tasks))))
    found = [(choice, [next(numbers) for _ in of_choice]) for choice, of_choice in zip(choices, tasks, strict=True)]
    simulated = [
        Simulated(choice, tuple(results[number] for number in mine))
        for choice, mine in found
        if all(number in results for number in mine)
    ]
    if not simulated:
        raise click.Abort
    if len(simulated) < len(choices):
        click.echo(f"Interrupted: {len(simulated)} of {len(choices)} policies are simulated, and shown.", err=True)
    return simulated


def _show(subject: SimulationInput, simulated: Sequence[Simulated], show: OutputOptions) -> None:
    """Print the results, and write the files that the user asked for."""
    try:
        drawing = simulation.draw(simulated, "svg", subject.budget).decode() if show.page is not None else ""
        emit(simulation.document(subject.title, subject.notes, simulated), simulation.plain(simulated), show.output)
        if show.output != "table":
            for gap in subject.gaps:
                click.echo(gap, err=True)
        if show.picture is not None:
            write(show.picture, simulation.draw(simulated, file_format(show.picture), subject.budget))
        if show.page is not None:
            document = simulation.document(subject.title, subject.notes, simulated, drawing)
            write(show.page, html.page(document, "made by charterer simulate").encode())
    except CannotDraw as error:
        raise click.ClickException(str(error)) from None


# --- the cluster's history --------------------------------------------------------------------------------------------


def _cluster_history(source: SourceOptions, cluster: ClusterOptions) -> tuple[ClusterHistory, Money]:
    """Return the cluster's history, and the monthly dollars of the budgets that pay for its jobs."""
    seconds, namespace = source.last_seconds, source.namespace
    reading = read(cluster)
    if namespace is not None and not any(key.name == namespace for key in reading.state.namespaces):
        raise click.ClickException(f"no namespace {namespace!r} in this cluster: correct --namespace, or leave it out")
    others = read_others(cluster)
    job_filter = JobFilter(None if seconds is None else after(reading.now, -seconds), namespace)
    payers = payers_of(reading.state.budgets, reading.state.namespaces)
    past = cluster_history(snapshot_of(reading.state, reading.now), others, payers, job_filter)
    return past, monthly_budget(() if past.history is None else past.history.jobs, payers)


def _simulated_history(past: ClusterHistory) -> History:
    """Return the jobs that can be simulated. Raises ClickException if there are none."""
    if past.history is None:
        why = "".join(f" {sentence}" for sentence in _gap_sentences(past))
        raise click.ClickException(
            "the cluster holds no job of the past that can be simulated (complete TrainingJobs or batch/v1 Jobs with "
            f"GPUs): try a longer --last, keep jobs longer (ttlSecondsAfterFinished), or give a file.{why}"
        )
    return past.history


def _save(history: History, past: ClusterHistory, file: Path) -> None:
    text = io.StringIO()
    write_history(history, text)
    write(file, text.getvalue().encode())
    for sentence in _gap_sentences(past):
        click.echo(sentence, err=True)
    if history.others:
        names = ", ".join(pool.name for pool in history.others)
        click.echo(
            f"Not in the file: GPUPools in which none of its jobs ran ({names}); --pools puts them on sale.", err=True
        )


def _gap_sentences(past: ClusterHistory) -> Iterable[str]:
    """Return the counts and notes of what was left out or simplified."""
    return (f"{count} x {gap}." for count, gap in past.gaps)
