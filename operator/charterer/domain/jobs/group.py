"""The group of pods in which a run trains that is resized in place, as Charterer asks for it and as its leader reports.

docs/development/adr/0063-in-place.md has the protocol and its order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from charterer.domain.option import Option
from charterer.domain.time import Instant, after

FORMED_SECONDS = 60.0
"""Seconds within which a group that only lost members must have been formed; otherwise the run is restarted."""
RESTART_EXIT_CODE = 75
"""The exit code of a trainer that could not form a group (EX_TEMPFAIL of sysexits.h): the run is to be restarted."""
_UID_LENGTH = 8


@dataclass(frozen=True, slots=True)
class TrainingGroup:
    """The pods of run ``run`` that should train together: those with the Job's ``indexes``, in order.

    ``generation``: 1 for a run's first group, one more for each change; asked for at ``since``, to be formed ``by``.
    ``uids``: which pods these are, by the first characters of their uids; empty before any of them trains.
    ``formed``: the generation in which the run's leader last said that it trains; 0 before it named any. ``reports``:
    whether a run of the job ever named one; a trainer that never does changes its group in its own way (torchrun).
    ``withdrawn``: how many times in a row the job could not be widened, the last time at ``withdrawn_at``.
    """

    run: int
    generation: int
    indexes: tuple[int, ...]
    since: Instant
    by: Instant
    uids: tuple[str, ...] = ()
    formed: int = 0
    reports: bool = False
    withdrawn: int = 0
    withdrawn_at: Instant | None = None

    @property
    def pending(self) -> bool:
        """Whether its leader trains in an earlier group, as far as it said."""
        return 0 < self.formed < self.generation

    def followed_by(self, pods: Mapping[int, str], now: Instant, seconds: float) -> TrainingGroup:
        """The next generation, to be formed within ``seconds``. ``pods``: the uid of the pod of each index in it."""
        return replace(self._of(pods), generation=self.generation + 1, since=now, by=after(now, seconds))

    def trained(self, generation: int, pods: Mapping[int, str]) -> TrainingGroup:
        """The group once its leader says that it trains in that generation."""
        known = self if self.uids else self._of(pods)
        return replace(known, formed=generation, reports=True)

    def started_again(self, pods: int, now: Instant) -> TrainingGroup:
        """The next generation, of pods none of which trained before: as at a run's beginning."""
        members = tuple(range(pods))
        return replace(self, generation=self.generation + 1, indexes=members, since=now, by=now, uids=(), formed=0)

    def lacks(self, pods: Mapping[int, str]) -> frozenset[int]:
        """The members of which another pod, or none, is there. ``pods``: as in ``followed_by``."""
        known = zip(self.indexes, self.uids, strict=False)
        return frozenset([index for index, uid in known if not uid or pods.get(index, "")[:_UID_LENGTH] != uid])

    def has(self, uid: str) -> bool:
        """Whether the pod of that uid is a member."""
        return uid[:_UID_LENGTH] in self.uids

    def _of(self, pods: Mapping[int, str]) -> TrainingGroup:
        indexes = tuple(sorted(pods))
        return replace(self, indexes=indexes, uids=tuple([pods[index][:_UID_LENGTH] for index in indexes]))


def first_group(run: int, pods: int, now: Instant, former: TrainingGroup | None) -> TrainingGroup:
    """The group of a run that begins; ``former``: the last one of the job's former run."""
    group = TrainingGroup(run, 1, tuple(range(pods)), now, now)
    if former is None:
        return group
    return replace(group, reports=former.reports, withdrawn=former.withdrawn, withdrawn_at=former.withdrawn_at)


class Stretch(NamedTuple):
    """For how many ``seconds``, in all, the job's runs had this option before they were resized in place."""

    option: Option
    seconds: float
