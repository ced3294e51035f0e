"""Running jobs: those that may not stay go elsewhere, and those for which a move pays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from purser.domain.ids import JobId, Rate
from purser.domain.job import Allocation, Job, Placement, ResizePolicy
from purser.domain.money import ZERO
from purser.domain.option import Option
from purser.domain.plan import Reason, Verdict, Why
from purser.domain.time import after
from purser.policy import explain
from purser.policy.cost_cap import fits, left_of
from purser.policy.draft import Draft, verdict
from purser.policy.move_limits import Held, MoveGate
from purser.policy.placement import Claim
from purser.policy.prospects import Move, Prospects, in_place
from purser.policy.reading import Reading
from purser.policy.rest import Chance, Mind, Minds, Rest, Said, calm, rest
from purser.policy.roll import Going, must_move, reason
from purser.policy.serving import next_run
from purser.policy.standing import Share, Standing

_AT_THE_EARLIEST = 1.0
"""Seconds to the next look: what a job reports may lag, and a phase that is all but over stays so until it is heard."""


class Moving:
    """Moves one budget's running jobs in its draft, after the queue was served."""

    def __init__(self, draft: Draft, minds: Minds, before: Minds) -> None:
        self._draft = draft
        self._standing = draft.standing
        self._minds = minds
        self._before = before
        self._gate = MoveGate(draft.standing.budget, draft.snapshot.now)

    def move(self, running: Iterable[Going]) -> None:
        """Jobs that must move first, in order of creation, then those that may gain most."""
        restless: list[tuple[Reading, Share, Rest]] = []
        for going in running:
            share = self._standing.shares.get(going.cohort.key)
            if share is None:
                why = reason(Why.NO_OPTION, "its menu is empty now; it runs on where it is")
                for job in (one.job for one in going.readings):
                    self._draft.judge(job, None if job.allocation is None else job.allocation.option, why)
                continue
            place = self._standing.budget.id, going.cohort.key
            mind = self._minds[place] = self._before.get(place) or Mind()
            self._say(going, share, mind)
            restless += [(one, share, known) for one, known in self._restless(going, share, mind)]
        restless.sort(key=lambda one: one[0].order)
        for reading, share, known in restless:
            if known.forced:
                self._force(reading.job, share, known.forced)
        paying = [
            (job, share, found)
            for job, share, found in (
                (one.job, share, self._paying(one.job, share, known)) for one, share, known in restless
            )
            if found
        ]
        for job, share, found in sorted(paying, key=lambda one: (-one[2][0][0], one[0].created, one[0].id)):
            self._move_if_it_pays(job, share, found)

    def _prospects(self, job: Job, share: Share) -> Prospects:
        return self._standing.own(job) or share.by_lot(job)

    def _restless(self, going: Going, share: Share, mind: Mind) -> Iterable[tuple[Reading, Rest]]:
        """The jobs that must move or may gain by it.

        Where all of a cohort's jobs look at the menu alike, most of them are known to be calm together.
        """
        cohort = going.cohort
        alike = going.all and not share.mixes and not cohort.targeted
        known = mind.calm
        if alike and known is not None and known.holds(cohort, share.prospects):
            self._look_again(known.again)
            return [(one, self._rest(one, share, mind.rests)) for one in known.restless]
        some = set(going.readings)
        movable = cohort.movable if going.all else [one for one in cohort.movable if one in some]
        rests = {one.job.id: self._rest(one, share, mind.rests) for one in movable}
        mind.rests, mind.calm = rests, calm(cohort, share.prospects, rests) if alike else None
        for one in rests.values():
            self._look_again(one.again)
        return [(one.reading, one) for one in rests.values() if not one.still]

    def _rest(self, reading: Reading, share: Share, known: Mapping[JobId, Rest]) -> Rest:
        """What a running job can gain, as it was found before where that still holds."""
        job = reading.job
        prospects, before = self._prospects(job, share), known.get(job.id)
        if before is not None and before.holds(reading, prospects):
            return before
        assert job.allocation is not None
        forced = must_move(job, self._draft.snapshot)
        return rest(reading, job.allocation.option, prospects, share.position(job), forced)

    def _look_again(self, seconds: float | None) -> None:
        """Think again when another option will be better."""
        if seconds is not None:
            later = after(self._draft.snapshot.now, max(seconds, _AT_THE_EARLIEST))
            self._draft.decided.again_at.append(later)

    def _paying(self, job: Job, share: Share, known: Rest) -> Sequence[tuple[float, Chance]]:
        """The moves that pay and can be had, with their gains, the best first.

        Asked before the first of them is made: what that rents is offered to others in the next plan.
        """
        worth = self._prospects(job, share).worth
        found = [(gain, one) for one in known.chances if (gain := one.gain(worth)) > 0.0]
        had = [(gain, one) for gain, one in found if gain > one.boot or not self._draft.must_rent(job, one.to)]
        return sorted(had, key=lambda one: (-one[0], one[1].to.pool, one[1].to.gpus))

    def _say(self, going: Going, share: Share, mind: Mind) -> None:
        """Judge jobs that go on, in the words of the plan before where they would be the same."""
        cohort, standing, verdicts = going.cohort, self._standing, self._draft.decided.verdicts
        said = mind.said
        if said is None or not said.holds(cohort, share, standing):
            found = {one.job.id: _runs_on(one.job, share, standing.rate, standing.feasible) for one in cohort.runners}
            said = mind.said = Said(cohort, share.prospects, share.group.work, standing.rate, standing.feasible, found)
        if going.all:
            verdicts |= said.verdicts
        else:
            verdicts |= {one.job.id: said.verdicts[one.job.id] for one in going.readings}
        for job in (one.job for one in cohort.targeted if one.job.id in standing.pressed and one.job.id in verdicts):
            verdict = verdicts[job.id]
            self._draft.judge(job, verdict.option, partial(_noted, standing, job, verdict))

    def _force(self, job: Job, share: Share, forced: str) -> None:
        allocation = job.allocation
        assert allocation is not None
        ranked = [outcome.option for outcome in self._prospects(job, share).entering(share.position(job))]
        for option in sorted(ranked, key=lambda one: not self._stays(job, allocation, one)):
            text = f"{forced}: it goes to {explain.name(option)}"
            why = partial(Reason, Why.WIDTH_NO_LONGER_ALLOWED, 0.0, ZERO, text, allocation.option)
            if self._go(job, allocation, option, why):
                return

    def _move_if_it_pays(self, job: Job, share: Share, paying: Sequence[tuple[float, Chance]]) -> None:
        """The best move that can be had and that still pays after what entering really costs."""
        allocation, prospects, position = job.allocation, self._prospects(job, share), share.position(job)
        assert allocation is not None
        here, held = allocation.option, self._gate.held(job)
        left = left_of(job, self._draft.snapshot)
        for gain, chance in paying:
            rented = self._draft.must_rent(job, chance.to)
            if rented and gain <= chance.boot:
                continue
            if left is not None:
                worst = prospects.move(here, chance.to, position, rented=True).cost.dollars
                if not fits(job, chance.to, prospects.staying(here, position).dollars + worst, left):
                    continue
            if held is not None:
                self._stay(job, here, share, chance.to, held)
                return
            move = prospects.move(here, chance.to, position, rented=rented)
            if self._go(job, allocation, move.to, partial(self._gain, job, move, allocation, share)):
                return

    def _stay(self, job: Job, here: Option, share: Share, to: Option, held: Held) -> None:
        """Say why a move that would pay is not made, and think again when it may be."""
        if held.until is not None:
            self._draft.decided.again_at.append(held.until)
        rate, feasible = self._standing.rate, self._standing.feasible

        def why() -> Reason:
            chosen = explain.choice(here, share, rate, share.position(job), feasible=feasible)
            return replace(chosen, message=f"{chosen.message}; {explain.name(to)} would pay, but {held.text}")

        self._draft.judge(job, here, why)

    def _gain(self, job: Job, move: Move, allocation: Allocation, share: Share) -> Reason:
        left = share.position(job).left
        own = self._standing.pressed.get(job.id)
        rate = self._standing.rate if own is None else Rate(max(self._standing.rate, own.worth / job.weight))
        why = explain.moving(move, allocation.option, left, rate, job.weight)
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
        self, job: Job, to: Option, claim: Claim, run: int, kept: tuple[Placement, ...], why: Callable[[], Reason]
    ) -> bool:
        if claim.blocked is not None:
            return False
        if claim.placements is not None:
            self._draft.allocate(job, to, run, (*kept, *claim.placements), why())
        self._draft.judge(job, to, why)
        return True


def _runs_on(job: Job, share: Share, rate: Rate, feasible: bool) -> Verdict:
    """What is thought of a job that stays where it is."""
    here = job.allocation.option if job.allocation is not None else None
    return verdict(job, here, partial(_choice, job, share, rate, feasible))


def _choice(job: Job, share: Share, rate: Rate, feasible: bool) -> Reason:
    assert job.allocation is not None
    return explain.choice(job.allocation.option, share, rate, share.position(job), feasible=feasible)


def _noted(standing: Standing, job: Job, known: Verdict) -> Reason:
    return standing.noted(job, known.reason)
