"""Joining what is seen, cluster and clouds, into one Snapshot. Pure: the same sight gives the same snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from charterer.api.decode import ForeignPod, OwnPod
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.job_work import total_work
from charterer.controller.snapshot.payers import payers_of
from charterer.domain.budget import Budget
from charterer.domain.errors import Problem
from charterer.domain.ids import ClassId, JobId, NodeName, PoolId
from charterer.domain.job import TRUSTED_FRACTION, Job, Orphan, Pod, Progress, Run
from charterer.domain.pool import Instance, Pool, PriceSegment, Quote, Survey
from charterer.domain.profile import Profile
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import Instant, seconds_between

_NEVER = Instant(2**63)
_QUOTE_RECORDED_SECONDS = 3600.0
"""Seconds after which an unchanged quote is recorded again, for its time: one write of a pool an hour costs nothing."""
_Parts = tuple[object, ...]
_Name = TypeVar("_Name")
_Item = TypeVar("_Item")
_OwnPods = Mapping[tuple[JobId, int], list[Pod]]


@dataclass(slots=True)
class ObservationCache:
    """What the last look joined: a thing of which no part has changed is handed over as the same object again.

    Losing it costs time, never truth. ``jobs`` are with their parts and the instant from which on they stay as they
    are; ``runs`` with the runs and pods they were joined from. ``types``: the pools' GPU types, by which
    work is reckoned.
    """

    jobs: dict[JobId, tuple[_Parts, Instant, Job]] = field(default_factory=dict)
    runs: dict[JobId, tuple[_Parts, tuple[Run, ...]]] = field(default_factory=dict)
    pools: Mapping[PoolId, Pool] = field(default_factory=dict)
    types: Mapping[PoolId, str | None] = field(default_factory=dict)
    profiles: Mapping[ClassId, Profile] = field(default_factory=dict)
    nodes: Mapping[NodeName, Node] = field(default_factory=dict)


def observe(seen: ClusterState, now: Instant, memory: ObservationCache | None = None) -> Snapshot:
    """One consistent view of everything at ``now``; the same with and without ``memory``."""
    memory = ObservationCache() if memory is None else memory
    memory.pools = pools = _kept(memory.pools, {pool.id: _with_offer(pool, seen) for pool in seen.pools.values()})
    payers = payers_of(seen)
    profiles = _kept(memory.profiles, {profile.id: _paid(profile, payers) for profile in seen.profiles.values()})
    memory.profiles = profiles
    pods = _own_pods(seen)
    memory.runs = runs = _runs_by_job(seen, pods, memory.runs)
    types = {name: None if pool.offering is None else pool.offering.gpu_type for name, pool in pools.items()}
    known = memory.jobs if memory.types == types else {}
    memory.types = types
    memory.jobs = joined = _jobs(seen, runs, payers, profiles, pools, known, now)
    jobs = {name: job for name, (_, _, job) in joined.items()}
    memory.nodes = nodes = _kept(memory.nodes, _nodes(seen, pods, runs.keys() & jobs.keys()))
    return Snapshot(
        now=now,
        budgets={budget.id: budget for budget in seen.budgets.values()},
        pools=pools,
        surveys={pool: _priced(pools[pool], survey) for pool, survey in seen.surveys.items() if pool in pools},
        profiles=profiles,
        jobs=jobs,
        rentals={rental.id: rental for rental in seen.rentals.values()},
        nodes=nodes,
        problems=(*seen.problems, *_without_profile(seen, jobs, profiles)),
        orphans=tuple(_orphans(seen, jobs, payers)),
    )


def _kept(before: Mapping[_Name, _Item], now: Mapping[_Name, _Item]) -> Mapping[_Name, _Item]:
    """Things of now; those that are equal to what they were before are the same objects."""
    return {name: old if (old := before.get(name)) == new and old is not None else new for name, new in now.items()}


def _jobs(
    seen: ClusterState,
    runs: Mapping[JobId, tuple[_Parts, tuple[Run, ...]]],
    payers: Mapping[str, Budget],
    profiles: Mapping[ClassId, Profile],
    pools: Mapping[PoolId, Pool],
    before: Mapping[JobId, tuple[_Parts, Instant, Job]],
    now: Instant,
) -> dict[JobId, tuple[_Parts, Instant, Job]]:
    """Every job joined with what is known of it elsewhere."""
    services = frozenset(seen.services.values())
    weights = {budget.id: dict(budget.weights) for budget in payers.values()}
    found = {}
    for decoded in seen.jobs.values():
        job = decoded.job
        budget, profile = payers.get(job.namespace), profiles.get(job.class_id)
        weight = 1.0 if budget is None else weights[budget.id].get(decoded.priority_class, 1.0)
        own = runs.get(job.id, _NO_RUNS)[1]
        parts = (
            decoded,
            None if budget is None else budget.id,
            weight,
            own,
            seen.progress.get(job.id),
            job.id in services,
            seen.refusals.get(job.id, ""),
            profile,
        )
        known = before.get(job.id)
        if known is None or known[0] != parts or known[1] > now:
            refusal = seen.refusals.get(job.id, "")
            joined = replace(
                job,
                budget=None if budget is None else budget.id,
                weight=weight,
                runs=own,
                progress=_progress(job, seen.progress),
                has_service=job.id in services,
                invalid=job.invalid or refusal or "",
                checking=refusal is None,
            )
            known = parts, _same_from(joined, now), replace(joined, remaining=_remaining(joined, profile, pools, now))
        found[job.id] = known
    return found


def _same_from(job: Job, now: Instant) -> Instant:
    """From when on time alone does not change what is known of the job: never, where its report is of the future."""
    since = Instant(0) if job.allocation is None else job.allocation.since
    heard = since if job.progress is None else max(since, job.progress.at)
    return heard if heard <= now else _NEVER


def _without_profile(
    seen: ClusterState, jobs: Mapping[JobId, Job], profiles: Mapping[ClassId, Profile]
) -> Iterable[Problem]:
    """Problems of jobs whose profile does not exist."""
    return [
        _no_profile(jobs[decoded.job.id], decoded.profile_name, seen.problems)
        for decoded in seen.jobs.values()
        if decoded.profile_name and decoded.job.class_id not in profiles
    ]


# --- pools ----------------------------------------------------------------------------------------------------------


def _with_offer(pool: Pool, seen: ClusterState) -> Pool:
    """The pool with what its cloud said last, or else with what was recorded of that."""
    survey, quote = seen.surveys.get(pool.id), seen.quotes.get(pool.id)
    if quote is not None:
        quote = replace(quote, price=pool.priced(quote.price), worst=pool.priced(quote.worst))
    offering = pool.offering if survey is None else survey.offering
    recorded = offering == pool.offering and (quote is None or _quoted_alike(quote, pool.quote))
    return replace(pool, offering=offering, quote=quote or pool.quote, offer_recorded=recorded)


def _quoted_alike(quote: Quote, recorded: Quote | None) -> bool:
    """Whether the recorded quote is the same, and not so old that it looks like a price that nobody confirms."""
    if recorded is None or seconds_between(recorded.as_of, quote.as_of) >= _QUOTE_RECORDED_SECONDS:
        return False
    return replace(quote, as_of=recorded.as_of) == recorded


def _priced(pool: Pool, survey: Survey) -> Survey:
    """The survey with the bill's segments at what the user really pays."""
    if pool.price_override is None and not pool.price_adjustment:
        return survey
    return replace(survey, instances=tuple(_repriced(pool, instance) for instance in survey.instances))


