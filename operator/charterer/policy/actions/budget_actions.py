"""One budget's plan, in the order of thinking: what must end, who is placed or waits, which moves pay, what is idle."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.domain.ids import RentalId
from charterer.domain.plan import Reason
from charterer.policy.actions.admission import Admission
from charterer.policy.actions.max_cost import stop_spent
from charterer.policy.actions.plan_builder import PlanBuilder
from charterer.policy.actions.release_idle import release_idle
from charterer.policy.actions.resizing import Resizing
from charterer.policy.actions.triage import triage
from charterer.policy.nodes.capacity import Capacity
from charterer.policy.plan_cache import PlanCache


def decide(draft: PlanBuilder, capacity: Capacity, doomed: Mapping[RentalId, Reason], known: PlanCache) -> None:
    """Decide everything of one budget into its draft; ``capacity`` offers nothing on ``doomed`` rentals."""
    snapshot = draft.snapshot
    roll = triage(draft.standing.cohorts.values(), doomed, known.fleet, snapshot)
    roll.again_at += stop_spent(roll, snapshot)
    for job, why in roll.stopped:
        draft.stop(job, why)
        draft.judge(job, None, why)
    for job, why in roll.idle:
        draft.judge(job, None, why)
    for rental, why in doomed.items():
        draft.release(rental, why)
    Admission(draft, roll.running).serve(roll)
    Resizing(draft, known.minds, known.before).move(roll.running)
    release_idle(draft, capacity, doomed)
    draft.decided.again_at += roll.again_at
    release_at = draft.purse.release_at(snapshot.now)
    if release_at is not None and not doomed:
        draft.decided.again_at.append(release_at)
    if roll.running or roll.waiting:
        draft.decided.again_at.append(draft.standing.period_end)
