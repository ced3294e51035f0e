"""``charterer report`` makes one page about the jobs of the last month."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random

import click

from charterer import __version__
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.offline import OtherJobs, snapshot_of
from charterer.controller.snapshot.payers import payers_of
from charterer.domain.budget import Budget, Mode
from charterer.domain.ids import BudgetId
from charterer.domain.money import Money
from charterer.domain.reasons.phrases import format_money
from charterer.domain.time import Instant, after, format_instant
from charterer.policy.planner import plan
from charterer.sentences import similar_names
from charterer.tools.commands.shared import output
from charterer.tools.commands.shared.cluster import ClusterOptions, cluster_options, read, read_others
from charterer.tools.commands.shared.cluster_history import ClusterHistory, JobFilter, cluster_history
from charterer.tools.commands.shared.completion import budget_names
from charterer.tools.commands.shared.lost import Losses, losses_json, losses_since, lost_blocks
from charterer.tools.commands.shared.output import (
    FORMATS,
    JsonValue,
    announce_when_slow,
    dollars_json,
    emit,
    when,
    with_warnings,
    write,
)
from charterer.tools.commands.shared.processes import side_by_side
from charterer.tools.documents.document import (
    Block,
    Document,
    DocumentTable,
    Heading,
    Item,
    Items,
    Paragraph,
    Picture,
    TableColumn,
    Tone,
    row,
)
from charterer.tools.documents.frontier import MonthPoints, draw_month, month_caption
from charterer.tools.documents.html import page
from charterer.tools.documents.pictures import CannotDraw, find_matplotlib
from charterer.tools.simulator.engine.world import PlannerError
from charterer.tools.simulator.history.history import History
from charterer.tools.simulator.history.savings import (
    LEAST_JOBS,
    LEVEL,
    RESAMPLES,
    IntervalEstimate,
    MoreMoney,
    Savings,
    SavingsReplay,
    next_rates,
    rates_around,
    savings,
    savings_replay,
)
from charterer.tools.simulator.policy_registry import PolicyChoice
from charterer.tools.simulator.replay import ReplayResult, dollars_by_job, replay

# Simulations of a budget's recent jobs: Charterer's savings, and the effect of more or less money.


DAYS = 30
"""Days of history to simulate."""
MOST_JOBS = 300
"""Maximum number of jobs to simulate, the latest ones. Ten simulations of 300 jobs take some seconds on two cores."""
_ROUNDS = 2
"""Rounds that try rates between known rates. After two rounds, neighbouring rates differ by a factor of √2."""
_SEED = 0
"""Seed of the bootstrap. It is constant, so that the same history always gives the same interval."""


@dataclass(frozen=True, slots=True)
class MonthEstimate:
    """The estimate of one budget. ``factors`` are multiples of today's spending to estimate.

    ``rate``: dollars that the budget pays per job-hour saved. None in mode Observe, or if the budget pays for no job.
    ``measured_seconds``: measured mean completion time, or None if unknown. ``why_not`` says why ``savings`` is None.
    ``frontier``: (dollars, mean seconds) under Charterer at each simulated rate. ``losses``: the losses of the same
    days.
    """

    budget: Budget
    factors: tuple[float, ...]
    rate: float | None
    history: ClusterHistory
    jobs: int
    jobs_with_curve: int
    measured_seconds: float | None
    savings: Savings | None
    why_not: str = ""
    frontier: tuple[tuple[float, float], ...] = ()
    losses: Losses = field(default_factory=Losses)


def month_estimates(
    state: ClusterState, now: Instant, others: OtherJobs, name: str | None, factors: tuple[float, ...]
) -> tuple[MonthEstimate, ...]:
    """Estimate each budget, or the one with this ``name``. ``factors`` are multiples of today's dollars."""
    snapshot, payers = snapshot_of(state, now), payers_of(state.budgets, state.namespaces)
    verdicts = plan(snapshot).budgets
    estimates = []
    for budget in sorted(snapshot.budgets.values(), key=lambda budget: budget.id):
        if name is not None and budget.id != name:
            continue
        verdict = verdicts.get(budget.id)
        paid = None if verdict is None or budget.mode is Mode.OBSERVE or not verdict.rate else verdict.rate * 3600.0
        since = after(now, -DAYS * 86_400.0)
        job_filter = JobFilter(since=since, budget=budget, most=MOST_JOBS)
        estimate = _estimate(budget, paid, cluster_history(snapshot, others, payers, job_filter), factors)
        estimates.append(replace(estimate, losses=losses_since(budget, since)))
    return tuple(estimates)


