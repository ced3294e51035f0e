"""One budget's plan, in the order of thinking: what must end, who is placed or waits, which moves pay, what is idle."""

from __future__ import annotations

from collections.abc import Sequence

from purser.domain.job import Job, ResizePolicy
from purser.domain.money import ZERO
from purser.domain.option import Option
from purser.domain.plan import Reason, Why
from purser.domain.rental import RentalPhase
from purser.domain.time import after
from purser.policy import explain
from purser.policy.capacity import Capacity
from purser.policy.choose import Wishes, former, in_order
from purser.policy.draft import Draft
from purser.policy.moves import Move, gain_bound, in_place, net_gain
from purser.policy.roll import Roll, call, must_move, reason, settled
from purser.policy.standing import Share, key_of, rank

_LIMITS = (Why.HARD_LIMIT, Why.HOURLY_LIMIT)


class BudgetPlan:
    """Makes one budget's plan into its draft, from a roll call."""

    def __init__(self, draft: Draft, capacity: Capacity) -> None:
        self.draft = draft
        self._standing = draft.standing
        self._capacity = capacity
        self._doomed = draft.doomed()
        self._roll: Roll = call(self._standing.jobs, self._doomed, draft.snapshot)
        self._rates = 0.0
        self._blocks_queue = False

    @property
    def doomed(self) -> Sequence[str]:
        """Rentals that take no new pods."""
        return list(self._doomed)

    def make(self) -> None:
        """Decide everything of this budget; ``capacity`` is open by now."""
        for job, why in self._roll.stopped:
            self.draft.stop(job, why)
            self.draft.judge(job, None, why)
        for job, why in self._roll.idle:
            self.draft.judge(job, None, why)
        for rental, why in self._doomed.items():
            self.draft.release(rental, why)
        self._rates = sum(job.allocation.option.price.dollars_per_second for job in self._roll.running if job.allocation)
        self._place_displaced()
        self._serve_queue()
        self._move()
        self._release_idle()
        self.draft.decided.again_at += self._roll.again_at
        release_at = self.draft.purse.release_at(self.draft.snapshot.now)
        if release_at is not None:
            self.draft.decided.again_at.append(release_at)

    # --- jobs without a place -------------------------------------------------------------------------------------------

    def _place_displaced(self) -> None:
        """Jobs whose nodes go away restart at once on what is left, and are optimised later; else they queue."""
        displaced = {job.id: why for job, why in self._roll.leaving}
        jobs = [job for job, _ in self._roll.leaving]
        wanted = Wishes(self._standing).of(jobs)
        for job in jobs:
            why = displaced[job.id]
            share = self._standing.share(job)
            if share is None or not self._restart_at_once(job, wanted[job.id], share, why):
                self.draft.stop(job, why)
                self._roll.waiting.append(job)
        # those who found nothing wait for nodes like anybody else, as long as their old place is being cleared
        self._roll.waiting.sort(key=lambda job: (job.created, job.id))

    def _restart_at_once(self, job: Job, wanted: Option, share: Share, why: Reason) -> bool:
        if why.why in _LIMITS or not self._affords(wanted):
            return False
        for option in self._options(wanted, share, job):
            claim = self.draft.claim(job, option, only_ready=True)
            if claim.placements is not None:
                self._rates += option.price.dollars_per_second
                moved = Reason(why.why, 0.0, ZERO, f"{why.message}; restarted on {explain.name(option)}", former(job))
                self.draft.allocate(job, option, _next_run(job), claim.placements, moved)
                self.draft.judge(job, option, moved)
                return True
        return False

    def _serve_queue(self) -> None:
        wanted = Wishes(self._standing).of(self._roll.waiting)
        for job in self._roll.waiting:
            if job.id not in wanted:
                self.draft.judge(job, None, _no_option(job, self.draft))
        for job in in_order(self._roll.waiting, wanted, self._standing):
            share = self._standing.share(job)
            if share is not None:
                self._serve(job, wanted[job.id], share)

    def _affords(self, option: Option) -> bool:
        """Whether the committed rate still allows it.

        While the budget is too small for all, what runs may not exceed the allowed rate; a first job may, or jobs
        dearer than the allowed rate would never run. What the first in the queue cannot have, nobody behind it gets.
        """
        if self._standing.feasible:
            return True
        allowed, price = self._standing.allowed, option.price.dollars_per_second
        if not self._blocks_queue and allowed > 0 and (self._rates == 0 or self._rates + price <= allowed):
            return True
        self._blocks_queue = True
        return False

    def _serve(self, job: Job, wanted: Option, share: Share) -> None:
        if not self._affords(wanted):
            text = f"the allowed rate of {explain.money(self._standing.allowed * 3600)}/h is used up"
            self.draft.judge(job, wanted, explain.waiting(Why.WAITING_FOR_BUDGET, wanted, text))
            return
        first: Why | None = None
        limited = False
        for option in self._options(wanted, share, job):
            if self._try(job, option, share):
                return
            blocked = self._last_block
            first = first or blocked
            limited = limited or blocked in _LIMITS
        if limited and any(
            self._try(job, option, share) for option in sorted(share.group.menu.narrower, key=lambda one: -one.gpus)
        ):
            return
        why = first or Why.NO_OPTION
        self.draft.judge(job, wanted, explain.waiting(why, wanted, _BLOCKED.get(why, "no pool can give it now")))

    _last_block: Why | None = None

    def _try(self, job: Job, option: Option, share: Share) -> bool:
        claim = self.draft.claim(job, option)
        self._last_block = claim.blocked
        if claim.blocked is not None:
            return False
        self._rates += option.price.dollars_per_second
        why = self._explain(option, share, job)
        if claim.placements is not None:
            self.draft.allocate(job, option, _next_run(job), claim.placements, why)
            self.draft.judge(job, option, why)
        else:
            nodes = f"{len(claim.nodes)} node{'' if len(claim.nodes) == 1 else 's'} to be ready ({claim.nodes[-1]})"
            self.draft.judge(job, option, explain.waiting(Why.WAITING_FOR_NODE, option, f"waits for {nodes}"))
        return True

    def _options(self, wanted: Option, share: Share, job: Job) -> list[Option]:
        """The wanted option, then the others, best first, for when its pool is full or cools."""
        return [wanted, *(option for option in share.ranked if option is not wanted)]

    def _explain(self, option: Option, share: Share, job: Job) -> Reason:
        return explain.choice(option, share.group, self._standing.rate, job.remaining, feasible=self._standing.feasible)

    # --- jobs that run --------------------------------------------------------------------------------------------------

    def _move(self) -> None:
        """Jobs that may not stay first, then those whose move gains most."""
        worth: list[tuple[float, Job, Share]] = []
        for job in self._roll.running:
            share = self._standing.share(job)
            allocation = job.allocation
            if allocation is None:
                continue
            if share is None:
                self.draft.judge(job, allocation.option, reason(Why.NO_OPTION, "nothing on its menu now; it runs on"))
                continue
            self.draft.judge(job, allocation.option, self._explain(allocation.option, share, job))
            if job.resize is ResizePolicy.NEVER or not settled(job):
                continue
            forced = must_move(job, self.draft.snapshot)
            if forced:
                self._force(job, share, forced)
            elif share.group.menu.known and job.remaining:
                bound = gain_bound(
                    allocation.option,
                    share.unit_cost,
                    job.remaining,
                    self._standing.rate,
                    job.weight,
                    share.group.menu.restart_seconds,
                )
                if bound > 0:
                    worth.append((bound, job, share))
        for _, job, share in sorted(worth, key=lambda one: (-one[0], one[1].created, one[1].id)):
            self._move_if_it_pays(job, share)

    def _force(self, job: Job, share: Share, forced: str) -> None:
        work = share.group.work if job.remaining is None else job.remaining
        for option in rank(share.group.menu.options, work, self._standing.rate, job.weight):
            here = former(job)
            why = Reason(Why.WIDTH_NO_LONGER_ALLOWED, 0.0, ZERO, f"{forced}: goes to {explain.name(option)}", here)
            if self._go(job, option, why):
                return

    def _move_if_it_pays(self, job: Job, share: Share) -> None:
        """The best move that pays after what entering really costs, and that can be had."""
        for move in sorted(self._moves(job, share, rented=False), key=lambda one: (-one.gain, one.to.pool, one.to.gpus)):
            if job.allocation is None or job.remaining is None:
                return
            here, work = job.allocation.option, job.remaining
            if self.draft.must_rent(job, move.to):
                move = self._net(here, move.to, work, share, rented=True)
                if move.gain <= 0:
                    continue
            if self._go(job, move.to, explain.moving(move, here, work, self._standing.rate, job.weight)):
                return

    def _moves(self, job: Job, share: Share, *, rented: bool) -> list[Move]:
        if job.allocation is None or job.remaining is None:
            return []
        here = job.allocation.option
        options = (option for option in share.group.menu.options if key_of(option) != key_of(here))
        moves = (self._net(here, option, job.remaining, share, rented=rented) for option in options)
        return [move for move in moves if move.gain > 0]

    def _net(self, here: Option, to: Option, work: float, share: Share, *, rented: bool) -> Move:
        restart = share.group.menu.restart_seconds
        return net_gain(here, to, work, self._standing.rate, share.group.weight, restart, rented)

    def _go(self, job: Job, option: Option, why: Reason) -> bool:
        """Move now if the nodes are ready, else wait for them and run on meanwhile. False when it cannot be had."""
        allocation = job.allocation
        if allocation is None:
            return False
        size = self._pods(option)
        if job.resize is ResizePolicy.IN_PLACE and in_place(
            allocation.option, len(allocation.placements), option, size
        ):
            return self._resize(job, option, size, why)
        claim = self.draft.claim(job, option)
        if claim.blocked is not None:
            return False
        if claim.placements is not None:
            self.draft.allocate(job, option, _next_run(job), claim.placements, why)
        self.draft.judge(job, option, why)
        return True
