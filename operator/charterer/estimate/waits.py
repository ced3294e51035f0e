"""How long one waits for a node of a pool, estimated from the pool's refusals and the starts of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import Final

from charterer.domain.pool import SLOTS, STARTS_ASSUMED, ExpectedWait, LaunchHistory, NodeStart
from charterer.domain.time import Instant, moment, seconds_between

HALF_LIFE_SECONDS: Final = 28 * 86_400.0
"""Seconds after which evidence counts half: four weeks, so that an hour of the week is seen a few times."""
TRUSTED_HOURS: Final = 5.0
"""Number of hours with a node that every pool is assumed to have had. So until a pool refuses, only the start of its
nodes is expected as a wait."""
SHRINKAGE: Final = 2.0
"""Weight, in hours, of what is known about similar hours against what was seen in one hour of the week. Two weeks of
the hour itself count as much."""
LONGEST_SECONDS: Final = SLOTS * 3600.0
"""The longest wait in seconds that is ever expected: a week."""
MEASURED_HOURS: Final = 3.0
"""Number of hours like the present one that must have been seen for a wait to count as measured: the same hour of
three working days."""
_Z: Final = 1.645
"""Number of standard deviations on either side of the mean between which 90 % of a normal distribution lie."""
_HOUR: Final = 3600.0
_MINUTE: Final = 60.0
_NONE: Final = (0.0,) * SLOTS
_CYCLES: Final = 3
"""Number of passes over the week. After so many, the expected waits have converged even for a pool that refuses
almost always."""
_LEAST_AVAILABLE: Final = 0.01

# --- counting ---------------------------------------------------------------------------------------------------------


def with_refusal(launches: LaunchHistory, at: Instant) -> LaunchHistory:
    """The history with one more refusal; unchanged if a node or a refusal is on record for the hour already."""
    hour = _hour(at)
    if hour in (launches.last_given, launches.last_refused):
        return launches
    aged = _aged(launches, at)
    return replace(aged, refused=_added(aged.refused, at, 1.0), last_refused=hour)


def with_start(launches: LaunchHistory, start: NodeStart) -> LaunchHistory:
    """The history with one more start of a node."""
    aged, hour = _aged(launches, start.ready), _hour(start.launched)
    if hour == aged.last_refused:  # a node came later in that hour
        aged = replace(aged, refused=_added(aged.refused, start.launched, -1.0), last_refused=-1)
    if hour > aged.last_given:
        aged = replace(aged, given=_added(aged.given, start.launched, 1.0), last_given=hour)
    took = log(max(seconds_between(start.launched, start.ready), 1.0))
    return replace(
        aged,
        starts=aged.starts + 1.0,
        logs=aged.logs + took,
        squares=aged.squares + took * took,
        queued=aged.queued + max(seconds_between(start.asked, start.launched), 0.0),
        through=start.ready if aged.through is None else max(start.ready, aged.through),
    )


def with_others(own: LaunchHistory, others: Sequence[LaunchHistory]) -> LaunchHistory:
    """The counts of a pool and of other pools that fail together with it. What several of them saw in the same hour
    counts once.

    The starts of nodes are those of the pool itself.
    """
    known = [each for each in (own, *others) if each.at is not None]
    if not any(any(each.refused) for each in known):
        return own
    at = max(each.at for each in known if each.at is not None)
    aged = [_aged(each, at) for each in known]
    return replace(
        _aged(own, at),
        given=tuple(map(max, *[each.given for each in aged], _NONE)),
        refused=tuple(map(max, *[each.refused for each in aged], _NONE)),
    )


def _added(numbers: Sequence[float], at: Instant, more: float) -> tuple[float, ...]:
    slot = slot_of(at)
    return tuple([max(number + more, 0.0) if here == slot else number for here, number in enumerate(numbers)])


def _aged(launches: LaunchHistory, now: Instant) -> LaunchHistory:
    """The history with its weights decayed up to ``now``; unchanged if ``now`` is earlier than its own time."""
    if launches.at is None or now <= launches.at:
        return replace(launches, at=launches.at or now)
    keep = _kept(launches, now)
    return replace(
        launches,
        given=tuple([hours * keep for hours in launches.given]),
        refused=tuple([hours * keep for hours in launches.refused]),
        starts=launches.starts * keep,
        logs=launches.logs * keep,
        squares=launches.squares * keep,
        queued=launches.queued * keep,
        at=now,
    )


def _kept(launches: LaunchHistory, now: Instant) -> float:
    since = 0.0 if launches.at is None else max(seconds_between(launches.at, now), 0.0)
    return exp(-log(2.0) * since / HALF_LIFE_SECONDS)


def slot_of(at: Instant) -> int:
    """The hour of the week, from 0."""
    when = moment(at)
    return when.weekday() * 24 + when.hour


def _hour(at: Instant) -> int:
    return int(at // 3_600_000_000)


# --- what is expected -------------------------------------------------------------------------------------------------


def queue_seconds(launches: LaunchHistory) -> float:
    """Mean seconds from the request for a node to its launch, in whole minutes. Less than a minute counts as no
    wait."""
    return launches.queued / (launches.starts + STARTS_ASSUMED) // _MINUTE * _MINUTE


def waits(launches: LaunchHistory) -> bool:
    """Whether a wait can be expected at any hour of the week."""
    return queue_seconds(launches) > 0.0 or any(launches.refused)


def expected_wait(launches: LaunchHistory, now: Instant, refused_seconds: float | None = None) -> ExpectedWait:
    """The wait for a node that is asked for at ``now``.

    ``refused_seconds``: how long the pool is expected to go on refusing, judged only by its latest unbroken series of
    refusals; None if the pool is not known to refuse now.

    ``refused_seconds`` is combined with the estimate from the history. The more hours like the present one were seen,
    the more the history counts. If none were seen, the interval is that of a Pareto distribution with exponent 2.
    """
    queued, assumed = queue_seconds(launches), refused_seconds or 0.0
    if not any(launches.refused):
        low, high = (assumed * (chance**-0.5 - 1.0) + queued for chance in (0.95, 0.05))
        return ExpectedWait(assumed + queued, low, high, 0.0, measured=False)
    week = _week(launches, now)
    slot, left = slot_of(now), _HOUR - (now % 3_600_000_000) / 1e6
    seen = week.seen[slot]
    waits = [_wait(week, slot, left, shift, out=refused_seconds is not None) for shift in (0.0, _Z, -_Z)]
    if refused_seconds is not None:
        waits = [_between(wait, refused_seconds, seen) for wait in waits]
    seconds, low, high = (min(wait + queued, LONGEST_SECONDS) for wait in waits)
    return ExpectedWait(seconds, low, high, seen, measured=seen >= MEASURED_HOURS)


def availability(launches: LaunchHistory, now: Instant) -> float:
    """The probability that the pool has a node in this hour of the week."""
    return _week(launches, now).available[slot_of(now)]


@dataclass(frozen=True, slots=True)
class _Week:
    """For each hour of the week: the probability that the pool has a node, its standard deviation, and the number of
    similar hours that were seen."""

    available: tuple[float, ...]
    deviation: tuple[float, ...]
    seen: tuple[float, ...]


def _week(launches: LaunchHistory, now: Instant) -> _Week:
    keep = _kept(launches, now)
    given, refused = sum(launches.given) * keep, sum(launches.refused) * keep
    mean = (given + TRUSTED_HOURS) / (given + refused + TRUSTED_HOURS)
    available, deviation, seen = [], [], []
    for slot in range(SLOTS):
        alike = [day * 24 + slot % 24 for day in (range(5) if slot < 120 else range(5, 7))]
        similar = sum([launches.given[other] for other in alike]) * keep
        similar_refused = sum([launches.refused[other] for other in alike]) * keep
        likely = (similar + SHRINKAGE * mean) / (similar + similar_refused + SHRINKAGE)
        here, here_refused = launches.given[slot] * keep, launches.refused[slot] * keep
        chance = (here + SHRINKAGE * likely) / (here + here_refused + SHRINKAGE)
        available.append(chance)
        seen.append(similar + similar_refused)
        deviation.append(sqrt(chance * (1.0 - chance) / (similar + similar_refused + SHRINKAGE + 1.0)))
    return _Week(tuple(available), tuple(deviation), tuple(seen))


def _wait(week: _Week, slot: int, left: float, shift: float, *, out: bool) -> float:
    """Seconds until the first hour with a node.

    ``left``: remaining seconds of this hour.
    ``shift``: number of standard deviations by which the probability of every hour is increased.
    ``out``: whether this hour has no node.
    """
    chances = [
        min(max(chance + shift * deviation, _LEAST_AVAILABLE), 1.0)
        for chance, deviation in zip(week.available, week.deviation, strict=True)
    ]
    later = 0.0
    for hours in range(_CYCLES * SLOTS, 0, -1):
        later = (1.0 - chances[(slot + hours) % SLOTS]) * (_HOUR + later)
    return (left + later) * (1.0 if out else 1.0 - chances[slot])


def _between(by_hours: float, by_refusals: float, seen: float) -> float:
    """Two estimates of a time, combined on a logarithmic scale. The second estimate has the weight of one hour."""
    return exp((seen * log(max(by_hours, 1.0)) + log(max(by_refusals, 1.0))) / (seen + 1.0))
