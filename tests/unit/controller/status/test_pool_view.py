"""What a GPUPool and the prices of a GPUBudget show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.controller.status.budgets_and_pools import Tally, budget_view, pool_view
from charterer.controller.status.publisher import viewed_objects
from charterer.domain.budget import Selector
from charterer.domain.ids import PoolId
from charterer.domain.money import Price
from charterer.domain.pool import CapacityType, Offering, Partition, Pool, Quote
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot, Stop
from charterer.domain.time import after, moment
from charterer.policy.planner import plan
from charterer.providers.errors import CloudUnreachable, InvalidRequest, NotFoundInCloud, ProviderError, UnusablePrice
from charterer.providers.provider import PreflightFinding
from tests import factory as make

OTHER = PoolId("other")


def shown(pool: Pool, error: ProviderError | None = None) -> tuple[str, str, str]:
    """State, reason and message of the pool."""
    snapshot = make.snapshot(pool, make.survey())
    decided = plan(snapshot)
    tally = Tally.of(snapshot.jobs, snapshot.rentals, decided.jobs)
    view = pool_view(pool, decided, tally, {} if error is None else {pool.id: error}, (), snapshot)
    (ready,) = view.conditions
    return str(view.state), ready.reason, ready.message


def test_a_pool_whose_type_has_no_such_slices_says_which_it_has() -> None:
    state, reason, message = shown(make.pool(partition=Partition("1g.7gb"), offering=None))
    assert (state, reason) == ("Invalid", "NoSuchSlice")
    assert message.startswith("spec.partition.profile is 1g.7gb, and a ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        ((None, None), ""),
        ((7200.0, None), "{}: 1 node"),
        ((7200.0, 7201.0), "{}: 2 nodes"),
        ((90_000.0, 7200.0), "{}: 1 node"),
        ((-5.0, None), ""),
    ],
)
def test_a_pool_shows_when_nodes_end_whose_end_is_known(seconds: tuple[float | None, float | None], text: str) -> None:
    pool, now = make.pool(), make.snapshot().now
    machines = [
        make.instance(name, ends=None if left is None else after(now, left))
        for name, left in zip(("i1", "i2"), seconds, strict=True)
    ]
    snapshot = make.snapshot(pool, make.survey(*machines))
    decided = plan(snapshot)
    view = pool_view(pool, decided, Tally.of({}, {}, {}), {}, (), snapshot)
    assert view.next_end == text.format(f"{moment(after(now, 7200.0)):%Y-%m-%dT%H:%MZ}")


def test_a_pool_shows_the_most_nodes_that_it_may_have_which_its_group_may_limit() -> None:
    pool = make.pool(max_nodes=3)  # with what its group takes, as observing does
    snapshot = make.snapshot(pool, make.survey())
    assert pool_view(pool, plan(snapshot), Tally.of({}, {}, {}), {}, (), snapshot).most_nodes == 3


def prices(snapshot: Snapshot) -> tuple[str, str]:
    """Status and reason of the budget's condition PriceDataFresh."""
    decided = plan(snapshot)
    (budget,) = snapshot.budgets.values()
    view = budget_view(budget, snapshot, decided, Tally.of(snapshot.jobs, snapshot.rentals, decided.jobs))
    fresh = next(condition for condition in view.conditions if condition.type == "PriceDataFresh")
    return str(fresh.status), fresh.reason


@pytest.mark.parametrize("code", ["GroupNotFound", "CapacityTypeDiffers"])
def test_a_pool_whose_spec_the_cloud_contradicts_is_not_called_unreachable(code: str) -> None:
    kind = NotFoundInCloud if code == "GroupNotFound" else InvalidRequest
    state, reason, message = shown(make.pool(), kind(make.POOL, "GET /v1/groups/g", code, "no such group"))
    assert (state, reason) == (code, code)
    assert "no such group" in message


@pytest.mark.parametrize("kind", [InvalidRequest, UnusablePrice])
def test_a_spot_pool_without_a_price_names_the_field_that_sets_it(kind: type[ProviderError]) -> None:
    pool = make.pool(quote=None, capacity_type=CapacityType.SPOT)
    state, reason, message = shown(pool, kind(pool.id, "quote", "NoPrice", "no spot price: set spec.price.hourly"))
    assert (state, reason) == ("NoPrice", "NoPrice")
    assert message.startswith("quote: NoPrice: no spot price: set spec.price.hourly")


