"""Joining what is seen, cluster and clouds, into one Snapshot. Pure: the same sight gives the same snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from purser.api.decode import DecodedJob, ForeignPod, OwnPod
from purser.cluster.store import ObjectKey
from purser.controller.size import total_work
from purser.domain.budget import Budget, Selector
from purser.domain.errors import Problem
from purser.domain.ids import JobId, NodeName, PoolId
from purser.domain.job import Job, Pod, Progress, Run
from purser.domain.pool import Instance, Pool, PriceSegment, Quote, Survey
from purser.domain.profile import Profile
from purser.domain.rental import Rental
from purser.domain.snapshot import Node, Snapshot
from purser.domain.time import Instant

TRUSTED_FRACTION = 0.05
"""From this part of the work on, a job's own progress says more about its size than its class does."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is known at one moment, as it came.

    ``refusals``: why a template was refused, by job, None while it is being tried. ``progress``: the last report heard.
    """

    jobs: Mapping[ObjectKey, DecodedJob]
    profiles: Mapping[ObjectKey, Profile]
    budgets: Mapping[ObjectKey, Budget]
    pools: Mapping[ObjectKey, Pool]
    rentals: Mapping[ObjectKey, Rental]
    runs: Mapping[ObjectKey, tuple[JobId, Run]]
    pods: Mapping[ObjectKey, OwnPod | ForeignPod]
    nodes: Mapping[ObjectKey, Node]
    namespaces: Mapping[ObjectKey, tuple[str, Mapping[str, str]]]
    services: Mapping[ObjectKey, JobId]
    problems: tuple[Problem, ...]
    surveys: Mapping[PoolId, Survey]
    quotes: Mapping[PoolId, Quote]
    refusals: Mapping[JobId, str | None]
    progress: Mapping[JobId, Progress]


def observe(seen: Seen, now: Instant) -> Snapshot:
    """One consistent view of everything at ``now``."""
    pools = {pool.id: _with_offer(pool, seen) for pool in seen.pools.values()}
    payers = payers_of(seen)
    profiles = {profile.id: _paid(profile, payers) for profile in seen.profiles.values()}
    runs = _runs_by_job(seen)
    services = frozenset(seen.services.values())
    jobs: dict[JobId, Job] = {}
    problems = list(seen.problems)
    for decoded in seen.jobs.values():
        budget = payers.get(decoded.job.namespace)
        job = replace(
            decoded.job,
            budget=None if budget is None else budget.id,
            weight=_weight(budget, decoded.priority_class),
            runs=runs.get(decoded.job.id, ()),
            progress=_progress(decoded.job, seen.progress),
            has_service=decoded.job.id in services,
            invalid=decoded.job.invalid or seen.refusals.get(decoded.job.id) or "",
            checking=seen.refusals.get(decoded.job.id, "") is None,
        )
        jobs[job.id] = replace(job, remaining=_remaining(job, profiles.get(job.class_id), pools, now))
        if decoded.profile_name and job.class_id not in profiles:
            problems.append(_no_profile(job, decoded.profile_name, seen.problems))
    return Snapshot(
        now=now,
        budgets={budget.id: budget for budget in seen.budgets.values()},
        pools=pools,
        surveys={pool: _priced(pools[pool], survey) for pool, survey in seen.surveys.items() if pool in pools},
        profiles=profiles,
        jobs=jobs,
        rentals={rental.id: rental for rental in seen.rentals.values()},
        nodes=_nodes(seen, frozenset(pod.uid for job in jobs.values() for run in job.runs for pod in run.pods)),
        problems=tuple(problems),
    )


# --- pools ----------------------------------------------------------------------------------------------------------


def _with_offer(pool: Pool, seen: Seen) -> Pool:
    survey, quote = seen.surveys.get(pool.id), seen.quotes.get(pool.id)
    if quote is not None:
        quote = replace(quote, price=pool.priced(quote.price), worst=pool.priced(quote.worst))
    return replace(pool, offering=survey.offering if survey else pool.offering, quote=quote or pool.quote)


def _priced(pool: Pool, survey: Survey) -> Survey:
    """The survey with the bill's segments at what the user really pays."""
    if pool.price_override is None and not pool.price_adjustment:
        return survey
    return replace(survey, instances=tuple(_repriced(pool, instance) for instance in survey.instances))


