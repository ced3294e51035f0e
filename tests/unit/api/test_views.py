"""What users see: columns and conditions as status fields."""

from __future__ import annotations

import pytest

from charterer.api.models.base import MESSAGE_LIMIT, Condition, ConditionStatus, InvalidObjectView, dump
from charterer.api.models.gpubudget_status import BudgetState, GPUBudgetView, SpentOn
from charterer.api.models.gpupool import GPUPoolView, PoolState
from charterer.api.models.speedupprofile import ProfileState, SpeedupProfileView
from charterer.api.models.trainingjob_status import JobState, TrainingJobView
from charterer.api.names import ConditionType
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.time import Instant, parse_instant

SINCE = parse_instant("2026-01-31T12:00:00.250000Z")


def condition(message: str = "no budget selects research") -> Condition:
    return Condition(
        type=ConditionType.ADMITTED,
        status=ConditionStatus.FALSE,
        reason="NoBudget",
        message=message,
        last_transition_time=SINCE,
        observed_generation=3,
    )


def job(eta: Instant | None = None, cost: Money = ZERO) -> TrainingJobView:
    return TrainingJobView(
        observed_generation=3,
        state=JobState.QUEUED,
        gpus=0,
        want_gpus=8,
        eta=eta,
        cost=cost,
        why="WaitingForNode",
        conditions=(condition(),),
    )


def budget(remaining: Money) -> GPUBudgetView:
    return GPUBudgetView(
        observed_generation=1,
        state=BudgetState.READY,
        spent=Money(1_204_114_999),
        committed=Money(1_300_000_000),
        forecast=Money(59_800_005_000),
        forecast_low=Money(57_000_000_000),
        forecast_high=Money(62_500_004_999),
        remaining=remaining,
        hourly=Price(12_000_001),
        pays_per_hour_saved=Money(18_399_999),
        attribution=(SpentOn(name="research/sft", spent=Money(1_000_000)),),
    )


def test_a_queued_job_shows_zero_gpus_rather_than_nothing() -> None:
    assert dump(job()) == {
        "observedGeneration": 3,
        "state": "Queued",
        "gpus": 0,
        "wantGpus": 8,
        "cost": "0.00",
        "why": "WaitingForNode",
        "conditions": [
            {
                "type": "Admitted",
                "status": "False",
                "reason": "NoBudget",
                "message": "no budget selects research",
                "lastTransitionTime": "2026-01-31T12:00:00.250000Z",
                "observedGeneration": 3,
            }
        ],
    }


def test_a_running_job_shows_whole_minutes_and_cents() -> None:
    shown = dump(job(eta=SINCE, cost=Money(57_124_999)))
    assert (shown["eta"], shown["cost"]) == ("2026-01-31T12:01:00Z", "57.12")


def test_views_that_show_the_same_minute_and_cents_are_equal() -> None:
    views = [job(Instant(SINCE + second * 1_000_000), Money(1_000_000 + second)) for second in range(59)]
    assert all(view == views[0] for view in views)


def test_a_budget_shows_cents_and_exact_prices() -> None:
    assert dump(budget(remaining=Money(-4_999))) == {
        "observedGeneration": 1,
        "state": "Ready",
        "spent": "1204.11",
        "committed": "1300.00",
        "forecast": "59800.01",
        "forecastLow": "57000.00",
        "forecastHigh": "62500.00",
        "remaining": "0.00",
        "hourly": "12.000001",
        "paysPerHourSaved": "18.40",
        "attribution": [{"name": "research/sft", "spent": "1.00"}],
    }


def test_an_overspent_budget_shows_a_negative_remainder() -> None:
    assert dump(budget(remaining=Money(-12_345_678)))["remaining"] == "-12.35"


def test_a_pool_shows_its_nodes_and_what_one_more_gpu_would_be_worth() -> None:
    view = GPUPoolView(
        observed_generation=2,
        state=PoolState.COOLING,
        nodes=3,
        ready_nodes=2,
        gpus_in_use=16,
        scarcity_price=Price(820_000),
    )
    assert dump(view) == {
        "observedGeneration": 2,
        "state": "Cooling",
        "nodes": 3,
        "readyNodes": 2,
        "gpusInUse": 16,
        "scarcityPrice": "0.82",
    }


@pytest.mark.parametrize(("price", "shown"), [("0.195191", "0.20"), ("0.000001", "0.01"), ("0", "0.00")])
def test_the_worth_of_a_gpu_is_shown_in_cents_and_never_as_nothing_where_it_is_something(
    price: str, shown: str
) -> None:
    assert dump(GPUPoolView(scarcity_price=Price.parse(price)))["scarcityPrice"] == shown


def test_a_profile_shows_whether_it_can_be_used() -> None:
    view = SpeedupProfileView(observed_generation=4, state=ProfileState.READY)
    assert dump(view) == {"observedGeneration": 4, "state": "Ready"}


def test_an_object_that_cannot_be_decoded_shows_only_why() -> None:
    shown = dump(InvalidObjectView(observed_generation=4, state="Invalid", conditions=(condition(),)))
    assert set(shown) == {"observedGeneration", "state", "conditions"}
    assert shown["state"] == "Invalid"


def test_a_message_is_cut_to_what_the_api_server_takes() -> None:
    message = condition("x" * 10_000).message
    assert len(message.encode()) == MESSAGE_LIMIT
    assert message.endswith("x…")
