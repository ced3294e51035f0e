"""The snapshot: all that planning and life cycles may know at one instant."""

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
    """That a Node's machine goes away, in the words ``why`` of whoever wrote it on the Node; or may go away.

    ``broken``: nobody takes it back, but its GPUs are not fit for work.
    """

    why: str
    certain: bool = True
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A Kubernetes Node. ``run_labels``: its ``run.charterer.dev/*`` labels. ``foreign_gpus``: GPUs of pods not ours.

    ``gpus``: NVIDIA's. ``slices``: its MIG slices, places on shared GPUs and other makers' GPUs, by the names of their
    resources. Both count what pods may use.
    ``not_ready_since``: since when its kubelet is silent or reports trouble; None while it is ready. ``departure``:
    what others wrote on it of its end. ``taints``: those that keep pods off. ``refused``: the pod of a run that its
    kubelet refused, for as long as that pod is there, with the kubelet's words; it takes no more pods. ``traits``: what
    others of its pool may show the scheduler, too. ``machine``: the UUID of the machine whose kubelet speaks for
    it, empty where it tells none. ``cordoned_for``: uid of the rental for which Charterer has made it unschedulable.
    """

    name: NodeName
    uid: str
    resource_version: str
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
    slices: Mapping[str, int] = field(default_factory=dict)
    refused: str = ""
    traits: NodeTraits = NO_TRAITS
    machine: str = ""
    cordoned_for: str = ""

    @property
    def ending(self) -> bool:
        """Whether it is being deleted, or its machine is to be ended: nothing more is written on it."""
        return self.deleting or bool(self.cordoned_for)

    def count(self, resource: str) -> int:
        """Its GPUs or slices of this name, free or not."""
        return self.gpus if resource == GPU else self.slices.get(resource, 0)

    @property
    def lost_at(self) -> Instant | None:
        """When the node is given up, if it does not become ready before."""
        return None if self.not_ready_since is None else after(self.not_ready_since, LOST_AFTER_SECONDS)

    def lost(self, now: Instant) -> bool:
        """Whether its pods can no longer be relied on or asked to stop, so that only ending the machine is certain."""
        return self.lost_at is not None and now >= self.lost_at


class Stop(StrEnum):
    """How a person has stopped the operator. RENT: nothing more is rented. DRAIN: what is rented is ended, too."""

    RENT = "rent"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class OperatorLimits:
    """Limits of all pools together, whatever budgets and pools allow: nodes, and dollars an hour at worst prices.

    None: no limit.
    """

    nodes: int | None = None
    hourly: Price | None = None


NO_LIMITS: Final = OperatorLimits()


@dataclass(frozen=True, slots=True)
class Orphan:
    """A run whose TrainingJob no longer exists. ``budget`` pays for its namespace; None if none does.

    Its pods are known if its object is being deleted, whose controller leaves them alone.
    """

    job: JobId
    namespace: str
    budget: BudgetId | None
    run: Run


@dataclass(frozen=True, slots=True)
class AdoptionCandidate:
    """A labelled object for which no TrainingJob stands. ``budget`` pays for its namespace; None if none does.

    ``pods``: of the last run that it carried, if it is being deleted: its controller leaves them alone.
    """

    target: Target
    budget: BudgetId | None
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent view of everything; its mappings are never changed (``controller.snapshot.observe`` builds it).

    ``now`` is the operator's clock. The cloud of a pool without an entry in ``surveys`` has not answered yet, and
    nothing is rented or ended there. ``problems``: mistakes found while joining objects. ``orphans``: runs of jobs that
    no longer exist. ``overlaps``: a sentence for each budget that selects a namespace together with another one.
    ``pays_nowhere``: a sentence for each budget that pays for no namespace, and is above none that could.
    ``unread_nodes``: nodes with live pods of runs whose TrainingJobs cannot be read. ``stop``: None unless a person has
    stopped the operator. ``real_amounts``: of budgets whose real amount is compared with another one; how many jobs
    come follows from the real one in both. ``declared_pools``: the pools whose objects are there and can be read, as
    they were read. ``unplanned``: budgets that the plan is made without; their money counts under the limits of their
    parents. ``slow_nodes``: those that held a run up and have not been found well since. ``cost_recording``: the
    record of costs. ``candidates``: labelled objects for which no TrainingJob stands.
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

    def unread_rental(self, pool: PoolId) -> Problem | None:
        """The problem of a GPURental of the pool, by its name, whose object is there and cannot be read.

        Nobody knows which machine is its, so nothing is rented in the pool and no machine there counts as unclaimed.
        """
        problems = (problem for problem in self.problems if problem.kind == "GPURental")
        return next((problem for problem in problems if problem.name.startswith(f"{pool}-")), None)

    def pools_of(self, budget: Budget) -> Mapping[PoolId, Pool]:
        """The pools that the budget's money may rent: those it selects, without those that another one pays for.

        Of a budget without any money those whose nodes cost nothing, if there are any.
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
        """Whether the budget has no money at all, and no pool that it could use without."""
        return budget.penniless and not any(pool.costs_nothing for pool in self.pools_of(budget).values())

    @property
    def committed_pools(self) -> frozenset[PoolId]:
        """The pools whose nodes are paid for whether they are used or not."""
        return frozenset([name for name, pool in self.pools.items() if pool.committed is not None])

    @property
    def ever_committed(self) -> frozenset[PoolId]:
        """The same with those whose objects name a commitment that has ended."""
        ended = [name for name, pool in self.declared_pools.items() if pool.committed is not None]
        return self.committed_pools | frozenset(ended)

    def committed_to(self, budget: Budget) -> Mapping[PoolId, Pool]:
        """The pools of which the budget pays for all nodes, used or not."""
        pools = self.pools_of(budget).items()
        return {name: pool for name, pool in pools if pool.committed is not None and not pool.closed_because}

    @property
    def known_budgets(self) -> Mapping[BudgetId, Budget]:
        """All budgets, also those that are not planned."""
        return {**self.budgets, **self.unplanned} if self.unplanned else self.budgets

    @property
    def gpu_types(self) -> Mapping[PoolId, str]:
        """The GPU types of the pools whose offering is known."""
        return {name: pool.offering.gpu_type for name, pool in self.pools.items() if pool.offering is not None}
