"""Simulated jobs and machines as the operator's own objects: TrainingJob, GPURental and Node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, nextafter
from typing import Any

from charterer.domain.billing import accrued_in
from charterer.domain.budget import Balance, Budget
from charterer.domain.ids import BudgetId, NodeName, RentalId
from charterer.domain.interactive import Usage
from charterer.domain.job import Allocation, Job, Run, TrainingGroup, Variant
from charterer.domain.job_records import job_cost
from charterer.domain.money import Money
from charterer.domain.pod import Pod, PodPhase
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.reports import Progress
from charterer.domain.snapshot import Node
from charterer.domain.steps import CountedJob, CountJobs, OpenPeriod
from charterer.domain.time import Instant, after
from charterer.ledger.balance import apply_count, apply_open_period
from charterer.tools.simulator.model.ground_truth import variant_class
from charterer.tools.simulator.model.node_market import NodeMarket, SimMachine
from charterer.tools.simulator.model.scenario import JobTerms
from charterer.tools.simulator.model.sim_job import SimJob

LastingFields = Mapping[str, Any]
"""Fields of a TrainingJob by name."""


def lasting_fields(
    job: SimJob, budget: BudgetId, terms: JobTerms, machines: Mapping[RentalId, SimMachine]
) -> LastingFields:
    """The fields of a job's TrainingJob that stay the same while its allocation does: all but its progress."""
    allocation = job.allocation
    return {
        "id": job.id,
        "namespace": "team",
        "name": job.submission.name,
        "generation": 1,
        "resource_version": "1",
        "created": job.created,
        "budget": budget,
        "class_id": job.class_id,
        "weight": terms.weight,
        "widths": terms.widths,
        "gpu_types": terms.gpu_types or job.application.gpu_types,
        "spot": terms.spot,
        "resize": terms.resize,
        "suspend": False,
        "deleting": False,
        "backoff_limit": 3,
        "max_restarts": 1_000_000,
        "ready_timeout_seconds": 600.0,
        "ttl_seconds_after_finished": None,
        "grace_seconds": 0,
        "pod_gpus": 1,
        "allocation": allocation,
        "last_run": job.runs,
        "records": job.records,
        "failures": 0,
        "restarts": 0,
        "finish": None,
        "invalid": "",
        "runs": () if allocation is None else (_run(job, allocation, machines),),
        "predicted": job.predicted,
        "predicted_end": job.predicted_end,
        "moves": job.moves,
        "group": None if allocation is None else _group(allocation),
        "resized_from": job.resized_from,
        "interactive": None if job.session is None else job.session.shown(),
        "variants": tuple([_variant(job, name) for name in job.application.variants]),
        "target_completion": None if terms.target_seconds is None else after(job.created, terms.target_seconds),
    }


def _variant(job: SimJob, name: str) -> Variant:
    """A variant of the job, at every width at which it can run. It prefers the narrowest width."""
    widths = job.application.variants[name].widths
    return Variant(name, variant_class(job.class_id, name), widths[0], widths[0], widths[-1])


def _group(allocation: Allocation) -> TrainingGroup:
    """The training group of a job that is resized in place. Its trainer forms the group itself."""
    indexes = tuple(range(len(allocation.placements)))
    return TrainingGroup(allocation.run, 1, indexes, allocation.since, allocation.since, formed=1, reports=True)


def training_job(
    lasting: LastingFields, done: float, total: float | None, at: Instant, usage: Usage | None = None
) -> Job:
    """The TrainingJob of a job that reported at ``at``.

    ``done``: the fraction of its work that is done.
    ``total``: its whole work in seconds of the reference option, or None if it is not known.
    ``usage``: what the worker of an interactive job has reported.
    """
    allocation: Allocation | None = lasting["allocation"]
    if lasting["interactive"] is not None:
        run = 0 if allocation is None or usage is None else allocation.run
        return Job(**lasting, progress=Progress(run, None, None, None, at, usage=usage), remaining=total)
    progress = Progress(0 if allocation is None else allocation.run, done, None, None, at)
    return Job(**lasting, progress=progress, remaining=None if total is None else _left(total, done))


def gpu_rental(machine: SimMachine) -> Rental:
    """The machine's GPURental."""
    phase = RentalPhase.STARTING if machine.ready is None else RentalPhase.READY
    return Rental(
        id=machine.id,
        uid=machine.uid,
        resource_version="1",
        pool=machine.order.pool,
        cloud=machine.model.cloud,
        capacity_type=machine.model.capacity_type,
        budget=machine.order.budget,
        created=machine.created,
        phase=RentalPhase.DRAINING if machine.draining else phase,
        reserved=machine.order.reserve,
        worst=machine.order.worst,
        billing_minimum_seconds=machine.model.billing_minimum_seconds,
        segments=machine.segments,
        instance=None,
        provider_id="",
        node=machine.node,
        launched=machine.created,
        ready=machine.ready,
        ended=None,
        cost=None,
        released_because="",
        deleting=False,
        gang=machine.order.gang,
    )


