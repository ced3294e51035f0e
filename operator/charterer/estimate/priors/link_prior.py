"""How long synchronising takes, from the number of a model's parameters and from other classes on the same GPU type.

Gradients are as large as the model, so what differs between classes is mostly that: the seconds of α_l and of α_n are a
number of the link of a GPU type times the parameters, within a factor of e^``MODEL_SPREAD``. A class that is faster
than its size says on one of the links is so on the other: it sends its gradients in fewer bytes, or while it computes.
Before anything ran over a link, nothing is known of it that ``prior.BASE`` does not say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import median
from typing import Final

from charterer.estimate.priors.votes import Told, vote
from charterer.estimate.throughput import LinearPrior, Normal, StepTimeFit, Unknown

MODEL_SPREAD: Final = 0.45
"""How far the logarithms of seconds a parameter differ between classes on one link: Gavel's jobs on P100
(``tests.bench.search``)."""
ALIKE: Final = 0.91
"""Correlation of what a class is off on the two links, from the same jobs."""
SYNCS: Final = (Unknown.LOCAL_SYNC, Unknown.NODE_SYNC)


@dataclass(frozen=True, slots=True)
class MeasuredLink:
    """What a class says of the links of a GPU type: log seconds a parameter, with its variance, by unknown."""

    per_parameter: Mapping[Unknown, Normal]

    @classmethod
    def of(cls, parameters: float, fit: StepTimeFit) -> MeasuredLink:
        """From the fit to a class's reports."""
        compute = Unknown.COMPUTE
        return cls(
            {
                sync: (
                    fit.unknowns[sync] + fit.unknowns[compute] - log(parameters),
                    float(
                        fit.covariance[sync, sync]
                        + fit.covariance[compute, compute]
                        + 2.0 * fit.covariance[sync, compute]
                    ),
                )
                for sync in SYNCS
            }
        )


def sync_priors(
    parameters: float | None, prior: Sequence[Normal], measured: Told[MeasuredLink]
) -> Mapping[Unknown, LinearPrior]:
    """A prior of the log seconds of α_l and α_n where it is surer than ``prior``, of their ratios to computing.

    A link's own number is the mean of what classes showed, each weighted by its precision.
    """
    if parameters is None:
        return {}
    found: dict[Unknown, Normal] = {}
    for sync in SYNCS:
        values = [link.per_parameter[sync] for link in measured.own]
        (ratio, variance), (compute, _) = prior[sync], prior[Unknown.COMPUTE]
        expected = ratio + compute - log(parameters), variance
        for links in measured.others:
            told = [link.per_parameter[sync] for link in links]
            values.append((vote([value for value, _ in told], expected), median([known for _, known in told])))
        weights = [1.0 / (MODEL_SPREAD**2 + variance) for _, variance in values]
        if not weights:
            continue
        mean = sum(weight * value for weight, (value, _) in zip(weights, values, strict=True)) / sum(weights)
        variance = 1.0 / sum(weights) + MODEL_SPREAD**2
        if variance < prior[sync][1]:
            found[sync] = mean + log(parameters), variance
    sums = {sync: LinearPrior({sync: 1.0, Unknown.COMPUTE: 1.0}, normal) for sync, normal in found.items()}
    if len(found) == len(SYNCS):
        sums[Unknown.NODE_SYNC] = _given_local(found[Unknown.LOCAL_SYNC], found[Unknown.NODE_SYNC])
    return sums


def _given_local(local: Normal, node: Normal) -> LinearPrior:
    """α_n given α_l: what a class does faster than its size says on one link, it does on the other."""
    common = ALIKE * MODEL_SPREAD**2
    slope = common / local[1]
    slopes = {Unknown.NODE_SYNC: 1.0, Unknown.LOCAL_SYNC: -slope, Unknown.COMPUTE: 1.0 - slope}
    return LinearPrior(slopes, (node[0] - slope * local[0], node[1] - slope * common))
