"""The roll call: which jobs wait, which run on, which must leave where they are, which are stopped, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from charterer.domain.ids import RentalId
from charterer.domain.job import Allocation, Job, PodPhase, ResizePolicy, SpotPolicy
from charterer.domain.money import ZERO
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.pool import CapacityType, InstanceState
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after

if TYPE_CHECKING:
    from charterer.policy.jobs.groups import JobGroup
    from charterer.policy.jobs.job_facts import JobFacts
    from charterer.policy.nodes.rental_index import RentalIndex


def reason(why: ReasonCode, message: str) -> Reason:
    """A reason that is no matter of seconds and dollars."""
    return Reason(why, 0.0, ZERO, message)


@dataclass(frozen=True, slots=True)
class KeptRuns:
    """The jobs of a cohort that run on; ``all`` says whether those are all its runners."""

    cohort: JobGroup
    readings: Sequence[JobFacts]

    @property
    def all(self) -> bool:
        """Whether nothing is to be done with any of the cohort's runners."""
        return self.readings is self.cohort.runners

    @property
    def micros(self) -> int:
        """Micro-dollars an hour that their GPUs cost."""
        return self.cohort.micros if self.all else sum([one.micros for one in self.readings])


@dataclass(slots=True)
class JobTriage:
    """The jobs of one budget, those that leave or are stopped in order of creation.

    ``again_at``: when a run's time to get ready is over.
    """

    waiting: list[Job] = field(default_factory=list)
    running: list[KeptRuns] = field(default_factory=list)
    leaving: list[tuple[Job, Reason]] = field(default_factory=list)
    stopped: list[tuple[Job, Reason]] = field(default_factory=list)
    idle: list[tuple[Job, Reason]] = field(default_factory=list)
    again_at: list[Instant] = field(default_factory=list)


def triage(
    cohorts: Iterable[JobGroup], doomed: Mapping[RentalId, Reason], fleet: RentalIndex, snapshot: Snapshot
) -> JobTriage:
    """Sort jobs by what is to be done; ``doomed`` rentals are being released, and why.

    ``leaving`` jobs lose their place and go elsewhere at once or queue; ``stopped`` ones give theirs up; ``idle`` ones
    neither have nor want one. A cohort all of whose nodes stay and whose runs are all well is passed over as a whole.
    """
    roll = JobTriage()
    threatened = _threatened(fleet, snapshot)
    safe = set().union(*[one.staying for one in fleet.blocks.values()]).difference(doomed, threatened)
    now = snapshot.now
    for cohort in cohorts:
        roll.waiting += cohort.waiting
        roll.idle += cohort.idle
        going: Sequence[JobFacts] = cohort.runners
        overdue = [one for one in cohort.late if one.ready_by is not None and now >= one.ready_by]
        if overdue or not cohort.rentals <= safe:
            going = [one for one in cohort.runners if not _loses(one, roll, doomed, threatened, safe, snapshot)]
        for reading, refused in cohort.unwanted:
            why = _displaced(reading, doomed, threatened, safe, snapshot)
            gone = refused if _gives_up(reading.job) else why
            (roll.idle if gone is None else roll.stopped).append((reading.job, gone or refused))
        if going:
            roll.running.append(KeptRuns(cohort, going))
        if cohort.late:
            roll.again_at += [one.ready_by for one in going if one.ready_by is not None]
    for found in (roll.leaving, roll.stopped):
        found.sort(key=lambda one: (one[0].created, one[0].id))
    return roll


def _loses(
    reading: JobFacts,
    roll: JobTriage,
    doomed: Mapping[RentalId, Reason],
    threatened: Mapping[RentalId, Reason],
    safe: Set[RentalId],
    snapshot: Snapshot,
) -> bool:
    """Whether a runner may not stay where it is; then it is in the roll."""
    job, deadline = reading.job, reading.ready_by
    why = _displaced(reading, doomed, threatened, safe, snapshot)
    if why is not None:
        roll.leaving.append((job, why))
        return True
    if deadline is None or snapshot.now < deadline or job.allocation is None:
        return False
    message = f"run {job.allocation.run} was not fully running within {job.ready_timeout_seconds:.0f} s"
    roll.stopped.append((job, reason(ReasonCode.NOT_STARTING, message)))
    return True


def not_wanted(job: Job) -> Reason | None:
    """Why no GPUs are looked for; None when they are."""
    if job.deleting:
        return reason(ReasonCode.DELETED, "the job is being deleted")
    if job.finish is not None:
        return reason(ReasonCode.FINISHED, f"the job has ended: {job.finish.kind}")
    if job.suspend:
        return reason(ReasonCode.SUSPENDED, "spec.suspend is true")
    if job.invalid:
        return reason(ReasonCode.INVALID, job.invalid)
    if job.checking:
        return reason(ReasonCode.CHECKING, "the API server is being asked whether the template is right")
    if job.budget is None:
        return reason(ReasonCode.NO_BUDGET, f"no GPUBudget selects namespace {job.namespace}")
    return None