def _repriced(pool: Pool, instance: Instance) -> Instance:
    segments = tuple(PriceSegment(one.since, pool.priced(one.price)) for one in instance.segments)
    return replace(instance, segments=segments)


# --- who pays -------------------------------------------------------------------------------------------------------


def payers_of(seen: Seen) -> Mapping[str, Budget]:
    """By namespace: the oldest budget that selects it."""
    by_age = sorted(seen.budgets.values(), key=lambda budget: (budget.created, budget.id))
    payers: dict[str, Budget] = {}
    for name, labels in seen.namespaces.values():
        payer = next((budget for budget in by_age if selects(budget.selector, labels)), None)
        if payer is not None:
            payers[name] = payer
    return payers


def _paid(profile: Profile, payers: Mapping[str, Budget]) -> Profile:
    payer = payers.get(profile.id.partition("/")[0])
    return profile if payer is None else replace(profile, budget=payer.id)


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; all its terms must hold, and an empty one always does."""
    return all(labels.get(key) == value for key, value in selector.match_labels) and all(
        _holds(operator, values, labels.get(key)) for key, operator, values in selector.match_expressions
    )


def _holds(operator: str, values: tuple[str, ...], value: str | None) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            raise ValueError(f"no selector operator: {operator}")


def _weight(budget: Budget | None, priority_class: str) -> float:
    return 1.0 if budget is None else dict(budget.weights).get(priority_class, 1.0)


# --- runs and what is left -------------------------------------------------------------------------------------------


def _runs_by_job(seen: Seen) -> Mapping[JobId, tuple[Run, ...]]:
    pods: dict[tuple[JobId, int], list[Pod]] = defaultdict(list)
    for pod in seen.pods.values():
        if isinstance(pod, OwnPod):
            pods[pod.job, pod.pod.run].append(pod.pod)
    found: dict[JobId, list[Run]] = defaultdict(list)
    for owner, run in seen.runs.values():
        own = sorted(pods.get((owner, run.number), ()), key=lambda pod: (pod.index, pod.uid))
        found[owner].append(replace(run, pods=tuple(own)))
    return {owner: tuple(sorted(runs, key=lambda run: run.number)) for owner, runs in found.items()}


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
            "job report its batch size, then Purser creates it and learns"
        )
        reason = "ProfileNotFound"
    else:
        message = f"SpeedupProfile {name!r} cannot be used: {broken.field}: {broken.message}"
        reason = broken.reason
    message += f"; until then the job runs on {job.widths.preferred} GPUs"
    return Problem("TrainingJob", job.namespace, job.name, "spec.profileName", reason, message)


# --- nodes ----------------------------------------------------------------------------------------------------------


def _nodes(seen: Seen, known: frozenset[str]) -> Mapping[NodeName, Node]:
    """The nodes with the GPUs that are not free for runs: of other pods, and of pods that outlive their Job.

    ``known``: uids of the pods of runs in sight. Deleting a Job in the background removes it at once, and its pods live
    on until the garbage collector comes to them.
    """
    foreign: dict[NodeName, int] = defaultdict(int)
    for pod in seen.pods.values():
        match pod:
            case ForeignPod(node=node, gpus=gpus):
                foreign[node] += gpus
            case OwnPod(pod=own) if own.live and own.node is not None and own.uid not in known:
                foreign[own.node] += own.gpus
    return {
        node.name: replace(node, foreign_gpus=foreign[node.name]) if node.name in foreign else node
        for node in seen.nodes.values()
    }
