"""Jobs of one budget that choose alike, and what follows from them without the clock or the other jobs.

A group is always summed up from the beginning and in order of creation, so that no sum of floats depends on what
happened before.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import BudgetId, ClassId, JobId, NodeName, RentalId
from charterer.domain.job import Job, ResizePolicy
from charterer.domain.jobs.finish import Finish
from charterer.domain.nodes.demands import NodeOffers
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.time import Instant
from charterer.incremental import Memo
from charterer.policy.jobs.committed_cost import ClassInProgress
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.jobs.job_facts import JobFacts, job_facts, told_to_stop


@dataclass(frozen=True, slots=True, eq=False)
class JobGroup:
    """Jobs of one budget and key: ``members`` in order of creation, at the times ``created``.

    ``active``: the number of jobs that want to run; ``known`` of them say what work they have left, ``left`` in all
    (seconds of the reference option).

    Jobs without GPUs are ``waiting``, some of them ``backing_off`` after a run that failed, or ``idle`` with the reason
    why they want none. Jobs with GPUs are ``runners``, or ``unwanted`` with the reason why they should not run. Among
    the runners, a move may pay for the ``movable``, the ``late`` have pods that do not run yet, something holds the
    ``slowed`` up, the ``capped`` have a maximum cost, and the ``unchanging`` are never resized and have no maximum
    cost, so that they cost what they report. The first of the runners is stopped at ``stalls_at``, if it does not
    advance before. The ``targeted`` are active and have a target completion time. The ``terminating`` have pods that
    are to end or runs that have ended and are not on record.

    ``rentals``: of jobs with GPUs; ``working``: rentals of unfinished jobs; ``nodes``: those with live pods of any job.
    ``micros``: micro-dollars an hour of the runners' GPUs. ``grace``: the longest grace of an unfinished job, seconds.
    ``checking``: when the newest job was created whose template is being checked. ``tried``: jobs that ran on a width
    never measured before.
    ``untrusted``: whether an allocation is not believed. ``under_way``: unfinished jobs by the class in whose
    statistics they count; ``finished``: the others. ``not_come``: the idle jobs that never had GPUs, and interactive
    ones that ask for none. ``sessions``: the runners that are interactive.
    """

    key: GroupKey
    members: tuple[JobFacts, ...]
    created: Sequence[Instant]
    active: int
    known: int
    left: float
    waiting: Sequence[Job]
    backing_off: Sequence[JobFacts]
    terminating: Sequence[JobFacts]
    idle: Sequence[tuple[Job, Reason]]
    not_come: frozenset[JobId]
    sessions: Sequence[JobFacts]
    runners: Mapping[JobId, JobFacts]
    unwanted: Sequence[tuple[JobFacts, Reason]]
    movable: Mapping[JobId, JobFacts]
    late: Sequence[JobFacts]
    slowed: Sequence[JobFacts]
    stalls_at: Instant | None
    capped: Sequence[JobFacts]
    unchanging: Sequence[JobFacts]
    targeted: Sequence[JobFacts]
    rentals: frozenset[RentalId]
    working: frozenset[RentalId]
    nodes: tuple[NodeName, ...]
    micros: int
    grace: int
    checking: Instant | None
    tried: Sequence[JobFacts]
    untrusted: bool
    under_way: Mapping[ClassId, ClassInProgress]
    finished: Sequence[tuple[JobFacts, Finish]]


def job_group(everyone: tuple[JobFacts, ...]) -> JobGroup:
    """The group of jobs that have one key: at least one, in order of creation."""
    active = [facts for facts in everyone if facts.refused is None]
    left = [facts.job.remaining for facts in active if facts.job.remaining]
    runners = [facts for facts in active if facts.since is not None]
    refused = [(facts, facts.refused) for facts in everyone if facts.refused is not None]
    unwanted = [(facts, why) for facts, why in refused if facts.since is not None]
    idle = [(facts.job, why) for facts, why in refused if facts.since is None]
    unfinished = [facts for facts in everyone if facts.job.finish is None]
    return JobGroup(
        key=everyone[0].key,
        members=everyone,
        created=[facts.order[0] for facts in everyone],
        active=len(active),
        known=len(left),
        left=sum(left),
        waiting=[facts.job for facts in active if facts.since is None],
        backing_off=[facts for facts in active if facts.since is None and facts.backs_off_until is not None],
        terminating=[facts for facts in everyone if facts.terminating or facts.unrecorded],
        idle=idle,
        not_come=frozenset([job.id for job, why in idle if not job.last_run or why.code is ReasonCode.NO_GPU_WANTED]),
        sessions=[facts for facts in runners if facts.job.interactive is not None],
        runners={facts.job.id: facts for facts in runners},
        unwanted=unwanted,
        movable={
            facts.job.id: facts for facts in runners if facts.settled and facts.job.resize is not ResizePolicy.NEVER
        },
        late=[facts for facts in runners if facts.ready_by is not None],
        slowed=[facts for facts in runners if facts.job.bottlenecks],
        stalls_at=min([facts.stalls_at for facts in runners if facts.stalls_at is not None], default=None),
        capped=[facts for facts in runners if facts.job.max_cost is not None],
        unchanging=[
            facts
            for facts in runners
            if facts.job.resize is ResizePolicy.NEVER and facts.job.max_cost is None and facts.reported is not None
        ],
        targeted=[facts for facts in active if facts.job.target_completion is not None],
        rentals=frozenset().union(*[facts.rentals for facts in runners], *[facts.rentals for facts, _ in unwanted]),
        working=frozenset().union(*[facts.rentals for facts in unfinished]),
        nodes=tuple(dict.fromkeys([node for facts in everyone for node in facts.nodes])),
        micros=sum([facts.micros for facts in runners]),
        grace=max([facts.job.grace_seconds for facts in unfinished], default=0),
        checking=max([facts.order[0] for facts in everyone if facts.job.checking], default=None),
        tried=[facts for facts in everyone if facts.trials],
        untrusted=any([facts.job.doubts for facts in everyone]),
        under_way=_by_statistics(unfinished),
        finished=[(facts, finish) for facts, _ in refused if (finish := facts.job.finish) is not None],
    )


def stop_some(group: JobGroup, stopped: Container[JobId], classes: frozenset[ClassId], offers: NodeOffers) -> JobGroup:
    """The group as it is when those of its jobs have been told to stop and wait for other GPUs.

    ``classes``: those that have a profile. ``offers``: what the nodes of pools would be.
    """

    if not any(facts.job.id in stopped for facts in group.members):
        return group

    def told(facts: JobFacts) -> JobFacts:
        trying = frozenset([facts.job.id]) if facts.key[1].tries else frozenset()
        return job_facts(told_to_stop(facts.job), classes, trying, offers=offers) if facts.job.id in stopped else facts

    return job_group(tuple([told(facts) for facts in group.members]))


def _by_statistics(unfinished: Iterable[JobFacts]) -> Mapping[ClassId, ClassInProgress]:
    by_class: dict[ClassId, list[JobFacts]] = {}
    for facts in unfinished:
        by_class.setdefault(facts.statistics, []).append(facts)
    return {class_id: ClassInProgress(alike) for class_id, alike in by_class.items()}


JobGroups = Mapping[BudgetId | None, Mapping[GroupKey, JobGroup]]
"""By budget (None: no budget selects the namespace) and key, in order of their first jobs."""


def job_groups(facts: Mapping[JobId, JobFacts], memo: Memo) -> JobGroups:
    """All jobs of a snapshot in their groups."""
    found: dict[BudgetId | None, dict[GroupKey, JobGroup]] = {}
    for (budget, key), group in memo.each(job_group, memo.grouped(_budget_and_key, _order, facts)).items():
        found.setdefault(budget, {})[key] = group
    return found


def _budget_and_key(facts: JobFacts) -> tuple[BudgetId | None, GroupKey]:
    return facts.job.budget, facts.key


def _order(facts: JobFacts) -> tuple[Instant, JobId]:
    return facts.order
