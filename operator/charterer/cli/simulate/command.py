"""``charterer simulate``: a workload, or the cluster's own job history, under policies side by side."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import click

from charterer.cli.shared.cluster import cluster_options, read, read_others
from charterer.cli.shared.cluster_history import ClusterHistory, JobFilter, cluster_history
from charterer.cli.shared.formatting import when
from charterer.cli.shared.output import FORMATS, emit, write
from charterer.cli.shared.processes import side_by_side
from charterer.cli.simulate.simulation_input import SimulationInput, from_file, of_history
from charterer.controller.snapshot.offline import snapshot_of
from charterer.controller.snapshot.payers import payers_of
from charterer.domain.money import Money, Price
from charterer.domain.time import after
from charterer.report import html, simulation
from charterer.report.pictures import CannotDraw, file_format
from charterer.report.simulation import Simulated
from charterer.simulate.history.history import History
from charterer.simulate.history.trace import write_history
from charterer.simulate.model.node_market import PoolModel
from charterer.simulate.model.workload import BadRow
from charterer.simulate.policy_registry import PolicyChoice, UnknownPolicy, check_policy

_SPAN = re.compile(r"(\d+(?:\.\d+)?)([mhdw])")
_SECONDS = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


@click.command(context_settings={"show_default": True})
@click.argument("workload", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--from-cluster", is_flag=True, help="Simulate what the cluster holds of its own past.")
@click.option("--last", metavar="7d", help="Of the cluster: only jobs submitted in the last 90m, 12h, 7d, 2w.")
@click.option("-n", "--namespace", help="Of the cluster: only this namespace's jobs.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Of the cluster: write the history as a workload file and stop.",
)
@click.option(
    "--speeds",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CSV with columns application, gpus, seconds: how long a job of each application takes by its GPUs.",
)
@click.option(
    "--policy", "policies", multiple=True, default=("charterer", "as-asked"), help="May be repeated; see above."
)
@click.option(
    "--pays",
    "rates",
    multiple=True,
    type=click.FloatRange(min=0),
    help="Dollars per job-hour, may be repeated; default: around what the jobs cost an hour.",
)
@click.option(
    "--learn", is_flag=True, help="Charterer does not know the curves: it learns them from what the jobs report."
)
@click.option("--gpus-per-node", default=8, type=click.IntRange(1, 64), help="GPUs of a node, where no row says.")
@click.option("--node-price", default="16", help="Dollars an hour of a node, where no row says.")
@click.option(
    "--start-seconds", default=120.0, type=click.FloatRange(min=0), help="From asking for a node to its readiness."
)
@click.option(
    "--restart-seconds", default=30.0, type=click.FloatRange(min=0), help="From a run's begin to its first step."
)
@click.option("--max-nodes", default=1000, type=click.IntRange(1), help="Nodes that may be rented at once.")
@click.option("--budget", help="Dollars a month: drawn beside the spend. Default: none; of a cluster: its budgets.")
@click.option("--processes", type=click.IntRange(1), help="Simulations at the same time; default: one a core.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Format on stdout.")
@click.option(
    "--picture", type=click.Path(dir_okay=False, path_type=Path), help="Write diagrams to FILE.svg or FILE.png."
)
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write one self-contained page.")
@cluster_options
def simulate(
    workload: Path | None,
    from_cluster: bool,
    last: str | None,
    namespace: str | None,
    save: Path | None,
    speeds: Path | None,
    policies: Sequence[str],
    rates: Sequence[float],
    learn: bool,
    gpus_per_node: int,
    node_price: str,
    start_seconds: float,
    restart_seconds: float,
    max_nodes: int,
    budget: str | None,
    processes: int | None,
    output: str,
    picture: Path | None,
    page: Path | None,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Simulate a WORKLOAD file, or the cluster's own job history, under policies side by side.

    \b
      charterer simulate --from-cluster --last 7d --html report.html
      charterer simulate --from-cluster --save history.csv && charterer simulate history.csv
      charterer simulate trace.csv --node-price 12 --policy charterer --policy fixed:16:fair
      charterer simulate jobs.csv --speeds speeds.csv --policy charterer --pays 2 --pays 10
      charterer simulate jobs.csv --speeds speeds.csv --policy charterer --learn
      charterer simulate jobs.csv --speeds speeds.csv -o json | jq '.[].meanCompletionSeconds'

    \b
    A WORKLOAD is a CSV file; the names in its first line say what it is:
      submitted, gpus, duration           jobs as they ran: what --save writes, and published traces. More columns say
                                          more: class, curve, max_gpus, pool, node_price, ... (docs/simulator.md)
      name, time, application,            jobs whose time only --speeds tells
        num_replicas

    \b
    Policies:
      charterer                              the operator's planner, once for each --pays
      as-asked                            each job at the width asked for, on nodes of a cluster autoscaler
      fixed:NODES[:fifo|shortest|fair]    a fleet of so many nodes (of each pool) and a gang queue
      utilisation[:LOW-HIGH]              a fleet that grows and shrinks with its use, in percent (50-80)

    The planner is the one that runs in the cluster. It knows the true curves, or with --learn nothing of any class
    until its first job reports. Jobs of less than a node are one pod of 1, 2, 4, ... GPUs, wider ones whole nodes. A
    job of which no curve is known at all runs only at the width that its owner asked for.
    """
    _check_source(workload, from_cluster, save, last, namespace)
    try:
        amount = None if budget is None else Money.parse(budget)
        if picture is not None:
            file_format(picture)
        for policy in policies:
            check_policy(policy)
        usual = PoolModel(
            "pool", gpus_per_node, Price.parse(node_price), start_seconds=start_seconds, max_nodes=max_nodes
        )
        if workload is not None:
            subject = from_file(workload, speeds, usual, restart_seconds, amount)
        else:
            past, monthly = _past(kubeconfig, context, last, namespace)
            history = _modelled(past)
            if save is not None:
                return _save(history, past, save)
            subject = of_history(
                f"The cluster's jobs from {when(past.began)} to {when(past.ended)}",
                history,
                tuple(_sentences(past)),
                amount or monthly,
            )
    except (BadRow, UnknownPolicy, CannotDraw, ValueError) as error:
        raise click.ClickException(str(error)) from None
    choices = [one for policy in policies for one in _choices(policy, rates or subject.rates, learn)]
    _show(subject, choices, processes, output, picture, page)


