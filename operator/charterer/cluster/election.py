"""Who may lead, decided from what was seen of the Lease and when. No I/O, and no clock of its own.

All times are seconds of one steady clock of this process. The Lease's own timestamps are never compared with it: a
candidate counts from when *it saw* the last change, a leader from before it *asked* for its last renewal. Clocks of
different machines may differ, as long as they run at about the same speed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds. A leader that has not renewed for ``renew_deadline`` stops; others take over after ``duration``.

    Between the two a deposed leader ends its process; the difference also allows for clocks of unequal speed. A leader
    that renews, and otherwise has got no answer from the API server for ``act_deadline``, stops as well.
    """

    duration: float = 15.0
    renew: float = 5.0
    retry: float = 2.0
    renew_deadline: float = 10.0
    act_deadline: float = 30.0

    def __post_init__(self) -> None:
        if not (self.retry <= self.renew < self.renew_deadline < self.duration):
            raise ValueError(f"need retry <= renew < renew_deadline < duration, not {self}")


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The Lease as it was read. ``holder`` is empty when it was given up; ``duration`` in seconds."""

    holder: str
    duration: float
    transitions: int
    resource_version: str


class Election:
    """The state of one candidate. Not thread-safe."""

    def __init__(self, identity: str, times: LeaseTimes) -> None:
        self._identity = identity
        self._times = times
        self._seen_at = float("-inf")
        self.record: LeaseRecord | None = None
        """The Lease as last seen; None if it does not exist."""
        self.deadline = float("-inf")
        """Time until which this candidate may act as the leader; minus infinity while it does not lead."""

    @property
    def leading(self) -> bool:
        """Whether this candidate holds the Lease, as far as it knows."""
        return self.deadline > float("-inf")

    def observe(self, record: LeaseRecord | None, at: float) -> None:
        """Take note of the Lease as it was read at ``at``."""
        before = self.record
        if record is None or before is None or record.resource_version != before.resource_version:
            self._seen_at = at
        self.record = record

    def may_take(self, at: float) -> bool:
        """Whether to try to become or stay the holder: the Lease is free, or held already, or has run out."""
        if self.record is None or self.record.holder in ("", self._identity):
            return True
        return at - self._seen_at >= self.record.duration

    def renewed(self, record: LeaseRecord, asked: float, at: float) -> None:
        """Take note that the API server accepted at ``at`` the renewal that was sent at ``asked``."""
        self.observe(record, at)
        self.deadline = asked + self._times.renew_deadline

    def resign(self) -> None:
        """Stop leading."""
        self.deadline = float("-inf")

    def other_holder(self) -> str | None:
        """Who holds the Lease that this candidate believed to hold; None if it holds it, or did not believe to."""
        if not self.leading or self.record is None or self.record.holder == self._identity:
            return None
        return self.record.holder or "nobody"
