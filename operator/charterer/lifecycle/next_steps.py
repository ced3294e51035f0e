"""The next steps of a whole snapshot, at most one for each object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

from charterer.domain.billing import spent
from charterer.domain.budget import FOLDED_KEPT, LENDERS_KEPT, Balance, Budget, Loan, Need, loans, net_loan
from charterer.domain.budget_tree import lending_families
from charterer.domain.gpu_time import gpu_time
from charterer.domain.ids import BudgetId, JobId, PoolId, RentalId, StepKey, StepKind
from charterer.domain.job import Job
from charterer.domain.job_records import job_cost
from charterer.domain.money import Money
from charterer.domain.pod import RUN_LABEL_PREFIX
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot, Stop
from charterer.domain.steps import (
    AddCosts,
    BookEntry,
    BudgetStep,
    CountedJob,
    CountJobs,
    Fold,
    KeepBooks,
    LabelNode,
    OpenPeriod,
    PruneFolded,
    RecordCosts,
    RecordedPart,
    SetFinalizer,
    Step,
    StopOrphan,
    Wait,
)
from charterer.domain.time import Instant, after, day_bounds
from charterer.incremental import Memo
from charterer.ledger.attribution import gpus_of, in_vain
from charterer.ledger.balance import apply_entries, next_costs
from charterer.ledger.cost_rows import Part, correction_begun, next_part, rows
from charterer.lifecycle.adopted import adopt_step
from charterer.lifecycle.pool import left_behind, pool_step
from charterer.lifecycle.pool_set import Obstacle, pool_set_steps
from charterer.lifecycle.rental import cloud_update, fold, is_used, on_record, payer_of, rental_step
from charterer.lifecycle.run import Placed, goes_on, misplaced, run_step
from charterer.lifecycle.verdict import to_stop
from charterer.lifecycle.view import LifecycleView, must_show
from charterer.sentences import count, names

# A finalizer (the guard) keeps a GPUBudget or GPUPool as long as it has rentals that are alive or not yet paid for.


_SURVEY_WAIT_SECONDS = 600
"""Seconds for which a deleted pool waits for its cloud's answer, so that a silent cloud does not keep the pool for
ever."""


def budget_guard(budget_id: BudgetId, view: LifecycleView) -> SetFinalizer | Wait | None:
    """Add the finalizer to a budget that a rental names, or remove it from a deleted budget that no rental needs any
    more.

    A deleted rental does not need the budget any more once its cost is folded and on record. Such a rental waits only
    until the cloud's list no longer shows its instance.
    """
    budget = view.snapshot.budgets[budget_id]
    if _is_kept(budget):
        return None
    settled = frozenset() if budget.balance is None else budget.balance.folded
    rentals = view.rentals_of_budget.get(budget_id, ())
    if budget.deleting:
        over = [rental for rental in rentals if rental.deleting and rental.uid in settled and on_record(rental, view)]
        rentals = [rental for rental in rentals if rental not in over]
    left = f"{count(len(rentals), 'rental')} ({names(rental.id for rental in rentals)})" if rentals else ""
    return _guard("GPUBudget", budget, left)


def pool_guard(pool_id: PoolId, view: LifecycleView) -> SetFinalizer | Wait | None:
    """Add the finalizer to a pool that has a rental, or remove it from a deleted pool with an empty group."""
    pool = view.snapshot.pools[pool_id]
    if _is_kept(pool):
        return None
    return _guard("GPUPool", pool, left_behind(pool, view) or _unlisted(pool, view))


def _unlisted(pool: Pool, view: LifecycleView) -> str:
    """A text about machines that the cloud may not list yet, or "" if the cloud's list is recent enough to show all
    machines.

    A call whose answer was lost may have launched a machine, which nobody would find without the pool. A list that was
    requested at least twice the lag after the deletion also shows machines from a call in flight at the deletion.
    """
    survey, deleted = view.snapshot.surveys.get(pool.id), pool.deleted
    if survey is None or pool.taken_by is not None or deleted is None or not survey.traits.lag_seconds:
        return ""
    shown = must_show(survey, after(deleted, survey.traits.lag_seconds))
    given_up = view.snapshot.now >= after(deleted, _SURVEY_WAIT_SECONDS)
    return "" if shown or given_up else "machines that the cloud may not list yet"


def _is_kept(guarded: Budget | Pool) -> bool:
    """Whether the object has its finalizer and is not being deleted, so that the guard has nothing to do."""
    return guarded.guarded and not guarded.deleting


def _guard(kind: str, guarded: Budget | Pool, left: str) -> SetFinalizer | Wait | None:
    """The step that adds or removes the finalizer, or the wait before its removal. ``left``: a text about the rentals
    or machines that still need the object.

    The API server refuses a new finalizer on an object in deletion. A finalizer is removed only from an object in
    deletion.
    """
    if guarded.deleting and guarded.guarded:
        return Wait(f"{left} to be gone") if left else SetFinalizer(kind, guarded.id, guarded.uid, present=False)
    if left and not guarded.guarded and not guarded.deleting:
        return SetFinalizer(kind, guarded.id, guarded.uid, present=True)
    return None


# In a past period, a budget that spent more than its aim borrows from budgets that spent less than theirs (ADR 5).


def borrowed_by(budget: Budget, start: Instant, end: Instant, view: LifecycleView) -> Mapping[BudgetId, Money]:
    """The ``LENDERS_KEPT`` largest loans of the budget in the period from ``start`` to ``end``, by lender.

    Only the borrower records a loan. So no two records can differ, whichever budget closes the period first.
    """
    budgets, made = view.snapshot.known_budgets, list[Loan]()
    for name in (budget.parent, budget.id):
        parent = None if name is None else budgets.get(name)
        if parent is not None and parent.lends:
            for family in lending_families(parent, budgets.values()):
                if any(each.id == budget.id for each in family):
                    needs = [_need(each, start, end, made, view) for each in family]
                    made += loans([need for need in needs if need is not None])
    lent = {loan.lender: loan.amount for loan in made if loan.borrower == budget.id}
    return dict(sorted(lent.items(), key=lambda each: (-each[1].micros, each[0]))[:LENDERS_KEPT])


def _need(budget: Budget, start: Instant, end: Instant, made: Sequence[Loan], view: LifecycleView) -> Need | None:
    """The budget's spending in the period, which may be closed already, or None if the budget had no such period."""
    balance, lent = budget.balance, net_loan(budget.id, made)
    if balance is None:
        return None
    if balance.period_start == start:
        used = spent(budget, view.rentals_of_budget.get(budget.id, ()), end)
        return Need(budget.id, budget.own_aim + lent, used, high=used, short=False)
    past = next((past for past in balance.history if past.start == start and past.aim is not None), None)
    if past is None or past.aim is None:
        return None
    return Need(budget.id, past.aim + lent, past.spent, high=past.spent, short=False)


