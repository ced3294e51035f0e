"""Running jobs: those that may not stay go elsewhere, and those for which a move pays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from charterer.domain.ids import JobId
from charterer.domain.job import Allocation, Job, Placement
from charterer.domain.money import ZERO
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode, Verdict
from charterer.domain.time import after
from charterer.policy.actions.admission.no_option import no_option
from charterer.policy.actions.admission.shortage import Shares
from charterer.policy.actions.move_gate import Hold, MoveGate
from charterer.policy.actions.plan_builder import PlanBuilder, verdict
from charterer.policy.actions.triage import KeptRuns
from charterer.policy.budgets import reasons
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import JobFacts, job_position, next_run
from charterer.policy.jobs.moves import CandidateMove, JobMoves, job_moves
from charterer.policy.jobs.predicates import fewest_pods
from charterer.policy.nodes.node_fit import fit
from charterer.policy.nodes.placement import GpuClaim
from charterer.policy.options.option_value import Move, OptionValues, in_place
from charterer.policy.options.width_backoff import backoff_seconds

_AT_THE_EARLIEST = 1.0
"""Seconds to the next look: what a job reports may lag, and a phase that is all but over stays so until it is heard."""


@dataclass(frozen=True, slots=True)
class _Resizable:
    """A job that must move or may gain by it."""

    share: GroupAssignment
    moves: JobMoves


class Resizing:
    """Moves one budget's running jobs in its draft, after the queue was served."""

    def __init__(self, draft: PlanBuilder) -> None:
        self._draft = draft
        self._solution = draft.solution
        self._memo = draft.solution.inputs.memo
        self._gate = MoveGate(draft.solution, draft.snapshot)

    def move(self, running: Sequence[KeptRuns], shares: Shares | None) -> None:
        """Jobs that must move first, in order of creation, then those that may gain most.

        While room is made for jobs that wait, nobody takes it: only those move that make it.
        """
        resizable: list[_Resizable] = []
        for kept in running:
            share = self._solution.shares.get(kept.group.key)
            if share is None:
                for job in (facts.job for facts in kept.runners.values()):
                    why = no_option(self._draft, job)
                    why = replace(why, message=f"it runs on where it is, but could not start again: {why.message}")
                    self._draft.judge(job, None if job.allocation is None else job.allocation.option, why)
                continue
            self._judge_runners(kept, share)
            for moves in self._moves(kept.group, share):
                if moves.facts.job.id in kept.runners:
                    self._look_again(moves.next_change)
                    if moves.forced or moves.candidates:
                        resizable.append(_Resizable(share, moves))
        for runner in sorted(
            (runner for runner in resizable if runner.moves.forced), key=lambda runner: runner.moves.facts.order
        ):
            self._force(runner)
        if shares is not None and shares.making_room:
            self._make_room(running, shares)
            return
        gaining = [(runner, paying) for runner in resizable if (paying := self._paying(runner))]
        for runner, paying in sorted(gaining, key=lambda both: (-both[1][0].gain, both[0].moves.facts.order)):
            self._move_if_it_pays(runner, paying)

    def _make_room(self, running: Iterable[KeptRuns], shares: Shares) -> None:
        """Make jobs narrower whose GPUs are worth more to others."""
        for kept in running:
            for name, facts in kept.runners.items():
                to, allocation = shares.narrowed.get(name), facts.job.allocation
                share = None if to is None else self._solution.share(facts.job)
                if to is not None and share is not None and allocation is not None:
                    why = _makes_room(facts.job, allocation.option, to, share)
                    self._go(facts.job, allocation, to, why)

    def _moves(self, group: JobGroup, share: GroupAssignment) -> Iterable[JobMoves]:
        """The moves of the group's running jobs that have any."""
        name = self._solution.budget.id, group.key
        market, found = self._solution.inputs.market, dict[JobId, JobMoves | None]()
        for values, jobs in _by_values(group, share):
            found |= self._memo.each(job_moves, jobs, values, share.group.work, market, name=name)
        for facts in group.targeted:
            own = self._solution.deadline_values(facts.job) if facts.job.id in group.movable else None
            if own is not None:
                moves = job_moves(facts, own, share.group.work, market)
                if moves is not None and self._solution.deadline_needs[facts.job.id].postpones:
                    taken_back = [move for move in moves.candidates if move.to.interruptions is not None]
                    moves = replace(moves, candidates=taken_back)
                found[facts.job.id] = moves
        return [moves for moves in found.values() if moves is not None]

    def _look_again(self, seconds: float | None) -> None:
        """Think again when another option will be better."""
        if seconds is not None:
            later = after(self._draft.snapshot.now, max(seconds, _AT_THE_EARLIEST))
            self._draft.decided.again_at.append(later)

    def _paying(self, runner: _Resizable) -> Sequence[CandidateMove]:
        """The moves that pay, the best first; none where none of them can be had.

        Asked before the first of them is made: what that rents is offered to others in the next plan.
        """
        job, candidates = runner.moves.facts.job, runner.moves.candidates
        if not any(move.gain > move.boot or not self._draft.must_rent(job, move.to) for move in candidates):
            return ()
        market = self._solution.inputs.market
        return sorted(candidates, key=lambda move: (-move.gain, fit(move.to, market), move.to.pool, move.to.gpus))

    def _judge_runners(self, kept: KeptRuns, share: GroupAssignment) -> None:
        """Judge jobs that run on."""
        solution, verdicts, group = self._solution, self._draft.decided.verdicts, kept.group
        found = self._memo.each(
            _runs_on,
            group.runners,
            share.values,
            share.group.weight,
            share.group.work,
            solution.feasible,
            name=(solution.budget.id, group.key),
        )
        verdicts |= found if kept.all else {name: found[name] for name in kept.runners}
        for job in (facts.job for facts in group.targeted if facts.job.id in kept.runners):
            verdict = verdicts[job.id]
            why = solution.with_deadline_note(job, verdict.reason)
            verdicts[job.id] = replace(verdict, reason=why, target=solution.outlook(job))

    def _force(self, runner: _Resizable) -> None:
        job, forced = runner.moves.facts.job, runner.moves.forced
        allocation = job.allocation
        assert allocation is not None
        ranked = [outcome.option for outcome in runner.moves.values.entering(runner.share.position(job))]
        allowed = [target for target in ranked if not self._withdrawn(job, target)]
        for option in sorted(allowed, key=lambda target: not self._stays(job, allocation, target)):
            text = f"{forced}: it goes to {reasons.name(option)}"
            why = Reason(ReasonCode.WIDTH_NO_LONGER_ALLOWED, 0.0, ZERO, text, allocation.option)
            if self._go(job, allocation, option, why):
                return

    def _move_if_it_pays(self, runner: _Resizable, paying: Sequence[CandidateMove]) -> None:
        """The best move that can be had and that still pays after what entering really costs."""
        job, share, values = runner.moves.facts.job, runner.share, runner.moves.values
        for candidate in paying:
            if self._withdrawn(job, candidate.to):
                continue
            rented = self._draft.must_rent(job, candidate.to)
            if rented and candidate.gain <= candidate.boot:
                continue
            allocation, position = job.allocation, share.position(job)
            assert allocation is not None
            if share.mixes_both(allocation.option, candidate.to) and values.worth <= share.path_shares[-1].values.worth:
                continue
            stay = values.staying(allocation.option, position)
            worst = values.move(allocation.option, candidate.to, position, rented=True)
            if not self._gate.affords(job, candidate.to, stay.dollars + worst.cost.dollars):
                continue
            if worst.saved_seconds < 0.0 and self._late(job, candidate.to, stay.seconds - worst.saved_seconds):
                continue
            held = self._gate.held(job, values, position, candidate.to)
            if held is not None:
                self._stay(job, allocation.option, share, candidate.to, held)
                return
            move = values.move(allocation.option, candidate.to, position, rented=rented)
            if self._go(job, allocation, move.to, self._gain(job, move, allocation, share)):
                return

    def _withdrawn(self, job: Job, to: Option) -> bool:
        """Whether the job is not to be widened yet, because pods that were to join it did not; think again then."""
        group, here = job.group, job.allocation
        if group is None or group.withdrawn_at is None or here is None or to.gpus <= here.option.gpus:
            return False
        again = after(group.withdrawn_at, backoff_seconds(group.withdrawn))
        if self._draft.snapshot.now >= again:
            return False
        self._draft.decided.again_at.append(again)
        return True

    def _late(self, job: Job, to: Option, seconds: float) -> bool:
        """Whether a job whose target can be met would be late there; its need has a reserve for nodes taken back."""
        need = self._solution.deadline_needs.get(job.id)
        return need is not None and need.met and to.interruptions is None and not self._gate.in_time(job, seconds)

    def _stay(self, job: Job, here: Option, share: GroupAssignment, to: Option, held: Hold) -> None:
        """Say why a move that would pay is not made, and think again when it may be."""
        if held.until is not None:
            self._draft.decided.again_at.append(held.until)
        solution, values = self._solution, share.values
        chosen = reasons.choice(here, values, share.group.weight, share.position(job), feasible=solution.feasible)
        text = f"{chosen.message}; {reasons.name(to)} would pay, but {held.text}"
        self._draft.judge(job, here, replace(chosen, message=text))

    def _gain(self, job: Job, move: Move, allocation: Allocation, share: GroupAssignment) -> Reason:
        left = share.position(job).left
        need, worth = self._solution.deadline_needs.get(job.id), self._solution.worth(job, share)
        paid = "any price" if need is not None and need.at_any_price else reasons.format_money(worth * 3600)
        why = reasons.moving(move, allocation.option, left, paid, share.group.weight)
        return self._solution.with_deadline_note(job, why)

    def _go(self, job: Job, allocation: Allocation, to: Option, why: Reason) -> bool:
        """Move now if the nodes are ready, else wait for them and run on meanwhile. False when they cannot be had."""
        if self._stays(job, allocation, to):
            return self._resize(job, allocation, to, self._draft.pods(to), why)
        claim = self._draft.claim(job, to)
        return self._settle(job, to, claim, next_run(job), (), why)

    def _stays(self, job: Job, allocation: Allocation, to: Option) -> bool:
        """Whether the run can get there in place. One that has named no group yet may have another trainer by now."""
        pods, group = len(allocation.placements), job.current_group
        fewest = fewest_pods(job)
        if fewest == 1 and (group is None or not group.formed):
            fewest = 2
        return in_place(allocation.option, pods, to, self._draft.pods(to), fewest)

    def _resize(self, job: Job, allocation: Allocation, to: Option, pods: int, why: Reason) -> bool:
        """The same run with more or fewer equal pods; those of the lowest indexes stay where they are."""
        before = len(allocation.placements)
        if pods < before:
            self._draft.allocate(job, to, allocation.run, self._lowest(job, allocation, pods), why)
            self._draft.judge(job, to, why)
            return True
        more = replace(to, gpus=to.gpus - allocation.option.gpus)
        claim = self._draft.claim_more(job, more)
        return self._settle(job, to, claim, allocation.run, allocation.placements, why)

    def _lowest(self, job: Job, allocation: Allocation, pods: int) -> tuple[Placement, ...]:
        """The places of the pods of the lowest indexes, which are those that a run keeps.

        The scheduler chose for each pod one of the run's nodes, so they need not be the first of the allocation.
        """
        rental_of, run = self._solution.inputs.rentals.rental_of, job.current_run
        nodes = {pod.index: pod.node for pod in (run.pods if run is not None else ()) if pod.live}
        found = [rental_of.get(node) for index in range(pods) if (node := nodes.get(index)) is not None]
        there = [place for rental in found for place in allocation.placements if place.rental == rental]
        return tuple(there) if len(there) == pods else allocation.placements[:pods]

    def _settle(
        self, job: Job, to: Option, claim: GpuClaim, run: int, kept: tuple[Placement, ...], why: Reason
    ) -> bool:
        if claim.blocked is not None:
            return False
        if claim.placements is not None:
            self._draft.allocate(job, to, run, (*kept, *claim.placements), why)
        self._draft.judge(job, to, why)
        return True


