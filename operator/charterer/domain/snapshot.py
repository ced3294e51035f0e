"""The snapshot: everything that planning and the life cycles know at one instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from charterer.domain.budget import Budget
from charterer.domain.cost_row import NO_RECORDING, CostRecording
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, ClassId, JobId, NodeName, PoolId, PoolSetId, RentalId
from charterer.domain.job import Job, Run
from charterer.domain.money import Money, Price
from charterer.domain.node_demands import NO_TRAITS, NodeTaint, NodeTraits
from charterer.domain.option import GPU
from charterer.domain.pod import Pod
from charterer.domain.pool import Pool, Survey
from charterer.domain.pool_set import PoolSet
from charterer.domain.profile import Profile
from charterer.domain.rental import Rental
from charterer.domain.target import Target
from charterer.domain.time import Instant, after

LOST_AFTER_SECONDS = 30.0
"""Seconds without readiness after which a node is given up: as long as Kubernetes lets a run's pods stay there."""


@dataclass(frozen=True, slots=True)
class Departure:
    """The announced end of a Node's machine. ``why``: the words on the Node. ``certain``: False if the end is only
    possible.

    ``broken``: the machine is not taken back, but its GPUs are broken.
    """

    why: str
    certain: bool = True
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A Kubernetes Node. ``run_labels``: its ``run.charterer.dev/*`` labels. ``foreign_gpus``: GPUs of other pods.

    ``gpus``: its whole NVIDIA GPUs. ``others``: its other extended resources by name, such as MIG slices, places on
    shared GPUs, GPUs of other makers, and devices that are no GPUs. ``gpus`` and ``others`` count what pods may use.
    ``not_ready_since``: since when its kubelet is silent or reports trouble; None while it is ready. ``departure``: its
    end as others announced it on the Node. ``taints``: taints that keep pods off the node. ``refused``: the pod of a
    run that its kubelet refused and that still exists, with the kubelet's words; the node then gets no more pods.
    ``traits``: what the scheduler may also see of other nodes of its pool. ``machine``: the UUID of the machine as its
    kubelet reports it; empty if it does not. ``cordoned_for``: the uid of the rental for which Charterer made it
    unschedulable.
    """

    name: NodeName
    uid: str
    provider_id: str
    ready: bool
    unschedulable: bool
    deleting: bool
    gpus: int
    foreign_gpus: int
    run_labels: Mapping[str, str]
    not_ready_since: Instant | None = None
    departure: Departure | None = None
    taints: tuple[NodeTaint, ...] = ()
    others: Mapping[str, int] = field(default_factory=dict)
    refused: str = ""
    traits: NodeTraits = NO_TRAITS
    machine: str = ""
    cordoned_for: str = ""

    @property
    def ending(self) -> bool:
        """Whether the node is being deleted, or its machine is to be ended. Nothing more is written to such a node."""
        return self.deleting or bool(self.cordoned_for)

    def count(self, resource: str) -> int:
        """The number of its GPUs or slices of this resource, free or not."""
        return self.gpus if resource == GPU else self.others.get(resource, 0)

    @property
    def lost_at(self) -> Instant | None:
        """When the node is given up if it stays not ready; None while it is ready."""
        return None if self.not_ready_since is None else after(self.not_ready_since, LOST_AFTER_SECONDS)

    def lost(self, now: Instant) -> bool:
        """Whether the node is given up: its pods may not respond any more, so that only ending its machine surely stops
        them."""
        return self.lost_at is not None and now >= self.lost_at


class Stop(StrEnum):
    """How a person stopped the operator. RENT: no more nodes are rented. DRAIN: rented nodes are also ended."""

    RENT = "rent"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class OperatorLimits:
    """Limits of all pools together: the number of nodes, and the sum of their worst prices per hour.

    None means no limit.
    """

    nodes: int | None = None
    hourly: Price | None = None


NO_LIMITS: Final = OperatorLimits()


@dataclass(frozen=True, slots=True)
class Orphan:
    """A run whose TrainingJob no longer exists. ``budget`` pays for its namespace; None if no budget does.

    Its pods are known only if its object is being deleted, because the object's controller then leaves them alone.
    """

    job: JobId
    namespace: str
    budget: BudgetId | None
    run: Run


@dataclass(frozen=True, slots=True)
class AdoptionCandidate:
    """A labelled object without a TrainingJob. ``budget`` pays for its namespace; None if no budget does.

    ``pods``: the pods of its last run, if the object is being deleted and its controller leaves them alone.
    """

    target: Target
    budget: BudgetId | None
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent view of the cluster and the clouds. Its mappings are immutable (``controller.snapshot.observe``).

    ``now``: the operator's clock. ``surveys``: the cloud of a pool without an entry has not answered yet, and nothing
    is rented or ended there. ``problems``: errors found while joining objects. ``orphans``: runs of jobs that no longer
    exist. ``overlaps``: a sentence for each budget that selects a namespace together with another one.
    ``pays_nowhere``: a sentence for each budget that pays for no namespace and has no child that could.
    ``unread_nodes``: nodes with live pods of runs whose TrainingJobs are unreadable. ``stop``: None unless a person
    stopped the operator. ``real_amounts``: the real amounts of budgets that are planned with another amount for
    comparison. Arrival rates follow from the real amounts. ``declared_pools``: the readable pools as their objects
    declare them. ``unplanned``: budgets that the plan leaves out; their money still counts under the limits of their
    parents.
    ``slow_nodes``: nodes that slowed a run and have not been found healthy since. ``cost_recording``: the state of the
    record of costs. ``candidates``: labelled objects without a TrainingJob. ``not_adopted``: the kinds of object that
    the operator's owner excludes from adoption.
    """

    now: Instant
    budgets: Mapping[BudgetId, Budget]
    pools: Mapping[PoolId, Pool]
    surveys: Mapping[PoolId, Survey]
    profiles: Mapping[ClassId, Profile]
    jobs: Mapping[JobId, Job]
    rentals: Mapping[RentalId, Rental]
    nodes: Mapping[NodeName, Node]
    problems: tuple[Problem, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    overlaps: Mapping[BudgetId, str] = field(default_factory=dict)
    pays_nowhere: Mapping[BudgetId, str] = field(default_factory=dict)
    unread_nodes: frozenset[NodeName] = frozenset()
    stop: Stop | None = None
    limits: OperatorLimits = NO_LIMITS
    real_amounts: Mapping[BudgetId, Money] = field(default_factory=dict)
    pool_sets: Mapping[PoolSetId, PoolSet] = field(default_factory=dict)
    declared_pools: Mapping[PoolId, Pool] = field(default_factory=dict)
    unplanned: Mapping[BudgetId, Budget] = field(default_factory=dict)
    slow_nodes: frozenset[RentalId] = frozenset()
    cost_recording: CostRecording = NO_RECORDING
    candidates: tuple[AdoptionCandidate, ...] = ()
    not_adopted: frozenset[str] = frozenset()

    def unread_rental(self, pool: PoolId) -> Problem | None:
        """The problem of an unreadable GPURental whose name is one of the pool's; None without any.

        The machine of such a rental is unknown. So nothing is rented in the pool, and no machine there counts as
        unclaimed.
        """
        problems = (problem for problem in self.problems if problem.kind == "GPURental")
        return next((problem for problem in problems if problem.name.startswith(f"{pool}-")), None)

    def pools_of(self, budget: Budget) -> Mapping[PoolId, Pool]:
        """The pools that the budget may rent from: those it selects, without those committed to other budgets.

        A budget without money gets only the pools whose nodes cost nothing, if there are any.
        """
        pools = {
            name: pool
            for name, pool in self.pools.items()
            if budget.pool_selector.matches(pool.labels)
            and (pool.committed is None or pool.committed.budget == budget.id)
        }
        free = {name: pool for name, pool in pools.items() if pool.costs_nothing} if budget.penniless else {}
        return free or pools

    def needs_money(self, budget: Budget) -> bool:
        """Whether the budget has no money and no pool whose nodes cost nothing."""
        return budget.penniless and not any(pool.costs_nothing for pool in self.pools_of(budget).values())

    @property
    def committed_pools(self) -> frozenset[PoolId]:
        """The pools whose nodes are paid for whether used or not."""
        return frozenset([name for name, pool in self.pools.items() if pool.committed is not None])

    @property
    def ever_committed(self) -> frozenset[PoolId]:
        """``committed_pools``, and the pools whose objects declare a commitment that has ended."""
        ended = [name for name, pool in self.declared_pools.items() if pool.committed is not None]
        return self.committed_pools | frozenset(ended)

    def committed_to(self, budget: Budget) -> Mapping[PoolId, Pool]:
        """The open pools of which the budget pays for all nodes, used or not."""
        pools = self.pools_of(budget).items()
        return {name: pool for name, pool in pools if pool.committed is not None and not pool.closed_because}

    @property
    def known_budgets(self) -> Mapping[BudgetId, Budget]:
        """All budgets, including those that the plan leaves out."""
        return {**self.budgets, **self.unplanned} if self.unplanned else self.budgets

    @property
    def gpu_types(self) -> Mapping[PoolId, str]:
        """The GPU types of the pools whose offering is known."""
        return {name: pool.offering.gpu_type for name, pool in self.pools.items() if pool.offering is not None}
