"""Where a job of some width goes: onto ready nodes now, onto nodes that boot, or onto nodes still to be rented.

Below a node it goes into the fullest node that fits, or the one that its ``choice`` names; whole nodes get a pod
each, all of one pool (one zone). Nobody owns a booting node: each plan offers ready GPUs first to the job that comes
first, and rents only what is missing.
A job that must wait keeps the ready nodes it counts on from those behind it, or wide jobs would starve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from charterer.domain.ids import RentalId
from charterer.domain.job import Placement
from charterer.domain.option import Option
from charterer.domain.plan import ReasonCode
from charterer.policy.nodes.capacity import FreeNodes, NodesByFreeGpus
from charterer.policy.nodes.holdings import HeldGpus, by_rental

RentNodes = Callable[[int, int], list[RentalId]]
NodeChoice = Callable[[NodesByFreeGpus], RentalId | None]
"""Names the node that a job takes of some, None for none of them."""


@dataclass(frozen=True, slots=True)
class GpuClaim:
    """``placements`` when the job can go there at once, else the ``nodes`` it waits for, or why it is ``blocked``."""

    placements: tuple[Placement, ...] | None
    nodes: tuple[RentalId, ...] = ()
    blocked: ReasonCode | None = None


class PoolAllocator:
    """One pool's nodes of one budget, with ways to get more of them.

    ``refusal(n)`` says why n more nodes cannot be rented (None: they can); ``rent(n, there)`` rents them, beside those
    that are there already, and names them.
    """

    def __init__(
        self,
        nodes: FreeNodes,
        gpus_per_node: int,
        refusal: Callable[[int], ReasonCode | None],
        rent: RentNodes,
    ) -> None:
        self._nodes = nodes
        self._size = gpus_per_node
        self.refusal = refusal
        self._rent = rent

    def claim(
        self,
        option: Option,
        own: HeldGpus,
        hosts: Callable[[tuple[RentalId, ...]], bool],
        *,
        only_ready: bool = False,
        choice: NodeChoice | None = None,
    ) -> GpuClaim:
        """Take GPUs for an option. ``own``: what the job holds already, which its next run may use again.

        ``choice``: of a node, below a whole one; without it the fullest is taken. ``hosts`` says whether the limits
        allow the job on these ready nodes. With ``only_ready`` nothing is waited for. Nothing is taken when the claim
        is blocked.
        """
        self._lend(own)
        claim = self._claim(option.takes, hosts, only_ready, choice)
        taken = by_rental(claim.placements or ())
        for rental, gpus in own.items():
            if rental in self._nodes.ready.free:
                self._nodes.ready.take(rental, max(gpus - taken.get(rental, 0), 0))
        return claim

    def add(self) -> None:
        """Rent a node that no job has asked for."""
        for name in self._rent(1, 0):
            self._nodes.booting.put(name, self._size)

    def look(
        self, option: Option, own: HeldGpus, choice: NodeChoice | None = None
    ) -> tuple[list[RentalId], list[RentalId], int]:
        """Ready nodes, booting nodes and the number of nodes to be rented that a claim would take."""
        self._lend(own)
        found = self._find(option.takes, choice)
        for rental, gpus in own.items():
            if rental in self._nodes.ready.free:
                self._nodes.ready.take(rental, gpus)
        return found

    def waits(self, option: Option, own: HeldGpus, choice: NodeChoice | None = None) -> list[float] | None:
        """Seconds until each booting node that a claim would take is ready; None where nodes must be rented."""
        _, booting, missing = self.look(option, own, choice)
        seconds = self._nodes.booting.seconds
        if missing or any(name not in seconds for name in booting):
            return None
        return [seconds[name] for name in booting]

    def missing(self, option: Option, own: HeldGpus, choice: NodeChoice | None = None) -> int:
        """How many nodes would have to be rented for a claim."""
        if choice is not None:
            return self.look(option, own, choice)[2]
        ready, booting, gpus, size = self._nodes.ready, self._nodes.booting, option.takes, self._size
        least = min(gpus, size)
        freed = [free for name, held in own.items() if (free := ready.free.get(name, least)) < least <= free + held]
        there = ready.whole_ones(least) + booting.whole_ones(least) + len(freed)
        return max(max(gpus // size, 1) - there, 0)

    def _lend(self, own: HeldGpus) -> None:
        for rental, gpus in own.items():
            if rental in self._nodes.ready.free:
                self._nodes.ready.take(rental, -gpus)

    def _find(self, gpus: int, choice: NodeChoice | None) -> tuple[list[RentalId], list[RentalId], int]:
        """Ready nodes, booting nodes and the number of missing ones for a width."""
        if gpus < self._size:
            ready = self._nodes.ready.fullest(gpus) if choice is None else choice(self._nodes.ready)
            if ready is not None:
                return [ready], [], 0
            booting = self._nodes.booting.fullest(gpus) if choice is None else choice(self._nodes.booting)
            return [], [booting] if booting is not None else [], 0 if booting is not None else 1
        nodes = gpus // self._size
        whole = self._nodes.ready.whole(self._size, nodes)
        coming = self._nodes.booting.whole(self._size, nodes - len(whole))
        return whole, coming, nodes - len(whole) - len(coming)

    def _claim(
        self, gpus: int, hosts: Callable[[tuple[RentalId, ...]], bool], only_ready: bool, choice: NodeChoice | None
    ) -> GpuClaim:
        ready, booting, missing = self._find(gpus, choice)
        each = min(gpus, self._size)
        if booting or missing:
            if only_ready:
                return GpuClaim(None, blocked=ReasonCode.WAITING_FOR_NODE)
            refused = self.refusal(missing) if missing else None
            if refused is not None:
                return GpuClaim(None, blocked=refused)
            for name in self._rent(missing, len(ready) + len(booting)) if missing else ():
                self._nodes.booting.put(name, self._size)
                booting.append(name)
        elif not hosts(tuple(ready)):
            return GpuClaim(None, blocked=ReasonCode.HARD_LIMIT)
        for name in ready:
            self._nodes.ready.take(name, each)
        for name in booting:
            self._nodes.booting.take(name, each)
        self._nodes.touched.update(ready, booting)
        if booting:
            return GpuClaim(None, (*ready, *booting))
        return GpuClaim(tuple(Placement(name, each) for name in ready))
