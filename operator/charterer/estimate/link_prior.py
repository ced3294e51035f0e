"""How long synchronising takes, from the number of a model's parameters and from other classes on the same GPU type.

Gradients are as large as the model, so what differs between classes is mostly that (CM-DARE and Pollux regress on it,
too): the seconds of α_l and of α_n are a number of the link of a GPU type times the parameters, within a factor of
e^``MODEL_SPREAD``. Before anything ran over a link, nothing is known of it that ``prior.BASE`` does not say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

from charterer.estimate.throughput import Normal, StepTimeFit, Unknown

MODEL_SPREAD: Final = 0.45
"""How far the logarithms of seconds a parameter differ between classes on one link: Gavel's jobs on P100
(``tests.bench.predict``)."""
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


def sync_seconds(
    parameters: float | None, prior: Sequence[Normal], measured: Iterable[MeasuredLink]
) -> Mapping[Unknown, Normal]:
    """Log seconds of α_l and α_n, where that is surer than ``prior``, which has their ratios to computing.

    The link's own number is the mean of what classes showed, each weighted by its precision.
    """
    if parameters is None:
        return {}
    links = list(measured)
    found: dict[Unknown, Normal] = {}
    for sync in SYNCS:
        values = [link.per_parameter[sync] for link in links]
        weights = [1.0 / (MODEL_SPREAD**2 + variance) for _, variance in values]
        if not weights:
            continue
        mean = sum(weight * value for weight, (value, _) in zip(weights, values, strict=True)) / sum(weights)
        variance = 1.0 / sum(weights) + MODEL_SPREAD**2
        if variance < prior[sync][1]:
            found[sync] = mean + log(parameters), variance
    return found
