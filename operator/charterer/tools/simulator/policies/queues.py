"""Gang queues: jobs wait for all of their GPUs at once. In some of the queues jobs share GPUs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from charterer.domain.ids import ClassId, JobId, RentalId
from charterer.domain.job import Placement
from charterer.domain.time import Instant
from charterer.tools.simulator.engine.shared_gpus import SharedGpus, SharedRun, member
from charterer.tools.simulator.engine.world import World
from charterer.tools.simulator.model.pairs import PairMember
from charterer.tools.simulator.model.sim_job import Gpu, SimJob
from charterer.tools.simulator.policies.fleet import BaselineFleet

# A gang queue: each job waits until all of its GPUs are free at once. A job that fits may pass a job that does not fit.


_Waiting = tuple[float, Instant, JobId, SimJob]


class GangQueue:
    """Waiting jobs in lines. The jobs of a line have one width (and one class, if classes have a rank). The first job
    is at the head.

    ``first``: computes a job's value. The job with the least value comes first. Among equals the oldest is first.
    ``rank``: computes a class's present rank. The class with the least rank is first.
    """

    def __init__(self, first: Callable[[SimJob], float], rank: Callable[[ClassId], float] | None = None) -> None:
        self._first = first
        self._rank = rank
        self._lines: dict[tuple[int, ClassId | None], list[_Waiting]] = {}

    def __bool__(self) -> bool:
        """Whether any job waits."""
        return bool(self._lines)

    def put(self, job: SimJob, gpus: int) -> None:
        """Let the job wait for ``gpus`` GPUs."""
        line = self._lines.setdefault((gpus, job.class_id if self._rank else None), [])
        heappush(line, (self._first(job), job.created, job.id, job))

    def widths(self) -> Iterator[int]:
        """The width of each waiting job."""
        for (gpus, _), line in self._lines.items():
            for _ in line:
                yield gpus

    def waiting(self) -> list[tuple[int, SimJob]]:
        """The width of each waiting job, and the job, in the order of the queue."""
        entries = [(self._place(key, entry), key[0], entry[-1]) for key, line in self._lines.items() for entry in line]
        return [(gpus, job) for _, gpus, job in sorted(entries, key=lambda entry: entry[0])]

    def remove(self, jobs: Container[JobId]) -> None:
        """Remove these jobs from the queue."""
        lines = {key: [entry for entry in line if entry[2] not in jobs] for key, line in self._lines.items()}
        self._lines = {key: line for key, line in lines.items() if line}
        for line in self._lines.values():
            heapify(line)

    def serve(self, fleet: BaselineFleet) -> list[SimJob]:
        """Start the jobs that fit, in order, and return them. If the head of a line does not fit, the line is
        skipped.
        """
        started: list[SimJob] = []
        if not self._lines:
            return started
        heads = [(self._place(key, line[0]), key) for key, line in self._lines.items()]
        heapify(heads)
        while heads:
            _, key = heappop(heads)
            placements = fleet.place(key[0])
            if placements is None:
                continue
            line = self._lines[key]
            job = heappop(line)[-1]
            fleet.start(job, placements)
            started.append(job)
            if line:
                heappush(heads, (self._place(key, line[0]), key))
            else:
                del self._lines[key]
        return started

    def _place(self, key: tuple[int, ClassId | None], entry: _Waiting) -> tuple[float, Instant, JobId]:
        first, created, name, _ = entry
        return first if self._rank is None or key[1] is None else self._rank(key[1]), created, name


# Gang queues whose jobs share GPUs: first fit sharing, and best sharing benefit first (arXiv 2407.13088).
#
# Jobs are tried in the order of the queue, the shortest first. If there are enough free GPUs, the job gets them. If
# not, the job gets the free GPUs and GPUs on which one other job runs, if that other job may be its partner by
# ``PartnerRank``. No job is ever moved.


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two jobs that could share GPUs: the new job, and the job that already runs there. Each field has a value for both
    jobs, in this order.

    ``seconds_left``: seconds to the end at a job's full speed, which it has alone and in one pass.
    ``kept``: the fractions of the full speed that the jobs keep beside each other.
    ``alone``: the fractions of the full speed that the jobs keep alone, in their numbers of passes.
    """

    seconds_left: tuple[float, float]
    kept: tuple[float, float]
    alone: tuple[float, float]

    @property
    def mean_together(self) -> float:
        """The mean of both completion times if the new job starts now."""
        first, last = (0, 1) if self._ends_after(0) <= self._ends_after(1) else (1, 0)
        ended = self._ends_after(first)
        left = self.seconds_left[last] - ended * self.kept[last]
        return (2.0 * ended + left / self.alone[last]) / 2.0

    @property
    def mean_in_turn(self) -> float:
        """The mean of both completion times if the new job starts when the other job ends, in one pass."""
        return self.seconds_left[1] / self.alone[1] + self.seconds_left[0] / 2.0

    def _ends_after(self, which: int) -> float:
        return self.seconds_left[which] / self.kept[which]


PartnerRank = Callable[[Pairing], float | None]
"""The rank of a partner that fits. The partner with the least rank comes first. None if the job is no partner."""


def first_fit(_: Pairing) -> float | None:
    """SJF-FFS: any job that fits may be the partner. Jobs are tried in the order of nodes and GPUs."""
    return 0.0


