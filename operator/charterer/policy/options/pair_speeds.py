"""What two jobs are expected to keep of their speeds on one GPU: what was measured of their classes, or what these have
in common with others. And what a class is expected to keep where a job's node decides with whom it shares its GPU.

Before a pair of classes was measured, a class keeps what it keeps on average, times how much more or less than usual
others keep beside that partner: effects of the own and of the partner's class on the logarithm, the latter shrunk as
if one more partner had no effect. Of another namespace all classes together have one vote about a partner, their
median, and say a factor of ``MOST_EFFECT`` at most: teams need not trust each other. This is multiplied by
``OPTIMISM``, so that pairs are tried of which nobody knows, and the first reports replace it.

Where partners are chosen, a job joins the one with which it saves most. So a class counts on each of the classes that
share GPUs as far as the pair is worth it: the mean of what it keeps or is hoped to keep beside each, weighted by
k_a + k_b − 1, the GPU-hours that an hour of the pair saves. Where none are saved it will not be put.
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
"""The least that a job keeps beside another one, whatever is reported: half of a GPU, and much of that lost."""
MOST_EFFECT = 2.0
OPTIMISM = 1.25
"""Factor on what pairs are expected to keep that were never measured (``tests.bench.sharing --learned``)."""

_MOST_LOG = log(MOST_EFFECT)

Parts = tuple[tuple[str, float], ...]
"""Types of shared GPUs, each with the part that a class is expected to keep there where partners are chosen."""


class ExpectedPart(NamedTuple):
    """The part of its speed alone that a job is expected to keep, and the number of reports that say so; 0: none."""

    kept: float
    reports: int


@dataclass(frozen=True, slots=True, eq=False)
class PairSpeeds:
    """What was measured of pairs on one type of shared GPUs. ``own``: geometric mean of what each class kept;
    ``partner``: logarithms of how many times that classes of each namespace kept beside each class.
    """

    measured: Mapping[tuple[ClassId, ClassId], ExpectedPart]
    own: Mapping[ClassId, float]
    partner: Mapping[ClassId, Mapping[str, Sequence[float]]]

    def kept(self, own: ClassId, beside: ClassId, usual: float) -> ExpectedPart:
        """What ``own`` keeps beside the other class. ``usual``: on average; it counts where no pair of it is known."""
        found = self.measured.get((own, beside))
        if found is not None:
            return found
        return ExpectedPart(min(OPTIMISM * self.own.get(own, usual) * self._effect(own, beside), 1.0), 0)

    def _effect(self, own: ClassId, beside: ClassId) -> float:
        """How many times what it usually keeps a class keeps beside that one."""
        values: list[float] = []
        for namespace, told in self.partner.get(beside, {}).items():
            values += told if namespace == own.namespace else [min(max(median(told), -_MOST_LOG), _MOST_LOG)]
        return exp(sum(values) / (len(values) + 1.0))

    def with_chosen_partners(self) -> Mapping[ClassId, float]:
        """By class with a pair, what it is expected to keep where partners are chosen; none where no pair saves."""
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
    """What the profiles say of pairs on a type of shared GPUs."""
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
    """Whether a job's node decides with whom it shares its GPU: nodes of one GPU for two jobs."""
    offering = pool.offering
    return offering is not None and offering.gpus_per_node == 2 == sharers(slice_profile(offering.gpu_type))


def chosen_parts(
    profiles: Mapping[ClassId, Profile], pools: Iterable[Pool], remember: Remember
) -> Mapping[ClassId, Mapping[str, float]]:
    """By class and type of shared GPUs, the part that it is expected to keep where all pools of the type choose."""
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
