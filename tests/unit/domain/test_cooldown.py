"""Cool-downs grow while a cloud goes on refusing, and begin anew once it has given a node or long been left alone."""

from __future__ import annotations

from charterer.domain.order import KEPT, CoolDown, Scope, cool_down, with_cool_down
from charterer.domain.time import Instant, seconds_between
from tests.factory import at, refusal

FIRST = cool_down((), refusal(0), 60.0, at(0), None)


def lasts(cooled: CoolDown) -> float:
    return seconds_between(cooled.since, cooled.until)


def again(before: CoolDown, now: Instant, launched: Instant | None = None) -> CoolDown:
    return cool_down((before,), refusal(0), 60.0, now, launched)


def test_each_refusal_in_a_row_doubles_it_up_to_an_hour() -> None:
    cooled, found = FIRST, []
    for _ in range(9):
        found.append(lasts(cooled))
        cooled = again(cooled, cooled.until)
    assert found == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert cooled.times == 10


def test_the_expected_wait_is_as_long_as_the_row_of_refusals_before_it() -> None:
    cooled = FIRST
    for _ in range(5):
        cooled = again(cooled, cooled.until)
        lasted = seconds_between(FIRST.since, cooled.since)
        assert cooled.seconds == lasts(cooled) == lasted + lasts(FIRST)


def test_a_pools_own_longer_cool_down_is_kept() -> None:
    assert lasts(cool_down((), refusal(0), 7200.0, at(0), None)) == 7200.0


def test_it_begins_anew_after_a_launch_and_once_it_is_no_longer_in_doubt() -> None:
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
