"""Which nodes to rent for a width, where pools sell nodes of several sizes with the same GPUs.

The marginal bill of a narrow job is its part of a node, whatever the node's size; what differs is how many GPUs a new
node would leave unused. So the smallest node that the job fits into is rented, and a job that fits into none gets as
few nodes as there can be.
"""

from __future__ import annotations

from collections.abc import Sequence

from charterer.domain.option import Option
from charterer.domain.pool import CapacityType
from charterer.policy.options.market import Market, PoolOffer


def kind(offer: PoolOffer) -> tuple[str, CapacityType, str]:
    """The key of pools whose nodes differ by their size alone."""
    return offer.gpu_type, offer.capacity_type, offer.resource


def fit(option: Option, market: Market) -> tuple[int, int]:
    """How well an option fits its nodes, the smaller the better: its nodes, then the GPUs of one."""
    size = market.offers[option.pool].gpus_per_node
    return max(option.takes // size, 1), size


def best_fit_first(options: Sequence[Option], market: Market) -> Sequence[Option]:
    """The options, best first, with the one in front that fits best of those like the first.

    Those have its width on GPUs of its kind, and are as fast for no more money.
    """
    first = options[0]
    alike = [
        option
        for option in options
        if option.gpus == first.gpus and option.price <= first.price and option.speed >= first.speed
        if kind(market.offers[option.pool]) == kind(market.offers[first.pool])
    ]
    best = min(alike, key=lambda option: fit(option, market))
    return options if best is first else [best, *(option for option in options if option is not best)]