def _estimate(budget: Budget, rate: float | None, past: ClusterHistory, factors: tuple[float, ...]) -> MonthEstimate:
    history = past.history
    nothing = MonthEstimate(budget, factors, rate, past, 0, 0, None, None, _too_few(0))
    if history is None:
        return nothing
    took = [job.took for job in history.jobs if job.took is not None]
    count = len(history.jobs)
    estimate = replace(
        nothing,
        jobs=count,
        jobs_with_curve=history.jobs_with_curve,
        measured_seconds=sum(took) / len(took) if took else None,
        why_not=_too_few(count),
    )
    if count < LEAST_JOBS:
        return estimate
    try:
        asked, today, paying = _simulated(history, rate, factors)
    except (PlannerError, _NotComplete) as error:
        return replace(estimate, why_not=f"the simulation failed ({error}); report it")
    found = savings(asked, paying, Random(_SEED).random, today=today, factors=factors)
    return replace(estimate, savings=found, why_not="", frontier=tuple(sorted(each.point for each in paying)))


class _NotComplete(Exception):
    """A job does not end under a policy."""


def _too_few(count: int) -> str:
    return (
        f"too little history: {count} jobs of the last {DAYS} days can be simulated, and with fewer than {LEAST_JOBS} "
        "any number would be accidental"
    )


def _simulated(
    history: History, rate: float | None, factors: Sequence[float]
) -> tuple[SavingsReplay, SavingsReplay, list[SavingsReplay]]:
    """Replay the jobs as their owners asked, then at the ``rate`` paid today, and at each other rate. ``rate`` None
    means as asked.
    """
    rates = rates_around(history, 4.0)
    asked, *paying = _replay_all(history, [PolicyChoice("as-asked"), *_paying(rates)])
    today = asked
    if rate is not None:
        (today,) = _replay_all(history, _paying([rate]))
        paying.append(today)
    for _ in range(_ROUNDS):
        wanted = [today.point[0] * factor for factor in factors]
        paying += _replay_all(history, _paying(next_rates(asked, paying, wanted)))
    return asked, today, paying


def _paying(rates: Sequence[float]) -> list[PolicyChoice]:
    return [PolicyChoice("charterer", rate) for rate in rates]


def _replay_all(history: History, choices: Sequence[PolicyChoice]) -> list[SavingsReplay]:
    if not choices:
        return []
    results = iter(side_by_side([partial(replay, part, choice) for choice in choices for part in history.parts]))
    return [_joined(history, choice, [next(results) for _ in history.parts]) for choice in choices]


def _joined(history: History, choice: PolicyChoice, parts: Sequence[ReplayResult]) -> SavingsReplay:
    seconds: dict[str, float] = {}
    for job in (job for part in parts for job in part.result.jobs):
        if job.completion_seconds is None:
            raise _NotComplete(f"{job.name} never ends under {choice.label}")
        seconds[job.name] = job.completion_seconds
    return savings_replay(history, choice.rate, seconds, dollars_by_job(parts))


# The report as a document and as JSON.


_NOTHING = 0.005
"""Relative change of the mean time that rounds to 0 %."""
_METHOD = (
    "Each interval holds its number in nine cases of ten: {resamples:,} resamples of the jobs in blocks of {block} "
    "consecutive ones. They cover the variation between jobs like these, not errors of the curves."
)


def month_document(estimates: Sequence[MonthEstimate], pictures: Mapping[BudgetId, Picture]) -> Document:
    """Make a section for each budget, with its picture if there is one. Only HTML pages have pictures."""
    blocks = [block for estimate in estimates for block in _section(estimate, pictures.get(estimate.budget.id))]
    return Document("charterer report", tuple(blocks))


