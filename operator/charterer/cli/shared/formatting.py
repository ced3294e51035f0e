"""Numbers and values as text for people, the same in every command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from charterer.domain.ids import Rate
from charterer.domain.money import Money, Price
from charterer.domain.reasons.phrases import format_duration, format_money, name
from charterer.domain.time import Instant, moment

if TYPE_CHECKING:
    from charterer.domain.plan import PathVerdict, Stage


def rate(value: Rate | None) -> str:
    """An exchange rate as dollars per job-hour saved, a dash where there is none."""
    return "-" if value is None else format_money(value * 3600)


def hourly(price: Price) -> str:
    """The dollars of an hourly price, for a column that names the unit."""
    return str(Money(price.micros_per_hour))


def whole(amount: Money) -> str:
    """An amount in whole dollars: ``$1,235``."""
    return f"${amount.dollars:,.0f}"


def when(at: Instant) -> str:
    """An instant to the minute."""
    return moment(at).strftime("%Y-%m-%d %H:%M UTC")


def duration(seconds: float | None) -> str:
    """Seconds as a duration, a dash where they are not known."""
    return "-" if seconds is None else format_duration(seconds)


def path(stages: Sequence[Stage]) -> str:
    """A path: ``8 GPUs on a100``, or in phases of the work ``2 GPUs on t4 to 30%, then 8 GPUs on a100``."""
    parts = [name(stage.option) + (f" to {stage.until:.0%}" if stage.until < 1.0 else "") for stage in stages]
    return ", then ".join(parts)


def mixed(paths: Sequence[PathVerdict]) -> str:
    """The only path, or each with the fraction of jobs that take it, the most frequent first."""
    if len(paths) == 1:
        return path(paths[0].stages)
    often = sorted(paths, key=lambda one: -one.fraction)
    return "; ".join(f"{percent(one.fraction)} of jobs: {path(one.stages)}" for one in often)


def percent(fraction: float) -> str:
    """Part of a whole in percent, which is never said to be none or all of it where it is not."""
    if 0.0 < fraction < 0.01:
        return "under 1%"
    return "over 99%" if 0.99 < fraction < 1.0 else f"{fraction:.0%}"


def minutes_per_dollar(seconds: float | None) -> str:
    """The minutes of jobs' lives that one more dollar saves."""
    if seconds is None:
        return "-"
    return "nothing" if not seconds else f"{seconds / 60:.3g} min"
