"""The offer of a pool: the cloud's last answer, else what was recorded of it, and whether the record is up to date."""

from __future__ import annotations

from dataclasses import replace

from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.observe import observe
from charterer.domain.money import Price
from charterer.domain.pool import Offering, Pool, Quote
from charterer.domain.time import after
from tests.factory import POOL, at, pool, survey

NOW = at(600)
QUOTE = Quote(Price(19_800_000), Price(32_000_000), 60, "list", NOW)
RECORDED = pool(offering=survey().offering, quote=QUOTE)


def seen(recorded: Pool, offering: Offering | None, quote: Quote | None) -> Pool:
    """The pool in a snapshot when its cloud gave these answers."""
    state = ClusterState(
        jobs={},
        profiles={},
        budgets={},
        pools={ObjectKey("", POOL): recorded},
        rentals={},
        runs={},
        pods={},
        nodes={},
        namespaces={},
        services={},
        problems=(),
        surveys={} if offering is None else {POOL: survey(offering=offering)},
        quotes={} if quote is None else {POOL: quote},
        refusals={},
        progress={},
    )
    return observe(state, NOW).pools[POOL]


def test_while_the_cloud_is_silent_the_record_serves() -> None:
    silent = seen(RECORDED, None, None)
    assert (silent.offering, silent.quote) == (RECORDED.offering, QUOTE)
    assert silent.offer_recorded


def test_an_answer_that_says_the_same_later_is_on_record() -> None:
    later = replace(QUOTE, as_of=after(NOW, 60.0))
    same = seen(RECORDED, RECORDED.offering, later)
    assert same.quote == later
    assert same.offer_recorded


def test_another_price_or_another_machine_is_to_be_recorded() -> None:
    assert RECORDED.offering is not None
    assert not seen(RECORDED, RECORDED.offering, replace(QUOTE, price=Price(1))).offer_recorded
    assert not seen(RECORDED, replace(RECORDED.offering, gpus_per_node=2), QUOTE).offer_recorded
    assert not seen(replace(RECORDED, offering=None, quote=None), RECORDED.offering, QUOTE).offer_recorded


def test_a_quote_is_recorded_again_after_an_hour_for_its_time() -> None:
    assert not seen(RECORDED, RECORDED.offering, replace(QUOTE, as_of=after(NOW, 3600.0))).offer_recorded
