"""Triage: which jobs wait, go on running, must leave their nodes, or are stopped, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from math import inf

from charterer.domain.ids import JobId, RentalId
from charterer.domain.job import Job, Run, TrainingGroup
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.pool import InstanceState
from charterer.domain.reasons import jobs as of_jobs
from charterer.domain.reasons import nodes as of_nodes
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after
from charterer.policy.budgets.inputs import PlanInputs
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import NOT_BEFORE_ITS_RECORD, JobFacts, reason, stall_seconds, widens
from charterer.policy.nodes.rentals import KnownEnd, RentalIndex


@dataclass(frozen=True, slots=True)
class KeptRuns:
    """The jobs of a group that go on running."""

    group: JobGroup
    runners: Mapping[JobId, JobFacts]

    @property
    def all(self) -> bool:
        """Whether these jobs are all runners of the group."""
        return self.runners is self.group.runners

    @property
    def micros(self) -> int:
        """The cost of the jobs' GPUs in micro-dollars per hour."""
        return self.group.micros if self.all else sum([facts.micros for facts in self.runners.values()])


@dataclass(slots=True)
class JobTriage:
    """The jobs of one budget, sorted by the next action. Leaving and stopped jobs are in order of creation.

    ``narrowed``: jobs whose run gives up pods that should have joined it. ``backing_off``: jobs that wait after a
    failed run, and until when. ``unused``: facts about interactive jobs that run but use no GPU. ``again_at``: the next
    deadlines of starting runs, of back-offs, and of jobs that must leave a node.
    """

    waiting: list[Job] = field(default_factory=list)
    running: list[KeptRuns] = field(default_factory=list)
    leaving: list[tuple[Job, Reason]] = field(default_factory=list)
    stopped: list[tuple[Job, Reason]] = field(default_factory=list)
    narrowed: list[tuple[Job, Reason]] = field(default_factory=list)
    idle: list[tuple[Job, Reason]] = field(default_factory=list)
    backing_off: list[tuple[Job, Instant]] = field(default_factory=list)
    unused: dict[JobId, of_jobs.NoCellRuns] = field(default_factory=dict)
    again_at: list[Instant] = field(default_factory=list)

    def stop_running(
        self, candidates: Callable[[JobGroup], Iterable[JobFacts]], why: Callable[[JobFacts], Reason | None]
    ) -> None:
        """Move jobs to ``stopped`` if they are running candidates of their group and ``why`` gives
        a reason for them."""
        for at, kept in enumerate(self.running):
            running = [facts for facts in candidates(kept.group) if facts.job.id in kept.runners]
            stopped = {facts.job.id: because for facts in running if (because := why(facts)) is not None}
            if stopped:
                self.stopped += [(kept.runners[name].job, because) for name, because in stopped.items()]
                goes_on = {name: facts for name, facts in kept.runners.items() if name not in stopped}
                self.running[at] = KeptRuns(kept.group, goes_on)
        self.running = [kept for kept in self.running if kept.runners]


def triage(groups: Iterable[JobGroup], ending: Mapping[RentalId, Reason], inputs: PlanInputs) -> JobTriage:
    """Sort jobs by the next action. ``ending``: rentals that are being released, with reasons.

    ``leaving`` jobs lose their place and at once get another one or wait in the queue. ``stopped`` jobs give their
    place up. ``idle`` jobs have no place and want none. A group is skipped as a whole if all of its nodes stay and all
    of its runs are well.
    """
    result = JobTriage()
    threats, snapshot = _Threats.of(ending, inputs), inputs.snapshot
    now = snapshot.now
    if inputs.ends.next_seconds < inf:
        result.again_at.append(after(now, inputs.ends.next_seconds))
    for group in groups:
        _queue(group, result, now)
        result.idle += group.idle
        kept = group.runners
        overdue = any(_overdue(facts, now) for facts in group.late)
        stalled = group.stalls_at is not None and now >= group.stalls_at
        if group.stalls_at is not None and not stalled:
            result.again_at.append(group.stalls_at)
        if overdue or stalled or group.untrusted or not group.rentals <= threats.safe:
            kept = {
                name: facts
                for name, facts in group.runners.items()
                if not _file_if_displaced(facts, result, threats, snapshot)
            }
        for facts, refused in group.unwanted:
            why = _displaced(facts, threats, snapshot)
            gone = refused if _gives_up(facts.job) or _overdue(facts, now) else why
            (result.idle if gone is None else result.stopped).append((facts.job, gone or refused))
        if kept:
            result.running.append(KeptRuns(group, kept))
        result.again_at += [
            facts.ready_by for facts in group.late if facts.ready_by is not None and facts.job.id in kept
        ]
        result.again_at += [facts.ready_by for facts, _ in group.unwanted if facts.ready_by is not None]
    for listed in (result.leaving, result.stopped):
        listed.sort(key=lambda entry: (entry[0].created, entry[0].id))
    return result


