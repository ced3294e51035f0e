"""No plan passes the limits of the operator, and none rents while it is stopped, whatever the world looks like."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.budget import Mode
from charterer.domain.money import Price
from charterer.domain.plan import ReasonCode, Release, Rent
from charterer.domain.pool import InstanceState
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import OperatorLimits, Snapshot, Stop
from charterer.policy import plan
from tests import lanes
from tests.property.policy.test_plan_invariants import worlds
from tests.worlds import World

PRICES = st.one_of(st.none(), st.sampled_from(["0", "16", "50", "200", "1000"]).map(Price.parse))


def machines(snapshot: Snapshot) -> list[int]:
    """Micro-dollars an hour of every node that is rented, being rented or running without a rental."""
    live = [rental for rental in snapshot.rentals.values() if rental.phase is not RentalPhase.ENDED]
    named = {(rental.pool, rental.instance) for rental in snapshot.rentals.values()}
    prices = [max(rental.worst, *(segment.price for segment in rental.segments), Price(0)) for rental in live]
    for name, survey in snapshot.surveys.items():
        quote = snapshot.pools[name].quote
        assert quote is not None
        strays = [item for item in survey.instances if item.state is not InstanceState.ENDED]
        prices += [quote.worst for item in strays if (name, item.id) not in named]
    return [price.micros_per_hour for price in prices]


@settings(max_examples=lanes.examples(100))
@given(worlds(), st.one_of(st.none(), st.integers(0, 12)), PRICES, st.booleans())
def test_no_plan_passes_the_limits_of_the_operator(
    world: World, nodes: int | None, hourly: Price | None, forget: bool
) -> None:
    before = replace(world.snapshot(), limits=OperatorLimits(nodes, hourly))
    if forget and before.rentals:  # its machine runs on, and no rental names it
        before = replace(before, rentals=dict(list(before.rentals.items())[1:]))
    rents = [command for command in plan(before).commands if isinstance(command, Rent)]
    there = machines(before)
    if rents and nodes is not None:
        assert len(there) + len(rents) <= nodes
    if rents and hourly is not None:
        assert sum(there) + sum(command.worst.micros_per_hour for command in rents) <= hourly.micros_per_hour


@settings(max_examples=lanes.examples(100))
@given(worlds(), st.sampled_from(list(Stop)))
def test_a_stopped_operator_rents_nothing_and_ends_everything_only_if_it_is_to_drain(world: World, stop: Stop) -> None:
    free = world.snapshot()
    decided = plan(replace(free, stop=stop))
    assert not any(isinstance(command, Rent) for command in (*decided.commands, *decided.observed_commands))
    because = {command.rental for command in decided.commands if isinstance(command, Release)}
    if stop is Stop.DRAIN:
        live = (RentalPhase.REQUESTED, RentalPhase.STARTING, RentalPhase.READY)
        enforcing = {name for name, budget in free.budgets.items() if budget.mode is Mode.ENFORCE}
        paid = [rental for rental in free.rentals.values() if rental.budget in enforcing]
        assert because == {rental.id for rental in paid if rental.phase in live}
    else:
        reasons = {command.reason.code for command in decided.commands if isinstance(command, Release)}
        assert ReasonCode.STOPPED not in reasons
