"""Running jobs: the verdict on each, and which of them must move or may benefit from moving."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain, islice
from math import inf

from charterer.domain.ids import JobId, PoolId
from charterer.domain.job import Allocation, Job, Placement
from charterer.domain.job_records import idle_since, job_cost, usage_of_run
from charterer.domain.money import ZERO, Money
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode, Verdict
from charterer.domain.profile import DEFAULT_RESTART_SECONDS
from charterer.domain.reasons import jobs as of
from charterer.domain.reasons.fact import RunsOn
from charterer.domain.reasons.jobs import Forced, MaxCostSpent, WouldPay
from charterer.domain.reasons.nodes import PodWasSlow
from charterer.domain.reasons.options import Chosen, MakesRoom, SlowNode
from charterer.domain.reports import Bottleneck, BottleneckKind
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after, seconds_between
from charterer.policy.actions.admission.queue import no_option
from charterer.policy.actions.budget_plan import BudgetPlan, MovableRun, verdict
from charterer.policy.actions.forced_releases import not_recorded
from charterer.policy.actions.triage import JobTriage, KeptRuns
from charterer.policy.budgets import solution
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.solution import BudgetSolution, choice
from charterer.policy.jobs.groups import CandidateMove, JobGroup, JobMoves, job_moves
from charterer.policy.jobs.job_facts import JobFacts, fewest_pods, job_position, least_worth, next_run, reason
from charterer.policy.nodes.limits import max_cost_left, stop_cost
from charterer.policy.nodes.placement import GpuClaim, fit
from charterer.policy.nodes.rentals import by_rental
from charterer.policy.options.option_value import Move, OptionValues, Projection, in_place
from charterer.policy.outlook.move_gate import Hold
from charterer.policy.outlook.whole_nodes import WholeNodes

# Running jobs that have reached their cost limit (``Job.cost_limit``). They are stopped while the rest of the limit
# still pays for their grace period.


def stop_spent(result: JobTriage, snapshot: Snapshot) -> list[Instant]:
    """Stop running jobs that have spent their maxCost. Returns the instants at which other jobs must be checked
    again."""
    again: list[Instant] = []
    result.stop_running(lambda group: group.capped, lambda facts: _if_spent(facts, again, snapshot))
    return again


def _if_spent(facts: JobFacts, again: list[Instant], snapshot: Snapshot) -> Reason | None:
    """Why the job stops now; otherwise None, and the time of the next check is added to ``again``."""
    job, allocation = facts.job, facts.job.allocation
    left, limit = max_cost_left(job, snapshot), job.cost_limit
    if left is None or limit is None or allocation is None:
        return None
    slack = left - stop_cost(job, allocation.option)
    if slack <= 0.0:
        spent = job_cost(job, snapshot.rentals, snapshot.now)
        return reason(ReasonCode.MAX_COST, MaxCostSpent(spent, limit))
    price = allocation.option.price.dollars_per_second
    if price:
        again.append(after(snapshot.now, max(slack / price, 1.0)))
    return None


# A node that slows its job is replaced if that pays. The job goes on with another node in its place.
#
# Reports of a run with several pods may show that one of them computes longer than its peers
# (``estimate.bottlenecks``), so that another node would save a fraction f of every step. With L seconds left, r seconds
# of a restart, the job's price p per second, the value w·θ of a second, and b dollars for a new node while it starts,
# the job moves if
#
# (w·θ + p)·f·L > 2·((w·θ + p)·r + b)
#
# The factor covers further costs of a restart, as in consolidation. The job runs on until the new node is ready. The
# same plan releases the old node. Only after the move is it known whether the node was slow, or whether that rank has
# more work than other ranks (as in pipelines of unequal stages). So a job is moved only once for this reason; later
# findings are only reported. All limits of the budget on moves hold.


_FACTOR = 2.0
"""Ratio by which the savings must exceed the cost of the restart and the new node."""
_MOST = 1
"""How often a job may get another node for this reason."""


def replace_slow_nodes(plan: BudgetPlan) -> None:
    """Give each job that one slow node delays another node, if it pays and all limits allow it."""
    for kept in plan.jobs.running:
        assignment = plan.solution.assignments.get(kept.group.key)
        for facts in kept.group.slowed if assignment is not None else ():
            if facts.job.id in kept.runners and facts.job.id in kept.group.movable and assignment is not None:
                _consider(plan, facts.job, assignment)


def slow_worker(job: Job) -> Bottleneck | None:
    """The finding about the pod that slows the job's run; None without one."""
    return next((found for found in job.bottlenecks if found.kind is BottleneckKind.SLOW_WORKER), None)