# Steps of budgets open each period when it begins, count finished jobs, record the cause of each cost, and keep the
# list of folded rentals short.


SURVEY_WAIT_SECONDS = 600
"""Seconds that a period stays open for clouds that do not answer, so that a long outage does not keep a budget in the
past.
"""

_COSTS_SECONDS = 60
"""Seconds between two additions to the costs by cause, which is the resolution of the counters in the metrics."""


def budget_step(budget_id: BudgetId, view: LifecycleView) -> BudgetStep | Wait | None:
    """The budget's next step or wait, or None if nothing is due."""
    budget = view.snapshot.budgets[budget_id]
    now = view.snapshot.now
    if budget.balance is None:
        return OpenPeriod(budget.id, budget.calendar.bounds(now)[0], None, None)
    end = budget.calendar.end(budget.balance.period_start)
    if now >= end:
        return _next_period(budget, budget.balance, end, view)
    entries = _due_entries(budget, budget.balance, view)
    return KeepBooks(budget.id, entries) if entries else None


def _due_entries(budget: Budget, balance: Balance, view: LifecycleView) -> tuple[BookEntry, ...]:
    """All entries that are due in the balance. Ended rentals and finished jobs are due at once, costs once a minute.

    Uids of rentals that do not exist any more are dropped together with another entry, or alone if no costs have been
    added recently.
    """
    entries: list[BookEntry] = list(_folds(budget, balance, view))
    if jobs := view.uncounted.get(budget.id):
        entries.append(CountJobs(budget.id, tuple([_counted(job, budget, view) for job in jobs])))
    if (added := _costs(budget, apply_entries(balance, entries), view)) is not None:
        entries.append(added)
    if entries or not _costs_are_recent(balance, view.snapshot.now):
        entries[:0] = _pruned(budget, balance, view)
    return tuple(entries)


