"""The rendezvous by which processes become members of one group. Newcomers report that they are ready, and the leader
starts the group.

A process without a group repeatedly posts ``ready`` and waits for ``go``. It does so on the board of the lowest index
of the generation that the operator has announced. If a group trains already, its leader (its lowest index) posts ``go``
once all newcomers are ready and its members have voted. If no group trains, all members post ``ready``, and the lowest
index posts ``go`` by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from charterer_trainer.inplace.board import Board, BoardServer, ask
from charterer_trainer.members import Members, MembersWatch
from charterer_trainer.session import STOPPED

_READY_SECONDS = 2.0
"""Seconds for which a post that a newcomer is ready counts. An older post may be of a former process with the same
index.
"""
_REPEAT_SECONDS = 0.5
_LOOK_SECONDS = 0.05
_PARALLEL = 32
_ANSWERS_SECONDS = 10.0
FINISHED = "finished"
"""The word that is posted instead of ``go`` if training ended before the newcomers were needed."""


class Excluded(Exception):
    """The operator has announced a group without this process, and this process's own group is broken."""


class Finished(Exception):
    """The group has completed its training, so a newcomer is no longer needed."""


class Rendezvous:
    """This process's part of the rendezvous. ``index`` is its Job index."""

    def __init__(
        self, index: int, watch: MembersWatch | None, fixed: Members | None, stopped: Callable[[], bool], port: int
    ) -> None:
        """``fixed``: the only group, if no operator announces groups (``watch`` is None)."""
        self.index = index
        self.board = Board()
        self._watch = watch
        self.server = BoardServer(self.board, port, self._key)
        self._fixed = fixed
        self._stopped = stopped
        self._lookout: _Lookout | None = None

    def _key(self) -> str | None:
        """The key of the run. None until the operator has sent it. Empty if there is no operator."""
        if self._watch is None:
            return ""
        newest = self._watch.newest
        return None if newest is None else newest.key

    # -- without a group

    def join(self, beyond: int, seconds: float | None = None) -> Members:
        """Join a group of a generation above ``beyond`` that includes this process, and return its members.

        Without ``seconds`` the call waits without limit. With ``seconds`` it raises TimeoutError after that time, and
        Excluded if the operator has announced a group without this process. Raises SystemExit if the run is to stop,
        and Finished if training has ended.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        if self._watch is not None:
            self._watch.follow(True)
        while True:
            if self._stopped():
                raise SystemExit(STOPPED)
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"no group above generation {beyond} within {seconds:g} s")
            members = self._newest(beyond)
            if members is None:
                continue
            if self.index not in members.indexes:
                if deadline is not None:
                    raise Excluded(f"generation {members.generation} has indexes {list(members.indexes)}")
                self._newest(members.generation)
            elif (go := self._offer(members)) is not None:
                return go

    def _newest(self, beyond: int) -> Members | None:
        if self._watch is None:
            return self._fixed
        return self._watch.wait(beyond, _REPEAT_SECONDS)

    def _offer(self, members: Members) -> Members | None:
        """Post that this process is ready.

        Returns the decided members, or None if no members were decided within half a second.
        """
        generation = members.generation
        if members.leader == self.index:
            self.board.say(generation, "ready", self.index)
            if self.board.lately(generation, "ready", _READY_SECONDS) >= set(members.indexes):
                self.board.say(generation, "go", self.index, members.content())
            said = list(self.board.hear(generation, "go", 1, _LOOK_SECONDS).values())
        else:
            asked = {"index": self.index, "awaited": "go", "count": 1, "seconds": _REPEAT_SECONDS}
            try:
                said = list(self._at(members, members.leader, "ready", **asked).values())
            except OSError:  # the leader's process, DNS name or node does not exist yet
                time.sleep(_LOOK_SECONDS)
                return None
        if FINISHED in said:
            raise Finished
        return Members.of(said[0]) if said else None

    # -- within a group

    def formed(self, members: Members) -> None:
        """Record that the group has formed. If a process later replaces a member, it must wait for another
        generation.
        """
        self.board.forget(members.generation, "go")

    def lead(self, members: Members) -> None:
        """Lead this group from now on and watch for the next one."""
        self.rest()
        if self._watch is not None:
            self._watch.follow(True)
            self._lookout = _Lookout(self, self._watch, members)

    def rest(self) -> None:
        """Stop leading a group."""
        if self._watch is not None:
            self._watch.follow(False)
        if self._lookout is not None:
            self._lookout.end()
            self._lookout = None

    @property
    def wanted(self) -> Members | None:
        """The group that should replace this one, once all its newcomers are ready. Only the leader knows it."""
        return None if self._lookout is None else self._lookout.wanted

    def announce(self, wanted: Members) -> None:
        """Announce what the vote is about, to the newcomers, and on this process's own board to the members.

        Raises OSError if the leader of ``wanted`` is unreachable.
        """
        self.board.say(wanted.generation, "go", self.index, wanted.content())
        if wanted.leader != self.index:
            self._at(wanted, wanted.leader, "go", index=self.index, value=wanted.content())

    def finish(self) -> None:
        """Announce that training has ended, so that newcomers stop waiting."""
        members = self._watch.newest if self._watch is not None and self._lookout is not None else None
        if members is None or members.leader != self.index:
            return
        self.board.say(members.generation, "go", self.index, FINISHED)
        newcomers = self.board.lately(members.generation, "ready", _READY_SECONDS) - {self.index}
        self.board.hear(members.generation, "released", len(newcomers), _READY_SECONDS)

    def released(self, beyond: int) -> None:
        """Confirm that this newcomer has learned that it is not needed."""
        members = self._newest(beyond)
        if members is not None:
            try:
                self._at(members, members.leader, "released", index=self.index)
            except OSError:
                return

    def decided(self, group: Members, generation: int) -> Members:
        """What the vote is about, from the board of the group's leader.

        Raises OSError or ValueError if it is unknown.
        """
        said = self._at(group, group.leader, "go", generation=generation, count=1, seconds=_ANSWERS_SECONDS)
        members = Members.of(next(iter(said.values()), None))
        if members is None:
            raise ValueError(f"nobody says who forms generation {generation}")
        return members

    def all_say(self, group: Members, generation: int, word: str, seconds: float) -> bool:
        """Post the word and wait for the whole group (a barrier). Returns False after ``seconds``. Raises OSError."""
        count = len(group.indexes)
        asked = {"index": self.index, "count": count, "seconds": seconds}
        return len(self._at(group, group.leader, word, generation=generation, **asked)) >= count

    def meet(self, group: Members, word: str, seconds: float, given_up: Callable[[], bool]) -> bool:
        """Post the word until the whole group has posted it.

        Returns False after ``seconds``, if ``given_up()`` is true, or if the leader is gone.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                if self.all_say(group, group.generation, word, _REPEAT_SECONDS):
                    return True
            except OSError:
                return False
            if time.monotonic() > deadline or given_up():
                return False

    def gather(self, group: Members, word: str, value: object, seconds: float) -> list[Any]:
        """The value of each rank, by rank. Raises TimeoutError if a value is missing after ``seconds``. Also raises
        OSError.
        """
        asked = {"index": self.index, "value": value, "count": len(group.indexes), "seconds": seconds}
        said = {int(index): value for index, value in self._at(group, group.leader, word, **asked).items()}
        if missing := set(group.indexes) - said.keys():
            raise TimeoutError(f"indexes {sorted(missing)} do not say their {word} within {seconds:g} s")
        return [said[index] for index in group.indexes]

    def told(self, members: Members, word: str, seconds: float) -> object:
        """The value that the group's leader posted with ``tell``.

        Raises TimeoutError and OSError, and raises SystemExit like ``join``.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            said = self._at(members, members.leader, word, count=1, seconds=_REPEAT_SECONDS)
            if said:
                return next(iter(said.values()))
            if self._stopped():
                raise SystemExit(STOPPED)
        raise TimeoutError(f"index {members.leader} does not say its {word} within {seconds:g} s")

    def tell(self, members: Members, word: str, value: object) -> None:
        """Post a value as the leader of this group."""
        self.board.say(members.generation, word, self.index, value)

    def silent(self, members: Members) -> list[int]:
        """The members that do not answer. Their process has ended, hangs or is unreachable."""
        others = [index for index in members.indexes if index != self.index]
        with ThreadPoolExecutor(min(_PARALLEL, max(1, len(others)))) as pool:
            answers = list(pool.map(lambda index: self._answers(members, index), others))
        return [index for index, answer in zip(others, answers) if not answer]

    def superseded(self, generation: int) -> bool:
        """Whether the operator has announced a generation above this one."""
        newest = None if self._watch is None else self._watch.newest
        return newest is not None and newest.generation > generation

    def _answers(self, members: Members, index: int) -> bool:
        try:
            self._at(members, index, "ping")
        except OSError:
            return False
        return True

    def _at(self, group: Members, at: int, word: str, **fields: object) -> dict[str, object]:
        """Send a request about the group's generation to the board of member ``at``. Returns the values by index."""
        request = {"generation": group.generation, "word": word, **fields}
        return dict(self.ask(group.address(at), **request)["values"])

    def ask(self, address: str, **fields: Any) -> dict[str, Any]:
        """Send a request to the board at this address, with the run's key."""
        return ask(address, self._key() or "", **fields)


class _Lookout:
    """A leader's thread. It watches which group the operator wants and whether the newcomers of that group are
    ready.
    """

    def __init__(self, rendezvous: Rendezvous, watch: MembersWatch, group: Members) -> None:
        self.wanted: Members | None = None
        self._rendezvous = rendezvous
        self._watch = watch
        self._group = group
        self._ended = threading.Event()
        threading.Thread(target=self._look, name="charterer-lookout", daemon=True).start()

    def end(self) -> None:
        """Stop watching."""
        self._ended.set()

    def _look(self) -> None:
        while not self._ended.is_set():
            members = self._watch.wait(self._group.generation, _REPEAT_SECONDS)
            if members is not None:
                newcomers = set(members.indexes) - set(self._group.indexes)
                self.wanted = members if newcomers <= self._ready(members) else None
                self._ended.wait(_LOOK_SECONDS)

    def _ready(self, members: Members) -> set[int]:
        mine = self._rendezvous
        if members.leader == mine.index:
            return mine.board.lately(members.generation, "ready", _READY_SECONDS)
        try:
            address = members.address(members.leader)
            answer = mine.ask(address, generation=members.generation, word="ready", lately=_READY_SECONDS)
        except OSError:
            return set()
        return set(answer["indexes"])
