"""What users see: columns and conditions as status fields."""

from __future__ import annotations

from dataclasses import replace

from charterer.api import decode, encode
from charterer.api.models.gpubudget import ATTRIBUTIONS_SHOWN
from charterer.api.view import (
    Attribution,
    BudgetState,
    BudgetView,
    Condition,
    ConditionStatus,
    ConditionType,
    InvalidView,
    JobState,
    JobView,
    PoolState,
    PoolView,
    ProfileState,
    ProfileView,
)
from charterer.domain.ids import PoolId
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.pool import Offering, Quote
from charterer.domain.time import Instant, parse_instant
from tests.unit.api import values

SINCE = parse_instant("2026-01-31T12:00:00.250000Z")
CONDITION = Condition(ConditionType.ADMITTED, ConditionStatus.FALSE, "NoBudget", "no budget selects research", SINCE)
JOB = JobView(
    observed_generation=3,
    state=JobState.QUEUED,
    gpus=0,
    want_gpus=8,
    pool=None,
    progress=None,
    eta=None,
    cost=ZERO,
    why="WaitingForNode",
    conditions=(CONDITION,),
)
BUDGET = BudgetView(
    observed_generation=1,
    state=BudgetState.READY,
    spent=Money(1_204_114_999),
    committed=Money(1_300_000_000),
    forecast=Money(59_800_005_000),
    forecast_low=Money(57_000_000_000),
    forecast_high=Money(62_500_004_999),
    remaining=Money(-4_999),
    hourly=Price(12_000_001),
    pays_per_hour_saved=Money(18_399_999),
    attribution=(Attribution("research/sft", Money(1_000_000)),),
    conditions=(),
)


def test_a_queued_job_shows_zero_gpus_rather_than_nothing() -> None:
    assert encode.job_view(JOB) == {
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


def test_a_running_job_shows_whole_percents_minutes_and_cents() -> None:
    running = replace(JOB, pool=PoolId("a100"), progress=0.419, eta=Instant(SINCE), cost=Money(57_124_999))
    shown = encode.job_view(running)
    assert (shown["pool"], shown["progressPercent"], shown["cost"]) == ("a100", 41, "57.12")
    assert shown["eta"] == "2026-01-31T12:01:00.000000Z"


def test_an_eta_moves_at_most_once_a_minute() -> None:
    etas = {encode.job_view(replace(JOB, eta=Instant(SINCE + second * 1_000_000)))["eta"] for second in range(59)}
    assert etas == {"2026-01-31T12:01:00.000000Z"}


def test_a_budget_shows_cents_and_exact_prices() -> None:
    assert encode.budget_view(BUDGET) == {
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
    assert encode.budget_view(replace(BUDGET, remaining=Money(-12_345_678)))["remaining"] == "-12.35"


def test_a_budget_shows_the_first_of_its_many_jobs() -> None:
    many = tuple(Attribution(f"research/{number}", ZERO) for number in range(ATTRIBUTIONS_SHOWN + 1))
    assert len(encode.budget_view(replace(BUDGET, attribution=many))["attribution"]) == ATTRIBUTIONS_SHOWN


def test_what_a_pool_shows_serves_until_the_cloud_answers_again() -> None:
    view = PoolView(
        observed_generation=2,
        state=PoolState.COOLING,
        offering=Offering("NVIDIA-A100-SXM4-40GB", 8, "p4d.24xlarge", "use1-az1"),
        quote=Quote(Price(19_800_000), Price(32_770_000), 60, "fake", SINCE),
        nodes=3,
        ready_nodes=2,
        gpus_in_use=16,
        scarcity=Price(820_000),
        conditions=(),
    )
    shown = encode.pool_view(view)
    assert (shown["state"], shown["nodes"], shown["readyNodes"], shown["gpusInUse"]) == ("Cooling", 3, 2, 16)
    assert shown["scarcityPrice"] == "0.82"
    pool = decode.pool(values.raw_pool(shown))
    assert (pool.offering, pool.quote) == (view.offering, view.quote)


def test_a_profile_shows_whether_it_can_be_used() -> None:
    assert encode.profile_view(ProfileView(4, ProfileState.READY, ())) == {"observedGeneration": 4, "state": "Ready"}


def test_an_object_that_cannot_be_decoded_shows_only_why() -> None:
    shown = encode.invalid_view(InvalidView(4, (CONDITION,)))
    assert set(shown) == {"observedGeneration", "state", "conditions"}
    assert shown["state"] == "Invalid"
