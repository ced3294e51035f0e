"""What finished jobs have cost is folded once each, and fades."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from math import log

import pytest

from charterer.domain.budget import HISTORY_HALF_LIFE_SECONDS, Balance
from charterer.domain.ids import ClassId
from charterer.domain.money import Money
from charterer.domain.steps import CountedJob, CountJobs
from charterer.ledger.balance import CLASSES_KEPT, apply_count, learn
from tests.factory import TEAM, at, balance

SFT = ClassId("research", "sft")
DAY = 86_400.0


def job(uid: str, finished: float = 0.0, actual: str = "20", class_id: ClassId = SFT) -> CountedJob:
    return CountedJob(uid, class_id, Money.parse("10"), Money.parse(actual), at(finished), at(finished))


def count(before: Balance, *jobs: CountedJob) -> Balance:
    return apply_count(before, CountJobs(TEAM, jobs))


def test_each_job_is_counted_once_however_often_its_step_is_repeated() -> None:
    once = count(balance(), job("a"), job("b"))
    assert (once.class_history[SFT].jobs, once.jobs_cost) == (2.0, Money.parse("40"))
    assert count(once, job("a"), job("b")) == once
    assert count(once, job("b"), job("c")).class_history[SFT].jobs == 3.0


def test_the_sums_are_of_dollars_and_of_how_unequal_they_are() -> None:
    history = count(balance(), job("a", actual="20"), job("b", actual="5")).class_history[SFT]
    assert (history.predicted, history.actual, history.squares) == pytest.approx((20.0, 25.0, 42.5))


def test_uids_are_kept_for_a_day_of_finishes_and_older_jobs_are_taken_for_counted() -> None:
    recorded = count(balance(), job("old"), job("new", finished=2 * DAY))
    assert set(recorded.counted) == {"new"}
    assert recorded.counts("old", at(0))
    assert not recorded.counts("late", at(1.5 * DAY))
    assert count(recorded, job("late", finished=1.5 * DAY)).class_history[SFT].jobs > recorded.class_history[SFT].jobs


def test_a_jobs_weight_halves_in_a_month_and_its_money_stays() -> None:
    recorded = count(balance(), job("a"))
    later = count(recorded, job("b", finished=HISTORY_HALF_LIFE_SECONDS))
    assert later.class_history[SFT].jobs == pytest.approx(1.5)
    assert later.class_history[SFT].since == at(0)
    assert later.jobs_cost == Money.parse("40")


def test_the_order_in_which_jobs_come_to_light_hardly_matters() -> None:
    jobs = [job("a", 0.0), job("b", 3600.0, "40"), job("c", 7200.0, "5")]
    sums = set()
    for order in permutations(jobs):
        recorded = balance()
        for counted in order:
            recorded = count(recorded, counted)
        sums.add(round(recorded.class_history[SFT].aged(at(DAY)).actual, 1))
    assert len(sums) == 1


def test_jobs_count_as_arrivals_by_when_they_were_created() -> None:
    short, long = job("short"), replace(job("long", 14 * DAY), created=at(-16 * DAY))
    history = learn(learn(None, short), long)
    assert history.since == at(-16 * DAY)
    assert history.arrivals == pytest.approx(0.5 ** (14 / 30) + 0.5)
    assert history.recent_arrivals == pytest.approx(0.25 + 0.5 ** (30 / 7))


def test_of_jobs_that_completed_it_is_remembered_how_far_cost_and_life_were_from_what_was_predicted() -> None:
    twice_as_dear = replace(job("a", finished=200.0), created=at(0), predicted_end=at(100))
    failed = job("b", finished=300.0)
    history = count(balance(), twice_as_dear, failed).class_history[SFT]
    assert (history.jobs, history.complete) == pytest.approx((2.0, 1.0), rel=1e-4)
    sums = history.cost_logs, history.cost_log_squares, history.life_logs, history.life_log_squares
    assert sums == pytest.approx((log(2.0), log(2.0) ** 2) * 2, rel=1e-4)
    assert history.aged(at(HISTORY_HALF_LIFE_SECONDS)).complete == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("actual", ["0", "1000000"])
def test_a_job_that_went_wrong_counts_as_a_thousand_times_off_at_most(actual: str) -> None:
    history = learn(None, replace(job("a", actual=actual), predicted_end=at(1e9)))
    assert abs(history.cost_logs) == pytest.approx(log(1000.0))
    assert history.life_logs == pytest.approx(-log(1000.0))


def test_of_a_job_that_was_predicted_to_cost_nothing_only_its_coming_counts() -> None:
    free = replace(job("a"), predicted=Money(0))
    assert (learn(None, free).jobs, learn(None, free).arrivals) == (0.0, 1.0)


def test_the_class_that_was_silent_longest_is_forgotten_first() -> None:
    many = [job(f"{number}", number, class_id=ClassId("team", f"{number:04}")) for number in range(CLASSES_KEPT + 1)]
    history = count(balance(), *many).class_history
    assert len(history) == CLASSES_KEPT
    assert ClassId("team", "0000") not in history
