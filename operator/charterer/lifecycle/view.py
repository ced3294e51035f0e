"""A snapshot with the joins that the steps need, such as the pods on a node. Each join is computed once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from charterer.domain.budget import Mode
from charterer.domain.cost_row import SPELLS_KEPT, USES_KEPT, Payer, Spell, Use
from charterer.domain.gpu_time import gpu_type_of
from charterer.domain.ids import BudgetId, InstanceId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import Allocation, Job, RunRecord
from charterer.domain.job_records import beside_empty, doing, spans
from charterer.domain.pod import Pod
from charterer.domain.pool import Instance, InstanceState, Pool, Survey, acting_pool
from charterer.domain.rental import Rental, RentalPhase, by_gang
from charterer.domain.snapshot import Node, Snapshot, Stop
from charterer.domain.time import LAST, Instant, after
from charterer.incremental import Memo

# The uses of a rental's GPUs are copied from the jobs' records onto the rental, which may outlive the jobs.


Held = tuple[tuple[RentalId, Use], ...]
"""The uses of one job, each with its rental."""


def held_by(job: Job, labels: Sequence[str], users: bool) -> Held:
    """The uses of the job's runs, past and present, as far as the job's own record goes back.

    ``labels``: keys of the job's labels that are recorded. ``users``: whether the job's creator is recorded.

    For a run that was resized in place, the result has only the use of the present width, since the last change. The
    rentals already have the uses of the earlier widths and the earlier activity of the GPUs. Each use in the result
    has one spell, which is the present activity.
    """
    now = doing(job)

    def use(run: RunRecord | Allocation, start: Instant, end: Instant, takes: int, empty: int) -> Use:
        spells = (Spell(start, beside_empty(now, empty, takes)),) if run is job.allocation else ()
        return Use(_payer(job, run, labels, users), takes, start, None if end == LAST else end, spells)

    return tuple(
        [
            (rental, use(run, start, end, takes, empty))
            for run, start, end in spans(job, LAST)
            for rental, (takes, empty) in _gpus(job, run).items()
        ]
    )


def _gpus(job: Job, run: RunRecord | Allocation) -> Mapping[RentalId, tuple[int, int]]:
    """By rental, the number of GPUs that the run takes, and how many of these stay empty."""
    gpus: dict[RentalId, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for place in job.trusted(run) if isinstance(run, Allocation) else run.placements:
        takes, empty = gpus[place.rental]
        gpus[place.rental] = takes + place.takes, empty + place.empty
    return gpus


def _payer(job: Job, run: RunRecord | Allocation, labels: Sequence[str], users: bool) -> Payer:
    variant = job.variant(run.option.variant)
    job_class = job.class_id if variant is None else variant.class_id
    number = run.number if isinstance(run, RunRecord) else run.run
    kept = {key: job.labels[key] for key in labels if key in job.labels}
    user = job.user if users else ""
    return Payer(job.namespace, job.name, job.id, number, str(job_class.counted_in), user, kept)


def by_rental(
    jobs: Mapping[JobId, Job], labels: tuple[str, ...], users: bool, memo: Memo
) -> Mapping[RentalId, Sequence[Use]]:
    """The uses of all jobs by rental. The uses of a rental are the same object until one of them changes."""
    held = memo.stable(memo.each(held_by, jobs, labels, users), "held")
    return memo.each(_uses, memo.grouped(_rental_of, _order, memo(_each_of, held)))


def _each_of(held: Mapping[JobId, Held]) -> Mapping[tuple[JobId, int], tuple[RentalId, Use]]:
    return {(job, place): item for job, items in held.items() for place, item in enumerate(items)}


def _rental_of(item: tuple[RentalId, Use]) -> RentalId:
    return item[0]


def _order(item: tuple[RentalId, Use]) -> tuple[RentalId, Instant, str, int]:
    return item[0], item[1].since, item[1].payer.job_uid, item[1].payer.run


def _uses(items: tuple[tuple[RentalId, Use], ...]) -> tuple[Use, ...]:
    return tuple([use for _, use in items])


def settled(rental: Rental, held: Sequence[Use] | None) -> bool:
    """Whether the rental records exactly the uses that the jobs report (``held``), so that ``uses_now`` changes none.

    The answer does not depend on the time, and is valid until either input changes.
    """
    told, last = _by_run(held or ()), _by_run(rental.uses)
    return not _added(rental, told, last) and all(
        use.until == (told[run].until if told[run].since <= use.since else use.until) and not _differs(use, told[run])
        if run in told
        else use.until is not None
        for run, use in last.items()
    )


def uses_now(rental: Rental, held: Sequence[Use], snapshot: Snapshot) -> Rental:
    """The rental with its present uses, or the same object if it records them already.

    ``held``: the uses that the jobs report, one of each run. A use that no job reports any more ends now, unless its
    job exists but cannot be read. If a run has had another width since, its use of the former width ends when the use
    of the new width began. The payer stays as it was at the beginning. A new spell begins if the activity of the GPUs
    changes noticeably.
    """
    told, last = _by_run(held), _by_run(rental.uses)
    uses = [
        _continued(use, told.get(use.key), rental, snapshot) if use is last[use.key] else use for use in rental.uses
    ]
    uses += _added(rental, told, last)
    if tuple(uses) == rental.uses:
        return rental
    uses.sort(key=lambda use: (use.since, use.payer.job_uid))
    now = _with_gpu_time(replace(rental, uses=tuple(uses)), snapshot)
    excess = sorted((use for use in uses if use.until is not None), key=lambda use: use.until or 0)
    dropped = excess[: max(len(uses) - USES_KEPT, 0)]
    return now.without_uses(dropped) if dropped else now


def _with_gpu_time(rental: Rental, snapshot: Snapshot) -> Rental:
    """The rental whose ``dropped_gpu_time`` counts in the present period of its budget, with its GPU type."""
    budget = snapshot.known_budgets.get(rental.budget)
    start = rental.dropped_from
    if budget is not None and budget.balance is not None:
        start = max(start or Instant(0), budget.balance.period_start)
    time = rental.dropped_since(start or Instant(0))
    return replace(rental, gpu_type=gpu_type_of(rental, snapshot.pools), dropped_from=start, dropped_gpu_time=time)


def _by_run(uses: Iterable[Use]) -> Mapping[tuple[str, int], Use]:
    """The last use of each run."""
    return {use.key: use for use in sorted(uses, key=lambda use: use.since)}


def _added(rental: Rental, told: Mapping[tuple[str, int], Use], last: Mapping[tuple[str, int], Use]) -> Sequence[Use]:
    """The uses that the jobs report and the rental lacks. Each such use belongs to a further run, or to a further
    width of a run.

    A job may later report an earlier beginning of a run, when its record no longer has the previous run.
    """
    return [
        use
        for run, use in told.items()
        if (run not in last or use.since > last[run].since) and (use.until is None or use.until > _settled(rental))
    ]


_NOTICEABLE: Final = 100
"""Smallest change of activity, in thousandths of GPU-time, that begins a new spell. Reports are not more exact, and
each spell costs a write of each of the run's rentals.
"""


def _differs(use: Use, told: Use) -> bool:
    """Whether the activity of the use's GPUs has changed noticeably. ``told``: the use as its job reports it now."""
    if use.until is not None or told.until is not None or told.since > use.since or not told.spells:
        return False
    if len(use.spells) >= SPELLS_KEPT:
        return False
    before, now = dict(use.spells[-1].parts) if use.spells else {}, dict(told.spells[-1].parts)
    return before.keys() != now.keys() or any(abs(part - before[kind]) >= _NOTICEABLE for kind, part in now.items())


