"""Who comes to be in a group: newcomers, those who come again, those who are gone. Boards over TCP, threads as pods."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from charterer_trainer.inplace.board import Board, ask, host_and_port
from charterer_trainer.inplace.rendezvous import Excluded, Finished, Rendezvous
from charterer_trainer.members import Members, MembersWatch
from tests.patience import PATIENCE

KEY = "of-the-run"


class Pods:
    """Processes of one job that hear of the same members. Each has a board on a port of its own."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._watches: dict[int, MembersWatch] = {}
        self.pods: dict[int, Rendezvous] = {}
        self.stopped: set[int] = set()
        self.members: Members | None = None

    def start(self, *indexes: int) -> None:
        for index in indexes:
            watch = self._watches[index] = MembersWatch(self._hold)
            stopped = lambda index=index: index in self.stopped  # noqa: E731
            self.pods[index] = Rendezvous(index, watch, None, stopped, 0)
            watch.heard(self.members)

    def _hold(self, fields: Mapping[str, object]) -> Members | None:
        raise OSError("these pods are told without being asked")

    def announce(self, *indexes: int) -> Members:
        """The operator's word reaches all; pods that are not there yet have an address where nobody listens."""
        generation = 1 if self.members is None else self.members.generation + 1
        ports = [self.pods[index].server.port if index in self.pods else 1 for index in indexes]
        self.members = Members(generation, indexes, tuple(f"127.0.0.1:{port}" for port in ports), KEY)
        for watch in self._watches.values():
            watch.heard(self.members)
        return self.members

    def join(self, index: int, beyond: int = 0, seconds: float | None = None) -> Future[Members]:
        return self._pool.submit(self.pods[index].join, beyond, seconds)

    def group(self, *indexes: int) -> Members:
        """These form a group, whose lowest index leads it."""
        self.start(*indexes)
        members = self.announce(*indexes)
        for future in [self.join(index) for index in indexes]:
            assert future.result(10) == members
        self.pods[indexes[0]].lead(members)
        return members

    def close(self) -> None:
        for index, pod in self.pods.items():
            self.stopped.add(index)
            pod.rest()
            pod.server.close()


@pytest.fixture
def pods() -> Iterator[Pods]:
    with ThreadPoolExecutor(8) as pool:
        made = Pods(pool)
        try:
            yield made
        finally:
            made.close()