def _consider(plan: BudgetPlan, job: Job, assignment: GroupAssignment) -> None:
    slow, allocation = slow_worker(job), job.allocation
    if slow is None or allocation is None or job.nodes_replaced >= _MOST or not job.remaining:
        return
    held = by_rental(allocation.placements).get(slow.rental) if slow.rental is not None else None
    if slow.rental is None or held is None or plan.placer.capacity.used.get(slow.rental, 0) != held:
        return
    if not plan.decided.stays(job):
        return
    values = plan.solution.own_values(job, assignment)
    left = values.staying(allocation.option, assignment.position(job)).seconds
    restart = assignment.group.menu.table.restart
    second = plan.solution.worth(job, assignment) + allocation.option.price.dollars_per_second
    saved, costs = second * slow.recovered * left, second * restart
    boots = not plan.placer.has_room_without(job, allocation.option, slow.rental)
    if boots:
        pods = len(allocation.placements)
        costs += plan.placer.start_up(allocation.option) * allocation.option.price.dollars_per_second / pods
    if saved <= _FACTOR * costs:
        return
    option, position = allocation.option, assignment.position(job)
    there = Projection.on(option, left * (1.0 - slow.recovered) + restart, values.worth)
    if not plan.gate.allows([plan.gate.held(job, values, position, there)]):
        return
    claim = plan.claim(job, allocation.option, without=slow.rental)
    if claim.blocked is not None:
        return
    seconds = slow.recovered * left - restart
    facts = SlowNode(option, slow.rental, slow.pod, slow.value, seconds, Money.of(saved - costs))
    money = Money.of(allocation.option.price.dollars_per_second * -seconds + (costs - second * restart))
    why = Reason(ReasonCode.SLOW_NODE, job.weight * seconds, money, facts, allocation.option)
    why = plan.solution.with_deadline_note(job, why)
    if claim.placements is not None:
        plan.decided.allocate(job, allocation.option, next_run(job), claim.placements, why)
        was_slow = PodWasSlow(slow.pod, f"{job.namespace}/{job.name}")
        plan.decided.release(slow.rental, reason(ReasonCode.SLOW_NODE, was_slow))
    plan.decided.judge(job, allocation.option, why)


# Moves of running jobs: jobs that may not stay, jobs that make room for others, and jobs that benefit.


def force_moves(plan: BudgetPlan) -> None:
    """Move the jobs that may not stay where they are, in order of creation."""
    forced = [run for run in plan.movable if run.moves.forced is not None]
    for run in sorted(forced, key=lambda run: run.moves.facts.order):
        _force(plan, run)


def make_room(plan: BudgetPlan) -> None:
    """Narrow the jobs whose GPUs are worth more to other jobs. While room is being made, no other job takes this
    room."""
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
    """Move the jobs that benefit from a move, the largest gains first.

    Each job's best move is found before any job moves, because nodes that are rented for one job are offered to other
    jobs only in the next plan. If jobs choose together, the moves that make the whole bill smaller are made.
    """
    if plan.whole is not None:
        _move_together(plan, plan.whole)
    alone = [run for run in plan.movable if plan.whole is None or not plan.whole.chooses(run.moves.facts.job)]
    gaining = [(run, best, others) for run in alone for others in [_paying(plan, run)] for best in islice(others, 1)]
    for run, (_, best), others in sorted(gaining, key=lambda each: (-each[1][0], each[0].moves.facts.order)):
        _move_if_it_pays(plan, run, chain([best], (move for _, move in others)))