def _pruned(budget: Budget, balance: Balance, view: LifecycleView) -> Sequence[PruneFolded]:
    """The entry that drops the uids of rentals that do not exist any more, if there are any."""
    gone = balance.folded - {rental.uid for rental in view.rentals_of_budget.get(budget.id, ())}
    return [PruneFolded(budget.id, tuple(sorted(gone)))] if gone else []


def _folds(budget: Budget, balance: Balance, view: LifecycleView) -> Sequence[Fold]:
    """Folds of the rentals that have ended and are not in the balance, at most as many as the balance has room for."""
    rentals = view.rentals_of_budget.get(budget.id, ())
    ended = (fold(rental, view) for rental in rentals if rental.phase is RentalPhase.ENDED)
    due = [entry for entry in ended if isinstance(entry, Fold)]
    if not due:
        return due
    room = FOLDED_KEPT - sum(rental.uid in balance.folded for rental in rentals)
    return due[: max(room, 0)]


def _next_period(budget: Budget, balance: Balance, end: Instant, view: LifecycleView) -> BudgetStep | Wait:
    """Close the period that is over. If several periods have passed, each step closes one of them.

    Rentals that ended before the boundary must be in the balance first. The cost of a rental that runs across the
    boundary is split there. A rental that ended after the boundary is folded in the next period (see
    ``lifecycle.rental``). So the rental and the period do not wait for each other.
    """
    rentals = view.rentals_of_budget.get(budget.id, ())
    unfolded = [rental for rental in rentals if rental.uid not in balance.folded]
    late = [rental.id for rental in unfolded if rental.cost is not None and (rental.ended or end) <= end]
    if late:
        if folds := _folds(budget, balance, view):
            return KeepBooks(budget.id, (*_pruned(budget, balance, view), *folds))
        return Wait(f"{count(len(late), 'rental')} that ended in the period to be folded ({names(late)})")
    unsurveyed = [
        rental.id
        for rental in unfolded
        if rental.phase is not RentalPhase.ENDED and not recorded_up_to(rental, end, view)
    ]
    deadline = after(end, SURVEY_WAIT_SECONDS)
    if unsurveyed and view.snapshot.now < deadline:
        return Wait(f"the clouds to say what {names(unsurveyed)} had cost by its end", until=deadline)
    before = [rental for rental in rentals if rental.launched is not None and rental.launched < end]
    used = spent(budget, before, end)
    borrowed = borrowed_by(budget, balance.period_start, end, view)
    return OpenPeriod(
        budget=budget.id,
        start=end,
        last_spent=used,
        last_start=balance.period_start,
        carried=budget.carries(used),
        last_aim=budget.own_aim,
        borrowed=borrowed,
        last_gpu_time=gpu_time(budget, rentals, view.snapshot.pools, end),
    )


def _costs(budget: Budget, balance: Balance, view: LifecycleView) -> AddCosts | None:
    """The spending since the last addition, once a minute, and at once after a rental was folded."""
    if _costs_are_recent(balance, view.snapshot.now) and balance.costs.lifetime == balance.lifetime:
        return None
    return next_costs(budget, balance, view.rentals_of_budget.get(budget.id, ()), view.snapshot)


def _costs_are_recent(balance: Balance, now: Instant) -> bool:
    through = balance.costs.through
    return through is not None and now < after(through, _COSTS_SECONDS)


def _counted(job: Job, budget: Budget, view: LifecycleView) -> CountedJob:
    assert job.finish is not None
    assert job.predicted is not None
    actual = job_cost(job, view.snapshot.rentals, view.snapshot.now)
    return CountedJob(
        job.id,
        job.statistics,
        job.predicted,
        actual,
        job.created,
        job.finish.at,
        budget.is_opening(job.created),
        job.predicted_end if job.finish.done else None,
    )