def _queue(group: JobGroup, result: JobTriage, now: Instant) -> None:
    """Add the waiting jobs of the group to the result; jobs that back off are idle meanwhile."""
    backing_off = {
        facts.job.id: until
        for facts in group.backing_off
        if (until := facts.backs_off_until) is not None and now < until
    }
    if not backing_off:
        result.waiting += group.waiting
        return
    for job in group.waiting:
        until = backing_off.get(job.id)
        if until is None:
            result.waiting.append(job)
        else:
            result.idle.append((job, reason(ReasonCode.BACK_OFF, _back_off(job, until))))
            if until != NOT_BEFORE_ITS_RECORD:
                result.backing_off.append((job, until))
                result.again_at.append(until)


def _back_off(job: Job, until: Instant) -> of_jobs.BacksOffForRecord | of_jobs.BacksOff:
    if until == NOT_BEFORE_ITS_RECORD:
        return of_jobs.BacksOffForRecord(job.last_run)
    last = max(job.records, key=lambda record: record.number)
    return of_jobs.BacksOff(job.last_run, until, started=not job.start_failures, why=last.message)


def _overdue(facts: JobFacts, now: Instant) -> bool:
    """Whether all pods of the job's run should be running by now."""
    return facts.ready_by is not None and now >= facts.ready_by


def _file_if_displaced(facts: JobFacts, result: JobTriage, threats: _Threats, snapshot: Snapshot) -> bool:
    """File the runner as leaving or stopped if it may not stay where it is. Returns True if the runner was filed."""
    job = facts.job
    why = _displaced(facts, threats, snapshot)
    if why is not None:  # an allocation that is not believed gives no place ahead of waiting jobs
        (result.stopped if why.code is ReasonCode.NOT_BELIEVED else result.leaving).append((job, why))
        return True
    result.again_at += [after(snapshot.now, stays) for stays in threats.stays(job).values() if stays > 0.0]
    if job.allocation is not None and facts.stalls_at is not None and snapshot.now >= facts.stalls_at:
        stalls = of_jobs.Stalls(job.allocation.run, stall_seconds(job))
        result.stopped.append((job, reason(ReasonCode.STALLED, stalls)))
        return True
    if not _overdue(facts, snapshot.now) or job.allocation is None:
        return False
    if job.replaced:  # pods of the previous run keep it from beginning, which is not its own fault
        result.stopped.append((job, reason(ReasonCode.LOST_NODE, of_jobs.PredecessorLives(job.allocation.run))))
        return True
    group = job.current_group
    if group is not None and group.formed:
        _file_group(job, group, result)
        return True
    run, number = job.current_run, job.allocation.run
    late: of_jobs.NotRunning | of_jobs.NeverStarts
    late = of_jobs.NotRunning(number, job.ready_timeout_seconds, _trouble(run))
    if run is not None and run.hopeless:
        late = of_jobs.NeverStarts(number, _trouble(run))
    result.stopped.append((job, reason(ReasonCode.NOT_STARTING, late)))
    return True


def _file_group(job: Job, group: TrainingGroup, result: JobTriage) -> None:
    """File a job whose pods did not form a group in time: it gives up the pods that did not join, or restarts."""
    run = job.run_title(group.run)
    if widens(job):
        not_joined = of_jobs.NotJoined(run, _trouble(job.current_run))
        result.narrowed.append((job, reason(ReasonCode.NOT_REGROUPED, not_joined)))
        return
    result.leaving.append((job, reason(ReasonCode.NOT_REGROUPED, of_jobs.NotRegrouped(run, group.generation))))


def _trouble(run: Run | None) -> str:
    """The cluster's own words about the run; empty if there are none."""
    return "" if run is None else run.trouble or run.incomplete


def _gives_up(job: Job) -> bool:
    """Whether an unwanted job loses its allocation.

    A run goes on if its template was edited to an invalid one or if its namespace lost its budget, because the rental's
    own budget pays for its nodes. Such a run ends when its nodes must end.
    """
    if job.deleting or job.finish is not None or job.suspend or job.unplaceable:
        return True
    if job.interactive is not None and not job.interactive.wants_gpus:
        return True
    return bool(job.invalid) and job.current_run is None