def test_a_cloud_that_does_not_answer_is_unreachable() -> None:
    error = CloudUnreachable(make.POOL, "GET /v1/groups/g", "TimeOut", "no answer")
    assert shown(make.pool(), error)[:2] == ("Unreachable", "Unreachable")


def test_a_pool_that_another_one_acts_for_names_it() -> None:
    state, reason, message = shown(make.pool(taken_by=OTHER))
    assert (state, reason) == ("GroupTaken", "GroupTaken")
    assert "GPUPool other, which is older" in message


def test_a_pool_that_the_cloud_contradicts_says_so_though_another_one_acts_for_its_group() -> None:
    error = InvalidRequest(make.POOL, "GET /v1/groups/g", "CapacityTypeDiffers", "the group sells OnDemand")
    state, _, message = shown(make.pool(taken_by=OTHER, offering=None), error)
    assert state == "CapacityTypeDiffers"
    assert "the group sells OnDemand" in message


def test_a_pool_that_cools_because_of_another_ones_refusal_names_it() -> None:
    (cooled,) = make.cooled(make.at(700), by=OTHER, code="InsufficientInstanceCapacity", message="none left")
    state, reason, message = shown(make.pool(reached=cooled))
    assert (state, reason) == ("Cooling", "StockOut")
    assert message == "GPUPool other was refused what this pool asks for: InsufficientInstanceCapacity: none left"


@pytest.mark.parametrize(
    ("phase", "told"),
    [
        (RentalPhase.DRAINING, "being deleted: waits until its 1 rental has ended"),
        (RentalPhase.ENDED, "being deleted: its 1 rental has ended; waits until the cloud's list can show no machine"),
    ],
)
def test_a_pool_that_is_being_deleted_says_what_it_waits_for(phase: RentalPhase, told: str) -> None:
    snapshot = make.snapshot(make.pool(deleting=True), make.rental(phase=phase))
    decided = plan(snapshot)
    tally = Tally.of(snapshot.jobs, snapshot.rentals, decided.jobs)
    view = pool_view(snapshot.pools[make.POOL], decided, tally, {}, (), snapshot)
    assert view.conditions[0].message.startswith(told)


def test_nothing_is_shown_of_a_pool_that_has_no_object() -> None:
    left = make.pool(gone=True, deleting=True, uid="", offering=None, quote=None)
    snapshot = make.snapshot(left)
    assert "GPUPool" not in {viewed.kind.name for viewed in viewed_objects(snapshot, plan(snapshot), {})}
    assert shown(replace(left, uid="of a namesake"))[0] == "GroupTaken"


def test_a_budget_whose_period_has_not_begun_by_the_clock_says_so() -> None:
    early = replace(make.snapshot(make.budget(balance=make.balance(period_start=make.APRIL))), now=make.at(600))
    decided = plan(early)
    view = budget_view(early.budgets[make.TEAM], early, decided, Tally.of(early.jobs, early.rentals, decided.jobs))
    assert (str(view.state), view.conditions[0].reason) == ("ClockBehind", "ClockBehind")


def test_a_pool_without_a_price_leaves_the_prices_of_others_fresh() -> None:
    wrong = make.pool(id=OTHER, offering=None, quote=None)
    fresh = make.pool(quote=Quote(make.PRICE, make.PRICE, 60, "cloud", make.at(600)))
    assert prices(make.snapshot(fresh, wrong)) == ("True", "Fresh")
    assert prices(make.snapshot(wrong)) == ("False", "NoPrice")
    old = replace(make.snapshot(fresh, wrong), now=after(make.at(600), 1000))
    assert prices(old) == ("False", "Stale")


def test_a_budget_that_selects_no_pool_is_not_ready_and_says_which_labels_there_are() -> None:
    choosy = make.budget(pool_selector=Selector((("gpu", "h100"),), (("spot", "DoesNotExist", ()),)))
    snapshot = make.snapshot(choosy, make.pool(labels={"gpu": "a100", "spot": "no"}))
    decided = plan(snapshot)
    view = budget_view(choosy, snapshot, decided, Tally.of(snapshot.jobs, snapshot.rentals, decided.jobs))
    ready = view.conditions[0]
    assert (str(view.state), str(ready.status), ready.reason) == ("NoPool", "False", "NoPool")
    assert ready.message == (
        "spec.poolSelector of GPUBudget team selects no GPUPool: it asks for gpu=h100,!spot; the GPUPools are "
        "a100 (gpu=a100, spot=no)"
    )


