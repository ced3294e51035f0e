"""Join the state of cluster and clouds into one Snapshot. The function is pure: equal states give equal snapshots."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Final, NamedTuple

from charterer.api.decode import DecodedJob, JobPod, with_published
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.jobs import (
    remaining_work,
    with_contradicting_variants,
    with_misleading_variables,
    without_profile,
    without_weight,
)
from charterer.controller.snapshot.payers import overlaps_of, pay_nowhere, payers_of
from charterer.controller.snapshot.pools import (
    at_terms_of,
    refused_nodes,
    seen_traits,
    shown_by,
    trusted,
    with_correlated_launches,
    with_hazards,
    with_offer,
    with_refusals_in_scope,
)
from charterer.controller.snapshot.runs import (
    OwnedRun,
    PodController,
    PodsOfController,
    adoption_problems,
    candidates,
    controller_of_pod,
    counted,
    devices_of_nodes,
    in_its_queue,
    is_there,
    job_of,
    not_for_runs,
    of_multikueue,
    own_runs,
    placed_by_deleted,
    pod_order,
    run_order,
    targets_by_job,
    with_pods,
    without_entrypoint,
)
from charterer.controller.surveys import first_come, known_pools, listed_twice, machines_of
from charterer.domain.budget import Budget, JobShare, share_of
from charterer.domain.budget_tree import with_shares
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, ClassId, InstanceId, JobId, NodeName, PoolId, PoolSetId, RentalId
from charterer.domain.job import Allocation, Doubt, Job, Run
from charterer.domain.money import Money, Price
from charterer.domain.node_demands import AnyOf, NodeDemands
from charterer.domain.plan import ReasonCode
from charterer.domain.pod import job_of_run
from charterer.domain.pool import Instance, InstanceState, Notice, Pool, PriceSegment, Quote, Survey
from charterer.domain.pool_set import PoolSet
from charterer.domain.profile import Profile
from charterer.domain.reasons.nodes import RefusedPod
from charterer.domain.rental import Rental
from charterer.domain.reports import Bottleneck, Progress, of_run
from charterer.domain.snapshot import Node, Orphan, Snapshot
from charterer.domain.target import Target
from charterer.domain.time import Instant, after, format_second
from charterer.incremental import Memo
from charterer.lifecycle.view import NodeIndex, rivals_of

# Doubts about the allocations in the statuses of jobs.
#
# Charterer writes the allocations, but anybody with the right to update trainingjobs/status can write one too. An
# allocation that Charterer cannot have written holds no GPUs, and the job is planned anew. The check has one exception.
# If pods of the job's own run are on a node, the allocation there is not doubted, because these pods really hold their
# GPUs. The namespace of a running job may have moved to another budget, for example.


_AHEAD_SECONDS = 3600.0
"""Seconds by which the operator's clock may have been set back since an allocation was decided."""


class Suspicion(NamedTuple):
    """A doubt that is withdrawn if the job's own pods are on ``node``. ``node`` is None if no node ever came."""

    doubt: Doubt
    node: NodeName | None


class RentedNode(NamedTuple):
    """The facts of a rental by which allocations on the rental are judged.

    ``budget``: None if the budget does not exist or cannot be read now, so that nothing is planned for its node.
    ``gpus``: number of GPUs of the node. None if unknown.
    """

    budget: BudgetId | None
    node: NodeName | None
    gpus: int | None


def rented_nodes(
    rentals: Mapping[ObjectKey, Rental], budgets: Mapping[ObjectKey, Budget], pools: Mapping[PoolId, Pool]
) -> Mapping[RentalId, RentedNode]:
    """The facts of all rentals. An allocation that names a missing rental raises no suspicion, because the store may
    not have the rental yet.
    """
    sizes = {pool.id: pool.offering.gpus_per_node for pool in pools.values() if pool.offering is not None}
    known = {budget.id for budget in budgets.values()}
    return {
        rental.id: RentedNode(rental.budget if rental.budget in known else None, rental.node, sizes.get(rental.pool))
        for rental in rentals.values()
    }