def _section(estimate: MonthEstimate, picture: Picture | None) -> list[Block]:
    blocks: list[Block] = [Heading(f"The last month's jobs of budget {estimate.budget.id}")]
    if estimate.savings is None:
        blocks.append(Paragraph(f"No number: {estimate.why_not}."))
    else:
        blocks += [Paragraph(sentence, Tone.STRONG) for sentence in _findings(estimate, estimate.savings)]
        blocks += [] if picture is None else [picture]
        blocks += _numbers(estimate, estimate.savings)
    if estimate.history.gaps:
        blocks.append(Paragraph("Left out or simplified:"))
        blocks.append(Items(tuple(Item(f"{count:>4}", gap, Tone.FAINT) for count, gap in estimate.history.gaps)))
    lost = tuple(lost_blocks(estimate.losses, causes=True))
    if lost:
        blocks += [Heading(f"What budget {estimate.budget.id} lost in the last {DAYS} days"), *lost]
    return blocks


# --- the sentences ----------------------------------------------------------------------------------------------------


def _findings(estimate: MonthEstimate, savings: Savings) -> list[str]:
    """Return sentences on Charterer's savings and on the effect of more money."""
    spent, mean = savings.asked
    ways = []
    if savings.dollars is not None:
        ways.append(f"cost {_less(savings.dollars.value, spent)} in the same time")
    if savings.at_money is not None:
        sooner = mean - savings.at_money[1]
        ways.append(f"end {_sooner(sooner)} on average for the same money")
    saves = f"With Charterer they {', or '.join(ways)}." if ways else "Charterer saves nothing on them."
    asked = f"As their owners asked for them, they cost {format_money(spent)} and take {output.duration(mean)} each."
    return [f"{asked} {saves}", *[_brings(each, estimate) for each in savings.more]]


def _less(saved: float, of: float) -> str:
    part = f" ({abs(saved) / of:.0%})" if of else ""
    return f"{format_money(abs(saved))}{part} {'less' if saved >= 0.0 else 'more'}"


def _sooner(saved: float) -> str:
    return f"{output.duration(abs(saved))} {'sooner' if saved >= 0.0 else 'later'}"


def _brings(more: MoreMoney, estimate: MonthEstimate) -> str:
    changed = estimate.budget.amount.dollars * (more.factor - 1.0)
    of_amount = f", which is {output.whole(Money.of(abs(changed)))} of the amount," if changed else ""
    if abs(more.sooner.value) < _NOTHING:
        return f"With {_factor(more.factor)}{of_amount} they would end at the same time: nothing faster is for sale."
    changes = f"With {_factor(more.factor)}{of_amount} they would end {_part(more.sooner.value)} on average"
    return f"{changes}: after {output.duration(more.then[1])} instead of {output.duration(more.now[1])}."


def _factor(factor: float) -> str:
    return f"{abs(factor - 1.0):.0%} {'more' if factor > 1.0 else 'less'} money"


def _part(part: float) -> str:
    return f"{abs(part):.0%} {'sooner' if part >= 0.0 else 'later'}"


# --- the table --------------------------------------------------------------------------------------------------------


def _numbers(estimate: MonthEstimate, savings: Savings) -> list[Block]:
    began, ended = output.when(estimate.history.began), output.when(estimate.history.ended)
    measured = (
        ""
        if estimate.measured_seconds is None
        else f"; really they took {output.duration(estimate.measured_seconds)} on average"
    )
    text = (
        f"{savings.jobs} jobs submitted from {began} to {ended}, simulated{measured}. {estimate.jobs_with_curve} of "
        "them have a known curve. As asked for: on nodes of a cluster autoscaler. "
        f"{_today(estimate)}"
    )
    columns = (
        TableColumn("JOBS RUN"),
        TableColumn("SPENDS", right=True),
        TableColumn("MEAN JOB", right=True),
        TableColumn("CHANGE", right=True),
        TableColumn("IN 9 OF 10 CASES", right=True),
    )
    reached = {each.factor: each for each in savings.more}
    rows = [
        row("as asked for", *_point_cells(savings.asked), "-", "-"),
        row("by Charterer for the same money", *_point_cells(savings.at_money), *_change(savings.hours, _hours)),
        row("by Charterer in the same mean time", *_point_cells(savings.at_time), *_change(savings.dollars, _dollars)),
    ]
    if savings.more and estimate.rate is not None:
        rows.append(row("by Charterer for today's money", *_point_cells(savings.more[0].now), "-", "-"))
    for factor in estimate.factors:
        more = reached.get(factor)
        cells = _point_cells(None if more is None else more.then)
        change = _change(None if more is None else more.sooner, _part)
        rows.append(row(f"by Charterer with {_factor(factor)}", *cells, *change))
    method = _METHOD.format(resamples=RESAMPLES, block=savings.block)
    return [Paragraph(text), DocumentTable(columns, tuple(rows)), Paragraph(method, Tone.FAINT)]


