"""Running jobs that go elsewhere: those that may not stay, those that make room for others, and those that gain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain, islice

from charterer.domain.ids import PoolId
from charterer.domain.job import Allocation, Job, Placement
from charterer.domain.money import ZERO, Money
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.reasons.facts_of_jobs import Forced, WouldPay
from charterer.domain.reasons.facts_of_options import MakesRoom
from charterer.policy.actions.budget_plan import BudgetPlan, MovableRun
from charterer.policy.budgets import reasons
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.jobs.job_facts import next_run
from charterer.policy.jobs.moves import CandidateMove
from charterer.policy.jobs.predicates import fewest_pods
from charterer.policy.nodes.node_fit import fit
from charterer.policy.nodes.placement import GpuClaim
from charterer.policy.options.option_value import Move, in_place
from charterer.policy.outlook.move_gate import Hold
from charterer.policy.outlook.whole_nodes import WholeNodes


def force_moves(plan: BudgetPlan) -> None:
    """Move the jobs that may not stay where they are, in order of creation."""
    forced = [run for run in plan.movable if run.moves.forced is not None]
    for run in sorted(forced, key=lambda run: run.moves.facts.order):
        _force(plan, run)


def make_room(plan: BudgetPlan) -> None:
    """Make the jobs narrower whose GPUs are worth more to others; while room is made, nobody takes it."""
    allotment = plan.allotment
    if allotment is None or not allotment.making_room:
        return
    for kept in plan.jobs.running:
        for name, facts in kept.runners.items():
            to, allocation = allotment.narrowed.get(name), facts.job.allocation
            assignment = None if to is None else plan.solution.assignment(facts.job)
            if to is not None and assignment is not None and allocation is not None:
                _move(plan, facts.job, allocation, to, _makes_room(facts.job, allocation.option, to, assignment))


def move_where_it_pays(plan: BudgetPlan) -> None:
    """Move the jobs that gain by it, those that gain most first.

    What each would like best is asked before the first of them is moved: what that one rents is offered to others in
    the next plan. Where jobs choose together, those move for which the whole bill is smaller so.
    """
    if plan.whole is not None:
        _move_together(plan, plan.whole)
    alone = [run for run in plan.movable if plan.whole is None or not plan.whole.chooses(run.moves.facts.job)]
    gaining = [(run, best, others) for run in alone for others in [_paying(plan, run)] for best in islice(others, 1)]
    for run, (_, best), others in sorted(gaining, key=lambda each: (-each[1][0], each[0].moves.facts.order)):
        _move_if_it_pays(plan, run, chain([best], (move for _, move in others)))


def _move_together(plan: BudgetPlan, whole: WholeNodes) -> None:
    """Move the jobs that choose another option together with the others, or say what holds them."""
    for job in [facts.job for kept in plan.jobs.running for facts in kept.runners.values()]:
        allocation, assignment = job.allocation, plan.solution.assignment(job)
        if allocation is None or assignment is None or not plan.decided.stays(job):
            continue
        chosen, held = whole.preferred.get(job.id), whole.held.get(job.id)
        if chosen is not None:
            gain = plan.solution.worth(job, assignment) * chosen.sooner + chosen.saved
            move = Move(chosen.option, chosen.sooner, Money.of(-chosen.saved), gain)
            _move(plan, job, allocation, move.to, _gain(plan, job, move, allocation, assignment))
        elif held is not None:
            plan.gate.look_again(held[1])
            if not held[1].here_only:
                _say_held(plan, job, allocation.option, assignment, *held)


def _force(plan: BudgetPlan, run: MovableRun) -> None:
    job, forced = run.moves.facts.job, run.moves.forced
    allocation = job.allocation
    assert allocation is not None
    assert forced is not None
    projections = run.moves.values.entering(run.assignment.position(job))
    allowed = [
        projection.option
        for projection in projections
        if plan.gate.allows([plan.gate.withdrawn(job, projection.option)])
    ]
    for option in sorted(allowed, key=lambda target: not _stays(plan, job, allocation, target)):
        why = Reason(ReasonCode.WIDTH_NO_LONGER_ALLOWED, 0.0, ZERO, Forced(forced, option), allocation.option)
        if _move(plan, job, allocation, option, why):
            return


def _paying(plan: BudgetPlan, run: MovableRun) -> Iterator[tuple[float, CandidateMove]]:
    """The moves that pay with their gains, the best first; whether one must rent is asked when it may be the next."""
    job, market = run.moves.facts.job, plan.solution.inputs.market
    found: list[tuple[float, tuple[int, int], PoolId, int, int, CandidateMove]] = []
    for number, move in enumerate(run.moves.candidates):
        while found and -found[0][0] > move.gain:
            first = heappop(found)
            yield -first[0], first[-1]
        gain = move.gain_now(rented=plan.placer.must_rent(job, move.to))
        if gain > 0.0:
            heappush(found, (-gain, fit(move.to, market), move.to.pool, move.to.gpus, number, move))
    while found:
        first = heappop(found)
        yield -first[0], first[-1]


def _move_if_it_pays(plan: BudgetPlan, run: MovableRun, paying: Iterable[CandidateMove]) -> None:
    """The best move that can be had and that still pays after what entering really costs."""
    job, assignment, values = run.moves.facts.job, run.assignment, run.moves.values
    allocation, position = job.allocation, assignment.position(job)
    assert allocation is not None
    here = allocation.option
    for candidate in paying:
        rented = plan.placer.must_rent(job, candidate.to)
        if candidate.gain_now(rented=rented) <= 0.0:  # what was free has been taken since
            continue
        if assignment.mixes_both(here, candidate.to) and values.worth <= assignment.assigned_paths[-1].values.worth:
            continue
        held = plan.gate.held(job, values, position, values.moving(here, candidate.to, position, rented=True))
        if held is not None:
            plan.gate.look_again(held)
            if held.here_only:
                continue
            _say_held(plan, job, here, assignment, candidate.to, held)
            return
        move = values.move(here, candidate.to, position, rented=rented)
        if _move(plan, job, allocation, move.to, _gain(plan, job, move, allocation, assignment)):
            return


def _say_held(plan: BudgetPlan, job: Job, here: Option, assignment: GroupAssignment, to: Option, held: Hold) -> None:
    """Say why a move that would pay is not made."""
    feasible = plan.solution.feasible
    chosen = reasons.choice(
        here, assignment.values, assignment.group.weight, assignment.position(job), feasible=feasible
    )
    plan.decided.judge(job, here, chosen.with_note(WouldPay(to, held.facts)))


def _gain(plan: BudgetPlan, job: Job, move: Move, allocation: Allocation, assignment: GroupAssignment) -> Reason:
    left = assignment.position(job).left
    need, worth = plan.solution.deadline_needs.get(job.id), plan.solution.worth(job, assignment)
    pays = None if need is not None and need.at_any_price else Money.of(worth * 3600)
    why = reasons.moving(move, allocation.option, left, pays, assignment.group.weight)
    return plan.solution.with_deadline_note(job, why)


def _move(plan: BudgetPlan, job: Job, allocation: Allocation, to: Option, why: Reason) -> bool:
    """Move now if the nodes are ready, else wait for them and run on meanwhile. False when they cannot be had."""
    if _stays(plan, job, allocation, to):
        return _resize(plan, job, allocation, to, plan.placer.nodes(to), why)
    claim = plan.claim(job, to)
    return _settle(plan, job, to, claim, next_run(job), (), why)


def _stays(plan: BudgetPlan, job: Job, allocation: Allocation, to: Option) -> bool:
    """Whether the run can get there in place. One that has named no group yet may have another trainer by now."""
    pods, group = len(allocation.placements), job.current_group
    fewest = fewest_pods(job)
    if fewest == 1 and (group is None or not group.formed):
        fewest = 2
    return in_place(allocation.option, pods, to, plan.placer.nodes(to), fewest)


def _resize(plan: BudgetPlan, job: Job, allocation: Allocation, to: Option, pods: int, why: Reason) -> bool:
    """The same run with more or fewer equal pods; those of the lowest indexes stay where they are."""
    before = len(allocation.placements)
    if pods < before:
        plan.decided.allocate(job, to, allocation.run, _lowest(plan, job, allocation, pods), why)
        plan.decided.judge(job, to, why)
        return True
    more = replace(to, gpus=to.gpus - allocation.option.gpus)
    claim = plan.placer.claim_more(job, more)
    return _settle(plan, job, to, claim, allocation.run, allocation.placements, why)


def _lowest(plan: BudgetPlan, job: Job, allocation: Allocation, pods: int) -> tuple[Placement, ...]:
    """The places of the pods of the lowest indexes, which are those that a run keeps.

    The scheduler chose for each pod one of the run's nodes, so they need not be the first of the allocation.
    """
    rental_of, run = plan.solution.inputs.rentals.rental_of, job.current_run
    nodes = {pod.index: pod.node for pod in (run.pods if run is not None else ()) if pod.live}
    found = [rental_of.get(node) for index in range(pods) if (node := nodes.get(index)) is not None]
    there = [place for rental in found for place in allocation.placements if place.rental == rental]
    return tuple(there) if len(there) == pods else allocation.placements[:pods]


def _settle(
    plan: BudgetPlan, job: Job, to: Option, claim: GpuClaim, run: int, kept: tuple[Placement, ...], why: Reason
) -> bool:
    if claim.blocked is not None:
        return False
    if claim.placements is not None:
        plan.decided.allocate(job, to, run, (*kept, *claim.placements), why)
    plan.decided.judge(job, to, why)
    return True


def _makes_room(job: Job, here: Option, to: Option, assignment: GroupAssignment) -> Reason:
    """Why a job goes on with fewer GPUs, for the good of others."""
    move = assignment.drawn_values(job).move(here, to, assignment.position(job), rented=False)
    facts = MakesRoom(to, here, -move.saved_seconds, move.cost)
    return Reason(ReasonCode.MAKES_ROOM, assignment.group.weight * move.saved_seconds, move.cost, facts, here)
