"""The rate at which a pool's nodes are taken back, learned from its nodes (docs/theory/estimation.md, section 8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import exp, expm1
from typing import Final

from charterer.domain.pool import BAND_ENDS, CapacityType, EndedNode, Hazard, NodeLifetimes, band_of
from charterer.domain.time import Instant, seconds_between

LONGEST_HOURS: Final = 24.0
"""Longest part of a node's life, in hours, over which the mean rate is taken. No job expects to keep a spot node for
longer."""
TOGETHER_SECONDS: Final = 300.0
"""Seconds within which deaths in one pool count as one event. Of the pairs of Google's machines that started
together, half died within this time of each other. Of pairs with shuffled lifetimes, a tenth did."""
HALF_LIFE_SECONDS: Final = 30 * 86_400.0
"""Seconds after which evidence counts half: a month, over which AWS too averages the figures of its Spot advisor."""
_SHAPE: Final = 1.14
"""Weight, in events, of the prior of a spot pool. The pool's mean rate has the same weight as the prior of each band
of ages."""
_SPOT_HOURS: Final = 8.9
"""Number of node-hours that the prior of a spot pool counts as."""
_ON_DEMAND_HOURS: Final = 168.0
"""Weight of an on-demand pool's prior, in node-hours without a death. One death in the pool's first hours is more
likely bad luck than a rate, and a second death doubles the estimate. In a cluster of 16,384 GPUs of Meta, one machine
failed in 6,000 node-hours."""
_JOINT_WEIGHT: Final = 10.0
"""Weight, in deaths, of the prior of q (``Hazard.joint``). The prior mean is 1/2, which was measured elsewhere."""
_ANNOUNCED_WEIGHT: Final = 2.0
"""Weight, in deaths, of the prior that the cloud gives no notice of a death."""
_TAIL: Final = 0.05


def with_ended(lifetimes: NodeLifetimes, node: EndedNode) -> NodeLifetimes:
    """The lifetimes with one more node; unchanged if the node is counted already."""
    if node.uid in lifetimes.counted:
        return lifetimes
    aged = replace(_aged(lifetimes, node.at), ordinal=max(lifetimes.ordinal, node.ordinal))
    hours = tuple(before + more for before, more in zip(aged.hours, hours_by_band(node.hours), strict=True))
    counted = (*aged.counted, node.uid)
    if not node.taken:
        return replace(aged, hours=hours, counted=counted)
    recent = tuple([at for at in aged.recent if abs(seconds_between(at, node.at)) <= TOGETHER_SECONDS])
    others, band = node.others + len(recent), band_of(node.hours)
    return replace(
        aged,
        hours=hours,
        counted=counted,
        deaths=tuple(died + (at == band) for at, died in enumerate(aged.deaths)),
        events=aged.events + (not recent),
        shared=aged.shared + (others > 0),
        joint=aged.joint + (2.0 * len(recent) / others if others else 0.0),
        announced=aged.announced + node.announced,
        recent=(*recent, node.at),
    )


def without_rentals(lifetimes: NodeLifetimes, there: Iterable[str]) -> NodeLifetimes:
    """The lifetimes without the uids of counted rentals whose objects no longer exist. ``there``: the uids that still
    exist."""
    known = frozenset(there)
    return replace(lifetimes, counted=tuple([uid for uid in lifetimes.counted if uid in known]))


def hazard(
    lifetimes: NodeLifetimes, running_hours: Sequence[float], now: Instant, capacity_type: CapacityType
) -> Hazard:
    """The pool's hazard as estimated at ``now``. ``running_hours``: the ages of the present nodes, in hours."""
    seen = _aged(lifetimes, now)
    bands = [hours_by_band(hours) for hours in running_hours]
    hours = [spent + sum(band[at] for band in bands) for at, spent in enumerate(seen.hours)]
    deaths, exposure = sum(seen.deaths), sum(hours)
    spot = capacity_type is CapacityType.SPOT
    shape, weight = (_SHAPE, _SPOT_HOURS) if spot else (0.0, _ON_DEMAND_HOURS)
    together = max(deaths / seen.events, 1.0) if seen.events > 0.0 else 1.0
    events, event_hours = shape + deaths / together, weight + exposure / together
    overall = events / event_hours
    rates = [
        (_SHAPE + died) / (_SHAPE / overall + spent) if overall > 0.0 else 0.0
        for died, spent in zip(seen.deaths, hours, strict=True)
    ]
    low, high = _interval(events, event_hours)
    return Hazard(
        rates=tuple(rates),
        joint=min((_JOINT_WEIGHT / 2.0 + seen.joint) / (_JOINT_WEIGHT + seen.shared), 1.0),
        announced=seen.announced / (_ANNOUNCED_WEIGHT + deaths),
        overall=overall,
        low=low,
        high=high,
        deaths=deaths,
        node_hours=exposure,
    )


