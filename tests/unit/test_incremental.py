"""A memo returns what a pure function returned for the same objects, and forgets what the last turn did not ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.incremental import Memo, identity_diff


@dataclass(frozen=True)
class Thing:
    group: str
    number: int


CALLS: list[object] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


def doubled(thing: Thing, factor: float = 2.0) -> list[float]:
    CALLS.append(thing)
    return [thing.number * factor]


def total(things: tuple[Thing, ...]) -> list[int]:
    CALLS.append(things)
    return [sum(thing.number for thing in things)]


def group_of(thing: Thing) -> str:
    return thing.group


def number_of(thing: Thing) -> int:
    return thing.number


def test_the_same_object_is_not_asked_about_twice_and_an_equal_one_is() -> None:
    memo, one = Memo(), Thing("a", 1)
    with memo.turn():
        first = memo(doubled, one, 2.0)
        assert memo(doubled, one, 2.0) is first
    with memo.turn():
        assert memo(doubled, one, 2.0) is first
        assert memo(doubled, Thing("a", 1), 2.0) is not first
        assert memo(doubled, one, 3.0) == [3.0]
    assert len(CALLS) == 3


def test_a_tuple_is_the_same_when_its_members_are() -> None:
    memo, one, other = Memo(), Thing("a", 1), Thing("a", 2)
    with memo.turn():
        first = memo(total, (one, other))
        assert memo(total, tuple([one, other])) is first
        assert memo(total, (one, Thing("a", 2))) is not first


def test_what_a_turn_does_not_ask_for_is_forgotten_at_its_end() -> None:
    memo, one = Memo(), Thing("a", 1)
    with memo.turn():
        first = memo(doubled, one)
    with memo.turn():
        pass
    with memo.turn():
        assert memo(doubled, one) is not first


def test_a_turn_that_fails_changes_nothing() -> None:
    memo, one = Memo(), Thing("a", 1)
    with memo.turn():
        first = memo(doubled, one)
    with pytest.raises(ZeroDivisionError), memo.turn():
        raise ZeroDivisionError
    with memo.turn():
        assert memo(doubled, one) is first


def test_each_asks_about_what_changed_only() -> None:
    memo = Memo()
    things = {number: Thing("a", number) for number in range(5)}
    with memo.turn():
        before = memo.each(doubled, things, 2.0)
    CALLS.clear()
    changed = {**things, 2: Thing("a", 7), 9: Thing("a", 9)}
    del changed[4]
    with memo.turn():
        after = memo.each(doubled, changed, 2.0)
        assert memo.each(doubled, dict(changed), 2.0) is after
    assert [changed[2], changed[9]] == CALLS
    assert list(after.items()) == [(key, [thing.number * 2.0]) for key, thing in changed.items()]
    assert all(after[key] is before[key] for key in (0, 1, 3))


def joined(thing: Thing, word: str | None, factor: float) -> tuple[float, str | None]:
    CALLS.append(thing)
    return thing.number * factor, word


def test_each_of_several_mappings_asks_again_where_any_of_them_has_changed() -> None:
    memo = Memo()
    things = {number: Thing("a", number) for number in range(6)}
    with memo.turn():
        memo.each(joined, (things, {1: "one", 2: "two", 3: "three", 9: "of nothing"}), 2.0)
    CALLS.clear()
    left = {number: thing for number, thing in things.items() if number != 5}
    words = {1: "one", 2: "zwei", 4: "four", 8: "of nothing"}
    with memo.turn():
        after = memo.each(joined, (left, words), 2.0)
        assert memo.each(joined, (dict(left), dict(words)), 2.0) is after
    assert sorted(CALLS, key=lambda thing: str(thing)) == [things[2], things[3], things[4]]
    assert list(after.items()) == [(key, (key * 2.0, words.get(key))) for key in left]


class Known(NamedTuple):
    things: Mapping[int, Thing]
    words: Mapping[int, str | None]


def told(known: Known, key: int, factor: float) -> tuple[float, str | None]:
    CALLS.append(key)
    return known.things[key].number * factor, known.words.get(key, "nothing")


def test_what_several_mappings_know_is_joined_again_where_any_of_them_has_changed() -> None:
    memo = Memo()
    things = {number: Thing("a", number) for number in range(7)}
    with memo.turn():
        memo.joined(told, Known(things, {1: "one", 2: "two", 3: "three", 6: None}), 2.0)
    CALLS.clear()
    left = {number: thing for number, thing in things.items() if number != 5}
    words = {1: "one", 2: "zwei", 4: None, 8: "of nothing"}
    with memo.turn():
        after = memo.joined(told, Known(left, words), 2.0)
        assert memo.joined(told, Known(dict(left), dict(words)), 2.0) is after
    assert sorted(CALLS, key=str) == [2, 3, 4, 6]
    assert list(after.items()) == [(key, (key * 2.0, words.get(key, "nothing"))) for key in left]
    with memo.turn():
        assert memo.joined(told, Known(left, words), 3.0)[1] == (3.0, "one")


def test_each_keeps_the_order_of_the_things() -> None:
    memo = Memo()
    things = {number: Thing("a", number) for number in range(4)}
    with memo.turn():
        memo.each(doubled, things, 2.0)
    turned = {key: things[key] for key in (2, 0, 3)} | {1: Thing("b", 1)}
    with memo.turn():
        assert list(memo.each(doubled, turned, 2.0)) == [2, 0, 3, 1]


def test_values_that_equal_those_of_the_turn_before_are_the_same_objects() -> None:
    memo = Memo()
    with memo.turn():
        before = memo.stable({"x": Thing("a", 1), "y": Thing("a", 2)}, "things")
    with memo.turn():
        after = memo.stable({"x": Thing("a", 1), "y": Thing("a", 3), "z": Thing("a", 4)}, "things")
    assert after == {"x": Thing("a", 1), "y": Thing("a", 3), "z": Thing("a", 4)}
    assert after["x"] is before["x"]
    with memo.turn():
        assert memo.stable({"x": Thing("a", 1), "y": Thing("a", 3), "z": Thing("a", 4)}, "things") is after
    with memo.turn():
        assert memo.stable({"x": Thing("a", 1)}, "things") == {"x": Thing("a", 1)}


def test_a_new_key_with_nothing_under_it_is_something_new() -> None:
    memo = Memo()
    with memo.turn():
        memo.stable({"x": 1}, "numbers")
        memo.each(str, {"x": 1})
    with memo.turn():
        assert memo.stable({"x": 1, "y": None}, "numbers") == {"x": 1, "y": None}
        assert memo.each(str, {"x": 1, "y": None}) == {"x": "1", "y": "None"}


histories = st.lists(
    st.dictionaries(st.integers(0, 8), st.tuples(st.sampled_from("abc"), st.booleans()), max_size=8), max_size=6
)


@given(histories)
def test_groups_are_what_grouping_anew_gives_and_unchanged_ones_are_the_same(
    history: list[dict[int, tuple[str, bool]]],
) -> None:
    memo, things = Memo(), dict[int, Thing]()
    groups: dict[str, tuple[Thing, ...]] = {}
    for turn in history:
        things = {
            key: things[key] if not anew and key in things else Thing(group, key) for key, (group, anew) in turn.items()
        }
        before = groups
        with memo.turn():
            groups = dict(memo.grouped(group_of, number_of, things))
        expected: dict[str, list[Thing]] = {}
        for thing in sorted(things.values(), key=number_of):
            expected.setdefault(thing.group, []).append(thing)
        assert [(name, list(members)) for name, members in groups.items()] == list(expected.items())
        for name, members in groups.items():
            if name in before and list(map(id, before[name])) == list(map(id, members)):
                assert members is before[name]


@st.composite
def two_mappings(draw: st.DrawFn) -> tuple[dict[int, object], dict[int, object]]:
    """Things under their keys, and what has become of them: kept, made anew, gone, new, in another order."""
    made = {key: object() if key else None for key in range(9)}
    before = {key: made[key] for key in draw(st.lists(st.sampled_from(range(9)), unique=True))}
    now = {key: made[key] for key in draw(st.just(list(before)) | st.lists(st.sampled_from(range(9)), unique=True))}
    return before, now | {key: object() for key in draw(st.sets(st.sampled_from(range(9)), max_size=3)) if key in now}


@given(two_mappings())
def test_what_changed_is_what_is_no_more_the_same_object(both: tuple[dict[int, object], dict[int, object]]) -> None:
    before, now = both
    changed, gone = identity_diff(now, before)
    assert changed == [key for key in now if key not in before or now[key] is not before[key]]
    assert set(gone) == before.keys() - now.keys()


def twice(number: int, memo: Memo) -> int:
    return 2 * memo(negative, number)


def four_times(number: int, memo: Memo) -> int:
    return 2 * memo.within(twice, number)


def negative(number: int) -> int:
    ASKED.append(number)
    return -number


ASKED: list[int] = []


def test_what_a_call_asked_the_memo_is_kept_with_it_also_in_turns_that_do_not_ask_for_it_again() -> None:
    ASKED.clear()
    memo = Memo()
    for _ in range(3):
        with memo.turn():
            assert memo.within(four_times, 3) == -12
    with memo.turn():
        assert memo(negative, 3) == -3
    assert ASKED == [3]
    with memo.turn():
        pass
    with memo.turn():
        assert memo.within(four_times, 3) == -12
    assert ASKED == [3, 3]
