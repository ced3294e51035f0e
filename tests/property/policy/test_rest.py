"""What is known of a running job for an interval of exchange rates is what is found anew at any rate of it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.ids import JobId
from charterer.domain.option import Option
from charterer.domain.profile import Amdahl, Phase, PowerLaw, SpeedCurve
from charterer.policy.move_cache import StableInterval, look
from charterer.policy.options import option_value
from charterer.policy.options.option_value import JobPosition, OptionValues
from charterer.policy.plan_cache import PlanCache, plan_cache
from tests.worlds import World

ROUNDING = 1e-9


def known_of(draw: Random) -> PlanCache:
    """One running job of a class with one phase or three, on two pools."""
    world = World()
    world.budget()
    start = draw.choice([0.0, 120.0, 600.0])
    world.pool("a100", price=str(draw.choice([8, 16])), start_seconds=start)
    world.pool("h100", price=str(draw.choice([20, 40])), start_seconds=start)
    restart = draw.choice([5.0, 30.0, 300.0])
    made = world.profile("sft", Amdahl(draw.uniform(0.7, 0.999), 1.0), work_hours=20, restart_seconds=restart)
    if draw.random() < 0.5:
        steps = [(until, PowerLaw(draw.uniform(0.2, 0.98), 1.0)) for until in (0.3, 0.7, 1.0)]
        phases = [Phase(until, (SpeedCurve("a100", form), SpeedCurve("h100", form))) for until, form in steps]
        world.profiles[made.id] = replace(made, phases=tuple(phases))
    else:
        second = SpeedCurve("h100", Amdahl(draw.uniform(0.7, 0.999), draw.uniform(1.0, 3.0)))
        world.profiles[made.id] = replace(made, phases=(Phase(1.0, (*made.phases[0].curves, second)),))
    world.job("train", gpus=(1, 4, 32), profile="sft")
    world.rental("a100")
    world.runs_on("train", "a100-1", gpus=8)
    return plan_cache(world.snapshot())


@settings(max_examples=150, deadline=None)
@given(
    st.randoms(use_true_random=False),
    st.floats(1e-6, 1.0),
    st.floats(10.0, 1e6),
    st.floats(0.0, 0.99),
    st.lists(st.floats(0.0, 1.0), min_size=3, max_size=6),
)
def test_an_interval_of_rates_says_what_every_rate_in_it_does(
    draw: Random, worth: float, total: float, done: float, parts: list[float]
) -> None:
    known = known_of(draw)
    reading = known.readings.by_id[JobId("train")]
    menu = known.menus.menu(reading.key[1])
    position = JobPosition(total, done)
    for here in menu.options[:: max(len(menu.options) // 4, 1)]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(option_value, "_RATE_INTERVAL", draw.choice([0.02, 0.3, 0.9]))
            found = look(reading, here, OptionValues(menu, worth), position, "")
        assert found.least <= worth <= found.most
        for part in [0.0, 1.0, *parts]:
            at = found.least + part * (min(found.most, 2.0) - found.least)
            says_the_same(found, here, OptionValues(menu, at), position)


def says_the_same(found: StableInterval, here: Option, at: OptionValues, position: JobPosition) -> None:
    """Every move that pays is among the chances, and what else is known is so."""
    tiny = ROUNDING * at.staying(here, position).worth
    gains = {to: (gain, boot) for to, gain, boot in at.gains(here, position) if gain > tiny}
    claimed = {one.to: one for one in found.chances if one.gain(at.worth) > tiny}
    assert gains.keys() == claimed.keys()
    for to, (gain, boot) in gains.items():
        assert claimed[to].gain(at.worth) == pytest.approx(gain, abs=tiny)
        assert claimed[to].boot == pytest.approx(boot, abs=tiny)
        if found.least < found.most:
            assert gain <= boot + tiny, "no move pays whose nodes must be rented"
    if found.least < found.most:
        assert at.next_change(here, position) is None