def _continued(use: Use, told: Use | None, rental: Rental, snapshot: Snapshot) -> Use:
    """The last use of a run, updated with its job's present report. All spells on record but the last are dropped."""
    found = replace(use, until=_until(use, told, snapshot))
    if told is None or not _differs(use, told):
        return found
    through = Instant(0) if rental.recorded is None else rental.recorded.through
    over = sum([spell.since <= through for spell in use.spells])
    kept = use.spells[max(over - 1, 0) :]
    parts = told.spells[-1].parts if len(kept) < SPELLS_KEPT - 1 else ()
    return replace(found, spells=(*kept, Spell(max(snapshot.now, use.since), parts)))


def _settled(rental: Rental) -> Instant:
    """The time up to which no use is added any more, because earlier uses are on record or were dropped."""
    return max(rental.uses_since or Instant(0), Instant(0) if rental.recorded is None else rental.recorded.through)


def _until(use: Use, told: Use | None, snapshot: Snapshot) -> Instant | None:
    """The end of a run's last use, as its job reports it, or None while the use goes on."""
    if told is not None and told.since <= use.since:
        return told.until
    if use.until is not None:
        return use.until
    if told is not None:
        return told.since
    name = (use.payer.namespace, use.payer.job)
    unread = {(problem.namespace, problem.name) for problem in snapshot.problems if problem.kind == "TrainingJob"}
    if name in unread and all((job.namespace, job.name) != name for job in snapshot.jobs.values()):
        return None
    return max(snapshot.now, use.since)


