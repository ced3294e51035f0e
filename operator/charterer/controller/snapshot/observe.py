"""Joining what is known of cluster and clouds into one Snapshot. Pure: the same state gives the same snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from charterer.api.decode import DecodedJob, ForeignPod, JobPod
from charterer.cluster.store import ObjectKey
from charterer.controller.known_pools import first_come, known_pools
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.job_work import total_work
from charterer.controller.snapshot.paid_prices import paid, recorded_segments
from charterer.controller.snapshot.payers import payers_of
from charterer.domain.budget import Budget
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, ClassId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import TRUSTED_FRACTION, Job, Orphan, Pod, Progress, Run
from charterer.domain.pool import Pool, Quote
from charterer.domain.profile import Profile
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.incremental import Memo

_QUOTE_RECORDED_SECONDS = 3600.0
"""Seconds after which an unchanged quote is recorded again, for its time: one write of a pool an hour costs nothing."""
_ENDLESS = Instant(2**63)
"""Later than every time on record."""


class _Owner(NamedTuple):
    """What an object says it belongs to: a TrainingJob of this uid in the object's own namespace.

    An owner in another namespace is none: whoever may create objects in a namespace may write any uid into them.
    """

    namespace: str
    job: JobId


_PodsOfJobs = Mapping[tuple[str, str], tuple[Pod, ...]]
"""By namespace and uid of the batch/v1 Job that controls them."""
_RunParts = Mapping[_Owner, tuple[tuple[Run, tuple[Pod, ...]], ...]]


def observe(state: ClusterState, now: Instant, memo: Memo | None = None) -> Snapshot:
    """One consistent view of everything at ``now``.

    With a memo, whatever has not changed since its last turn is the same object again.
    """
    memo = Memo() if memo is None else memo
    with memo.turn():
        return _observed(state, now, memo)


def _observed(state: ClusterState, now: Instant, memo: Memo) -> Snapshot:
    payers = memo(payers_of, state.budgets, state.namespaces)
    unread = {problem.name for problem in state.problems if problem.kind == "GPUPool"}
    declared = known_pools(state.pools, state.rentals, unread)
    known = {name: _with_offer(pool, state) for name, pool in declared.items()}
    pools = memo.stable(first_come(known, state.surveys), "pools")
    profiles = memo.stable(memo(_paid, state.profiles, payers), "profiles")
    pods = memo(_pods_of_jobs, state.pods)
    runs = memo.each(_with_pods, memo.stable(memo(_run_parts, state.runs, pods, state.warnings), "runs"))
    clocks = {job.id: now for job in _ahead(state, now)} or _NO_CLOCKS
    sources = _JobSources(runs, payers, profiles, memo(_owners, state.services), state.progress, state.refusals, clocks)
    parts = memo.stable(memo(_job_parts, state.jobs, *sources), "jobs")
    jobs = memo.each(_joined, parts, _gpu_types(pools))
    owners = memo(_owners_of_runs, state.jobs)
    prices = memo(recorded_segments, state.rentals)
    foreign = memo(_foreign_gpus, state.pods, state.runs, owners)
    return Snapshot(
        now=now,
        budgets=memo(_budgets_by_id, state.budgets),
        pools=pools,
        surveys={name: paid(pools[name], survey, prices) for name, survey in state.surveys.items() if name in pools},
        profiles=profiles,
        jobs=jobs,
        rentals=memo(_rentals_by_id, state.rentals),
        nodes=memo.stable(memo(_nodes, state.nodes, foreign), "nodes"),
        problems=(*state.problems, *_without_profile(state, jobs, profiles)),
        orphans=memo(_orphans, state.runs, owners, state.problems, payers),
    )


def _budgets_by_id(budgets: Mapping[ObjectKey, Budget]) -> Mapping[BudgetId, Budget]:
    return {budget.id: budget for budget in budgets.values()}


def _rentals_by_id(rentals: Mapping[ObjectKey, Rental]) -> Mapping[RentalId, Rental]:
    return {rental.id: rental for rental in rentals.values()}


# --- jobs -----------------------------------------------------------------------------------------------------------


class _JobSources(NamedTuple):
    """What jobs are joined with. ``owners``: jobs that have their Service. ``clocks``: see ``_ahead``."""

    runs: Mapping[_Owner, tuple[Run, ...]]
    payers: Mapping[str, Budget]
    profiles: Mapping[ClassId, Profile]
    owners: frozenset[_Owner]
    progress: Mapping[JobId, Progress]
    refusals: Mapping[JobId, str | None]
    clocks: Mapping[JobId, Instant]


class _JobParts(NamedTuple):
    """All that a job is joined from. ``refusal``: as in ClusterState, empty where the template was accepted."""

    decoded: DecodedJob
    budget: BudgetId | None
    weight: float
    runs: tuple[Run, ...]
    progress: Progress | None
    has_service: bool
    refusal: str | None
    profile: Profile | None
    clock: Instant | None


_NO_CLOCKS: Mapping[JobId, Instant] = {}


def _ahead(state: ClusterState, now: Instant) -> Iterable[Job]:
    """Jobs with a time on record that is yet to come by this clock, so that what is known of them changes with it."""
    early = {job for job, progress in state.progress.items() if progress.at > now}
    for decoded in state.jobs.values():
        job = decoded.job
        since = None if job.allocation is None else job.allocation.since
        if (
            (since is not None and since > now)
            or (job.progress is not None and job.progress.at > now)
            or (early and job.id in early)
        ):
            yield job


def _owners(services: Mapping[ObjectKey, JobId]) -> frozenset[_Owner]:
    return frozenset(_Owner(key.namespace, job) for key, job in services.items())


def _job_parts(
    jobs: Mapping[ObjectKey, DecodedJob],
    runs: Mapping[_Owner, tuple[Run, ...]],
    payers: Mapping[str, Budget],
    profiles: Mapping[ClassId, Profile],
    owners: frozenset[_Owner],
    progress: Mapping[JobId, Progress],
    refusals: Mapping[JobId, str | None],
    clocks: Mapping[JobId, Instant],
) -> Mapping[JobId, _JobParts]:
    """For every job, what other objects say about it."""
    weights = {budget.id: dict(budget.weights) for budget in payers.values()}
    parts = {}
    for decoded in jobs.values():
        job = decoded.job
        owner = _Owner(job.namespace, job.id)
        budget = payers.get(job.namespace)
        parts[job.id] = _JobParts(
            decoded,
            None if budget is None else budget.id,
            1.0 if budget is None else weights[budget.id].get(decoded.priority_class, 1.0),
            runs.get(owner, ()),
            progress.get(job.id),
            owner in owners,
            refusals.get(job.id, ""),
            profiles.get(job.class_id),
            clocks.get(job.id),
        )
    return parts


def _joined(parts: _JobParts, gpu_types: tuple[tuple[PoolId, str], ...]) -> Job:
    """The job with its parts; ``gpu_types`` of the pools, by which work is measured."""
    job = parts.decoded.job
    joined = replace(
        job,
        budget=parts.budget,
        weight=parts.weight,
        runs=parts.runs,
        progress=_latest(job.progress, parts.progress),
        has_service=parts.has_service,
        invalid=job.invalid or parts.refusal or "",
        checking=parts.refusal is None,
    )
    now = _ENDLESS if parts.clock is None else parts.clock
    return replace(joined, remaining=_remaining(joined, parts.profile, dict(gpu_types), now))


def _gpu_types(pools: Mapping[PoolId, Pool]) -> tuple[tuple[PoolId, str], ...]:
    return tuple((name, pool.offering.gpu_type) for name, pool in pools.items() if pool.offering is not None)


def _latest(recorded: Progress | None, reported: Progress | None) -> Progress | None:
    if reported is None or (recorded is not None and recorded.at > reported.at):
        return recorded
    return reported


def _remaining(job: Job, profile: Profile | None, gpu_types: Mapping[PoolId, str], now: Instant) -> float | None:
    """Expected work left, in seconds of the reference option.

    From TRUSTED_FRACTION on, the job's own progress says how much work it is: done / fraction. Before that its class's
    mean does, less the fraction reported as done. A job that reports nothing has its class's mean left, however old.
    """
    mean = None if profile is None else profile.mean_work
    fraction = None if job.progress is None else job.progress.fraction
    if fraction is None:
        return mean
    if fraction >= TRUSTED_FRACTION:
        total = total_work(job, profile, gpu_types, fraction, now)
        if total > 0.0:
            return total * (1 - fraction)
    return None if mean is None else mean * (1 - fraction)


def _without_profile(
    state: ClusterState, jobs: Mapping[JobId, Job], profiles: Mapping[ClassId, Profile]
) -> Iterable[Problem]:
    """Problems of jobs whose profile does not exist."""
    return [
        _no_profile(jobs[decoded.job.id], decoded.profile_name, state.problems)
        for decoded in state.jobs.values()
        if decoded.profile_name and decoded.job.class_id not in profiles
    ]


def _no_profile(job: Job, name: str, problems: Iterable[Problem]) -> Problem:
    broken = next(
        (p for p in problems if (p.kind, p.namespace, p.name) == ("SpeedupProfile", job.namespace, name)), None
    )
    if broken is None:
        message = (
            f"no SpeedupProfile {name!r} in namespace {job.namespace}: create it, correct spec.profileName, or let the "
            "job report its batch size, then Charterer creates it and learns"
        )
        reason = "ProfileNotFound"
    else:
        message = f"SpeedupProfile {name!r} cannot be used: {broken.field}: {broken.message}"
        reason = broken.reason
    message += f"; until then the job runs on {job.widths.preferred} GPUs"
    return Problem("TrainingJob", job.namespace, job.name, "spec.profileName", reason, message)


# --- pools and profiles ----------------------------------------------------------------------------------------------


def _with_offer(pool: Pool, state: ClusterState) -> Pool:
    """The pool with what its cloud said last, or with what was recorded of that."""
    survey, quote = state.surveys.get(pool.id), state.quotes.get(pool.id)
    if quote is not None:
        source = pool.price_source(quote.source)
        quote = replace(quote, price=pool.priced(quote.price), worst=pool.priced(quote.worst), source=source)
    offering = pool.offering if survey is None else survey.offering
    recorded = offering == pool.offering and (quote is None or _quoted_alike(quote, pool.quote))
    return replace(
        pool, offering=offering, quote=quote or pool.quote, quote_on_record=pool.quote, offer_recorded=recorded
    )


def _quoted_alike(quote: Quote, recorded: Quote | None) -> bool:
    """Whether the recorded quote is the same, and not so old that it looks like a price that nobody confirms."""
    if recorded is None or seconds_between(recorded.as_of, quote.as_of) >= _QUOTE_RECORDED_SECONDS:
        return False
    return replace(quote, as_of=recorded.as_of) == recorded


def _paid(profiles: Mapping[ObjectKey, Profile], payers: Mapping[str, Budget]) -> Mapping[ClassId, Profile]:
    """The profiles by class, each with the budget that pays for its namespace."""
    paid = {}
    for profile in profiles.values():
        payer = payers.get(profile.id.namespace)
        paid[profile.id] = profile if payer is None else replace(profile, budget=payer.id)
    return paid


# --- runs and pods --------------------------------------------------------------------------------------------------


def _pods_of_jobs(pods: Mapping[ObjectKey, JobPod | ForeignPod]) -> _PodsOfJobs:
    """The pods that are controlled by a batch/v1 Job, by that Job."""
    controlled: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for key, pod in pods.items():
        if isinstance(pod, JobPod):
            controlled[key.namespace, pod.controller_uid].append(pod.pod)
    return {job: tuple(its_pods) for job, its_pods in controlled.items()}


def _run_parts(
    runs: Mapping[ObjectKey, tuple[JobId, Run]], pods: _PodsOfJobs, warnings: Mapping[str, str]
) -> _RunParts:
    """The runs of each job, each with its pods and the last warning about it."""
    parts: dict[_Owner, tuple[tuple[Run, tuple[Pod, ...]], ...]] = {}
    for key, (job, run) in runs.items():
        if not run.owned:
            continue
        owner = _Owner(key.namespace, job)
        warned = replace(run, warning=warnings[run.uid]) if run.uid in warnings else run
        parts[owner] = (*parts.get(owner, ()), (warned, pods.get((key.namespace, run.uid), ())))
    return parts


def _with_pods(parts: tuple[tuple[Run, tuple[Pod, ...]], ...]) -> tuple[Run, ...]:
    """The runs of one job in order, their pods in order."""
    runs = (replace(run, pods=tuple(sorted(pods, key=lambda pod: (pod.index, pod.uid)))) for run, pods in parts)
    return tuple(sorted(runs, key=lambda run: run.number))


def _owners_of_runs(jobs: Mapping[ObjectKey, DecodedJob]) -> frozenset[_Owner]:
    return frozenset(_Owner(key.namespace, decoded.job.id) for key, decoded in jobs.items())


def _orphans(
    runs: Mapping[ObjectKey, tuple[JobId, Run]],
    owners: frozenset[_Owner],
    problems: Sequence[Problem],
    payers: Mapping[str, Budget],
) -> tuple[Orphan, ...]:
    """Runs of jobs that are gone: not those of a job that is there and cannot be read."""
    unread = {(problem.namespace, problem.name) for problem in problems if problem.kind == "TrainingJob"}
    orphans = []
    for key, (job, run) in runs.items():
        if _Owner(key.namespace, job) not in owners:
            payer = payers.get(key.namespace)
            orphan = Orphan(job, key.namespace, None if payer is None else payer.id, run)
            if (key.namespace, orphan.job_name) not in unread:
                orphans.append(orphan)
    return tuple(orphans)


# --- nodes ----------------------------------------------------------------------------------------------------------


def _foreign_gpus(
    pods: Mapping[ObjectKey, JobPod | ForeignPod],
    runs: Mapping[ObjectKey, tuple[JobId, Run]],
    owners: frozenset[_Owner],
) -> Mapping[NodeName, int]:
    """The GPUs of each node that are not free for runs: of other pods, and of pods that outlive their run's object.

    ``owners``: the TrainingJobs that are there. Deleting a run's object in the background removes it at once, and its
    pods live on until the garbage collector comes to them.
    """
    present = {
        (key.namespace, run.uid)
        for key, (job, run) in runs.items()
        if run.owned and _Owner(key.namespace, job) in owners
    }
    foreign: dict[NodeName, int] = defaultdict(int)
    for key, pod in pods.items():
        if isinstance(pod, ForeignPod):
            foreign[pod.node] += pod.gpus
        elif (key.namespace, pod.controller_uid) not in present and pod.pod.live and pod.pod.node is not None:
            foreign[pod.pod.node] += pod.pod.gpus
    return foreign


def _nodes(nodes: Mapping[ObjectKey, Node], foreign: Mapping[NodeName, int]) -> Mapping[NodeName, Node]:
    return {
        node.name: replace(node, foreign_gpus=foreign[node.name]) if node.name in foreign else node
        for node in nodes.values()
    }
