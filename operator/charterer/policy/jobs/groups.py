"""Jobs of one budget that choose alike, and all that follows from them without asking the clock or anybody else.

Of ten thousand jobs one changes at a time. Its cohort is then summed up anew, from the beginning and in order, so that
a sum of floats never depends on what happened before; all others stay the same object, and with them what was found
out about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import BudgetId, ClassId, JobId, RentalId
from charterer.domain.job import Finish, Job, ResizePolicy
from charterer.domain.plan import Reason
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.policy.budgets.demand import GroupKey
from charterer.policy.identity_diff import identity_diff
from charterer.policy.jobs.committed_cost import ClassInProgress
from charterer.policy.jobs.job_facts import JobFacts, job_facts
from charterer.policy.options.menu import Menus


@dataclass(frozen=True, slots=True, eq=False)
class JobGroup:
    """``members`` in order of creation; ``created``: when they were. ``active``: how many want to run; ``known``: how
    many of those say what work they have left, ``left`` in all.

    Without GPUs: ``waiting``, and ``idle`` ones that do not want any, and why. With GPUs: ``runners``, and ``unwanted``
    ones that should not run, and why. Of the runners: ``movable`` are those for which a move may pay; ``late``: those
    that are not fully running yet; ``capped``: those that may only cost so much. ``targeted``: those of the active that
    are to end by some time.

    ``rentals``: of those with GPUs; ``working``: of those that have not finished. ``micros``: micro-dollars an hour
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
    runners: tuple[JobFacts, ...]
    unwanted: Sequence[tuple[JobFacts, Reason]]
    movable: Sequence[JobFacts]
    late: Sequence[JobFacts]
    capped: Sequence[JobFacts]
    targeted: Sequence[JobFacts]
    rentals: frozenset[RentalId]
    working: frozenset[RentalId]
    micros: int
    grace: int
    checking: bool
    tried: Sequence[JobFacts]
    under_way: Mapping[ClassId, ClassInProgress]
    finished: Sequence[tuple[JobFacts, Finish]]


def job_group(members: Iterable[JobFacts]) -> JobGroup:
    """The cohort of jobs that have one key; at least one."""
    everyone = tuple(sorted(members, key=lambda one: one.order))
    active = [one for one in everyone if one.refused is None]
    left = [one.job.remaining for one in active if one.job.remaining]
    runners = tuple([one for one in active if one.since is not None])
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
        runners=runners,
        unwanted=unwanted,
        movable=[one for one in runners if one.settled and one.job.resize is not ResizePolicy.NEVER],
        late=[one for one in runners if one.ready_by is not None],
        capped=[one for one in runners if one.job.max_cost is not None],
        targeted=[one for one in active if one.job.target_completion is not None],
        rentals=frozenset().union(*[one.rentals for one in runners], *[one.rentals for one, _ in unwanted]),
        working=frozenset().union(*[one.rentals for one in unfinished]),
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


class JobIndex:
    """The jobs of one snapshot, each read: ``by_id``; and in ``cohorts`` by budget, in order of their first jobs.

    What is the same as in the snapshot before is taken over.
    """

    def __init__(self, snapshot: Snapshot, menus: Menus, before: JobIndex | None = None) -> None:
        self._classes: frozenset[ClassId] = frozenset(snapshot.profiles)
        if before is not None and before._classes != self._classes:
            before = None
        known = {} if before is None else before.by_id
        jobs: Mapping[JobId, Job] = {} if before is None else before._jobs
        self._jobs: Mapping[JobId, Job] = snapshot.jobs
        changed, gone = identity_diff(snapshot.jobs, jobs)
        read_now = {name: job_facts(snapshot.jobs[name], menus) for name in changed}
        by_id = {**known, **read_now}
        for name in gone:
            del by_id[name]
        self.by_id: Mapping[JobId, JobFacts] = by_id
        self._cohorts: dict[tuple[BudgetId | None, GroupKey], JobGroup] = (
            {} if before is None else dict(before._cohorts)
        )
        self._regather([known[name] for name in (*gone, *read_now) if name in known], read_now.values())
        found: dict[BudgetId | None, list[JobGroup]] = {}
        for (budget, _), cohort in self._cohorts.items():
            found.setdefault(budget, []).append(cohort)
        self.cohorts: Mapping[BudgetId | None, Mapping[GroupKey, JobGroup]] = {
            budget: {one.key: one for one in sorted(mine, key=lambda one: one.members[0].order)}
            for budget, mine in found.items()
        }

    def _regather(self, old: Iterable[JobFacts], new: Iterable[JobFacts]) -> None:
        """Take readings out of their cohorts and put others into theirs."""
        without: dict[tuple[BudgetId | None, GroupKey], list[JobFacts]] = {}
        leaving = set(old)
        for one in (*leaving, *new):
            place = one.job.budget, one.key
            if place not in without:
                cohort = self._cohorts.pop(place, None)
                without[place] = [] if cohort is None else [has for has in cohort.members if has not in leaving]
        for one in new:
            without[one.job.budget, one.key].append(one)
        self._cohorts |= {place: job_group(members) for place, members in without.items() if members}
