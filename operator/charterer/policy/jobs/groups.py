"""Jobs of one budget that choose alike, and what follows from them without the clock or the other jobs.

A group is always summed up from the beginning and in order of creation, so that no sum of floats depends on what
happened before.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf

from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId, ClassId, JobId, NodeName, RentalId
from charterer.domain.job import Finish, Job, ResizePolicy
from charterer.domain.money import ZERO, Money
from charterer.domain.node_demands import NodeOffers
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.profile import Profile
from charterer.domain.reasons.jobs import Forbidden, VariantNotMeasured
from charterer.domain.time import Instant, after, seconds_between
from charterer.incremental import Memo
from charterer.policy.jobs.job_facts import GroupKey, JobFacts, job_facts, job_position, must_move, told_to_stop
from charterer.policy.options.market import Market
from charterer.policy.options.option_value import OptionValues
from charterer.policy.options.speeds import has_curve

# Past and future cost of the jobs under way, at any time.
#
# What they have cost includes runs that were told to stop and still hold their GPUs. A job that reports says what
# it still costs. A silent one is taken to cost what was predicted of it times its class's κ: what that leaves falls
# as it spends, until nothing is left. All of that is at the price that is paid. A job on nodes that are paid for
# whether it uses them or not leaves nothing to be paid (``pacing`` counts them).


_UNIT = 1e6 * 3600e6
"""Micro-dollars an hour times microseconds in a dollar."""


class CostMeter:
    """Dollars that jobs' GPUs have cost up to any instant.

    Whole numbers are summed, price times time, so that nothing depends on when the sum was made.
    """

    __slots__ = ("_begun", "_last", "_price", "_recorded", "_runs")

    def __init__(self, jobs: Iterable[JobFacts]) -> None:
        self._recorded = 0.0
        self._runs: list[tuple[int, Instant]] = []
        for facts in jobs:
            self._recorded += facts.recorded_cost
            self._runs += facts.meters
        self._price = sum([micros for micros, _ in self._runs])
        self._begun = sum([micros * since for micros, since in self._runs])
        self._last = max([since for _, since in self._runs], default=Instant(0))

    def at(self, now: Instant) -> float:
        """Dollars up to ``now``; a run that begins later (clocks differ) has cost nothing."""
        if now >= self._last:
            return self._recorded + (self._price * now - self._begun) / _UNIT
        return self._recorded + sum([micros * max(now - since, 0) for micros, since in self._runs]) / _UNIT


@dataclass(frozen=True, slots=True)
class CommittedCost:
    """Sums over unfinished jobs, in dollars.

    ``jobs``: how many have a prediction, which means that they have been started. ``predicted``: of those.
    ``actual``: what they have cost and will, whether they hold GPUs at the moment or wait for others. ``left``: what
    jobs that hold GPUs will still cost beside what is paid anyway, with or without a prediction; ``squares``: Σ left²
    of those among them that have not reported yet, so that it is uncertain.
    """

    jobs: int = 0
    predicted: float = 0.0
    actual: float = 0.0
    left: float = 0.0
    squares: float = 0.0

    def __add__(self, other: CommittedCost) -> CommittedCost:
        return CommittedCost(
            self.jobs + other.jobs,
            self.predicted + other.predicted,
            self.actual + other.actual,
            self.left + other.left,
            self.squares + other.squares,
        )


NOTHING = CommittedCost()


class ClassInProgress:
    """Unfinished jobs of one class. ``started``: whether any holds GPUs or did."""

    __slots__ = ("_counted", "_jobs", "_predicted", "_reported", "_silent", "_spent", "started")

    def __init__(self, jobs: Iterable[JobFacts]) -> None:
        everyone = list(jobs)
        counted = [facts for facts in everyone if facts.predicted > 0.0]
        self.started = bool(counted) or any([facts.since is not None for facts in everyone])
        self._spent = CostMeter(everyone)
        self._counted = CostMeter(counted)
        self._jobs = len(counted)
        self._predicted = sum([facts.predicted for facts in counted])
        self._reported = [
            (facts.reported, facts.predicted > 0.0, _is_billed(facts))
            for facts in everyone
            if facts.reported is not None
        ]
        self._silent = [
            (facts.predicted, facts.recorded_cost, *_line(facts), _is_billed(facts))
            for facts in counted
            if facts.reported is None
        ]

    def spent(self, now: Instant) -> float:
        """Dollars of the GPUs that they held."""
        return self._spent.at(now)

    def committed(self, now: Instant, factor: float) -> CommittedCost:
        """The sums at ``now``. ``factor``: dollars that a job which reports nothing costs for each dollar predicted."""
        silent = [
            (left, billed)
            for predicted, recorded, price, since, billed in self._silent
            if (left := predicted * factor - recorded - (price * (now - since) if now > since else 0.0)) > 0.0
        ]
        counted = [left for left, _ in silent] + [left for left, has_prediction, _ in self._reported if has_prediction]
        lefts = [left for left, billed in silent if billed] + [left for left, _, billed in self._reported if billed]
        return CommittedCost(
            jobs=self._jobs,
            predicted=self._predicted,
            actual=self._counted.at(now) + sum(counted),
            left=sum(lefts),
            squares=sum([left * left for left, billed in silent if billed]),
        )


def _is_billed(facts: JobFacts) -> bool:
    """Whether the job holds GPUs whose bill ends with it."""
    return facts.since is not None and not facts.prepaid


def _line(facts: JobFacts) -> tuple[float, float]:
    """Dollars a microsecond of the job's runs that are not on record, and the instant that they count from together."""
    micros = sum([micros for micros, _ in facts.meters])
    begun = sum([micros * since for micros, since in facts.meters])
    return micros / _UNIT, begun / micros if micros else 0.0