def test_the_prices_of_pools_that_a_budget_does_not_select_do_not_matter_to_it() -> None:
    unpriced = make.pool(id=OTHER, quote=Quote(make.PRICE, make.PRICE, 60, "cloud", after(make.at(600), -1000)))
    fresh = make.pool(labels={"gpu": "a100"}, quote=Quote(make.PRICE, make.PRICE, 60, "cloud", make.at(600)))
    choosy = make.budget(pool_selector=Selector((("gpu", "a100"),)))
    assert prices(make.snapshot(fresh, unpriced)) == ("False", "Stale")
    assert prices(make.snapshot(choosy, fresh, unpriced)) == ("True", "Fresh")


def test_a_held_price_is_shown_with_both_numbers_and_what_to_do() -> None:
    pool = make.pool(price_held=Price.parse("80"))
    snapshot = make.snapshot(pool, make.survey())
    view = pool_view(pool, plan(snapshot), Tally.of({}, {}, {}), {}, (), snapshot)
    ready, held = view.conditions
    assert (ready.status, held.type, held.status, held.reason) == ("True", "PriceHeld", "True", "PriceMoved")
    assert "the cloud asks $80.00/h for a node and asked $19.80/h before" in held.message
    assert "kubectl annotate --overwrite gpupool a100 charterer.dev/confirm-price=80.00" in held.message


def test_a_first_price_that_is_not_believed_says_that_nothing_is_rented() -> None:
    pool = make.pool(price_held=Price.parse("80"), quote=None)
    snapshot = make.snapshot(pool, make.survey())
    held = pool_view(pool, plan(snapshot), Tally.of({}, {}, {}), {}, (), snapshot).conditions[1]
    assert (held.type, held.reason) == ("PriceHeld", "PriceUnlikeOthers")
    assert "nothing is rented until it is confirmed: kubectl annotate" in held.message


def test_a_pool_says_that_the_speed_of_its_gpus_is_guessed_where_no_data_sheet_says_it() -> None:
    offering = Offering("NVIDIA-R300", 8, "r300-8", "zone-a")
    snapshot = make.snapshot(make.pool(offering=offering), make.survey(offering=offering))
    (pool,) = snapshot.pools.values()
    _, guessed = pool_view(pool, plan(snapshot), Tally.of({}, {}, {}), {}, (), snapshot).conditions
    assert (guessed.type, guessed.status, guessed.reason) == ("SpeedGuessed", "True", "NoDataSheet")
    assert "no data sheet of GPU type NVIDIA-R300: " in guessed.message
    assert "guessed from its price" in guessed.message


@pytest.mark.parametrize(("stop", "reason"), [(Stop.RENT, "NothingRented"), (Stop.DRAIN, "Drained")])
def test_budgets_and_pools_show_that_the_operator_is_stopped_and_until_when(stop: Stop, reason: str) -> None:
    snapshot = replace(make.snapshot(make.survey()), stop=stop)
    decided = plan(snapshot)
    tally = Tally.of({}, {}, {})
    (pool,), (budget,) = snapshot.pools.values(), snapshot.budgets.values()
    view = budget_view(budget, snapshot, decided, tally)
    (shown,) = [condition for condition in view.conditions if condition.type == "Stopped"]
    assert (shown.status, shown.reason) == ("True", reason)
    assert "until `charterer resume`" in shown.message
    assert (view.state, pool_view(pool, decided, tally, {}, (), snapshot).state) == ("Stopped", "Stopped")


def test_what_would_fail_before_the_first_dollar_is_a_condition() -> None:
    snapshot = make.snapshot(make.pool(), make.survey())
    decided = plan(snapshot)
    well, failed = PreflightFinding("group", True, "sells"), PreflightFinding("size", False, "lower maxNodes")

    def found(*findings: PreflightFinding) -> list[tuple[str, str, str]]:
        view = pool_view(make.pool(), decided, Tally.of({}, {}, {}), {}, findings, snapshot)
        return [(str(one.status), one.reason, one.message) for one in view.conditions if one.type == "Preflight"]

    assert found() == []
    assert found(well) == [("True", "ChecksPassed", "1 check passed")]
    assert found(well, failed) == [("False", "ChecksFailed", "size: lower maxNodes")]
