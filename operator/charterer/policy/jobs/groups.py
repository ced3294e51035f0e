"""Jobs of one budget that choose alike, and what follows from them without the clock or the other jobs.

A group is always summed up from the beginning and in order of creation, so that no sum of floats depends on what
happened before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import BudgetId, ClassId, JobId, NodeName, RentalId
from charterer.domain.job import Finish, Job, ResizePolicy
from charterer.domain.plan import Reason
from charterer.domain.time import Instant
from charterer.incremental import Memo
from charterer.policy.jobs.committed_cost import ClassInProgress
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.jobs.job_facts import JobFacts


@dataclass(frozen=True, slots=True, eq=False)
class JobGroup:
    """``members`` in order of creation; ``created``: when they were. ``active``: how many want to run; ``known``: how
    many of those say what work they have left, ``left`` in all.

    Without GPUs: ``waiting``, and ``idle`` ones that do not want any, and why. With GPUs: ``runners``, and ``unwanted``
    ones that should not run, and why. Of the runners: ``movable`` are those for which a move may pay; ``late``: those
    that are not fully running yet; ``capped``: those that may only cost so much. ``targeted``: those of the active that
    are to end by some time.

    ``rentals``: of those with GPUs; ``working``: of those that have not finished; ``nodes``:
    on which any has live pods. ``micros``: micro-dollars an hour
    that the runners' GPUs cost. ``grace``: the longest that an unfinished one is given to end. ``checking``: whether a
    template is being checked. ``tried``: those that ran on a width that had never been measured. ``under_way``: the
    unfinished ones by the class whose statistics they count in; ``finished``: the others.
    """

    key: GroupKey
    members: tuple[JobFacts, ...]
    created: Sequence[Instant]
    active: int
    known: int
    left: float
    waiting: Sequence[Job]
    idle: Sequence[tuple[Job, Reason]]
    runners: Mapping[JobId, JobFacts]
    unwanted: Sequence[tuple[JobFacts, Reason]]
    movable: Mapping[JobId, JobFacts]
    late: Sequence[JobFacts]
    capped: Sequence[JobFacts]
    targeted: Sequence[JobFacts]
    rentals: frozenset[RentalId]
    working: frozenset[RentalId]
    nodes: tuple[NodeName, ...]
    micros: int
    grace: int
    checking: bool
    tried: Sequence[JobFacts]
    under_way: Mapping[ClassId, ClassInProgress]
    finished: Sequence[tuple[JobFacts, Finish]]


def job_group(everyone: tuple[JobFacts, ...]) -> JobGroup:
    """The group of jobs that have one key: at least one, in order of creation."""
    active = [one for one in everyone if one.refused is None]
    left = [one.job.remaining for one in active if one.job.remaining]
    runners = [one for one in active if one.since is not None]
    refused = [(one, one.refused) for one in everyone if one.refused is not None]
    unwanted = [(one, why) for one, why in refused if one.since is not None]
    unfinished = [one for one in everyone if one.job.finish is None]
    return JobGroup(
        key=everyone[0].key,
        members=everyone,
        created=[one.order[0] for one in everyone],
        active=len(active),
        known=len(left),
        left=sum(left),
        waiting=[one.job for one in active if one.since is None],
        idle=[(one.job, why) for one, why in refused if one.since is None],
        runners={one.job.id: one for one in runners},
        unwanted=unwanted,
        movable={one.job.id: one for one in runners if one.settled and one.job.resize is not ResizePolicy.NEVER},
        late=[one for one in runners if one.ready_by is not None],
        capped=[one for one in runners if one.job.max_cost is not None],
        targeted=[one for one in active if one.job.target_completion is not None],
        rentals=frozenset().union(*[one.rentals for one in runners], *[one.rentals for one, _ in unwanted]),
        working=frozenset().union(*[one.rentals for one in unfinished]),
        nodes=tuple(dict.fromkeys([node for one in everyone for node in one.nodes])),
        micros=sum([one.micros for one in runners]),
        grace=max([one.job.grace_seconds for one in unfinished], default=0),
        checking=any([one.job.checking for one in everyone]),
        tried=[one for one in everyone if one.trials],
        under_way=_by_statistics(unfinished),
        finished=[(one, finish) for one, _ in refused if (finish := one.job.finish) is not None],
    )


def _by_statistics(unfinished: Iterable[JobFacts]) -> Mapping[ClassId, ClassInProgress]:
    by_class: dict[ClassId, list[JobFacts]] = {}
    for one in unfinished:
        by_class.setdefault(one.statistics, []).append(one)
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