@dataclass(frozen=True, slots=True)
class _Threats:
    """The nodes on which jobs may not stay.

    ``ending``: nodes that are being released, with reasons. ``threatened``: nodes that go away for other reasons.
    ``ends``: nodes that end soon. ``safe``: all other staying nodes, without nodes that refused a pod, because a
    refusal is a reason only for the pod's job.
    """

    ending: Mapping[RentalId, Reason]
    threatened: Mapping[RentalId, Reason]
    ends: Mapping[RentalId, KnownEnd]
    safe: Set[RentalId]

    @classmethod
    def of(cls, ending: Mapping[RentalId, Reason], inputs: PlanInputs) -> _Threats:
        threatened, ends = _threatened(inputs.rentals, inputs.snapshot), inputs.ends.near
        unsafe = {*ending, *threatened, *ends, *inputs.refusing}
        return cls(ending, threatened, ends, inputs.rentals.staying - unsafe if unsafe else inputs.rentals.staying)

    def stays(self, job: Job) -> Mapping[RentalId, float]:
        """Seconds for which the job stays on each of its nodes that ends soon. A node is left out if the job ends
        before."""
        if job.allocation is None:
            return {}
        rentals = [place.rental for place in job.allocation.placements]
        ends = {rental: self.ends[rental] for rental in rentals if rental in self.ends}
        left = inf if job.remaining is None else job.remaining / job.allocation.option.speed
        return {rental: end.stay_seconds(job.grace_seconds) for rental, end in ends.items() if left >= end.left}

    def why_leave(self, job: Job) -> Reason | None:
        """Why the job must leave its nodes now because of one of them; None if it may stay."""
        for place in () if job.allocation is None else job.allocation.placements:
            why = self.ending.get(place.rental) or self.threatened.get(place.rental)
            if why is not None:
                return why
        for rental, stays in self.stays(job).items():
            if stays <= 0.0:
                return reason(ReasonCode.INTERRUPTION, of_nodes.NodeEnds(rental, self.ends[rental].at))
        return None


def _threatened(rentals: RentalIndex, snapshot: Snapshot) -> dict[RentalId, Reason]:
    """Rentals that a person deletes or the cloud takes back, with reasons."""
    found = {
        rental.id: reason(ReasonCode.LOST_NODE, of_nodes.RentalDeleted(rental.id))
        for pool in rentals.by_pool.values()
        for rental in pool.deleting
    }
    noticed = {
        notice.instance: notice for survey in snapshot.surveys.values() for notice in survey.notices if notice.certain
    }
    if noticed:
        for rental in (rental for pool in rentals.by_pool.values() for rental in pool.live):
            if rental.instance is not None and rental.instance in noticed:
                notice = noticed[rental.instance]
                taken = of_nodes.TakenBack(rental.instance, rental.id, True, notice.why, notice.broken)
                found[rental.id] = reason(ReasonCode.INTERRUPTION, taken)
    return found


def _displaced(facts: JobFacts, threats: _Threats, snapshot: Snapshot) -> Reason | None:
    """Why the job may not stay; None if it may.

    A run that has ended is first recorded. An allocation that is not believed is withdrawn. If its run is live on
    other nodes, the allocation stays, and the job only cannot grow.

    A run whose node is lost is not handled here: it is recorded as interrupted, which clears the allocation. The plan
    only withdraws a run that never started, has a pod without a node, or whose node still lives and drains. The plan
    also withdraws the run of an adopted object, which survives a lost pod.
    """
    job, allocation = facts.job, facts.job.allocation
    if allocation is None:
        return None
    run = job.current_run
    if run is not None and run.ended is not None:
        return None
    if job.doubts and not (run is not None and any(pod.live for pod in run.pods)):
        named = {place.rental for place in allocation.placements}
        for doubt in job.doubts:
            if doubt.rental in named:
                return reason(ReasonCode.NOT_BELIEVED, of_jobs.NotBelieved(doubt.why))
    if facts.rentals <= threats.safe:
        return None
    why = threats.why_leave(job) or _refused(job, run)
    if why is not None:
        return why
    started = run is not None and not run.suspended
    homeless = run is not None and any(pod.live and pod.node is None for pod in run.pods)
    for place in allocation.placements:
        rental = snapshot.rentals.get(place.rental)
        if rental is not None and rental.phase not in (RentalPhase.DRAINING, RentalPhase.ENDED):
            continue
        alive = rental is not None and rental.phase is RentalPhase.DRAINING and _alive(rental.id, snapshot)
        if alive or not started or homeless or job.target is not None:
            because = rental.released_because if rental is not None else ""
            return reason(ReasonCode.LOST_NODE, of_nodes.RentalGoesAway(place.rental, because))
    return None


def _refused(job: Job, run: Run | None) -> Reason | None:
    """Why an adopted object leaves a node that refused one of its pods; None without such a pod.

    The object's own controller creates the pod again for the same node until the object fails for good. A run that
    Charterer created fails with its first pod, so it needs no such reason.
    """
    if job.target is None or run is None:
        return None
    refused = next((pod for pod in run.pods if pod.refused), None)
    return None if refused is None else reason(ReasonCode.POD_REFUSED, of_nodes.RefusedPod.of(refused))


def _alive(name: RentalId, snapshot: Snapshot) -> bool:
    rental = snapshot.rentals[name]
    survey = snapshot.surveys.get(rental.pool)
    gone = (InstanceState.STOPPING, InstanceState.ENDED)
    return survey is not None and not any(
        instance.id == rental.instance and instance.state in gone for instance in survey.instances
    )
