"""Jobs without a place: the queue is offered ready GPUs in order, and only what is missing is rented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from charterer.domain.budget import Mode
from charterer.domain.ids import JobId, RentalId
from charterer.domain.job import Job, Placement, ResizePolicy, RunOutcome
from charterer.domain.money import ZERO, Money
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.reasons.facts import Both, Wanted
from charterer.domain.reasons.facts_of_options import HadNow, RestartedAtOnce, RunsMeanwhile, WholeNode
from charterer.domain.reasons.facts_of_waits import StartsAbout, WaitsForNodes, WouldBeRented
from charterer.domain.time import after
from charterer.policy.actions.admission.commitments import Commitments
from charterer.policy.actions.admission.no_option import no_option
from charterer.policy.actions.admission.path_mixing import in_order, ranked_options
from charterer.policy.actions.admission.refusals import Refusals
from charterer.policy.actions.admission.shortage import allot_room
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.actions.room_allotment import RoomAllotment, RoomWait
from charterer.policy.budgets import reasons
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.jobs.job_facts import last_option, next_run
from charterer.policy.nodes.max_cost import affordable, too_dear
from charterer.policy.options.interruptions import DEFAULT_CHECKPOINT_SECONDS, goes_on
from charterer.policy.options.option_value import Projection
from charterer.policy.outlook.whole_nodes import Preference
from charterer.policy.solve.phase_dp import OptionKey, key_of

_LIMITS = (ReasonCode.HARD_LIMIT, ReasonCode.HOURLY_LIMIT, ReasonCode.OPERATOR_LIMIT)
_FULL = (ReasonCode.POOL_FULL, ReasonCode.POOL_COOLING)

RankedOptions = Mapping[JobId, Sequence[Projection]]
"""The options of waiting jobs, best first."""


class Admission:
    """Admits one budget's queue into its plan."""

    def __init__(self, plan: BudgetPlan) -> None:
        jobs = plan.jobs
        self._plan = plan
        self._solution = plan.solution
        self._displaced = {job.id: why for job, why in jobs.leaving}
        waiting = [*jobs.waiting, *(job for job, _ in jobs.leaving)]
        self._waiting = sorted(waiting, key=lambda job: (job.created, job.id))
        self._ranked = self._options()
        self._placed: set[JobId] = set()
        self._money = Commitments(plan)
        self._outlook = plan.outlook
        self._refusals = Refusals(plan, None)
        self._preferred: Mapping[JobId, Preference] = {}

    def admit(self) -> None:
        """Displaced jobs first, then the queue; a displaced job that finds nothing is stopped.

        Where there is too little room it is allotted first.
        """
        ranked = self._ranked
        for job in self._waiting:
            why = self._displaced.get(job.id)
            if why is not None and job.id in ranked and why.code not in _LIMITS and self._moves_later(job):
                self._restart_at_once(job, ranked[job.id], why)
        queue = in_order([job for job in self._waiting if job.id not in self._placed], ranked, self._solution)
        contend = [job for job in queue if not self._outlook.awaits_launch(job, ranked[job.id])]
        best = {job.id: self._outlook.with_launch_delays(job, ranked[job.id]) for job in contend}
        allotment = self._plan.allotment = allot_room(self._plan, contend, best)
        if allotment is not None:
            self._refusals = Refusals(self._plan, allotment)
            decided = self._allot(contend, best, allotment)
            queue = [job for job in queue if job.id not in decided]
        if allotment is None:
            self._plan.choose_together(queue)
            self._preferred = {} if self._plan.whole is None else self._plan.whole.preferred
        options = {name: preference.option for name, preference in self._preferred.items()}
        self._outlook.find_waits([(job, ranked[job.id]) for job in queue], options)
        for job in queue:
            assignment = self._solution.assignment(job)
            if assignment is not None:
                self._admit(job, ranked[job.id], assignment)
        for job in self._waiting:
            if job.id in self._displaced and job.id not in self._placed:
                self._plan.decided.stop(job, self._displaced[job.id])

    def _moves_later(self, job: Job) -> bool:
        """Whether the job may go to a better place once it runs; otherwise it stays for life where it begins."""
        return job.resize is not ResizePolicy.NEVER and self._solution.budget.moves.per_job_and_day != 0

    def _options(self) -> RankedOptions:
        """The options of each waiting job that has any within its maxCost; a verdict on each of the others."""
        ranked = ranked_options(self._waiting, self._solution)
        for job in self._waiting:
            projections = ranked.get(job.id)
            if projections is None:
                self._plan.decided.judge(job, None, no_option(self._plan, job))
                continue
            if job.max_cost is None:
                continue
            sized, snapshot = self._solution.sized(job), self._plan.snapshot
            why = too_dear(job, projections, snapshot, sized=sized)
            if why is not None:
                del ranked[job.id]
                self._plan.decided.judge(job, None, why)
            else:
                ranked[job.id] = affordable(job, projections, snapshot, sized=sized)
        return ranked

    def _allot(self, queue: Sequence[Job], ranked: RankedOptions, allotment: RoomAllotment) -> set[JobId]:
        """Give jobs their part of the room, the widest first. Returns those that are decided; the others are offered
        what is left.

        Nothing is left while an allotment waits for room that is being made.
        """
        self._plan.decided.pools |= allotment.pools
        decided: set[JobId] = set()
        for job in sorted(queue, key=lambda job: -allotment.starts[job.id].gpus if job.id in allotment.starts else 0):
            option, assignment, first = (
                allotment.starts.get(job.id),
                self._solution.assignment(job),
                ranked[job.id][0].option,
            )
            block = None if option is None or assignment is None else self._try(job, option, assignment, first)
            wait = allotment.waits.get(job.id)
            if option is not None and block is None:
                decided.add(job.id)
            elif wait is not None and wait.instead is not None:
                self._wait_for_room(job, wait, wait.instead)
                decided.add(job.id)
            elif allotment.making_room and block in (None, *_FULL):
                best = option or first
                cooling = self._plan.snapshot.pools[best.pool].cooling(self._plan.snapshot.now) is not None
                code = ReasonCode.POOL_COOLING if cooling else ReasonCode.POOL_FULL
                told = self._refusals
                refused = told.why_not(code, job, best) if option is None else told.room_is_made(job, best)
                self._plan.decided.judge(job, best, reasons.waiting(code, best, refused))
                decided.add(job.id)
        return decided

    def _wait_for_room(self, job: Job, wait: RoomWait, instead: Projection) -> None:
        """Let the job wait for GPUs that others leave, instead of taking for life what it could have now."""
        later, more = instead.seconds - wait.end.seconds, Money.of(instead.dollars - wait.end.dollars)
        facts = Wanted(wait.option, Both(self._starts_about(wait), HadNow(instead.option, later, more)))
        why = Reason(ReasonCode.WAITING_FOR_FREE_GPUS, job.weight * later, -more, facts, instead.option)
        self._plan.decided.wait(job, wait.option, why, wait.seconds)
        self._plan.decided.again_at.append(after(self._plan.snapshot.now, wait.until))

    def _starts_about(self, wait: RoomWait) -> StartsAbout:
        return StartsAbout(wait.option, after(self._plan.snapshot.now, wait.seconds))

    def _restart_at_once(self, job: Job, ranked: Sequence[Projection], why: Reason) -> None:
        """On what is left; it is optimised later, as a move. Without money for that it takes its turn in the queue."""
        if not self._money.affords(job, ranked[0].option):
            return
        for option in (projection.option for projection in ranked):
            claim = self._plan.claim(job, option, only_ready=True)
            if claim.placements is not None:
                facts = Both(why.facts, RestartedAtOnce(option))
                moved = Reason(why.code, 0.0, ZERO, facts, last_option(job))
                self._money.use(job, option)
                self._place(job, option, claim.placements, moved)
                return

    def _admit(self, job: Job, projections: Sequence[Projection], assignment: GroupAssignment) -> None:
        """Offer the job its options in their order, until it has one or the budget cannot pay."""
        wanted = projections[0].option
        worth = self._solution.worth(job, assignment)
        cost_at_once = {key_of(projection.option): projection.total_cost for projection in projections}
        cost_of_waiting = inf  # for a pool that cools: only what is better, if it comes at once, is asked for
        blocks: dict[OptionKey, ReasonCode] = {}
        options = self._outlook.best_fit_first(job, self._outlook.in_order(job, projections, assignment))
        preferred = self._preferred.get(job.id)
        if preferred is not None and self._money.affords(job, preferred.option):
            wanted = preferred.option
            options = [wanted, *(option for option in options if key_of(option) != key_of(wanted))]
        for option in options:
            if cost_at_once[key_of(option)] >= cost_of_waiting:
                continue
            if not self._money.affords(job, option):
                why = reasons.waiting(ReasonCode.WAITING_FOR_BUDGET, option, self._money.refuse(job, option))
                self._plan.decided.judge(job, option, why)
                return
            block = self._try(job, option, assignment, wanted)
            if block is None:
                return
            blocks[key_of(option)] = block
            if cost_of_waiting == inf and block is ReasonCode.POOL_COOLING and self._outlook.may_wait(job, option):
                wanted = option
                cost_of_waiting = cost_at_once[key_of(option)] + worth * self._plan.placer.launch_delay(job, option)
        if any(block in _LIMITS for block in blocks.values()):
            for option in sorted(assignment.group.menu.narrower, key=lambda option: (-option.gpus, option.pool)):
                if self._try(job, option, assignment, wanted) is None:
                    return
        allotment = self._plan.allotment
        wait = None if allotment is None else allotment.waits.get(job.id)
        if wait is not None and blocks.get(key_of(wait.option)) in _FULL:
            wanted = wait.option
        block = blocks[key_of(wanted)]
        why = reasons.waiting(block, wanted, self._refusals.why_not(block, job, wanted))
        if wait is not None and wanted is wait.option:
            self._plan.decided.wait(job, wanted, why.with_note(self._starts_about(wait)), wait.seconds)
        else:
            self._plan.decided.judge(job, wanted, why)

    def _try(self, job: Job, option: Option, assignment: GroupAssignment, wanted: Option) -> ReasonCode | None:
        """Place the job or let it wait for nodes; the reason when neither can be.

        ``wanted``: what it would have, did all nodes come in time.
        """
        waits = self._outlook.waits.reason(job, option)
        if waits is not None:
            self._plan.decided.judge(job, option, waits)
            return None
        claim = self._plan.claim(job, option)
        if claim.blocked is not None:
            return claim.blocked
        self._money.use(job, option)
        if claim.placements is not None:
            self._begin(job, option, claim.placements, assignment, wanted)
            return None
        if self._runs_meanwhile(job, option, claim.nodes, assignment):
            return None
        self._plan.decided.awaited[job.id] = claim.nodes
        why = reasons.waiting(ReasonCode.WAITING_FOR_NODE, option, self._waits_for(claim.nodes))
        why = why.with_note(self._refusals.passed_over(job, option, wanted)).with_note(self._whole_node(job, option))
        self._plan.decided.judge(job, option, why)
        return None

    def _waits_for(self, nodes: Sequence[RentalId]) -> WaitsForNodes | WouldBeRented:
        """The nodes that a job waits for. What a budget that observes would rent will never be there."""
        new = [name for name in nodes if name not in self._plan.snapshot.rentals]
        if new and self._solution.budget.mode is Mode.OBSERVE:
            return WouldBeRented(len(new))
        return WaitsForNodes(tuple(nodes))

    def _whole_node(self, job: Job, option: Option) -> WholeNode | None:
        """Why the job has an option that is not the best at its part of a node; None where it has not."""
        preferred = self._preferred.get(job.id)
        if preferred is None or key_of(preferred.option) != key_of(option):
            return None
        return WholeNode(preferred.instead, Money.of(preferred.saved), preferred.sooner)

    def _runs_meanwhile(self, job: Job, option: Option, nodes: Sequence[RentalId], assignment: GroupAssignment) -> bool:
        """Let a job that lost nodes, and may move later, run on the others until all are ready, where that gains."""
        interrupted = bool(job.records) and job.records[-1].outcome is RunOutcome.INTERRUPTED
        moves = job.resize is not ResizePolicy.NEVER and self._solution.budget.moves.unlimited
        if not interrupted or not moves or job.max_cost is not None:
            return False
        size = self._plan.snapshot.pools[option.pool].gpus_per_node or 1
        free, start = self._plan.placer.free_nodes(option.pool), self._plan.placer.start_up(option)
        ready = [name for name in nodes if name in free.ready.free]
        alike = option.pool, option.variant
        menu = assignment.group.menu.options
        widths = [each for each in menu if (each.pool, each.variant) == alike and not each.trial]
        fewer = [each for each in widths if size <= each.takes <= size * len(ready)]
        if not fewer:
            return False
        rest, lost = max(fewer, key=lambda each: each.gpus), option.interruptions
        places = ready[: rest.takes // size]
        wait = max([free.booting.seconds.get(name, start) for name in nodes if name not in ready])
        write = DEFAULT_CHECKPOINT_SECONDS if lost is None else lost.checkpoint_seconds
        gains = goes_on(rest.speed / option.speed, wait, option.entry_seconds - start, write)
        if not gains or not self._plan.placer.hosts(dict.fromkeys(places, job.grace_seconds)):
            return False
        why = Reason(ReasonCode.INTERRUPTION, 0.0, ZERO, RunsMeanwhile(rest, option), job.records[-1].option)
        self._place(job, rest, tuple([Placement(name, size) for name in places]), why)
        return True

    def _begin(
        self, job: Job, option: Option, placements: Sequence[Placement], assignment: GroupAssignment, wanted: Option
    ) -> None:
        """Give the job its place, and say why it has that option. ``wanted``: as in ``_try``."""
        feasible = self._solution.feasible
        why = reasons.choice(
            option, assignment.values, assignment.group.weight, assignment.position(job), feasible=feasible
        )
        why = self._solution.with_deadline_note(job, why).with_note(self._refusals.passed_over(job, option, wanted))
        self._place(job, option, placements, why.with_note(self._whole_node(job, option)))

    def _place(self, job: Job, option: Option, placements: Sequence[Placement], why: Reason) -> None:
        left = self._displaced.get(job.id, why)
        if left.code is not why.code:
            why = replace(why, code=left.code, facts=Both(left.facts, why.facts))
        self._placed.add(job.id)
        self._plan.decided.allocate(job, option, next_run(job), tuple(placements), why)
        self._plan.decided.judge(job, option, why)


def admit(plan: BudgetPlan) -> None:
    """Place the jobs that have no GPUs, or say what each waits for."""
    Admission(plan).admit()
