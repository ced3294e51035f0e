"""A snapshot with the joins that every step needs, each made once: what is on a node, which rentals a pool has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, InstanceId, NodeName, PoolId, RentalId
from charterer.domain.job import Allocation, Job, Pod, run_name
from charterer.domain.pool import Instance, InstanceState, Survey
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.time import Instant, after

HELD = frozenset({InstanceState.PENDING, InstanceState.RUNNING})
"""States in which an instance counts towards its group's target."""


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod on a node, with its job."""

    job: Job
    pod: Pod

    @property
    def recorded(self) -> bool:
        """Whether its run's end is in the TrainingJob's status, so that nothing hangs on the pod any more."""
        return any(record.number == self.pod.run for record in self.job.records)


@dataclass(frozen=True, slots=True)
class LifecycleView:
    """The joins. Build it with ``LifecycleView.of``; lists of rentals are in order of creation.

    ``uncounted``: finished jobs whose cost is not yet in what their budget knows of their class. ``ending``: by rental,
    names of the runs placed there that have been replaced and whose end is not yet on record. (Not those whose Job is
    being deleted: somebody's finalizer may keep it for ever.)
    """

    snapshot: Snapshot
    rentals_of_pool: Mapping[PoolId, Sequence[Rental]]
    rentals_of_budget: Mapping[BudgetId, Sequence[Rental]]
    instances: Mapping[PoolId, Mapping[InstanceId, Instance]]
    pods_on: Mapping[NodeName, Sequence[BoundPod]]
    labelled: Mapping[str, Sequence[Node]]
    uncounted: Mapping[BudgetId, Sequence[Job]]
    ending: Mapping[RentalId, Sequence[str]]
    _by_provider_id: Mapping[str, Node]

    @classmethod
    def of(cls, snapshot: Snapshot) -> LifecycleView:
        """Index the snapshot: linear in jobs, pods, rentals, instances and nodes."""
        by_pool: dict[PoolId, list[Rental]] = defaultdict(list)
        by_budget: dict[BudgetId, list[Rental]] = defaultdict(list)
        for rental in sorted(snapshot.rentals.values(), key=lambda rental: (rental.created, rental.id)):
            by_pool[rental.pool].append(rental)
            by_budget[rental.budget].append(rental)
        pods: dict[NodeName, list[BoundPod]] = defaultdict(list)
        uncounted: dict[BudgetId, list[Job]] = defaultdict(list)
        ending: dict[RentalId, list[str]] = defaultdict(list)
        for job in snapshot.jobs.values():
            if job.budget is not None and _to_count(job, snapshot):
                uncounted[job.budget].append(job)
            for run in job.runs:
                for pod in run.pods:
                    if pod.node is not None:
                        pods[pod.node].append(BoundPod(job, pod))
            for allocation in _to_record(job, snapshot):
                for placement in allocation.placements:
                    ending[placement.rental].append(run_name(job.name, allocation.run))
        labelled: dict[str, list[Node]] = defaultdict(list)
        for node in snapshot.nodes.values():
            for key in node.run_labels:
                labelled[key].append(node)
        instances = {pool: {item.id: item for item in survey.instances} for pool, survey in snapshot.surveys.items()}
        by_provider_id = {node.provider_id: node for node in snapshot.nodes.values() if node.provider_id}
        return cls(snapshot, by_pool, by_budget, instances, pods, labelled, uncounted, ending, by_provider_id)

    def survey(self, rental: Rental) -> Survey | None:
        """What the cloud last said of the rental's pool; None when it has not been reached."""
        return self.snapshot.surveys.get(rental.pool)

    def instance(self, rental: Rental) -> Instance | None:
        """The rental's instance as the cloud lists it; None when it names none or it is not listed."""
        if rental.instance is None:
            return None
        return self.instances.get(rental.pool, {}).get(rental.instance)

    def unnamed(self, pool: PoolId) -> list[Instance]:
        """Instances of the pool that no rental names, as they were launched."""
        named = {rental.instance for rental in self.rentals_of_pool.get(pool, ())}
        found = (item for item in self.instances.get(pool, {}).values() if item.id not in named)
        return sorted(found, key=lambda item: (item.launched, item.id))

    def node(self, rental: Rental) -> Node | None:
        """The rental's Node object. Names are used again by clouds, so the provider id decides where it is known."""
        node = self._by_provider_id.get(rental.provider_id) if rental.provider_id else None
        if node is None and rental.node is not None:
            named = self.snapshot.nodes.get(rental.node)
            node = named if named is not None and not (named.provider_id and rental.provider_id) else None
        return node

    def pods(self, rental: Rental) -> Sequence[BoundPod]:
        """Our pods on the rental's machine, also when its Node object is already gone."""
        node = self.node(rental)
        if node is not None:
            return self.pods_on.get(node.name, ())
        if rental.node is None or rental.node in self.snapshot.nodes:
            return ()  # no node ever came, or the name now belongs to another machine
        return self.pods_on.get(rental.node, ())

    def rental(self, rental: RentalId) -> Rental | None:
        """The rental, if its object still exists."""
        return self.snapshot.rentals.get(rental)

    def guarded(self, budget: BudgetId) -> bool:
        """Whether the budget cannot be deleted from under its rentals."""
        found = self.snapshot.budgets.get(budget)
        return found is not None and found.guarded

    def observes(self, budget: BudgetId | None) -> bool:
        """Whether the budget only observes, so that nothing may be rented, ended or run for it."""
        return _observes(budget, self.snapshot)


def _observes(budget: BudgetId | None, snapshot: Snapshot) -> bool:
    found = None if budget is None else snapshot.budgets.get(budget)
    return found is not None and found.mode is Mode.OBSERVE


def _to_record(job: Job, snapshot: Snapshot) -> list[Allocation]:
    if not job.replaced or job.deleting or _observes(job.budget, snapshot):
        return []
    over = {record.number for record in job.records} | {run.number for run in job.runs if run.deleting}
    return [allocation for allocation in job.replaced if allocation.run not in over]


def _to_count(job: Job, snapshot: Snapshot) -> bool:
    if job.finish is None or job.predicted is None or job.budget is None:
        return False
    budget = snapshot.budgets.get(job.budget)
    return budget is not None and budget.balance is not None and not budget.balance.counts(job.id, job.finish.at)


def draining(rental: Rental) -> bool:
    """Whether it is to be ended: released by the planner, or its object deleted by a person."""
    return rental.phase is RentalPhase.DRAINING or (rental.deleting and rental.phase is not RentalPhase.ENDED)


def shows(survey: Survey, since: Instant) -> bool:
    """Whether the survey's lists must show what the cloud did by ``since`` (its own time), lag and all."""
    return survey.asked >= after(since, survey.lag_seconds)


def vanished(rental: Rental, instance: Instance | None, survey: Survey) -> bool:
    """Whether the rental's instance has ended so long ago that the cloud's list has already dropped it."""
    if rental.instance is None or instance is not None:
        return False
    return shows(survey, rental.created if rental.launched is None else rental.launched)


def count(amount: int, word: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{amount} {word}{'' if amount == 1 else 's'}"


def names(items: Iterable[str], most: int = 3) -> str:
    """The first few, for a sentence."""
    listed = sorted(items)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")
