"""What the options of jobs that share a full pool are worth to them, in dollars a second (docs/theory/policy.md).

    ρ_j = Σ_{i waits, w_i·θ/u_i < w_j·θ/u_j} w_i·θ / G    dollars for a GPU-second; u: GPU-seconds needed, G: GPUs
    R_jo = ρ_j·g_o·a_o                                    dollars of its room
    C_jo = w·θ·a_o + m_o + R_jo                           what the job still costs on o
    L_jo = C_jo − min_o C_jo                              what it costs more than the best
    v_jo = w·θ + R_jo/a_o − min(L_jo, T_j/a_o·L_jo + M_jo)/T_j      dollars a second on o, beside waiting

T is the wait for its best option, or its life on that if shorter: a job that begins on o either stays there for life,
or moves after T for M dollars. One that is never resized stays. A running job loses L/a, until others have left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from charterer.domain.ids import PoolId
from charterer.domain.job import Job
from charterer.policy.nodes.holdings import HeldGpus
from charterer.policy.options.option_value import Projection

LEAST = 1.0
"""Least seconds that a job counts to have left: a second of one that is nearly over would be worth any price."""


@dataclass(frozen=True, slots=True)
class RoomCandidate:
    """A job and its projections, the best first; of a running one, the first is to stay on ``held``.

    ``restarts``: seconds without training that each option of a running job begins with. ``wait``: of one that waits,
    seconds until there would be room for the best option.
    """

    job: Job
    worth: float
    projections: Sequence[Projection]
    held: HeldGpus | None = None
    restarts: Sequence[float] = ()
    wait: float = inf

    @property
    def index(self) -> float:
        """Smith's: what a second of the job is worth for each GPU-second that it still needs."""
        return self.worth / (self.projections[0].option.takes * max(self.projections[0].seconds, LEAST))


class Charges:
    """The price of a GPU-second for a job whose pool others wait for: the later in Smith's order, the less."""

    def __init__(self, waiting: Sequence[RoomCandidate], gpus: Mapping[PoolId, int]) -> None:
        self._gpus = gpus
        self._indices: dict[PoolId, list[float]] = {}
        self._worths: dict[PoolId, list[float]] = {}
        for candidate in sorted(waiting, key=lambda one: (one.index, one.job.id)):
            pool = candidate.projections[0].option.pool
            worths = self._worths.setdefault(pool, [0.0])
            worths.append(worths[-1] + candidate.worth)
            self._indices.setdefault(pool, []).append(candidate.index)

    def of(self, candidate: RoomCandidate) -> Mapping[PoolId, float]:
        """Dollars for a GPU-second that the candidate takes from those behind, by pool that any of them wants."""
        index = candidate.index
        return {
            pool: worths[bisect_left(self._indices[pool], index)] / max(self._gpus[pool], 1)
            for pool, worths in self._worths.items()
        }


def values_of_ways(
    candidate: RoomCandidate, charges: Charges, moves: Sequence[float], wanted_for: float
) -> Sequence[float]:
    """The values of the candidate's options, in their order.

    ``moves``: M, by option; ``wanted_for``: mean seconds for which waiting jobs want room. A job that makes room is
    likely to be made wider again after that: two restarts, in which its time passes and its GPUs are billed and not
    there for others.
    """
    projections = candidate.projections
    price = charges.of(candidate)
    room = [
        price.get(projection.option.pool, 0.0) * projection.option.takes * projection.seconds
        for projection in projections
    ]
    costs = [
        candidate.worth * projection.seconds + projection.dollars + dollars
        for projection, dollars in zip(projections, room, strict=True)
    ]
    least, seconds = min(costs), [max(projection.seconds, LEAST) for projection in projections]
    losses = [(cost - least) / took for cost, took in zip(costs, seconds, strict=True)]
    if candidate.held is None:
        wait = max(candidate.wait, LEAST)
        losses = [
            min(loss * took, loss * wait + move) / wait for loss, took, move in zip(losses, seconds, moves, strict=True)
        ]
    values = [
        candidate.worth + dollars / took - loss for dollars, took, loss in zip(room, seconds, losses, strict=True)
    ]
    if candidate.held is None:
        return values
    lost = [2.0 * restart / wanted_for * least / seconds[0] for restart in candidate.restarts]
    # a loss that lasts longer is no smaller: what costs the job more is worth no more
    most = [inf if cost <= costs[0] else values[0] for cost in costs]
    return [min(value, bound) - less for value, bound, less in zip(values, most, lost, strict=True)]
