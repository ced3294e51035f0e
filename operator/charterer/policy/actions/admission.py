"""Jobs without a place: the queue is offered ready GPUs in order, and only what is missing is rented."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from charterer.domain.ids import JobId, RentalId
from charterer.domain.job import Job, Placement, ResizePolicy, RunOutcome
from charterer.domain.money import ZERO, Price
from charterer.domain.option import Option
from charterer.domain.plan import Allocate, Reason, ReasonCode
from charterer.policy.actions.hole_waits import HoleWaits
from charterer.policy.actions.path_mixing import in_order, ranked_options
from charterer.policy.actions.plan_builder import PlanBuilder
from charterer.policy.actions.shortage import Shares, share_room
from charterer.policy.actions.triage import JobTriage, KeptRuns
from charterer.policy.budgets import reasons
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.jobs.job_facts import last_option
from charterer.policy.jobs.predicates import reason
from charterer.policy.nodes.hard_limit import reserve
from charterer.policy.nodes.max_cost import affordable, too_dear
from charterer.policy.nodes.node_fit import snuggest_first
from charterer.policy.options.interruptions import DEFAULT_CHECKPOINT_SECONDS, goes_on
from charterer.policy.options.option_value import Completion
from charterer.policy.options.pool_selection import left_out
from charterer.policy.solve.phase_dp import key_of
from charterer.sentences import names

_LIMITS = (ReasonCode.HARD_LIMIT, ReasonCode.HOURLY_LIMIT, ReasonCode.OPERATOR_LIMIT)
_FULL = (ReasonCode.POOL_FULL, ReasonCode.POOL_COOLING)
_BLOCKED = {
    ReasonCode.STOPPED: "the operator was stopped and rents nothing: see the condition Stopped of the GPUBudgets",
    ReasonCode.POOL_COOLING: "its pool had none to give and is asked again later",
    ReasonCode.RENTAL_UNREADABLE: "a GPURental of its pool cannot be read",
    ReasonCode.BUDGET_DELETED: "its budget is being deleted",
    ReasonCode.CLOCK_BEHIND: "its budget's period has not begun by the operator's clock",
    ReasonCode.POOL_DELETED: "its pool is being deleted",
    ReasonCode.NO_OPTION: "the cloud of its pool has not answered yet",
}

Wanted = Mapping[JobId, Sequence[Completion]]
"""The options of waiting jobs, best first."""


class Admission:
    """Admits one budget's queue into its draft."""

    def __init__(self, draft: PlanBuilder, running: Iterable[KeptRuns]) -> None:
        self._draft = draft
        self._solution = draft.solution
        self._placed: set[JobId] = set()
        self._too_dear: set[JobId] = set()
        self._queue_ends = False
        self._wanted: Wanted = {}
        self._displaced: Mapping[JobId, Reason] = {}
        self._committed = 0.0
        self._waits = HoleWaits(draft)
        self._running = list(running)
        self._shares: Shares | None = None
        self._rate = Price(sum([kept.micros for kept in self._running])).dollars_per_second

    def admit(self, triaged: JobTriage) -> Shares | None:
        """Displaced jobs first, then the queue; a displaced job that finds nothing is stopped.

        Returns how the room was shared where there is too little of it.
        """
        displaced = [job for job, _ in triaged.leaving]
        self._displaced = {job.id: why for job, why in triaged.leaving}
        waiting = sorted([*triaged.waiting, *displaced], key=lambda job: (job.created, job.id))
        wanted = self._wanted = self._within_their_cost(ranked_options(waiting, self._solution), waiting)
        for job, why in triaged.leaving:
            share = self._solution.share(job)
            if share is not None and job.id in wanted and why.code not in _LIMITS:
                self._restart_at_once(job, wanted[job.id], why)
        for job in waiting:
            if job.id not in wanted and job.id not in self._too_dear:
                self._draft.judge(job, None, reason(ReasonCode.NO_OPTION, self._no_option(job)))
        queue = in_order([job for job in waiting if job.id not in self._placed], wanted, self._solution)
        contend = [job for job in queue if not self._awaits_launch(job, wanted[job.id])]
        self._shares = share_room(self._draft, contend, wanted, self._running)
        if self._shares is not None:
            taken = {job.id for job in contend} - {job.id for job in self._share_out(contend, wanted, self._shares)}
            queue = [job for job in queue if job.id not in taken]
        self._waits.look([(job, self._snuggest(job, [way.option for way in wanted[job.id]])[0]) for job in queue])
        for job in queue:
            share = self._solution.share(job)
            if share is not None:
                self._admit(job, wanted[job.id], share)
        for job, why in triaged.leaving:
            if job.id not in self._placed:
                self._draft.stop(job, why)
        return self._shares

    def _awaits_launch(self, job: Job, outcomes: Sequence[Completion]) -> bool:
        """Whether it is best for the job to wait for a pool that was just refused, as far as that wait is measured.

        Such a job lacks no room: it is not among those that share out what there is.
        """
        share = self._solution.share(job)
        if not self._draft.waits_for_launches or share is None:
            return False
        best = self._by_availability(job, outcomes, share)[0]
        cooling = self._draft.snapshot.pools[best.pool].cooling(self._draft.snapshot.now)
        return cooling is not None and self._draft.wait_is_measured(job, best)

    def _share_out(self, queue: Sequence[Job], wanted: Wanted, shares: Shares) -> list[Job]:
        """Give jobs their share of the room, the widest first; returns those that are offered what is left.

        Nothing is left while a share waits for room that is being made.
        """
        self._draft.decided.pools |= shares.pools
        left: set[JobId] = set()
        for job in sorted(queue, key=lambda job: -shares.starts[job.id].gpus if job.id in shares.starts else 0):
            option, share = shares.starts.get(job.id), self._solution.share(job)
            block = None if option is None or share is None else self._try(job, option, share, wanted[job.id][0].option)
            if option is not None and block is None:
                continue
            if shares.making_room and block in (None, *_FULL):
                best = option or wanted[job.id][0].option
                cooling = self._draft.snapshot.pools[best.pool].cooling(self._draft.snapshot.now) is not None
                code = ReasonCode.POOL_COOLING if cooling else ReasonCode.POOL_FULL
                text = self._why_not(code, job, best) if option is None else self._room_is_made(best)
                self._draft.judge(job, best, reasons.waiting(code, best, text))
            else:
                left.add(job.id)
        return [job for job in queue if job.id in left]

    def _no_option(self, job: Job) -> str:
        snapshot, budget = self._draft.snapshot, self._solution.budget
        others = left_out(budget, snapshot.pools)
        if others and not snapshot.pools_of(budget):
            return others
        return f"{reasons.no_option(job, snapshot.pools_of(budget))}{'; ' if others else ''}{others}"

    def _within_their_cost(
        self, wanted: dict[JobId, Sequence[Completion]], waiting: Iterable[Job]
    ) -> dict[JobId, Sequence[Completion]]:
        """The options wanted, less those dearer than the job's maxCost; a job that has none left is not started."""
        for job in waiting:
            if job.max_cost is None or job.id not in wanted:
                continue
            outcomes = wanted.pop(job.id)
            why = too_dear(job, outcomes, self._draft.snapshot)
            if why is None:
                wanted[job.id] = affordable(job, outcomes, self._draft.snapshot)
            else:
                self._too_dear.add(job.id)
                self._draft.judge(job, None, why)
        return wanted

    def _restart_at_once(self, job: Job, wanted: Sequence[Completion], why: Reason) -> None:
        """On what is left; it is optimised later, as a move."""
        if not self._affords(job, wanted[0].option):
            return
        for option in (outcome.option for outcome in wanted):
            claim = self._draft.claim(job, option, only_ready=True)
            if claim.placements is not None:
                text = f"{why.message}; restarted at once on {reasons.name(option)}"
                moved = Reason(why.code, 0.0, ZERO, text, last_option(job))
                self._place(job, option, claim.placements, moved)
                return

    def _cost(self, job: Job) -> float:
        """Dollars that the job is expected to cost on the cheapest way to its end."""
        factor = self._solution.calibration.factor(self._solution.key(job)[0])
        return min(outcome.dollars for outcome in self._wanted[job.id]) * factor

    def _affords(self, job: Job, option: Option) -> bool:
        """Whether the budget can still pay for it. What the first in the queue cannot have, nobody behind it gets.

        While the budget is too small for all, a job whose class has no known arrival rate starts as long as what it
        costs may still be committed, beside the jobs that start before it. Any job starts if the rate of what runs
        stays within the allowed rate; a first job starts anyway, or jobs dearer than that would never run. Where its
        nodes are there already, half its price counts: they were rented when it fitted, and what is rented makes the
        rate that is still allowed smaller by up to the other half (``pacing``: h / 2 of it, paid over h).
        """
        if self._solution.feasible:
            return True
        share = self._solution.share(job)
        unexpected = share is not None and share.group.arrivals is None and not self._queue_ends
        if unexpected and self._committed + self._cost(job) <= self._solution.committable:
            return True
        allowed = self._solution.allowed
        price = option.price.dollars_per_second * (1.0 if self._draft.must_rent(job, option) else 0.5)
        fits = self._rate == 0 or self._rate + price <= allowed
        if not self._queue_ends and allowed > 0 and fits:
            return True
        self._queue_ends = True
        return False

    def _commit(self, job: Job, given: Allocate | None = None) -> None:
        """Count what a job costs that has been ``given`` its place, or waits for nodes, where money is short."""
        if not self._solution.feasible:
            self._committed += self._cost(job) if given is None else self._solution.commitment(job, given)

    def _admit(self, job: Job, outcomes: Sequence[Completion], share: GroupAssignment) -> None:
        wanted = outcomes[0].option
        worth = (self._solution.deadline_values(job) or share.values).worth
        at_once = {key_of(outcome.option): outcome.worth for outcome in outcomes}
        blocks: list[ReasonCode] = []
        to_wait = inf
        for option in self._snuggest(job, self._by_availability(job, outcomes, share)):
            if at_once[key_of(option)] >= to_wait:
                continue
            if not self._affords(job, option):
                left = reasons.format_money(max(self._solution.committable - self._committed, 0.0))
                cost = reasons.format_money(self._cost(job))
                text = f"it costs about {cost}, and {left} may be committed to jobs now"
                self._draft.judge(job, option, reasons.waiting(ReasonCode.WAITING_FOR_BUDGET, option, text))
                return
            block = self._try(job, option, share, wanted)
            if block is None:
                return
            blocks.append(block)
            if to_wait == inf and block is ReasonCode.POOL_COOLING and self._may_wait(job, option):
                wanted, blocks = option, [block, *blocks]  # only what is better if it comes at once is asked for
                to_wait = at_once[key_of(option)] + worth * self._draft.launch_delay(job, option)
        if any(block in _LIMITS for block in blocks):
            for option in sorted(share.group.menu.narrower, key=lambda option: (-option.gpus, option.pool)):
                if self._try(job, option, share, wanted) is None:
                    return
        first = blocks[0]
        self._draft.judge(job, wanted, reasons.waiting(first, wanted, self._why_not(first, job, wanted)))

    def _may_wait(self, job: Job, option: Option) -> bool:
        """Whether the job waits for a pool that cools: enough is known of its hours, or the job has time to lose."""
        need = self._solution.deadline_needs.get(job.id)
        return self._draft.wait_is_measured(job, option) or (need is not None and need.may_wait)

    def _why_not(self, block: ReasonCode, job: Job, option: Option) -> str:
        """Why no node can be had for the option, with the numbers of the limit that forbids it."""
        budget, purse = self._solution.budget, self._draft.purse
        pool = self._draft.snapshot.pools[option.pool]
        worst = pool.quote.worst if pool.quote is not None else Price(0)
        if block is ReasonCode.HOURLY_LIMIT and budget.max_hourly_rate is not None:
            if worst > budget.max_hourly_rate:
                return f"a node costs {worst}, more than spec.maxHourlyRate ({budget.max_hourly_rate}): raise it"
            text = f"a node costs {worst}, and nodes for {purse.hourly} of spec.maxHourlyRate"
            return f"{text} ({budget.max_hourly_rate}) are rented"
        if block is ReasonCode.HARD_LIMIT and purse.slack is not None:
            needed = reserve(pool, job.grace_seconds) if pool.quote is not None else ZERO
            text = f"a node may cost {needed} until it can be given back"
            return f"{text}, and {max(purse.slack, ZERO)} of spec.hardLimit ({budget.hard_limit}) is not committed"
        if block is ReasonCode.OPERATOR_LIMIT:
            return self._draft.operator_limit(option)
        if block is ReasonCode.POOL_COOLING and (wait := self._draft.launch_wait(job, option)) is not None:
            return f"{_BLOCKED[block]}; {reasons.late(option.pool, wait)}"
        text = self._full(option) if block is ReasonCode.POOL_FULL else _BLOCKED.get(block, "no node can be had now")
        return f"{text}{'' if self._shares is None else self._shares.about(option.pool)}"

    def _full(self, option: Option) -> str:
        """That the pool may have no more nodes, or that what is free on them is not in one piece."""
        pool = self._draft.snapshot.pools[option.pool]
        free = sum(gpus for gpus in self._draft.free_nodes(option.pool).ready.free.values() if gpus > 0)
        nodes = "the only node" if pool.max_nodes == 1 else f"all {pool.max_nodes} nodes"
        text = f"{pool.id} has {nodes} that spec.maxNodes allows"
        apart = f", and its {free} free GPUs are not together as the job needs them"
        return f"{text}{apart if free >= option.gpus else ''}"

    def _room_is_made(self, option: Option) -> str:
        """Who makes room for a job that has a share of it."""
        shares, jobs = self._shares, self._draft.snapshot.jobs
        who = names(f"{jobs[job].namespace}/{jobs[job].name}" for job in (() if shares is None else shares.narrowed))
        text = f"go on with fewer GPUs to make room for it ({who})" if who else "leave GPUs that it gets then"
        return f"{self._full(option)}, and running jobs {text}"

    def _by_availability(self, job: Job, outcomes: Sequence[Completion], share: GroupAssignment) -> Sequence[Option]:
        """The options, best first, now that some could begin at once and others wait for nodes to start up.

        An outcome counts a whole start-up: where all nodes are ready or boot, what is over of it is taken off. So a job
        waits for the last of its nodes while that costs less than to begin without it, and the machine is not wasted.
        A job of a class that mixes takes the path given to it, or the mix would not be met; unless that needs a node
        which the cloud is not expected to give soon.
        """
        worth, least = (self._solution.deadline_values(job) or share.values).worth, inf
        totals = self._with_delays(job, outcomes, worth)
        start_up = self._draft.start_up
        dearest = [(worth + option.price.dollars_per_second) * start_up(option) for _, option in totals]
        most = max(dearest)
        if share.mixes or not most:
            return [option for _, option in totals]
        ranked: list[tuple[float, int, Option]] = []
        for rank, (total, option) in enumerate(totals):
            if total - most >= least:
                break
            if total - dearest[rank] < least:
                seconds, dollars = self._draft.start_up_over(job, option)
                total -= worth * seconds + dollars
            least = min(least, total)
            ranked.append((total, rank, option))
        first = [option for _, _, option in sorted(ranked, key=lambda entry: entry[:2])]
        return [*first, *(option for _, option in totals[len(first) :])]

    def _snuggest(self, job: Job, options: Sequence[Option]) -> Sequence[Option]:
        """The options, best first; where the best would have a node to itself, that of the pool which it fits best.

        A ready node of which the rest would stay idle is left to be given back where that rest costs more, until the
        job ends, than to wait for a smaller one.
        """
        if len(options) < 2:
            return options
        snuggest = snuggest_first(options, self._solution.inputs.market)
        if snuggest is options or self._draft.must_rent(job, options[0]):
            return snuggest
        idle = self._draft.idle_beside(job, options[0])
        share = self._solution.share(job)
        if not idle or share is None:
            return options
        there, unused = snuggest[0], idle * options[0].price.dollars_per_second / options[0].gpus
        waits = (share.values.worth + there.price.dollars_per_second) * self._draft.start_up(there)
        return snuggest if unused * share.position(job).left / options[0].speed > waits else options

    def _with_delays(self, job: Job, outcomes: Sequence[Completion], worth: float) -> Sequence[tuple[float, Option]]:
        """The cost of each option with time, the best first. A late node costs time only.

        ``worth``: dollars of a second of the job's life.
        """
        totals = [(outcome.worth, outcome.option) for outcome in outcomes]
        if not self._draft.waits_for_launches:
            return totals
        delayed = [(total + worth * self._draft.launch_delay(job, option), option) for total, option in totals]
        return sorted(delayed, key=lambda entry: entry[0])

    def _try(self, job: Job, option: Option, share: GroupAssignment, wanted: Option) -> ReasonCode | None:
        """Place the job or let it wait for nodes; the reason when neither can be.

        ``wanted``: what it would have, did all nodes come in time.
        """
        waits = self._waits.reason(job, option)
        if waits is not None:
            self._commit(job)
            self._draft.judge(job, option, waits)
            return None
        claim = self._draft.claim(job, option)
        if claim.blocked is not None:
            return claim.blocked
        if claim.placements is not None:
            feasible = self._solution.feasible
            why = reasons.choice(option, share.values, share.group.weight, share.position(job), feasible=feasible)
            why = self._solution.with_deadline_note(job, why)
            why = replace(why, message=f"{why.message}{self._passed_over(job, option, wanted)}")
            self._place(job, option, claim.placements, why)
            return None
        self._rate += option.price.dollars_per_second
        if self._runs_meanwhile(job, option, claim.nodes, share):
            return None
        nodes = ", ".join(claim.nodes[:3]) + (f" and {len(claim.nodes) - 3} more" if len(claim.nodes) > 3 else "")
        text = f"waits until {nodes} can take it{self._passed_over(job, option, wanted)}"
        self._commit(job)
        self._draft.judge(job, option, reasons.waiting(ReasonCode.WAITING_FOR_NODE, option, text))
        return None

    def _runs_meanwhile(self, job: Job, option: Option, nodes: Sequence[RentalId], share: GroupAssignment) -> bool:
        """Let a job that lost nodes, and may move later, run on the others until all are ready, where that gains."""
        interrupted = bool(job.records) and job.records[-1].outcome is RunOutcome.INTERRUPTED
        moves = job.resize is not ResizePolicy.NEVER and self._solution.budget.moves.unlimited
        if not interrupted or not moves or job.max_cost is not None:
            return False
        size = self._draft.snapshot.pools[option.pool].gpus_per_node or 1
        free, start = self._draft.free_nodes(option.pool), self._draft.start_up(option)
        ready = [name for name in nodes if name in free.ready.free]
        widths = [each for each in share.group.menu.options if each.pool == option.pool and not each.trial]
        fewer = [each for each in widths if size <= each.gpus <= size * len(ready)]
        if not fewer:
            return False
        rest, lost = max(fewer, key=lambda each: each.gpus), option.interruptions
        places = ready[: rest.gpus // size]
        wait = max([free.booting.seconds.get(name, start) for name in nodes if name not in ready])
        write = DEFAULT_CHECKPOINT_SECONDS if lost is None else lost.checkpoint_seconds
        gains = goes_on(rest.speed / option.speed, wait, option.entry_seconds - start, write)
        if not gains or not self._draft.hosts(dict.fromkeys(places, job.grace_seconds)):
            return False
        text = f"{reasons.name(rest)} until the other nodes for {reasons.name(option)} are ready"
        why = Reason(ReasonCode.INTERRUPTION, 0.0, ZERO, text, job.records[-1].option)
        self._place(job, rest, tuple([Placement(name, size) for name in places]), why)
        return True

    def _passed_over(self, job: Job, option: Option, wanted: Option) -> str:
        """That a pool which would be better gives its nodes too late for the job; empty where that is not why."""
        if self._shares is not None and option is not wanted:
            return f"; {reasons.name(wanted)} would be better for it alone{self._shares.about(wanted.pool)}"
        wait = None if wanted.pool == option.pool else self._draft.launch_wait(job, wanted)
        return "" if wait is None else f"; {reasons.late(wanted.pool, wait)}"

    def _place(self, job: Job, option: Option, placements: Sequence[Placement], why: Reason) -> None:
        self._rate += option.price.dollars_per_second
        left = self._displaced.get(job.id, why)
        if left.code is not why.code:
            why = replace(why, code=left.code, message=f"{left.message}; {why.message}")
        self._placed.add(job.id)
        self._commit(job, self._draft.allocate(job, option, next_run(job), tuple(placements), why))
        self._draft.judge(job, option, why)


def next_run(job: Job) -> int:
    """The number of a new run."""
    return max(job.last_run, 0 if job.allocation is None else job.allocation.run) + 1