def recorded_up_to(rental: Rental, boundary: Instant, view: LifecycleView) -> bool:
    """Whether all that the cloud billed for the rental up to the boundary is on record, so that its split is final.

    If the rental has no instance, the result is whether each instance of the pool that it might adopt was launched
    after the boundary.
    """
    survey = view.survey(rental)
    if survey is None or not must_show(survey, boundary):
        return False
    if rental.launched is None:
        return rental.instance is None and all(
            item.launched >= boundary for item in view.unclaimed(view.acting(rental.pool))
        )
    return cloud_update(rental, view) is None and rental.missing_since is None


# The record of costs. The costs of a rental are written to it a day at a time, before the rental is forgotten.
#
# The status of the rental has the recorded part of its cost, from which the next part is made
# (docs/development/adr/0003). If the place of the record refuses a file, the objects of ended rentals stay, and
# everything else goes on.


_PARTS: Final = 250
"""Largest number of rentals in one file. The rows of one rental take about a millisecond. Further rentals are in the
next file."""
_USES_WAIT_SECONDS: Final = 600.0
"""Seconds after a machine's end for which the record of its costs waits for the ends of its runs."""


def cost_record_step(budget_id: BudgetId, view: LifecycleView) -> RecordCosts | Wait | None:
    """The next file of the budget's costs, with one finished part of each rental, or None if no rental has one."""
    snapshot, budget = view.snapshot, view.snapshot.budgets[budget_id]
    recording, rentals = snapshot.cost_recording, view.rentals_of_budget.get(budget_id, ())
    if not recording.place:
        return None
    today = day_bounds(budget.calendar.time_zone, snapshot.now)[0]
    due = [(rental, part) for rental in rentals if (part := _due(rental, budget, today, view)) is not None][:_PARTS]
    if not due:
        return None
    if recording.written is not None:
        again = after(recording.written, recording.every_seconds)
        if snapshot.now < again:
            return Wait("the next file of the record of costs", until=again)
    vain = in_vain(rentals, snapshot)

    def recorded(rental: Rental, part: Part) -> RecordedPart:
        begun = correction_begun(rental)
        if begun is not None:
            return RecordedPart(rental.id, rental.resource_version, (), begun)
        pool, gpus = snapshot.pools.get(rental.pool), gpus_of(rental, snapshot)
        made = rows(part, rental, budget, pool, gpus, in_vain=rental.id in vain)
        return RecordedPart(rental.id, rental.resource_version, tuple(made), part.after)

    return RecordCosts(budget_id, tuple([recorded(rental, part) for rental, part in due]))


def _due(rental: Rental, budget: Budget, today: Instant, view: LifecycleView) -> Part | None:
    """The rental's next part, if the part is finished and all its inputs are known. ``today``: when the day began."""
    through = rental.launched if rental.recorded is None else rental.recorded.through
    if rental.ended is None and (through is None or through >= today):
        return None
    part, now = next_part(rental, budget.calendar.time_zone), view.snapshot.now
    if part is None or now < part.end or payer_of(rental, view) is not budget:
        return None
    if rental.phase is not RentalPhase.ENDED:
        known = recorded_up_to(rental, part.end, view) or now >= after(part.end, SURVEY_WAIT_SECONDS)
        return part if known else None
    if budget.balance is None or rental.uid not in budget.balance.folded or rental.ended is None:
        return None
    held = any(use.until is None for use in rental.uses)
    return None if held and now < after(rental.ended, _USES_WAIT_SECONDS) else part


_Id = TypeVar("_Id", bound=str)


def next_steps(snapshot: Snapshot, memo: Memo | None = None) -> tuple[Mapping[StepKey, Step], Mapping[StepKey, Wait]]:
    """The steps to take now and the waits, by the object that they change or concern.

    ``next_steps(snapshot, memo) == next_steps(snapshot)``. With a memo, a job or rental is skipped if it had no step in
    the last turn and its inputs have not changed since.
    """
    memo = Memo() if memo is None else memo
    with memo.turn():
        return _next_steps(snapshot, memo)


