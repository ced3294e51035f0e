"""The objects of a small world for rentals: a group of a cloud, Nodes and pods, and what Charterer and people write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from charterer.clouds.fake import FakeGroup
from charterer.cluster.store import ObjectKey
from charterer.controller.surveys import Reading, TrustedClock, first_come, known_pools, listed_twice, machines_of
from charterer.domain.budget import Budget
from charterer.domain.cost_row import CostRecording, CostRow
from charterer.domain.ids import InstanceId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import Job, RunOutcome, RunRecord
from charterer.domain.money import ZERO, Money, total
from charterer.domain.pod import PodPhase
from charterer.domain.pool import NO_LAUNCHES, Pool, Survey
from charterer.domain.rental import Gang, Rental, RentalPhase
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import Instant, after
from tests import factory as make
from tests.property.lifecycle.rented_cloud import BOOT, NEW_YEARS_EVE, Cloud

T = TypeVar("T", bound="Objects")

RENAMED = make.pool(id=PoolId("renamed"), uid="renamed-uid", cloud=FakeGroup("http://cloud.example:8080", "g"))
"""A second pool of the same group, which only the cloud's own name of the group tells."""


@dataclass
class Objects:
    """The cloud, the objects in the API server, and what the operator was last told of the cloud."""

    cloud: Cloud = field(default_factory=Cloud)
    budget: Budget = field(default_factory=lambda: make.budget(balance=None, created=NEW_YEARS_EVE))
    budget_gone: bool = False
    former_ledgers: Money = ZERO
    """What budgets of the same name that are gone had paid."""
    pools: dict[PoolId, Pool] = field(default_factory=lambda: {make.POOL: make.pool(launches=NO_LAUNCHES)})
    rentals: dict[RentalId, Rental] = field(default_factory=dict)
    jobs: dict[JobId, Job] = field(default_factory=dict)
    surveys: dict[PoolId, Survey] = field(default_factory=dict)
    created: int = 0
    """Objects that were created, so that each has a uid of its own."""
    adopted: dict[InstanceId, str] = field(default_factory=dict)
    folded: list[str] = field(default_factory=list)
    lifetimes: set[tuple[PoolId, str]] = field(default_factory=set)
    """Rentals of which the record of a pool that is there has counted how long the node lived."""
    estimated: bool = False
    waived: set[InstanceId] = field(default_factory=set)
    """Machines whose rentals a person deleted after their budget had gone, so that nobody pays."""
    dies_after_asking: bool = False
    """The operator ends between the cloud's answer and the record of it, and between a file of costs and its marks."""
    cost_files: list[Sequence[CostRow]] = field(default_factory=list)
    """The record of costs."""
    full: bool = False
    """The place of the record of costs takes nothing."""
    wrong_by: float = 0.0
    server_wrong: bool = False
    hurried: bool = False
    """A period was ended without waiting for the cloud any longer."""
    cheapened: bool = False
    """A bill fell after its period had ended: the price fell within the billing minimum. A part is never negative."""

    def copied(self: T) -> T:
        """Another world that is the same now. What it has in common with this one is never changed."""
        other = copy(self)
        other.cloud = self.cloud.copied()
        for name, value in vars(self).items():
            if isinstance(value, dict | list | set):
                setattr(other, name, copy(value))
        return other

    def now(self) -> Instant:
        """What the operator takes for the time, while its own clock or the API server's may be wrong."""
        true = self.cloud.now
        others = [Reading(true, 0.0), Reading(after(true, self.wrong_by if self.server_wrong else 0.0), 0.0)]
        own = true if self.server_wrong else after(true, self.wrong_by)
        return TrustedClock(lambda: own, lambda: 0.0, lambda: others).now()

    # --- what the operator sees ---------------------------------------------------------------------------------------

    def look(self, behind: float = 0, *, only: PoolId | None = None) -> None:
        """Ask the cloud about all pools, or one. Answers never go back in time, lists may."""
        for name in self._known():
            if only in (None, name):
                self.surveys[name] = self.cloud.survey(behind, name)

    def look_once_wrongly(self, every: int) -> None:
        """The cloud's answers lack all but each so-manieth machine."""
        self.look()
        self.surveys = {
            name: replace(survey, instances=survey.instances[every - 1 :: every])
            for name, survey in self.surveys.items()
        }

    def _known(self) -> Mapping[PoolId, Pool]:
        pools = {ObjectKey("", name): pool for name, pool in self.pools.items()}
        known = known_pools(pools, {ObjectKey("", name): rental for name, rental in self.rentals.items()})
        self.surveys = {name: survey for name, survey in self.surveys.items() if name in known}
        return first_come(
            {
                name: replace(pool, offering=self.surveys[name].offering) if name in self.surveys else pool
                for name, pool in known.items()
            },
            listed_twice({name: machines_of(survey.instances) for name, survey in self.surveys.items()}),
        )

    def nodes(self) -> Mapping[NodeName, Node]:
        found = {}
        now = self.cloud.now
        for machine in self.cloud.machines:
            cleared = machine.ends is not None and not machine.silent and now >= after(machine.ends, 30)
            if now >= after(machine.launched, BOOT) and not cleared and not machine.node_gone:
                node = make.node(machine.name, ready=not machine.ended(now), unschedulable=machine.cordoned)
                found[node.name] = node
        return found

    def snapshot(self) -> Snapshot:
        pools = self._known().values()
        budgets = () if self.budget_gone else (self.budget,)
        jobs, rentals, nodes = self.jobs.values(), self.rentals.values(), self.nodes().values()
        objects = *budgets, *pools, *self.surveys.values(), *jobs, *rentals, *nodes
        seen = make.snapshot(*objects, now=self.now(), bare=True)
        return replace(seen, cost_recording=CostRecording("memory"))

    # --- what the planner and people do -------------------------------------------------------------------------------

    def rent(self, gang: Gang | None = None) -> None:
        """In the pool that acts; nothing where none does, or nobody pays."""
        pool = next((pool for pool in self._known().values() if not pool.closed_because), None)
        if pool is None or self.budget_gone or self.budget.deleting:
            return
        name = RentalId(f"{pool.id}-{self.created + 1}")
        self.create_rental(name, pool=pool.id, cloud=pool.cloud, gang=gang)

    def create_rental(self, name: RentalId, **about: Any) -> None:
        """Its uid is no other's, whatever was of that name before."""
        self.created += 1
        self.rentals[name] = make.rental(name, uid=f"uid-{self.created}", created=self.cloud.now, **about)

    def write(self, rental: Rental, **changes: Any) -> None:
        version = str(int(rental.resource_version) + 1)
        self.rentals[rental.id] = replace(rental, resource_version=version, **changes)

    def release(self, name: str) -> None:
        rental = self.rentals[RentalId(name)]
        if rental.phase not in (RentalPhase.ENDED, RentalPhase.DRAINING):
            self.write(rental, phase=RentalPhase.DRAINING, released_because="not needed", released=self.now())

    def delete(self, name: str) -> None:
        """A person asks for it; its finalizer keeps it for now."""
        self.write(self.rentals[RentalId(name)], deleting=True)

    def resize(self, name: str, most: int) -> None:
        """A person edits ``maxNodes``."""
        pool = self.pools[PoolId(name)]
        self.pools[pool.id] = replace(pool, max_nodes=most)

    def delete_pool(self, name: str) -> None:
        """A person asks for it; its finalizer, if it has one, keeps it for now."""
        pool = self.pools[PoolId(name)]
        if pool.guarded:
            self.pools[pool.id] = replace(pool, deleting=True, deleted=self.cloud.now)
        else:
            self.tear_out(name)

    def tear_out(self, name: str) -> None:
        """A pool's object goes, with its record."""
        self.pools.pop(PoolId(name), None)
        self.lifetimes = {counted for counted in self.lifetimes if counted[0] != name}

    def delete_budget(self) -> None:
        """A person asks for it; its finalizer, if it has one, keeps it for now."""
        if self.budget.guarded:
            version = str(int(self.budget.resource_version) + 1)
            self.budget = replace(self.budget, deleting=True, resource_version=version)
        else:
            self.budget_goes()

    def budget_goes(self) -> None:
        """Its object goes, with its ledger."""
        self.budget_gone, self.former_ledgers = True, self.ledger()

    def create_budget(self) -> None:
        """Another one of the same name."""
        self.created += 1
        about: dict[str, Any] = {"uid": f"uid-{self.created}", "created": self.cloud.now}
        about["calendar"] = self.budget.calendar
        self.budget, self.budget_gone = make.budget(balance=None, guarded=False, **about), False

    def start_pod(self, name: RentalId) -> None:
        """A job's pod, on the rental's node if that is ready for pods."""
        rental = self.rentals[name]
        node = None if rental.node is None else self.nodes().get(rental.node)
        if rental.phase is RentalPhase.READY and node is not None and node.ready and not node.unschedulable:
            title = f"job{len(self.jobs)}"
            pod = make.pod(job=title, node=node.name)
            job = make.job(title, allocation=make.allocation(name), runs=(make.run(1, pod, job=title),), last_run=1)
            self.jobs[job.id] = job

    def change_pod(self, job: JobId, changes: dict[str, Any]) -> None:
        known = self.jobs[job]
        pods = tuple(replace(pod, **changes) for pod in known.runs[0].pods)
        self.jobs[job] = replace(known, runs=(replace(known.runs[0], pods=pods),))

    def finish_pod(self, job: JobId) -> None:
        if any(pod.live for pod in self.jobs[job].runs[0].pods):
            self.change_pod(job, {"phase": PodPhase.SUCCEEDED, "finished": self.cloud.now})

    def record(self, job: JobId) -> None:
        known = self.jobs[job]
        if known.allocation is None or any(pod.live for pod in known.runs[0].pods):
            return
        past = known.allocation
        outcome = RunOutcome.STOPPED
        record = RunRecord(1, outcome, past.option, past.placements, past.since, self.cloud.now, "")
        self.jobs[job] = replace(known, allocation=None, records=(record,))

    # --- the truth ----------------------------------------------------------------------------------------------------

    def ledger(self) -> Money:
        """What budgets of this name have paid for all rentals that are folded."""
        balance = None if self.budget_gone else self.budget.balance
        return self.former_ledgers if balance is None else self.former_ledgers + balance.lifetime

    def on_record(self) -> Money:
        """What the record of costs tells: of each part of a rental the highest version."""
        parts: dict[tuple[str, int], dict[int, Money]] = defaultdict(dict)
        for rows in self.cost_files:
            for part, version in {((row.rental_uid, row.part), row.version) for row in rows}:
                same = (row.cost for row in rows if (row.rental_uid, row.part, row.version) == (*part, version))
                parts[part][version] = total(same)
        return total(versions[max(versions)] for versions in parts.values())

    def bill(self) -> Money:
        """Of every machine ever launched."""
        return Money(sum(machine.bill(self.cloud.now) for machine in self.cloud.machines))