def _makes_room(job: Job, here: Option, to: Option, share: GroupAssignment) -> Reason:
    """Why a job goes on with fewer GPUs, for the good of others."""
    move = share.drawn_values(job).move(here, to, share.position(job), rented=False)
    later, less = reasons.format_duration(-move.saved_seconds), reasons.format_money(abs(move.cost.dollars))
    text = f"{reasons.name(to)} instead of {reasons.name(here)}, to make room for jobs that wait: it ends {later} later"
    text += f" for {less} {'more' if move.cost > ZERO else 'less'}, and their time is worth more"
    return Reason(ReasonCode.MAKES_ROOM, share.group.weight * move.saved_seconds, move.cost, text, here)


def _by_values(group: JobGroup, share: GroupAssignment) -> Iterable[tuple[OptionValues, Mapping[JobId, JobFacts]]]:
    """The group's jobs that can be resized, by how they see their options."""
    if not share.mixes:
        return [(share.values, group.movable)]
    jobs: dict[OptionValues, dict[JobId, JobFacts]] = {}
    for name, facts in group.movable.items():
        jobs.setdefault(share.drawn_values(facts.job), {})[name] = facts
    return jobs.items()


def _runs_on(facts: JobFacts, values: OptionValues, weight: float, work: float, feasible: bool) -> Verdict:
    """The verdict on a job that stays where it is."""
    job = facts.job
    assert job.allocation is not None
    option = job.allocation.option
    why = reasons.choice(option, values, weight, job_position(job, work), feasible=feasible)
    return verdict(job, option, why)