def _move_together(plan: BudgetPlan, whole: WholeNodes) -> None:
    """Move the jobs for which the common choice is another option, or report what prevents the move."""
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
    """The moves that pay, with their gains, the best first. Whether a move must rent is only checked when it may be
    next."""
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
    """Make the best possible move that still pays when the actual cost of the entry into the option is counted."""
    job, assignment, values = run.moves.facts.job, run.assignment, run.moves.values
    allocation, position = job.allocation, assignment.position(job)
    assert allocation is not None
    here = allocation.option
    for candidate in paying:
        rented = plan.placer.must_rent(job, candidate.to)
        if candidate.gain_now(rented=rented) <= 0.0:  # free GPUs may have been taken since
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
    """Report why a move that would pay is not made."""
    feasible = plan.solution.share(plan.solution.key(job)).feasible
    chosen = solution.choice(
        here, assignment.values, assignment.group.weight, assignment.position(job), feasible=feasible
    )
    plan.decided.judge(job, here, chosen.with_note(WouldPay(to, held.facts)))


def _gain(plan: BudgetPlan, job: Job, move: Move, allocation: Allocation, assignment: GroupAssignment) -> Reason:
    left = assignment.position(job).left
    need, worth = plan.solution.deadline_needs.get(job.id), plan.solution.worth(job, assignment)
    pays = None if need is not None and need.at_any_price else Money.of(worth * 3600)
    why = solution.moving(move, allocation.option, left, pays, assignment.group.weight)
    return plan.solution.with_deadline_note(job, why)


def _move(plan: BudgetPlan, job: Job, allocation: Allocation, to: Option, why: Reason) -> bool:
    """Move now if the nodes are ready, otherwise run on while waiting for them. False if the nodes are unavailable."""
    if _stays(plan, job, allocation, to):
        return _resize(plan, job, allocation, to, plan.placer.nodes(to), why)
    claim = plan.claim(job, to)
    return _settle(plan, job, to, claim, next_run(job), (), why)


def _stays(plan: BudgetPlan, job: Job, allocation: Allocation, to: Option) -> bool:
    """Whether the run can reach the option in place. A trainer that reported no group yet may be of another kind by
    now."""
    pods, group = len(allocation.placements), job.current_group
    fewest = fewest_pods(job)
    if fewest == 1 and (group is None or not group.formed):
        fewest = 2
    return in_place(allocation.option, pods, to, plan.placer.nodes(to), fewest)


def _resize(plan: BudgetPlan, job: Job, allocation: Allocation, to: Option, pods: int, why: Reason) -> bool:
    """Resize the run to more or fewer equal pods. The pods with the lowest indexes stay where they are."""
    before = len(allocation.placements)
    if pods < before:
        plan.decided.allocate(job, to, allocation.run, _lowest(plan, job, allocation, pods), why)
        plan.decided.judge(job, to, why)
        return True
    more = replace(to, gpus=to.gpus - allocation.option.gpus)
    claim = plan.placer.claim_more(job, more)
    return _settle(plan, job, to, claim, allocation.run, allocation.placements, why)