COUNTED_STATES = frozenset({InstanceState.PENDING, InstanceState.RUNNING})
"""States of an instance in which the cloud counts it towards its group's target."""
MISSING_SECONDS = 30.0
"""Seconds between the first and the second list that lack an instance before it counts as ended."""


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod on a node, with its job."""

    job: Job
    pod: Pod

    @property
    def recorded(self) -> bool:
        """Whether the pod is no longer needed as evidence, because its run is on record or its TrainingJob is being
        deleted.
        """
        return self.job.deleting or any(record.number == self.pod.run for record in self.job.records)


@dataclass(frozen=True, slots=True)
class EndingRun:
    """A replaced run whose end is not yet on record, with its name and its job's grace period in seconds."""

    run: str
    grace_seconds: int


Rivals = Mapping[str, Sequence[Rental]]
"""Rentals with the same provider id, in order of creation. Clouds reuse numbers, names and addresses of machines."""


def rivals_of(rentals: Mapping[Any, Rental]) -> Rivals:
    """The provider ids that more than one rental has, each with its rentals."""
    found: dict[str, list[Rental]] = defaultdict(list)
    for rental in rentals.values():
        if rental.provider_id:
            found[rental.provider_id].append(rental)
    return {
        name: sorted(several, key=lambda rental: (rental.created, rental.id))
        for name, several in found.items()
        if len(several) > 1
    }


@dataclass(frozen=True, slots=True)
class NodeIndex:
    """The nodes by name, by provider id (if they have one) and by each of their placement labels."""

    by_name: Mapping[NodeName, Node]
    by_provider_id: Mapping[str, Node]
    labelled: Mapping[str, Sequence[Node]]
    rivals: Rivals

    @classmethod
    def of(cls, nodes: Mapping[NodeName, Node], rivals: Rivals) -> NodeIndex:
        labelled: dict[str, list[Node]] = defaultdict(list)
        for node in nodes.values():
            for key in node.run_labels:
                labelled[key].append(node)
        by_provider_id = {node.provider_id: node for node in nodes.values() if node.provider_id}
        return cls(nodes, by_provider_id, labelled, rivals)

    def of_rental(self, rental: Rental) -> Node | None:
        """The rental's Node object, or None if there is none.

        Clouds reuse names, so the provider id decides if both the rental and the Node have one. If several rentals have
        the same provider id, the Node belongs to the rental whose machine has the UUID that the Node reports, or else
        to the newest one. A rental that has ended does not own a Node that reports the UUID of another machine.
        """
        node = self._named(rental)
        rivals = self.rivals.get(rental.provider_id)
        if node is None or rivals is None:
            over = rental.phase is RentalPhase.ENDED and node is not None and is_another(rental, node)
            return None if over else node
        speaks = [rival for rival in rivals if is_machine(rival, node)]
        return node if rental.id == (speaks or rivals)[-1].id else None

    def _named(self, rental: Rental) -> Node | None:
        node = self.by_provider_id.get(rental.provider_id) if rental.provider_id else None
        if node is None and rental.node is not None:
            named = self.by_name.get(rental.node)
            node = named if named is not None and not (named.provider_id and rental.provider_id) else None
        return node


def is_machine(rental: Rental, node: Node) -> bool:
    """Whether the Node reports the machine of the rental, by the cloud's id of the machine."""
    return bool(node.machine) and machine_uuid(node.machine) == machine_uuid(rental.instance or "")


def is_another(rental: Rental, node: Node) -> bool:
    """Whether the Node reports another machine than the rental's, with a UUID that differs from the rental's UUID."""
    told = machine_uuid(node.machine), machine_uuid(rental.instance or "")
    return all(_UUID.fullmatch(each) for each in told) and told[0] != told[1]


def machine_uuid(text: str) -> str:
    """The UUID of a machine, the same for both byte orders in which firmware may report its first half."""
    plain = text.lower()
    if _UUID.fullmatch(plain) is None:
        return plain
    return min(plain, str(UUID(bytes_le=UUID(plain).bytes)))


