"""How ``charterer plan`` shows what would have been saved: as blocks of a document, and as JSON or YAML."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from charterer.cli.plan.savings_estimate import SavingsEstimate
from charterer.cli.shared import formatting
from charterer.cli.shared.json_values import dollars_json
from charterer.cli.shared.output import JsonValue
from charterer.domain.time import format_instant
from charterer.policy.budgets.reasons import format_money
from charterer.report.document import Block, DocumentTable, Heading, Item, Items, Paragraph, TableColumn, Tone, row
from charterer.simulate.history.savings import LEVEL, RESAMPLES, IntervalEstimate, Savings

_METHOD = (
    "The interval holds the number in nine of ten cases: {resamples:,} resamples of the jobs in blocks of {block} that "
    "follow each other. It tells what other jobs like these would change, not how wrong the curves are."
)


def savings_blocks(found: Sequence[SavingsEstimate]) -> list[Block]:
    """A section for each budget."""
    return [block for one in found for block in _blocks(one)]


def _blocks(one: SavingsEstimate) -> list[Block]:
    blocks: list[Block] = [Heading(f"What Charterer would have saved (budget {one.budget}, mode Observe)")]
    if one.savings is None:
        blocks.append(Paragraph(f"No number: {one.why_not}."))
    else:
        blocks += _numbers(one, one.savings)
    if one.past.gaps:
        blocks.append(Paragraph("Not modelled, or not as it was:"))
        blocks.append(Items(tuple(Item(f"{count:>4}", told, Tone.FAINT) for count, told in one.past.gaps)))
    return blocks


def _numbers(one: SavingsEstimate, gain: Savings) -> list[Block]:
    spent, mean = gain.asked
    really = "" if one.really is None else f" (really {formatting.duration(one.really)})"
    said = (
        f"{gain.jobs} jobs submitted from {formatting.when(one.past.began)} to {formatting.when(one.past.ended)}, "
        "simulated as their owners asked for them on nodes of a cluster autoscaler: "
        f"{format_money(spent)}, {formatting.duration(mean)} a job "
        f"in the mean{really}. {one.known} of them have a known curve."
    )
    columns = (
        TableColumn("CHARTERER AT"),
        TableColumn("SPENDS", right=True),
        TableColumn("MEAN JOB", right=True),
        TableColumn("SAVES", right=True),
        TableColumn("IN 9 OF 10 CASES", right=True),
    )
    rows = (
        row("the same money", *_spot(gain.at_money), *_saves(gain.hours, _hours)),
        row("the same mean time", *_spot(gain.at_time), *_saves(gain.dollars, format_money)),
    )
    method = _METHOD.format(resamples=RESAMPLES, block=gain.block)
    return [Paragraph(said), DocumentTable(columns, rows), Paragraph(method, Tone.FAINT)]


def _spot(point: tuple[float, float] | None) -> tuple[str, str]:
    return ("-", "-") if point is None else (format_money(point[0]), formatting.duration(point[1]))


def _saves(estimate: IntervalEstimate | None, said: Callable[[float], str]) -> tuple[str, str]:
    if estimate is None:
        return "cannot be had", "-"
    low, high = ("none" if end is None else said(end) for end in (estimate.low, estimate.high))
    return said(estimate.value), f"{low} to {high}"


def _hours(value: float) -> str:
    return f"{value:,.1f} job-hours"


def savings_json(found: Sequence[SavingsEstimate]) -> JsonValue:
    """The same for programs."""
    return [_plain(one) for one in found]


def _plain(one: SavingsEstimate) -> JsonValue:
    gain = one.savings
    return {
        "budget": one.budget,
        "from": format_instant(one.past.began),
        "to": format_instant(one.past.ended),
        "jobs": one.jobs,
        "jobsWithCurve": one.known,
        "reallyMeanCompletionSeconds": one.really,
        "noNumberBecause": one.why_not or None,
        "asAsked": None if gain is None else _point(gain.asked),
        "atTheSameMoney": None
        if gain is None or gain.at_money is None or gain.hours is None
        else {
            **_point(gain.at_money),
            "savesJobHours": gain.hours.value,
            "savesJobHoursLow": gain.hours.low,
            "savesJobHoursHigh": gain.hours.high,
        },
        "atTheSameMeanTime": None
        if gain is None or gain.at_time is None or gain.dollars is None
        else {
            **_point(gain.at_time),
            "saves": dollars_json(gain.dollars.value),
            "savesLow": None if gain.dollars.low is None else dollars_json(gain.dollars.low),
            "savesHigh": None if gain.dollars.high is None else dollars_json(gain.dollars.high),
        },
        "interval": None
        if gain is None
        else {"level": LEVEL, "resamples": RESAMPLES, "method": "circular block bootstrap", "jobsInBlock": gain.block},
        "notModelled": [{"count": count, "what": told} for count, told in one.past.gaps],
    }


def _point(point: tuple[float, float]) -> dict[str, JsonValue]:
    return {"spends": dollars_json(point[0]), "meanCompletionSeconds": point[1]}
