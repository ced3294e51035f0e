"""A small world for rentals, with an executor that has no network and refuses what the real one refuses.

Its bill is computed from the machines' true lives, by the rule in docs/fakecloud.md but with arithmetic of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from charterer.domain.billing import accrued
from charterer.domain.budget import Balance
from charterer.domain.ids import InstanceId, NodeName, PoolId, RentalId
from charterer.domain.money import ZERO
from charterer.domain.order import LACKS, Reply, with_cool_down, without_cool_downs
from charterer.domain.pod import Pod, PodPhase
from charterer.domain.pool import Pool, acting_pool
from charterer.domain.rental import Rental, RentalPhase, by_gang
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import (
    AddCosts,
    Adopt,
    AskCloud,
    Cool,
    Cordon,
    CountLifetimes,
    DeleteNode,
    DeletePod,
    FailPod,
    Fold,
    Forget,
    KeepBooks,
    MarkDraining,
    MarkEnded,
    OpenPeriod,
    RecordCosts,
    RecordOffer,
    RecordOrphan,
    Refresh,
    RentalRecord,
    Reopen,
    SetFinalizer,
    Step,
    Terminate,
    Withdraw,
)
from charterer.domain.time import after
from charterer.estimate.hazard import with_ended, without_rentals
from charterer.estimate.waits import with_refusal, with_start
from charterer.ledger.balance import StalePeriod, apply_entries, apply_open_period
from charterer.ledger.cost_rows import next_part
from tests.property.lifecycle.rented_cloud import Machine, Refused
from tests.property.lifecycle.rented_objects import Objects


class Stale(Exception):
    """The object a step was decided on has changed."""


@dataclass
class World(Objects):
    """The objects, and the executor: ``execute``."""

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
                reply = self.ask_cloud(step, decided)
                if not self.dies_after_asking:
                    self.record_reply(step, reply, decided)
            case Withdraw():
                self._pool(step.pool, decided, to_write=False)
                self.cloud.withdraw(step.orders, step.keep)
            case Terminate():
                self._pool(step.pool, decided, to_write=False)
                patient = step.patience_until is None or self.now() < step.patience_until
                assert not patient or not self._unrecorded_on(step.node), "ended a machine that was in use"
                self.cloud.terminate(step.instance.id)
            case Cool():
                pool, new = self._pool(step.pool, decided), step.cool_down
                launches = with_refusal(pool.launches, new.since) if new.kind in LACKS else pool.launches
                self.pools[step.pool] = replace(pool, cooled=with_cool_down(pool.cooled, new), launches=launches)
            case Reopen():
                pool = self._pool(step.pool, decided)
                self.pools[step.pool] = replace(pool, cooled=without_cool_downs(pool.cooled, step.since))
            case RecordOffer():
                pool = self._pool(step.pool, decided)
                self.pools[step.pool] = replace(pool, launches=reduce(with_start, step.starts, pool.launches))
            case CountLifetimes():
                self._count_lifetimes(step, self._pool(step.pool, decided))
            case KeepBooks() | OpenPeriod():
                self._keep_books(step, decided)
            case SetFinalizer():
                self._set_finalizer(step)
            case Cordon() | FailPod() | DeletePod() | DeleteNode():
                self._change_cluster(step)
            case _:
                self._change_rental(step, decided)

    def _pool(self, name: PoolId, decided: Snapshot, *, to_write: bool = True) -> Pool:
        """The object that a record is written to, or by which its cloud is reached."""
        assert not to_write or not decided.pools[name].gone, "a record of a pool whose object is gone"
        if decided.pools[name].gone:
            return decided.pools[name]
        if name not in self.pools:
            raise Stale
        return self.pools[name]

    def _set_finalizer(self, step: SetFinalizer) -> None:
        """The API server adds none to an object that is being deleted, which goes with its last one."""
        known = self.pools.get(PoolId(step.name)) if step.kind == "GPUPool" else self.budget
        if known is None or known.uid != step.uid or (known is self.budget and self.budget_gone):
            raise Stale
        if known.deleting and step.present:
            raise Refused
        if isinstance(known, Pool):
            self.pools[known.id] = replace(known, guarded=step.present)
            if known.deleting:
                self.tear_out(known.id)
        else:
            self.budget = replace(self.budget, guarded=step.present)
            if known.deleting:
                self.budget_goes()

    def _count_lifetimes(self, step: CountLifetimes, pool: Pool) -> None:
        lifetimes = pool.lifetimes
        for node in step.nodes:
            counted = with_ended(lifetimes, node)
            if counted is not lifetimes:
                assert (step.pool, node.uid) not in self.lifetimes, "counted a node twice"
                self.lifetimes.add((step.pool, node.uid))
            lifetimes = counted
        self.pools[step.pool] = replace(pool, lifetimes=without_rentals(lifetimes, step.there))

    def ask_cloud(self, step: AskCloud, decided: Snapshot) -> Reply:
        """The first half of this step: the call to the cloud."""
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
        self._pool(step.pool, decided, to_write=False)
        return self.cloud.ask(step.ask)

    def record_reply(self, step: AskCloud, reply: Reply, known: Snapshot) -> None:
        """The second half: what the cloud named is recorded at once. ``known``: what the operator has seen by then."""
        for order in step.ask.orders:
            if (instance := reply.launched.get(order.token)) is None:
                continue
            rental = self._fresh(order.rental, known)
            if rental.instance is not None or rental.phase is RentalPhase.ENDED:
                continue
            if self._named(instance, rental.pool, known):
                self.write(rental, phase=RentalPhase.ENDED, cost=ZERO, released_because="it has a rental already")
            else:
                self.write(rental, instance=instance, named=self.now())

    def _keep_books(self, step: KeepBooks | OpenPeriod, decided: Snapshot) -> None:
        """Changes of a balance need only the same budget: they name the period that they are for."""
        if self.budget_gone or decided.budgets[step.budget].uid != self.budget.uid:
            raise Stale
        before = self.budget.balance
        try:
            if isinstance(step, OpenPeriod):
                self.hurried |= step.last_start is not None and self.cloud.now >= after(step.start, 600)
                self._write_balance(apply_open_period(before, step))
                return
            assert before is not None
            entered = apply_entries(before, step.entries)
        except StalePeriod as error:
            raise Stale from error
        for entry in step.entries:
            if isinstance(entry, Fold):
                self.cheapened |= accrued(self.rentals[entry.rental], entry.period_start) > entry.whole
                if entry.rental_uid not in before.folded:
                    self.folded.append(entry.rental_uid)
            if isinstance(entry, AddCosts):
                assert all(amount.micros >= 0 for amount in entry.added.by_pool.values()), "a counter fell"
        self._write_balance(entered)

    def _record_costs(self, step: RecordCosts, decided: Snapshot) -> None:
        """A file, and then a mark on each rental, which holds only against the version that its part was made from."""
        if self.full:
            raise Refused
        self.cost_files.append([row for part in step.parts for row in part.rows])
        if self.dies_after_asking:
            return
        for part in step.parts:
            rental = self.rentals.get(part.rental)
            if rental is not None and rental == decided.rentals[part.rental]:
                self.write(rental, recorded=part.after)

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
            case RecordOrphan() | Adopt():
                self._match(step, decided)
            case RentalRecord():
                self._record_rental(step, decided)
            case MarkDraining():
                rental = self._fresh(step.rental, decided)
                because = rental.released_because or step.because
                self.write(rental, phase=RentalPhase.DRAINING, released_because=because, released=self.now())
            case RecordCosts():
                self._record_costs(step, decided)
            case Forget():
                rental = self._fresh(step.rental, decided)
                if rental.deleting:
                    self._forget(rental)
                else:
                    self.write(rental, deleting=True)
            case _:
                raise AssertionError(f"no rental's step: {step}")

    def _match(self, step: RecordOrphan | Adopt, decided: Snapshot) -> None:
        """Unless another rental names the machine by now: the real executor looks and writes under one lock."""
        machine = step.instance
        if isinstance(step, RecordOrphan):
            pool = self._pool(step.pool, decided, to_write=False)
            if step.rental in self.rentals or self._named(machine.id, pool.id, decided):
                raise Stale
            about: dict[str, Any] = {"instance": machine.id, "worst": step.worst}
            self.create_rental(step.rental, pool=pool.id, cloud=pool.cloud, **about)
            return
        rental = self._fresh(step.rental, decided)
        if self._named(machine.id, rental.pool, decided) - {rental.id}:
            raise Stale
        self._belongs(machine.id, rental)
        phase = RentalPhase.STARTING if rental.phase is RentalPhase.REQUESTED else rental.phase
        self.write(rental.as_listed(machine), phase=phase, missing_since=None)

    def _record_rental(self, step: RentalRecord, decided: Snapshot) -> None:
        rental = self._fresh(step.rental, decided)
        match step:
            case Refresh():
                assert step.after.instance is not None
                self._belongs(step.after.instance, rental)
            case MarkEnded():
                assert rental.instance is not None, "the end of a machine that nobody named"
                self.adopted.setdefault(rental.instance, rental.uid)  # one that left the list unread was never adopted
                self.estimated |= step.estimated
        self.write(step.after)

    def _forget(self, rental: Rental) -> None:
        if rental.uid not in self.folded and rental.instance is not None:
            assert self.budget_gone or self.budget.created > rental.created, "forgotten before it was paid for"
            self.waived.add(rental.instance)
        elif not self.budget_gone and rental.uid in self.folded and self.budget.created <= rental.created:
            assert next_part(rental, self.budget.calendar.time_zone) is None, "forgotten before its cost was on record"
        del self.rentals[rental.id]

    def _named(self, machine: InstanceId, pool: PoolId, known: Snapshot) -> set[RentalId]:
        """The rentals that name the machine by now, of this pool or of one with the same machines."""
        acting = acting_pool(pool, known.pools)
        naming = (rental for rental in self.rentals.values() if rental.instance == machine)
        return {rental.id for rental in naming if acting_pool(rental.pool, known.pools) == acting}

    def _belongs(self, machine: InstanceId, rental: Rental) -> None:
        assert self.adopted.setdefault(machine, rental.uid) == rental.uid, "adopted twice"