def until(state: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not state():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_the_first_group_forms_once_all_its_members_are_there(pods: Pods) -> None:
    pods.start(0, 1)
    pods.announce(0, 1, 2)
    first = pods.join(0)
    second = pods.join(1)
    assert not first.done()
    pods.start(2)
    members = pods.announce(0, 1, 2)  # now with the address of the last
    third = pods.join(2)
    assert [future.result(10) for future in (first, second, third)] == [members] * 3


def test_newcomers_wait_for_the_leaders_word_and_the_leader_for_their_readiness(pods: Pods) -> None:
    group = pods.group(0, 1)
    pods.start(2)
    wider = pods.announce(0, 1, 2)
    assert pods.pods[0].wanted is None
    newcomer = pods.join(2)
    until(lambda: pods.pods[0].wanted == wider)
    assert not newcomer.done()
    pods.pods[0].announce(wider)
    assert newcomer.result(10) == wider
    assert pods.pods[1].decided(group, wider.generation) == wider


def test_narrowing_waits_for_nobody(pods: Pods) -> None:
    pods.group(0, 1)
    narrower = pods.announce(0)
    until(lambda: pods.pods[0].wanted == narrower)


def test_readiness_that_is_not_said_again_does_not_count(pods: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charterer_trainer.inplace.rendezvous._READY_SECONDS", 0.3)
    pods.group(0)
    pods.start(1)
    wider = pods.announce(0, 1)
    pods.pods[0].board.say(wider.generation, "ready", 1)  # a predecessor of this index, which is gone
    until(lambda: pods.pods[0].wanted == wider)
    until(lambda: pods.pods[0].wanted is None)


def test_a_newcomer_whose_generation_is_withdrawn_waits_for_its_end(pods: Pods) -> None:
    pods.group(0)
    pods.start(1)
    pods.announce(0, 1)
    newcomer = pods.join(1)
    until(lambda: pods.pods[0].wanted is not None)
    again = pods.announce(0)
    until(lambda: pods.pods[0].wanted == again)
    assert not newcomer.done()
    pods.stopped.add(1)
    with pytest.raises(SystemExit) as end:
        newcomer.result(10)
    assert end.value.code == 143


def test_a_lost_leaders_index_comes_again_and_the_others_call_it(pods: Pods) -> None:
    pods.group(1, 2)  # index 0 was lost before
    pods.start(0)
    wider = pods.announce(0, 1, 2)
    newcomer = pods.join(0)
    until(lambda: pods.pods[1].wanted == wider)
    pods.pods[1].announce(wider)
    assert newcomer.result(10) == wider


def test_survivors_meet_in_the_group_that_the_operator_announces(pods: Pods) -> None:
    group = pods.group(0, 1, 2)
    pods.pods[0].rest()
    survivors = [pods.join(index, group.generation, 10) for index in (1, 2)]
    members = pods.announce(1, 2)
    assert [survivor.result(10) for survivor in survivors] == [members] * 2


def test_a_survivor_that_the_operator_leaves_out_is_told(pods: Pods) -> None:
    group = pods.group(0, 1)
    pods.announce(0)
    with pytest.raises(Excluded):
        pods.join(1, group.generation, 10).result(10)


def test_a_survivor_does_not_wait_for_ever(pods: Pods) -> None:
    group = pods.group(0, 1)
    with pytest.raises(TimeoutError):
        pods.join(1, group.generation, 0.1).result(10)


def test_a_barrier_ends_when_all_have_come_or_its_time_is_up(pods: Pods) -> None:
    group = pods.group(0, 1)
    assert not pods.pods[1].all_say(group, 2, "voted", 0.05)
    assert pods.pods[0].all_say(group, 2, "voted", 5)
    assert pods.pods[1].all_say(group, 2, "voted", 5)


def test_each_rank_says_its_part_and_hears_all(pods: Pods) -> None:
    group = pods.group(0, 3)
    with ThreadPoolExecutor(2) as pool:
        said = pool.map(lambda index: pods.pods[index].gather(group, "steps", [index, 5], 5), (0, 3))
        assert list(said) == [[[0, 5], [3, 5]]] * 2
    with pytest.raises(TimeoutError, match=r"\[0\] do not say their mood"):
        pods.pods[3].gather(group, "mood", "good", 0.05)


def test_a_process_that_is_gone_or_does_not_answer_is_silent(pods: Pods) -> None:
    group = pods.group(0, 1, 2)
    assert pods.pods[0].silent(group) == []
    pods.pods[2].server.close()
    assert pods.pods[0].silent(group) == [2]


def test_a_newcomer_ends_when_training_has_ended_without_it(pods: Pods) -> None:
    pods.group(0)
    pods.start(1)
    pods.announce(0, 1)
    newcomer = pods.join(1)
    until(lambda: pods.pods[0].wanted is not None)
    threading.Thread(target=pods.pods[0].finish, daemon=True).start()
    with pytest.raises(Finished):
        newcomer.result(10)
    pods.pods[1].released(1)


def test_what_was_said_for_generations_that_are_over_is_forgotten() -> None:
    board = Board()
    for generation in range(20):
        board.say(generation, "go", 0)
    assert board.hear(0, "go", 0, 0) == {}
    assert board.hear(18, "go", 0, 0) == {0: None}


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("sft-r1-0.sft.ml.svc", ("sft-r1-0.sft.ml.svc", 29_600)),
        ("127.0.0.1:7", ("127.0.0.1", 7)),
        ("[fd00::1]:7", ("fd00::1", 7)),
        ("fd00::1", ("fd00::1", 29_600)),
    ],
)
def test_an_address_may_have_a_port(address: str, expected: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHARTERER_GROUP_PORT", raising=False)
    assert host_and_port(address) == expected


def test_an_older_answer_that_comes_late_changes_nothing() -> None:
    watch = MembersWatch(lambda _: None)
    watch.heard(Members(3, (0,), ("a",)))
    watch.heard(Members(2, (0, 1), ("a", "b")))
    assert watch.wait(beyond=2, seconds=0) == Members(3, (0,), ("a",))
    assert watch.wait(beyond=3, seconds=0) is None


def test_the_operator_is_asked_with_what_is_known_only_while_somebody_wants_to_know() -> None:
    asked: list[object] = []
    answers = [Members(1, (0,), ("a",)), Members(2, (0, 1), ("a", "b"))]

    def ask_operator(fields: Mapping[str, object]) -> Members:
        asked.append(fields["waitGeneration"])
        if len(asked) == 2:
            watch.follow(False)
        return answers[len(asked) - 1]

    watch = MembersWatch(ask_operator)
    watch.follow(True)
    assert watch.wait(beyond=1, seconds=10) == answers[1]
    assert asked == [0, 1]


@pytest.mark.parametrize(
    "content",
    [
        None,
        {"generation": 1, "indexes": [], "addresses": []},
        {"generation": 1, "indexes": [0, 0], "addresses": ["a", "b"]},
        {"generation": 1, "indexes": [0], "addresses": ["a", "b"]},
        {"generation": -1, "indexes": [0], "addresses": ["a"]},
        {"generation": 1, "indexes": ["x"], "addresses": ["a"]},
    ],
)
def test_members_that_make_no_sense_are_none(content: object) -> None:
    assert Members.of(content) is None


def test_members_are_in_the_order_of_their_indexes() -> None:
    members = Members.of({"generation": 4, "indexes": [2, 0], "addresses": ["c", "a"]})
    assert members == Members(4, (0, 2), ("a", "c"))
    assert members is not None
    assert (members.leader, members.address(2)) == (0, "c")


GO: dict[str, object] = {"generation": 1, "word": "go", "index": 0, "value": "finished"}


@pytest.mark.parametrize("key", ["", "of-another-run", "of-the-run-of-another", KEY[:-1]])
def test_who_has_not_the_key_of_the_run_is_not_listened_to(pods: Pods, key: str) -> None:
    pods.start(0, 1)
    members = pods.announce(0, 1)
    newcomer = pods.join(1)
    for address in members.addresses:
        with pytest.raises(OSError, match=r"no answer|reset"):
            ask(address, key, **GO)
    assert pods.join(0).result(10) == newcomer.result(10) == members


def test_before_the_operator_has_told_the_key_nobody_is_listened_to(pods: Pods) -> None:
    pods.start(0)
    for key in ("", KEY):
        with pytest.raises(OSError, match=r"no answer|reset"):
            ask(f"127.0.0.1:{pods.pods[0].server.port}", key, **GO)


def test_a_process_that_comes_in_a_members_place_waits_for_the_next_generation(pods: Pods) -> None:
    group = pods.group(0, 1)
    pods.pods[0].formed(group)
    again = pods.join(1)
    until(lambda: pods.pods[0].board.lately(1, "ready", 0.1) == {1})
    assert not again.done()
    members = pods.announce(0, 1)
    until(lambda: pods.pods[0].wanted == members)
    pods.pods[0].announce(members)
    assert again.result(10) == members
