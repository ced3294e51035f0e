"""The widths at which learned curves have points, and those that jobs may be planned by."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp

from charterer.domain.profile import TRIAL_STEP, CurveSource
from charterer.estimate.learned import Entry, Learned

_NODES = (1, 2, 3, 4, 6)
"""Numbers of nodes at which a curve has points, each also times 2, 4, 8, …: between them it is read linearly."""


def curve_widths(widths: Iterable[int], node_gpus: int) -> list[int]:
    """The widths at which a curve has points: all below a node of ``node_gpus`` GPUs, and round numbers of nodes."""
    return [gpus for gpus in widths if gpus < node_gpus or _round(gpus // node_gpus)]


def _round(nodes: int) -> bool:
    while nodes % 2 == 0 and nodes not in _NODES:
        nodes //= 2
    return nodes in _NODES


def plannable_widths(learned: Learned, ran: Mapping[str, Sequence[int]], declared: Collection[str] = ()) -> Learned:
    """Learned curves at the widths that jobs may be planned by. ``ran``: widths that ran, ascending, by GPU type.

    No width is wider than ``TRIAL_STEP`` times the widest that ran; on a GPU type that the class never ran on, none is
    wider than that one. A declared curve lifts both limits, and a class that never ran has neither: its jobs have one
    of their own (``policy.options.sources``). The speed of a GPU type that it never ran on is uncertain as a whole, and
    counts for the expected time: seconds are lognormal, so their mean is exp(v/2) times their median.
    """
    if not ran and not learned.reports:
        return learned
    widest = max((widths[-1] for widths in ran.values() if widths), default=0)
    return replace(
        learned,
        learned_phases=tuple(
            replace(phase, entries=_plannable(phase.entries, widest, ran, declared)) for phase in learned.learned_phases
        ),
    )


def _plannable(
    entries: Iterable[Entry], widest: int, ran: Collection[str], declared: Collection[str]
) -> tuple[Entry, ...]:
    allowed = [
        entry
        for entry in entries
        if entry.gpu_type in declared or entry.gpus <= widest * (TRIAL_STEP if entry.gpu_type in ran else 1)
    ]
    least_variance: dict[str, float] = {}
    for entry in allowed:
        if entry.gpu_type not in ran and entry.source is not CurveSource.DECLARED:
            variance = entry.variance
            least_variance[entry.gpu_type] = min(least_variance.get(entry.gpu_type, variance), variance)
    slower = {gpu_type: exp(-variance / 2.0) for gpu_type, variance in least_variance.items()}
    return tuple(_slower(entry, slower.get(entry.gpu_type, 1.0)) for entry in allowed)


def _slower(entry: Entry, factor: float) -> Entry:
    goodput = entry.goodput * factor
    return replace(entry, goodput=goodput, low=min(entry.low, goodput))
