"""Groups of jobs of one budget that choose alike, and values that depend neither on the clock nor on other jobs.

A group's sums are always computed from scratch, in order of creation. So no sum of floats depends on earlier events.
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

# Past and future costs of unfinished jobs, at any time.
#
# Past costs include runs that were told to stop and still hold their GPUs. The remaining cost of a job that reports
# follows from its reports. A job that does not report is assumed to cost its prediction times its class's κ in all, so
# its remaining cost falls to zero as it spends. All costs are at the paid price. A job on nodes that are paid for
# anyway has no remaining cost (``pacing`` counts these nodes).


_UNIT = 1e6 * 3600e6
"""The number of (micro-dollars per hour × microseconds) in a dollar."""


class CostMeter:
    """Dollars that jobs' GPUs have cost up to any instant.

    Only whole numbers (price × time) are summed, so the result does not depend on when the sum was made.
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
        """Dollars up to ``now``. A run that begins after ``now``, which is possible because clocks differ, has cost
        nothing."""
        if now >= self._last:
            return self._recorded + (self._price * now - self._begun) / _UNIT
        return self._recorded + sum([micros * max(now - since, 0) for micros, since in self._runs]) / _UNIT


@dataclass(frozen=True, slots=True)
class CommittedCost:
    """Sums over unfinished jobs, in dollars.

    ``jobs``: the number of jobs with a prediction, which are the jobs that have been started. ``predicted``: the sum
    of these jobs' predictions. ``actual``: the past and remaining cost of these jobs, whether or not they hold GPUs
    now. ``left``: the remaining cost of all jobs that hold GPUs, without costs that are paid anyway. ``squares``: Σ
    left² of jobs that have not reported yet, whose remaining cost is uncertain.
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
    """Unfinished jobs of one class. ``started``: whether any of these jobs holds or held GPUs."""

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
        """Dollars of the GPUs that the jobs held."""
        return self._spent.at(now)

    def committed(self, now: Instant, factor: float) -> CommittedCost:
        """The sums at ``now``. ``factor``: actual dollars per predicted dollar, for jobs that do not report."""
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
    """Whether the job holds GPUs whose bill ends when the job ends."""
    return facts.since is not None and not facts.prepaid


def _line(facts: JobFacts) -> tuple[float, float]:
    """The cost line of the job's unrecorded runs: dollars per microsecond, and the instant of cost zero."""
    micros = sum([micros for micros, _ in facts.meters])
    begun = sum([micros * since for micros, since in facts.meters])
    return micros / _UNIT, begun / micros if micros else 0.0


# Money for trials of widths that were never measured (``policy.options.speeds``): a fraction of the budget's counted
# amount.


TRIAL_SECONDS = 300.0
"""Seconds after a run's start within which its speed is measured. A job reports every ten seconds, the first report
after a start is not counted, and one or two batch sizes are tried as well."""