def _lowest(plan: BudgetPlan, job: Job, allocation: Allocation, pods: int) -> tuple[Placement, ...]:
    """The placements of the pods with the lowest indexes, which a narrowed run keeps.

    The scheduler chose a node of the run for each pod, so these need not be the allocation's first placements.
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
    """Why a job goes on with fewer GPUs for the benefit of other jobs."""
    move = assignment.drawn_values(job).move(here, to, assignment.position(job), rented=False)
    facts = MakesRoom(to, here, -move.saved_seconds, move.cost)
    return Reason(ReasonCode.MAKES_ROOM, assignment.group.weight * move.saved_seconds, move.cost, facts, here)


# When GPUs that an interactive job does not use are given back.
#
# Held GPUs cost c dollars per second. To give GPUs back has a cost once, when the next cell comes: θ dollars for each
# of the W seconds that the owner waits for other GPUs, and c dollars for each of the B seconds that are billed before
# these GPUs are usable. The time of the next cell is unknown. If the GPUs are held until holding has cost as much as
# giving back,
#
# τ = (θ·W + c·B) / c,
#
# the total is at most twice the best cost with knowledge of the future (ski rental: Karlin, Manasse, Rudolph and
# Sleator 1988). No deterministic rule guarantees a smaller factor, and this rule needs no constant.


def hold_seconds(worth: float, wait: float, billed: float, price: float) -> float:
    """τ: idle seconds after which GPUs are given back. ``worth``: θ, dollars per second of the owner's waiting.

    ``wait``: W, seconds. ``billed``: B, seconds. ``price``: c, dollars per second. Infinite if the GPUs cost nothing.
    """
    return (worth * wait + price * billed) / price if price > 0.0 else inf


# Interactive jobs that hold GPUs while no cell runs. They give the GPUs back if that is cheaper.


def give_back_idle(result: JobTriage, solution: BudgetSolution) -> list[Instant]:
    """Stop running jobs that should give their GPUs back. Returns the instants at which other jobs must give theirs
    back.

    Idle jobs that have to leave their nodes also give their GPUs back at once, because nobody waits for their next run.
    """
    again: list[Instant] = []
    result.stop_running(lambda group: group.sessions, lambda facts: _if_idle(facts, result, again, solution))
    idle_jobs = [job for job, _ in result.leaving if idle_since(job) is not None]
    if idle_jobs:
        result.leaving = [(job, why) for job, why in result.leaving if idle_since(job) is None]
        result.stopped += [(job, reason(ReasonCode.NO_GPU_WANTED, of.NodeGoesIdle())) for job in idle_jobs]
    return again


def _if_idle(facts: JobFacts, result: JobTriage, again: list[Instant], solution: BudgetSolution) -> Reason | None:
    """Why the job gives its GPUs back now; otherwise None, and the time of giving them back is added to ``again``."""
    job, since = facts.job, idle_since(facts.job)
    if since is None:
        return None
    most = seconds_held(facts, solution)
    if most == inf:
        return None
    until = after(since, most)
    if solution.now >= until:
        return reason(ReasonCode.NO_GPU_WANTED, of.GivenBack(seconds_between(since, solution.now), most))
    again.append(until)
    result.unused[job.id] = of.NoCellRuns(since, until)
    return None


def seconds_held(facts: JobFacts, solution: BudgetSolution) -> float:
    """Idle seconds after which the job's GPUs are given back; infinite if they are not.

    If no other job uses its nodes, whole nodes would be given back. Then their whole price is saved, and their start-up
    time is added to the wait.
    """
    job, allocation = facts.job, facts.job.allocation
    told, assignment = job.interactive, solution.assignment(job)
    if told is None or allocation is None:
        return inf
    if told.idle_seconds is not None:
        return told.idle_seconds
    usage = usage_of_run(job)
    restart = DEFAULT_RESTART_SECONDS if assignment is None else assignment.group.menu.table.restart
    if usage is not None and usage.start_seconds is not None:
        restart = usage.start_seconds
    worth = least_worth(job) if assignment is None else solution.worth(job, assignment)
    wait, price = restart, allocation.option.price.dollars_per_second
    pool = solution.inputs.snapshot.pools.get(allocation.option.pool)
    used, own = solution.inputs.holdings.used, by_rental(allocation.placements)
    if pool is not None and all(used.get(rental, 0) <= gpus for rental, gpus in own.items()):
        wait += pool.likely_start_seconds
        price = price if pool.quote is None else pool.quote.price.dollars_per_second * len(own)
    return hold_seconds(worth, wait, wait, price)


_AT_THE_EARLIEST = 1.0
"""Minimum seconds until the next plan. A report may be late, and a phase that is almost over stays almost over until
the next report."""


def judge_running(plan: BudgetPlan) -> None:
    """Make the verdicts on jobs that go on running, and find those that must move or may benefit from moving."""
    for kept in plan.jobs.running:
        assignment = plan.solution.assignments.get(kept.group.key)
        if assignment is None:
            for job in (facts.job for facts in kept.runners.values()):
                why = no_option(plan, job)
                why = replace(why, facts=RunsOn(why.facts))
                plan.decided.judge(job, None if job.allocation is None else job.allocation.option, why)
            continue
        _judge(plan, kept, assignment)
        for moves in _moves(plan, kept.group, assignment):
            if moves.facts.job.id in kept.runners:
                if moves.next_change is not None:  # plan again when another option becomes better
                    later = max(moves.next_change, _AT_THE_EARLIEST)
                    plan.decided.again_at.append(after(plan.snapshot.now, later))
                if moves.forced is not None or moves.candidates:
                    plan.movable.append(MovableRun(assignment, moves))
    _judge_unrecorded(plan)


def _judge_unrecorded(plan: BudgetPlan) -> None:
    """Replace the reason of each job whose run's end cannot be recorded, because such a job does not go on."""
    for facts in (facts for group in plan.solution.groups.values() for facts in group.terminating):
        why, known = not_recorded(facts, plan.snapshot.now), plan.decided.verdicts.get(facts.job.id)
        if why is not None and known is not None:
            plan.decided.verdicts[facts.job.id] = replace(known, reason=why)


