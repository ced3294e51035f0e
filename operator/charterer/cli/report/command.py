"""``charterer report``: one page for a meeting, on the jobs of the last month."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from charterer import __version__
from charterer.cli.report.estimate import MonthEstimate, month_estimates
from charterer.cli.report.last_month import month_document, month_json
from charterer.cli.shared.cluster import ClusterOptions, cluster_options, read, read_others
from charterer.cli.shared.formatting import when
from charterer.cli.shared.output import FORMATS, announce_when_slow, emit, with_warnings, write
from charterer.domain.ids import BudgetId
from charterer.report.document import Picture
from charterer.report.html import page
from charterer.report.last_month import MonthPoints, draw_month, month_caption
from charterer.report.pictures import CannotDraw, find_matplotlib
from charterer.sentences import similar_names


@click.command()
@click.argument("budget", required=False)
@click.option(
    "--percent",
    "percents",
    multiple=True,
    type=click.FloatRange(-95.0, 900.0),
    default=(20.0, -20.0),
    show_default="20 and -20",
    help="What if there were so many percent more money (less: below 0). Repeatable.",
)
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format.")
@click.option(
    "--html",
    "html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write it as a single self-contained page that prints on a sheet (needs matplotlib).",
)
@cluster_options
def report(
    budget: str | None, percents: tuple[float, ...], output: str, html: Path | None, cluster: ClusterOptions
) -> None:
    """Show what Charterer saves on the last month's own jobs, and what more or less money would bring.

    It simulates the jobs of the last 30 days that the cluster still holds, at most the latest 300: once as their owners
    asked for them on nodes of a cluster autoscaler, and by Charterer at several exchange rates. Each number has an
    interval. With fewer than 32 jobs it gives none.

    \b
      charterer report
      charterer report research --percent 20 --percent 50
      charterer report --html meeting.html
      charterer report -o json | jq '.budgets[].withOtherMoney'

    It changes nothing. It needs the right to read the whole cluster.
    """
    if html is not None:
        try:
            find_matplotlib()
        except CannotDraw as error:
            raise click.ClickException(str(error)) from error
    reading = read(cluster)
    names = [str(known.id) for known in reading.state.budgets.values()]
    if not names:
        raise click.ClickException("no GPUBudget is in this cluster, so no job is paid for: apply one")
    if budget is not None and budget not in names:
        raise click.ClickException(f"no GPUBudget {budget!r}: {similar_names(budget, names)}")
    factors = tuple(dict.fromkeys(1.0 + percent / 100.0 for percent in percents if percent))
    others = read_others(cluster)
    with announce_when_slow("simulating the last month"):
        estimates = month_estimates(reading.state, reading.now, others, budget, factors)
    emit(with_warnings(month_document(estimates, {}), (reading.trouble,)), month_json(estimates), output)
    if html is not None:
        made = f"by charterer {__version__} on {when(reading.now)}; amounts are US dollars"
        write(html, page(month_document(estimates, _pictures(estimates)), made).encode())


def _pictures(estimates: Sequence[MonthEstimate]) -> dict[BudgetId, Picture]:
    pictures = {}
    for estimate in estimates:
        savings = estimate.savings
        if savings is None:
            continue
        named = [(f"{each.factor - 1.0:+.0%}", each.then) for each in savings.more]
        if savings.more:
            named.append(("today's money", savings.more[0].now))
        points = MonthPoints(estimate.budget.id, estimate.frontier, savings.asked, named)
        pictures[estimate.budget.id] = Picture(draw_month(points).decode(), month_caption(points))
    return pictures
