"""Joining what is known of cluster and clouds into one Snapshot. Pure: the same state gives the same snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

from charterer.api.decode import DecodedJob, JobPod, with_published
from charterer.cluster.store import ObjectKey
from charterer.controller.known_pools import first_come, known_pools, listed_twice, machines_of
from charterer.controller.snapshot.by_id import budgets_by_id, pool_sets_by_id, pools_by_id, rentals_by_id
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.doubts import Suspicion, doubts, not_believed, rented_nodes, suspicions
from charterer.controller.snapshot.job_work import remaining_work
from charterer.controller.snapshot.node_notices import node_notices, with_notices
from charterer.controller.snapshot.paid_prices import paid, recorded_segments
from charterer.controller.snapshot.payers import overlaps_of, pay_nowhere, payers_of
from charterer.controller.snapshot.pools.correlated_pools import with_correlated_launches
from charterer.controller.snapshot.pools.hazards import with_hazards
from charterer.controller.snapshot.pools.node_traits import refused_nodes, seen_traits, shown_by
from charterer.controller.snapshot.pools.offers import at_terms_of, trusted, with_offer
from charterer.controller.snapshot.pools.refusal_scope import with_refusals_in_scope
from charterer.controller.snapshot.problems import (
    with_contradicting_variants,
    with_misleading_variables,
    without_profile,
    without_weight,
)
from charterer.controller.snapshot.queues import in_its_queue, of_multikueue, without_entrypoint
from charterer.controller.snapshot.runs import (
    OwnedRun,
    PodController,
    PodsOfController,
    adoption_problems,
    candidates,
    controller_of_pod,
    is_there,
    job_of,
    not_for_runs,
    own_runs,
    placed_by_deleted,
    pod_order,
    run_order,
    targets_by_job,
    with_pods,
)
from charterer.domain.budget import Budget
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, ClassId, JobId, NodeName, PoolId
from charterer.domain.job import Job, Run
from charterer.domain.jobs.run_names import job_of_run
from charterer.domain.jobs.target import Target
from charterer.domain.nodes.demands import AnyOf, NodeDemands
from charterer.domain.pool import Pool, Survey
from charterer.domain.profile import Profile
from charterer.domain.reasons.facts_of_nodes import RefusedPod
from charterer.domain.reports.bottleneck import Bottleneck, of_run
from charterer.domain.reports.progress import Progress
from charterer.domain.snapshot import Node, Orphan, Snapshot
from charterer.domain.time import Instant
from charterer.incremental import Memo

_MINUTE = 60_000_000
"""A minute of the operator's clock, in microseconds."""
_ENDLESS = Instant(2**63)
"""Later than every time on record."""


def observe(state: ClusterState, now: Instant, memo: Memo | None = None) -> Snapshot:
    """One consistent view of everything at ``now``.

    With a memo, whatever has not changed since its last turn is the same object again.
    """
    memo = Memo() if memo is None else memo
    with memo.turn():
        return _observed(state, now, memo)


