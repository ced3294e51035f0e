"""A small world for rentals: a group of a cloud with lag and healing, Nodes and pods, and the objects Charterer writes.

Its bill is computed from the machines' true lives, by the rule in docs/fakecloud.md but with arithmetic of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from charterer.cluster.store import ObjectKey
from charterer.controller.clock import Reading, TrustedClock
from charterer.controller.known_pools import first_come, known_pools
from charterer.domain.billing import accrued
from charterer.domain.budget import Balance, Budget
from charterer.domain.ids import InstanceId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import Job, Pod, PodPhase, RunOutcome, RunRecord
from charterer.domain.money import ZERO, Money
from charterer.domain.nodes.waits import NO_ANSWERS, with_start
from charterer.domain.order import with_cool_down
from charterer.domain.pool import (
    FakeGroup,
    Instance,
    Pool,
    Survey,
    acting_pool,
)
from charterer.domain.rental import Gang, Rental, RentalPhase, by_gang
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.steps import (
    AddCosts,
    Adopt,
    AskCloud,
    CloseUnfulfilled,
    Cool,
    Cordon,
    CountLifetime,
    DeleteNode,
    DeletePod,
    FailPod,
    Fold,
    Forget,
    MarkDraining,
    MarkEnded,
    MarkMissing,
    MarkReady,
    OpenPeriod,
    PruneFolded,
    RecordOffer,
    RecordOrphan,
    Refresh,
    Reopen,
    SetFinalizer,
    Step,
    Terminate,
    Withdraw,
)
from charterer.domain.time import Instant, after
from charterer.estimate.nodes.hazard import EndedNode, with_ended, without_rentals
from charterer.ledger.balance import StalePeriod, apply_fold, apply_open_period, apply_prune_folded
from charterer.ledger.costs import apply_costs
from tests import factory as make
from tests.property.lifecycle.rented_cloud import BOOT, NEW_YEARS_EVE, Cloud, Machine


class Stale(Exception):
    """The object a step was decided on has changed."""


RENAMED = make.pool(id=PoolId("renamed"), uid="renamed-uid", cloud=FakeGroup("http://cloud.example:8080", "g"))
"""A second pool of the same group, which only the cloud's own name of the group tells."""


