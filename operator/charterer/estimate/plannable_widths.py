"""What of a learned class jobs may be planned by, and at which widths its curves have points."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp

from charterer.domain.profile import TRIAL_STEP, CurveSource
from charterer.estimate.learned import Entry, Learned

_NODES = (1, 2, 3, 4, 6)
"""Numbers of nodes that a curve has points at, each also times 2, 4, 8, …: between them it is read linearly."""


def curve_widths(widths: Iterable[int], node_gpus: int) -> list[int]:
    """Those of the widths that a curve has points at: all below a node of so many GPUs, and round numbers of nodes."""
    return [gpus for gpus in widths if gpus < node_gpus or _round(gpus // node_gpus)]


def _round(nodes: int) -> bool:
    while nodes % 2 == 0 and nodes not in _NODES:
        nodes //= 2
    return nodes in _NODES


def plannable_widths(learned: Learned, ran: Mapping[str, Sequence[int]], declared: Collection[str] = ()) -> Learned:
    """Without what jobs may not be planned by. ``ran``: the widths that the class ran on, ascending, by GPU type.

    Not wider than ``TRIAL_STEP`` times what has run, and on a GPU type that the class never ran on not wider than what
    has, unless somebody declared a curve for it. How fast such a type is as a whole is not known, and counts for what
    it is expected to take: seconds are lognormal, so their mean is exp(v/2) times their median.
    """
    widest = max((widths[-1] for widths in ran.values() if widths), default=0)
    return replace(
        learned,
        learned_phases=tuple(
            replace(stretch, entries=_offered(stretch.entries, widest, ran, declared))
            for stretch in learned.learned_phases
        ),
    )


def _offered(
    entries: Iterable[Entry], widest: int, ran: Collection[str], declared: Collection[str]
) -> tuple[Entry, ...]:
    known = [
        one
        for one in entries
        if one.gpu_type in declared or one.gpus <= widest * (TRIAL_STEP if one.gpu_type in ran else 1)
    ]
    doubt: dict[str, float] = {}
    for one in known:
        if one.gpu_type not in ran and one.source is not CurveSource.DECLARED:
            doubt[one.gpu_type] = min(doubt.get(one.gpu_type, one.variance), one.variance)
    slower = {gpu_type: exp(-variance / 2.0) for gpu_type, variance in doubt.items()}
    return tuple(_slower(one, slower.get(one.gpu_type, 1.0)) for one in known)


def _slower(entry: Entry, factor: float) -> Entry:
    goodput = entry.goodput * factor
    return replace(entry, goodput=goodput, low=min(entry.low, goodput))
