"""A small world for rentals: a group of a cloud with lag and healing, Nodes and pods, and the objects Charterer writes.

Its bill is computed from the machines' true lives, by the rule in docs/fakecloud.md but with arithmetic of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from math import floor

from charterer.domain.billing import accrued
from charterer.domain.budget import Budget
from charterer.domain.ids import InstanceId, JobId, NodeName, RentalId
from charterer.domain.job import Job, Pod, PodPhase, RunOutcome, RunRecord
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.pool import FailureKind, Instance, InstanceState, LaunchFailure, Pool, PriceSegment, Survey
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.steps import (
    AddCosts,
    Adopt,
    CancelUnfulfilled,
    CloseUnfulfilled,
    Cool,
    Cordon,
    DeleteNode,
    DeletePod,
    FailPod,
    Fold,
    Forget,
    MarkEnded,
    MarkReady,
    OpenPeriod,
    PruneFolded,
    RaiseTarget,
    RecordOrphan,
    Refresh,
    SetFinalizer,
    Step,
    Terminate,
)
from charterer.domain.time import Instant, after, instant
from charterer.ledger.balance import StalePeriod, apply_fold, apply_open_period, apply_prune_folded
from charterer.ledger.costs import apply_costs
from tests import factory as make

SECOND = 1_000_000
NEW_YEARS_EVE = instant(datetime(2025, 12, 31, 23, 40, tzinfo=UTC))
LAG, LISTED, HEAL, STOP, BOOT, RETRY, MINIMUM = 5, 86_400, 20, 10, 60, 30, 60


class Stale(Exception):
    """The object a step was decided on has changed."""


class Refused(Exception):
    """The cloud said no."""


@dataclass
class Machine:
    """One machine's true life. ``detached``: the group no longer counts it."""

    name: str
    launched: Instant
    segments: list[tuple[Instant, int]]
    stops: Instant | None = None
    ends: Instant | None = None
    detached: bool = False
    silent: bool = False
    node_gone: bool = False
    cordoned: bool = False

    def ended(self, now: Instant) -> bool:
        return self.ends is not None and self.ends <= now

    def seen(self, when: Instant) -> Instance:
        """As a list shows it that is as old as ``when``."""
        state = InstanceState.RUNNING if when >= after(self.launched, BOOT) else InstanceState.PENDING
        if self.stops is not None and self.stops <= when:
            state = InstanceState.STOPPING
        over = self.ended(when)
        return Instance(
            id=InstanceId(self.name),
            state=InstanceState.ENDED if over else state,
            provider_id=f"fake://{self.name}",
            node=NodeName(f"n-{self.name}") if when >= after(self.launched, BOOT) else None,
            launched=self.launched,
            ended=self.ends if over else None,
            segments=tuple(PriceSegment(since, Price(price)) for since, price in self.segments if since <= when),
            billing_minimum_seconds=MINIMUM,
        )

    def bill(self, now: Instant) -> int:
        """Micro-dollars, by the rule in docs/fakecloud.md."""
        end = now if self.ends is None else min(self.ends, now)
        left = max(-floor(Fraction(self.launched - end, SECOND)), MINIMUM)
        amount = 0
        for position, (since, price) in enumerate(self.segments):
            last = position == len(self.segments) - 1
            seconds = left if last else floor(Fraction(self.segments[position + 1][0] - since, SECOND))
            left -= seconds
            amount += floor(Fraction(price * seconds, 3600) + Fraction(1, 2))
        return amount


@dataclass
class Cloud:
    """A group that holds its target, heals, and runs out of stock."""

    now: Instant = NEW_YEARS_EVE
    target: int = 0
    stock: int = 99
    price: int = 19_800_001
    machines: list[Machine] = field(default_factory=list)
    failures: list[LaunchFailure] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)

    def members(self) -> list[Machine]:
        return [machine for machine in self.machines if not machine.detached]

    def advance(self, seconds: int) -> None:
        until = after(self.now, seconds)
        while self.now < until:
            members = self.members()
            settled = len(members) == self.target and all(machine.ends is None for machine in members)
            self.now = until if settled else after(self.now, 1)
            for machine in self.members():
                if machine.ends is not None and self.now >= after(machine.ends, HEAL):
                    machine.detached = True
            self._launch()

    def _launch(self) -> None:
        last = max((item.at for item in self.failures), default=None)
        if last is not None and self.now < after(last, RETRY) and self.stock <= self.alive():
            return
        while len(self.members()) < self.target:
            if self.alive() >= self.stock:
                self.failures.append(LaunchFailure(self.now, FailureKind.STOCK_OUT, "none left"))
                return
            self.machines.append(Machine(f"i{len(self.machines)}", self.now, [(self.now, self.price)]))

    def alive(self) -> int:
        return sum(not machine.ended(self.now) for machine in self.machines)

    def raise_target(self, at_least: int, token: str) -> None:
        if self.tokens.setdefault(token, at_least) != at_least:
            raise AssertionError(f"token {token} was used for {self.tokens[token]} and now for {at_least}")
        self.target = max(self.target, at_least)
        self._launch()

    def cancel(self, keep: int) -> None:
        if keep < len(self.members()):
            raise Refused
        self.target = min(self.target, keep)

    def terminate(self, name: str) -> None:
        machine = next(item for item in self.machines if item.name == name)
        if machine.detached:
            return
        machine.detached = True
        self.target -= 1
        if machine.ends is None:
            machine.stops, machine.ends = self.now, after(self.now, STOP)

    def survey(self, behind: float) -> Survey:
        """The list may be as old as ``behind`` seconds, the target never is."""
        seen = after(self.now, -behind)
        listed = [
            machine.seen(seen)
            for machine in self.machines
            if machine.launched <= seen and (machine.ends is None or after(machine.ends, LISTED) > seen)
        ]
        failures = tuple(item for item in self.failures if item.at <= seen)
        return Survey(
            pool=make.POOL,
            target=self.target,
            instances=tuple(listed),
            failures=failures,
            notices=(),
            asked=self.now,
            lag_seconds=float(LAG),
            listed_seconds=float(LISTED),
            offering=make.OFFERING,
        )