_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class PoolMachines:
    """A pool's rentals and the machines that its cloud lists. Rentals that have ended are left out.

    ``waiting``: rentals without a machine. ``listed``: rentals whose machine counts towards the target. ``unlisted``:
    rentals whose machine the list lacks. ``unnamed``: machines that no rental of the pool names. ``counted``: number of
    living machines. ``gangs``: by name, the rentals of gangs that are to stay.
    """

    waiting: Sequence[Rental]
    listed: Sequence[Rental]
    unlisted: Sequence[Rental]
    unnamed: Sequence[Instance]
    counted: int
    gangs: Mapping[str, Sequence[Rental]]

    @classmethod
    def of(cls, rentals: Sequence[Rental], instances: Mapping[InstanceId, Instance]) -> PoolMachines:
        """Match rentals and machines in time linear in their numbers."""
        live = [rental for rental in rentals if rental.phase is not RentalPhase.ENDED]
        counted = {item.id for item in instances.values() if item.state in COUNTED_STATES}
        named = {rental.instance for rental in rentals}
        return cls(
            waiting=[rental for rental in live if rental.instance is None],
            listed=[rental for rental in live if rental.instance in counted],
            unlisted=[rental for rental in live if rental.instance is not None and rental.instance not in instances],
            unnamed=[item for item in instances.values() if item.id not in named],
            counted=len(counted),
            gangs=by_gang(rental for rental in rentals if rental.stays),
        )