def _repriced(pool: Pool, instance: Instance) -> Instance:
    segments = tuple(PriceSegment(one.since, pool.priced(one.price)) for one in instance.segments)
    return replace(instance, segments=segments)


def _paid(profile: Profile, payers: Mapping[str, Budget]) -> Profile:
    payer = payers.get(profile.id.namespace)
    return profile if payer is None else replace(profile, budget=payer.id)


# --- runs and what is left -------------------------------------------------------------------------------------------


_NO_RUNS: tuple[_Parts, tuple[Run, ...]] = ((), ())


def _own_pods(seen: ClusterState) -> _OwnPods:
    """The pods of training jobs by job and number of the run."""
    pods: dict[tuple[JobId, int], list[Pod]] = defaultdict(list)
    for pod in seen.pods.values():
        if isinstance(pod, OwnPod):
            pods[pod.job, pod.pod.run].append(pod.pod)
    return pods


def _runs_by_job(
    seen: ClusterState, pods: _OwnPods, before: Mapping[JobId, tuple[_Parts, tuple[Run, ...]]]
) -> dict[JobId, tuple[_Parts, tuple[Run, ...]]]:
    parts: dict[JobId, list[tuple[Run, list[Pod]]]] = defaultdict(list)
    for owner, run in seen.runs.values():
        parts[owner].append((run, pods.get((owner, run.number), [])))
    found = {}
    for owner, raw in parts.items():
        known, seen_as = before.get(owner), tuple(raw)
        if known is None or known[0] != seen_as:
            runs = (replace(run, pods=tuple(sorted(own, key=lambda pod: (pod.index, pod.uid)))) for run, own in raw)
            known = seen_as, tuple(sorted(runs, key=lambda run: run.number))
        found[owner] = known
    return found


