"""Jobs that wait for GPUs of a full pool that are expected to come free, instead of taking what is left.

Who gets the room that there is now is decided before (``shortage``). Each of the other jobs, in Smith's order, compares
what is left with what comes free. On option o it comes to its end for C_o dollars: money, time, and what its room is
worth to those that come (``room_prices``). The GPUs of o come free in t_o seconds, in which nothing is paid for it. It
waits for the option with the least C_o + w·θ·t_o, if

    w·θ·(t_o + waited so far) < C_n − C_o          n: the best of what is left

Estimates move, and others may come first. So all that a job has waited counts: waiting never costs more than it was to
save, and in the end the job takes what is left. A job that may be moved loses less by what is left: t_o/a_n of
C_n − C_o until it moves, and the move.

Each GPU is counted on by one job, and from its end on by the next. No wait is kept: each plan judges it anew. A job
with a target does not wait where that makes it late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from charterer.domain.ids import JobId, PoolId
from charterer.policy.actions.admission.room_prices import room_prices
from charterer.policy.actions.admission.room_to_come import HeldRoom, RoomToCome
from charterer.policy.actions.admission.room_values import LEAST, RoomCandidate
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.actions.room_allotment import RoomWait
from charterer.policy.jobs.job_facts import waited_seconds
from charterer.policy.jobs.run_ends import seconds_left
from charterer.policy.nodes.pool_quota import PoolRoom
from charterer.policy.options.option_value import Projection


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A job that is given no room now. ``worth``: dollars of a second of it; ``waited``: seconds so far; ``target``:
    seconds until its target, infinite without one.

    ``ends``: its options, with what their room is worth to others; ``on_nodes_left``: the same without a start-up;
    ``moves``: dollars, time included, of a move from each of them, infinite where it may not be moved.
    """

    worth: float
    waited: float
    target: float
    ends: Sequence[Projection]
    on_nodes_left: Sequence[Projection]
    moves: Sequence[float]


def waits_for_room(
    plan: BudgetPlan,
    rooms: Mapping[PoolId, PoolRoom],
    starts: Iterable[Projection],
    others: Sequence[tuple[RoomCandidate, Sequence[float]]],
) -> Mapping[JobId, RoomWait]:
    """Which jobs wait, and for what. ``starts``: what is given now. ``others``: jobs that are given nothing, in Smith's
    order, each with what a move from each of its options costs.
    """
    if not others:
        return {}
    room, jobs = RoomToCome(rooms, _held(plan, rooms)), _UnplacedJobs(plan)
    for start in starts:
        room.take(start.option, start.seconds)
    found: dict[JobId, RoomWait] = {}
    for candidate, moves in others:
        wait = choose(jobs.unplaced(candidate, moves), room)
        if wait is not None:
            found[candidate.job.id] = wait
    return found


def choose(job: Unplaced, room: RoomToCome) -> RoomWait | None:
    """The wait of the job, None where it had better take what is left; either is taken off the room."""
    seconds = [room.wait(end.option) for end in job.ends]
    wait = _best_wait(job, seconds)
    now = _best_now(job, seconds, wait)
    if wait is not None and now is not None:
        wait = _if_it_pays(job, wait, now)
    if wait is not None:
        room.take(wait.option, wait.end.seconds - wait.seconds)
    elif now is not None:
        room.take(now.end.option, now.end.seconds)
    return wait


@dataclass(frozen=True, slots=True)
class _Left:
    """What is left of the room: ``end`` on it, and what it ``costs`` with the move to what the job would wait for."""

    end: Projection
    costs: float


def _best_wait(job: Unplaced, seconds: Sequence[float]) -> RoomWait | None:
    """The option that is best to wait for, if any is in sight. ``seconds``: until the GPUs of each are free."""
    in_sight = [
        (end.total_cost + job.worth * wait, wait, end)
        for end, wait in zip(job.on_nodes_left, seconds, strict=True)
        if 0.0 < wait < inf
    ]
    if not in_sight:
        return None
    _, wait, end = min(in_sight, key=lambda entry: entry[0])
    return RoomWait(wait, end.on_nodes_left(wait, 0.0, job.worth))


