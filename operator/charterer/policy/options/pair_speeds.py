"""What two jobs are expected to keep of their speeds on one GPU: what was measured of their classes, or what these have
in common with others.

Before a pair of classes was measured, a class keeps what it keeps on average, times how much more or less than usual
others keep beside that partner: effects of the own and of the partner's class on the logarithm, the latter shrunk as if
one more partner had no effect. This is multiplied by ``OPTIMISM``, so that pairs are tried of which nobody knows, and
the first reports replace it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp, log
from typing import NamedTuple

from charterer.domain.ids import ClassId
from charterer.domain.profile import Profile

OPTIMISM = 1.25
"""Factor on what pairs are expected to keep that were never measured (``tests.bench.sharing --learned``)."""


class ExpectedPart(NamedTuple):
    """The part of its speed alone that a job is expected to keep, and the number of reports that say so; 0: none."""

    kept: float
    reports: int


@dataclass(frozen=True, slots=True, eq=False)
class PairSpeeds:
    """What was measured of pairs on one type of shared GPUs. ``own``: mean logarithm of what each class kept;
    ``partner``: by how much the logarithm is more than that beside each class.
    """

    measured: Mapping[tuple[ClassId, ClassId], ExpectedPart]
    own: Mapping[ClassId, float]
    partner: Mapping[ClassId, float]

    def kept(self, own: ClassId, beside: ClassId, usual: float) -> ExpectedPart:
        """What ``own`` keeps beside the other class. ``usual``: on average, where no pair of it is known."""
        found = self.measured.get((own, beside))
        if found is not None:
            return found
        mean = self.own.get(own, log(usual))
        return ExpectedPart(min(OPTIMISM * exp(mean + self.partner.get(beside, 0.0)), 1.0), 0)


def pair_speeds(gpu_type: str, profiles: Iterable[Profile]) -> PairSpeeds:
    """What the profiles say of pairs on a type of shared GPUs."""
    measured: dict[tuple[ClassId, ClassId], ExpectedPart] = {}
    own: dict[ClassId, float] = {}
    off: dict[ClassId, list[float]] = {}
    for profile in profiles:
        here = [pair for pair in profile.pairs if pair.gpu_type == gpu_type]
        if not here:
            continue
        mean = own[profile.id] = sum([log(pair.kept) for pair in here]) / len(here)
        for pair in here:
            measured[profile.id, pair.beside] = ExpectedPart(min(pair.kept, 1.0), pair.reports)
            off.setdefault(pair.beside, []).append(log(pair.kept) - mean)
    return PairSpeeds(measured, own, {name: sum(each) / (len(each) + 1.0) for name, each in off.items()})
