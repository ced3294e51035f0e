"""How often jobs come: the same whether they still exist or not, from the first one on, and following their load."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.budget import HISTORY_HALF_LIFE_SECONDS, WEEK_SECONDS, ClassHistory, decay
from charterer.domain.ids import ClassId
from charterer.domain.money import Money
from charterer.domain.steps import CountedJob
from charterer.domain.time import Instant, after, seconds_between
from charterer.ledger.balance import learn
from charterer.policy.budgets.demand import Arrivals, Came, SeenJobs, expected_arrivals
from tests.worlds import MID_MONTH

DAY, MONTH = 86_400.0, 30 * 86_400.0
SFT, RL = ClassId("team", "sft"), ClassId("team", "rl")


def came(per_day: float, days: float, seed: int = 1, until: Instant = MID_MONTH) -> list[Instant]:
    """A Poisson process over so many days before ``until``."""
    draw, found = random.Random(seed), []
    left = days - draw.expovariate(per_day)
    while left > 0:
        found.append(after(until, -left * DAY))
        left -= draw.expovariate(per_day)
    return found


def counted(created: Sequence[Instant], hours: float = 5.0) -> ClassHistory | None:
    """The memory of jobs that all finished so much later and are gone."""
    known = None
    for at in created:
        known = learn(known, CountedJob("", SFT, Money(5), Money(7), at, after(at, hours * 3600)))
    return known


def expected(
    created: Sequence[Instant],
    age_days: float,
    *,
    known: ClassHistory | None = None,
    amount: float = 0.0,
    cheapest: float = 100.0,
    days: float = 30.0,
    now: Instant = MID_MONTH,
) -> Arrivals:
    """The arrivals of a budget of that age whose jobs are all of one class."""
    opened = after(now, -age_days * DAY)
    return expected_arrivals(amount, days * DAY, opened, {SFT: SeenJobs(known, created)}, cheapest, now)


@given(st.floats(0.5, 30.0), st.floats(2.0, 90.0), st.floats(0.0, 1.0), st.floats(0.0, 100.0), st.integers(0, 99))
def test_a_job_counts_once_whether_it_is_in_sight_or_only_remembered(
    per_day: float, days: float, gone: float, hours: float, seed: int
) -> None:
    created = came(per_day, days, seed)
    over = [at for at in created if after(at, hours * 3600) <= MID_MONTH]
    split = int(gone * len(over))
    known, left = counted(created[:split], hours), created[split:]
    in_sight, found = SeenJobs(None, created), SeenJobs(known, left)
    assert found.count(MID_MONTH) == pytest.approx(in_sight.count(MID_MONTH), rel=1e-6)


@pytest.mark.parametrize(("per_day", "days"), [(5.0, 30.0), (5.0, 90.0), (1.0, 90.0)])
def test_a_steady_rate_is_found_without_much_bias(per_day: float, days: float) -> None:
    found = [expected(came(per_day, days, seed), days).rate * DAY / per_day for seed in range(200)]
    assert fmean(found) == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_load_that_doubles_or_halves_is_followed_by_half_in_two_weeks(factor: float) -> None:
    before = after(MID_MONTH, -14 * DAY)
    years = [came(10.0, 60.0, seed, before) + came(10.0 * factor, 14.0, seed + 100) for seed in range(50)]
    found = [expected(created, 74.0).rate for created in years]
    assert 0.5 < (fmean(found) * DAY / 10.0 - 1.0) / (factor - 1.0) < 1.0


def test_a_class_that_stopped_coming_fades() -> None:
    known = counted(came(5.0, 30.0))
    weeks = [expected([], 37.0 + 7 * week, known=known, now=after(MID_MONTH, 7 * week * DAY)) for week in range(1, 30)]
    rates = [each.rate for each in weeks]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < rates[0] / 100


def test_a_new_budget_expects_half_of_what_its_amount_pays_for_on_the_cheapest_options() -> None:
    assert expected([], 0.0, amount=20_000.0).rate * MONTH == pytest.approx(100.0, rel=0.01)


def test_jobs_that_waited_for_the_budget_are_a_stock_and_no_arrivals() -> None:
    at_first = [after(MID_MONTH, -2 * DAY)] * 30
    found = expected(at_first, 2.0, amount=20_000.0)
    assert found.opening == 30
    assert found.batches == 0.0
    assert found.rate < expected([], 2.0, amount=20_000.0).rate


def test_jobs_of_a_budgets_first_hour_are_no_arrivals_when_they_are_gone_either() -> None:
    at, over = after(MID_MONTH, -2 * DAY), after(MID_MONTH, -DAY)
    known = learn(None, CountedJob("", SFT, Money(5), Money(7), at, over, opening=True))
    assert (known.jobs, known.arrivals, known.recent_arrivals) == (1.0, 0.0, 0.0)


def test_jobs_that_come_together_are_one_event() -> None:
    apart = [after(MID_MONTH, -hours * 3600.0) for hours in range(2, 42, 2)]
    together = [after(MID_MONTH, -20 * 3600.0 + number) for number in range(20)]
    sweep, stream = (expected(created, 2.0, amount=20_000.0) for created in (together, apart))
    assert sweep.batches == pytest.approx(1.0)
    assert stream.batches == pytest.approx(20.0)
    assert sweep.rate < stream.rate
    assert stream.counted
    assert not sweep.counted


def test_a_rate_counts_as_counted_from_ten_batches_and_a_day_on() -> None:
    created = [after(MID_MONTH, -hours * 3600.0) for hours in range(1, 22, 2)]
    assert not expected(created[:9], 2.0).counted
    assert expected(created, 2.0).counted
    young = [after(MID_MONTH, -minutes * 60.0) for minutes in range(1, 1_000, 90)]
    assert not expected(young, 0.9).counted


def test_the_owners_amount_is_for_a_period() -> None:
    a_month, a_week = expected([], 0.1, amount=3_000.0), expected([], 0.1, amount=700.0, days=7.0)
    assert a_month.rate == pytest.approx(a_week.rate)


def test_each_class_has_its_part_of_the_jobs_that_were_seen() -> None:
    often, seldom = came(3.0, 30.0), came(1.0, 30.0, seed=2)
    seen = {SFT: SeenJobs(None, often), RL: SeenJobs(counted(seldom), ())}
    found = expected_arrivals(0.0, 30 * DAY, after(MID_MONTH, -30 * DAY), seen, 0.0, MID_MONTH)
    assert found.of(SFT) + found.of(RL) == pytest.approx(found.rate)
    assert found.of(SFT) / found.of(RL) == pytest.approx(len(often) / len(seldom), rel=0.3)
    assert found.of(ClassId("team", "another")) == 0.0


@given(st.floats(0.1, 9.0), st.floats(0.1, 60.0), st.floats(-5.0, 200.0), st.integers(0, 99))
def test_counts_that_are_kept_fade_as_counts_made_anew(per_day: float, days: float, later: float, seed: int) -> None:
    created, now = came(per_day, days, seed), after(MID_MONTH, later * DAY)
    ages = [max(seconds_between(at, now), 0.0) for at in created]
    month, week = (sum(decay(age, of) for age in ages) for of in (HISTORY_HALF_LIFE_SECONDS, WEEK_SECONDS))
    seen = SeenJobs(None, created)
    assert seen.count(now) == pytest.approx(month, rel=1e-9)
    kept = Came.of(after(MID_MONTH, -90 * DAY), [seen])
    if now >= kept.last:
        assert kept.week * decay(seconds_between(kept.last, now), WEEK_SECONDS) == pytest.approx(week, rel=1e-9)