def _today(estimate: MonthEstimate) -> str:
    if estimate.rate is not None:
        return f"Today's money is what Charterer spends at {format_money(estimate.rate)} for a job-hour saved, as now."
    if estimate.budget.mode is Mode.OBSERVE:
        return "Today's money is what they cost as asked for, because the budget observes only."
    return "Today's money is what they cost as asked for, because the budget pays for no job now."


def _point_cells(point: tuple[float, float] | None) -> tuple[str, str]:
    return ("-", "-") if point is None else (format_money(point[0]), output.duration(point[1]))


def _change(change: IntervalEstimate | None, formatted: Callable[[float], str]) -> tuple[str, str]:
    if change is None:
        return "out of reach", "-"
    low, high = ("out of reach" if end is None else formatted(end) for end in (change.low, change.high))
    return formatted(change.value), f"{low} to {high}"


def _hours(value: float) -> str:
    return f"{abs(value):,.1f} job-hours {'less' if value >= 0.0 else 'more'}"


def _dollars(value: float) -> str:
    return f"{format_money(abs(value))} {'less' if value >= 0.0 else 'more'}"


# --- for programs -----------------------------------------------------------------------------------------------------


def month_json(estimates: Sequence[MonthEstimate]) -> JsonValue:
    """Return the report as JSON."""
    return {"budgets": [_plain(estimate) for estimate in estimates]}


def _plain(estimate: MonthEstimate) -> JsonValue:
    savings = estimate.savings
    return {
        "name": estimate.budget.id,
        "mode": str(estimate.budget.mode),
        "paysPerHourSaved": None if estimate.rate is None else dollars_json(estimate.rate),
        "from": format_instant(estimate.history.began),
        "to": format_instant(estimate.history.ended),
        "jobs": estimate.jobs,
        "jobsWithCurve": estimate.jobs_with_curve,
        "measuredMeanCompletionSeconds": estimate.measured_seconds,
        "noNumberBecause": estimate.why_not or None,
        "asAsked": None if savings is None else _point(savings.asked),
        "atTheSameMoney": None
        if savings is None or savings.at_money is None or savings.hours is None
        else {
            **_point(savings.at_money),
            "savesJobHours": savings.hours.value,
            "savesJobHoursLow": savings.hours.low,
            "savesJobHoursHigh": savings.hours.high,
        },
        "atTheSameMeanTime": None
        if savings is None or savings.at_time is None or savings.dollars is None
        else {
            **_point(savings.at_time),
            "saves": dollars_json(savings.dollars.value),
            "savesLow": None if savings.dollars.low is None else dollars_json(savings.dollars.low),
            "savesHigh": None if savings.dollars.high is None else dollars_json(savings.dollars.high),
        },
        "withOtherMoney": [] if savings is None else [_more(each) for each in savings.more],
        "interval": None
        if savings is None
        else {
            "level": LEVEL,
            "resamples": RESAMPLES,
            "method": "circular block bootstrap",
            "jobsInBlock": savings.block,
        },
        "notModelled": [{"count": count, "what": gap} for count, gap in estimate.history.gaps],
        "losses": losses_json(estimate.losses),
    }


def _more(more: MoreMoney) -> JsonValue:
    return {
        "times": more.factor,
        **_point(more.then),
        "today": _point(more.now),
        "sooner": more.sooner.value,
        "soonerLow": more.sooner.low,
        "soonerHigh": more.sooner.high,
    }


def _point(point: tuple[float, float]) -> dict[str, JsonValue]:
    return {"spends": dollars_json(point[0]), "meanCompletionSeconds": point[1]}


# The command.


@click.command()
@click.argument("budget", required=False, shell_complete=budget_names)
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
    interval. With fewer than 32 jobs it gives none. Below is what was lost in these days, by cause, with what to do.

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