def _next_steps(snapshot: Snapshot, memo: Memo) -> tuple[Mapping[StepKey, Step], Mapping[StepKey, Wait]]:
    steps: dict[StepKey, Step] = {}
    waits: dict[StepKey, Wait] = {}
    for kind, name, next_step in _all(LifecycleView.of(snapshot, memo), memo):
        if isinstance(next_step, Wait):
            waits[StepKey(kind, name)] = next_step
        elif next_step is not None:
            steps[StepKey(kind, name)] = next_step
    return steps, waits


def _all(view: LifecycleView, memo: Memo) -> Iterator[tuple[StepKind, str, Step | Wait | None]]:
    snapshot = view.snapshot
    disturbed = memo(_disturbed, memo.each(is_used, (snapshot.rentals, view.listed, view.settled)))
    for rental in snapshot.rentals if snapshot.stop is Stop.DRAIN else disturbed:
        yield StepKind.RENTAL, rental, _step(rental_step, rental, view)
    for pool in snapshot.pools:
        yield StepKind.POOL, pool, _step(pool_step, pool, view)
        yield StepKind.POOL_GUARD, pool, _step(pool_guard, pool, view)
    yield from _pools_of_sets(snapshot)
    for budget in snapshot.budgets:
        yield StepKind.BUDGET, budget, _step(budget_step, budget, view)
        yield StepKind.BUDGET_GUARD, budget, _step(budget_guard, budget, view)
        yield StepKind.COST_RECORD, budget, _step(cost_record_step, budget, view)
    placed = memo.stable(memo.each(Placed.of, snapshot.jobs), "placed")
    wrong = memo(misplaced, placed, snapshot.rentals, view.nodes)
    for job, undisturbed in memo.each(goes_on, snapshot.jobs).items():
        if not undisturbed or placed[job].label in wrong:
            yield StepKind.JOB, job, _step(run_step, job, view)
    for orphan in snapshot.orphans:
        if to_stop(orphan.run) and not view.observes(orphan.budget):
            yield StepKind.JOB, orphan.run.uid, StopOrphan(orphan)  # orphan.job could be forged
    for candidate in snapshot.candidates:
        yield StepKind.JOB, candidate.target.ref.uid, adopt_step(candidate, view)
    yield from _abandoned_labels(view, memo(_labels, placed))


def _disturbed(used: Mapping[RentalId, bool]) -> Sequence[RentalId]:
    """The rentals that may have a step, because they are not plainly in use (``is_used``)."""
    return [name for name, only in used.items() if not only]


def _step(
    next_step: Callable[[_Id, LifecycleView], Step | Wait | None], name: _Id, view: LifecycleView
) -> Step | Wait | None:
    """The object's next step. If ``next_step`` raises, returns a wait with the error, to go on with other objects."""
    try:
        return next_step(name, view)
    except Exception as error:
        return _fault(error)


def _fault(error: Exception) -> Wait:
    return Wait(f"a fault to be corrected ({type(error).__name__}: {error}); please report it", error=error)


def _pools_of_sets(snapshot: Snapshot) -> Iterator[tuple[StepKind, str, Step | Wait]]:
    """The steps and waits of pools that differ from their sets. An error in one set does not stop the steps of other
    sets."""
    for name in snapshot.pool_sets:
        try:
            differences = pool_set_steps(name, snapshot)
        except Exception as error:
            yield StepKind.POOL_OF_SET, name, _fault(error)
            continue
        for pool, difference in differences.items():
            if not isinstance(difference, Obstacle):
                yield StepKind.POOL_OF_SET, pool, difference


def _abandoned_labels(view: LifecycleView, labels_of_jobs: AbstractSet[str]) -> Iterator[tuple[StepKind, str, Step]]:
    """Steps that remove the placement labels of jobs that do not exist any more, and so have no steps of their own."""
    if view.nodes.labelled.keys() <= labels_of_jobs:
        return
    for node in view.snapshot.nodes.values():
        for key in sorted(node.run_labels):
            if key not in labels_of_jobs and not node.ending:
                step = LabelNode(JobId(key.removeprefix(RUN_LABEL_PREFIX)), node.name, node.uid, key, None)
                yield StepKind.NODE, node.name, step
                break


def _labels(placed: Mapping[JobId, Placed]) -> AbstractSet[str]:
    return {label for label, _, _ in placed.values()}