def suspicions(
    decoded: DecodedJob, clock: Instant | None, payers: Mapping[str, Budget], nodes: Mapping[RentalId, RentedNode]
) -> tuple[Suspicion, ...]:
    """The suspicions about a job's allocations on rentals that the job cannot have.

    ``clock``: the present time if some time on the job's record is in the future, otherwise None.
    """
    job = decoded.job
    if job.allocation is None and not job.replaced:
        return ()
    payer = payers.get(job.namespace)
    limit = None if clock is None else after(clock, _AHEAD_SECONDS)
    named = job.replaced if job.allocation is None else (*job.replaced, job.allocation)
    return tuple(dict.fromkeys([found for allocation in named for found in _of(allocation, payer, nodes, limit)]))


def _of(
    allocation: Allocation, payer: Budget | None, nodes: Mapping[RentalId, RentedNode], limit: Instant | None
) -> Iterable[Suspicion]:
    held = Counter[RentalId]()
    for place in allocation.placements:
        held[place.rental] += place.takes
    for rental, gpus in held.items():
        rented = nodes.get(rental)
        if rented is None:
            continue
        if rented.budget is not None and (payer is None or rented.budget != payer.id):
            pays = "no GPUBudget pays" if payer is None else f"GPUBudget {payer.id} pays"
            why = f"GPURental {rental} belongs to GPUBudget {rented.budget}, and {pays} for the job's namespace"
        elif rented.gpus is not None and gpus > rented.gpus:
            why = f"it names {gpus} GPUs of GPURental {rental}, whose node has {rented.gpus}"
        elif limit is not None and allocation.since > limit:
            why = f"it was decided at {format_second(allocation.since)}, which is yet to come"
        else:
            continue
        yield Suspicion(Doubt(rental, f"the allocation of run {allocation.run} is not believed: {why}"), rented.node)


def doubts(job: Job, runs: Iterable[Run], suspected: tuple[Suspicion, ...]) -> tuple[Doubt, ...]:
    """The suspicions that remain. A suspicion about a node is dropped if a pod of the job's runs is on that node. Pods
    of a recorded run remove no doubt, because that run no longer holds its GPUs.
    """
    recorded = {record.number for record in job.records}
    nodes = {pod.node for run in runs if run.number not in recorded for pod in run.pods}
    return tuple(doubt for doubt, node in suspected if node is None or node not in nodes)


def not_believed(jobs: Mapping[JobId, Job]) -> Sequence[Problem]:
    """Problems of jobs whose allocations are not believed."""
    return [_problem(job) for job in jobs.values() if job.doubts]


def _problem(job: Job) -> Problem:
    message = f"{job.doubts[0].why}; it holds no GPUs, and the job is planned anew"
    field, reason = "status.allocation", ReasonCode.NOT_BELIEVED.value
    return Problem("TrainingJob", job.namespace, job.name, field, reason, message)


# A Node may announce the end of its machine, on any cloud. Such an announcement is a notice too.


def node_notices(
    nodes: Mapping[ObjectKey, Node], rentals: Mapping[ObjectKey, Rental]
) -> Mapping[PoolId, tuple[Notice, ...]]:
    """The notices of each pool's rented machines whose Nodes are about to leave or have broken GPUs."""
    leaving = {node.name: node for node in nodes.values() if node.departure is not None}
    if not leaving:
        return {}
    index = NodeIndex.of({node.name: node for node in nodes.values()}, rivals_of(rentals))
    found: dict[PoolId, list[Notice]] = defaultdict(list)
    for rental in rentals.values():
        node = None if rental.instance is None else index.of_rental(rental)
        if node is not None and node.departure is not None and rental.instance is not None:
            told, why = node.departure, f"{node.departure.why} on Node {node.name}"
            found[rental.pool].append(Notice(rental.instance, None, told.certain, why, told.broken))
    return {pool: tuple(notices) for pool, notices in found.items()}


def with_notices(survey: Survey, more: Iterable[Notice]) -> Survey:
    """The survey with further notices. If the cloud's own notice of a machine is certain, it takes precedence."""
    told = {notice.instance for notice in survey.notices if notice.certain}
    new = tuple(notice for notice in more if notice.instance not in told)
    return replace(survey, notices=(*survey.notices, *new)) if new else survey


