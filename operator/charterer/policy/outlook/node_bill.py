"""What all nodes cost, and what the time of jobs is worth, by what each of the jobs in sight chooses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from charterer.domain.ids import PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.policy.nodes.holdings import HeldGpus
from charterer.policy.nodes.run_down import NodeOffer, RunDown, StandingNode, StandingNodes, WaitingJob
from charterer.policy.outlook.move_gate import Hold

Choices = Sequence[int | None]
"""The number of its way that each job chooses; None: as if it were not there."""
FIRST_CHOICE: Final = 0
"""Where a job's choice begins: what is best at its part of a node, whatever nodes there are.

Nodes that are rented for what was chosen must not change what is chosen.
"""


@dataclass(frozen=True, slots=True)
class NodeWay:
    """``gpus`` of each of ``nodes`` nodes, for ``seconds`` once they are ready. ``stays``: where a job runs already."""

    option: Option
    gpus: int
    nodes: int
    seconds: float
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Chooser:
    """A job. ``worth``: dollars of a second. ``first``: the way that it would have. ``gpus``: those that a runner has.

    ``holds``: why it may not choose some of its ways now, by their numbers.
    """

    job: Job
    worth: float
    ways: Sequence[NodeWay]
    first: int
    gpus: HeldGpus
    holds: Mapping[int, Hold]


@dataclass(frozen=True, slots=True)
class Bill:
    """``dollars`` of nodes, and ``time``: dollars that the jobs' time is worth."""

    dollars: float
    time: float

    @property
    def total(self) -> float:
        """Both."""
        return self.dollars + self.time


class RunDowns:
    """What all nodes cost, by what the jobs choose.

    Each pool is worked out once for each choice of those that have to do with it.
    """

    def __init__(
        self,
        nodes: Mapping[PoolId, Mapping[RentalId, StandingNode]],
        offers: Mapping[PoolId, NodeOffer],
        choosers: Sequence[Chooser],
    ) -> None:
        self.worked_out = 0
        self._nodes = nodes
        self._offers = offers
        self._choosers = choosers
        self._known: dict[tuple[PoolId, tuple[tuple[int, int], ...]], Bill] = {}

    def bill(self, choices: Choices) -> Bill:
        """All pools."""
        concerned: dict[PoolId, list[tuple[int, int]]] = {pool: [] for pool in self._nodes}
        for at, choice in enumerate(choices):
            if choice is None:
                continue
            chooser = self._choosers[at]
            target = chooser.ways[choice].option.pool
            concerned[target].append((at, choice))
            home = chooser.ways[0].option.pool if chooser.gpus else target
            if home != target:
                concerned[home].append((at, choice))
        found = [self._of_pool(pool, tuple(those)) for pool, those in concerned.items()]
        return Bill(sum([bill.dollars for bill in found]), sum([bill.time for bill in found]))

    def seconds(self, at: int, choices: Choices) -> float:
        """Seconds to the end of one job that chooses."""
        chooser, choice, without = self._choosers[at], choices[at], chosen_with(at, None, choices)
        if choice is None or not chooser.worth:
            return 0.0 if choice is None else chooser.ways[choice].seconds
        return (self.bill(choices).time - self.bill(without).time) / chooser.worth

    def _of_pool(self, pool: PoolId, choices: tuple[tuple[int, int], ...]) -> Bill:
        known = self._known.get((pool, choices))
        if known is None:
            self.worked_out += 1
            known = self._known[pool, choices] = self._run_down(pool, choices)
        return known

    def _run_down(self, pool: PoolId, choices: Iterable[tuple[int, int]]) -> Bill:
        nodes = {name: StandingNode(n.price, n.ready, n.least, [*n.jobs]) for name, n in self._nodes[pool].items()}
        time, placed = 0.0, list[tuple[float, float, WaitingJob]]()
        for chooser, way in [(self._choosers[at], self._choosers[at].ways[choice]) for at, choice in choices]:
            if way.stays:
                time += chooser.worth * way.seconds
                for rental, gpus in chooser.gpus.items():
                    if rental in nodes:
                        nodes[rental].jobs.append((gpus, way.seconds))
            elif way.option.pool == pool:
                runs = bool(chooser.gpus)  # while nodes for it start
                waits = 0.0 if runs else chooser.worth
                placed.append((chooser.worth, waits, WaitingJob(way.gpus, way.nodes, way.seconds, runs)))
        placed.sort(key=lambda each: not each[2].runs)  # the GPUs that a job leaves are its own first
        found = RunDown(StandingNodes(nodes.values()), self._offers[pool], inf)
        for worth, waits, job in placed:
            ready = found.add(job)
            if ready is None:
                return Bill(inf, inf)
            time += worth * job.seconds + waits * ready
        return Bill(found.dollars, time)


def chosen_with(number: int, choice: int | None, choices: Choices) -> list[int | None]:
    """The choices with another one of one job."""
    return [choice if at == number else each for at, each in enumerate(choices)]