def _observed(state: ClusterState, now: Instant, memo: Memo) -> Snapshot:
    payers = memo(payers_of, state.budgets, state.namespaces)
    pools = memo.stable(_pools(state, now, memo), "pools")
    profiles = memo.stable(memo(_paid, state.profiles, payers), "profiles")
    decoded = memo(_by_id, state.jobs)
    elsewhere = memo.stable(memo(of_multikueue, state.checks), "elsewhere")
    waiting = memo.stable(memo(without_entrypoint, state.waiting), "waiting")
    targets = [
        memo.each(in_its_queue, kind, elsewhere, waiting, name=place) for place, kind in enumerate(state.targets)
    ]
    adopted = memo(targets_by_job, decoded, *targets)
    own = memo(own_runs, state.runs, decoded, adopted, state.warnings, state.departed)
    pods = memo.grouped(controller_of_pod, pod_order, state.pods)
    runs = memo.grouped(job_of, run_order, memo.each(with_pods, (own, pods)))
    trials, services = memo(_trials, state.refusals), memo(_with_service, state.services, decoded)
    clocks = {job.id: now for job in _ahead(state, now)} or _NO_CLOCKS
    nodes = memo.stable(memo(rented_nodes, state.rentals, state.budgets, pools), "rented")
    suspected = memo.each(suspicions, (decoded, clocks), payers, nodes)
    volumes = memo(_volumes, state.volumes)
    joined = decoded, runs, state.progress, trials, volumes, services, clocks, suspected, state.findings.by_job, adopted
    parts = memo.stable(memo.each(_job_parts, joined, memo(_weights, payers), profiles), "jobs")
    jobs = memo.each(_joined, parts, _gpu_types(pools))
    foreign = memo(_sum_by_node, memo.each(not_for_runs, (pods, own)))
    left = memo.stable({each: pods[each] for each in memo(placed_by_deleted, *targets) if each in pods}, "left")
    refused = memo(_refused_by_node, memo.each(_refused_pods, runs))
    return Snapshot(
        now=now,
        budgets=memo(budgets_by_id, state.budgets),
        pools=pools,
        surveys=_surveys(state, pools, memo),
        profiles=profiles,
        jobs=jobs,
        rentals=memo(rentals_by_id, state.rentals),
        nodes=memo.stable(
            memo(_nodes, memo(with_published, state.nodes, state.published_gpus), foreign, refused), "nodes"
        ),
        problems=(
            *state.problems,
            *without_profile(state, jobs, profiles),
            *memo(without_weight, state.jobs, payers),
            *memo(with_misleading_variables, state.jobs),
            *memo(with_contradicting_variants, jobs, profiles),
            *memo(not_believed, jobs),
            *memo(adoption_problems, jobs),
        ),
        orphans=_with_their_pods(memo(_orphans, state.runs, decoded, state.problems, payers), pods),
        overlaps=memo(overlaps_of, state.budgets, state.namespaces),
        pays_nowhere=memo(pay_nowhere, state.budgets, state.namespaces),
        unread_nodes=memo(_unread_nodes, state.runs, pods, state.problems),
        stop=state.stop,
        limits=state.limits,
        pool_sets=memo(pool_sets_by_id, state.pool_sets),
        declared_pools=memo(pools_by_id, state.pools),
        slow_nodes=state.findings.slow_nodes,
        cost_recording=state.cost_recording,
        candidates=memo(candidates, adopted, payers, left, *targets),
    )


# --- jobs -----------------------------------------------------------------------------------------------------------


class _JobParts(NamedTuple):
    """All that a job is joined from.

    ``refusal``: as in ClusterState, empty where the template was accepted. ``volumes``: as there.
    ``profiles``: of its ``classes``. ``clock``: see ``_ahead``.
    """

    decoded: DecodedJob
    budget: BudgetId | None
    weight: float
    runs: tuple[Run, ...]
    progress: Progress | None
    has_service: bool
    refusal: str | None
    volumes: tuple[AnyOf, ...] | None
    profiles: tuple[Profile | None, ...]
    clock: Instant | None
    suspected: tuple[Suspicion, ...]
    bottlenecks: tuple[Bottleneck, ...]
    adopted: Target | None


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


def _by_id(jobs: Mapping[ObjectKey, DecodedJob]) -> Mapping[JobId, DecodedJob]:
    return {decoded.job.id: decoded for decoded in jobs.values()}


def _with_service(services: Mapping[ObjectKey, JobId], decoded: Mapping[JobId, DecodedJob]) -> Mapping[JobId, bool]:
    """The jobs that have their Service: one in another namespace is not theirs, whatever it says."""
    return {job: True for key, job in services.items() if is_there(job, key.namespace, decoded)}


def _trials(refusals: Mapping[JobId, str | None]) -> Mapping[JobId, tuple[str | None]]:
    """The refusals, each in a tuple: to ``Memo.each`` None is a job without an entry."""
    return {job: (refusal,) for job, refusal in refusals.items()}


def _volumes(
    volumes: Mapping[JobId, tuple[AnyOf, ...] | None],
) -> Mapping[JobId, tuple[tuple[AnyOf, ...] | None]]:
    """The same for what jobs' volumes ask."""
    return {job: (terms,) for job, terms in volumes.items()}


def _weights(payers: Mapping[str, Budget]) -> Mapping[str, tuple[BudgetId, Mapping[str, float]]]:
    """The budget that pays for each namespace, and its weights of priority classes."""
    return {namespace: (budget.id, dict(budget.weights)) for namespace, budget in payers.items()}


