"""The exchange rate of a budget of which nobody knows how many jobs will come."""

from __future__ import annotations

from math import exp, log, sqrt
from statistics import geometric_mean

from charterer.domain.ids import Rate
from charterer.domain.plan import ArrivalsBasis
from charterer.policy.budgets.arrivals import PRIOR_BATCHES
from charterer.policy.budgets.cost_calibration import CostCalibration
from charterer.policy.budgets.demand import BudgetLoad
from charterer.policy.solve.exchange_rate import BudgetFit, Solution, rates_of_mixtures, solution_at, solve

_QUANTILES = (-1.5341, -0.8871, -0.4888, -0.1573, 0.1573, 0.4888, 0.8871, 1.5341)
"""The middles of eight equal parts of the normal distribution."""
_SIZE_SQUARES = 3.25
"""1 + c²: of jobs whose dollars have a coefficient of variation of c = 1.5."""


def solve_for_plausible_loads(
    load: BudgetLoad, calibration: CostCalibration, horizon: float, allowed: float
) -> Solution:
    """The solution at the geometric mean of the θ that each plausible load would need.

    θ goes with a power of money over load. The hours lost by a θ that is too low by a factor, in percent, are about as
    many as the dollars lost by one that is too high by the same factor; so θ is the mean on a logarithmic scale. The
    jobs to come are f times as expected, where f is lognormal with mean 1 and variance

        u² / (a₀ + e) + (1 + c²) / (N + 1)

    e: batches that were seen; N: jobs to come; u: the part of them that is not declared.
    """
    groups = [(group, calibration.factor(key[0])) for key, group in load.groups.items()]
    demands = [group.demand(kappa, calibration.overhead) for group, kappa in groups]
    expected = solve(demands, allowed)
    coming = horizon * sum(group.arrivals for group, _ in groups)
    declared = horizon * sum(group.arrivals for group, _ in groups if group.basis is ArrivalsBasis.DECLARED)
    if not coming or expected.fit is BudgetFit.INFEASIBLE:
        return expected
    in_sight = [group.demand(kappa, calibration.overhead, coming=0.0).spends for group, kappa in groups]
    unsure = (1.0 - declared / coming) ** 2 / (PRIOR_BATCHES + load.arrivals.batches)
    sigma = sqrt(log(1.0 + unsure + _SIZE_SQUARES / (coming + 1.0)))

    least = min([one.slopes[0] / one.weight for one in demands if one.slopes], default=0.0)
    if not least:
        return expected
    factors = [exp(sigma * quantile - sigma * sigma / 2.0) for quantile in _QUANTILES]
    rates = [max(rate, least) for rate in rates_of_mixtures(demands, in_sight, factors, allowed)]
    if min(rates) == max(rates) == expected.rate:
        return expected
    return solution_at(demands, Rate(geometric_mean(rates)))


def in_sight_fits(load: BudgetLoad, calibration: CostCalibration, allowed: float) -> bool:
    """Whether the money is enough for the jobs in sight on their cheapest options, beside those that are counted on."""
    least = 0.0
    for key, group in load.groups.items():
        sure = 0.0 if group.basis is ArrivalsBasis.ASSUMED else 1.0
        least += group.spend_at(0, calibration.factor(key[0]), calibration.overhead, coming=sure)
    return least <= allowed
