"""``charterer plan``: what would be done now and why, what money buys, and what-ifs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from charterer import __version__
from charterer.cli.plan.document import different, plan_document
from charterer.cli.plan.plan_json import plan_json
from charterer.cli.plan.savings_document import savings_blocks, savings_json
from charterer.cli.plan.savings_estimate import SavingsEstimate, savings_estimate
from charterer.cli.plan.what_if import WhatIf, amount, in_words, into_seen, into_snapshot, price, sources
from charterer.cli.shared.cluster import ClusterReading, cluster_options, read, read_others
from charterer.cli.shared.formatting import when
from charterer.cli.shared.output import CHANGES, FORMATS, NOTHING, ReadOnlyCommand, announce_when_slow, emit, write
from charterer.cli.shared.plan_report import PlanReport, plan_report
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.offline import snapshot_of
from charterer.domain.budget import Mode
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.report.document import Block, Picture
from charterer.report.frontier import FrontierCurve, caption, draw
from charterer.report.html import page
from charterer.report.pictures import CannotDraw, file_format, find_matplotlib


@click.command(cls=ReadOnlyCommand)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help="What if this were applied: TrainingJob, GPUPool, GPUBudget, SpeedupProfile (YAML; - is stdin). Repeatable.",
)
@click.option("--price", "prices", multiple=True, metavar="POOL=2.10/h", help="What if a node of the pool cost this.")
@click.option("--amount", "amounts", multiple=True, metavar="BUDGET=60000", help="What if the budget were so large.")
@click.option("-n", "--namespace", help="Of objects in files that name none; default: the context's.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format.")
@click.option("--jobs", type=click.IntRange(min=0), default=25, show_default=True, help="Jobs in the table; 0: all.")
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also draw what money buys, as .svg or .png (needs charterer[report]).",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write it all as one page that needs nothing else (needs charterer[report]).",
)
@click.option("--no-history", is_flag=True, help="Under mode Observe: do not simulate the cluster's last days.")
@cluster_options
def plan(
    files: tuple[Path, ...],
    prices: tuple[str, ...],
    amounts: tuple[str, ...],
    namespace: str | None,
    output: str,
    jobs: int,
    picture: Path | None,
    html: Path | None,
    no_history: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Show what Charterer would do now and why, what more or less money would buy, and what-ifs. Changes nothing.

    It only reads the cluster: no cloud credentials are needed, and prices are those in the pools' status.

    \b
    What would happen now, at which rate time is bought, and what each class of jobs is given:
      charterer plan
    \b
    What if one more job came, one more pool were there, prices fell, the budget grew:
      charterer plan -f job.yaml
      charterer plan -f pool.yaml --price a100=14.50/h
      charterer plan --amount research=80000
    \b
    For a script, for a meeting:
      charterer plan -o json | jq '.budgets[] | {name, paysPerHourSaved}'
      charterer plan --html plan.html --picture frontier.svg
    \b
    A GPUPool in a file that no cloud has been asked about needs what its nodes are and cost:
      status: {offering: {gpuType: NVIDIA-H100-80GB-HBM3, gpusPerNode: 8}}
      spec:   {price: {hourly: "55.00"}, ...}

    Where a budget only observes, it also says what Charterer would have saved on the
    cluster's last days, by simulation.

    Exit code: 0 nothing would be done (or a what-if makes no difference to that), 2 something would, 1 an error.
    """
    _check_pictures(picture, html)
    what = WhatIf(sources(files), tuple(price(one) for one in prices), tuple(amount(one) for one in amounts))
    sighting = read(kubeconfig, context)
    where = namespace or sighting.namespace
    with announce_when_slow("thinking"):
        thought, before = _think(sighting, what, where)
    changes = in_words(what, thought.snapshot if before is None else before.snapshot, where)
    past = () if no_history or what else _past(sighting, kubeconfig, context)
    plain = {**plan_json(thought, before, changes), **({"saved": savings_json(past)} if past else {})}
    emit(plan_document(thought, before, changes, jobs, savings_blocks(past)), plain, output)
    _pictures(thought, before, changes, savings_blocks(past), picture, html)
    more, fewer = (thought.actions, ()) if before is None else different(thought, before)
    raise click.exceptions.Exit(CHANGES if more or fewer else NOTHING)


def _think(sighting: ClusterReading, what: WhatIf, namespace: str) -> tuple[PlanReport, PlanReport | None]:
    """The plan, and that without the what-ifs if there are any."""
    now = sighting.now
    if not what:
        return plan_report(_budgeted(sighting.seen, now)), None
    changed = into_seen(sighting.seen, what.objects, namespace, now)
    return plan_report(into_snapshot(_budgeted(changed, now), what)), plan_report(snapshot_of(sighting.seen, now))


def _past(sighting: ClusterReading, kubeconfig: Path | None, context: str | None) -> tuple[SavingsEstimate, ...]:
    """What would have been saved, where a budget only observes."""
    if all(budget.mode is not Mode.OBSERVE for budget in sighting.seen.budgets.values()):
        return ()
    return savings_estimate(sighting.seen, sighting.now, read_others(kubeconfig, context))


def _budgeted(seen: ClusterState, now: Instant) -> Snapshot:
    """The snapshot, with a budget at least; ClickException otherwise."""
    snapshot = snapshot_of(seen, now)
    if not snapshot.budgets:
        broken = next((one for one in snapshot.problems if one.kind == "GPUBudget"), None)
        if broken is not None:
            raise click.ClickException(f"GPUBudget {broken.name} cannot be used: {broken.field}: {broken.message}")
        raise click.ClickException(
            "no GPUBudget is in this cluster, so nothing is rented: apply one, or try one with -f"
        )
    return snapshot


def _check_pictures(picture: Path | None, html: Path | None) -> None:
    """Before anything is read: a wrong suffix, or no matplotlib."""
    if picture is None and html is None:
        return
    try:
        if picture is not None:
            file_format(picture)
        find_matplotlib()
    except CannotDraw as error:
        raise click.ClickException(str(error)) from error


def _pictures(
    thought: PlanReport,
    before: PlanReport | None,
    changes: Sequence[str],
    past: Sequence[Block],
    picture: Path | None,
    html: Path | None,
) -> None:
    if picture is None and html is None:
        return
    curves = _curves(thought, before)
    if picture is not None:
        if not curves:
            raise click.ClickException(f"{picture} is not drawn: no budget has jobs, or profiles that expect any")
        write(picture, draw(curves, file_format(picture)))
    if html is not None:
        drawn = [Picture(draw([curve], "svg").decode(), caption(curve)) for curve in curves]
        document = plan_document(thought, before, changes, 0, past, drawn)
        made = f"by charterer {__version__} on {when(thought.snapshot.now)}; amounts are US dollars"
        write(html, page(document, made).encode())


def _curves(thought: PlanReport, before: PlanReport | None) -> list[FrontierCurve]:
    olds = {} if before is None else before.frontiers
    curves = []
    for budget, frontier in thought.frontiers.items():
        old = olds.get(budget)
        if not frontier.empty:
            curves.append(FrontierCurve(budget, frontier, None if old is None or old.empty else old))
    return curves