def kubernetes_node(machine: SimMachine, name: NodeName) -> Node:
    """The machine's Kubernetes Node."""
    return Node(
        name=name,
        uid=machine.uid,
        provider_id="",
        ready=True,
        unschedulable=False,
        deleting=False,
        gpus=machine.model.gpus_per_node,
        foreign_gpus=0,
        run_labels={},
    )


def _left(total: float, done: float) -> float:
    """The work left of ``total``. It is rounded so that dividing it by ``1 - done`` gives ``total`` again if possible.

    Planners group jobs of equal size by that quotient. An error in its last digit would make each job a group of its
    own.
    """
    left = total * (1.0 - done)
    again = left / (1.0 - done) if done < 1.0 else total
    return left if again == total else nextafter(left, inf if again < total else 0.0)


def _run(job: SimJob, allocation: Allocation, machines: Mapping[RentalId, SimMachine]) -> Run:
    name = f"{job.submission.name}-r{allocation.run}"
    pods = tuple(
        _pod(f"{name}-{index}", allocation.run, index, machines[place.rental].node, place.gpus)
        for index, place in enumerate(allocation.placements)
    )
    return Run(
        number=allocation.run,
        name=name,
        uid=f"{job.id}-{allocation.run}",
        resource_version="1",
        completions=len(pods),
        suspended=False,
        deleting=False,
        created=allocation.since,
        started=allocation.since,
        complete=None,
        failed=None,
        failed_message="",
        pods=pods,
    )


def _pod(name: str, run: int, index: int, node: NodeName | None, gpus: int) -> Pod:
    return Pod(
        name=name,
        uid=name,
        run=run,
        index=index,
        gpus=gpus,
        node=node,
        phase=PodPhase.RUNNING,
        ready=True,
        deleting=False,
        disrupted=False,
        exit_code=None,
        finished=None,
        message="",
        allocation="",
    )


# A budget's balance during a simulation, kept by the operator's own ledger.


class SimLedger:
    """The budget with its balance. Bills of ended machines are summed first, and enter the balance when it is read."""

    def __init__(self, budget: Budget, market: NodeMarket, now: Instant) -> None:
        self._budget = budget
        self._market = market
        self._period_end = Instant(0)
        self._settled = 0
        self._lifetime = 0
        self._balance(now)

    def budget(self, now: Instant) -> Budget:
        """The budget as of now, in the period that contains ``now``."""
        self._balance(now)
        return self._flush()

    def end(self, machine: SimMachine, now: Instant, *, taken: bool = False) -> None:
        """End the machine now, and add its bill to the sums. ``taken``: whether the cloud takes it back."""
        begin = self._balance(now).period_start
        bill = self._market.end(machine, now, taken=taken)
        in_period = bill if machine.created >= begin else accrued_in(gpu_rental(machine), begin, now)
        self._settled += in_period.micros
        self._lifetime += bill.micros

    def count(self, job: Job, now: Instant) -> None:
        """Record the real and the predicted cost of a job that is complete now."""
        budget = self.budget(now)
        assert budget.balance is not None
        assert job.predicted is not None
        cost, opening = job_cost(job, {}, now), budget.is_opening(job.created)
        end = job.predicted_end
        counted = CountedJob(job.id, job.statistics, job.predicted, cost, job.created, now, opening, end)
        balance = apply_count(budget.balance, CountJobs(budget.id, (counted,)))
        self._budget = replace(budget, balance=balance)

    def _balance(self, now: Instant) -> Balance:
        """The balance of the period that contains ``now``. Periods that have ended before are closed one by one."""
        if now >= self._period_end:
            start, self._period_end = self._budget.calendar.bounds(now)
            budget = self._flush()
            rentals = [gpu_rental(machine) for machine in self._market.machines.values()]
            balance = budget.balance or apply_open_period(None, OpenPeriod(budget.id, start, None, None))
            while balance.period_start < start:
                begin = balance.period_start
                end = budget.calendar.end(begin)
                used = sum((accrued_in(rental, begin, end) for rental in rentals), balance.settled)
                balance = apply_open_period(
                    balance, OpenPeriod(budget.id, end, used, begin, budget.carries(used), budget.aim)
                )
                budget = replace(budget, balance=balance)
            self._budget = replace(budget, balance=balance)
        assert self._budget.balance is not None
        return self._budget.balance

    def _flush(self) -> Budget:
        """The budget after the sums of ended machines have entered its balance."""
        if self._lifetime:
            balance = self._budget.balance
            assert balance is not None
            settled, lifetime = Money(self._settled), Money(self._lifetime)
            balance = replace(balance, settled=balance.settled + settled, lifetime=balance.lifetime + lifetime)
            self._budget = replace(self._budget, balance=balance)
            self._settled = self._lifetime = 0
        return self._budget