def _job_parts(
    decoded: DecodedJob,
    runs: tuple[OwnedRun, ...] | None,
    progress: Progress | None,
    trial: tuple[str | None] | None,
    volumes: tuple[tuple[AnyOf, ...] | None] | None,
    has_service: bool | None,
    clock: Instant | None,
    suspected: tuple[Suspicion, ...] | None,
    bottlenecks: tuple[Bottleneck, ...] | None,
    adopted: Target | None,
    payers: Mapping[str, tuple[BudgetId, Mapping[str, float]]],
    profiles: Mapping[ClassId, Profile],
) -> _JobParts:
    """The facts of a job that other objects hold."""
    job = decoded.job
    budget, weights = payers.get(job.namespace, (None, {}))
    return _JobParts(
        decoded,
        budget,
        weights.get(decoded.priority_class, 1.0),
        tuple([run for _, run in runs or ()]),
        progress,
        bool(has_service),
        "" if trial is None else trial[0],
        () if volumes is None else volumes[0],
        tuple([profiles.get(class_id) for class_id in job.classes]),
        clock,
        suspected or (),
        bottlenecks or (),
        adopted,
    )


def _joined(parts: _JobParts, gpu_types: tuple[tuple[PoolId, str], ...]) -> Job:
    """The job with its parts; ``gpu_types`` of the pools, by which work is measured."""
    job = parts.decoded.job
    by_itself = None if parts.adopted is None or parts.adopted.job != job.id else parts.adopted.progress
    progress = _latest(_latest(job.progress, parts.progress), by_itself)
    if progress is not job.progress:
        job = replace(job, progress=progress)
    now = _ENDLESS if parts.clock is None else parts.clock
    return replace(
        job,
        budget=parts.budget,
        weight=parts.weight,
        remaining=remaining_work(job, parts.profiles, dict(gpu_types), now),
        runs=parts.runs,
        has_service=parts.has_service,
        invalid=job.invalid or parts.refusal or "",
        checking=parts.refusal is None or (parts.volumes is None and job.allocation is None),
        demands=reduce(NodeDemands.also, parts.volumes or (), job.demands),
        doubts=doubts(job, parts.runs, parts.suspected) if parts.suspected else (),
        bottlenecks=of_run(parts.bottlenecks, 0 if job.allocation is None else job.allocation.run),
        adopted=parts.adopted,
    )


def _gpu_types(pools: Mapping[PoolId, Pool]) -> tuple[tuple[PoolId, str], ...]:
    return tuple((name, pool.offering.gpu_type) for name, pool in pools.items() if pool.offering is not None)


def _latest(recorded: Progress | None, reported: Progress | None) -> Progress | None:
    return recorded if reported is None or (recorded is not None and recorded.at > reported.at) else reported


# --- pools and profiles ----------------------------------------------------------------------------------------------