# Money for trials of widths never measured (``policy.options.speeds``): a fraction of what counts of the budget's
# amount.


TRIAL_SECONDS = 300.0
"""Seconds from a run's first step within which it is measured: a job reports every ten seconds, the first report after
a start is not counted, and a batch size or two are tried as well."""


def may_explore(budget: Budget, tried: Iterable[JobFacts], period_start: Instant, now: Instant) -> bool:
    """Whether the budget still pays for trials in this period. ``tried``: its jobs that had any.

    A trial costs the whole price of its GPUs until it ends, or until it is measured at the latest.
    """
    if not budget.exploration_percent:
        return False
    spent = ZERO
    for facts in tried:
        for option, since, until in facts.trials:
            over = after(since, option.entry_seconds + TRIAL_SECONDS)
            spent += _cost(option, max(since, period_start), min(now if until is None else until, over))
    return spent < Money(budget.counted.micros * budget.exploration_percent // 100)


def _cost(option: Option, since: Instant, until: Instant) -> Money:
    return option.price.cost(ceil(max(seconds_between(since, until), 0.0)))


# Moves of running jobs: those that are forced, and those that pay, at one value of a second.


@dataclass(frozen=True, slots=True)
class CandidateMove:
    """A move that gains ``gain`` dollars where its nodes are ready, and ``boot`` less where they must be rented."""

    to: Option
    gain: float
    boot: float

    def gain_now(self, *, rented: bool) -> float:
        """The dollars that it gains; ``rented``: whether its nodes must be rented."""
        return self.gain - self.boot if rented else self.gain


@dataclass(frozen=True, slots=True)
class JobMoves:
    """A job's moves. ``values``: the values of its options. ``forced``: why it may not stay; None when it may.

    ``candidates``: all moves that pay where their nodes are ready, the best first. ``next_change``: seconds until a
    phase begins for which another option is better; None if none does.
    """

    facts: JobFacts
    values: OptionValues
    forced: Forbidden | None
    candidates: Sequence[CandidateMove]
    next_change: float | None


def job_moves(facts: JobFacts, values: OptionValues, mean_work: float, market: Market) -> JobMoves | None:
    """The moves of a running job; None for one that stays where it is to its end, as most do."""
    job = facts.job
    forced = must_move(job, market) or _not_measured(job, values)
    if forced is not None:
        return JobMoves(facts, values, forced, (), None)
    if job.allocation is None or not values.menu.known or not job.remaining:
        return None
    here, position = job.allocation.option, job_position(job, mean_work)
    if values.stays_to_the_end(here, position):
        return None
    gains = sorted(values.gains(here, position), key=lambda found: -found[1])
    candidates = [CandidateMove(to, gain, boot) for to, gain, boot in gains]
    change = values.next_change(here, position)
    return None if not candidates and change is None else JobMoves(facts, values, None, candidates, change)


def _not_measured(job: Job, values: OptionValues) -> VariantNotMeasured | None:
    """Whether the job tried a variant that is no option: it is as fast as was hoped for all that anybody knows."""
    here = None if job.allocation is None else job.allocation.option
    if here is None or not here.trial or not here.variant or not values.menu.known:
        return None
    offered = any(option.variant == here.variant for option in values.menu.options)
    return None if offered else VariantNotMeasured(here.variant)


# When a run is expected to end.


_LEAST = 1.0
"""Seconds for which a run that goes on is taken to go on at least: its GPUs are not free yet."""


def seconds_left(job: Job, mean_work: float, *, sized: bool, now: Instant) -> float:
    """Seconds until the run of the job ends; infinite where nothing says how long it is.

    ``mean_work``: of a job of its class (seconds of the reference option); ``sized``: whether that is known. What the
    job had left when it last reported, or else when its run began, is counted down. A run that is overdue is taken to
    be overdue for as long again, so that nobody waits for it for ever.
    """
    allocation, progress = job.allocation, job.progress
    if allocation is None or job.interactive is not None or (job.remaining is None and not sized):
        return inf
    since = allocation.since
    if progress is not None and progress.fraction is not None:
        since = max(since, progress.at)
    left = job_position(job, mean_work).left / allocation.option.speed
    return max(abs(left - max(seconds_between(since, now), 0.0)), _LEAST)


# Which job tries a variant of which nothing is known.
#
# It is offered to one job of the class at a time, as fast as the fastest option that is known (``options.menu``):
# that is the most to be hoped, and one job, moved there and back, is what it costs to know. A job tries each
# variant once. If nothing is learned of it meanwhile, as where its trainer does not report, the job leaves it
# again.


_LATE = 2.0
"""Multiple of a trial's time after which nothing will be learned: curves follow reports within half a minute."""


def trying_jobs(jobs: Iterable[Job], profiles: Mapping[ClassId, Profile], now: Instant) -> frozenset[JobId]:
    """The jobs that may try variants without a curve: one of each class.

    The one that tries one already, otherwise the latest that runs, or the latest that waits.
    """
    first: dict[ClassId, tuple[bool, bool, int, JobId]] = {}
    for job in jobs:
        if not job.variants or job.resize is ResizePolicy.NEVER or job.target_completion is not None:
            continue
        unknown = {variant.name for variant in job.variants if not has_curve(profiles.get(variant.class_id))}
        unknown -= {record.option.variant for record in job.records}
        here = job.allocation
        if here is not None and now > after(here.since, here.option.entry_seconds + _LATE * TRIAL_SECONDS):
            unknown.discard(here.option.variant)
        if unknown and job.wants_to_run:
            rank = here is not None and here.option.variant in unknown, here is not None, job.created, job.id
            first[job.class_id] = max(rank, first.get(job.class_id, rank))
    return frozenset([job_id for *_, job_id in first.values()])


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
