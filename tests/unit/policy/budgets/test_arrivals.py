"""How often jobs come: the same whether they still exist or not, and following a load that changes."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.budget import ClassHistory
from charterer.domain.ids import ClassId
from charterer.domain.money import Money
from charterer.domain.steps import CountedJob
from charterer.domain.time import Instant, after
from charterer.ledger.class_history import learn
from charterer.policy.budgets.arrivals import arrivals
from tests.worlds import MID_MONTH

DAY = 86_400.0


def came(per_day: float, days: float, seed: int = 1, until: Instant = MID_MONTH) -> list[Instant]:
    """A Poisson process over so many days before ``until``."""
    draw, found = random.Random(seed), []
    left = days - draw.expovariate(per_day)
    while left > 0:
        found.append(after(until, -left * DAY))
        left -= draw.expovariate(per_day)
    return found


def counted(created: list[Instant], hours: float = 5.0) -> ClassHistory | None:
    """The memory of jobs that all finished so much later and are gone."""
    known = None
    for at in created:
        job = CountedJob("", ClassId("team", "sft"), Money(5), Money(7), at, after(at, hours * 3600))
        known = learn(known, job)
    return known


@given(st.floats(0.5, 30.0), st.floats(2.0, 90.0), st.floats(0.0, 1.0), st.floats(0.0, 100.0), st.integers(0, 99))
def test_a_job_counts_once_whether_it_is_in_sight_or_only_remembered(
    per_day: float, days: float, gone: float, hours: float, seed: int
) -> None:
    created = came(per_day, days, seed)
    over = [at for at in created if after(at, hours * 3600) <= MID_MONTH]
    split = int(gone * len(over))
    all_in_sight = arrivals(None, created, MID_MONTH)
    found = arrivals(counted(created[:split], hours), created[split:], MID_MONTH)
    if all_in_sight is None or found is None:
        assert all_in_sight == found
    else:
        assert found.rate == pytest.approx(all_in_sight.rate, rel=1e-6)
        assert found.jobs == pytest.approx(all_in_sight.jobs, rel=1e-6)


@pytest.mark.parametrize(("per_day", "days"), [(5.0, 3.0), (5.0, 60.0), (0.5, 60.0)])
def test_a_steady_rate_is_found_without_bias_and_as_surely_as_is_said(per_day: float, days: float) -> None:
    found = [one for seed in range(300) if (one := arrivals(None, came(per_day, days, seed), MID_MONTH))]
    off = [rate.rate * DAY / per_day - 1.0 for rate in found]
    said = fmean(rate.jobs**-0.5 for rate in found)
    assert abs(fmean(off)) < 0.06
    assert fmean(error**2 for error in off) ** 0.5 == pytest.approx(said, rel=0.3)


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_load_that_doubles_or_halves_is_followed_by_three_quarters_in_two_weeks(factor: float) -> None:
    before = after(MID_MONTH, -14 * DAY)
    years = [came(10.0, 60.0, seed, before) + came(10.0 * factor, 14.0, seed + 100) for seed in range(50)]
    found = [one.rate for created in years if (one := arrivals(None, created, MID_MONTH))]
    assert (fmean(found) * DAY / 10.0 - 1.0) / (factor - 1.0) == pytest.approx(0.75, abs=0.08)


def test_a_class_of_few_jobs_is_counted_over_months() -> None:
    weekly = [after(MID_MONTH, -7 * DAY * (week - 0.5)) for week in range(1, 20)]
    found = arrivals(None, weekly, MID_MONTH)
    assert found is not None
    assert found.rate * 7 * DAY == pytest.approx(1.0, rel=0.1)


def test_too_few_jobs_and_too_short_a_time_say_nothing() -> None:
    created = [after(MID_MONTH, -DAY * part) for part in (0.5, 0.4, 0.3, 0.2, 0.1, 0.0)]
    assert arrivals(None, created, MID_MONTH) is None
    assert arrivals(None, created, after(MID_MONTH, DAY)) is not None
    assert arrivals(None, created[:4], after(MID_MONTH, DAY)) is None
    assert arrivals(None, [], MID_MONTH) is None


def test_a_class_that_stopped_coming_fades_until_nothing_is_said_of_it() -> None:
    known = counted(came(5.0, 30.0))
    rates = [arrivals(known, [], after(MID_MONTH, week * 7 * DAY)) for week in range(1, 30)]
    told = [rate.rate for rate in rates if rate is not None]
    assert told == sorted(told, reverse=True)
    assert rates[-1] is None