def _pools(state: ClusterState, now: Instant, memo: Memo) -> Mapping[PoolId, Pool]:
    """The pools with their offers, what the refusals of others say of them, and how soon their nodes are taken back."""
    unread = frozenset([problem.name for problem in state.problems if problem.kind == "GPUPool"])
    declared = memo(known_pools, state.pools, state.rentals, unread)
    shown = memo.stable(memo.each(shown_by, state.nodes), "shown")
    refused = memo(refused_nodes, state.jobs)
    seen = memo(seen_traits, shown, state.rentals, refused, now // _MINUTE)
    offered = {name: with_offer(at_terms_of(pool, now), state, seen.get(name)) for name, pool in declared.items()}
    machines = memo.stable(memo.each(machines_of, state.surveys), "machines")
    acting = first_come(offered, memo(listed_twice, machines))
    reached = with_correlated_launches(with_refusals_in_scope(acting, state.rentals.values()))
    return with_hazards(reached, state.rentals.values(), now, memo)


def _surveys(state: ClusterState, pools: Mapping[PoolId, Pool], memo: Memo) -> Mapping[PoolId, Survey]:
    """The surveys of the pools with the notices on Nodes, at the prices that the user pays."""
    notices, prices = memo(node_notices, state.nodes, state.rentals), memo(recorded_segments, state.rentals)
    noticed = {name: with_notices(survey, notices.get(name, ())) for name, survey in state.surveys.items()}
    return {
        name: paid(pools[name], survey, prices, trusted(pools[name], state.quotes.get(name)))
        for name, survey in noticed.items()
        if name in pools
    }


def _paid(profiles: Mapping[ObjectKey, Profile], payers: Mapping[str, Budget]) -> Mapping[ClassId, Profile]:
    """The profiles by class, each with the budget that pays for its namespace."""
    paid = {}
    for profile in profiles.values():
        payer = payers.get(profile.id.namespace)
        paid[profile.id] = profile if payer is None else replace(profile, budget=payer.id)
    return paid


# --- runs and pods --------------------------------------------------------------------------------------------------


def _orphans(
    runs: Mapping[ObjectKey, OwnedRun],
    decoded: Mapping[JobId, DecodedJob],
    problems: Sequence[Problem],
    payers: Mapping[str, Budget],
) -> tuple[Orphan, ...]:
    """Runs of jobs that are gone: not those of a job that is there and cannot be read."""
    unread = {(problem.namespace, problem.name) for problem in problems if problem.kind == "TrainingJob"}
    orphans = []
    for key, (job, run) in runs.items():
        if not is_there(job, key.namespace, decoded):
            payer = payers.get(key.namespace)
            orphan = Orphan(job, key.namespace, None if payer is None else payer.id, run)
            if (key.namespace, job_of_run(run.name, run.number)) not in unread:
                orphans.append(orphan)
    return tuple(orphans)


def _with_their_pods(
    orphans: tuple[Orphan, ...], pods: Mapping[PodController | None, PodsOfController]
) -> tuple[Orphan, ...]:
    """The orphans, those in deletion with their pods."""
    if not any(orphan.run.deleting for orphan in orphans):
        return orphans
    return tuple(
        [
            replace(item, run=with_pods((item.job, item.run), pods.get(PodController(item.namespace, item.run.uid)))[1])
            if item.run.deleting
            else item
            for item in orphans
        ]
    )


def _unread_nodes(
    runs: Mapping[ObjectKey, OwnedRun],
    pods: Mapping[PodController | None, PodsOfController],
    problems: Sequence[Problem],
) -> frozenset[NodeName]:
    """Nodes with live pods of runs of TrainingJobs that are there and cannot be read."""
    unread = {(problem.namespace, problem.name) for problem in problems if problem.kind == "TrainingJob"}
    if not unread:
        return frozenset()
    theirs = [
        pod.pod
        for key, (_, run) in runs.items()
        if run.owned and (key.namespace, job_of_run(run.name, run.number)) in unread
        for pod in pods.get(PodController(key.namespace, run.uid), ())
        if isinstance(pod, JobPod)
    ]
    return frozenset([pod.node for pod in theirs if pod.live and pod.node is not None])


# --- nodes ----------------------------------------------------------------------------------------------------------


def _sum_by_node(held: Mapping[PodController | None, tuple[tuple[NodeName, int], ...]]) -> Mapping[NodeName, int]:
    foreign: dict[NodeName, int] = defaultdict(int)
    for gpus_of_nodes in held.values():
        for node, gpus in gpus_of_nodes:
            foreign[node] += gpus
    return foreign


def _refused_pods(runs: tuple[OwnedRun, ...]) -> tuple[RefusedPod, ...]:
    return tuple([RefusedPod.of(pod) for _, run in runs for pod in run.pods if pod.refused])


def _refused_by_node(refused: Mapping[JobId, tuple[RefusedPod, ...]]) -> Mapping[NodeName, str]:
    """What each node refused; of several pods the first by name."""
    found = [(pod.node, pod.words) for pods in refused.values() for pod in pods]
    return dict(sorted(found, reverse=True))


def _nodes(
    nodes: Mapping[ObjectKey, Node], foreign: Mapping[NodeName, int], refused: Mapping[NodeName, str]
) -> Mapping[NodeName, Node]:
    return {
        node.name: replace(node, foreign_gpus=foreign.get(node.name, 0), refused=refused.get(node.name, ""))
        if node.name in foreign or node.name in refused
        else node
        for node in nodes.values()
    }
