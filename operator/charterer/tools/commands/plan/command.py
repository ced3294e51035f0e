"""``charterer plan`` shows what the operator would do now and why, what money buys, and what-ifs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import click

from charterer import __version__
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.offline import snapshot_of
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.tools.commands.plan.answer import PlanAnswer
from charterer.tools.commands.plan.document import plan_document
from charterer.tools.commands.plan.one_namespace import own_plan_document, own_plan_json
from charterer.tools.commands.plan.plan_json import plan_json
from charterer.tools.commands.shared.cluster import (
    ClusterOptions,
    ClusterReading,
    MayNotRead,
    cluster_options,
    read,
)
from charterer.tools.commands.shared.completion import namespace_names
from charterer.tools.commands.shared.leader import stopped_until_resumed
from charterer.tools.commands.shared.one_namespace import own_jobs
from charterer.tools.commands.shared.options import option_group
from charterer.tools.commands.shared.output import (
    CHANGES,
    FORMATS,
    JsonValue,
    announce_when_slow,
    emit,
    when,
    with_warnings,
    write,
)
from charterer.tools.commands.shared.plan_report import TriedState, plan_report, with_trials
from charterer.tools.commands.shared.what_if import (
    WhatIf,
    apply_figures,
    apply_objects,
    budget_amount,
    manifest_sources,
    planned_and_left_out,
    pool_price,
    what_if_sentences,
    written_jobs,
)
from charterer.tools.documents.document import Picture
from charterer.tools.documents.frontier import FrontierCurve, caption, draw
from charterer.tools.documents.html import page
from charterer.tools.documents.pictures import CannotDraw, file_format, find_matplotlib


@dataclass(frozen=True, slots=True)
class WhatIfOptions:
    """Changes to try. ``namespace`` is the default for objects without a namespace."""

    files: tuple[Path, ...]
    prices: tuple[str, ...]
    amounts: tuple[str, ...]
    namespace: str | None

    def what_if(self) -> WhatIf:
        """Read the changes from files and arguments. Raises ClickException."""
        objects, left_out = planned_and_left_out(manifest_sources(self.files))
        return WhatIf(
            objects,
            tuple(pool_price(text) for text in self.prices),
            tuple(budget_amount(text) for text in self.amounts),
            left_out,
        )


what_if_options = option_group(
    "changes",
    WhatIfOptions,
    click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        type=click.Path(path_type=Path, allow_dash=True),
        help="What if this were applied: TrainingJob, GPUPool, GPUBudget, SpeedupProfile (YAML; - is stdin). "
        "Repeatable.",
    ),
    click.option(
        "--price", "prices", multiple=True, metavar="POOL=2.10/h", help="What if a node of the pool cost this."
    ),
    click.option("--amount", "amounts", multiple=True, metavar="BUDGET=60000", help="What if the budget were this."),
    click.option(
        "-n",
        "--namespace",
        shell_complete=namespace_names,
        help="Of objects in files that name none; of the jobs shown if you may read no others. Default: the context's.",
    ),
)


@dataclass(frozen=True, slots=True)
class PlanOutputOptions:
    """Output options. ``jobs`` is the most rows in the table of jobs, 0 for all."""

    output: str
    jobs: int
    picture: Path | None
    page: Path | None

    def check(self) -> None:
        """Raise ClickException if a picture has an unknown format or matplotlib is missing.

        Runs before the cluster is read.
        """
        if self.picture is None and self.page is None:
            return
        try:
            if self.picture is not None:
                file_format(self.picture)
            find_matplotlib()
        except CannotDraw as error:
            raise click.ClickException(str(error)) from error


plan_output_options = option_group(
    "show",
    PlanOutputOptions,
    click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format."),
    click.option(
        "--jobs", type=click.IntRange(min=0), default=25, show_default=True, help="Jobs in the table; 0: all."
    ),
    click.option(
        "--picture",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Also draw what money buys, as .svg or .png (needs matplotlib).",
    ),
    click.option(
        "--html",
        "page",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Also write all of it as a single self-contained page (needs matplotlib).",
    ),
)


@click.command()
@what_if_options
@plan_output_options
@click.option("--detailed-exitcode", is_flag=True, help="Exit code 2 if something would be done.")
@cluster_options
def plan(
    changes: WhatIfOptions,
    show: PlanOutputOptions,
    detailed_exitcode: bool,
    cluster: ClusterOptions,
) -> None:
    """Show what Charterer would do now and why, what more or less money would buy, and what-ifs. Changes nothing.

    It needs no cloud credentials: prices are those in the pools' status. A template that the operator has not tried
    yet, and those of files, are tried by a dry run.

    \b
    What would happen now, what the budgets pay for time, and what each class of jobs is given:
      charterer plan
    \b
    What if there were one more job, one more pool, lower prices, a larger budget:
      charterer plan -f job.yaml
      charterer plan -f pool.yaml --price a100=14.50/h
      charterer plan --amount research=80000
    \b
    For a script, for a meeting:
      charterer plan -o json | jq '.budgets[] | {name, paysPerHourSaved}'
      charterer plan --detailed-exitcode >/dev/null    # 0: nothing to do, 2: something
      charterer plan --html plan.html --picture frontier.svg
    \b
    A GPUPool in a file that no cloud has been asked about must say what its nodes are and cost:
      status: {offering: {gpuType: NVIDIA-H100-80GB-HBM3, gpusPerNode: 8}}
      spec:   {price: {hourly: "55.00"}, ...}

    What Charterer saves on the last month's jobs, or would have saved for a budget in mode Observe, is said by
    `charterer report`.

    If you may not read the whole cluster, it shows the jobs of one namespace (-n), from what the operator wrote there.

    Exit code: 0, or 1 for an error. With --detailed-exitcode 2 if something would be done (for a what-if: if that
    differs from what would be done without it).
    """
    show.check()
    what_if = changes.what_if()
    try:
        reading = read(cluster)
    except MayNotRead:
        if what_if or show.picture is not None or show.page is not None or detailed_exitcode:
            raise
        _plan_own(cluster, changes.namespace, show)
        return
    found = planned(cluster, reading, what_if, changes.namespace or reading.namespace)
    emit(with_warnings(plan_document(found.answer, show.jobs), found.troubles), found.plain, show.output)
    _write_pictures(found.answer, show)
    if detailed_exitcode and found.answer.changes_anything:
        raise click.exceptions.Exit(CHANGES)


class Planned(NamedTuple):
    """A plan as a value, and as JSON for programs. ``troubles``: sentences that come first."""

    answer: PlanAnswer
    plain: Mapping[str, JsonValue]
    troubles: Sequence[str]


def planned(cluster: ClusterOptions, reading: ClusterReading, what_if: WhatIf, namespace: str) -> Planned:
    """The plan, with the what-if. ``namespace``: of objects in the what-if that name no namespace. Raises
    ClickException.
    """
    tried = with_trials(cluster, reading.state, {})
    changed = _changed(cluster, tried.state, what_if, namespace, reading.now)
    with announce_when_slow("planning"):
        answer = _plan(tried.state, changed.state, what_if, namespace, reading.now)
    warnings = (
        *filter(None, [stopped_until_resumed(reading.state.stop)]),
        *tried.warnings,
        *changed.warnings,
        *what_if.left_out,
    )
    plain = {**plan_json(answer), "nobodyActs": reading.trouble or None, "warnings": warnings}
    return Planned(answer, plain, (reading.trouble, *warnings))


def _plan_own(cluster: ClusterOptions, namespace: str | None, show: PlanOutputOptions) -> None:
    own = own_jobs(cluster, namespace)
    emit(own_plan_document(own, show.jobs), own_plan_json(own), show.output)


def _changed(cluster: ClusterOptions, state: ClusterState, what_if: WhatIf, namespace: str, now: Instant) -> TriedState:
    """Apply the objects of the what-if to the state, and try the templates of their jobs."""
    if not what_if.objects:
        return TriedState(state)
    changed = apply_objects(state, what_if.objects, namespace, now)
    return with_trials(cluster, changed, written_jobs(what_if.objects, state, namespace, now))


def _plan(state: ClusterState, changed: ClusterState, what_if: WhatIf, namespace: str, now: Instant) -> PlanAnswer:
    """Make the plan, and with a what-if also the plan without it."""
    if not what_if:
        return PlanAnswer(plan_report(_snapshot_with_budget(state, now)))
    now_there, asked = snapshot_of(state, now), apply_figures(_snapshot_with_budget(changed, now), what_if)
    real = {
        name: budget.amount
        for name, budget in now_there.budgets.items()
        if name in asked.budgets and asked.budgets[name].amount != budget.amount
    }
    before, report = (plan_report(replace(each, real_amounts=real)) for each in (now_there, asked))
    changes = tuple(what_if_sentences(what_if, before.snapshot, namespace))
    if what_if.objects or what_if.prices:
        return PlanAnswer(report, before, changes)
    budgets = report.snapshot.budgets
    same = {name: frontier.of_amount(budgets[name].amount) for name, frontier in before.frontiers.items()}
    return PlanAnswer(replace(report, frontiers=same), before, changes, only_amounts=True)


def _snapshot_with_budget(state: ClusterState, now: Instant) -> Snapshot:
    """Make the snapshot. Raises ClickException if it has no budget."""
    snapshot = snapshot_of(state, now)
    if not snapshot.budgets:
        broken = next((problem for problem in snapshot.problems if problem.kind == "GPUBudget"), None)
        if broken is not None:
            raise click.ClickException(f"GPUBudget {broken.name} cannot be used: {broken.field}: {broken.message}")
        raise click.ClickException(
            "no GPUBudget is in this cluster, so nothing is rented: apply one, or try one with -f"
        )
    return snapshot


def _write_pictures(answer: PlanAnswer, show: PlanOutputOptions) -> None:
    if show.picture is None and show.page is None:
        return
    curves = _curves(answer)
    if show.picture is not None:
        if not curves:
            raise click.ClickException(
                f"{show.picture} is not drawn: no budget has a history of jobs, or profiles that expect any"
            )
        write(show.picture, draw(curves, file_format(show.picture)))
    if show.page is not None:
        pictures = [Picture(draw([curve], "svg").decode(), caption(curve)) for curve in curves]
        document = plan_document(answer, 0, pictures)
        made = f"by charterer {__version__} on {when(answer.report.snapshot.now)}; amounts are US dollars"
        write(show.page, page(document, made).encode())


def _curves(answer: PlanAnswer) -> list[FrontierCurve]:
    befores = {} if answer.before is None else answer.before.frontiers
    curves = []
    for budget, frontier in answer.report.frontiers.items():
        before = befores.get(budget)
        if not frontier.told:
            continue
        if before is None or not before.told:
            curves.append(FrontierCurve(budget, frontier))
        elif answer.only_amounts:
            asked = frontier.amount if frontier.amount != before.amount else None
            curves.append(FrontierCurve(budget, before, asked=asked))
        else:
            curves.append(FrontierCurve(budget, frontier, before))
    return curves
