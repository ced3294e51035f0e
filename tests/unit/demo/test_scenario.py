"""The scenario in the workload's own units, and the pace that makes it short."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo import scenario
from demo.money import micros
from demo.pace import Pace
from demo.run import to_try
from demo.scenario import an_hour
from demo.tables import T4

moments = st.integers(0, 3 * 365 * 86_400).map(lambda s: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=s))


def test_all_six_applications_are_in_the_hour() -> None:
    jobs = an_hour(40).jobs
    assert len(jobs) == 28
    assert {job.application.name for job in jobs} == {"bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"}


def test_two_gpu_types_are_sold_on_demand_and_on_spot_and_only_spot_nodes_are_taken_back() -> None:
    sold = {(pool.gpu_type, pool.spot): pool for pool in an_hour(40).pools}
    assert set(sold) == {(kind, spot) for kind in an_hour(40).gpu_types for spot in (False, True)}
    assert an_hour(40).gpu_types[0] == T4
    for (kind, spot), pool in sold.items():
        assert bool(pool.lifetime_seconds) == spot
        if spot:
            assert pool.hourly_price == pytest.approx(0.35 * sold[kind, False].hourly_price)
            assert min(pool.lifetime_seconds) < 3_600.0 < max(pool.lifetime_seconds)


def test_the_budget_allows_the_hours_jobs_an_hours_share() -> None:
    hour = an_hour(40)
    assert hour.allowed(1_800.0) == pytest.approx(hour.hourly_budget / 2)
    assert hour.allowed(7_200.0) == hour.allowed(3_600.0) == pytest.approx(hour.hourly_budget)


def test_a_share_of_the_budget_is_of_its_amount_and_another_exchange_rate_of_its_own() -> None:
    now = datetime(2026, 6, 15, tzinfo=UTC)
    spec = scenario.budget(replace(an_hour(1), share=2.0, most_pays=7.5), now)["spec"]
    whole = scenario.budget(an_hour(1), now)["spec"]
    assert Decimal(spec["amount"]) == 2 * Decimal(whole["amount"])
    assert (spec["maxPaysPerHourSaved"], whole["maxPaysPerHourSaved"]) == ("7.50", "6.00")


def test_the_pools_are_the_groups_of_the_cloud() -> None:
    pools = scenario.pools(an_hour(40), "http://127.0.0.1:1")
    groups = scenario.sold(an_hour(40))["groups"]
    assert [pool["spec"]["fake"]["group"] for pool in pools] == [group["name"] for group in groups]
    assert {pool["spec"]["fake"]["endpoint"] for pool in pools} == {"http://127.0.0.1:1"}


@given(factor=st.integers(min_value=1, max_value=120))
def test_a_node_costs_the_same_dollars_for_the_same_work_at_any_pace(factor: int) -> None:
    pace = Pace(factor)
    sped_up = pace.sped_up({"groups": [{"hourlyPrice": "3.912", "startupSeconds": [90]}]})["groups"][0]
    hourly = Decimal(sped_up["hourlyPrice"])
    assert hourly / factor == Decimal("3.912")
    assert sped_up["startupSeconds"] == pytest.approx([90 / factor], abs=1e-6)


def test_what_the_table_does_not_name_is_left_alone() -> None:
    document: dict[str, Any] = {
        "kind": "GPUPool",
        "spec": {"maxNodes": 12, "startSeconds": 120, "fake": {"group": "a"}},
    }
    sped_up = Pace(40).sped_up(document)
    assert sped_up == {"kind": "GPUPool", "spec": {"maxNodes": 12, "startSeconds": 3, "fake": {"group": "a"}}}
    assert document["spec"]["startSeconds"] == 120


def test_ended_machines_are_listed_for_as_long_at_any_pace() -> None:
    sped_up = Pace(60).sped_up({"groups": [{"listedSeconds": 600}]})
    assert sped_up["groups"] == [{"listedSeconds": 600}]


@given(now=moments)
def test_the_rest_of_the_month_has_its_share_of_the_budget(now: datetime) -> None:
    hour = an_hour(40)
    spec = scenario.budget(hour, now)["spec"]
    left = Decimal(micros(spec["amount"]) - micros(spec["openingSpend"])) / 1_000_000
    until = (now.replace(day=1, hour=0, minute=0, second=0, microsecond=0) + timedelta(days=32)).replace(day=1)
    if spec["timeZone"] == "Etc/GMT+12":
        assert until - now <= timedelta(hours=1)
        until += timedelta(hours=12)
    hours_left = (until - now).total_seconds() / 3600
    assert float(left) == pytest.approx(hour.hourly_budget * 40 * hours_left, rel=1e-6, abs=1.0)


def test_no_demo_runs_into_the_next_month() -> None:
    def zone(minute: int) -> object:
        return scenario.budget(an_hour(40), datetime(2026, 1, 31, 23, minute, tzinfo=UTC))["spec"]["timeZone"]

    assert (zone(0), zone(30)) == ("Etc/GMT+12", "Etc/GMT+12")
    assert scenario.budget(an_hour(40), datetime(2026, 1, 31, 22, tzinfo=UTC))["spec"]["timeZone"] == "Etc/UTC"


def test_profiles_say_how_much_work_comes_how_often_at_this_pace() -> None:
    slow, fast = ({each["metadata"]["name"]: each["spec"] for each in scenario.profiles(an_hour(f))} for f in (1, 50))
    for name, spec in slow.items():
        assert fast[name]["meanWork"] == pytest.approx(spec["meanWork"] / 50)
        assert fast[name]["arrivalsPerHour"] == pytest.approx(spec["arrivalsPerHour"] * 50)
        assert fast[name]["curves"] == spec["curves"]
        assert spec["curves"][0]["throughput"][0] == {"gpus": 1, "value": 1.0}
        assert [curve["gpuType"] for curve in spec["curves"]] == [*an_hour(1).gpu_types]


def test_a_training_job_asks_for_what_its_owner_asked_within_what_is_measured() -> None:
    hour = an_hour(40)
    for job in hour.jobs:
        gpus = scenario.training_job(hour, job)["spec"]["gpus"]
        assert gpus["min"] <= gpus["preferred"] <= gpus["max"]
        assert gpus["preferred"] == min(job.asked, hour.widest)


@pytest.mark.parametrize(("pace", "idle"), [(30, 20), (60, 10)])
def test_the_simulation_that_a_kept_demo_proposes_waits_ten_idle_minutes_at_the_demos_pace(
    pace: int, idle: int
) -> None:
    assert f"--policy as-asked:{idle} " in to_try(Pace(pace))[-1]