@dataclass
class World:
    """The cloud, and the objects in the API server. ``execute`` is an executor without a network."""

    cloud: Cloud = field(default_factory=Cloud)
    budget: Budget = field(default_factory=lambda: make.budget(balance=None, created=NEW_YEARS_EVE))
    pools: dict[PoolId, Pool] = field(default_factory=lambda: {make.POOL: make.pool(answers=NO_ANSWERS)})
    rentals: dict[RentalId, Rental] = field(default_factory=dict)
    jobs: dict[JobId, Job] = field(default_factory=dict)
    surveys: dict[PoolId, Survey] = field(default_factory=dict)
    rented: int = 0
    adopted: dict[InstanceId, str] = field(default_factory=dict)
    folded: list[str] = field(default_factory=list)
    lifetimes: set[tuple[PoolId, str]] = field(default_factory=set)
    """Rentals of which the record of a pool that is there has counted how long the node lived."""
    estimated: bool = False
    dies_after_asking: bool = False
    """The operator ends between the cloud's answer and the record of it."""
    wrong_by: float = 0.0
    server_wrong: bool = False
    hurried: bool = False
    """A period was ended without waiting for the cloud any longer."""
    cheapened: bool = False
    """A bill fell after its period had ended: the price fell within the billing minimum. A part is never negative."""

    def now(self) -> Instant:
        """What the operator takes for the time, while its own clock or the API server's may be wrong."""
        true = self.cloud.now
        others = [Reading(true, 0.0), Reading(after(true, self.wrong_by if self.server_wrong else 0.0), 0.0)]
        own = true if self.server_wrong else after(true, self.wrong_by)
        return TrustedClock(lambda: own, lambda: 0.0, lambda: others).now()

    def look_once_wrongly(self, every: int) -> None:
        """The cloud's answers lack all but each so-manieth machine."""
        self.look()
        self.surveys = {
            name: replace(survey, instances=survey.instances[every - 1 :: every])
            for name, survey in self.surveys.items()
        }

    def look(self, behind: float = 0, *, only: PoolId | None = None) -> None:
        """Ask the cloud about all pools, or one. Answers never go back in time, lists may."""
        for name in self._known():
            if only in (None, name):
                self.surveys[name] = self.cloud.survey(behind, name)

    def _known(self) -> Mapping[PoolId, Pool]:
        pools = {ObjectKey("", name): pool for name, pool in self.pools.items()}
        known = known_pools(pools, {ObjectKey("", name): rental for name, rental in self.rentals.items()})
        self.surveys = {name: survey for name, survey in self.surveys.items() if name in known}
        return first_come(
            {
                name: replace(pool, offering=self.surveys[name].offering) if name in self.surveys else pool
                for name, pool in known.items()
            },
            self.surveys,
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
        jobs, rentals, nodes = self.jobs.values(), self.rentals.values(), self.nodes().values()
        return make.snapshot(
            self.budget, *pools, *self.surveys.values(), *jobs, *rentals, *nodes, now=self.now(), bare=True
        )

    # --- what the planner and people do -------------------------------------------------------------------------------

    def rent(self, gang: Gang | None = None) -> None:
        """In the pool that acts; nothing where none does."""
        pool = next((pool for pool in self._known().values() if not pool.closed_because), None)
        if pool is None:
            return
        self.rented += 1
        about: dict[str, Any] = {"pool": pool.id, "cloud": pool.cloud, "created": self.cloud.now, "gang": gang}
        rental = make.rental(f"{pool.id}-{self.rented}", **about)
        self.rentals[rental.id] = rental

    def tear_out(self, name: PoolId) -> None:
        """A pool's object goes, with its record."""
        self.pools.pop(name, None)
        self.lifetimes = {counted for counted in self.lifetimes if counted[0] != name}

    def release(self, name: RentalId) -> None:
        rental = self.rentals[name]
        if rental.phase not in (RentalPhase.ENDED, RentalPhase.DRAINING):
            self.write(rental, phase=RentalPhase.DRAINING, released_because="not needed")

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

    # --- the executor -------------------------------------------------------------------------------------------------

    def write(self, rental: Rental, **changes: Any) -> None:
        version = str(int(rental.resource_version) + 1)
        self.rentals[rental.id] = replace(rental, resource_version=version, **changes)

    def _fresh(self, name: RentalId, decided: Snapshot) -> Rental:
        if self.rentals.get(name) != decided.rentals.get(name) or name not in self.rentals:
            raise Stale
        return self.rentals[name]

    def _write_balance(self, balance: Balance) -> None:
        version = str(int(self.budget.resource_version) + 1)
        self.budget = replace(self.budget, balance=balance, resource_version=version)

    def execute(self, step: Step, decided: Snapshot) -> None:
        """Carry out a step that was decided on ``decided``; Stale or Refused when the world says no."""
        match step:
            case AskCloud():
                self._ask(step, decided)
            case Withdraw():
                self.cloud.withdraw(step.orders, step.keep)
            case Terminate():
                assert not self._unrecorded_on(step.node), "ended a machine that was in use"
                self.cloud.terminate(step.instance.id)
            case Cool():
                pool = self._pool(step.pool, decided)
                self.pools[step.pool] = replace(pool, cooled=with_cool_down(pool.cooled, step.cool_down))
            case Reopen():
                pool = self._pool(step.pool, decided)
                left = tuple([each for each in pool.cooled if each.since not in step.since])
                self.pools[step.pool] = replace(pool, cooled=left)
            case RecordOffer():
                pool = self._pool(step.pool, decided)
                self.pools[step.pool] = replace(pool, answers=reduce(with_start, step.starts, pool.answers))
            case CountLifetime():
                self._count_lifetime(step, self._pool(step.pool, decided))
            case Fold() | OpenPeriod() | PruneFolded() | AddCosts():
                self._keep_books(step)
            case SetFinalizer():
                raise AssertionError("both are guarded already")
            case Cordon() | FailPod() | DeletePod() | DeleteNode():
                self._change_cluster(step)
            case _:
                self._change_rental(step, decided)

    def _pool(self, name: PoolId, decided: Snapshot) -> Pool:
        """The object that a record is written to."""
        assert not decided.pools[name].gone, "a record of a pool whose object is gone"
        if name not in self.pools:
            raise Stale
        return self.pools[name]

    def _count_lifetime(self, step: CountLifetime, pool: Pool) -> None:
        node = EndedNode(step.uid, step.hours, step.at, step.taken, step.others, step.announced, step.ordinal)
        counted = with_ended(pool.lifetimes, node)
        if counted is not pool.lifetimes:
            assert (step.pool, step.uid) not in self.lifetimes, "counted a node twice"
            self.lifetimes.add((step.pool, step.uid))
        self.pools[step.pool] = replace(pool, lifetimes=without_rentals(counted, step.there))

    def _ask(self, step: AskCloud, decided: Snapshot) -> None:
        asked = [self._fresh(order.rental, decided) for order in step.ask.orders]
        if step.ask.together:
            ((name, members),) = by_gang(asked).items()
            assert len(members) == len(asked), "a gang was asked for with rentals that are not of it"
            for rental in by_gang(decided.rentals.values())[name]:
                self._fresh(rental.id, decided)
            gang = members[0].gang
            assert gang is not None
            there = [rental for rental in self.rentals.values() if rental.gang == gang and rental.stays]
            assert len(there) == gang.nodes, "a gang was asked for without some of its rentals"
        reply = self.cloud.ask(step.ask)
        for order in step.ask.orders:
            if order.token in reply.launched and not self.dies_after_asking:
                self.write(self.rentals[order.rental], instance=reply.launched[order.token], named=self.now())

    def _keep_books(self, step: Fold | OpenPeriod | PruneFolded | AddCosts) -> None:
        try:
            match step:
                case Fold():
                    assert self.budget.balance is not None
                    self.cheapened |= accrued(self.rentals[step.rental], step.period_start) > step.whole
                    if step.rental_uid not in self.budget.balance.folded:
                        self.folded.append(step.rental_uid)
                    self._write_balance(apply_fold(self.budget.balance, step))
                case OpenPeriod():
                    self.hurried |= step.last_start is not None and self.cloud.now >= after(step.start, 600)
                    self._write_balance(apply_open_period(self.budget.balance, step))
                case AddCosts():
                    assert self.budget.balance is not None
                    assert all(amount.micros >= 0 for amount in step.added.by_pool.values()), "a counter fell"
                    self._write_balance(apply_costs(self.budget.balance, step))
                case PruneFolded():
                    assert self.budget.balance is not None
                    self._write_balance(apply_prune_folded(self.budget.balance, step))
        except StalePeriod as error:
            if isinstance(step, Fold):
                self.folded.pop()
            raise Stale from error

    def _unrecorded_on(self, node: NodeName | None) -> list[Pod]:
        """Pods on the node whose run is not on record: live ones, and proofs of how it ended."""
        unrecorded = [job for job in self.jobs.values() if not job.records]
        return [pod for job in unrecorded for run in job.runs for pod in run.pods if pod.node == node]

    def _change_cluster(self, step: Cordon | FailPod | DeletePod | DeleteNode) -> None:
        match step:
            case Cordon():
                self._machine(step.node).cordoned = True
            case DeleteNode():
                self._machine(step.node).node_gone = True
            case FailPod() | DeletePod():
                for owner in list(self.jobs.values()):
                    if step.pod.uid not in {pod.uid for pod in owner.runs[0].pods}:
                        continue
                    if isinstance(step, DeletePod):
                        self.jobs[owner.id] = replace(owner, runs=(replace(owner.runs[0], pods=()),))
                    else:
                        self.change_pod(owner.id, {"phase": PodPhase.FAILED, "disrupted": True})

    def _machine(self, node: NodeName) -> Machine:
        return next(machine for machine in self.cloud.machines if f"n-{machine.name}" == node)

    def _change_rental(self, step: Step, decided: Snapshot) -> None:
        match step:
            case RecordOrphan():
                if step.rental in self.rentals:
                    raise Stale
                pool = decided.pools[step.pool]
                self._unnamed(step.instance, pool.id, decided)
                about: dict[str, Any] = {
                    "pool": pool.id,
                    "cloud": pool.cloud,
                    "instance": step.instance.id,
                    "worst": step.worst,
                }
                orphan = make.rental(step.rental, created=self.cloud.now, **about)
                self.rentals[step.rental] = orphan
            case Adopt(rental=name, instance=machine):
                rental = self._fresh(name, decided)
                self._unnamed(machine, rental.pool, decided, but=name)
                self._belongs(machine, rental)
                phase = RentalPhase.STARTING if rental.phase is RentalPhase.REQUESTED else rental.phase
                self.write(rental, phase=phase, missing_since=None, **_told(machine))
            case Refresh(rental=name, instance=machine):
                rental = self._fresh(name, decided)
                self._belongs(machine, rental)
                self.write(rental, **_told(machine))
            case MarkReady():
                rental = self._fresh(step.rental, decided)
                self.write(rental, phase=RentalPhase.READY, ready=step.at, node=step.node)
            case MarkMissing():
                self.write(self._fresh(step.rental, decided), missing_since=step.since)
            case MarkDraining():
                self.write(self._fresh(step.rental, decided), phase=RentalPhase.DRAINING)
            case MarkEnded():
                rental = self._fresh(step.rental, decided)
                self.estimated |= step.estimated
                self.write(rental, phase=RentalPhase.ENDED, ended=step.ended, cost=step.cost)
            case CloseUnfulfilled():
                self.write(self._fresh(step.rental, decided), phase=RentalPhase.ENDED, cost=ZERO)
            case Forget():
                self.rentals.pop(step.rental, None)
            case _:
                raise AssertionError(f"no rental's step: {step}")

    def _unnamed(self, machine: Instance, pool: PoolId, decided: Snapshot, but: RentalId | None = None) -> None:
        """Stale if a rental names the machine by now, of this pool or of one with the same machines."""
        acting = acting_pool(pool, decided.pools)
        for rental in self.rentals.values():
            if rental.instance == machine.id and rental.id != but and acting_pool(rental.pool, decided.pools) == acting:
                raise Stale

    def _belongs(self, machine: Instance, rental: Rental) -> None:
        assert self.adopted.setdefault(machine.id, rental.uid) == rental.uid, "adopted twice"

    # --- the truth ----------------------------------------------------------------------------------------------------

    def bill(self) -> Money:
        """Of every machine ever launched."""
        return Money(sum(machine.bill(self.cloud.now) for machine in self.cloud.machines))


def _told(machine: Instance) -> dict[str, object]:
    return {
        "instance": machine.id,
        "provider_id": machine.provider_id,
        "node": machine.node,
        "launched": machine.launched,
        "segments": machine.segments,
        "billing_minimum_seconds": machine.billing_minimum_seconds,
    }
