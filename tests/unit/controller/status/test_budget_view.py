"""What a budget shows of its exchange rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from charterer.api.models.base import dump
from charterer.controller.status.publisher import viewed_objects
from charterer.domain.budget import EVERYTHING, Currency, JobShare, Mode, Selector
from charterer.domain.cost_row import CostRecording
from charterer.domain.ids import BudgetId, ClassId, JobId
from charterer.domain.profile import Amdahl
from charterer.domain.rental import RentalPhase
from charterer.domain.time import moment
from charterer.policy.planner import plan
from tests.worlds import NAMESPACE, World


def status(world: World, kind: str = "GPUBudget") -> Mapping[str, Any]:
    """The status of the world's one object of the kind."""
    snapshot = world.snapshot()
    (view,) = [
        viewed.make(snapshot) for viewed in viewed_objects(snapshot, plan(snapshot), {}) if viewed.kind.name == kind
    ]
    return dump(view)


def pays(world: World) -> object:
    """``status.paysPerHourSaved`` of the world's one budget, None where it is absent."""
    return status(world).get("paysPerHourSaved")


def a_world(amount: str, *, jobs: int, least: int = 1) -> World:
    world = World()
    world.budget(amount=amount)
    world.pool(gpus=8, price="16")
    world.profile("sft", Amdahl(0.97, 1.0), work_hours=40)
    for number in range(jobs):
        world.job(f"train{number}", gpus=(least, 8, 64), profile="sft")
    return world


@pytest.mark.parametrize(("amount", "jobs"), [("0", 1), ("60000", 0), ("0", 0)])
def test_a_budget_without_money_or_jobs_shows_no_exchange_rate(amount: str, jobs: int) -> None:
    assert pays(a_world(amount, jobs=jobs)) is None


def test_a_budget_that_pays_for_jobs_shows_its_exchange_rate() -> None:
    shown = pays(a_world("60000", jobs=1))
    assert isinstance(shown, str)
    assert float(shown) > 0.0


def test_a_job_says_which_budget_pays_for_it() -> None:
    assert status(a_world("60000", jobs=1), "TrainingJob")["budget"] == "research"


@pytest.mark.parametrize(
    ("most", "state", "told"),
    [
        ("16", "Ready", ""),
        (
            "15.99",
            "TooSmall",
            "spec.maxHourlyRate is $15.99/h, and a node of the cheapest GPUPool, a100, may cost $16.00/h: "
            "nothing can be rented until it is raised",
        ),
    ],
)
def test_an_hourly_limit_below_every_nodes_price_is_told_with_both_numbers(most: str, state: str, told: str) -> None:
    world = a_world("60000", jobs=0)
    world.budget(amount="60000", max_hourly=most)
    shown = status(world)
    (ready,) = [each for each in shown["conditions"] if each["type"] == "Ready"]
    assert (shown["state"], ready["message"]) == (state, told)


@pytest.mark.parametrize(("selects", "told"), [(True, "selects no GPUPool"), (False, "there is no GPUPool")])
def test_a_budget_without_pools_does_not_say_that_their_prices_are_missing(selects: bool, told: str) -> None:
    world = World()
    world.budget(pools=Selector((("gpu", "h100"),)) if selects else EVERYTHING)
    if selects:
        world.pool()
    shown = next(each for each in status(world)["conditions"] if each["type"] == "PriceDataFresh")
    assert (shown["status"], shown["reason"]) == ("Unknown", "NoPool")
    assert told in shown["message"]


def test_a_budget_that_pays_for_no_namespace_is_not_ready() -> None:
    snapshot = a_world("60000", jobs=0).snapshot()
    said = {BudgetId("research"): "spec.namespaceSelector selects no namespace"}
    snapshot = replace(snapshot, pays_nowhere=said)
    (shown,) = [
        dump(viewed.make(snapshot))
        for viewed in viewed_objects(snapshot, plan(snapshot), {})
        if viewed.kind.name == "GPUBudget"
    ]
    (ready,) = [each for each in shown["conditions"] if each["type"] == "Ready"]
    assert (shown["state"], ready["status"], ready["reason"]) == ("NoNamespace", "False", "NoNamespace")
    assert ready["message"].startswith("spec.namespaceSelector selects no namespace: nothing is rented; label")


def within(world: World) -> Mapping[str, Any]:
    found: Mapping[str, Any]
    (found,) = [each for each in status(world)["conditions"] if each["type"] == "WithinBudget"]
    return found


def test_a_budget_without_history_shows_what_it_assumes_and_no_forecast() -> None:
    world = a_world("60000", jobs=9)
    shown = status(world)
    assert shown["arrivals"]["basis"] == "Assumed"
    assert shown["arrivals"]["batches"] == 1
    assert not {"forecast", "forecastLow", "forecastHigh"} & set(shown)
    assert float(shown["inSight"]) > 0.0
    condition = within(world)
    assert (condition["status"], condition["reason"]) == ("Unknown", "NoHistory")
    assert condition["message"].startswith("assumed: 9 jobs in sight, 1 batch; no history. If nothing else comes, the")
    assert "nine months in ten" not in condition["message"]


def test_a_budget_whose_jobs_are_declared_has_a_forecast() -> None:
    world = a_world("60000", jobs=1)
    name = ClassId(NAMESPACE, "sft")
    world.profiles[name] = replace(world.profiles[name], arrivals_per_hour=0.5)
    shown = status(world)
    assert shown["arrivals"] == {"perHour": "0.5", "basis": "Declared", "batches": 1}
    sums = [float(shown[field]) for field in ("spent", "inSight", "toCome")]
    assert sum(sums) == pytest.approx(float(shown["forecast"]), abs=0.05)
    assert within(world)["reason"] == "OnCourse"