# The prices of machines over time are the cloud's list prices, corrected by ``spec.price`` of the pool.
#
# A changed ``spec.price`` counts from the time of the change. Earlier prices are on the rental's record and stay. If
# the cloud does not report a machine's prices, a new segment begins when the quote changes.


class Recorded(NamedTuple):
    """The price segments on record by machine. The key is the provider id together with the instance's id: a later
    machine may have the same provider id, and another cloud the same instance's id. ``corrected``: whether any recorded
    price differs from the list price.
    """

    segments: Mapping[tuple[str, InstanceId | None], Sequence[PriceSegment]]
    corrected: bool


def recorded_segments(rentals: Mapping[ObjectKey, Rental]) -> Recorded:
    """The price segments of all rentals that have any."""
    known = (rental for rental in rentals.values() if rental.segments and rental.provider_id)
    segments = {(rental.provider_id, rental.instance): rental.segments for rental in known}
    return Recorded(segments, any(segment.listed is not None for own in segments.values() for segment in own))


def paid(pool: Pool, survey: Survey, recorded: Recorded, quote: Quote | None) -> Survey:
    """The survey with its segments at the prices that the user pays. ``quote``: the cloud's own."""
    as_listed = pool.price_override is None and not pool.price_adjustment and not recorded.corrected
    if as_listed and all(instance.segments for instance in survey.instances):
        return survey

    def as_paid(instance: Instance) -> Instance:
        known = recorded.segments.get((instance.provider_id, instance.id), ())
        listed = instance.segments or _quoted_segments(known, instance, quote)
        segments = _paid_segments(known, listed, pool, survey.asked)
        return instance if segments == instance.segments else replace(instance, segments=segments)

    instances = tuple(as_paid(instance) for instance in survey.instances)
    return survey if instances == survey.instances else replace(survey, instances=instances)


def _quoted_segments(
    recorded: Sequence[PriceSegment], instance: Instance, quote: Quote | None
) -> Sequence[PriceSegment]:
    """The list prices of a machine without prices from the cloud: the prices on record, followed by the quotes."""
    found = [PriceSegment(segment.since, segment.list_price) for segment in recorded]
    if quote is None or (found and instance.state is InstanceState.ENDED):
        return found
    quoted = [*quote.history, PriceSegment(quote.as_of, quote.price)]
    if not found:
        found = [PriceSegment(instance.launched, _at(quoted, instance.launched).price)]
    for segment in quoted:
        if segment.since > found[-1].since and segment.price != found[-1].price:
            found.append(PriceSegment(segment.since, segment.price))
    return found


def _paid_segments(
    recorded: Sequence[PriceSegment], listed: Sequence[PriceSegment], pool: Pool, now: Instant
) -> tuple[PriceSegment, ...]:
    """``listed`` at the prices that the user pays. A price on record stays as long as the cloud's list price for the
    same time stays.

    ``now``: the time of the cloud's list. A new correction of the list price counts from then.
    """
    if not listed:
        return tuple(recorded)
    if not recorded:
        return tuple(_segment(segment.since, segment.price, pool.priced(segment.price)) for segment in listed)
    known = [*listed, *_later_changes(recorded, listed[-1].since)]
    times = sorted({segment.since for segment in (*listed, *recorded)})
    found: list[PriceSegment] = []
    for since in times:
        list_price = _at(known, since).list_price
        before = _at(recorded, since)
        price = before.price if before.list_price == list_price else pool.priced(list_price)
        found.append(_segment(since, list_price, price))
    newest = found[-1].list_price
    if not pool.gone and pool.priced(newest) != found[-1].price and now > found[-1].since:
        found.append(_segment(now, newest, pool.priced(newest)))
    return tuple(found)


def _later_changes(recorded: Sequence[PriceSegment], since: Instant) -> Sequence[PriceSegment]:
    """The recorded changes of the list price that are later than ``since``. ``since`` is the start of the last segment
    in the cloud's list, which may lag.
    """
    changes = (two for one, two in pairwise(recorded) if one.list_price != two.list_price)
    return [change for change in changes if change.since > since]


