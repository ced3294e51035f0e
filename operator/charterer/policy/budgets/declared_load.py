"""How much of a declared load counts: as much as the jobs of its class bear out.

Words cost nothing. Whoever may write a SpeedupProfile could declare a load that takes a whole budget from all other
classes. So ``arrivalsPerHour`` and ``meanWork`` count only up to a bound:

- arrivals: up to ``SEEN_FACTOR`` times as many as were seen, with weights that halve in a week. So a class whose jobs
  no longer come no longer counts, and one of which no job was seen does not count at all. Jobs that never wanted GPUs
  (suspended, refused) are not seen.
- work: up to ``SEEN_FACTOR`` times the dollars of the dearest job that was seen, of a job in sight what it has cost so
  far, and those of ``PRIOR_SECONDS`` on the cheapest path.

Jobs in sight count anyway, with the work that they have left. So a class is weighed by at most about five
times what its own jobs cost, whatever it declares, and many classes of one namespace by no more than all their jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from charterer.domain.budget import ClassHistory
from charterer.domain.time import Instant
from charterer.policy.budgets.arrivals import SeenLately, seen_lately
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.solve.hull import Hull

SEEN_FACTOR = 2.0
"""Multiple of what was seen up to which a declared number counts: jobs that come at random often come twice as fast."""
MOST_UNSEEN_SECONDS = 600.0
"""Longest time over which arrivals are seen at least: a job that has just come says that one may come in the time that
it takes on its cheapest path, or every ten minutes if it takes longer. So in its first minutes a declared load counts
little more than the jobs in sight do themselves, however short its jobs are."""
PRIOR_SECONDS = 300.0
"""Seconds on its cheapest path that a job is believed to take before one of its class has cost anything."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Facts of a class beside what it declares. ``dearest``: dollars of the dearest job that was seen."""

    seen: SeenLately | None
    dearest: float


def evidence(
    groups: Iterable[JobGroup], known: ClassHistory | None, created: Sequence[Instant], now: Instant
) -> Evidence:
    """``groups``: of the class. ``created``: of the jobs that are not in the history."""
    return Evidence(seen_lately(known, created, now), _dearest_job(groups, known, now))


def believed_arrivals(seen: SeenLately, hull: Hull) -> float:
    """Jobs a second that are believed of a class at most. ``hull``: of one of its jobs."""
    return SEEN_FACTOR * seen.rate(min(hull.seconds[0], MOST_UNSEEN_SECONDS))


def _dearest_job(groups: Iterable[JobGroup], known: ClassHistory | None, now: Instant) -> float:
    """Dollars of the dearest job of a class so far, or of its mean job in the history if that is more."""
    in_sight = max([facts.spent(now) for group in groups for facts in group.members], default=0.0)
    return max(in_sight, known.actual / known.jobs if known is not None and known.jobs else 0.0)


def believed_work(hull: Hull, dearest: float) -> float:
    """The fraction of a job's declared work that counts. ``hull``: of a job of that work; ``dearest``: in dollars."""
    cheapest = hull.money[0]
    believed = SEEN_FACTOR * dearest + PRIOR_SECONDS * hull.rates[0]
    return min(believed / cheapest, 1.0) if cheapest > 0.0 else 1.0