def _judge(plan: BudgetPlan, kept: KeptRuns, assignment: GroupAssignment) -> None:
    solution, verdicts, group = plan.solution, plan.decided.verdicts, kept.group
    if not solution.inputs.verdicts:
        allocations = {name: facts.job.allocation for name, facts in kept.runners.items()}
        verdicts |= {name: _goes_on(held.option) for name, held in allocations.items() if held is not None}
        return
    found = solution.inputs.memo.each(
        _runs_on,
        group.runners,
        assignment.values,
        assignment.group.weight,
        assignment.group.work,
        solution.share(group.key).feasible,
        name=(solution.budget.id, group.key),
    )
    verdicts |= found if kept.all else {name: found[name] for name in kept.runners}
    for name in plan.jobs.unused.keys() & kept.runners.keys():
        known = verdicts[name]
        verdicts[name] = replace(known, reason=known.reason.with_note(plan.jobs.unused[name]))
    for job in (facts.job for facts in group.targeted if facts.job.id in kept.runners):
        known = verdicts[job.id]
        why = solution.with_deadline_note(job, known.reason)
        verdicts[job.id] = replace(known, reason=why, target=solution.outlook(job))


def _moves(plan: BudgetPlan, group: JobGroup, assignment: GroupAssignment) -> Iterable[JobMoves]:
    """The moves of the group's running jobs. Jobs without moves are left out."""
    solution, found = plan.solution, dict[JobId, JobMoves | None]()
    market, name = solution.inputs.market, (solution.budget.id, group.key)
    for values, jobs in _by_values(group, assignment):
        found |= solution.inputs.memo.each(job_moves, jobs, values, assignment.group.work, market, name=name)
    for facts in group.targeted:
        own = solution.deadline_values(facts.job) if facts.job.id in group.movable else None
        if own is not None:
            moves = job_moves(facts, own, assignment.group.work, market)
            if moves is not None and solution.deadline_needs[facts.job.id].postpones:
                taken_back = [move for move in moves.candidates if move.to.interruptions is not None]
                moves = replace(moves, candidates=taken_back)
            found[facts.job.id] = moves
    return [moves for moves in found.values() if moves is not None]


def _by_values(group: JobGroup, assignment: GroupAssignment) -> Iterable[tuple[OptionValues, Mapping[JobId, JobFacts]]]:
    """The group's resizable jobs, grouped by the values of their options."""
    if not assignment.mixes:
        return [(assignment.values, group.movable)]
    jobs: dict[OptionValues, dict[JobId, JobFacts]] = {}
    for name, facts in group.movable.items():
        jobs.setdefault(assignment.drawn_values(facts.job), {})[name] = facts
    return jobs.items()


def _goes_on(option: Option) -> Verdict:
    """The verdict on a job that stays, in a plan without verdicts. Rules read nothing of it but the option."""
    why = Reason(ReasonCode.BUDGET_OPTIMAL, 0.0, ZERO, Chosen(option, 0.0, ZERO, None, False))
    return Verdict(option, why, None)


def _runs_on(facts: JobFacts, values: OptionValues, weight: float, work: float, feasible: bool) -> Verdict:
    """The verdict on a job that stays where it is."""
    job = facts.job
    assert job.allocation is not None
    option = job.allocation.option
    why = choice(option, values, weight, job_position(job, work), feasible=feasible)
    return verdict(job, option, why)