def _choices(policy: str, rates: Sequence[float], learn: bool) -> list[PolicyChoice]:
    """The policy, and Charterer once for each rate; what it learns from scatters alike each time."""
    if policy != "charterer":
        return [PolicyChoice(policy)]
    return [PolicyChoice(policy, rate, random.Random(0).gauss if learn else None) for rate in sorted(set(rates))]


def _show(
    subject: SimulationInput,
    choices: Sequence[PolicyChoice],
    processes: int | None,
    output: str,
    picture: Path | None,
    page: Path | None,
) -> None:
    tasks = [list(subject.parts(choice)) for choice in choices]
    results = iter(side_by_side(list(chain.from_iterable(tasks)), processes))
    found = [Simulated(choice, tuple(next(results) for _ in of)) for choice, of in zip(choices, tasks, strict=True)]
    try:
        drawing = simulation.draw(found, "svg", subject.budget).decode() if page is not None else ""
        emit(simulation.document(subject.title, subject.notes, found), simulation.plain(found), output)
        if output != "table":
            for note in subject.gaps:
                click.echo(note, err=True)
        if picture is not None:
            write(picture, simulation.draw(found, file_format(picture), subject.budget))
        if page is not None:
            document = simulation.document(subject.title, subject.notes, found, drawing)
            write(page, html.page(document, "made by charterer simulate").encode())
    except CannotDraw as error:
        raise click.ClickException(str(error)) from None


def _check_source(
    workload: Path | None, from_cluster: bool, save: Path | None, last: str | None, namespace: str | None
) -> None:
    if from_cluster == (workload is not None):
        raise click.ClickException("name one thing to simulate: a workload file, or --from-cluster")
    of_cluster = [name for name, value in (("--save", save), ("--last", last), ("--namespace", namespace)) if value]
    if of_cluster and not from_cluster:
        raise click.ClickException(f"{of_cluster[0]} is about the cluster's history: add --from-cluster")


# --- the cluster ------------------------------------------------------------------------------------------------------


def _past(
    kubeconfig: Path | None, context: str | None, last: str | None, namespace: str | None
) -> tuple[ClusterHistory, Money]:
    """The cluster's past, and what its budgets allow a month."""
    seconds = None if last is None else _seconds(last)
    sighting = read(kubeconfig, context)
    if namespace is not None and not any(key.name == namespace for key in sighting.seen.namespaces):
        raise click.ClickException(f"no namespace {namespace!r} in this cluster: correct --namespace, or leave it out")
    others = read_others(kubeconfig, context)
    choosing = JobFilter(None if seconds is None else after(sighting.now, -seconds), namespace)
    payers = payers_of(sighting.seen.budgets, sighting.seen.namespaces)
    past = cluster_history(snapshot_of(sighting.seen, sighting.now), others, payers, choosing)
    paying = {one.id: one for name, one in payers.items() if namespace in (None, name)}
    return past, Money(sum(one.amount.micros for one in paying.values()))


def _seconds(text: str) -> float:
    match = _SPAN.fullmatch(text)
    if match is None or not float(match[1]):
        raise click.ClickException(f"--last {text!r} is no span of time: write it like 90m, 12h, 7d or 2w")
    return float(match[1]) * _SECONDS[match[2]]


def _modelled(past: ClusterHistory) -> History:
    if past.history is None:
        why = "".join(f" {told}" for told in _sentences(past))
        raise click.ClickException(
            "the cluster holds no job of the past that can be simulated (complete TrainingJobs or batch/v1 Jobs with "
            f"GPUs): try a longer --last, keep jobs longer (ttlSecondsAfterFinished), or give a file.{why}"
        )
    return past.history


def _save(history: History, past: ClusterHistory, file: Path) -> None:
    text = io.StringIO()
    write_history(history, text)
    write(file, text.getvalue().encode())
    for told in _sentences(past):
        click.echo(told, err=True)


def _sentences(past: ClusterHistory) -> Iterable[str]:
    """What was not modelled, or not as it was."""
    return (f"{count} x {told}." for count, told in past.gaps)