def _best_now(job: Unplaced, seconds: Sequence[float], wait: RoomWait | None) -> _Left | None:
    """The best of what is left; None where nothing is."""
    left = [
        _Left(end, _cost_of_beginning(job, end, move, wait))
        for end, move, free_in in zip(job.ends, job.moves, seconds, strict=True)
        if free_in <= 0.0
    ]
    return min(left, key=lambda one: one.costs, default=None)


def _cost_of_beginning(job: Unplaced, end: Projection, move: float, wait: RoomWait | None) -> float:
    """To stay there for life, or until what the job would wait for comes free and it moves there."""
    if wait is None:
        return end.total_cost
    there = wait.end.total_cost - job.worth * wait.seconds
    lost = end.total_cost - there
    return there + min(lost, wait.seconds / max(end.seconds, LEAST) * lost + move)


def _if_it_pays(job: Unplaced, wait: RoomWait, now: _Left) -> RoomWait | None:
    if wait.end.seconds > job.target >= now.end.seconds:
        return None
    spare = now.costs - wait.end.total_cost - job.worth * job.waited
    if spare <= 0.0:
        return None
    # a second that the wait is longer than expected counts twice: it has passed, and another one is expected
    until = wait.seconds + spare / job.worth / 2.0 if job.worth else inf
    return replace(wait, instead=now.end, until=until)


class _UnplacedJobs:
    """One budget's jobs as they compare options. Those that share a list of options share what follows from it."""

    def __init__(self, plan: BudgetPlan) -> None:
        self._plan = plan
        self._prices = room_prices(plan.solution)
        self._known: dict[tuple[int, float], tuple[Sequence[Projection], Sequence[Projection]]] = {}

    def unplaced(self, one: RoomCandidate, moves: Sequence[float]) -> Unplaced:
        """The job with what follows from its options."""
        need = self._plan.solution.deadline_needs.get(one.job.id)
        ends, on_nodes_left = self._ends(one.projections, one.worth)
        waited = waited_seconds(one.job, self._plan.snapshot.now)
        return Unplaced(one.worth, waited, inf if need is None else need.left, ends, on_nodes_left, moves)

    def _ends(self, options: Sequence[Projection], worth: float) -> tuple[Sequence[Projection], Sequence[Projection]]:
        key = id(options), worth
        if key not in self._known:
            ends = [self._charged(end) for end in options]
            start_up = self._plan.placer.start_up
            self._known[key] = ends, [end.on_nodes_left(0.0, start_up(end.option), worth) for end in ends]
        return self._known[key]

    def _charged(self, end: Projection) -> Projection:
        price = self._prices.get(end.option.pool, 0.0)
        return replace(end, total_cost=end.total_cost + price * end.option.takes * end.seconds) if price else end


def _held(plan: BudgetPlan, rooms: Mapping[PoolId, PoolRoom]) -> Iterable[HeldRoom]:
    """What runs hold of the room. GPUs of strangers and of runs that were told to stop come free at a time that nobody
    knows.
    """
    pool_of = {rental: pool for pool, room in rooms.items() for rental in room.free}
    for kept in plan.jobs.running:
        assignment = plan.solution.assignments.get(kept.group.key)
        for facts in () if assignment is None else kept.runners.values():
            allocation = facts.job.allocation
            if assignment is None or allocation is None:
                continue
            group = assignment.group
            seconds = seconds_left(facts.job, group.work, sized=group.sized, now=plan.snapshot.now)
            for place in allocation.placements:
                if place.rental in pool_of:
                    yield HeldRoom(pool_of[place.rental], place.rental, place.takes, seconds)