def test_a_budget_without_history_that_spent_more_than_it_has_is_not_within_it() -> None:
    world = a_world("60000", jobs=1)
    world.budget(amount="60000", spent="60001")
    assert (within(world)["status"], within(world)["reason"]) == ("False", "ForecastExceedsAmount")


def test_a_budget_that_only_observes_names_the_nodes_that_it_leaves_running() -> None:
    world = World()
    world.budget(mode=Mode.OBSERVE)
    world.pool(gpus=8, price="16")
    assert "LeftRunning" not in {shown["type"] for shown in status(world)["conditions"]}
    for _ in range(3):
        ended = world.rental()
    world.rentals[ended.id] = replace(ended, phase=RentalPhase.ENDED)
    (left,) = [shown for shown in status(world)["conditions"] if shown["type"] == "LeftRunning"]
    assert (left["status"], left["reason"]) == ("True", "NoLimitHolds")
    assert "2 nodes (a100-1, a100-2) cost $32.00/h, and no limit of this budget holds" in left["message"]
    world.budget(mode=Mode.ENFORCE)
    assert "LeftRunning" not in {shown["type"] for shown in status(world)["conditions"]}


def ready_message(world: World) -> str:
    (ready,) = [each for each in status(world)["conditions"] if each["type"] == "Ready"]
    return str(ready["message"])


def test_a_budget_that_observes_says_what_it_would_do_and_nothing_of_what_it_would_not() -> None:
    said = "mode Observe: nothing is rented or changed; "
    idle, busy, full = (a_world("60000", jobs=jobs) for jobs in (0, 1, 1))
    for world in (idle, busy, full):
        world.budget(mode=Mode.OBSERVE)
    full.pool(gpus=8, price="16", max_nodes=0)
    assert ready_message(idle) == f"{said}no job waits, and it would do nothing now either"
    assert ready_message(busy).startswith(f"{said}1 job waits, and it would rent 4 more nodes for $64.00/h now")
    assert "place" not in ready_message(busy)
    assert ready_message(full) == f"{said}1 job waits, and it would do nothing now either"


def test_a_budget_that_is_too_small_counts_only_jobs_that_wait_for_its_money() -> None:
    assert ready_message(a_world("10", jobs=3, least=8)).endswith(": jobs queue (2 wait for money now)")
    assert ready_message(a_world("10", jobs=1)).endswith(": jobs queue")


@pytest.mark.parametrize(
    ("days", "holds", "reason"),
    [
        (0, "True", "RateCurrent"),
        (35, "True", "RateCurrent"),
        (36, "False", "RateStale"),
        (-2, "False", "RateOfTheFuture"),
    ],
)
def test_a_budget_in_euros_shows_both_and_says_when_its_rate_is_old(days: int, holds: str, reason: str) -> None:
    world = a_world("20000", jobs=1)
    (name,) = world.budgets
    set_on = moment(world.now).date() - timedelta(days=days)
    world.budgets[name] = replace(world.budgets[name], currency=Currency("EUR", 920_000, set_on))
    shown = status(world)
    assert shown["inCurrency"]["currency"] == "EUR"
    assert shown["inCurrency"]["remaining"] == "18400.00"
    assert shown["remaining"] == "20000.00"
    (told,) = [each for each in shown["conditions"] if each["type"] == "CurrencyRateCurrent"]
    assert (told["status"], told["reason"]) == (holds, reason)
    assert str(set_on) in told["message"]


def test_a_budget_in_dollars_has_no_currency() -> None:
    shown = status(a_world("20000", jobs=1))
    assert "inCurrency" not in shown
    assert "CurrencyRateCurrent" not in [each["type"] for each in shown["conditions"]]


@pytest.mark.parametrize(
    ("known", "holds", "reason"), [(True, "True", "UsersWritten"), (False, "False", "UsersUnknown")]
)
def test_a_budget_shows_its_shares_and_whether_users_are_known(known: bool, holds: str, reason: str) -> None:
    world = a_world("60000", jobs=3)
    (name,) = world.budgets
    world.budgets[name] = replace(world.budgets[name], job_shares=(JobShare("ann", 0.25, user="ann"),))
    job = JobId("train0")
    world.jobs[job] = replace(world.jobs[job], share="ann")
    snapshot = replace(world.snapshot(), cost_recording=CostRecording(users=known))
    (view,) = [v.make(snapshot) for v in viewed_objects(snapshot, plan(snapshot), {}) if v.kind.name == "GPUBudget"]
    shown = dump(view)
    told = {share["name"]: share for share in shown["shares"]}
    assert {who: (share["part"], share["jobs"]) for who, share in told.items()} == {
        "ann": (0.25, 1),
        "(others)": (0.75, 2),
    }
    assert all(float(share["hourly"]) > 0.0 and float(share["paysPerHourSaved"]) > 0.0 for share in told.values())
    (condition,) = [each for each in shown["conditions"] if each["type"] == "UsersKnown"]
    assert (condition["status"], condition["reason"]) == (holds, reason)


def test_a_budget_without_shares_shows_none_and_needs_no_users() -> None:
    shown = status(a_world("60000", jobs=1))
    assert "shares" not in shown
    assert "UsersKnown" not in [each["type"] for each in shown["conditions"]]
