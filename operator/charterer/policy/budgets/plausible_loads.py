"""The exchange rate of a budget of which nobody knows how many jobs will come."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, sqrt

from charterer.domain.ids import Rate
from charterer.domain.plan import ArrivalsBasis
from charterer.policy.budgets.arrivals import PRIOR_BATCHES
from charterer.policy.budgets.cost_calibration import CostCalibration, corrected
from charterer.policy.budgets.demand import BudgetLoad, GroupDemand
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.solve.exchange_rate import BudgetFit, Demand, Solution, solution_at, solve

_QUANTILES = (-1.5341, -0.8871, -0.4888, -0.1573, 0.1573, 0.4888, 0.8871, 1.5341)
"""The middles of eight equal parts of the normal distribution."""
_SIZE_SQUARES = 3.25
"""1 + c²: of jobs whose dollars have a coefficient of variation of c = 1.5."""


def solve_for_plausible_loads(
    load: BudgetLoad, calibration: CostCalibration, horizon: float, allowed: float
) -> Solution:
    """The solution whose θ is the mean of those that each plausible load would need.

    A price is a martingale, and θ goes with a power of money over load, so θ of the mean load would be too low. The
    jobs to come are f times as expected, where f is lognormal with mean 1 and variance

        1 / (a₀ + e) + (1 + c²) / (N + 1)        e: batches that were seen, N: jobs to come
    """
    groups = load.groups.items()
    demands = [spending(key, group, calibration) for key, group in groups]
    parts = [
        group.coming * calibration.factor(key[0]) / (group.load * spend_factor(key, group, calibration) or 1.0)
        for key, group in groups
    ]
    coming = horizon * sum(group.arrivals for _, group in groups)
    variance = 1.0 / (PRIOR_BATCHES + load.arrivals.batches) + _SIZE_SQUARES / (coming + 1.0)
    sigma = sqrt(log(1.0 + variance))

    def at(factor: float) -> Solution:
        scaled = [
            replace(demand, load=demand.load * (1.0 - part + factor * part))
            for demand, part in zip(demands, parts, strict=True)
        ]
        return solve(scaled, allowed)

    expected = at(1.0)
    if not any(parts) or expected.fit is BudgetFit.INFEASIBLE:
        return expected
    rates = [at(exp(sigma * quantile - sigma * sigma / 2.0)).rate for quantile in _QUANTILES]
    if min(rates) == max(rates) == expected.rate:
        return expected
    return solution_at(demands, Rate(sum(rates) / len(rates)))


def in_sight_fits(load: BudgetLoad, calibration: CostCalibration, allowed: float) -> bool:
    """Whether the money is enough for the jobs in sight on their cheapest options, beside those that are counted on."""
    least = 0.0
    for key, group in load.groups.items():
        sure = group.coming * calibration.factor(key[0]) if group.basis is not ArrivalsBasis.ASSUMED else 0.0
        least += (sure + group.standing * calibration.overhead) * group.hull.money[0]
    return least <= allowed


def spend_factor(key: GroupKey, group: GroupDemand, calibration: CostCalibration) -> float:
    """Dollars paid for each dollar of the group's demand. κ corrects jobs to come; those in sight say what is left."""
    load = group.load
    if not load:
        return calibration.factor(key[0])
    return (group.coming * calibration.factor(key[0]) + group.standing * calibration.overhead) / load


def spending(key: GroupKey, group: GroupDemand, calibration: CostCalibration) -> Demand:
    """The group's demand as the solver sees it, corrected to the dollars that are really paid."""
    return corrected(group.demand(), spend_factor(key, group, calibration))
