"""The lines of ``charterer plan`` on each kind of capacity: what the same jobs would cost without it."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.cli.shared import formatting
from charterer.cli.shared.output import JsonValue
from charterer.cli.shared.plan_report import PlanReport
from charterer.domain.money import Money
from charterer.policy.explain.capacity_kinds import WithoutKind
from charterer.report.document import Block, Heading, Item, Items
from charterer.sentences import count

_NOTHING = 0.001
"""Part of the bill below which a kind brings nothing that is worth a number."""


def capacity_blocks(report: PlanReport) -> list[Block]:
    """A line for each kind of each budget that brings something; nothing where every budget has a single kind."""
    several = len(report.solutions) > 1
    lines = [
        (f"{budget}: " if several else "") + without_in_words(lost)
        for budget, kinds in report.without.items()
        for lost in kinds
        if lost.impossible or lost.more is None or _part(lost.more, lost) >= _NOTHING
    ]
    if not lines:
        return []
    return [
        Heading("What each kind of capacity brings, in the long run"),
        Items(tuple(Item("-", line) for line in lines)),
    ]


def without_in_words(lost: WithoutKind) -> str:
    """The cost of the same jobs without the kind, or why they could not be as fast."""
    pools = f" (pool{'' if len(lost.pools) == 1 else 's'} {', '.join(lost.pools)})" if lost.pools else ""
    without = f"without {lost.kind}{pools}"
    jobs = "the same jobs"
    if lost.impossible:
        lack = "have nowhere to run" if lost.pools else "have a template whose speed nobody knows"
        without += f" {lost.impossible * 3600:.3g} jobs an hour {lack}"
        if not lost.now.micros:
            return without
        without, jobs = f"{without}, and", "the others"
    if lost.more is not None:
        part = _part(lost.more, lost)
        if part < _NOTHING:
            return f"{without} {jobs} would cost the same"
        return (
            f"{without} {jobs} would cost {formatting.whole(lost.more)} a month more ({part:+.0%}) if they were as fast"
        )
    if lost.slower is None:
        return f"{without} {jobs} would queue: even their cheapest options left cost more than the amount"
    if not lost.room:
        return f"{without} {jobs} could not be as fast: {_others(lost)} no room for that"
    return (
        f"{without} {jobs} would take {lost.slower:.2f} times as long, {_at_what_cost(lost)}; no amount makes up for it"
    )


def _part(more: Money, lost: WithoutKind) -> float:
    """By which part of what the jobs cost now this is more."""
    return more.dollars / lost.now.dollars if lost.now.micros else 0.0


def _at_what_cost(lost: WithoutKind) -> str:
    """The money that the jobs would then cost, beside what they cost now."""
    part = _part(lost.more_then, lost)
    if abs(part) < _NOTHING:
        return "for the same money"
    amount, word = (lost.more_then, "more") if part > 0.0 else (-lost.more_then, "less")
    return f"for {formatting.whole(amount)} a month {word} ({part:+.0%})"


def _others(lost: WithoutKind) -> str:
    if not lost.pools:
        return "the pools have"
    return "the other pool has" if lost.others == 1 else f"the {count(lost.others, 'other pool')} have"


def without_json(kinds: tuple[WithoutKind, ...]) -> JsonValue:
    """The same as values; ``more`` is null where the jobs could not be as fast."""
    found: list[Mapping[str, JsonValue]] = [
        {
            "kind": lost.kind,
            "pools": list(lost.pools),
            "costs": lost.now.decimal(),
            "more": None if lost.more is None else lost.more.decimal(),
            "timesAsLong": lost.slower,
            "moreThen": lost.more_then.decimal(),
            "otherPoolsHaveRoom": lost.room,
            "jobsPerHourWithoutPool": lost.impossible * 3600.0,
        }
        for lost in kinds
    ]
    return found