def best_benefit(pairing: Pairing) -> float | None:
    """SJF-BSBF: a job may be the partner if both jobs then end earlier on average than one after the other. The largest
    gain comes first.
    """
    gain = pairing.mean_in_turn - pairing.mean_together
    return -gain if gain > 0.0 else None


class SharingQueue(GangQueue):
    """A gang queue, ordered by ``first``, whose jobs share GPUs by ``rank``.

    A job does a step in as few passes as memory permits. It uses more than one pass only beside a partner with which it
    does not fit otherwise.
    """

    def __init__(self, world: World, first: Callable[[SimJob], float], rank: PartnerRank) -> None:
        super().__init__(first)
        self._world = world
        self._partner_rank = rank

    def serve(self, fleet: BaselineFleet) -> list[SimJob]:
        """Start the jobs that fit on free GPUs or beside other jobs, in order. Returns the started jobs."""
        started = []
        open_gpus = self._open_gpus(fleet)
        for gpus, job in self.waiting():
            placements = fleet.place(gpus)
            if placements is not None:
                fleet.start(job, placements)
            elif (run := self._beside_others(job, gpus, fleet, open_gpus)) is not None:
                nodes = dict.fromkeys(gpu.rental for gpu in run.gpus)
                fleet.start(job, tuple(Placement(name, len(run.gpus) // len(nodes)) for name in nodes), run)
            else:
                continue
            started.append(job)
            open_gpus = self._open_gpus(fleet)
        self.remove({job.id for job in started})
        return started

    def _open_gpus(self, fleet: BaselineFleet) -> _OpenGpus:
        """GPUs with at most one job, if that job permits another. Empty if there is no table of pairs."""
        shared, found = self._world.shared_gpus, dict[RentalId, list[tuple[int, SimJob | None]]]()
        if shared is None:
            return found
        for rental in fleet.ready_nodes:
            for number in range(fleet.size):
                jobs = shared.jobs_on(Gpu(rental, number))
                if len(jobs) < 2:
                    found.setdefault(rental, []).append((number, jobs[0] if jobs else None))
        return found

    def _beside_others(self, job: SimJob, gpus: int, fleet: BaselineFleet, open_gpus: _OpenGpus) -> SharedRun | None:
        shared = self._world.shared_gpus
        if shared is None or sum(map(len, open_gpus.values())) < gpus:
            return None
        refused = set[SimJob]()
        for passes in shared.table.passes(fleet.gpu_type, job.class_id.name):
            search = _Search(self._world, shared, fleet, self._partner_rank, job, gpus, passes, open_gpus, refused)
            found = search.gpus_beside_others()
            if found is not None:
                return SharedRun(found, passes)
        return None


_OpenGpus = Mapping[RentalId, Sequence[tuple[int, SimJob | None]]]
"""For each node, the numbers of its GPUs with at most one job. Each GPU comes with that job."""
_Candidate = tuple[bool, float, int]
"""Whether a job is on the GPU, that job's rank as a partner, and the GPU's number."""


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for ``gpus`` GPUs for a job that does a step in ``passes`` passes.

    ``refused``: jobs that fit beside the job in at most that many passes, but that may not be its partners.
    """

    world: World
    shared: SharedGpus
    fleet: BaselineFleet
    rank: PartnerRank
    job: SimJob
    gpus: int
    passes: int
    open_gpus: _OpenGpus
    refused: set[SimJob]
    _ranks: dict[SimJob, float | None] = field(default_factory=dict)

    def gpus_beside_others(self) -> tuple[Gpu, ...] | None:
        """GPUs of one node, or all GPUs of whole nodes. As few of them as possible are shared, and with the best
        partners.
        """
        on_each = min(self.gpus, self.fleet.size)
        nodes: list[tuple[int, float, int, RentalId, list[_Candidate]]] = []
        for number, rental in enumerate(self.open_gpus):
            candidates = sorted(self._candidates(rental))[:on_each]
            if len(candidates) == on_each:
                occupied = sum(there for there, _, _ in candidates)
                nodes.append((occupied, sum(rank for _, rank, _ in candidates), number, rental, candidates))
        chosen = sorted(nodes, key=lambda node: node[:3])[: self.gpus // on_each]
        if len(chosen) * on_each < self.gpus:
            return None
        return tuple(Gpu(rental, number) for _, _, _, rental, candidates in chosen for _, _, number in candidates)

    def _candidates(self, rental: RentalId) -> Iterator[_Candidate]:
        for number, host in self.open_gpus[rental]:
            if host is None:
                yield False, 0.0, number
                continue
            if host not in self._ranks:
                self._ranks[host] = self._rank_of(host, rental)
            rank = self._ranks[host]
            if rank is not None:
                yield True, rank, number

    def _rank_of(self, host: SimJob, rental: RentalId) -> float | None:
        kept = self.shared.both_kept(self.job, self.passes, host, rental)
        if kept is None or host in self.refused:
            return None
        host.advance(self.world.clock.now)
        gpu_type, table, job = self.fleet.gpu_type, self.shared.table, self.job
        own = PairMember(job.class_id.name, self.passes)
        left = (
            job.application.seconds_left(job.done, gpu_type, self.gpus),
            host.application.seconds_left(host.done, gpu_type, host.gpus),
        )
        alone = table.kept_alone(gpu_type, own), table.kept_alone(gpu_type, member(host))
        rank = self.rank(Pairing(left, kept, alone))
        if rank is None:
            self.refused.add(host)
        return rank
