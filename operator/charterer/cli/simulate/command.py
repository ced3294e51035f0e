"""``charterer simulate``: a workload, or the cluster's own job history, under policies side by side."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click

from charterer.cli.shared.cluster import ClusterOptions, cluster_options, read, read_others
from charterer.cli.shared.cluster_history import ClusterHistory, JobFilter, cluster_history
from charterer.cli.shared.formatting import when
from charterer.cli.shared.output import emit, write
from charterer.cli.shared.processes import Interrupted, side_by_side
from charterer.cli.simulate.options import (
    NodeOptions,
    OutputOptions,
    PolicyOptions,
    SourceOptions,
    node_options,
    output_options,
    policy_options,
    source_options,
)
from charterer.cli.simulate.simulation_input import (
    SimulationInput,
    from_file,
    monthly_budget,
    of_history,
    on_sale,
    with_pairs,
)
from charterer.controller.snapshot.offline import snapshot_of
from charterer.controller.snapshot.payers import payers_of
from charterer.domain.money import Money
from charterer.domain.time import after
from charterer.report import html, simulation
from charterer.report.pictures import CannotDraw, file_format
from charterer.report.simulation import Simulated
from charterer.simulate.history.history import History
from charterer.simulate.history.trace import write_history
from charterer.simulate.model.workload import BadRow
from charterer.simulate.policy_registry import CannotLearn, PolicyChoice, UnknownPolicy


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
    """All simulations, in parallel processes; one result for each policy. Of an interrupt, what there is."""
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
    """Print the results, and write the files that were asked for."""
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
    """The cluster's history, and the dollars a month of the budgets that pay for its jobs."""
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
    """The jobs that can be simulated. ClickException where there are none."""
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
    """The notes on what was left out or simplified, with counts."""
    return (f"{count} x {gap}." for count, gap in past.gaps)
