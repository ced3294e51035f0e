"""What candidates promise to the planner, whatever pools, widths and curves are."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.ids import ClassId
from charterer.domain.job import SpotPolicy
from charterer.domain.option import Option
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Amdahl, Phase, PowerLaw, Profile, SpeedCurve, ThroughputTable
from charterer.policy.options.market import Market, MenuKey, PoolOffer, market, pool_offer
from charterer.policy.options.sources import candidates, curves_of
from charterer.policy.solve.phase_dp import key_of
from tests import lanes
from tests.worlds import World

TYPES = ("a100", "h100")


def some_market(draw: Random) -> Market:
    """Pools of two GPU types: some on spot, some going away, some without a price or an offering."""
    world = World()
    for number in range(draw.randint(0, 4)):
        world.pool(
            f"pool{number}", gpus=draw.choice([1, 4, 8]), gpu_type=draw.choice(TYPES), max_nodes=draw.randint(0, 3)
        )
    offers = [pool_offer(pool) for pool in world.pools.values()]
    return market(_changed(offer, draw) for offer in offers)


def _changed(offer: PoolOffer, draw: Random) -> PoolOffer:
    if draw.random() < 0.2:
        offer = offer._replace(capacity_type=CapacityType.SPOT)
    if draw.random() < 0.1:
        offer = offer._replace(closed=True)
    if draw.random() < 0.1:
        offer = offer._replace(price=None)
    return offer._replace(gpus_per_node=0, gpu_type="") if draw.random() < 0.1 else offer


def some_profile(draw: Random) -> Profile | None:
    """One phase or two, with curves for some GPU types; or nothing is known."""
    if draw.random() < 0.2:
        return None
    forms = (Amdahl(0.9, 1.0), PowerLaw(0.7, 2.0), ThroughputTable(((2, 10.0), (8, 30.0))))

    def phase(until: float) -> Phase:
        return Phase(until, tuple(SpeedCurve(name, draw.choice(forms)) for name in TYPES if draw.random() < 0.7))

    phases = (phase(0.5), phase(1.0)) if draw.random() < 0.5 else (phase(1.0),)
    return Profile(ClassId("team", "sft"), 1, phases, None, None, 30.0)


def some_key(draw: Random) -> MenuKey:
    """Widths, GPU types and spot policy."""
    least, preferred, most = sorted(draw.choice([1, 2, 3, 4, 6, 8, 12, 16, 24]) for _ in range(3))
    types = tuple(name for name in TYPES if draw.random() < 0.4)
    return MenuKey(ClassId("team", "sft"), least, preferred, most, types, draw.choice(list(SpotPolicy)))


@settings(max_examples=lanes.examples(150))
@given(draw=st.randoms(use_true_random=False))
def test_candidates_are_what_the_jobs_may_have_and_the_pools_can_give(draw: Random) -> None:
    pools, profile, key = some_market(draw), some_profile(draw), some_key(draw)
    curves = curves_of(profile, draw.random() < 0.5)
    found = list(candidates(key, pools, curves))
    assert found == list(candidates(key, pools, curves)), "the same question has the same answer"
    assert len({key_of(candidate.stages[0]) for candidate in found}) == len(found), "each way comes once"
    for candidate in found:
        option = candidate.stages[0]
        offer = pools.offers[option.pool]
        assert (offer, offer.price) in pools.open_to(key)
        assert candidate.gpu_type == offer.gpu_type
        assert key.least <= option.gpus <= (key.most if candidate.known else key.preferred)
        assert option.resources == {offer.resource: option.gpus}
        assert option.gpus <= offer.max_nodes * offer.gpus_per_node or option.gpus < offer.gpus_per_node
        assert option.price.micros_per_hour > 0
        assert option.entry_seconds >= offer.start_seconds
        assert len(candidate.stages) == (len(profile.phases) if profile is not None and candidate.known else 1)
        assert all(stage.speed > 0 for stage in candidate.stages)
        assert {_without_speed(stage) for stage in candidate.stages} == {_without_speed(option)}, (
            "only the speed changes"
        )


def _without_speed(option: Option) -> tuple[object, ...]:
    return key_of(option), option.price, option.entry_seconds, option.entry_cost, option.trial
