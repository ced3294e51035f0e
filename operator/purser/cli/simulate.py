"""``purser simulate``: a workload under policies side by side, without a cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from purser.cli.output import FORMATS, emit, write
from purser.domain.money import Price
from purser.domain.time import parse_instant
from purser.report import html, simulation
from purser.report.pictures import CannotDraw, file_format
from purser.report.simulation import Simulated
from purser.simulate.choices import AnyWidth, Choice, UnknownPolicy, check
from purser.simulate.choices import simulate as run_one
from purser.simulate.market import PoolModel
from purser.simulate.result import Result
from purser.simulate.simulation import Scenario, new_budget
from purser.simulate.truth import from_speeds
from purser.simulate.workload import BadRow, read_speeds, read_workload

_RATES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_START = parse_instant("2026-01-01T00:00:00Z")


@click.command(context_settings={"show_default": True})
@click.argument("workload", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--speeds",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CSV with columns application, gpus, seconds: how long a job of each application takes by its GPUs.",
)
@click.option("--policy", "policies", multiple=True, default=("purser", "as-asked"), help="May be repeated; see above.")
@click.option(
    "--pays", "rates", multiple=True, type=click.FloatRange(min=0), default=_RATES, help="Dollars per job-hour."
)
@click.option("--gpus-per-node", default=8, type=click.IntRange(1, 64), help="GPUs of a node.")
@click.option("--node-price", default="16", help="Dollars an hour of a node.")
@click.option(
    "--start-seconds", default=120.0, type=click.FloatRange(min=0), help="From asking for a node to its readiness."
)
@click.option(
    "--restart-seconds", default=30.0, type=click.FloatRange(min=0), help="From a run's begin to its first step."
)
@click.option("--max-nodes", default=1000, type=click.IntRange(1), help="Nodes that may be rented at once.")
@click.option("--processes", type=click.IntRange(1), help="Simulations at the same time; default: one a core.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="Format on stdout.")
@click.option(
    "--picture", type=click.Path(dir_okay=False, path_type=Path), help="Write diagrams to FILE.svg or FILE.png."
)
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write one self-contained page.")
def simulate(
    workload: Path,
    speeds: Path,
    policies: Sequence[str],
    rates: Sequence[float],
    gpus_per_node: int,
    node_price: str,
    start_seconds: float,
    restart_seconds: float,
    max_nodes: int,
    processes: int | None,
    output: str,
    picture: Path | None,
    page: Path | None,
) -> None:
    """Simulate a WORKLOAD (CSV: name, time in seconds, application, num_replicas) under policies side by side.

    \b
      purser simulate jobs.csv --speeds speeds.csv
      purser simulate jobs.csv --speeds speeds.csv --policy purser --pays 2 --pays 10 --policy fixed:16:shortest
      purser simulate jobs.csv --speeds speeds.csv -o json | jq '.[].meanCompletionSeconds'
      purser simulate jobs.csv --speeds speeds.csv --html report.html

    \b
    Policies:
      purser                              the operator's planner, once for each --pays
      as-asked                            each job at the width asked for, on nodes of a cluster autoscaler
      fixed:NODES[:fifo|shortest|fair]    a fleet of so many nodes and a gang queue
      utilisation[:LOW-HIGH]              a fleet that grows and shrinks with its use, in percent (50-80)

    The planner is the one that runs in the cluster; it knows the curves of --speeds exactly. Jobs of less than a node
    are one pod of 1, 2, 4, ... GPUs, wider ones whole nodes.
    """
    try:
        price = Price.parse(node_price)
        if picture is not None:
            file_format(picture)
        for policy in policies:
            check(policy)
        scenario = _scenario(workload, speeds, gpus_per_node, price, start_seconds, restart_seconds, max_nodes)
    except (BadRow, UnknownPolicy, CannotDraw, ValueError) as error:
        raise click.ClickException(str(error)) from None
    choices = [
        Choice(policy, rate) for policy in policies for rate in (sorted(set(rates)) if policy == "purser" else (None,))
    ]
    found = [
        Simulated(choice, result, price.micros_per_hour / 1e6)
        for choice, result in zip(choices, _run(scenario, choices, processes), strict=True)
    ]
    title = f"{workload.name}: {len(scenario.submissions)} jobs"
    notes = (
        f"{gpus_per_node} GPUs a node at ${node_price} an hour, ready after {start_seconds:g} s; {restart_seconds:g} s "
        "a restart. Left out: storage, egress, CPU nodes; curves are known exactly, in a cluster they are estimates.",
    )
    try:
        drawing = simulation.draw(found, "svg").decode() if page is not None else ""
        emit(simulation.document(title, notes, found), simulation.plain(found), output)
        if picture is not None:
            write(picture, simulation.draw(found, file_format(picture)))
        if page is not None:
            document = simulation.document(title, notes, found, drawing)
            write(page, html.page(document, "made by purser simulate").encode())
    except CannotDraw as error:
        raise click.ClickException(str(error)) from None


def _scenario(
    workload: Path,
    speeds: Path,
    gpus_per_node: int,
    price: Price,
    start_seconds: float,
    restart_seconds: float,
    max_nodes: int,
) -> Scenario:
    with speeds.open(newline="") as lines:
        curves = read_speeds(lines, speeds.name)
    below = [1 << power for power in range(gpus_per_node.bit_length()) if 1 << power < gpus_per_node]
    applications = {}
    for name, seconds in curves.items():
        widths = [*below, *range(gpus_per_node, max(seconds) + 1, gpus_per_node)]
        applications[name] = from_speeds(name, seconds, widths)
        if not applications[name].widths:
            raise BadRow(
                f"{speeds.name}: application {name!r} has no width that fits nodes of {gpus_per_node} GPUs: give 1, "
                "2, 4, ... or whole nodes"
            )
    with workload.open(newline="") as lines:
        submissions = read_workload(lines, workload.name, curves)
    pool = PoolModel("pool", gpus_per_node, price, start_seconds=start_seconds, max_nodes=max_nodes)
    return Scenario(
        _START, submissions, applications, (pool,), new_budget(_START), AnyWidth(applications), restart_seconds
    )


def _run(scenario: Scenario, choices: Sequence[Choice], processes: int | None) -> list[Result]:
    """The results in the order of the choices."""
    results: dict[int, Result] = {}
    with (
        ProcessPoolExecutor(min(processes or os.cpu_count() or 1, len(choices))) as pool,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        bar = progress.add_task("simulating", total=len(choices))
        waiting = {pool.submit(run_one, scenario, choice): at for at, choice in enumerate(choices)}
        for done in as_completed(waiting):
            results[waiting[done]] = done.result()
            progress.advance(bar)
    return [results[at] for at in range(len(choices))]
