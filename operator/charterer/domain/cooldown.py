"""Cool-downs: an offer that a cloud refused is not asked for again at once, and later the more often it was refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from charterer.domain.order import Refusal, RefusalKind, Scope
from charterer.domain.time import Instant, after, seconds_between

LONGEST_SECONDS: Final = 3600.0
"""No cool-down grows beyond this, or beyond the pool's own ``cooldownSeconds`` where that is longer."""
KEPT: Final = 8
"""Cool-downs that a pool remembers."""


@dataclass(frozen=True, slots=True)
class CoolDown:
    """What a cloud refused, from ``since`` on, and until when it is not asked for again.

    ``kind``, ``scope``, ``where``, ``code`` and ``message`` are the refusal's. ``times``: how often in a row.
    """

    kind: RefusalKind
    scope: Scope
    where: str
    code: str
    message: str
    since: Instant
    until: Instant
    times: int = 1

    @property
    def doubted_until(self) -> Instant:
        """Until when it is in doubt whether the offer is back: as long again as it cooled."""
        return after(self.until, seconds_between(self.since, self.until))


def cool_down(
    known: Sequence[CoolDown], refusal: Refusal, seconds: float, now: Instant, last_launch: Instant | None
) -> CoolDown:
    """The cool-down after a refusal: ``seconds`` at first, twice as long each time that it is refused again.

    ``known``: the pool's earlier ones. One that is no longer in doubt, or after which a node was launched
    (``last_launch``), counts no more.
    """
    before = next((each for each in known if (each.scope, each.where) == (refusal.scope, refusal.where)), None)
    if before is not None and last_launch is not None and last_launch > before.since:
        before = None
    times = 1 if before is None or now >= before.doubted_until else before.times + 1
    lasts = min(seconds * 2.0 ** min(times - 1, 16), max(LONGEST_SECONDS, seconds))
    said = refusal.kind, refusal.scope, refusal.where, refusal.code, refusal.message
    return CoolDown(*said, since=now, until=after(now, lasts), times=times)


def with_cool_down(known: Sequence[CoolDown], new: CoolDown) -> tuple[CoolDown, ...]:
    """The cool-downs to remember once there is a new one: those still in doubt, the latest at most."""
    others = [
        each for each in known if (each.scope, each.where) != (new.scope, new.where) and each.doubted_until > new.since
    ]
    return tuple(sorted([*others, new], key=lambda each: each.until)[-KEPT:])
