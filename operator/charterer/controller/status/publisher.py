"""What each turn is told to: metrics, views and Events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from charterer.api.view import Condition, ConditionType, InvalidView, ProfileState, ProfileView
from charterer.cluster import kinds
from charterer.cluster.store import ObjectKey, Store
from charterer.controller.outcome import ActionOutcome
from charterer.controller.status.budgets_and_pools import budget_view, pool_view
from charterer.controller.status.conditions import condition
from charterer.controller.status.events import Events
from charterer.controller.status.jobs import job_state, job_view
from charterer.controller.status.view_writer import ViewedObject, ViewWriter
from charterer.domain.errors import Problem
from charterer.domain.ids import PoolId
from charterer.domain.plan import Command, Plan
from charterer.domain.profile import Profile
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import Step
from charterer.domain.time import Instant
from charterer.metrics import Metrics
from charterer.providers.errors import ProviderError


class StatusPublisher:
    """``loop.Witness`` of production."""

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        events: Events,
        writer: ViewWriter,
        cloud_errors: Mapping[PoolId, ProviderError],
        last: Callable[[], Snapshot],
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._events = events
        self._writer = writer
        self._cloud_errors = cloud_errors
        self._last = last

    def planned(self, snapshot: Snapshot, decided: Plan, seconds: float) -> None:
        """A plan was made: its numbers, and what each object looks like now."""
        self._metrics.plan_took(seconds)
        self._metrics.observe(snapshot, decided, {job.id: job_state(job).value for job in snapshot.jobs.values()})
        self._writer.show([*self._views(snapshot, decided), *self._invalid(snapshot.now)])

    def done(self, do: Command | Step, outcome: ActionOutcome, message: str) -> None:
        """A command or step came to an end."""
        self._metrics.step_done(do, outcome.value)
        if outcome is ActionOutcome.DONE:
            self._events.done(do, self._last())
        elif outcome is ActionOutcome.FAILED:
            self._events.failed(do, message, self._last())

    def _views(self, snapshot: Snapshot, decided: Plan) -> Iterator[ViewedObject]:
        problems = {(one.kind, one.namespace, one.name): one for one in snapshot.problems}
        for job in snapshot.jobs.values():
            view = job_view(job, snapshot, decided, problems)
            yield ViewedObject(kinds.TRAINING_JOBS, ObjectKey(job.namespace, job.name), f"job/{job.id}", view)
        for budget in snapshot.budgets.values():
            shown = budget_view(budget, snapshot, decided)
            yield ViewedObject(kinds.GPU_BUDGETS, ObjectKey("", budget.id), f"budget/{budget.id}", shown)
        for pool in snapshot.pools.values():
            seen = pool_view(pool, snapshot, decided, self._cloud_errors)
            yield ViewedObject(kinds.GPU_POOLS, ObjectKey("", pool.id), f"pool/{pool.id}", seen)
        for profile in snapshot.profiles.values():
            good = ProfileView(profile.generation, ProfileState.READY, (_readable(profile, snapshot.now),))
            yield ViewedObject(kinds.SPEEDUP_PROFILES, ObjectKey(*profile.id), f"profile/{profile.id}", good)

    def _invalid(self, now: Instant) -> Iterator[ViewedObject]:
        """Objects that cannot be decoded: nothing is done with them, and their status says why."""
        shown: tuple[kinds.AnyKind, ...] = (
            kinds.TRAINING_JOBS,
            kinds.SPEEDUP_PROFILES,
            kinds.GPU_BUDGETS,
            kinds.GPU_POOLS,
        )
        for kind in shown:
            for key, problem in self._store.view(kind).problems.items():
                view = InvalidView(0, _explained(kind is kinds.TRAINING_JOBS, problem, now))
                yield ViewedObject(kind, key, f"{kind.name}/{key.namespace}/{key.name}", view)


def _readable(profile: Profile, now: Instant) -> Condition:
    """What jobs of the class are planned by."""
    if profile.unreadable:
        message = f"what was learned is not used, because it cannot be read: {profile.unreadable}"
        return condition(ConditionType.READY, True, "LearnedUnreadable", message, now)
    if profile.reports:
        return condition(ConditionType.READY, True, "Learned", f"learned from {profile.reports} reports", now)
    message = "" if profile.declared else "nothing is known yet: jobs run on their preferred number of GPUs"
    return condition(ConditionType.READY, True, "Readable", message, now)


def _explained(is_job: bool, problem: Problem, now: Instant) -> tuple[Condition, ...]:
    kind = ConditionType.ADMITTED if is_job else ConditionType.READY
    return (condition(kind, False, problem.reason, f"{problem.field}: {problem.message}", now),)
