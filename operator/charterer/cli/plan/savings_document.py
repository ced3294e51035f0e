"""Savings that were possible, as blocks of the document of ``charterer plan``, and as JSON or YAML."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from charterer.cli.plan.savings_estimate import SavingsEstimate
from charterer.cli.shared import formatting
from charterer.cli.shared.json_values import dollars_json
from charterer.cli.shared.output import JsonValue
from charterer.domain.reasons.phrases import format_money
from charterer.domain.time import format_instant
from charterer.report.document import Block, DocumentTable, Heading, Item, Items, Paragraph, TableColumn, Tone, row
from charterer.simulate.history.savings import LEVEL, RESAMPLES, IntervalEstimate, Savings

_METHOD = (
    "The interval holds the number in nine cases of ten: {resamples:,} resamples of the jobs in blocks of {block} "
    "consecutive ones. It covers the variation between jobs like these, not errors of the curves."
)


def savings_blocks(estimates: Sequence[SavingsEstimate]) -> list[Block]:
    """A section for each budget."""
    return [block for estimate in estimates for block in _blocks(estimate)]


def _blocks(estimate: SavingsEstimate) -> list[Block]:
    blocks: list[Block] = [Heading(f"What Charterer would have saved (budget {estimate.budget}, mode Observe)")]
    if estimate.savings is None:
        blocks.append(Paragraph(f"No number: {estimate.why_not}."))
    else:
        blocks += _numbers(estimate, estimate.savings)
    if estimate.history.gaps:
        blocks.append(Paragraph("Left out or simplified:"))
        blocks.append(Items(tuple(Item(f"{count:>4}", gap, Tone.FAINT) for count, gap in estimate.history.gaps)))
    return blocks


def _numbers(estimate: SavingsEstimate, savings: Savings) -> list[Block]:
    spent, mean = savings.asked
    began, ended = formatting.when(estimate.history.began), formatting.when(estimate.history.ended)
    measured = (
        ""
        if estimate.measured_seconds is None
        else f" (actually measured: {formatting.duration(estimate.measured_seconds)})"
    )
    text = (
        f"{savings.jobs} jobs submitted from {began} to {ended}, simulated as their owners asked for them on nodes of "
        f"a cluster autoscaler: {format_money(spent)}, {formatting.duration(mean)} a job on average{measured}. "
        f"{estimate.jobs_with_curve} of them have a known curve."
    )
    columns = (
        TableColumn("CHARTERER AT"),
        TableColumn("SPENDS", right=True),
        TableColumn("MEAN JOB", right=True),
        TableColumn("SAVES", right=True),
        TableColumn("IN 9 OF 10 CASES", right=True),
    )
    rows = (
        row("the same money", *_point_cells(savings.at_money), *_saves(savings.hours, _hours)),
        row("the same mean time", *_point_cells(savings.at_time), *_saves(savings.dollars, format_money)),
    )
    method = _METHOD.format(resamples=RESAMPLES, block=savings.block)
    return [Paragraph(text), DocumentTable(columns, rows), Paragraph(method, Tone.FAINT)]


def _point_cells(point: tuple[float, float] | None) -> tuple[str, str]:
    return ("-", "-") if point is None else (format_money(point[0]), formatting.duration(point[1]))


def _saves(saved: IntervalEstimate | None, formatted: Callable[[float], str]) -> tuple[str, str]:
    if saved is None:
        return "out of reach", "-"
    low, high = ("none" if end is None else formatted(end) for end in (saved.low, saved.high))
    return formatted(saved.value), f"{low} to {high}"


def _hours(value: float) -> str:
    return f"{value:,.1f} job-hours"


def savings_json(estimates: Sequence[SavingsEstimate]) -> JsonValue:
    """The same for programs."""
    return [_plain(estimate) for estimate in estimates]


def _plain(estimate: SavingsEstimate) -> JsonValue:
    savings = estimate.savings
    return {
        "budget": estimate.budget,
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


def _point(point: tuple[float, float]) -> dict[str, JsonValue]:
    return {"spends": dollars_json(point[0]), "meanCompletionSeconds": point[1]}
