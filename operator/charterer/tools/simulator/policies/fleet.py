"""The nodes that a baseline rents in one pool, and their free GPUs, updated event by event."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush
from math import ceil

from charterer.domain.ids import PoolId, RentalId
from charterer.domain.job import Allocation, Placement
from charterer.domain.money import ZERO, Price
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode, Rent
from charterer.domain.pool import CapacityType
from charterer.domain.reasons.nodes import AnyDemand
from charterer.domain.time import Instant
from charterer.tools.simulator.engine.shared_gpus import SharedRun
from charterer.tools.simulator.engine.world import World
from charterer.tools.simulator.model.node_market import SimMachine
from charterer.tools.simulator.model.sim_job import Gpu, SimJob

_REASON = Reason(ReasonCode.DEMAND, 0.0, ZERO, AnyDemand(ZERO))
_Placements = tuple[Placement, ...]


def nodes_for(widths: Iterable[int], size: int) -> int:
    """The number of nodes of ``size`` GPUs that jobs of these widths need. The jobs are packed first-fit, the widest
    job first.
    """
    nodes, spare = 0, list[int]()
    for gpus in sorted(widths, reverse=True):
        if gpus >= size:
            nodes += gpus // size
            continue
        at = next((at for at, free in enumerate(spare) if free >= gpus), None)
        if at is None:
            spare.append(size - gpus)
        else:
            spare[at] -= gpus
    return nodes + len(spare)


class BaselineFleet:
    """Ready nodes by their free GPUs. A job of less than a node goes to the fullest node that fits.

    ``pool``: the pool of the nodes.
    ``size``, ``gpu_type``: GPUs of a node, and their type.
    ``spot``: whether the cloud may take nodes back.
    ``most``: most nodes that can ever be rented at once.
    ``idle_since``: ready nodes without a job and since when, the longest idle first.
    """

    def __init__(self, world: World, pool: PoolId) -> None:
        self._world = world
        self.pool = pool
        model = world.market.models[pool]
        self.size = model.gpus_per_node
        self.name = model.name
        self.gpu_type = model.gpu_type
        self.spot = model.capacity_type is CapacityType.SPOT
        self.most = model.most_nodes
        self.price = model.hourly
        self.idle_since: dict[RentalId, Instant] = {}
        self._booting: dict[RentalId, None] = {}
        self._free: dict[RentalId, int] = {}
        self._by_free: list[list[RentalId]] = [[] for _ in range(self.size + 1)]
        self._idle: list[tuple[int, RentalId]] = []
        self._options: dict[int, Option] = {}
        self._numbers: dict[RentalId, int] = {}
        self._free_numbers: list[int] = []
        self._highest_number = 0

    def __len__(self) -> int:
        """The number of rented nodes."""
        return len(self._free) + self.booting

    @property
    def gpu_price(self) -> Price:
        """The present price of one GPU."""
        quote = self._world.market.pools[self.pool].quote
        assert quote is not None
        return quote.price.for_gpus(1, self.size)

    @property
    def most_now(self) -> int:
        """The most nodes that can be rented at once under the present limits."""
        return self._world.market.most_now(self.pool)

    @property
    def booting(self) -> int:
        """The number of rented nodes that are not ready yet."""
        return len(self._booting)

    @property
    def ready_nodes(self) -> list[RentalId]:
        """The nodes that take pods, in order of renting."""
        return sorted(self._numbers, key=self._numbers.__getitem__)

    @property
    def idle(self) -> int:
        """The number of ready nodes without a job."""
        return len(self._idle)

    def placeable_width(self, gpus: int) -> int:
        """The least width of at least ``gpus`` that can be placed: any width below a node, otherwise whole nodes."""
        return gpus if gpus < self.size else ceil(gpus / self.size) * self.size

    # --- events -------------------------------------------------------------------------------------------------------

    def machine_ready(self, machine: SimMachine) -> None:
        """Add a node that takes pods from now on."""
        del self._booting[machine.id]
        self._numbers[machine.id] = machine.number
        self._put_in(machine.id, self.size)

    def machine_lost(self, machine: SimMachine) -> None:
        """Remove a node that was taken back. Its GPUs must have been counted as free before."""
        self._remove(machine.id)

    def give_back(self, placements: _Placements) -> None:
        """Count GPUs that a job held as free."""
        for place in placements:
            self._put_in(place.rental, self._take_out(place.rental) + place.gpus)

    def left(self, job: SimJob, held: _Placements) -> None:
        """Count as free the GPUs that the job has left, except those that another job still uses."""
        self.give_back(held if self._world.shared_gpus is None else self._unused(job.devices))

    # --- actions ------------------------------------------------------------------------------------------------------

    def place(self, gpus: int) -> _Placements | None:
        """Free GPUs for a job of that width, on one node or on whole nodes, or None if there are none."""
        size = self.size
        if gpus < size:
            for names in self._by_free[gpus:]:
                if names:
                    return (Placement(names[0], gpus),)
            return None
        nodes = gpus // size
        if nodes > len(self._idle):
            return None
        return tuple([Placement(name, size) for _, name in self._idle[:nodes]])

    def take(self, placements: _Placements) -> None:
        """Count the GPUs of the placements as used."""
        for place in placements:
            self._put_in(place.rental, self._take_out(place.rental) - place.gpus)

    def start(self, job: SimJob, placements: _Placements, shared: SharedRun | None = None) -> None:
        """Start the job on these placements. ``shared``: the job's GPUs there, if other jobs may be on some of the
        GPUs.
        """
        self.take(placements if shared is None else self._unused(shared.gpus))
        gpus = sum([place.gpus for place in placements])
        option = self._options.get(gpus)
        if option is None:
            option = self._options[gpus] = Option(self.pool, gpus, 1.0, self.price.for_gpus(gpus, self.size))
        world = self._world
        world.allocate(job, Allocation(job.runs + 1, option, placements, world.clock.instant), shared)

    def rent(self, nodes: int) -> None:
        """Ask for ``nodes`` more nodes. If the pool may have fewer, ask for as many as it may have."""
        world, budget = self._world, self._world.scenario.budget.id
        for _ in range(min(nodes, self.most_now - len(self))):
            if self._free_numbers:
                number = heappop(self._free_numbers)
            else:
                number = self._highest_number = self._highest_number + 1
            name = RentalId(f"{self.pool}-{number}")
            self._booting[name] = None
            world.rent(Rent(name, self.pool, budget, ZERO, self.price, _REASON))

    def release(self, nodes: Iterable[RentalId]) -> None:
        """End idle nodes, or nodes that are not ready yet."""
        for name in nodes:
            self._remove(name)
            self._world.release(name)

    def idle_nodes(self) -> list[RentalId]:
        """Ready nodes without a job, in order of renting."""
        return [name for _, name in self._idle]

    def end_all(self) -> None:
        """End all nodes. No job may be on them."""
        self.release([*self._booting, *self.idle_nodes()])

    # --- bookkeeping --------------------------------------------------------------------------------------------------

    def _unused(self, gpus: Iterable[Gpu]) -> _Placements:
        """The GPUs among these on which there is no job, by node."""
        shared = self._world.shared_gpus
        assert shared is not None
        unused = Counter(gpu.rental for gpu in gpus if not shared.jobs_on(gpu))
        return tuple(Placement(rental, count) for rental, count in unused.items())

    def _put_in(self, name: RentalId, free: int) -> None:
        self._free[name] = free
        insort(self._by_free[free], name)
        if free == self.size:
            self.idle_since[name] = self._world.clock.instant
            insort(self._idle, (self._numbers[name], name))

    def _take_out(self, name: RentalId) -> int:
        free = self._free.pop(name)
        names = self._by_free[free]
        del names[bisect_left(names, name)]
        if free == self.size:
            del self.idle_since[name]
            del self._idle[bisect_left(self._idle, (self._numbers[name], name))]
        return free

    def _remove(self, name: RentalId) -> None:
        if name in self._booting:
            del self._booting[name]
        else:
            self._take_out(name)
            del self._numbers[name]
        heappush(self._free_numbers, int(name.rpartition("-")[2]))
