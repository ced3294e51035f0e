"""Running jobs: those that may not stay go elsewhere, and those for which a move pays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from purser.domain.ids import Rate
from purser.domain.job import Allocation, Job, Placement, ResizePolicy
from purser.domain.money import ZERO
from purser.domain.option import Option
from purser.domain.plan import Reason, Why
from purser.domain.time import after
from purser.policy import explain
from purser.policy.cost_cap import fits, left_of
from purser.policy.draft import Draft
from purser.policy.move_limits import Held, MoveGate
from purser.policy.placement import Claim
from purser.policy.prospects import Move, Position, Prospects, in_place
from purser.policy.reading import Reading
from purser.policy.rest import Chance, Minds, Said, rest
from purser.policy.roll import must_move, reason
from purser.policy.serving import next_run
from purser.policy.standing import Share

_AT_THE_EARLIEST = 1.0
"""Seconds to the next look: what a job reports may lag, and a phase that is all but over stays so until it is heard."""


class Moving:
    """Moves one budget's running jobs in its draft, after the queue was served."""

    def __init__(self, draft: Draft, minds: Minds) -> None:
        self._draft = draft
        self._standing = draft.standing
        self._minds = minds
        self._gate = MoveGate(draft.standing.budget, draft.snapshot.now)

    def move(self, running: Iterable[Reading]) -> None:
        """Jobs that must move first, in order of creation, then those that may gain most."""
        gaining: list[tuple[Job, Allocation, Share, Sequence[Chance]]] = []
        for reading in running:
            job = reading.job
            if job.allocation is None:
                continue
            here, share = job.allocation.option, self._standing.shares.get(reading.key)
            if share is None:
                self._draft.judge(job, here, reason(Why.NO_OPTION, "its menu is empty now; it runs on where it is"))
                continue
            self._say(reading, here, share)
            if job.resize is ResizePolicy.NEVER or not reading.settled:
                continue
            chances = self._chances(reading, job.allocation, share)
            if chances:
                gaining.append((job, job.allocation, share, chances))
        for job, allocation, share, chances in sorted(
            gaining, key=lambda one: (-one[3][0].ready.gain, one[0].created, one[0].id)
        ):
            self._move_if_it_pays(job, allocation, share, chances)

    def _chances(self, reading: Reading, allocation: Allocation, share: Share) -> Sequence[Chance]:
        """The moves that would pay, the best first; a job that must move goes at once, and has none."""
        job, here = reading.job, allocation.option
        prospects = self._standing.own(job) or share.by_lot(job)
        pool = self._draft.snapshot.pools.get(here.pool)
        known = self._minds.rests.get(job.id)
        if known is None or not known.holds(reading, prospects, pool):
            forced = must_move(job, self._draft.snapshot)
            if forced:
                self._force(job, allocation, prospects, share.position(job), forced)
            if forced or not prospects.menu.known or not job.remaining:
                return ()
            known = self._minds.rests[job.id] = rest(reading, here, prospects, share.position(job), pool)
        if known.again is not None:
            later = after(self._draft.snapshot.now, max(known.again, _AT_THE_EARLIEST))
            self._draft.decided.again_at.append(later)
        left = left_of(job, self._draft.snapshot)
        if left is None:
            return known.chances
        stay = prospects.staying(here, share.position(job)).dollars
        return [one for one in known.chances if fits(job, one.rented.to, stay + one.rented.cost.dollars, left)]

    def _say(self, reading: Reading, here: Option, share: Share) -> None:
        """Judge a job that goes on, in the words of the plan before where they would be the same."""
        job, standing, verdicts = reading.job, self._standing, self._draft.decided.verdicts
        said = None if job.id in standing.pressed else self._minds.said.get(job.id)
        if said is not None and said.holds(reading, share, standing):
            verdicts[job.id] = said.verdict
            return
        rate, feasible = standing.rate, standing.feasible

        def choice() -> Reason:
            return standing.noted(job, explain.choice(here, share, rate, share.position(job), feasible=feasible))

        self._draft.judge(job, here, choice)
        if job.id in standing.pressed:
            return
        self._minds.said[job.id] = Said(reading, share.prospects, share.group.work, rate, feasible, verdicts[job.id])

    def _force(self, job: Job, allocation: Allocation, prospects: Prospects, position: Position, forced: str) -> None:
        ranked = [outcome.option for outcome in prospects.entering(position)]
        for option in sorted(ranked, key=lambda one: not self._stays(job, allocation, one)):
            text = f"{forced}: it goes to {explain.name(option)}"
            why = partial(Reason, Why.WIDTH_NO_LONGER_ALLOWED, 0.0, ZERO, text, allocation.option)
            if self._go(job, allocation, option, why):
                return

    def _move_if_it_pays(self, job: Job, allocation: Allocation, share: Share, chances: Sequence[Chance]) -> None:
        """The best move that can be had and that still pays after what entering really costs."""
        held = self._gate.held(job)
        if held is not None:
            self._stay(job, allocation.option, share, chances[0].ready, held)
            return
        for chance in chances:
            move = chance.rented if self._draft.must_rent(job, chance.ready.to) else chance.ready
            if move.gain > 0 and self._go(job, allocation, move.to, partial(self._gain, job, move, allocation, share)):
                return

    def _stay(self, job: Job, here: Option, share: Share, move: Move, held: Held) -> None:
        """Say why a move that would pay is not made, and think again when it may be."""
        if held.until is not None:
            self._draft.decided.again_at.append(held.until)
        rate, feasible = self._standing.rate, self._standing.feasible

        def why() -> Reason:
            chosen = explain.choice(here, share, rate, share.position(job), feasible=feasible)
            return replace(chosen, message=f"{chosen.message}; {explain.name(move.to)} would pay, but {held.text}")

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