def _at(segments: Sequence[PriceSegment], when: Instant) -> PriceSegment:
    """The segment that is valid at an instant, or the first one if the instant is before all segments."""
    return next((segment for segment in reversed(segments) if segment.since <= when), segments[0])


def _segment(since: Instant, list_price: Price, price: Price) -> PriceSegment:
    return PriceSegment(since, price, None if list_price == price else list_price)


# The store's objects of cluster-scoped kinds, by name.


def budgets_by_id(budgets: Mapping[ObjectKey, Budget]) -> Mapping[BudgetId, Budget]:
    """The budgets by id, each with its share of its parent's amount."""
    return with_shares({budget.id: budget for budget in budgets.values()})


def rentals_by_id(rentals: Mapping[ObjectKey, Rental]) -> Mapping[RentalId, Rental]:
    return {rental.id: rental for rental in rentals.values()}


def pools_by_id(pools: Mapping[ObjectKey, Pool]) -> Mapping[PoolId, Pool]:
    """The pools by id, as they were read."""
    return {pool.id: pool for pool in pools.values()}


def pool_sets_by_id(pool_sets: Mapping[ObjectKey, PoolSet]) -> Mapping[PoolSetId, PoolSet]:
    return {pool_set.id: pool_set for pool_set in pool_sets.values()}


_MINUTE = 60_000_000
"""A minute of the operator's clock, in microseconds."""
_ENDLESS = Instant(2**63)
"""An instant later than every time on record."""


