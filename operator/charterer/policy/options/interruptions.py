"""The effective speed of an option whose nodes the cloud takes back (docs/theory/policy.md).

A job on n nodes is interrupted Λ = h·(q + (1 − q)·n) times an hour, where h is the mean rate of a node over the job's
own length and q the fraction of deaths that take all nodes of a pool. It writes a checkpoint of δ seconds every
τ = √(2δ/Λ) (Young 1974), loses what it did since the last one, restarts in r and boots a node in T. The effective speed
is the fraction φ of the time in which it gains work that is not lost. Its nodes are paid for throughout, so that one
factor is enough for time and money. An event simulation agrees to 1 % where φ is above one half.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, expm1, log, sqrt
from typing import Final, NamedTuple

from charterer.domain.nodes.hazard import Hazard
from charterer.domain.option import Interruptions
from charterer.estimate.nodes.hazard import LONGEST_HOURS, events_at_ages, events_per_hour, mean_rate

DEFAULT_CHECKPOINT_SECONDS: Final = 30.0
"""Seconds to write a checkpoint, for classes that have not reported any: some gigabytes to a network file system."""
LONGEST_INTERVAL_SECONDS: Final = 7200.0
"""Seconds between two checkpoints at most: what is lost to a fault of the job itself is bounded, too."""
LEAST_INTERVAL: Final = 10.0
"""Multiple of a checkpoint's seconds below which an interval never falls: a tenth of the time is enough for them."""
NOTICE_SECONDS: Final = 20.0
"""Seconds in which a checkpoint can be written after a notice: the shortest of clouds is 30, and a trainer hears of it
within 10."""
_LEAST_SURPRISING: Final = 0.05
_LEAST_WRITE_SECONDS: Final = 0.5
"""A checkpoint that takes no time at all is written every few minutes nevertheless."""
LEAST_KEPT: Final = 1e-3
"""Fraction of its speed that every option keeps, so that figures stay finite; nobody chooses one at so little."""
_GRID: Final = log(1.05)
"""Rates are read on a grid of 5 %: they fall with every second without a death, and menus are made anew for a new one.
A rate that is wrong by this much costs less than 0.1 %."""
_JOINT_GRID: Final = 20.0
_SECONDS: Final = 3600.0


class NodeHazard(NamedTuple):
    """A pool's hazard as far as options depend on it: ``Hazard``'s ``rates``, ``joint`` and ``measured``, rounded."""

    rates: tuple[float, ...]
    joint: float
    measured: bool


def node_hazard(hazard: Hazard | None) -> NodeHazard | None:
    """The rounded hazard; None where no node is expected to be taken back."""
    if hazard is None or hazard.never:
        return None
    rates = tuple([exp(round(log(rate) / _GRID) * _GRID) if rate > 0.0 else 0.0 for rate in hazard.rates])
    return NodeHazard(rates, round(hazard.joint * _JOINT_GRID) / _JOINT_GRID, hazard.measured)


def checkpoint_interval(write_seconds: float, per_hour: float) -> float:
    """Seconds of training between two checkpoints that lose the least, with ``per_hour`` interruptions."""
    best = sqrt(2.0 * write_seconds * _SECONDS / per_hour) if per_hour > 0.0 else LONGEST_INTERVAL_SECONDS
    return min(max(best, LEAST_INTERVAL * write_seconds), max(LONGEST_INTERVAL_SECONDS, LEAST_INTERVAL * write_seconds))


def advised_checkpoint_interval(hazard: Hazard, ages: Sequence[float], write_seconds: float | None) -> float:
    """Seconds of training after which a run should save again, told to its trainer. ``ages``: of its nodes, in hours.

    Where a checkpoint fits into the shortest notice that clouds give, only deaths without one lose work. A twentieth
    counts as such at least. ``write_seconds``: None where the trainer has not said.
    """
    seconds = max(DEFAULT_CHECKPOINT_SECONDS if write_seconds is None else write_seconds, _LEAST_WRITE_SECONDS)
    surprising = max(1.0 - hazard.announced, _LEAST_SURPRISING) if seconds <= NOTICE_SECONDS else 1.0
    return checkpoint_interval(seconds, events_at_ages(hazard, ages) * surprising)


class RunTimes(NamedTuple):
    """Seconds: to write a checkpoint, to restart, to boot a node."""

    checkpoint: float
    restart: float
    boot: float


def interruptions(
    hazard: NodeHazard, nodes: int, seconds: float | None, times: RunTimes, narrower: float | None
) -> Interruptions:
    """The effect of interruptions on a job of ``seconds`` on that many nodes; None: of unknown length.

    ``narrower``: the speed with one node less, as a fraction of the speed with all; None where it cannot run so.
    """
    rate = mean_rate(hazard.rates, LONGEST_HOURS if seconds is None else seconds / _SECONDS)
    per_hour = events_per_hour(rate, hazard.joint, nodes)
    waiting = waiting_speed(per_hour, times)
    kept = waiting
    if nodes > 1 and narrower is not None:
        alone = (1.0 - hazard.joint) * nodes
        shrinking = max(waiting, shrinking_speed(per_hour, times, narrower))
        kept = (alone * shrinking + hazard.joint * waiting) / (alone + hazard.joint)
    interval = checkpoint_interval(times.checkpoint, per_hour)
    return Interruptions(
        rate, hazard.joint, per_hour, interval, times.checkpoint, max(kept, LEAST_KEPT), hazard.measured
    )


def waiting_speed(per_hour: float, times: RunTimes) -> float:
    """φ of a job that waits for a new node: (3) of the theory page."""
    rate = per_hour / _SECONDS
    if rate <= 0.0:
        return 1.0
    interval = _interval(rate, times)
    segment = rate * (interval + times.checkpoint)
    again = exp(-rate * (times.boot + times.restart) - segment)
    return rate * interval * again / -expm1(-segment)


def shrinking_speed(per_hour: float, times: RunTimes, narrower: float) -> float:
    """φ of a job that goes on with one node less until the new one is there: (4) of the theory page.

    ``narrower``: as in ``interruptions``; above 1 it counts as 1, or a curve that falls would gain by each death.
    """
    rate = per_hour / _SECONDS
    if rate <= 0.0:
        return 1.0
    interval = _interval(rate, times)
    away = max(times.boot - times.restart, 0.0)
    stalled = times.restart + (times.restart + times.checkpoint) * exp(-rate * away)
    segment = rate * (interval + times.checkpoint)
    undisturbed = exp(-segment - rate * stalled)
    slower = rate * away * (1.0 - min(narrower, 1.0))
    return undisturbed / (-expm1(-segment) / (rate * interval) + slower * undisturbed)


def goes_on(narrower: float, wait: float, restart: float, write_seconds: float) -> bool:
    """Whether a job that lost nodes gains by running on the others until new ones are ready: σ·(T − r) > δ.

    ``narrower``: its speed there, as a fraction of the speed with all; ``wait``: seconds until all are ready.
    """
    return narrower * (wait - restart) > write_seconds


def _interval(rate: float, times: RunTimes) -> float:
    """The interval that counts in a speed. It has no upper end, so that a rate of nothing costs nothing."""
    return max(sqrt(2.0 * times.checkpoint / rate), LEAST_INTERVAL * times.checkpoint, 1.0)
