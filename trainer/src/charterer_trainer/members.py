"""The members of a group that is resized in place, and a thread that waits until the operator announces a change of the
members.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from charterer_trainer.environment import whole

log = logging.getLogger("charterer_trainer")

_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 10.0


@dataclass(frozen=True)
class Members:
    """The pods that form the group of ``generation``: their Job indexes, ascending, and the address of each.

    An address is a DNS name or an IP address. If the process does not listen on the default port, ``:port`` follows.
    ``key`` is a secret by which the run's pods recognise each other. It is empty if the operator sent none.
    """

    generation: int
    indexes: tuple[int, ...]
    addresses: tuple[str, ...]
    key: str = field(default="", compare=False, repr=False)

    @classmethod
    def of(cls, content: object) -> Members | None:
        """Parse the object ``{"generation", "indexes", "addresses"}``. None if the object is malformed."""
        if not isinstance(content, dict):
            return None
        generation, indexes, addresses = (content.get(name) for name in ("generation", "indexes", "addresses"))
        number = whole(generation)
        if number is None or not isinstance(indexes, list) or not isinstance(addresses, list):
            return None
        pairs = [(whole(index), address) for index, address in zip(indexes, addresses)]
        known = sorted((index, address) for index, address in pairs if index is not None and isinstance(address, str))
        if not known or len({index for index, _ in known}) != len(indexes) or len(indexes) != len(addresses):
            return None
        key = content.get("key")
        members = tuple(index for index, _ in known), tuple(address for _, address in known)
        return cls(number, *members, key if isinstance(key, str) else "")

    def content(self) -> dict[str, object]:
        """The object that ``of`` parses, without the key."""
        return {"generation": self.generation, "indexes": list(self.indexes), "addresses": list(self.addresses)}

    @property
    def leader(self) -> int:
        """The lowest index."""
        return self.indexes[0]

    def address(self, index: int) -> str:
        """The address of the member with this index. Raises ValueError if it is no member."""
        return self.addresses[self.indexes.index(index)]


class MembersWatch:
    """The newest members that the operator has announced.

    After ``follow(True)``, a thread keeps a call open, which the operator answers as soon as the members change.
    Otherwise the members come from the answers to ordinary reports (``heard``).
    """

    def __init__(self, ask: Callable[[Mapping[str, object]], Members | None]) -> None:
        """``ask`` posts the fields and returns the members of the answer. Any exception counts as a failed call."""
        self._ask = ask
        self._changed = threading.Condition()
        self._following = False
        self._newest: Members | None = None
        self._thread: threading.Thread | None = None

    @property
    def newest(self) -> Members | None:
        """The newest members, or None until the operator has announced any."""
        with self._changed:
            return self._newest

    def heard(self, members: Members | None) -> None:
        """Store the members of an answer. If their generation is older than the newest one, they are ignored, because
        answers may overtake each other.
        """
        with self._changed:
            if members is not None and (self._newest is None or members.generation > self._newest.generation):
                self._newest = members
                self._changed.notify_all()

    def follow(self, following: bool) -> None:
        """Keep a call open from now on. If ``following`` is False, open no further call."""
        with self._changed:
            self._following = following
            self._changed.notify_all()
            if following and self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="charterer-members", daemon=True)
                self._thread.start()

    def wait(self, beyond: int, seconds: float) -> Members | None:
        """The newest members once their generation is above ``beyond``, or None if ``seconds`` pass without any."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest is not None and self._newest.generation > beyond, seconds)
            return self._newest if self._newest is not None and self._newest.generation > beyond else None

    def _loop(self) -> None:
        pause = 0.0
        while True:
            with self._changed:
                self._changed.wait(pause) if pause else None
                self._changed.wait_for(lambda: self._following)
                known = 0 if self._newest is None else self._newest.generation
            pause = self._ask_once(known, pause)

    def _ask_once(self, known: int, last_pause: float) -> float:
        """Make one call. Returns the seconds until the next call. They are 0 after new members, and if the operator
        held the answer back.
        """
        begin = time.monotonic()
        try:
            members = self._ask({"waitGeneration": known})
        except Exception as problem:  # a defect here must not end a training run of days
            log.debug("the members are not known: %s", problem)
            return min(_LONGEST_PAUSE_SECONDS, max(_PAUSE_SECONDS, 2 * last_pause))
        self.heard(members)
        news = members is not None and members.generation > known
        return 0.0 if news or time.monotonic() - begin > _PAUSE_SECONDS else _PAUSE_SECONDS