@dataclass
class World:
    """The cloud, and the objects in the API server. ``execute`` is an executor without a network."""

    cloud: Cloud = field(default_factory=Cloud)
    budget: Budget = field(default_factory=lambda: make.budget(balance=None, created=NEW_YEARS_EVE))
    pool: Pool = field(default_factory=make.pool)
    rentals: dict[RentalId, Rental] = field(default_factory=dict)
    jobs: dict[JobId, Job] = field(default_factory=dict)
    survey: Survey | None = None
    rented: int = 0
    adopted: dict[InstanceId, str] = field(default_factory=dict)
    folded: list[str] = field(default_factory=list)
    estimated: bool = False
    hurried: bool = False
    """A period was ended without waiting for the cloud any longer."""
    cheapened: bool = False
    """A bill fell after its period had ended: the price fell within the billing minimum. A part is never negative."""

    def look(self, behind: float = 0) -> None:
        """Ask the cloud. Answers never go back in time, lists may."""
        self.survey = self.cloud.survey(behind)

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
        seen = () if self.survey is None else (self.survey,)
        jobs, rentals, nodes = self.jobs.values(), self.rentals.values(), self.nodes().values()
        return make.snapshot(self.budget, self.pool, *seen, *jobs, *rentals, *nodes, now=self.cloud.now, bare=True)

    # --- what the planner and people do -------------------------------------------------------------------------------

    def rent(self) -> None:
        self.rented += 1
        rental = make.rental(f"a100-{self.rented}", created=self.cloud.now)
        self.rentals[rental.id] = rental

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

    def change_pod(self, job: JobId, changes: dict[str, object]) -> None:
        known = self.jobs[job]
        pods = tuple(replace(pod, **changes) for pod in known.runs[0].pods)  # type: ignore[arg-type]
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

    def write(self, rental: Rental, **changes: object) -> None:
        version = str(int(rental.resource_version) + 1)
        self.rentals[rental.id] = replace(rental, resource_version=version, **changes)  # type: ignore[arg-type]

    def _fresh(self, name: RentalId, decided: Snapshot) -> Rental:
        if self.rentals.get(name) != decided.rentals.get(name) or name not in self.rentals:
            raise Stale
        return self.rentals[name]

    def _write_balance(self, balance: object) -> None:
        version = str(int(self.budget.resource_version) + 1)
        self.budget = replace(self.budget, balance=balance, resource_version=version)  # type: ignore[arg-type]

    def execute(self, step: Step, decided: Snapshot) -> None:
        """Carry out a step that was decided on ``decided``; Stale or Refused when the world says no."""
        match step:
            case RaiseTarget():
                self.cloud.raise_target(step.at_least, step.token)
            case CancelUnfulfilled():
                self.cloud.cancel(step.keep)
            case Terminate():
                assert not self._unrecorded_on(step.node), "ended a machine that was in use"
                self.cloud.terminate(step.instance.id)
            case Cool():
                self.pool = replace(self.pool, cooled_until=step.until, cooled_because=step.because)
            case Fold() | OpenPeriod() | PruneFolded() | AddCosts():
                self._keep_books(step)
            case SetFinalizer():
                raise AssertionError("both are guarded already")
            case Cordon() | FailPod() | DeletePod() | DeleteNode():
                self._change_cluster(step)
            case _:
                self._change_rental(step, decided)

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
                    return
                orphan = make.rental(step.rental, created=self.cloud.now, instance=step.instance.id, worst=step.worst)
                self.rentals[step.rental] = orphan
            case Adopt(rental=name, instance=machine):
                rental = self._fresh(name, decided)
                self._belongs(machine, rental)
                phase = RentalPhase.STARTING if rental.phase is RentalPhase.REQUESTED else rental.phase
                self.write(rental, phase=phase, **_told(machine))
            case Refresh(rental=name, instance=machine):
                rental = self._fresh(name, decided)
                self._belongs(machine, rental)
                self.write(rental, **_told(machine))
            case MarkReady():
                rental = self._fresh(step.rental, decided)
                self.write(rental, phase=RentalPhase.READY, ready=step.at, node=step.node)
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