@dataclass(frozen=True, slots=True)
class LifecycleView:
    """The joins of a snapshot, made by ``LifecycleView.of``. Lists of rentals are in order of creation.

    ``rentals_of_pool``: by acting pool, its rentals and those of the pools that it acts for. ``machines``: by pool, if
    its cloud has answered. ``listed``: the instances of rentals, as the clouds list them. ``rented``: by provider id,
    the acting pools whose rentals name it. ``uses``: by rental, the uses of its GPUs, as the jobs report. ``settled``:
    by rental, whether its uses are on record. ``uncounted``: finished jobs whose cost their budget has not yet counted
    in their class. ``ending``: by rental, the replaced runs placed there whose end is not yet on record.
    ``open_rental``: while the operator drains, a rental whose Node still accepts pods. A rental that is not marked
    for draining comes first, then the last marked rental.
    """

    snapshot: Snapshot
    rentals_of_pool: Mapping[PoolId, Sequence[Rental]]
    rentals_of_budget: Mapping[BudgetId, Sequence[Rental]]
    instances: Mapping[PoolId, Mapping[InstanceId, Instance]]
    machines: Mapping[PoolId, PoolMachines]
    listed: Mapping[RentalId, Instance]
    pods_on: Mapping[NodeName, Sequence[BoundPod]]
    nodes: NodeIndex
    uncounted: Mapping[BudgetId, Sequence[Job]]
    ending: Mapping[RentalId, Sequence[EndingRun]]
    rented: Mapping[str, Set[PoolId]]
    uses: Mapping[RentalId, Sequence[Use]]
    settled: Mapping[RentalId, bool]
    open_rental: Rental | None

    @classmethod
    def of(cls, snapshot: Snapshot, memo: Memo | None = None) -> LifecycleView:
        """The joins of the snapshot, made in time linear in jobs, pods, rentals, instances and nodes."""
        memo = Memo() if memo is None else memo
        by_pool, by_budget = memo(_by_pool_and_budget, snapshot.rentals, snapshot.pools)
        by_pool = memo.stable(by_pool, "rentals of pools")
        recording = snapshot.cost_recording
        uses = by_rental(snapshot.jobs, recording.labels, recording.users, memo)
        uncounted: dict[BudgetId, list[Job]] = defaultdict(list)
        ending: dict[RentalId, list[EndingRun]] = defaultdict(list)
        for job in memo(_with_ends, snapshot.jobs):
            if job.budget is not None and _uncounted(job, snapshot):
                uncounted[job.budget].append(job)
            for allocation in _unrecorded(job, snapshot) if job.replaced else ():
                ended = EndingRun(job.run_title(allocation.run), job.grace_seconds)
                for placement in job.trusted(allocation):
                    ending[placement.rental].append(ended)
        listed = {pool: survey.instances for pool, survey in snapshot.surveys.items()}
        instances = {
            pool: memo.stable(by_id, ("instances", pool)) for pool, by_id in memo.each(_instances_by_id, listed).items()
        }
        nodes = memo(NodeIndex.of, snapshot.nodes, memo.stable(memo(rivals_of, snapshot.rentals), "rivals"))
        return cls(
            snapshot=snapshot,
            rentals_of_pool=by_pool,
            rentals_of_budget=by_budget,
            instances=instances,
            machines={
                pool: memo(PoolMachines.of, by_pool.get(pool, ()), machines) for pool, machines in instances.items()
            },
            listed=memo(_listed, by_pool, tuple(instances), tuple(instances.values())),
            pods_on=memo(_by_node, memo.each(_bound_pods, snapshot.jobs)),
            nodes=nodes,
            uncounted=uncounted,
            ending=ending,
            rented=memo(_rented, by_pool),
            uses=uses,
            settled=memo.each(settled, (snapshot.rentals, uses)),
            open_rental=_open_rental(snapshot.rentals, nodes) if snapshot.stop is Stop.DRAIN else None,
        )

    def acting(self, pool: PoolId) -> PoolId:
        """The pool that acts for the machines of this pool (``acting_pool``)."""
        return acting_pool(pool, self.snapshot.pools)

    def survey(self, rental: Rental) -> Survey | None:
        """The last survey of the pool that acts for the rental, or None if the cloud was never reached."""
        return self.snapshot.surveys.get(self.acting(rental.pool))

    def surveys_of_group(self, rental: Rental) -> Iterable[Survey]:
        """The last surveys of all pools with the same machines as the rental's pool."""
        acting = self.acting(rental.pool)
        return (survey for pool, survey in self.snapshot.surveys.items() if self.acting(pool) == acting)

    def instance(self, rental: Rental) -> Instance | None:
        """The rental's instance as the cloud lists it, or None if the rental names none, or the list lacks it."""
        return self.listed.get(rental.id)

    def unclaimed(self, pool: PoolId) -> list[Instance]:
        """Instances of the pool that no rental of any pool names, in order of their launch.

        In its own pool, a machine is identified by its id, because its provider id may be that of an earlier machine.
        Other pools may have another id for the machine, so in other pools it is identified by its provider id.
        """
        machines = self.machines.get(pool)
        unnamed = () if machines is None else machines.unnamed
        unclaimed = [item for item in unnamed if not self.rented.get(item.provider_id, _NOWHERE) - {pool}]
        return sorted(unclaimed, key=lambda item: (item.launched, item.id))

    def node(self, rental: Rental) -> Node | None:
        """The rental's Node object, or None if there is none."""
        return self.nodes.of_rental(rental)

    def pods(self, rental: Rental) -> Sequence[BoundPod]:
        """Charterer's pods on the rental's machine, even if its Node object is already gone."""
        node = self.node(rental)
        if node is not None:
            return self.pods_on.get(node.name, ())
        if rental.node is None or rental.node in self.snapshot.nodes:
            return ()  # no node ever registered, or the name now belongs to another machine
        return self.pods_on.get(rental.node, ())

    def rental(self, rental: RentalId) -> Rental | None:
        """The rental, or None if its object does not exist any more."""
        return self.snapshot.rentals.get(rental)

    def guarded(self, budget: BudgetId) -> bool:
        """Whether the budget has the finalizer that keeps it while rentals name it."""
        guarded = self.snapshot.budgets.get(budget)
        return guarded is not None and guarded.guarded

    def observes(self, budget: BudgetId | None) -> bool:
        """Whether the budget is in mode Observe, so that nothing may be rented, ended or run for it."""
        return _observes(budget, self.snapshot)


def _by_pool_and_budget(
    rentals: Mapping[RentalId, Rental], pools: Mapping[PoolId, Pool]
) -> tuple[Mapping[PoolId, Sequence[Rental]], Mapping[BudgetId, Sequence[Rental]]]:
    by_pool: dict[PoolId, list[Rental]] = defaultdict(list)
    by_budget: dict[BudgetId, list[Rental]] = defaultdict(list)
    for rental in sorted(rentals.values(), key=lambda rental: (rental.created, rental.id)):
        by_pool[acting_pool(rental.pool, pools)].append(rental)
        by_budget[rental.budget].append(rental)
    return by_pool, by_budget


def _open_rental(rentals: Mapping[RentalId, Rental], nodes: NodeIndex) -> Rental | None:
    living = [rental for rental in rentals.values() if rental.phase is not RentalPhase.ENDED and rental.cloud.rents]
    opened = [rental for rental in living if takes_pods(nodes.of_rental(rental))]
    return max(opened, key=lambda rental: (rental.released is None, rental.released or Instant(0)), default=None)


_NOWHERE: Final[Set[PoolId]] = frozenset()


