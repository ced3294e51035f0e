"""The store: the newest of every object, whatever order news come in; nothing raw is kept; the loop is woken."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.cluster.paths import CONFIG_MAPS, PODS
from charterer.cluster.store import DEPARTED_KEPT, ObjectKey, Store, WatchedKind
from charterer.domain.errors import InvalidObject, Problem


def decode(raw: Mapping[str, Any]) -> str | None:
    value: str | None = raw["value"]
    if value == "bad":
        raise InvalidObject(Problem("ConfigMap", "ns", raw["metadata"]["name"], "value", "Bad", "is bad"))
    if value == "bug":
        raise KeyError("surprise")
    return value


MAPS: WatchedKind[str] = WatchedKind("ConfigMap", CONFIG_MAPS, decode)
OTHERS: WatchedKind[str] = WatchedKind("Pod", PODS, decode)


def raw(name: str = "a", version: int = 1, value: str | None = "x", uid: str | None = None) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "value": value}


def shown(store: Store) -> dict[str, str]:
    return {key.name: value for key, value in store.view(MAPS).objects.items()}


@pytest.fixture
def store() -> Store:
    return Store([MAPS, OTHERS])


class TestNewerWins:
    def test_a_newer_version_replaces_an_older_one_and_not_the_reverse(self, store: Store) -> None:
        assert store.put(MAPS, raw(version=9, value="nine"))
        assert not store.put(MAPS, raw(version=10 - 2, value="eight"))
        assert store.put(MAPS, raw(version=10, value="ten"))
        assert shown(store) == {"a": "ten"}

    def test_the_same_version_again_changes_nothing_and_is_not_decoded_again(self) -> None:
        decoded = []

        def decode(found: Any) -> str:
            decoded.append(found)
            return "x"

        kind = WatchedKind("ConfigMap", CONFIG_MAPS, decode)
        store = Store([kind])
        assert store.put(kind, raw())
        assert not store.put(kind, raw())
        assert len(decoded) == 1

    def test_a_deleted_object_does_not_come_back_with_old_news(self, store: Store) -> None:
        store.put(MAPS, raw(version=5))
        assert store.remove(MAPS, raw(version=7))
        assert not store.put(MAPS, raw(version=6))
        assert shown(store) == {}

    def test_a_deletion_heard_before_the_creation_still_counts(self, store: Store) -> None:
        assert not store.remove(MAPS, raw(version=7))
        assert not store.put(MAPS, raw(version=5))

    def test_the_deletion_of_a_predecessor_leaves_its_successor_of_the_same_name(self, store: Store) -> None:
        store.put(MAPS, raw(version=5, uid="first"))
        store.put(MAPS, raw(version=9, uid="second", value="new"))
        assert not store.remove(MAPS, raw(version=8, uid="first"))
        assert shown(store) == {"a": "new"}

    @given(st.permutations(range(1, 7)))
    def test_any_order_of_the_same_news_ends_the_same(self, order: list[int]) -> None:
        store = Store([MAPS])
        for version in order:
            store.put(MAPS, raw(version=version, value=f"v{version}"))
        assert shown(store) == {"a": "v6"}

    @given(st.permutations([("put", 1), ("put", 2), ("put", 3), ("remove", 4)]))
    def test_any_order_with_a_deletion_in_it_ends_without_the_object(self, order: list[tuple[str, int]]) -> None:
        store = Store([MAPS])
        for what, version in order:
            (store.put if what == "put" else store.remove)(MAPS, raw(version=version))
        assert shown(store) == {}


class TestOfNoInterest:
    def test_what_decodes_to_none_is_not_held(self, store: Store) -> None:
        assert not store.put(MAPS, raw(value=None))
        assert shown(store) == {}

    def test_what_is_of_interest_no_longer_goes_and_older_news_do_not_bring_it_back(self, store: Store) -> None:
        store.put(MAPS, raw(version=1))
        assert store.put(MAPS, raw(version=3, value=None))
        assert not store.put(MAPS, raw(version=2))
        assert shown(store) == {}
        assert store.put(MAPS, raw(version=4))


class TestProblems:
    def test_an_invalid_object_is_a_problem_and_no_value_also_when_it_was_fine_before(self, store: Store) -> None:
        store.put(MAPS, raw(version=1))
        store.put(MAPS, raw(version=2, value="bad"))
        view = store.view(MAPS)
        assert view.objects == {}
        assert view.problems[ObjectKey("ns", "a")].reason == "Bad"
        assert store.get(MAPS, "a", "ns") is None

    def test_a_repaired_object_is_a_value_again(self, store: Store) -> None:
        store.put(MAPS, raw(version=1, value="bad"))
        store.put(MAPS, raw(version=2, value="good"))
        view = store.view(MAPS)
        assert (dict(view.objects), dict(view.problems)) == ({ObjectKey("ns", "a"): "good"}, {})

    def test_a_bug_in_decoding_one_object_is_a_problem_of_that_object_only(self, store: Store) -> None:
        store.put(MAPS, raw("a", value="bug"))
        store.put(MAPS, raw("b"))
        assert shown(store) == {"b": "x"}
        assert store.view(MAPS).problems[ObjectKey("ns", "a")].reason == "Undecodable"


class TestWholeLists:
    def test_a_list_removes_what_it_does_not_have(self, store: Store) -> None:
        store.put(MAPS, raw("a", 1))
        store.put(MAPS, raw("b", 2))
        assert store.listed(MAPS, ["uid-b"], version=5) == (ObjectKey("ns", "a"),)
        assert shown(store) == {"b": "x"}

    def test_what_is_newer_than_the_list_stays(self, store: Store) -> None:
        store.put(MAPS, raw("late", 6))
        assert store.listed(MAPS, [], version=5) == ()
        assert shown(store) == {"late": "x"}


class TestViews:
    def test_a_view_never_changes(self, store: Store) -> None:
        store.put(MAPS, raw("a"))
        before = store.view(MAPS)
        store.put(MAPS, raw("b"))
        assert set(before.objects) == {ObjectKey("ns", "a")}
        with pytest.raises(TypeError):
            before.objects[ObjectKey("ns", "c")] = "x"  # type: ignore[index]  # the very fault that is tried

    def test_without_changes_it_is_the_same_view_and_changes_of_other_kinds_do_not_matter(self, store: Store) -> None:
        store.put(MAPS, raw("a"))
        before = store.view(MAPS)
        store.put(OTHERS, raw("p"))
        store.put(MAPS, raw("a"))
        assert store.view(MAPS) is before
        store.put(MAPS, raw("a", 2, value="y"))
        assert store.view(MAPS).version > before.version

    def test_statistics_count_events_objects_problems_and_their_age(self) -> None:
        now = 100.0
        store = Store([MAPS, OTHERS], clock=lambda: now)
        store.put(MAPS, raw("a"))
        store.put(MAPS, raw("a"))
        store.put(MAPS, raw("b", value="bad"))
        now = 107.0
        stats = store.stats()
        assert (stats["ConfigMap"].events, stats["ConfigMap"].age) == (3, 7.0)
        assert (stats["ConfigMap"].objects, stats["ConfigMap"].problems) == (1, 1)
        assert stats["Pod"].age is None


class Raw(dict[str, Any]):
    """A dict that can be watched dying."""


def test_the_json_is_let_go(store: Store) -> None:
    event = Raw(raw())
    gone = weakref.ref(event)
    store.put(MAPS, event)
    del event
    gc.collect()
    assert gone() is None


class TestWaking:
    async def test_many_changes_from_another_thread_wake_the_loop_in_the_loop_and_once(self, store: Store) -> None:
        woken: list[int] = []
        loop_thread = threading.get_ident()

        def on_change() -> None:
            assert threading.get_ident() == loop_thread
            woken.append(store.version)

        store.bind(on_change)
        thread = threading.Thread(target=lambda: [store.put(MAPS, raw(f"n{i}")) for i in range(100)])
        thread.start()
        thread.join()  # without a turn of the loop between
        await asyncio.sleep(0)
        assert len(woken) == 1
        store.put(MAPS, raw("n0", 2, value="y"))
        await asyncio.sleep(0)
        assert len(woken) == 2

    async def test_what_changes_nothing_does_not_wake(self, store: Store) -> None:
        store.put(MAPS, raw())
        woken = []
        store.bind(lambda: woken.append(1))
        store.put(MAPS, raw())
        store.remove(MAPS, raw("unknown"))
        store.put(MAPS, raw("dull", value=None))
        await asyncio.sleep(0)
        assert woken == []

    async def test_a_new_version_of_an_equal_value_does_not_wake_and_keeps_the_value_and_its_view(self) -> None:
        kind = WatchedKind("ConfigMap", CONFIG_MAPS, lambda found: (found["value"],))
        store = Store([kind])
        store.put(kind, raw())
        woken, view = [], store.view(kind)
        store.bind(lambda: woken.append(1))
        assert not store.put(kind, raw(version=2))
        await asyncio.sleep(0)
        assert woken == []
        assert store.view(kind) is view
        known = store.stored_version(kind, ObjectKey("ns", "a"))
        assert known is not None
        assert known.version == 2
        assert store.put(kind, raw(version=3, uid="another"))
        changed = raw(version=4, uid="another")
        changed["metadata"]["generation"] = 1
        assert store.put(kind, changed)

    async def test_a_value_of_which_only_the_version_changed_is_shown_and_does_not_wake(self) -> None:
        def decode(found: Mapping[str, Any]) -> tuple[str, str]:
            return found["value"], found["metadata"]["resourceVersion"]

        kind = WatchedKind("ConfigMap", CONFIG_MAPS, decode, unversioned=lambda value: value[0])
        store = Store([kind])
        store.put(kind, raw())
        woken = []
        store.bind(lambda: woken.append(1))
        assert not store.put(kind, raw(version=2))
        await asyncio.sleep(0)
        assert woken == []
        assert store.get(kind, "a", "ns") == ("x", "2")
        assert list(store.view(kind).objects.values()) == [("x", "2")]
        assert store.put(kind, raw(version=3, value="y"))
        await asyncio.sleep(0)
        assert woken == [1]

    def test_a_store_that_outlives_its_loop_still_takes_news(self, store: Store) -> None:
        async def bind() -> None:
            store.bind(lambda: None)

        asyncio.run(bind())
        assert store.put(MAPS, raw())


def test_threads_that_put_at_the_same_time_lose_nothing(store: Store) -> None:
    def put(part: int) -> None:
        for number in range(500):
            store.put(MAPS, raw(f"o{number}", version=part + 1, value=f"{part}"))
            store.view(MAPS)

    threads = [threading.Thread(target=put, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shown(store) == {f"o{n}": "3" for n in range(500)}


class TestDeparted:
    def test_the_last_value_of_a_deleted_object_is_kept_if_its_kind_says_so(self) -> None:
        kind: WatchedKind[str] = WatchedKind("ConfigMap", CONFIG_MAPS, decode, outlives=lambda value: value == "killed")
        store = Store([kind])
        for name, value in {"a": "killed", "b": "done", "c": "bad"}.items():
            store.put(kind, raw(name, value="running"))
            store.put(kind, raw(name, version=2, value=value))
        assert not store.view(kind).departed
        for name in ("a", "b", "c"):
            store.remove(kind, raw(name, version=3))
        departed = store.view(kind).departed
        assert departed == {"uid-a": "killed"}
        store.put(kind, raw("d"))
        assert store.view(kind).departed is departed

    def test_only_the_latest_of_them_are_kept(self) -> None:
        kind: WatchedKind[str] = WatchedKind("ConfigMap", CONFIG_MAPS, decode, outlives=lambda value: True)
        store = Store([kind])
        for number in range(DEPARTED_KEPT + 1):
            store.put(kind, raw(str(number)))
            store.remove(kind, raw(str(number)))
        departed = store.view(kind).departed
        assert (len(departed), "uid-0" in departed, f"uid-{DEPARTED_KEPT}" in departed) == (DEPARTED_KEPT, False, True)