def _gives_up(job: Job) -> bool:
    """Whether an unwanted job with an allocation loses it.

    A run that goes on is not ended because its template was edited to an invalid one, or because its namespace lost
    its budget: what was rented for it is paid for by the rental's own budget. It ends where its nodes must be ended.
    """
    if job.deleting or job.finish is not None or job.suspend:
        return True
    return bool(job.invalid) and job.current_run is None


def _threatened(fleet: RentalIndex, snapshot: Snapshot) -> dict[RentalId, Reason]:
    """Rentals whose nodes go away by themselves or by a person's hand, and why."""
    found = {
        one.id: reason(ReasonCode.LOST_NODE, f"GPURental {one.id} is being deleted")
        for block in fleet.blocks.values()
        for one in block.deleting
    }
    noticed = {notice.instance for survey in snapshot.surveys.values() for notice in survey.notices}
    if noticed:
        live = [one for block in fleet.blocks.values() for one in block.live if one.instance in noticed]
        taken = {one.id: f"the cloud takes back {one.instance} of {one.id}" for one in live}
        found |= {name: reason(ReasonCode.INTERRUPTION, text) for name, text in taken.items()}
    return found


def _displaced(
    reading: JobFacts,
    doomed: Mapping[RentalId, Reason],
    threatened: Mapping[RentalId, Reason],
    safe: Set[RentalId],
    snapshot: Snapshot,
) -> Reason | None:
    """Why the job cannot stay.

    A run that was on a lost node is recorded as interrupted, which clears the allocation: that is not done here. Only
    a run that never started, that has a pod without a node, or whose node lives and drains, is taken away by the plan.
    """
    job, allocation = reading.job, reading.job.allocation
    if allocation is None or reading.rentals <= safe:
        return None
    for place in allocation.placements:
        why = doomed.get(place.rental) or threatened.get(place.rental)
        if why is not None:
            return why
    run = job.current_run
    started = run is not None and not run.suspended
    homeless = run is not None and any(pod.live and pod.node is None for pod in run.pods)
    for place in allocation.placements:
        rental = snapshot.rentals.get(place.rental)
        if rental is not None and rental.phase not in (RentalPhase.DRAINING, RentalPhase.ENDED):
            continue
        alive = rental is not None and rental.phase is RentalPhase.DRAINING and _alive(rental.id, snapshot)
        if alive or not started or homeless:
            because = rental.released_because if rental is not None else ""
            return reason(
                ReasonCode.LOST_NODE, f"GPURental {place.rental} is going away{': ' if because else ''}{because}"
            )
    return None


def _alive(name: RentalId, snapshot: Snapshot) -> bool:
    rental = snapshot.rentals[name]
    survey = snapshot.surveys.get(rental.pool)
    gone = (InstanceState.STOPPING, InstanceState.ENDED)
    return survey is not None and not any(
        instance.id == rental.instance and instance.state in gone for instance in survey.instances
    )


def ready_by(job: Job, allocation: Allocation) -> Instant | None:
    """By when all pods of a started run must be running; None when they are, or when the run has not started."""
    run = job.current_run
    if run is None or run.suspended or run.started is None or run.complete is not None or run.failed is not None:
        return None
    begun = {pod.index for pod in run.pods if pod.phase in (PodPhase.RUNNING, PodPhase.SUCCEEDED)}
    if len(begun) >= len(allocation.placements) or any(pod.phase is PodPhase.FAILED for pod in run.pods):
        return None
    return after(max(run.started, allocation.since), job.ready_timeout_seconds)


def settled(job: Job) -> bool:
    """Whether the job's run is running with all its pods, so that moving it is a question of gain."""
    run = job.current_run
    if job.allocation is None or run is None or run.suspended or run.started is None or run.deleting:
        return False
    running = {pod.index for pod in run.pods if pod.phase is PodPhase.RUNNING and not pod.deleting}
    return (
        run.complete is None
        and run.failed is None
        and len(running) == run.completions == len(job.allocation.placements)
    )


def must_move(job: Job, snapshot: Snapshot) -> str:
    """Why the job's owner no longer allows where it runs; empty when it may stay (a Never job keeps its width)."""
    if job.allocation is None or job.resize is ResizePolicy.NEVER:
        return ""
    option = job.allocation.option
    pool = snapshot.pools.get(option.pool)
    if not job.widths.min <= option.gpus <= job.widths.max:
        return f"{option.gpus} GPUs are outside {job.widths.min} to {job.widths.max}"
    if pool is None or pool.offering is None:
        return ""
    if job.gpu_types and pool.offering.gpu_type not in job.gpu_types:
        return f"spec.gpuTypes no longer names {pool.offering.gpu_type}"
    if pool.capacity_type is CapacityType.SPOT and job.spot is not SpotPolicy.ALLOWED:
        return "spec.spotPolicy no longer allows spot capacity"
    return ""
