"""How fast GPU types are assumed to be for jobs of which nothing is measured: by data sheets, and without one by price.

A type without a data sheet is guessed to do as much work for a dollar as the known types of its market do, in the
geometric mean: what sells at twice the price of a GPU-hour is twice as fast. In Google's price list that ships with
Charterer GPU-hours differ by a factor of eleven in their price, and by 1.4 in the work for a dollar. The guess is
bounded by the fastest known type, because a price alone is no reason to expect more than anybody has measured; it is
not bounded from below, so a cheap type looks slow, not like a bargain. So it never looks cheaper than the best known
type of its market, and is chosen where that is full, or where its pace lies between those of the others and an hour is
worth that much. The interval is the widest: from what the slowest known type does at worst to the fastest. The first
run that reports puts an end to the guess.

If no type is known, nothing says what a dollar buys. All types count as equally fast, and the cheapest is begun with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, fsum, log

from charterer.domain.money import Price
from charterer.domain.pool import CapacityType
from charterer.gpu_types import RelativeSpeed, compute_part, relative_speeds, slice_speed
from charterer.policy.options.market import PoolOffer


def assumed_speeds(offers: Sequence[tuple[PoolOffer, Price]]) -> Mapping[str, RelativeSpeed]:
    """The speed of every type that is offered, relative to the fastest known one, or to whole GPUs if none is known."""
    types = sorted({offer.gpu_type for offer, _ in offers})
    known = relative_speeds(types)
    slowest = min((speed.low for speed in known.values()), default=0.0)
    guesses = {each: _guess(each, known, offers) for each in types if each not in known}
    return {**known, **{each: RelativeSpeed(guess, min(guess, slowest), 1.0) for each, guess in guesses.items()}}


def _guess(gpu_type: str, known: Mapping[str, RelativeSpeed], offers: Sequence[tuple[PoolOffer, Price]]) -> float:
    hourly = _one_market(gpu_type, known, offers)
    # Work for a dollar: of a slice as of its whole GPU, of which it costs as large a part as it has compute units.
    for_a_dollar = [
        log(speed.estimate / slice_speed(each) * compute_part(each) / hourly[each])
        for each, speed in known.items()
        if each in hourly
    ]
    if not for_a_dollar or gpu_type not in hourly:  # no type is known, or a price of zero says nothing
        return slice_speed(gpu_type)
    whole = exp(fsum(for_a_dollar) / len(for_a_dollar)) * hourly[gpu_type] / compute_part(gpu_type)
    return min(whole * slice_speed(gpu_type), 1.0)


def _one_market(
    gpu_type: str, known: Mapping[str, RelativeSpeed], offers: Sequence[tuple[PoolOffer, Price]]
) -> Mapping[str, float]:
    """The prices of a GPU-hour by type: on demand if this type and a known one are sold so, otherwise as spot."""
    for capacity in CapacityType:
        # A discount for being taken back is no sign of a slow GPU, so a spot price is not held against others.
        hourly = _hourly([(offer, price) for offer, price in offers if offer.capacity_type is capacity])
        if gpu_type in hourly and any(each in hourly for each in known):
            return hourly
    return _hourly(offers)


def _hourly(offers: Sequence[tuple[PoolOffer, Price]]) -> Mapping[str, float]:
    """The lowest price of a GPU-hour by type, in micro-dollars; of nodes that are paid for anyway, what is paid."""
    hourly: dict[str, float] = {}
    for offer, price in offers:
        paid = price if offer.paid is None else offer.paid
        each = paid.micros_per_hour / offer.gpus_per_node
        if each > 0.0:
            hourly[offer.gpu_type] = min(each, hourly.get(offer.gpu_type, each))
    return hourly
