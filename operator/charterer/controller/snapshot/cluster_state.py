"""All inputs of a snapshot at one moment, before the joins: the store's objects, surveys, dry runs and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from charterer.api.decode import DecodedCheck, DecodedJob, DecodedNamespace, ForeignPod, JobPod, PublishedGpus
from charterer.cluster import kinds
from charterer.cluster.store import ObjectKey, Store
from charterer.domain.budget import Budget
from charterer.domain.cost_row import NO_RECORDING, CostRecording
from charterer.domain.errors import Problem
from charterer.domain.ids import JobId, PoolId
from charterer.domain.job import Run, StartWarnings
from charterer.domain.node_demands import AnyOf
from charterer.domain.pool import Pool, Quote, Survey
from charterer.domain.pool_set import PoolSet
from charterer.domain.profile import Profile
from charterer.domain.rental import Rental
from charterer.domain.reports import Findings, Progress
from charterer.domain.snapshot import NO_LIMITS, Node, OperatorLimits, Stop
from charterer.domain.target import Target
from charterer.workloads import ADOPTED, INDEXED_JOB, QUEUED_RAY_JOBS
from charterer.workloads.adopted.ray_job import WaitingRayJob


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The objects of the watched kinds, and the reports of other sources.

    A mapping of the store in which nothing has changed is the same object as in the state before. ``refusals``: why the
    dry run refused a job's template, or None while the dry run goes on. ``progress``: a job's last report. ``volumes``:
    what a job's volumes require of its nodes, or None while they are looked up. ``findings``: the bottlenecks of runs.
    ``departed``: by uid, pods that were last seen in deletion with an exit code and do not exist any more.
    ``warnings``: by the uid of its object, the last Warning Events about a run that starts late. ``stop``: how the
    operator is stopped. ``limits``: the operator's own. ``published_gpus``: the nodes' GPUs as DRA drivers publish
    them. ``cost_recording``: the state of the record of costs. ``targets``: the objects that may be adopted, one
    mapping a kind. ``not_adopted``: those kinds that the operator's owner excludes from adoption. ``checks``: the
    AdmissionChecks of Kueue's queues. ``waiting``: RayJobs of these queues whose entrypoints do not run yet.
    """

    jobs: Mapping[ObjectKey, DecodedJob]
    profiles: Mapping[ObjectKey, Profile]
    budgets: Mapping[ObjectKey, Budget]
    pools: Mapping[ObjectKey, Pool]
    rentals: Mapping[ObjectKey, Rental]
    runs: Mapping[ObjectKey, tuple[JobId, Run]]
    pods: Mapping[ObjectKey, JobPod | ForeignPod]
    nodes: Mapping[ObjectKey, Node]
    namespaces: Mapping[ObjectKey, DecodedNamespace]
    services: Mapping[ObjectKey, JobId]
    problems: tuple[Problem, ...]
    surveys: Mapping[PoolId, Survey]
    quotes: Mapping[PoolId, Quote]
    refusals: Mapping[JobId, str | None]
    progress: Mapping[JobId, Progress]
    warnings: Mapping[str, StartWarnings] = field(default_factory=dict)
    volumes: Mapping[JobId, tuple[AnyOf, ...] | None] = field(default_factory=dict)
    departed: Mapping[str, JobPod | ForeignPod] = field(default_factory=dict)
    stop: Stop | None = None
    limits: OperatorLimits = NO_LIMITS
    pool_sets: Mapping[ObjectKey, PoolSet] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)
    published_gpus: Mapping[ObjectKey, PublishedGpus] = field(default_factory=dict)
    cost_recording: CostRecording = NO_RECORDING
    targets: tuple[Mapping[ObjectKey, Target], ...] = ()
    checks: Mapping[ObjectKey, DecodedCheck] = field(default_factory=dict)
    waiting: Mapping[ObjectKey, WaitingRayJob] = field(default_factory=dict)
    not_adopted: frozenset[str] = frozenset()


def cluster_state(
    store: Store,
    *,
    surveys: Mapping[PoolId, Survey],
    quotes: Mapping[PoolId, Quote],
    refusals: Mapping[JobId, str | None],
    progress: Mapping[JobId, Progress],
    warnings: Mapping[str, StartWarnings],
    volumes: Mapping[JobId, tuple[AnyOf, ...] | None],
    findings: Findings,
    namespace: str = "",
    limits: OperatorLimits = NO_LIMITS,
    cost_recording: CostRecording = NO_RECORDING,
    not_adopted: frozenset[str] = frozenset(),
) -> ClusterState:
    """The store's objects now, with the other inputs as given. ``namespace``: the operator's own."""
    view = store.view
    state = ClusterState(
        jobs=view(kinds.TRAINING_JOBS).objects,
        profiles=view(kinds.SPEEDUP_PROFILES).objects,
        budgets=view(kinds.GPU_BUDGETS).objects,
        pools=view(kinds.GPU_POOLS).objects,
        rentals=view(kinds.GPU_RENTALS).objects,
        runs=view(INDEXED_JOB.kind).objects,
        pods=view(kinds.PODS).objects,
        nodes=view(kinds.NODES).objects,
        namespaces=view(kinds.NAMESPACES).objects,
        services=view(kinds.SERVICES).objects,
        problems=tuple(chain.from_iterable(view(kind).problems.values() for kind in store.kinds)),
        surveys=surveys,
        quotes=quotes,
        refusals=refusals,
        progress=progress,
        warnings=warnings,
        volumes=volumes,
        departed=view(kinds.PODS).departed,
        limits=limits,
        pool_sets=view(kinds.GPU_POOL_SETS).objects,
        findings=findings,
        published_gpus=view(kinds.RESOURCE_SLICES).objects,
        cost_recording=cost_recording,
        targets=tuple([view(target.kind).objects for target in ADOPTED]),
        checks=view(kinds.ADMISSION_CHECKS).objects,
        waiting=view(QUEUED_RAY_JOBS).objects,
        not_adopted=not_adopted,
    )
    return stopped_in(state, namespace)


def stopped_in(state: ClusterState, namespace: str) -> ClusterState:
    """The state, with ``stop`` from the annotation of the operator's ``namespace``."""
    own = state.namespaces.get(ObjectKey("", namespace))
    return state if own is None else replace(state, stop=own.stop)
