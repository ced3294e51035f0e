"""What an hour of a job may cost where its budget does not say: a multiple of what an hour of it costs as asked for.

    γ = 5 · k · max_p c'_p,   c'_p = min(c_p, 4 · c_q)      k: the GPUs that its owner prefers, c_p: a GPU's price in
                                                            pool p, q: the cheapest pool whose GPUs are at least as
                                                            fast as those of p

What a job's time is worth does not depend on what the cheapest node costs: a cheap pool that is added, or becomes
cheaper, leaves γ where it is, so that jobs do not become slower in the other pools while money is left. A pool that is
dearer than one as fast counts for four times that price at most, as on-demand nodes beside spot nodes do: a pool of an
absurd price does not make every job's time absurdly dear. Pools that never gave a node are not among the options
here (``menu``): the price of what nobody can have says nothing of what time is worth.

Nodes that are paid for whether they are used or not count with what they are paid with: the time of a job is worth as
much beside them.

For the same reason the load that an amount of money was made for is measured with these prices (``usual_dollars``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from charterer.domain.ids import PoolId, Rate
from charterer.domain.option import Option

FACTOR = 5.0
"""Dollars paid at most to end a job an hour earlier, as a multiple of an hour of it as asked for."""
_DEARER = 4.0
"""Multiple of the price of GPUs as fast up to which a pool's price counts: spot nodes cost a quarter or more."""


def default_ceiling(options: Iterable[Option], preferred: int) -> Rate:
    """Dollars that a second of a job of weight 1 may cost where its budget does not say; 0 without options."""
    return Rate(FACTOR * preferred * max(_counted_prices(options, preferred).values(), default=0.0))


def usual_dollars(options: Sequence[Option], preferred: int) -> float:
    """Dollars for a second's work of the reference option at its cheapest width, in the pool where that is dearest."""
    prices = _counted_prices(options, preferred)
    least: dict[PoolId, float] = {}
    for option in options:
        dollars = prices[option.pool] * option.takes / option.speed
        least[option.pool] = min(dollars, least.get(option.pool, dollars))
    return max(least.values(), default=0.0)


def _counted_prices(options: Iterable[Option], preferred: int) -> Mapping[PoolId, float]:
    """c', dollars a second of a GPU."""
    asked: dict[PoolId, Option] = {}
    for option in options:
        other = asked.get(option.pool)
        if other is None or abs(option.gpus - preferred) < abs(other.gpus - preferred):
            asked[option.pool] = option
    gpus = {
        pool: (each.paid_price.dollars_per_second / each.takes, each.speed / each.gpus) for pool, each in asked.items()
    }
    return {
        pool: min(price, _DEARER * min(other for other, fast in gpus.values() if fast >= speed))
        for pool, (price, speed) in gpus.items()
    }