def _interval(events: float, hours: float) -> tuple[float, float]:
    """The 90 % interval of an hourly rate, from the number of events in ``hours``.

    scipy is imported here, so that commands that only show help do not wait for the import.
    """
    from scipy.special import gammaincinv

    low = float(gammaincinv(events, _TAIL)) if events > 0.0 else 0.0
    high = float(gammaincinv(max(events, 1.0), 1.0 - _TAIL))
    return low / hours, high / hours


def _aged(lifetimes: NodeLifetimes, now: Instant) -> NodeLifetimes:
    """The lifetimes with their weights decayed up to ``now``; unchanged if ``now`` is earlier than their own time."""
    if lifetimes.at is None or now <= lifetimes.at:
        return replace(lifetimes, at=lifetimes.at or now)
    keep = 0.5 ** (seconds_between(lifetimes.at, now) / HALF_LIFE_SECONDS)
    return replace(
        lifetimes,
        deaths=tuple(died * keep for died in lifetimes.deaths),
        hours=tuple(hours * keep for hours in lifetimes.hours),
        events=lifetimes.events * keep,
        shared=lifetimes.shared * keep,
        joint=lifetimes.joint * keep,
        announced=lifetimes.announced * keep,
        at=now,
    )


def hours_by_band(hours: float) -> tuple[float, ...]:
    """The node-hours that a node of that age has spent in each band."""
    spent, begin = [], 0.0
    for end in BAND_ENDS:
        spent.append(max(min(hours, end) - begin, 0.0))
        begin = end
    return tuple(spent)


# --- what follows from a hazard --------------------------------------------------------------------------------------


def mean_rate(rates: Sequence[float], hours: float) -> float:
    """Deaths per node-hour over a new node's first ``hours``, at most a day: ∫h·S ÷ ∫S, with h the rate and S the
    chance to live that long."""
    until = min(hours, LONGEST_HOURS)
    alive, lived, begin = 1.0, 0.0, 0.0
    if until <= 0.0:
        return rates[0]
    for rate, end in zip(rates, BAND_ENDS, strict=True):
        span = min(end, until) - begin
        if span <= 0.0:
            break
        lived += alive * (span if rate * span < 1e-9 else -expm1(-rate * span) / rate)
        alive *= exp(-rate * span)
        begin = end
    return (1.0 - alive) / lived


def events_at_ages(hazard: Hazard, ages: Sequence[float]) -> float:
    """Interruptions an hour of a job on nodes of these ages, in hours."""
    rate = sum(hazard.at_age(hours) for hours in ages) / len(ages) if ages else 0.0
    return events_per_hour(rate, hazard.joint, len(ages))


def events_per_hour(rate: float, joint: float, nodes: int) -> float:
    """Interruptions an hour of a job on ``nodes`` nodes that die at ``rate`` each: h·(q + (1 − q)·n)."""
    return rate * (joint + (1.0 - joint) * nodes)
