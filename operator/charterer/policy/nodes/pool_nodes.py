"""A block of rentals as it stands now: with its nodes, and with who holds how much of them.

Kept from plan to plan while the block is the same, and nothing was heard of its nodes or of who is on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from charterer.domain.ids import RentalId
from charterer.domain.money import Money, Price
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Node
from charterer.domain.time import Instant
from charterer.policy.nodes.capacity import Holdings
from charterer.policy.nodes.hard_limit import Exposed, exposure
from charterer.policy.nodes.rental_index import PoolRentals


class PoolNodes:
    """``nodes`` are those of the block's ready rentals (None: there is none)."""

    def __init__(self, block: PoolRentals, nodes: Sequence[Node | None], holdings: Holdings) -> None:
        self.block = block
        self._nodes = nodes
        self._used = [holdings.used.get(one.id, 0) for one in block.live]
        self._grace = [holdings.grace.get(one.id, 0) for one in block.live]
        self._exposed: tuple[float, Exposed] | None = None

    @cached_property
    def free(self) -> Mapping[RentalId, int]:
        """GPUs that nobody holds on the ready rentals whose nodes take pods."""
        used = {one.id: held for one, held in zip(self.block.live, self._used, strict=True)}
        free = [
            (rental.id, node.gpus - node.foreign_gpus - used[rental.id])
            for rental, node in zip(self.block.ready, self._nodes, strict=True)
            if node is not None and node.ready and not node.unschedulable and not node.deleting
        ]
        return dict(sorted(free))

    @cached_property
    def unwell(self) -> Sequence[tuple[Rental, Node | None]]:
        """Ready rentals without a node, or with one that is not ready, and that node."""
        nodes = zip(self.block.ready, self._nodes, strict=True)
        return [(one, node) for one, node in nodes if node is None or node.not_ready_since is not None]

    @cached_property
    def unused(self) -> Sequence[Rental]:
        """Rentals that stay though nobody holds any of their GPUs."""
        held = zip(self.block.live, self._used, strict=True)
        return [one for one, used in held if not used and one.id in self.block.staying]

    def exposed(self, lag_seconds: float, now: Instant) -> Exposed:
        """Of the live rentals that do not boot; ``lag_seconds``: of the cloud's list."""
        if self._exposed is None or self._exposed[0] != lag_seconds:
            booting = {one.id for one in self.block.booting}
            alike: dict[tuple[Price, int], Money] = {}
            most: dict[RentalId, Money] = {}
            for one, grace in zip(self.block.live, self._grace, strict=True):
                if one.id not in booting:
                    kind = one.worst, grace
                    if kind not in alike:
                        alike[kind] = exposure(one, grace, lag_seconds, now)
                    most[one.id] = alike[kind]
            worst = {one.id: one.worst for one in self.block.live if one.id not in booting}
            found = Exposed(
                each=most,
                worst=worst,
                micros=sum([one.micros for one in most.values()]),
                worst_micros=sum([one.micros_per_hour for one in worst.values()]),
            )
            self._exposed = lag_seconds, found
        return self._exposed[1]