def observe(state: ClusterState, now: Instant, memo: Memo | None = None) -> Snapshot:
    """One consistent snapshot of everything at ``now``.

    With a memo, each part that has not changed since the memo's last turn is the same object again.
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
    devices = memo.stable(memo(devices_of_nodes, state.rentals, pools), "devices")
    pods = memo.grouped(controller_of_pod, pod_order, memo.each(counted, state.pods, devices))
    runs = memo.grouped(job_of, run_order, memo.each(with_pods, (own, pods)))
    clocks = {job.id: now for job in _ahead(state, now)} or _NO_CLOCKS
    nodes = memo.stable(memo(rented_nodes, state.rentals, state.budgets, pools), "rented")
    suspected = memo.each(suspicions, (decoded, clocks), payers, nodes)
    sources = JobSources(
        decoded=decoded,
        runs=runs,
        progress=state.progress,
        refusals=state.refusals,
        volumes=state.volumes,
        services=memo(_services, state.services, decoded),
        clocks=clocks,
        suspected=suspected,
        bottlenecks=state.findings.by_job,
        adopted=adopted,
    )
    parts = memo.stable(
        memo.joined(_job_parts, sources, memo(_by_namespace, payers, state.cost_recording.users), profiles), "jobs"
    )
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
        not_adopted=state.not_adopted,
        pool_sets=memo(pool_sets_by_id, state.pool_sets),
        declared_pools=memo(pools_by_id, state.pools),
        slow_nodes=state.findings.slow_nodes,
        cost_recording=state.cost_recording,
        candidates=memo(candidates, adopted, payers, left, *targets),
    )


# --- jobs -----------------------------------------------------------------------------------------------------------


class JobSources(NamedTuple):
    """The facts about jobs, one mapping for each source. ``decoded`` has all jobs. Each other mapping has only some
    jobs.

    ``refusals``, ``volumes``: as in ClusterState. ``services``: the jobs that have their Service. ``clocks``: see
    ``_ahead``.
    """

    decoded: Mapping[JobId, DecodedJob]
    runs: Mapping[JobId, tuple[OwnedRun, ...]]
    progress: Mapping[JobId, Progress]
    refusals: Mapping[JobId, str | None]
    volumes: Mapping[JobId, tuple[AnyOf, ...] | None]
    services: Mapping[JobId, bool]
    clocks: Mapping[JobId, Instant]
    suspected: Mapping[JobId, tuple[Suspicion, ...]]
    bottlenecks: Mapping[JobId, tuple[Bottleneck, ...]]
    adopted: Mapping[JobId, Target]


class _Payer(NamedTuple):
    """The budget that pays for a namespace: its weights of priority classes, the default limit of a job's cost, and the
    shares of its money.
    """

    budget: BudgetId | None
    weights: Mapping[str, float]
    max_cost: Money | None
    shares: tuple[JobShare, ...]


_NOBODY: Final = _Payer(None, {}, None, ())


class _JobParts(NamedTuple):
    """All parts that a job is joined from.

    ``max_cost``: its budget's default. ``share``: of its budget's money. ``refusal``: as in ClusterState, or empty if
    the template was accepted. ``volumes``: as in ClusterState. ``profiles``: of the job's ``classes``. ``clock``: see
    ``_ahead``.
    """

    decoded: DecodedJob
    budget: BudgetId | None
    weight: float
    max_cost: Money | None
    share: str
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
    """Jobs with a recorded time that is in the future by this clock. The facts of such a job change as the clock
    advances, even if no object changes.
    """
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


def _services(services: Mapping[ObjectKey, JobId], decoded: Mapping[JobId, DecodedJob]) -> Mapping[JobId, bool]:
    """The jobs that have their Service. A Service in another namespace does not count, whichever job it names."""
    return {job: True for key, job in services.items() if is_there(job, key.namespace, decoded)}


def _by_namespace(payers: Mapping[str, Budget], users: bool) -> Mapping[str, _Payer]:
    """The fields of each namespace's budget that the jobs of the namespace need.

    ``users``: whether it is known who created a job. If it is not known, a share of a user has no jobs, because anybody
    could write any name into a job.
    """
    return {
        namespace: _Payer(
            budget.id,
            dict(budget.weights),
            budget.job_max_cost,
            tuple([share for share in budget.job_shares if users or share.user is None]),
        )
        for namespace, budget in payers.items()
    }


def _job_parts(
    sources: JobSources,
    name: JobId,
    payers: Mapping[str, _Payer],
    profiles: Mapping[ClassId, Profile],
) -> _JobParts:
    """The facts of a job, including those from other objects."""
    decoded = sources.decoded[name]
    payer = payers.get(decoded.job.namespace, _NOBODY)
    return _JobParts(
        decoded=decoded,
        budget=payer.budget,
        weight=payer.weights.get(decoded.priority_class, 1.0),
        max_cost=payer.max_cost,
        share=share_of(payer.shares, decoded.job.user, decoded.job.namespace, decoded.job.labels),
        runs=tuple([run for _, run in sources.runs.get(name, ())]),
        progress=sources.progress.get(name),
        has_service=sources.services.get(name, False),
        refusal=sources.refusals.get(name, ""),
        volumes=sources.volumes.get(name, ()),
        profiles=tuple([profiles.get(class_id) for class_id in decoded.job.classes]),
        clock=sources.clocks.get(name),
        suspected=sources.suspected.get(name, ()),
        bottlenecks=sources.bottlenecks.get(name, ()),
        adopted=sources.adopted.get(name),
    )


def _joined(parts: _JobParts, gpu_types: tuple[tuple[PoolId, str], ...]) -> Job:
    """The job with its parts. ``gpu_types``: by pool, to measure the job's work."""
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
        default_max_cost=parts.max_cost,
        share=parts.share,
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
    """The pools with their offers, the refusals that reach them from other pools, and their hazard."""
    unread = frozenset([problem.name for problem in state.problems if problem.kind == "GPUPool"])
    declared = memo(known_pools, state.pools, state.rentals, unread)
    shown = memo.stable(memo.each(shown_by, state.nodes), "shown")
    refused = memo(refused_nodes, state.jobs)
    seen = memo(seen_traits, shown, state.rentals, refused, now // _MINUTE)
    offered = {name: with_offer(at_terms_of(pool, now), state, seen.get(name)) for name, pool in declared.items()}
    listed = {name: survey.instances for name, survey in state.surveys.items()}
    machines = memo.stable(memo.each(machines_of, listed), "machines")
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
    """The runs of jobs that do not exist any more. Runs of jobs that exist but cannot be read are not included."""
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
    """The orphans, with the pods of those that are in deletion."""
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
    """The nodes with live pods of runs whose TrainingJobs exist but cannot be read."""
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
    """The refusal of each node. If the node refused several pods, the refusal of the pod that is first by name."""
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
