"""A commitment that ends while its nodes run: from one look to the next the pool is like any other."""

from __future__ import annotations

from dataclasses import replace

from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.observe import observe
from charterer.domain.ids import RentalId
from charterer.domain.money import Price
from charterer.domain.plan import ReasonCode, Release
from charterer.domain.pool import Commitment, PriceSegment, Quote
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.policy import plan
from tests import factory as make
from tests.factory import POOL, TEAM, at
from tests.unit.controller.snapshot.test_offers import STATE

END = at(7200)
LISTED, PAID = Price.parse("19.80"), Price.parse("12")


def look(now: Instant, recorded: tuple[PriceSegment, ...] = ()) -> Snapshot:
    """Two idle nodes, launched at 0, of which all are paid for at $12 until two hours later; the list price is more."""
    machines = [make.instance(name, segments=(PriceSegment(at(0), LISTED),)) for name in ("i1", "i2")]
    rentals = [
        make.rental(f"a100-{number}", machine=replace(machine, segments=recorded or machine.segments))
        for number, machine in enumerate(machines, 1)
    ]
    pool = make.pool(max_nodes=2, price_override=PAID, committed=Commitment(END, TEAM))
    budget = make.budget(id=TEAM)
    nodes = [make.node(name) for name in ("i1", "i2")]
    state = replace(
        STATE,
        budgets={ObjectKey("", budget.id): budget},
        pools={ObjectKey("", POOL): pool},
        rentals={ObjectKey("", rental.id): rental for rental in rentals},
        nodes={ObjectKey("", node.name): node for node in nodes},
        surveys={POOL: make.survey(*machines, asked=(now - make.T0) / 1e6)},
        quotes={POOL: Quote(LISTED, LISTED, 0, "the price list", now)},
    )
    return observe(state, now)


def test_until_its_end_idle_nodes_stay_and_after_it_they_go() -> None:
    before = plan(look(at(7190)))
    assert (before.commands, before.again_at) == ((), END)
    after_it = plan(look(END))
    released = {each.rental: each.reason.code for each in after_it.commands if isinstance(each, Release)}
    assert released == dict.fromkeys([RentalId("a100-1"), RentalId("a100-2")], ReasonCode.IDLE)


def test_a_node_that_lives_on_is_billed_at_the_list_price_from_then_on() -> None:
    paid = (PriceSegment(at(0), PAID, LISTED),)
    (machine, _) = look(at(7190), paid).surveys[POOL].instances
    assert machine.segments == paid
    (machine, _) = look(at(7210), paid).surveys[POOL].instances
    assert machine.segments == (*paid, PriceSegment(at(7210), LISTED))
