"""Reasons as sentences: what an option takes and costs, what the next one would, and what the budget pays a second."""

from __future__ import annotations

from collections.abc import Iterable

from charterer.domain.ids import PoolId, Rate
from charterer.domain.money import ZERO, Money
from charterer.domain.option import Option
from charterer.domain.plan import BudgetVerdict, Reason, ReasonCode
from charterer.domain.time import format_minute
from charterer.policy.nodes.pool_quota import LaunchWait
from charterer.policy.options.option_value import Completion, JobPosition, Move, OptionValues
from charterer.policy.solve.phase_dp import key_of
from charterer.sentences import count


def format_duration(duration: float) -> str:
    """Seconds for people: ``45 s``, ``20 min``, ``1.8 h``, ``2.5 d``."""
    if duration < 100:
        return f"{duration:.0f} s"
    if duration < 6000:
        return f"{duration / 60:.0f} min"
    return f"{duration / 3600:.1f} h" if duration < 172_800 else f"{duration / 86_400:.1f} d"


def format_money(amount: float) -> str:
    """Dollars for people."""
    return str(Money.of(amount))


def name(option: Option) -> str:
    """``8 GPUs on a100``."""
    return f"{count(option.gpus, 'GPU')} on {option.pool}"


def late(pool: PoolId, wait: LaunchWait) -> str:
    """``a100 is expected to give a node only after 4 min (refused 3 times in a row, last at 2026-05-01T10:07Z: X)``."""
    told, doubt, expected = [], wait.doubt, wait.expected
    if doubt is not None:
        whose = "" if doubt.by is None else f"GPUPool {doubt.by} was "
        times = "" if doubt.times == 1 else f" {doubt.times} times in a row, last"
        told.append(f"{whose}refused{times} at {format_minute(doubt.since)}: {doubt.code}")
    if expected.measured:
        between = f"{format_duration(expected.low)} to {format_duration(expected.high)}"
        told.append(f"{between}, measured in {expected.hours:.0f} hours like this one")
    reason = f" ({'; '.join(told)})" if told else ""
    return f"{pool} is expected to give a node only after {format_duration(wait.seconds)}{reason}"


def no_history(verdict: BudgetVerdict) -> str:
    """``assumed: 9 jobs in sight, 1 batch; no history. If nothing else comes, the month ends at $562.00``."""
    came = verdict.arrivals
    batches = f"{came.batches} batch{'' if came.batches == 1 else 'es'}"
    ends = verdict.spent + verdict.in_sight
    return (
        f"assumed: {count(came.jobs, 'job')} in sight, {batches}; no history. If nothing else comes, the month ends at "
        f"{ends}"
    )


def pays(rate: Rate) -> str:
    """The dollars that the budget pays for an hour of a job's life, in words."""
    return f"{format_money(rate * 3600)} per job-hour saved"


def choice(option: Option, values: OptionValues, weight: float, position: JobPosition, *, feasible: bool) -> Reason:
    """Why a job has this option: against the next cheaper one in numbers, the next wider one in words."""
    menu = values.menu
    here = to_the_end(option, values, position)
    text = f"{name(option)}: {format_duration(here.seconds)} for {format_money(here.dollars)}"
    if not menu.known:
        code = ReasonCode.RIGID if menu.rigid else ReasonCode.NO_CURVE
        return Reason(
            code,
            0.0,
            ZERO,
            f"{text} if {format_duration(position.left)} of work are left; no speedup curve is known yet",
        )
    ways = values.entering(position)  # best first
    above = next((way for way in ways if way.seconds < here.seconds and key_of(way.option) != key_of(option)), None)
    below = next((way for way in ways if way.counted < here.counted and key_of(way.option) != key_of(option)), None)
    if above is not None:
        saved, more = here.seconds - above.seconds, above.counted - here.counted
        text += f"; {name(above.option)} would save {format_duration(saved)} for {format_money(more)}, "
        text += f"{format_money(more / saved * 3600)} per"
        text += f" hour saved, budget pays up to {format_money(values.worth * 3600)}"
    elif values.on_menu(option):
        text += "; nothing on its menu is faster"
    text += full(values, (option, above.option if above is not None else option))
    code = (
        ReasonCode.RIGID if menu.rigid else ReasonCode.BUDGET_OPTIMAL if feasible else ReasonCode.CHEAPEST_OVER_BUDGET
    )
    if below is None:
        return Reason(code, 0.0, ZERO, text)
    saved, more = below.seconds - here.seconds, here.dollars - below.dollars
    return Reason(code, weight * saved, Money.of(more), text, below.option)


def full(values: OptionValues, options: Iterable[Option]) -> str:
    """The prices of room in the pools of some options, where they are full, in words."""
    charge = values.charge
    prices = {} if charge is None else {option.pool: charge.of(option) / option.gpus for option in options}
    return "".join(
        f"; {pool} is full, so a GPU-hour there counts {format_money(price * 3600)} more than its bill"
        for pool, price in prices.items()
        if price > 0.0
    )


def to_the_end(option: Option, values: OptionValues, position: JobPosition) -> Completion:
    """The rest of the job, entering the option included, as if for a new run."""
    way = values.staying(option, position)
    time, cost = way.seconds + option.entry_seconds, way.dollars + option.entry_cost.dollars
    return Completion(option, time, cost, values.worth * time + cost + way.room_dollars, way.room_dollars)


def moving(move: Move, here: Option, work: float, paid: str, weight: float) -> Reason:
    """Why a running job goes elsewhere; ``paid``: what the budget pays for an hour saved, in words."""
    hours = f"with {format_duration(work / here.speed)} left on {name(here)}, "
    if move.saved_seconds >= 0:
        words = (
            f"{hours}{name(move.to)} save {format_duration(move.saved_seconds)} for {format_money(move.cost.dollars)}"
        )
    else:
        saved = format_money(-move.cost.dollars)
        words = f"{hours}{name(move.to)} save {saved} for {format_duration(-move.saved_seconds)} more"
    if abs(move.room_dollars) >= 0.005:
        more = "more" if move.room_dollars > 0 else "less"
        words += f" and {format_money(abs(move.room_dollars))} {more} of room in full pools"
    words += f", restart included; the budget pays {paid} per hour saved"
    return Reason(ReasonCode.MOVE_PAYS, weight * move.saved_seconds, move.cost, words, here)


def waiting(code: ReasonCode, option: Option, detail: str) -> Reason:
    """Why a job waits for an option."""
    return Reason(code, 0.0, ZERO, f"{name(option)} wanted: {detail}")
