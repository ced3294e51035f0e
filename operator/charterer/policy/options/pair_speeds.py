"""The fractions of their speeds that two jobs on one GPU keep, as measured for the pair of their classes, or else as
expected.

This module also computes the fraction that a class is expected to keep if a job chooses its partner by choosing its
node.

Before a pair of classes was measured, a class is expected to keep its own average fraction, times the effect of the
partner's class. The effect says how much more or less than their averages other classes keep beside the partner's
class. Effects are means of logarithms, shrunk as if one more class had seen no effect. Teams need not trust each
other. So all classes of another namespace together have one vote about a partner: their median, limited to a factor
of ``MOST_EFFECT``. The result is multiplied by ``OPTIMISM``, so that unknown pairs are tried. The first reports of a
pair replace the result.

If partners are chosen, a job joins the partner with which it saves most. So a class is expected to keep a weighted
mean of the fractions that it keeps, or is expected to keep, beside each class that shares GPUs. The weight is k_a +
k_b − 1, the GPU-hours that an hour of the pair saves. A pair that saves no GPU-hours is not formed and has no weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import exp, log
from statistics import median
from typing import NamedTuple

from charterer.domain.ids import ClassId
from charterer.domain.pool import Pool
from charterer.domain.profile import Profile
from charterer.gpu_types import sharers, slice_profile
from charterer.incremental import Remember

LEAST_PART = 0.1
"""The least fraction of its speed that a job is assumed to keep beside another job, whatever is reported. It stands
for half a GPU of which much is lost."""
MOST_EFFECT = 2.0
OPTIMISM = 1.25
"""Factor on the fractions that never measured pairs are expected to keep (``tests.bench.sharing --learned``)."""

_MOST_LOG = log(MOST_EFFECT)

Parts = tuple[tuple[str, float], ...]
"""Types of shared GPUs, each with the fraction that a class is expected to keep there if partners are chosen."""


class ExpectedPart(NamedTuple):
    """The fraction of its speed alone that a job is expected to keep.

    ``reports``: the number of reports behind the fraction.
    """

    kept: float
    reports: int


@dataclass(frozen=True, slots=True, eq=False)
class PairSpeeds:
    """The measurements of pairs on one type of shared GPUs.

    ``measured``: for each class and partner's class, the fraction that the first class keeps.
    ``own``: for each class, the geometric mean of the fractions that it kept.
    ``partner``: for each partner's class and each namespace, the logarithms of the fractions that classes of the
    namespace kept beside the partner's class, each divided by the mean of the class that kept it.
    """

    measured: Mapping[tuple[ClassId, ClassId], ExpectedPart]
    own: Mapping[ClassId, float]
    partner: Mapping[ClassId, Mapping[str, Sequence[float]]]

    def kept(self, own: ClassId, beside: ClassId, usual: float) -> ExpectedPart:
        """The fraction that the class ``own`` keeps beside the other class.

        ``usual``: the average fraction of ``own``, used if no pair of this class is known.
        """
        found = self.measured.get((own, beside))
        if found is not None:
            return found
        return ExpectedPart(min(OPTIMISM * self.own.get(own, usual) * self._effect(own, beside), 1.0), 0)

    def _effect(self, own: ClassId, beside: ClassId) -> float:
        """The factor on the usual fraction of the class ``own`` if its partner is of the class ``beside``."""
        values: list[float] = []
        for namespace, told in self.partner.get(beside, {}).items():
            values += told if namespace == own.namespace else [min(max(median(told), -_MOST_LOG), _MOST_LOG)]
        return exp(sum(values) / (len(values) + 1.0))

    def with_chosen_partners(self) -> Mapping[ClassId, float]:
        """For each class with a pair that saves GPU-hours, the fraction that it is expected to keep if partners are
        chosen."""
        sums: dict[ClassId, tuple[float, float]] = {}
        for one, other in combinations_with_replacement(self.own, 2):
            kept, others = self.kept(one, other, 1.0).kept, self.kept(other, one, 1.0).kept
            saved = kept + others - 1.0
            if saved > 0.0:
                for name, part in {one: kept, other: others}.items():
                    weights, parts = sums.get(name, (0.0, 0.0))
                    sums[name] = weights + saved, parts + saved * part
        return {name: parts / weights for name, (weights, parts) in sums.items()}


def pair_speeds(gpu_type: str, profiles: Iterable[Profile]) -> PairSpeeds:
    """The measurements of pairs on a type of shared GPUs, from the profiles."""
    measured: dict[tuple[ClassId, ClassId], ExpectedPart] = {}
    own: dict[ClassId, float] = {}
    off: dict[ClassId, dict[str, list[float]]] = {}
    for profile in profiles:
        here = [pair for pair in profile.pairs if pair.gpu_type == gpu_type]
        if not here:
            continue
        kept = [min(max(pair.kept, LEAST_PART), 1.0) for pair in here]
        mean = sum([log(part) for part in kept]) / len(here)
        own[profile.id] = exp(mean)
        for pair, part in zip(here, kept, strict=True):
            measured[profile.id, pair.beside] = ExpectedPart(part, pair.reports)
            told = off.setdefault(pair.beside, {}).setdefault(profile.id.namespace, [])
            told.append(log(part) - mean)
    return PairSpeeds(measured, own, off)


def chooses_partner(pool: Pool) -> bool:
    """Whether the choice of a node is the choice of a partner, because the nodes have one GPU that two jobs share."""
    offering = pool.offering
    return offering is not None and offering.gpus_per_node == 2 == sharers(slice_profile(offering.gpu_type))


def chosen_parts(
    profiles: Mapping[ClassId, Profile], pools: Iterable[Pool], remember: Remember
) -> Mapping[ClassId, Mapping[str, float]]:
    """For each class, the fraction that it is expected to keep on each type of shared GPUs on which partners are
    chosen."""
    chooses: dict[str, bool] = {}
    for pool in pools:
        if pool.offering is not None:
            gpu_type = pool.offering.gpu_type
            chooses[gpu_type] = chooses.get(gpu_type, True) and chooses_partner(pool)
    found: dict[ClassId, dict[str, float]] = {}
    for gpu_type in sorted(gpu_type for gpu_type, each in chooses.items() if each):
        speeds = remember(pair_speeds, gpu_type, tuple(profiles.values()))
        for name, part in remember(PairSpeeds.with_chosen_partners, speeds).items():
            found.setdefault(name, {})[gpu_type] = part
    return found
