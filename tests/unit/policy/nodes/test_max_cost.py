"""What must be left of a job's maxCost for an orderly stop."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.money import Price
from charterer.policy.nodes.limits import LOOK_AHEAD_SECONDS, MARGIN_SECONDS, stop_cost
from tests.factory import allocation, job


def test_a_stop_is_reckoned_at_the_price_that_is_paid_where_the_plan_reckons_with_less() -> None:
    option = replace(allocation().option, price=Price(1), paid=Price.parse("3600"))
    assert stop_cost(job(grace_seconds=30), option) == 30 + MARGIN_SECONDS + LOOK_AHEAD_SECONDS
