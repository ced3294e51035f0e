"""The effect of one more node of a full pool: the plan is made again for a pool that may have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from charterer.cli.explain.explanation import Explanation
from charterer.domain.ids import JobId, PoolId
from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.domain.plan import Allocate, Limit, Plan, ReasonCode
from charterer.domain.reasons.phrases import name
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.policy.explain.alternatives import Rank
from charterer.policy.planner import plan
from charterer.sentences import count, names


@dataclass(frozen=True, slots=True)
class MoreNodes:
    """The effect of ``nodes`` more nodes of the pool.

    ``option``: the job's option then; None if it is the one of today. ``others``: names of other jobs that would start.
    """

    pool: PoolId
    nodes: int
    option: Option | None
    others: Sequence[str]


def more_nodes(explanation: Explanation) -> Sequence[MoreNodes]:
    """For each full pool where the job waits for something better: one node more, and as many as its option needs."""
    report, job, options = explanation.report, explanation.job, explanation.options
    if options is None:
        return ()
    waits = job.allocation is None
    wanted = [row.option for row in options.rows if row.rank is Rank.BETTER or (waits and row.rank is Rank.CHOSEN)]
    found = []
    for pool, verdict in sorted(report.plan.pools.items()):
        pods = [report.snapshot.pools[pool].nodes(option.takes) for option in wanted if option.pool == pool]
        if not pods or not verdict.short or verdict.limit is Limit.OPERATOR:
            continue
        now = _given(report.plan, report.snapshot)
        for nodes in sorted({1, max(pods)}):
            then = _given(plan(_with(report.snapshot, pool, nodes)), report.snapshot)
            option = then.get(job.id)
            changed = option if option != now.get(job.id) else None
            if nodes == 1 or changed is not None:
                others = [report.snapshot.jobs[other] for other in then if other not in now and other != job.id]
                found.append(MoreNodes(pool, nodes, changed, _names(others)))
            if changed is not None:
                break
    return found


def in_words(more: MoreNodes, job: Job) -> str:
    """A sentence."""
    nodes = "one more node" if more.nodes == 1 else f"{more.nodes} more nodes"
    text = f"With {nodes} of {more.pool}, "
    if more.option is None:
        text += "nothing would change for it now"
    else:
        text += f"it would {'start' if job.allocation is None else 'go on'} on {name(more.option)}"
    if more.others:
        text += f"; {count(len(more.others), 'other job')} would start ({names(more.others)})"
    return f"{text}."


def _with(snapshot: Snapshot, name: PoolId, nodes: int) -> Snapshot:
    """The snapshot, but the cloud and ``maxNodes`` allow the pool ``nodes`` more than it has."""
    pool = snapshot.pools[name]
    live = sum(rental.pool == name and rental.phase is not RentalPhase.ENDED for rental in snapshot.rentals.values())
    larger = replace(pool, max_nodes=live + nodes, cooled=(), reached=None)
    return replace(snapshot, pools={**snapshot.pools, name: larger})


def _given(planned: Plan, snapshot: Snapshot) -> Mapping[JobId, Option]:
    """The options of jobs that have GPUs, or get them now or as soon as nodes are ready."""
    found = {job.id: job.allocation.option for job in snapshot.jobs.values() if job.allocation is not None}
    for command in (*planned.commands, *planned.observed_commands):
        if isinstance(command, Allocate):
            if command.allocation is None:
                found.pop(command.job, None)
            else:
                found[command.job] = command.allocation.option
    for job, verdict in planned.jobs.items():
        if verdict.option is not None and verdict.reason.code is ReasonCode.WAITING_FOR_NODE:
            found[job] = verdict.option
    return found


def _names(jobs: Iterable[Job]) -> Sequence[str]:
    return sorted(f"{job.namespace}/{job.name}" for job in jobs)
