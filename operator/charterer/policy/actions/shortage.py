"""proto"""
from __future__ import annotations
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.policy.actions.plan_builder import PlanBuilder
from charterer.policy.actions.resize_limits import MoveGate
from charterer.policy.actions.triage import KeptRuns
from charterer.policy.nodes.holdings import by_rental
from charterer.policy.options.option_value import Completion
from charterer.policy.solve.allocation_program import Answer, Claimant, PoolNodes, Way, fits, share_out

MOVES = True
QUEUE = True
STATS = []

@dataclass(frozen=True, slots=True)
class Allotment:
    starts: Mapping[JobId, Option]
    moves: Mapping[JobId, Option]
    answer: Answer

@dataclass
class _Candidate:
    job: Job
    ends: Sequence[Completion]   # best first; for runners the first is staying
    worth: float
    held: Mapping[RentalId, int]
    runs: bool
    own: float = 0.0

def allot(draft: PlanBuilder, waiting: Sequence[Job], wanted: Mapping[JobId, Sequence[Completion]], running: Iterable[KeptRuns]) -> Allotment | None:
    solution = draft.solution
    if not waiting or not solution.feasible:
        return None
    pools = {e.option.pool for job in waiting for e in wanted[job.id]}
    need = {p: 0 for p in pools}
    for job in waiting:
        for p in pools:
            need[p] += max([e.option.gpus for e in wanted[job.id] if e.option.pool == p], default=0)
    rooms = {}; index = {}
    for p in sorted(pools):
        names, free, size = draft.nodes_of(p, need[p])
        rooms[p] = (names, free, size)
        index[p] = {n: i for i, n in enumerate(names)}
    plain = {p: PoolNodes(size, free) for p, (names, free, size) in rooms.items()}
    if fits([Way(wanted[j.id][0].option.pool, wanted[j.id][0].option.gpus, 1.0) for j in waiting], plain):
        return None
    cands = []
    for job in waiting:
        share = solution.share(job)
        values = solution.deadline_values(job) or share.drawn_values(job)
        cands.append(_Candidate(job, wanted[job.id], values.worth, {}, False))
    gate = MoveGate(solution.budget, draft.snapshot.now)
    runners = []
    for kept in running:
        share = solution.shares.get(kept.group.key)
        if share is None: continue
        for facts in kept.runners.values():
            job = facts.job
            if job.allocation is None or not job.remaining: continue
            values = solution.deadline_values(job) or share.drawn_values(job)
            pos = share.position(job); here = job.allocation.option
            stay = values.staying(here, pos)
            movable = facts.job.id in kept.group.movable and gate.held(job) is None and values.menu.known
            if here.pool not in rooms: continue
            held = by_rental(job.allocation.placements)
            if not all(r in index[here.pool] for r in held): continue
            ends = [stay]
            if movable and MOVES:
                for e in values.entering(pos):
                    if e.option.pool in rooms and e.option.gpus < here.gpus:
                        m = values.move(here, e.option, pos, rented=False)
                        ends.append(Completion(e.option, stay.seconds - m.saved_seconds, stay.dollars + m.cost.dollars, 0.0, e.room))
            runners.append(_Candidate(job, ends, values.worth, held, True))
    # queue prices
    queue = {p: [] for p in pools}
    for c in cands:
        best = c.ends[0]
        queue[best.option.pool].append((c.worth / (best.option.gpus * best.seconds), c.worth))
    gpus = {p: max(sum(size for _ in names), 1) for p, (names, free, size) in rooms.items()}
    for p in queue: queue[p].sort()
    def room(c, e):
        p = e.option.pool
        if not QUEUE: return 0.0
        mine = c.worth / (c.ends[0].option.gpus * c.ends[0].seconds)
        behind = sum(w for i, w in queue[p] if i < mine)
        return behind / gpus[p] * e.option.gpus
    claimants = []
    nodes = {p: list(free) for p, (names, free, size) in rooms.items()}
    alls = []
    order = sorted(cands, key=lambda c: (-c.job.weight / c.ends[0].option.price.micros_per_hour, c.job.created, c.job.id))
    for c in [*order, *[r for r in runners if len(r.ends) > 1]]:
        v = min(c.worth * e.seconds + e.dollars + max(room(c, e) * e.seconds, e.room) for e in c.ends)
        ways = tuple(Way(e.option.pool, e.option.gpus, (v - e.dollars) / e.seconds) for e in c.ends)
        held = {}
        if c.runs:
            p = c.ends[0].option.pool
            held = {index[p][r]: g for r, g in c.held.items()}
            for i, g in held.items(): nodes[p][i] += g
        claimants.append(Claimant(ways, 0 if c.runs else None, held)); alls.append(c)
    answer = share_out(claimants, {p: PoolNodes(rooms[p][2], nodes[p]) for p in pools}, 0)
    STATS.append((len(claimants), answer.gap, answer.value / answer.first - 1 if answer.first > 0 else 0))
    starts, moves = {}, {}
    for c, at in zip(alls, answer.chosen, strict=True):
        if at is None: continue
        if c.runs:
            if at: moves[c.job.id] = c.ends[at].option
        else:
            starts[c.job.id] = c.ends[at].option
    return Allotment(starts, moves, answer)
