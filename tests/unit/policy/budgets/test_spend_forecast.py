"""What is said of a period's spend: right on average, and wide enough to hold as often as it says."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.budget import ClassHistory
from charterer.domain.ids import BudgetId
from charterer.domain.job import ResizePolicy
from charterer.domain.money import Money
from charterer.domain.plan import ForecastVerdict
from charterer.domain.profile import Amdahl
from charterer.domain.reports import Progress
from charterer.domain.time import after, month_bounds, seconds_between
from charterer.policy import plan
from charterer.policy.budgets.forecast import CompoundPoisson, JobStream, PacingState, SpendBounds, forecast, remembered
from charterer.policy.planner import solve_budgets
from tests.bench import budgets
from tests.worlds import MID_MONTH, World

DAY = 86_400.0
ON_COURSE = PacingState(aim=3_000.0, seconds=30 * DAY, elapsed=10 * DAY, spent=1_000.0)
HOURLY = JobStream(1 / 3600, 100 / 24, 3_600.0, 1.0, 200.0, 0.05)
"""$100 a day."""
AMPLE = SpendBounds(1.0)


def test_what_can_be_spent_is_expected_to_meet_the_aim() -> None:
    assert forecast(ON_COURSE, [HOURLY], AMPLE).expected == pytest.approx(3_000.0)
    behind = replace(ON_COURSE, spent=700.0)
    assert 2_960.0 < forecast(behind, [HOURLY], AMPLE).expected < 3_000.0


@pytest.mark.parametrize("days", [1.0, 7.0, 91.0, 365.0, 3_653.0])
@pytest.mark.parametrize("spent", [0.8, 1.2])
def test_a_deviation_is_paid_back_by_the_end_of_a_period_of_any_length(days: float, spent: float) -> None:
    seconds = days * DAY
    off = PacingState(aim=100.0 * days, seconds=seconds, elapsed=seconds / 3, spent=spent * 100.0 * days / 3)
    left = abs(forecast(off, [HOURLY], AMPLE).expected - off.aim)
    assert left <= 0.03 * off.aim + (0.1 * off.aim if days < 3.0 else 0.0)


def test_a_surplus_that_nothing_can_be_bought_for_is_expected_to_stay() -> None:
    assert forecast(ON_COURSE, [HOURLY], SpendBounds(50 / DAY)).expected == pytest.approx(2_000.0)


def test_at_a_fixed_rate_nothing_is_paid_back() -> None:
    fixed = forecast(ON_COURSE, [HOURLY], SpendBounds(200 / DAY, 200 / DAY))
    assert fixed.expected == pytest.approx(5_000.0)


@pytest.mark.parametrize("spends", [50, 200])
@pytest.mark.parametrize("elapsed", [10, 25, 29])
def test_a_rate_that_nothing_corrects_is_spent_as_it_is_however_long_jobs_are(spends: float, elapsed: float) -> None:
    rate = spends / DAY
    money = replace(ON_COURSE, elapsed=elapsed * DAY, rate=rate, left=8 * DAY * rate)
    told = forecast(money, [HOURLY], SpendBounds(rate, rate))
    assert told.expected == pytest.approx(1_000.0 + spends * (30 - elapsed))


def test_the_interval_begins_at_what_will_be_spent_whatever_is_planned() -> None:
    rare = JobStream(1 / (10 * DAY), 500.0, DAY, 9.0, 1.0, 1.0)
    money = replace(ON_COURSE, spent=2_900.0, rate=100 / DAY, left=700.0)
    assert forecast(money, [rare], AMPLE, spread=700.0).low < 3_000.0
    told = forecast(replace(money, unavoidable=700.0), [rare], AMPLE, spread=700.0)
    assert told.low == pytest.approx(3_600.0)
    assert told.low <= told.expected <= told.high


def test_without_jobs_to_come_what_runs_is_still_spent() -> None:
    last = replace(ON_COURSE, rate=10 / DAY, left=40.0)
    assert forecast(last, [], SpendBounds(0.0)).expected == pytest.approx(1_040.0)


def test_nothing_is_uncertain_once_the_period_is_over() -> None:
    over = replace(ON_COURSE, elapsed=30 * DAY, spent=2_900.0)
    assert forecast(over, [HOURLY], AMPLE) == forecast(over, [], AMPLE)
    assert forecast(over, [HOURLY], AMPLE).high == 2_900.0


@pytest.mark.parametrize("carried", [0.0, 0.5, 1.0])
def test_what_goes_on_beyond_the_end_is_not_expected_by_then_however_much_is_carried_over(carried: float) -> None:
    rate = 150 / DAY
    over = replace(ON_COURSE, elapsed=30 * DAY, spent=3_000.0, rate=rate, left=750.0, carried_fraction=carried)
    assert forecast(over, [], SpendBounds(rate, rate)).expected == pytest.approx(3_000.0)


@given(
    st.floats(1e-7, 1e-2),
    st.floats(0.01, 1e5),
    st.floats(0.0, 30.0),
    st.floats(0.0, 29.9 * DAY),
    st.floats(0.0, 5_000.0),
)
def test_the_interval_holds_no_less_than_is_spent_and_is_in_order(
    arrivals: float, dollars: float, squared_cv: float, elapsed: float, spent: float
) -> None:
    money = replace(ON_COURSE, elapsed=elapsed, spent=spent)
    told = forecast(money, [JobStream(arrivals, dollars, DAY, squared_cv, 10.0, 0.1)], SpendBounds(inf))
    assert spent - 1e-6 <= told.low <= told.expected + 1e-6
    assert told.expected <= told.high + 1e-6


def test_the_interval_is_wide_where_few_large_jobs_could_come_though_little_is_expected() -> None:
    large = JobStream(1e-5, 1_000.0, DAY, 1.0, 1.0, 1.0)
    told = forecast(replace(ON_COURSE, aim=100.0, spent=90.0, rate=40 / DAY, left=50.0), [large], SpendBounds(0.0))
    assert told.low < told.expected < told.high


def test_fewer_and_less_equal_jobs_can_be_promised_less_of() -> None:
    def width(stream: JobStream) -> float:
        told = forecast(ON_COURSE, [stream], AMPLE)
        return told.high - told.low

    rare = replace(HOURLY, arrivals=HOURLY.arrivals / 100, dollars=HOURLY.dollars * 100)
    assert width(HOURLY) < width(replace(HOURLY, squared_cv=9.0)) < width(replace(rare, squared_cv=9.0))


def width(*past: float, bounds: SpendBounds = AMPLE) -> float:
    told = forecast(ON_COURSE, [HOURLY], bounds, 0.0, past)
    return told.high - told.low


def test_past_periods_widen_the_interval_as_far_as_they_deviated_and_narrow_it_where_they_held() -> None:
    steady = width(*[1.0] * 12)
    assert steady < width() < width(0.8, 1.2) < width(*[0.8, 1.2] * 6)


def test_a_surplus_that_nothing_could_be_bought_for_is_no_deviation() -> None:
    short = SpendBounds(80 / DAY)
    assert width(*[0.8] * 12, bounds=short) == pytest.approx(width(*[1.0] * 12, bounds=short))
    assert width(*[0.6] * 12, bounds=short) > width(*[0.8] * 12, bounds=short)


def test_jobs_that_cost_little_a_second_can_have_spent_little_by_the_end() -> None:
    late = replace(ON_COURSE, elapsed=29 * DAY, spent=2_900.0)
    fast, slow = (replace(HOURLY, dollars=50.0, arrivals=1 / DAY, seconds=seconds) for seconds in (60.0, 20 * DAY))
    one, other = forecast(late, [fast], AMPLE), forecast(late, [slow], AMPLE)
    assert other.high - other.low < (one.high - one.low) / 3


def test_what_jobs_longer_than_the_horizon_cost_is_corrected_late() -> None:
    def relative(days: float) -> float:
        told = forecast(ON_COURSE, [replace(HOURLY, seconds=days * DAY, squared_cv=0.0)], AMPLE)
        return told.high - told.low

    assert relative(1.0) < relative(20.0)


@given(st.floats(0.01, 1e4), st.floats(0.0, 50.0), st.floats(1.0, 1e7), st.floats(1.0, 1e7))
def test_a_job_spends_by_then_no_more_than_it_costs_and_no_faster_than_it_can(
    dollars: float, squared_cv: float, seconds: float, by: float
) -> None:
    coming = CompoundPoisson([JobStream(1e-3, dollars, seconds, squared_cv, 10.0, 0.1)])
    first, second = coming.spent(by)
    assert 0.0 <= first <= min(dollars, by * dollars / seconds) * (1 + 1e-6)
    assert first**2 <= second * (1 + 1e-5)
    assert second <= dollars**2 * (1.0 + squared_cv) * (1 + 1e-6)
    later = coming.spent(by * 2)
    assert first <= later[0] * (1 + 1e-6)
    assert second <= later[1] * (1 + 1e-6)


def test_a_class_of_which_no_job_is_in_sight_is_remembered() -> None:
    known = ClassHistory(43.0, 500.0, 430.0, 500.0, after(MID_MONTH, -1e9), MID_MONTH)
    stream = remembered(known, 2.0, 1.1, 1 / DAY, 40.0)
    assert (stream.arrivals, stream.counted) == (1 / DAY, 40.0)
    assert stream.dollars == pytest.approx(11.0)


def told(**changes: float) -> ForecastVerdict:
    world = World()
    world.budget(amount="11520")
    world.pool()
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10, arrivals_per_hour=changes.get("arrivals", 1.0))
    world.job("train", gpus=(1, 8, 32), profile="sft")
    return solve_budgets(world.snapshot())[0].forecast_verdict()


def of_a_running_job(resize: ResizePolicy, fraction: float | None, hard_limit: str | None = None) -> ForecastVerdict:
    """The verdict on a budget of $5,000 with one job that will still cost $20,000, at $16 an hour."""
    world = World()
    world.budget(amount="5000", hard_limit=hard_limit)
    world.pool()
    world.job("train", gpus=8)
    world.rental()
    job = world.runs_on("train", "a100-1", gpus=8)
    assert job.allocation is not None
    remaining = 20_000.0 / job.allocation.option.price.dollars_per_second
    progress = None if fraction is None else Progress(1, fraction, None, None, world.now)
    world.jobs[job.id] = replace(
        job, resize=resize, progress=progress, remaining=remaining, predicted=Money.parse("20000")
    )
    return solve_budgets(world.snapshot())[0].forecast_verdict()


def test_what_a_job_that_is_never_resized_will_still_spend_by_its_report_is_certain() -> None:
    told = of_a_running_job(ResizePolicy.NEVER, 0.3)
    assert told.low.dollars == pytest.approx(16 + 16 * 24 * 15, rel=1e-3)
    assert told.low <= told.expected <= told.high
    assert of_a_running_job(ResizePolicy.NEVER, 0.3, hard_limit="5000").low == Money.parse("5000")
    for other in (of_a_running_job(ResizePolicy.NEVER, None), of_a_running_job(ResizePolicy.RESTART, 0.3)):
        assert other.low.dollars < 5_000


def test_what_a_job_that_has_reported_still_costs_is_less_uncertain() -> None:
    silent, reported = (of_a_running_job(ResizePolicy.RESTART, fraction) for fraction in (None, 0.3))
    assert reported.high.dollars < silent.high.dollars / 2


def test_the_plan_says_what_it_promises() -> None:
    verdict = told()
    assert verdict.low < verdict.expected < verdict.high
    assert verdict.expected.dollars == pytest.approx(11_520, rel=0.02)


@pytest.mark.slow
def test_over_simulated_years_months_keep_to_the_budget_and_intervals_hold() -> None:
    case = replace(budgets.CASES[0], jobs_a_month=600)
    months = [month for seed in range(2) for month in budgets.year(case, seed)]
    within = [abs(month.spend / month.budget - 1) <= 0.05 for month in months]
    asked = [(month.spend, told) for month in months for _, told in month.asked]
    assert sum(within) >= 0.95 * len(within)
    assert sum(told.low <= spend <= told.high for spend, told in asked) >= 0.8 * len(asked)


def test_no_forecast_is_above_the_hard_limit_that_is_never_exceeded() -> None:
    world = World()
    world.budget(amount="1000", hard_limit="1000")
    world.pool(gpus=8, price="16")
    world.job("train", gpus=8)
    limited = solve_budgets(world.snapshot())[0].forecast_verdict()
    assert limited.low <= limited.expected <= limited.high == Money.parse("1000")
    world.budget(amount="1000")
    free = solve_budgets(world.snapshot())[0].forecast_verdict()
    assert free.high > Money.parse("1000")


@pytest.mark.parametrize(("nodes", "hourly"), [(2, None), (100, "32")])
def test_no_forecast_is_above_what_the_nodes_that_there_may_be_can_cost(nodes: int, hourly: str | None) -> None:
    """Jobs that come faster than pools have room for queue: what they would cost is not spent in the period."""
    world = World()
    world.budget(amount="60000", max_hourly=hourly)
    world.pool(gpus=8, price="16", max_nodes=nodes)
    world.profile("sft", Amdahl(0.97, 1.0), work_hours=40, arrivals_per_hour=50.0, budget="research")
    for number in range(60):
        world.job(f"train{number}", gpus=(1, 8, 64), profile="sft")
    snapshot = world.snapshot()
    left = seconds_between(snapshot.now, month_bounds("UTC", snapshot.now)[1]) / 3600.0
    verdict = plan(snapshot).budgets[BudgetId("research")]
    told = solve_budgets(snapshot)[0].forecast_verdict()
    assert told.low <= told.expected <= told.high <= Money.of(32.0 * left)
    assert not verdict.feasible or verdict.planned.dollars_per_hour <= 32.0
