"""Running jobs: those that may not stay go elsewhere, and those for which a move pays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from purser.domain.job import Allocation, Job, Placement, ResizePolicy
from purser.domain.money import ZERO
from purser.domain.option import Option
from purser.domain.plan import Reason, Why
from purser.policy import explain
from purser.policy.draft import Draft
from purser.policy.moves import Move, in_place
from purser.policy.placement import Claim
from purser.policy.roll import must_move, reason, settled
from purser.policy.serving import next_run
from purser.policy.standing import Share, key_of, rank


class Moving:
    """Moves one budget's running jobs in its draft, after the queue was served."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._standing = draft.standing

    def move(self, running: Iterable[Job]) -> None:
        """Jobs that must move first, in order of creation, then those that may gain most."""
        worth: list[tuple[Job, Allocation, Share, list[Move]]] = []
        for job in running:
            if job.allocation is None:
                continue
            here, share = job.allocation.option, self._standing.share(job)
            if share is None:
                self._draft.judge(job, here, reason(Why.NO_OPTION, "its menu is empty now; it runs on where it is"))
                continue
            rate, feasible = self._standing.rate, self._standing.feasible
            self._draft.judge(job, here, explain.choice(here, share.group, rate, job.remaining, feasible=feasible))
            if job.resize is ResizePolicy.NEVER or not settled(job):
                continue
            forced = must_move(job, self._draft.snapshot)
            if forced:
                self._force(job, job.allocation, share, forced)
            elif share.group.menu.known and job.remaining:
                paying = share.offers.paying(here, job.remaining)
                if paying:
                    worth.append((job, job.allocation, share, paying))
        for job, allocation, share, paying in sorted(
            worth, key=lambda one: (-one[3][0].gain, one[0].created, one[0].id)
        ):
            self._move_if_it_pays(job, allocation, share, paying)

    def _force(self, job: Job, allocation: Allocation, share: Share, forced: str) -> None:
        work = share.group.work if job.remaining is None else job.remaining
        ranked = rank(share.group.menu.options, work, self._standing.rate, job.weight)
        for option in sorted(ranked, key=lambda one: not self._stays(job, allocation, one)):
            text = f"{forced}: it goes to {explain.name(option)}"
            why = Reason(Why.WIDTH_NO_LONGER_ALLOWED, 0.0, ZERO, text, allocation.option)
            if self._go(job, allocation, option, why):
                return

    def _move_if_it_pays(self, job: Job, allocation: Allocation, share: Share, paying: Iterable[Move]) -> None:
        """The best move that can be had and that still pays after what entering really costs."""
        work, here = job.remaining or 0.0, allocation.option
        for ready in paying:
            rented = self._draft.must_rent(job, ready.to)
            move = share.offers.net(here, ready.to, work, rented=True) if rented else ready
            if key_of(move.to) == key_of(here) or move.gain <= 0:
                continue
            why = explain.moving(move, here, work, self._standing.rate, job.weight)
            if self._go(job, allocation, move.to, why):
                return

    def _go(self, job: Job, allocation: Allocation, to: Option, why: Reason) -> bool:
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

    def _resize(self, job: Job, allocation: Allocation, to: Option, pods: int, why: Reason) -> bool:
        """The same run with more or fewer equal pods; the first ones stay where they are."""
        before = len(allocation.placements)
        if pods < before:
            self._draft.allocate(job, to, allocation.run, allocation.placements[:pods], why)
            self._draft.judge(job, to, why)
            return True
        more = replace(to, gpus=to.gpus - allocation.option.gpus)
        claim = self._draft.claim_more(job, more)
        return self._settle(job, to, claim, allocation.run, allocation.placements, why)

    def _settle(self, job: Job, to: Option, claim: Claim, run: int, kept: tuple[Placement, ...], why: Reason) -> bool:
        if claim.blocked is not None:
            return False
        if claim.placements is not None:
            self._draft.allocate(job, to, run, (*kept, *claim.placements), why)
        self._draft.judge(job, to, why)
        return True
