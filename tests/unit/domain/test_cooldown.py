"""Cool-downs grow while a cloud goes on refusing, and begin anew once it has given a node or long been left alone."""

from __future__ import annotations

import pytest

from charterer.domain.order import KEPT, CoolDown, RefusalKind, Scope, cool_down, with_cool_down
from charterer.domain.time import Instant, after, seconds_between
from tests.factory import at, refusal

FIRST = cool_down((), refusal(0), 60.0, at(0), None)


def lasts(cooled: CoolDown) -> float:
    return seconds_between(cooled.since, cooled.until)


def again(before: CoolDown, now: Instant, launched: Instant | None = None, *, billed: bool = False) -> CoolDown:
    return cool_down((before,), refusal(0, kind=before.kind), 60.0, now, launched, billed=billed)


def row(kind: RefusalKind, times: int, *, billed: bool = False) -> list[CoolDown]:
    """Cool-downs in a row, each asked for again as soon as the one before is over."""
    found = [cool_down((), refusal(0, kind=kind), 60.0, at(0), None, billed=billed)]
    while len(found) < times:
        found.append(again(found[-1], found[-1].until, billed=billed))
    return found


def test_each_stock_out_in_a_row_doubles_it_up_to_a_quarter_of_an_hour() -> None:
    cooled = row(RefusalKind.STOCK_OUT, 7)
    assert [lasts(each) for each in cooled] == [60, 120, 240, 480, 900, 900, 900]
    assert cooled[-1].times == 7


def test_a_stock_out_that_is_asked_for_often_is_in_doubt_for_an_hour_as_any_other() -> None:
    doubts = [seconds_between(each.until, each.probation_until) for each in row(RefusalKind.STOCK_OUT, 6)]
    assert doubts == [60, 120, 240, 480, 3600, 3600]
    last = row(RefusalKind.STOCK_OUT, 6)[-1]
    assert again(last, after(last.until, 3599.0)).times == 7
    assert again(last, after(last.until, 3600.0)).times == 1


@pytest.mark.parametrize("kind", [kind for kind in RefusalKind if kind is not RefusalKind.STOCK_OUT])
def test_what_may_be_billed_or_stays_until_somebody_changes_it_is_asked_for_every_hour(kind: RefusalKind) -> None:
    assert [lasts(each) for each in row(kind, 9)] == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_a_stock_out_that_leaves_other_nodes_billed_in_vain_is_asked_for_every_hour() -> None:
    assert [lasts(each) for each in row(RefusalKind.STOCK_OUT, 8, billed=True)][4:] == [960, 1920, 3600, 3600]


@pytest.mark.parametrize("kind", RefusalKind)
def test_the_expected_wait_is_as_long_as_the_row_of_refusals_before_it(kind: RefusalKind) -> None:
    for cooled in row(kind, 12):
        lasted = seconds_between(at(0), cooled.since)
        assert cooled.row_seconds(60.0) == pytest.approx(max(lasted, cooled.seconds), abs=60.0)


def test_a_pools_own_longer_cool_down_is_kept() -> None:
    assert lasts(cool_down((), refusal(0), 7200.0, at(0), None)) == 7200.0


def test_a_row_of_cool_downs_begins_anew_after_a_launch_and_once_the_last_is_no_longer_in_doubt() -> None:
    assert again(FIRST, at(60)).times == 2
    assert again(FIRST, at(60), launched=at(30)).times == 1
    assert again(FIRST, at(60), launched=at(-1)).times == 2
    assert again(FIRST, at(119)).times == 2
    assert again(FIRST, at(120)).times == 1


def test_other_places_cool_apart() -> None:
    elsewhere = cool_down((FIRST,), refusal(0, scope=Scope.ZONE, where="z2"), 60.0, at(60), None)
    assert elsewhere.times == 1
    assert with_cool_down((FIRST,), elsewhere) == (FIRST, elsewhere)
    assert with_cool_down((FIRST, elsewhere), again(FIRST, at(100))) == (elsewhere, again(FIRST, at(100)))


def test_the_latest_few_are_remembered_and_none_that_is_over() -> None:
    known: tuple[CoolDown, ...] = ()
    for place in range(20):
        new = cool_down(known, refusal(0, scope=Scope.ZONE, where=f"z{place}"), 600.0, at(place), None)
        known = with_cool_down(known, new)
    assert [each.where for each in known] == [f"z{place}" for place in range(20 - KEPT, 20)]
    assert with_cool_down((FIRST,), cool_down((), refusal(0, where="h"), 60.0, at(121), None))[0].where == "h"
