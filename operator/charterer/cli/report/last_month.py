"""The report of a budget's last month as blocks of a document, and as JSON or YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from charterer.cli.report.estimate import MonthEstimate
from charterer.cli.shared import formatting
from charterer.cli.shared.json_values import dollars_json
from charterer.cli.shared.output import JsonValue
from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId
from charterer.domain.money import Money
from charterer.domain.reasons.phrases import format_money
from charterer.domain.time import format_instant
from charterer.report.document import (
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
from charterer.simulate.history.savings import LEVEL, RESAMPLES, IntervalEstimate, MoreMoney, Savings

_NOTHING = 0.005
"""Part of the mean time below which a change is none in whole percent."""
_METHOD = (
    "Each interval holds its number in nine cases of ten: {resamples:,} resamples of the jobs in blocks of {block} "
    "consecutive ones. They cover the variation between jobs like these, not errors of the curves."
)


def month_document(estimates: Sequence[MonthEstimate], pictures: Mapping[BudgetId, Picture]) -> Document:
    """A section for each budget, with its picture where there is one, which a page shows."""
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
    return blocks


# --- the sentences ----------------------------------------------------------------------------------------------------


def _findings(estimate: MonthEstimate, savings: Savings) -> list[str]:
    """What Charterer saves, and what more money would bring."""
    spent, mean = savings.asked
    ways = []
    if savings.dollars is not None:
        ways.append(f"cost {_less(savings.dollars.value, spent)} in the same time")
    if savings.at_money is not None:
        sooner = mean - savings.at_money[1]
        ways.append(f"end {_sooner(sooner)} on average for the same money")
    saves = f"With Charterer they {', or '.join(ways)}." if ways else "Charterer saves nothing on them."
    asked = (
        f"As their owners asked for them, they cost {format_money(spent)} and take {formatting.duration(mean)} each."
    )
    return [f"{asked} {saves}", *[_brings(each, estimate) for each in savings.more]]


def _less(saved: float, of: float) -> str:
    part = f" ({abs(saved) / of:.0%})" if of else ""
    return f"{format_money(abs(saved))}{part} {'less' if saved >= 0.0 else 'more'}"


def _sooner(saved: float) -> str:
    return f"{formatting.duration(abs(saved))} {'sooner' if saved >= 0.0 else 'later'}"


def _brings(more: MoreMoney, estimate: MonthEstimate) -> str:
    a_month = estimate.budget.amount.dollars * (more.factor - 1.0)
    of_amount = f", which is {formatting.whole(Money.of(abs(a_month)))} of the amount," if a_month else ""
    if abs(more.sooner.value) < _NOTHING:
        return f"With {_factor(more.factor)}{of_amount} they would end at the same time: nothing faster is for sale."
    changes = f"With {_factor(more.factor)}{of_amount} they would end {_part(more.sooner.value)} on average"
    return f"{changes}: after {formatting.duration(more.then[1])} instead of {formatting.duration(more.now[1])}."


def _factor(factor: float) -> str:
    return f"{abs(factor - 1.0):.0%} {'more' if factor > 1.0 else 'less'} money"


def _part(part: float) -> str:
    return f"{abs(part):.0%} {'sooner' if part >= 0.0 else 'later'}"


# --- the table --------------------------------------------------------------------------------------------------------


def _numbers(estimate: MonthEstimate, savings: Savings) -> list[Block]:
    began, ended = formatting.when(estimate.history.began), formatting.when(estimate.history.ended)
    measured = (
        ""
        if estimate.measured_seconds is None
        else f"; really they took {formatting.duration(estimate.measured_seconds)} on average"
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
    return ("-", "-") if point is None else (format_money(point[0]), formatting.duration(point[1]))


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
    """The same for programs."""
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
