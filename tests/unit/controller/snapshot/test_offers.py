"""The offer of a pool: the cloud's last answer, else what was recorded of it, and whether the record is up to date."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.api import decode
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.observe import observe
from charterer.controller.snapshot.pools import at_terms_of
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.money import Price
from charterer.domain.node_demands import NO_TRAITS, NodeTraits
from charterer.domain.pool import CapacityType, Commitment, Offering, Partition, Pool, Quote
from charterer.domain.time import after, format_minute
from tests.factory import POOL, at, pool, survey
from tests.unit.api import values

NOW = at(600)
QUOTE = Quote(Price(19_800_000), Price(32_000_000), 60, "list", NOW)
RECORDED = pool(offering=survey().offering, quote=QUOTE)

STATE = ClusterState(
    jobs={},
    profiles={},
    budgets={},
    pools={},
    rentals={},
    runs={},
    pods={},
    nodes={},
    namespaces={},
    services={},
    problems=(),
    surveys={},
    quotes={},
    refusals={},
    progress={},
)


def seen(recorded: Pool, offering: Offering | None, quote: Quote | None) -> Pool:
    """The pool in a snapshot when its cloud gave these answers."""
    state = replace(
        STATE,
        pools={ObjectKey("", POOL): recorded},
        surveys={} if offering is None else {POOL: survey(offering=offering)},
        quotes={} if quote is None else {POOL: quote},
    )
    return observe(state, NOW).pools[POOL]


def test_while_the_cloud_is_silent_the_record_serves() -> None:
    silent = seen(RECORDED, None, None)
    assert (silent.offering, silent.quote) == (RECORDED.offering, QUOTE)
    assert silent.offer_recorded


def test_what_the_cloud_says_of_a_node_is_offered_in_slices() -> None:
    whole = Offering("NVIDIA-A100-SXM4-40GB", 8, "p4d.24xlarge", "zone-a")
    cut = replace(RECORDED, partition=Partition("1g.5gb"), offering=None)
    found = seen(cut, whole, QUOTE)
    assert found.offering == whole.cut(Partition("1g.5gb"))
    assert not found.offer_recorded
    recorded = replace(cut, offering=found.offering)
    assert seen(recorded, None, None).offering == found.offering
    assert seen(recorded, whole, QUOTE).offer_recorded


def test_a_pool_whose_type_cannot_be_cut_so_offers_nothing() -> None:
    cut = replace(RECORDED, partition=Partition("1g.5gb"))
    assert seen(cut, Offering("Tesla-T4", 8, "g4dn.metal", "zone-a"), QUOTE).offering is None


def test_a_pool_has_no_more_nodes_than_its_group_takes_also_while_the_cloud_is_silent() -> None:
    small = replace(survey().offering, group_size=2)
    assert seen(RECORDED, small, QUOTE).max_nodes == 2
    assert seen(replace(RECORDED, offering=small), None, None).max_nodes == 2
    assert seen(RECORDED, replace(small, group_size=50), QUOTE).max_nodes == RECORDED.max_nodes


def test_an_answer_that_says_the_same_later_is_on_record() -> None:
    later = replace(QUOTE, as_of=after(NOW, 60.0))
    same = seen(RECORDED, RECORDED.offering, later)
    assert same.quote == later
    assert same.offer_recorded


def test_another_price_or_another_machine_is_to_be_recorded() -> None:
    assert RECORDED.offering is not None
    assert not seen(RECORDED, RECORDED.offering, replace(QUOTE, price=Price.parse("20"))).offer_recorded
    assert not seen(RECORDED, replace(RECORDED.offering, gpus_per_node=2), QUOTE).offer_recorded
    assert not seen(replace(RECORDED, offering=None, quote=None), RECORDED.offering, QUOTE).offer_recorded


def test_a_quote_is_recorded_again_after_an_hour_for_its_time() -> None:
    assert not seen(RECORDED, RECORDED.offering, replace(QUOTE, as_of=after(NOW, 3600.0))).offer_recorded


# --- prices that are not believed -------------------------------------------------------------------------------------


def quoted(price: str, recorded: Pool = RECORDED, worst: str = "32") -> Pool:
    listed = replace(QUOTE, price=Price.parse(price), worst=Price.parse(worst), as_of=after(NOW, 60.0))
    return seen(recorded, recorded.offering, listed)


def counted(made: Pool) -> Price:
    assert made.quote is not None
    return made.quote.price


@pytest.mark.parametrize("price", ["39.61", "9.89", "1980.00", "0.01"])
def test_a_price_that_moves_by_more_than_a_factor_of_two_is_held_and_the_old_one_counts(price: str) -> None:
    held = quoted(price)
    assert (counted(held), held.price_held) == (QUOTE.price, Price.parse(price))
    assert held.quote is not None
    assert held.quote.as_of == after(NOW, 60.0)
    assert held.offer_recorded


@pytest.mark.parametrize("price", ["39.60", "9.90", "19.80"])
def test_a_price_that_moves_less_counts_at_once(price: str) -> None:
    moved = quoted(price)
    assert (counted(moved), moved.price_held) == (Price.parse(price), None)


def test_the_first_price_of_a_pool_counts_if_there_is_none_to_compare_it_with() -> None:
    assert quoted("1980", replace(RECORDED, quote=None)).price_held is None


def of_two(price: str, gpus: int = 8, cpus: int = 96, *, confirmed: str = "", **other: Any) -> Pool:
    """A pool without a price on record, whose cloud asks this much, beside one of 8 GPUs and 96 CPUs at $19.80."""
    assert RECORDED.offering is not None
    known = replace(RECORDED.offering, gpus_per_node=8, traits=NodeTraits(room=(("cpu", 96_000),)))
    asked = replace(known, gpus_per_node=gpus, traits=NodeTraits(room=(("cpu", 1000 * cpus),)) if cpus else NO_TRAITS)
    beside = replace(RECORDED, id=PoolId("beside"), offering=known, **other)
    new = replace(RECORDED, quote=None, confirmed_price=Price.parse(confirmed) if confirmed else None)
    listed = replace(QUOTE, price=Price.parse(price), worst=Price.parse(price))
    state = replace(
        STATE,
        pools={ObjectKey("", POOL): new, ObjectKey("", beside.id): beside},
        surveys={POOL: survey(offering=asked)},
        quotes={POOL: listed},
    )
    return observe(state, NOW).pools[POOL]


@pytest.mark.parametrize(
    ("price", "gpus", "cpus"),
    [("60", 8, 96), ("6.50", 8, 96), ("8", 1, 12), ("0.80", 1, 12)],
    ids=["dear", "cheap", "dear-small", "cheap-small"],
)
def test_a_first_price_that_other_nodes_with_the_same_gpus_contradict_is_held(price: str, gpus: int, cpus: int) -> None:
    held = of_two(price, gpus, cpus)
    assert (held.quote, held.price_held) == (None, Price.parse(price))
    confirmed = of_two(price, gpus, cpus, confirmed=price)
    assert (counted(confirmed), confirmed.price_held) == (Price.parse(price), None)


@pytest.mark.parametrize(
    ("price", "gpus", "cpus", "other"),
    [
        ("59", 8, 96, {}),
        ("2.5", 1, 12, {}),
        ("10", 1, 64, {}),
        ("60", 8, 0, {}),
        ("60", 8, 96, {"capacity_type": CapacityType.SPOT}),
        ("60", 8, 96, {"quote": None}),
    ],
    ids=["three-times", "small", "many-processors", "processors-unknown", "sold-otherwise", "no-price-beside-it"],
)
def test_a_first_price_that_something_explains_counts(price: str, gpus: int, cpus: int, other: dict[str, Any]) -> None:
    assert (counted(of_two(price, gpus, cpus, **other))) == Price.parse(price)


def test_a_person_confirms_a_price_by_naming_it_and_no_other() -> None:
    confirmed = replace(RECORDED, confirmed_price=Price.parse("80"))
    assert (counted(quoted("80", confirmed)), quoted("80", confirmed).price_held) == (Price.parse("80"), None)
    assert quoted("81", confirmed).price_held == Price.parse("81")


def test_a_price_that_a_person_has_set_is_never_held() -> None:
    changed = quoted("80", replace(RECORDED, price_override=Price.parse("100")))
    assert (counted(changed), changed.price_held) == (Price.parse("100"), None)


def test_a_discount_that_a_person_writes_is_no_move_of_the_clouds_price() -> None:
    cheaper = quoted("19.80", replace(RECORDED, price_adjustment=-6_000))
    assert (counted(cheaper), cheaper.price_held) == (Price.parse("7.92"), None)
    assert cheaper.quote is not None
    again = replace(RECORDED, price_adjustment=-6_000, quote=cheaper.quote)
    assert quoted("19.80", again).price_held is None
    assert quoted("80", again).price_held == Price.parse("80")


def test_a_discount_counts_until_its_end_and_a_node_may_live_on_at_the_list_price() -> None:
    plan = replace(RECORDED, price_adjustment=-1_000, price_adjusted_until=after(NOW, 60.0))
    held = quoted("19.80", at_terms_of(plan, NOW))
    assert held.quote is not None
    assert (held.quote.price, held.quote.worst) == (Price.parse("17.82"), QUOTE.worst)
    assert held.quote.source.endswith(f", -10% until {format_minute(after(NOW, 60.0))}")
    over = quoted("19.80", at_terms_of(replace(plan, quote=held.quote), after(NOW, 60.0)))
    assert (counted(over), over.price_held) == (Price.parse("19.80"), None)


def test_a_worst_price_that_falls_too_far_is_held_too_because_limits_rest_on_it() -> None:
    assert quoted("19.80", worst="15.99").price_held == Price.parse("19.80")


def test_a_spot_price_is_held_only_beyond_the_on_demand_price() -> None:
    spot = replace(RECORDED, capacity_type=CapacityType.SPOT, quote=replace(QUOTE, price=Price.parse("6.00")))
    assert quoted("31.99", spot).price_held is None
    assert quoted("0.50", spot).price_held is None
    assert quoted("32.01", spot).price_held == Price.parse("32.01")


def test_another_source_that_gives_the_same_machine_the_same_price_confirms_it() -> None:
    def held(other_source: str, other_price: str) -> Price | None:
        other = replace(RECORDED, id=PoolId("twin"))
        listed = replace(QUOTE, price=Price.parse("60"))
        state = replace(
            STATE,
            pools={ObjectKey("", item.id): item for item in (RECORDED, other)},
            quotes={
                POOL: listed,
                other.id: replace(listed, price=Price.parse(other_price), source=other_source),
            },
        )
        return observe(state, NOW).pools[POOL].price_held

    assert held("table", "63") is None
    assert held("table", "90") == Price.parse("60")
    assert held("list", "60") == Price.parse("60")


def test_what_a_person_writes_as_a_confirmed_price_is_read_leniently() -> None:
    def confirmed(text: str) -> Price | None:
        raw = values.raw(
            "GPUPool",
            {"fake": {"endpoint": "http://cloud", "group": "g"}, "maxNodes": 1},
            annotations={"charterer.dev/confirm-price": text},
        )
        return decode.pool(raw).confirmed_price

    assert confirmed("80.00") == confirmed(" $80 ") == Price.parse("80")
    assert confirmed("eighty") is None


COMMITTED = replace(
    RECORDED, price_override=Price.parse("12"), committed=Commitment(after(NOW, 60.0), BudgetId("research"))
)
"""Nodes that are paid for at $12 until in a minute."""


def test_committed_nodes_cost_what_the_user_says_until_the_end_and_a_node_may_live_on_at_the_list_price() -> None:
    held = quoted("19.80", at_terms_of(COMMITTED, NOW))
    assert held.quote is not None
    assert (held.quote.price, held.quote.worst) == (Price.parse("12"), QUOTE.worst)
    assert held.quote.source == f"spec.price.hourly until {format_minute(after(NOW, 60.0))}"
    over = quoted("19.80", at_terms_of(replace(COMMITTED, quote=held.quote), after(NOW, 60.0)))
    assert (counted(over), over.price_held, over.committed) == (Price.parse("19.80"), None, None)


def test_what_one_more_hour_of_a_committed_node_adds_to_the_bill_is_next_to_nothing_until_its_end() -> None:
    """A micro-dollar for each of its four GPUs: less would be rounded to nothing for one of them."""
    held = quoted("19.80", at_terms_of(COMMITTED, NOW))
    assert held.marginal == Price(4)
    over = quoted("19.80", at_terms_of(replace(COMMITTED, quote=held.quote), after(NOW, 60.0)))
    assert over.marginal == Price.parse("19.80")


def test_where_the_cloud_lists_no_price_the_users_own_stays_after_the_commitment() -> None:
    """Adapters give spec.price.hourly as the list price then."""
    held = quoted("12", at_terms_of(COMMITTED, NOW), worst="12")
    over = quoted("12", at_terms_of(replace(COMMITTED, quote=held.quote), after(NOW, 60.0)), worst="12")
    assert (counted(over), over.price_held, over.committed) == (Price.parse("12"), None, None)