def _rented(by_pool: Mapping[PoolId, Sequence[Rental]]) -> Mapping[str, Set[PoolId]]:
    found: dict[str, set[PoolId]] = defaultdict(set)
    for pool, rentals in by_pool.items():
        for rental in rentals:
            if rental.provider_id:
                found[rental.provider_id].add(pool)
    return found


def _instances_by_id(instances: Sequence[Instance]) -> Mapping[InstanceId, Instance]:
    return {item.id: item for item in instances}


def _listed(
    rentals_of_pool: Mapping[PoolId, Sequence[Rental]],
    pools: Sequence[PoolId],
    instances: Sequence[Mapping[InstanceId, Instance]],
) -> Mapping[RentalId, Instance]:
    """The instance of each rental. ``instances``: the cloud's list of each of ``pools``."""
    return {
        rental.id: instance
        for pool, here in zip(pools, instances, strict=True)
        for rental in rentals_of_pool.get(pool, ())
        if rental.instance is not None and (instance := here.get(rental.instance)) is not None
    }


def _bound_pods(job: Job) -> Sequence[tuple[NodeName, BoundPod]]:
    return [(pod.node, BoundPod(job, pod)) for run in job.runs for pod in run.pods if pod.node is not None]


def _by_node(bound: Mapping[JobId, Sequence[tuple[NodeName, BoundPod]]]) -> Mapping[NodeName, Sequence[BoundPod]]:
    pods: dict[NodeName, list[BoundPod]] = defaultdict(list)
    for of_job in bound.values():
        for node, pod in of_job:
            pods[node].append(pod)
    return pods


def _observes(budget: BudgetId | None, snapshot: Snapshot) -> bool:
    observed = None if budget is None else snapshot.budgets.get(budget)
    return observed is not None and observed.mode is Mode.OBSERVE


def _unrecorded(job: Job, snapshot: Snapshot) -> list[Allocation]:
    """The replaced allocations whose runs still have to be recorded."""
    if not job.replaced or job.deleting or _observes(job.budget, snapshot):
        return []
    done = {record.number for record in job.records}
    return [allocation for allocation in job.replaced if allocation.run not in done]


def _with_ends(jobs: Mapping[JobId, Job]) -> Sequence[Job]:
    """The jobs that have finished or have replaced runs, whose ends may have to be recorded."""
    return [job for job in jobs.values() if job.finish is not None or job.replaced]


def _uncounted(job: Job, snapshot: Snapshot) -> bool:
    """Whether the job has finished and its cost is not yet in its budget's history of classes."""
    if job.finish is None or job.predicted is None or job.budget is None:
        return False
    budget = snapshot.budgets.get(job.budget)
    return budget is not None and budget.balance is not None and not budget.balance.counts(job.id, job.finish.at)


def draining(rental: Rental) -> bool:
    """Whether the rental is to be ended, because it was released or somebody deleted its object."""
    return rental.phase is RentalPhase.DRAINING or (rental.deleting and rental.phase is not RentalPhase.ENDED)


def left_alone(rental: Rental, view: LifecycleView) -> bool:
    """Whether the rental's machine is not ended because its budget only observes. A person's order to drain ends the
    machine anyway.
    """
    return view.observes(rental.budget) and view.snapshot.stop is not Stop.DRAIN


def takes_pods(node: Node | None) -> bool:
    """Whether pods can be scheduled onto the node."""
    return node is not None and not node.unschedulable and not node.deleting


def must_show(survey: Survey, since: Instant) -> bool:
    """Whether the survey must show events up to ``since`` (the cloud's time), in spite of the lag of its lists."""
    return survey.asked >= after(since, survey.traits.lag_seconds)


def missing(rental: Rental, instance: Instance | None, survey: Survey) -> bool:
    """Whether the list must show the rental's instance and lacks it.

    If only the cloud's reply named the instance, its age counts from that reply, however old its rental is.
    """
    if rental.instance is None or instance is not None:
        return False
    return must_show(survey, rental.launched or rental.named or rental.created)


def vanished(rental: Rental, instance: Instance | None, survey: Survey) -> bool:
    """Whether the instance is missing, and was missing in a list some time ago, so that it has ended and left the list.

    A single list is not enough, because a cloud may once answer with half a list or an empty one while its machines go
    on.
    """
    since = rental.missing_since
    if since is None or not missing(rental, instance, survey):
        return False
    return survey.asked >= after(since, MISSING_SECONDS + survey.traits.lag_seconds)