def _orphans(seen: ClusterState, jobs: Mapping[JobId, Job], payers: Mapping[str, Budget]) -> Iterable[Orphan]:
    """Runs of jobs that are gone: not those of a job that is there and cannot be read."""
    unread = {(one.namespace, one.name) for one in seen.problems if one.kind == "TrainingJob"}
    for key, (owner, run) in seen.runs.items():
        if owner not in jobs:
            payer = payers.get(key.namespace)
            orphan = Orphan(owner, key.namespace, None if payer is None else payer.id, run)
            if (key.namespace, orphan.job_name) not in unread:
                yield orphan


def _progress(job: Job, heard: Mapping[JobId, Progress]) -> Progress | None:
    recent = heard.get(job.id)
    if recent is None or (job.progress is not None and job.progress.at > recent.at):
        return job.progress
    return recent


def _remaining(job: Job, profile: Profile | None, pools: Mapping[PoolId, Pool], now: Instant) -> float | None:
    """Expected work left, in seconds of the reference option.

    Far enough along, the job's own progress tells its size: done / fraction. Before that its class's mean does, less
    the part reported as done; a job that says nothing has its class's mean left, however old (no more is known).
    """
    mean = None if profile is None else profile.mean_work
    fraction = None if job.progress is None else job.progress.fraction
    if fraction is None:
        return mean
    if fraction >= TRUSTED_FRACTION:
        total = total_work(job, profile, pools, fraction, now)
        if total > 0.0:
            return total * (1 - fraction)
    return None if mean is None else mean * (1 - fraction)


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


# --- nodes ----------------------------------------------------------------------------------------------------------


def _nodes(seen: ClusterState, own: _OwnPods, owners: Collection[JobId]) -> Mapping[NodeName, Node]:
    """The nodes with the GPUs that are not free for runs: of other pods, and of pods that outlive their Job.

    ``owners``: jobs with runs in sight. Deleting a Job in the background removes it at once, and its pods live on until
    the garbage collector comes to them.
    """
    foreign: dict[NodeName, int] = defaultdict(int)
    for pod in seen.pods.values():
        if isinstance(pod, ForeignPod):
            foreign[pod.node] += pod.gpus
    in_sight = {(owner, run.number) for owner, run in seen.runs.values() if owner in owners}
    for run in own.keys() - in_sight:
        for left in own[run]:
            if left.live and left.node is not None:
                foreign[left.node] += left.gpus
    return {
        node.name: replace(node, foreign_gpus=foreign[node.name]) if node.name in foreign else node
        for node in seen.nodes.values()
    }