def may_explore(budget: Budget, tried: Iterable[JobFacts], period_start: Instant, now: Instant) -> bool:
    """Whether the budget still pays for trials in this period. ``tried``: its jobs that had trials.

    A trial costs the whole price of its GPUs until it ends, but at most until it is measured.
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


# Moves of running jobs: forced moves, and moves that pay at one value of a second.


@dataclass(frozen=True, slots=True)
class CandidateMove:
    """A move that gains ``gain`` dollars if its nodes are ready, and ``boot`` dollars less if they must be rented."""

    to: Option
    gain: float
    boot: float

    def gain_now(self, *, rented: bool) -> float:
        """The dollars that the move gains. ``rented``: whether its nodes must be rented."""
        return self.gain - self.boot if rented else self.gain


@dataclass(frozen=True, slots=True)
class JobMoves:
    """The moves of a job. ``values``: the values of its options. ``forced``: why the job may not stay; None if it may.

    ``candidates``: all moves that pay if their nodes are ready, the best first. ``next_change``: seconds until a phase
    begins in which another option is better; None if there is none.
    """

    facts: JobFacts
    values: OptionValues
    forced: Forbidden | None
    candidates: Sequence[CandidateMove]
    next_change: float | None


def job_moves(facts: JobFacts, values: OptionValues, mean_work: float, market: Market) -> JobMoves | None:
    """The moves of a running job; None if it stays where it is until its end, as most jobs do."""
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
    """Why the job leaves a variant on trial: the variant has no measured speed and is no longer offered; otherwise
    None."""
    here = None if job.allocation is None else job.allocation.option
    if here is None or not here.trial or not here.variant or not values.menu.known:
        return None
    offered = any(option.variant == here.variant for option in values.menu.options)
    return None if offered else VariantNotMeasured(here.variant)


# The expected end of a run.


_LEAST = 1.0
"""Minimum seconds for which a running job is expected to go on, because its GPUs are not free yet."""


def seconds_left(job: Job, mean_work: float, *, sized: bool, now: Instant) -> float:
    """Seconds until the run of the job ends; infinite if its length is unknown.

    ``mean_work``: mean work of a job of its class in seconds of the reference option. ``sized``: whether this mean is
    known. The remaining time at the job's last report, or at its run's start, is counted down. An overdue run is
    expected to go on for as long as it is already overdue, so that no job waits for its end for ever.
    """
    allocation, progress = job.allocation, job.progress
    if allocation is None or job.interactive is not None or (job.remaining is None and not sized):
        return inf
    since = allocation.since
    if progress is not None and progress.fraction is not None:
        since = max(since, progress.at)
    left = job_position(job, mean_work).left / allocation.option.speed
    return max(abs(left - max(seconds_between(since, now), 0.0)), _LEAST)


# The job that tries a variant of unknown speed.
#
# The variant is offered to one job of the class at a time, as if it were as fast as the fastest known option
# (``options.menu``), which is the most that can be hoped for. The price of learning its speed is one job that moves to
# it and back. A job tries each variant once. If nothing is learned, for example because its trainer does not report,
# the job leaves the variant again.


_LATE = 2.0
"""Multiple of a trial's duration after which nothing more will be learned. Curves follow reports within half a minute.
"""


def trying_jobs(jobs: Iterable[Job], profiles: Mapping[ClassId, Profile], now: Instant) -> frozenset[JobId]:
    """The jobs that may try variants without a curve: one of each class.

    A job that is already trying a variant comes first, then the latest running job, then the latest waiting job.
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
    """Jobs of one budget and key. ``members``: in order of creation; ``created``: their times of creation.

    ``active``: the number of jobs that want to run. ``known``: the number of these jobs whose remaining work is
    known. ``left``: the sum of this remaining work, in seconds of the reference option.

    Active jobs without GPUs are ``waiting``; after a failed run they are also ``backing_off``. Other jobs without GPUs
    are ``idle``, with the reason. Active jobs with GPUs are ``runners``; other jobs with GPUs are ``unwanted``, with
    the reason. Runners are also listed by property. ``movable``: a move may pay. ``late``: some pods do not run yet.
    ``slowed``: a bottleneck was found. ``capped``: the job has a maximum cost. ``unchanging``: the job is never resized
    and has no maximum cost, so that its reports give its cost. ``sessions``: the job is interactive. ``stalls_at``:
    when the first runner is stopped if it does not advance before. ``targeted``: active jobs with a target completion
    time. ``terminating``: jobs with pods that are to end, or with ended runs that are not recorded.

    ``rentals``: the rentals of jobs with GPUs. ``working``: rentals of unfinished jobs. ``nodes``: nodes with live
    pods of any job. ``micros``: micro-dollars per hour of the runners' GPUs. ``grace``: the longest grace period of
    an unfinished job, in seconds. ``checking``: the creation of the newest job whose template is being checked.
    ``tried``: jobs with trials. ``untrusted``: whether any allocation is doubted. ``under_way``: unfinished jobs by
    the class in whose statistics they are counted. ``finished``: the other jobs. ``not_come``: idle jobs that never
    had GPUs, and interactive jobs that request no GPUs.
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
    """The group of jobs with the same key: at least one job, in order of creation."""
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
        capped=[facts for facts in runners if facts.job.cost_limit is not None],
        unchanging=[
            facts
            for facts in runners
            if facts.job.resize is ResizePolicy.NEVER and facts.job.cost_limit is None and facts.reported is not None
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
    """The group after the ``stopped`` jobs were told to stop, so that they wait for other GPUs.

    ``classes``: classes that have a profile. ``offers``: the possible nodes of pools.
    """

    if not any(facts.job.id in stopped for facts in group.members):
        return group

    def told(facts: JobFacts) -> JobFacts:
        trying = frozenset([facts.job.id]) if facts.key.menu.tries else frozenset()
        return job_facts(told_to_stop(facts.job), classes, trying, offers=offers) if facts.job.id in stopped else facts

    return job_group(tuple([told(facts) for facts in group.members]))


def _by_statistics(unfinished: Iterable[JobFacts]) -> Mapping[ClassId, ClassInProgress]:
    by_class: dict[ClassId, list[JobFacts]] = {}
    for facts in unfinished:
        by_class.setdefault(facts.statistics, []).append(facts)
    return {class_id: ClassInProgress(alike) for class_id, alike in by_class.items()}


JobGroups = Mapping[BudgetId | None, Mapping[GroupKey, JobGroup]]
"""The groups by budget (None: no budget selects the namespace) and key, in the order of their first jobs."""


def job_groups(facts: Mapping[JobId, JobFacts], memo: Memo) -> JobGroups:
    """All jobs of a snapshot in groups."""
    found: dict[BudgetId | None, dict[GroupKey, JobGroup]] = {}
    for (budget, key), group in memo.each(job_group, memo.grouped(_budget_and_key, _order, facts)).items():
        found.setdefault(budget, {})[key] = group
    return found


def _budget_and_key(facts: JobFacts) -> tuple[BudgetId | None, GroupKey]:
    return facts.job.budget, facts.key


def _order(facts: JobFacts) -> tuple[Instant, JobId]:
    return facts.order
