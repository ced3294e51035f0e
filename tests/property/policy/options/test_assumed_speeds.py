"""Whatever is sold at whatever prices, what is assumed of it lies in its interval, and no guess is a bargain."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hypothesis import example, given, settings
from hypothesis import strategies as st

from charterer.domain.money import Price
from charterer.domain.pool import CapacityType
from charterer.gpu_types import RelativeSpeed, compute_part, data_sheet, relative_speeds, slice_speed
from charterer.policy.options.market import PoolOffer, pool_offer
from charterer.policy.options.speeds import assumed_speeds
from charterer.tools.commands.explain.document import assumed_speeds_sentence
from tests import lanes
from tests.worlds import World

A100 = "NVIDIA-A100-SXM4-80GB"
SOLD = ("Tesla-T4", "NVIDIA-L4", A100, "NVIDIA-H100-80GB-HBM3", "NVIDIA-B200", "NVIDIA-R300", "Gaudi3")
Sold = tuple[str, str, int, bool]
"""A type, how it is cut, cents an hour of a node of eight, and whether as spot."""
pools = st.lists(
    st.tuples(
        st.sampled_from(SOLD),
        st.sampled_from(("", "1g.10gb", "3g.40gb", "mps-2")),
        st.integers(1, 99_999),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


def offers_of(sold: list[Sold]) -> World:
    world = World()
    for number, (gpu_type, cut, cents, spot) in enumerate(sold):
        world.pool(
            f"p{number}",
            gpus=8,
            price=f"{cents / 100:.2f}",
            gpu_type=gpu_type,
            cut=cut if gpu_type == A100 else "",
            capacity=CapacityType.SPOT if spot else CapacityType.ON_DEMAND,
        )
    return world


@given(pools)
@example([(A100, "3g.40gb", 2000, False), ("Tesla-T4", "", 400, False)])
@example([(A100, "1g.10gb", 2000, False), ("Tesla-T4", "", 400, False), ("Gaudi3", "", 5, True)])
@settings(max_examples=lanes.examples(200), deadline=None)
def test_what_is_assumed_lies_in_its_interval_and_no_guess_beats_the_best_known_type_for_a_dollar(
    sold: list[Sold],
) -> None:
    offers = [(pool_offer(pool), pool.marginal) for pool in offers_of(sold).pools.values() if pool.marginal is not None]
    speeds = assumed_speeds(offers)
    known = relative_speeds({offer.gpu_type for offer, _ in offers})
    assert {each: speed for each, speed in speeds.items() if data_sheet(each) is not None} == known
    for estimate, low, high in re.findall(r"(\d+)% of its speed \((\d+)% to (\d+)%\)", assumed_speeds_sentence(speeds)):
        assert int(low) <= int(estimate) <= int(high) == 100
    for gpu_type in speeds.keys() - known.keys():
        for market in CapacityType:
            sold_there = [(offer, price) for offer, price in offers if offer.capacity_type is market]
            guessed = [work_for_a_dollar(*each, speeds) for each in sold_there if each[0].gpu_type == gpu_type]
            of_known = [work_for_a_dollar(*each, speeds) for each in sold_there if each[0].gpu_type in known]
            if guessed and of_known:  # the market that it is guessed in
                assert max(guessed) <= max(of_known) * (1.0 + 1e-9)
                break


def work_for_a_dollar(offer: PoolOffer, price: Price, speeds: Mapping[str, RelativeSpeed]) -> float:
    """The work that a dollar buys; a slice counts as the part of a whole GPU that it is."""
    whole = speeds[offer.gpu_type].estimate / slice_speed(offer.gpu_type) * compute_part(offer.gpu_type)
    return whole * offer.gpus_per_node / price.micros_per_hour
