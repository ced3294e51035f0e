"""The nodes of the one pool of a baseline, with what is free on them, kept as things happen."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heappop, heappush
from math import ceil

from charterer.domain.ids import RentalId
from charterer.domain.job import Allocation, Placement
from charterer.domain.money import ZERO
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode, Rent
from charterer.domain.time import Instant
from charterer.simulate.engine.node_market import SimMachine
from charterer.simulate.engine.sim_job import SimJob
from charterer.simulate.engine.world import World

_REASON = Reason(ReasonCode.DEMAND, 0.0, ZERO, "a baseline")
_Placements = tuple[Placement, ...]


def nodes_for(widths: Iterable[int], size: int) -> int:
    """Nodes that take jobs of these widths, packed first-fit by falling width."""
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
    """Ready nodes by what is free on them. A job of less than a node goes where the least is free that is enough.

    ``size``: GPUs of a node. ``booting``: nodes that are not ready yet. ``idle_since``: ready nodes that nobody uses,
    by since when, the longest idle first.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        ((self._pool, model),) = world.market.models.items()
        self.size = model.gpus_per_node
        self.price = model.hourly
        self.booting = 0
        self.idle_since: dict[RentalId, Instant] = {}
        self._free: dict[RentalId, int] = {}
        self._by_free: list[list[RentalId]] = [[] for _ in range(self.size + 1)]
        self._idle: list[tuple[int, RentalId]] = []
        self._options: dict[int, Option] = {}
        self._numbers: dict[RentalId, int] = {}
        self._returned: list[int] = []
        self._named = 0

    def __len__(self) -> int:
        """Nodes that are rented."""
        return len(self._free) + self.booting

    @property
    def idle(self) -> int:
        """Ready nodes that nobody uses."""
        return len(self._idle)

    def whole(self, gpus: int) -> int:
        """The width that can be placed: below a node as it is, else whole nodes."""
        return gpus if gpus < self.size else ceil(gpus / self.size) * self.size

    # --- what happened ------------------------------------------------------------------------------------------------

    def ready(self, machine: SimMachine) -> None:
        """A node takes pods."""
        self.booting -= 1
        self._numbers[machine.id] = machine.number
        self._put(machine.id, self.size)

    def taken(self, machine: SimMachine) -> None:
        """A ready node was taken back; what was on it has been given back."""
        self._gone(machine.id)

    def give_back(self, placements: _Placements) -> None:
        """What a job held is free."""
        for place in placements:
            self._put(place.rental, self._pull(place.rental) + place.gpus)

    # --- what is done -------------------------------------------------------------------------------------------------

    def place(self, gpus: int) -> _Placements | None:
        """Where so many GPUs are free in the right shape; None where they are not."""
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
        """They are free no longer."""
        for place in placements:
            self._put(place.rental, self._pull(place.rental) - place.gpus)

    def start(self, task: SimJob, placements: _Placements) -> None:
        """Start the job there."""
        self.take(placements)
        gpus = sum([place.gpus for place in placements])
        option = self._options.get(gpus)
        if option is None:
            option = self._options[gpus] = Option(self._pool, gpus, 1.0, self.price.share(gpus, self.size))
        world = self._world
        world.allocate(task, Allocation(task.runs + 1, option, placements, world.clock.instant))

    def rent(self, nodes: int) -> None:
        """Ask for more nodes."""
        world, budget = self._world, self._world.scenario.budget.id
        for _ in range(nodes):
            if self._returned:
                number = heappop(self._returned)
            else:
                number = self._named = self._named + 1
            name = RentalId(f"{self._pool}-{number}")
            self.booting += 1
            world.rent(Rent(name, self._pool, budget, ZERO, self.price, _REASON))
            if name not in world.market.machines:
                self.booting -= 1
                heappush(self._returned, number)

    def release(self, nodes: Iterable[RentalId]) -> None:
        """End idle nodes."""
        for name in nodes:
            self._gone(name)
            self._world.release(name)

    def idle_nodes(self) -> list[RentalId]:
        """Ready nodes that nobody uses, in order of renting."""
        return [name for _, name in self._idle]

    # --- keeping order ------------------------------------------------------------------------------------------------

    def _put(self, name: RentalId, free: int) -> None:
        self._free[name] = free
        insort(self._by_free[free], name)
        if free == self.size:
            self.idle_since[name] = self._world.clock.instant
            insort(self._idle, (self._numbers[name], name))

    def _pull(self, name: RentalId) -> int:
        free = self._free.pop(name)
        names = self._by_free[free]
        del names[bisect_left(names, name)]
        if free == self.size:
            del self.idle_since[name]
            del self._idle[bisect_left(self._idle, (self._numbers[name], name))]
        return free

    def _gone(self, name: RentalId) -> None:
        self._pull(name)
        del self._numbers[name]
        heappush(self._returned, int(name.rpartition("-")[2]))
