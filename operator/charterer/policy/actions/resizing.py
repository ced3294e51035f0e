"""Running jobs: those that may not stay go elsewhere, and those for which a move pays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from charterer.domain.ids import Rate
from charterer.domain.job import Allocation, Job, Placement, ResizePolicy
from charterer.domain.money import ZERO
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode, Verdict
from charterer.domain.time import after
from charterer.policy.actions.admission import next_run
from charterer.policy.actions.max_cost import fits, left_of
from charterer.policy.actions.plan_builder import PlanBuilder, verdict
from charterer.policy.actions.resize_limits import Hold, MoveGate
from charterer.policy.actions.reversal_guard import reverses
from charterer.policy.actions.triage import KeptRuns, must_move, reason
from charterer.policy.budgets import reasons
from charterer.policy.budgets.solution import BudgetSolution, GroupAssignment
from charterer.policy.jobs.job_facts import JobFacts
from charterer.policy.move_cache import (
    CachedVerdicts,
    CandidateMove,
    GroupCache,
    GroupCaches,
    StableInterval,
    calm,
    look,
)
from charterer.policy.nodes.placement import GpuClaim
from charterer.policy.options.option_value import JobPosition, Move, OptionValues, in_place

_AT_THE_EARLIEST = 1.0
"""Seconds to the next look: what a job reports may lag, and a phase that is all but over stays so until it is heard."""


@dataclass(frozen=True, slots=True)
class _Resizable:
    """A job that must move or may gain by it, and how it sees its menu."""

    share: GroupAssignment
    prospects: OptionValues
    rest: StableInterval


class Resizing:
    """Moves one budget's running jobs in its draft, after the queue was served."""

    def __init__(self, draft: PlanBuilder, minds: GroupCaches, before: GroupCaches) -> None:
        self._draft = draft
        self._standing = draft.standing
        self._minds = minds
        self._before = before
        self._gate = MoveGate(draft.standing.budget, draft.snapshot.now)

    def move(self, running: Iterable[KeptRuns]) -> None:
        """Jobs that must move first, in order of creation, then those that may gain most."""
        restless: list[_Resizable] = []
        for going in running:
            share = self._standing.shares.get(going.cohort.key)
            if share is None:
                why = reason(ReasonCode.NO_OPTION, "its menu is empty now; it runs on where it is")
                for job in (one.job for one in going.readings):
                    self._draft.judge(job, None if job.allocation is None else job.allocation.option, why)
                continue
            place = self._standing.budget.id, going.cohort.key
            mind = self._minds[place] = self._before.get(place) or GroupCache()
            self._say(going, share, mind)
            restless += self._restless(going, share, mind)
        for one in sorted((one for one in restless if one.rest.forced), key=lambda one: one.rest.reading.order):
            self._force(one)
        gaining = [(one, paying) for one in restless if (paying := self._paying(one))]
        for one, paying in sorted(gaining, key=lambda both: (-both[1][0][0], both[0].rest.reading.order)):
            self._move_if_it_pays(one, paying)

    def _restless(self, going: KeptRuns, share: GroupAssignment, mind: GroupCache) -> Iterable[_Resizable]:
        """The jobs that must move or may gain by it.

        Where all of a cohort's jobs look at the menu alike, most of them are known to be calm together.
        """
        cohort, known = going.cohort, mind.calm
        alike = going.all and not share.mixes and not cohort.targeted
        if alike and known is not None and known.holds(cohort, share.prospects):
            self._look_again(known.again)
            asked = known.restless
        else:
            some = set(going.readings)
            asked = cohort.movable if going.all else [one for one in cohort.movable if one in some]
        found = []
        for reading in asked:
            prospects = share.prospects if alike else self._standing.own(reading.job) or share.by_lot(reading.job)
            rest = mind.rests.get(reading.job.id)
            if rest is None or not rest.holds(reading, prospects):
                rest = mind.rests[reading.job.id] = self._rest(reading, share, prospects)
            self._look_again(rest.again)
            found.append(_Resizable(share, prospects, rest))
        if asked is cohort.movable:
            mind.rests = {one.rest.reading.job.id: one.rest for one in found}
            mind.calm = calm(cohort, share.prospects, mind.rests) if alike else None
        return [one for one in found if not one.rest.still]

    def _rest(self, reading: JobFacts, share: GroupAssignment, prospects: OptionValues) -> StableInterval:
        """What a running job can gain, from scratch."""
        assert reading.job.allocation is not None
        here, forced = reading.job.allocation.option, must_move(reading.job, self._draft.snapshot)
        return look(reading, here, prospects, share.position(reading.job), forced)

    def _look_again(self, seconds: float | None) -> None:
        """Think again when another option will be better."""
        if seconds is not None:
            later = after(self._draft.snapshot.now, max(seconds, _AT_THE_EARLIEST))
            self._draft.decided.again_at.append(later)

    def _paying(self, one: _Resizable) -> Sequence[tuple[float, CandidateMove]]:
        """The moves that pay, with their gains, the best first; none where none of them can be had.

        Asked before the first of them is made: what that rents is offered to others in the next plan.
        """
        worth, job = one.prospects.worth, one.rest.reading.job
        found = [(gain, chance) for chance in one.rest.chances if (gain := chance.gain(worth)) > 0.0]
        if not any(gain > chance.boot or not self._draft.must_rent(job, chance.to) for gain, chance in found):
            return ()
        return sorted(found, key=lambda one: (-one[0], one[1].to.pool, one[1].to.gpus))

    def _say(self, going: KeptRuns, share: GroupAssignment, mind: GroupCache) -> None:
        """Judge jobs that go on, in the words of the plan before where they would be the same."""
        cohort, standing, verdicts = going.cohort, self._standing, self._draft.decided.verdicts
        said = mind.said
        if said is None or not said.holds(cohort, share, standing):
            found = {one.job.id: _runs_on(one.job, share, standing.rate, standing.feasible) for one in cohort.runners}
            said = mind.said = CachedVerdicts(
                cohort, share.prospects, share.group.work, standing.rate, standing.feasible, found
            )
        if going.all:
            verdicts |= said.verdicts
        else:
            verdicts |= {one.job.id: said.verdicts[one.job.id] for one in going.readings}
        for job in (one.job for one in cohort.targeted if one.job.id in standing.pressed and one.job.id in verdicts):
            verdict = verdicts[job.id]
            self._draft.judge(job, verdict.option, partial(_noted, standing, job, verdict))

    def _force(self, one: _Resizable) -> None:
        job, forced = one.rest.reading.job, one.rest.forced
        allocation = job.allocation
        assert allocation is not None
        ranked = [outcome.option for outcome in one.prospects.entering(one.share.position(job))]
        for option in sorted(ranked, key=lambda one: not self._stays(job, allocation, one)):
            text = f"{forced}: it goes to {reasons.name(option)}"
            why = partial(Reason, ReasonCode.WIDTH_NO_LONGER_ALLOWED, 0.0, ZERO, text, allocation.option)
            if self._go(job, allocation, option, why):
                return

    def _move_if_it_pays(self, one: _Resizable, paying: Sequence[tuple[float, CandidateMove]]) -> None:
        """The best move that can be had and that still pays after what entering really costs."""
        job, share, prospects = one.rest.reading.job, one.share, one.prospects
        for gain, chance in paying:
            rented = self._draft.must_rent(job, chance.to)
            if rented and gain <= chance.boot:
                continue
            allocation, position = job.allocation, share.position(job)
            assert allocation is not None
            left = left_of(job, self._draft.snapshot)
            if left is not None:
                worst = prospects.move(allocation.option, chance.to, position, rented=True).cost.dollars
                stay = prospects.staying(allocation.option, position).dollars
                if not fits(job, chance.to, stay + worst, left):
                    continue
            held = self._gate.held(job) or self._turning(job, allocation, prospects, position, chance.to)
            if held is not None:
                self._stay(job, allocation.option, share, chance.to, held)
                return
            move = prospects.move(allocation.option, chance.to, position, rented=rented)
            if self._go(job, allocation, move.to, partial(self._gain, job, move, allocation, share)):
                return

    def _turning(
        self, job: Job, allocation: Allocation, prospects: OptionValues, position: JobPosition, to: Option
    ) -> Hold | None:
        """Why a move has to wait because it would take back the last one."""
        if not job.moves or self._standing.budget.fixed_rate is not None:
            return None
        left = prospects.staying(allocation.option, position).seconds
        move = prospects.move(allocation.option, to, position, rented=False)
        return reverses(job, allocation, move, prospects.worth, left, self._draft.snapshot.now)

    def _stay(self, job: Job, here: Option, share: GroupAssignment, to: Option, held: Hold) -> None:
        """Say why a move that would pay is not made, and think again when it may be."""
        if held.until is not None:
            self._draft.decided.again_at.append(held.until)
        rate, feasible = self._standing.rate, self._standing.feasible

        def why() -> Reason:
            chosen = reasons.choice(here, share, rate, share.position(job), feasible=feasible)
            return replace(chosen, message=f"{chosen.message}; {reasons.name(to)} would pay, but {held.text}")

        self._draft.judge(job, here, why)

    def _gain(self, job: Job, move: Move, allocation: Allocation, share: GroupAssignment) -> Reason:
        left = share.position(job).left
        own = self._standing.pressed.get(job.id)
        rate = self._standing.rate if own is None else Rate(max(self._standing.rate, own.worth / job.weight))
        why = reasons.moving(move, allocation.option, left, rate, job.weight)
        return self._standing.noted(job, why)

    def _go(self, job: Job, allocation: Allocation, to: Option, why: Callable[[], Reason]) -> bool:
        """Move now if the nodes are ready, else wait for them and run on meanwhile. False when they cannot be had."""
        if self._stays(job, allocation, to):
            return self._resize(job, allocation, to, self._draft.pods(to), why)
        claim = self._draft.claim(job, to)
        return self._settle(job, to, claim, next_run(job), (), why)

    def _stays(self, job: Job, allocation: Allocation, to: Option) -> bool:
        """Whether the run can get there in place, which costs it nothing."""
        return job.resize is ResizePolicy.IN_PLACE and in_place(
            allocation.option, len(allocation.placements), to, self._draft.pods(to)
        )

    def _resize(self, job: Job, allocation: Allocation, to: Option, pods: int, why: Callable[[], Reason]) -> bool:
        """The same run with more or fewer equal pods; the first ones stay where they are."""
        before = len(allocation.placements)
        if pods < before:
            self._draft.allocate(job, to, allocation.run, allocation.placements[:pods], why())
            self._draft.judge(job, to, why)
            return True
        more = replace(to, gpus=to.gpus - allocation.option.gpus)
        claim = self._draft.claim_more(job, more)
        return self._settle(job, to, claim, allocation.run, allocation.placements, why)

    def _settle(
        self, job: Job, to: Option, claim: GpuClaim, run: int, kept: tuple[Placement, ...], why: Callable[[], Reason]
    ) -> bool:
        if claim.blocked is not None:
            return False
        if claim.placements is not None:
            self._draft.allocate(job, to, run, (*kept, *claim.placements), why())
        self._draft.judge(job, to, why)
        return True


def _runs_on(job: Job, share: GroupAssignment, rate: Rate, feasible: bool) -> Verdict:
    """What is thought of a job that stays where it is."""
    here = job.allocation.option if job.allocation is not None else None
    return verdict(job, here, partial(_choice, job, share, rate, feasible))


def _choice(job: Job, share: GroupAssignment, rate: Rate, feasible: bool) -> Reason:
    assert job.allocation is not None
    return reasons.choice(job.allocation.option, share, rate, share.position(job), feasible=feasible)


def _noted(standing: BudgetSolution, job: Job, known: Verdict) -> Reason:
    return standing.noted(job, known.reason)
