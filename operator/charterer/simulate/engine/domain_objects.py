"""The operator's own objects of what is simulated: the TrainingJob of a task, the GPURental and Node of a machine."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nextafter
from typing import Any

from charterer.domain.ids import BudgetId, NodeName, RentalId
from charterer.domain.job import Allocation, Job, Pod, PodPhase, Progress, Run
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node
from charterer.domain.time import Instant
from charterer.simulate.engine.node_market import SimMachine
from charterer.simulate.engine.scenario import Terms
from charterer.simulate.engine.sim_job import SimJob

DomainObjects = Mapping[str, Any]
"""Fields of a Job by name."""


def lasting(task: SimJob, budget: BudgetId, terms: Terms, machines: Mapping[RentalId, SimMachine]) -> DomainObjects:
    """All of a TrainingJob that stays as long as its allocation does: everything but its progress."""
    allocation = task.allocation
    return {
        "id": task.id,
        "namespace": "team",
        "name": task.submission.name,
        "generation": 1,
        "resource_version": "1",
        "created": task.created,
        "budget": budget,
        "class_id": task.class_id,
        "weight": terms.weight,
        "widths": terms.widths,
        "gpu_types": (),
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
        "last_run": task.runs,
        "records": task.records,
        "failures": 0,
        "restarts": 0,
        "finish": None,
        "invalid": "",
        "runs": () if allocation is None else (_run(task, allocation, machines),),
        "predicted": task.predicted,
        "moves": task.moves,
    }


def reporting(facts: DomainObjects, done: float, total: float | None, at: Instant) -> Job:
    """The TrainingJob that reported at ``at`` that the part ``done`` of it is done.

    ``total``: the whole work of the job in seconds of the reference option; None where it is not known.
    """
    allocation: Allocation | None = facts["allocation"]
    progress = Progress(0 if allocation is None else allocation.run, done, None, None, at)
    return Job(**facts, progress=progress, remaining=None if total is None else _left(total, done))


def rental_of(machine: SimMachine) -> Rental:
    """The GPURental of it."""
    phase = RentalPhase.STARTING if machine.ready is None else RentalPhase.READY
    return Rental(
        id=machine.id,
        uid=machine.uid,
        resource_version="1",
        pool=machine.terms.pool,
        budget=machine.terms.budget,
        created=machine.created,
        phase=RentalPhase.DRAINING if machine.draining else phase,
        reserved=machine.terms.reserve,
        worst=machine.terms.worst,
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
    )


def node_of(machine: SimMachine, name: NodeName) -> Node:
    """Its Kubernetes Node."""
    return Node(
        name=name,
        uid=machine.uid,
        resource_version="1",
        provider_id="",
        ready=True,
        unschedulable=False,
        deleting=False,
        gpus=machine.model.gpus_per_node,
        foreign_gpus=0,
        run_labels={},
    )


def _left(total: float, done: float) -> float:
    """What is left of ``total``, rounded so that dividing by what is left to do gives ``total`` again where it can.

    Planners know jobs of one size by that; the last digit would make each look a size of its own.
    """
    left = total * (1.0 - done)
    again = left / (1.0 - done) if done < 1.0 else total
    return left if again == total else nextafter(left, inf if again < total else 0.0)


def _run(task: SimJob, allocation: Allocation, machines: Mapping[RentalId, SimMachine]) -> Run:
    name = f"{task.submission.name}-r{allocation.run}"
    pods = tuple(
        _pod(f"{name}-{index}", allocation.run, index, machines[place.rental].node, place.gpus)
        for index, place in enumerate(allocation.placements)
    )
    return Run(
        number=allocation.run,
        name=name,
        uid=f"{task.id}-{allocation.run}",
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
        resource_version="1",
    )
