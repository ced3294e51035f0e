"""Each step changes a balance once, however often it is repeated."""

from __future__ import annotations

import pytest

from charterer.domain.budget import PERIODS_KEPT, PastPeriod
from charterer.domain.ids import BudgetId, RentalId
from charterer.domain.money import ZERO, Money
from charterer.domain.steps import Fold, OpenPeriod, PruneFolded
from charterer.domain.time import Instant, after
from charterer.ledger.balance import StalePeriod, apply_fold, apply_open_period, apply_prune_folded, current_rate
from tests.factory import APRIL, MARCH, PRICE, TEAM, balance, instance, rental

FOLD = Fold(RentalId("a100-1"), "uid-1", BudgetId("team"), Money(3), Money(5), MARCH)


def test_folding_adds_both_sums_and_the_uid_once() -> None:
    once = apply_fold(balance(), FOLD)
    assert (once.settled, once.lifetime, once.folded) == (Money(3), Money(5), frozenset({"uid-1"}))
    assert apply_fold(once, FOLD) == once


def test_a_fold_made_for_another_period_is_refused() -> None:
    with pytest.raises(StalePeriod, match="plan again"):
        apply_fold(balance(period_start=APRIL), FOLD)


def test_a_fold_whose_answer_was_lost_is_recognised_in_the_next_period() -> None:
    later = balance(period_start=APRIL, folded=frozenset({"uid-1"}))
    assert apply_fold(later, FOLD) == later


def test_the_first_period_opens_empty() -> None:
    opened = apply_open_period(None, OpenPeriod(TEAM, MARCH, None, None))
    assert opened == balance()
    assert apply_open_period(opened, OpenPeriod(TEAM, MARCH, None, None)) == opened


def test_the_next_period_puts_the_last_into_history_once() -> None:
    step = OpenPeriod(TEAM, APRIL, Money(9), MARCH, last_aim=Money(10))
    before = apply_fold(balance(), FOLD)
    opened = apply_open_period(before, step)
    assert (opened.period_start, opened.settled) == (APRIL, ZERO)
    assert opened.history == (PastPeriod(MARCH, Money(9), Money(10)),)
    assert (opened.lifetime, opened.folded) == (before.lifetime, before.folded)
    assert apply_open_period(opened, step) == opened


def test_only_the_latest_periods_are_kept() -> None:
    past = tuple(PastPeriod(Instant(month), Money(month)) for month in range(PERIODS_KEPT))
    opened = apply_open_period(balance(history=past), OpenPeriod(TEAM, APRIL, Money(9), MARCH))
    assert opened.history == (*past[1:], PastPeriod(MARCH, Money(9)))


def test_the_end_of_a_period_the_balance_is_not_in_is_refused() -> None:
    with pytest.raises(StalePeriod):
        apply_open_period(balance(period_start=after(MARCH, -1)), OpenPeriod(TEAM, APRIL, Money(9), MARCH))
    with pytest.raises(StalePeriod):
        apply_open_period(None, OpenPeriod(TEAM, APRIL, Money(9), MARCH))


def test_pruning_forgets_uids_and_keeps_sums() -> None:
    folded = apply_fold(balance(), FOLD)
    assert apply_prune_folded(folded, PruneFolded(TEAM, ("uid-1", "uid-9"))) == balance(
        settled=Money(3), lifetime=Money(5)
    )


def test_only_nodes_that_are_billed_cost_something_now() -> None:
    assert current_rate(TEAM, [rental(machine=instance()), rental("a100-2")]) == PRICE
