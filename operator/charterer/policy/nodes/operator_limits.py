"""Room under the operator's own limits: how many more nodes all pools and budgets together may have.

Every rental that has not ended counts, from its intent on, at the most that it can cost an hour; and so does every
machine that a cloud lists and no rental names. ``providers.guarded`` counts once more, before a cloud is asked.
"""

from __future__ import annotations

from charterer.domain.money import Price
from charterer.domain.pool import InstanceState, Pool, acting_pool
from charterer.domain.reasons.facts_of_waits import OperatorFact, OperatorHourlyUsed, OperatorNodesUsed
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import NO_LIMITS, OperatorLimits, Snapshot
from charterer.sentences import count


def in_words(limits: OperatorLimits) -> str:
    """``40 nodes and $500.00/h``."""
    nodes = "" if limits.nodes is None else count(limits.nodes, "node")
    return " and ".join(filter(None, [nodes, "" if limits.hourly is None else str(limits.hourly)]))


class OperatorRoom:
    """The nodes of all pools and their worst prices, beside the limits; renting uses up what is left."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._limits = snapshot.limits
        self.nodes, self._micros = 0, 0
        if self._limits == NO_LIMITS:
            return
        named = {(acting_pool(rental.pool, snapshot.pools), rental.instance) for rental in snapshot.rentals.values()}
        for rental in snapshot.rentals.values():
            if rental.phase is not RentalPhase.ENDED:
                self._add(rental.dearest)
        for name, survey in snapshot.surveys.items():
            for instance in survey.instances:
                key = acting_pool(name, snapshot.pools), instance.id
                if instance.state is not InstanceState.ENDED and key not in named:
                    named.add(key)
                    prices = (segment.price for segment in instance.segments)
                    self._add(max(_worst(snapshot.pools.get(name)), *prices, Price(0)))

    @property
    def hourly(self) -> Price:
        """The sum of worst prices."""
        return Price(self._micros)

    def take(self, pool: Pool) -> None:
        """Count one more node of the pool."""
        self._add(_worst(pool))

    def allows(self, pool: Pool, more: int) -> bool:
        """Whether that many more nodes of the pool stay within the limits."""
        return self.why_not(pool, more) is None

    def why_not(self, pool: Pool, more: int = 1) -> OperatorFact | None:
        """The limit that forbids that many more nodes of the pool; None when none does."""
        limits, worst = self._limits, _worst(pool)
        if limits.nodes is not None and self.nodes + more > limits.nodes:
            return OperatorNodesUsed(limits.nodes, self.nodes)
        if limits.hourly is not None and self._micros + more * worst.micros_per_hour > limits.hourly.micros_per_hour:
            return OperatorHourlyUsed(worst, limits.hourly, self.hourly)
        return None

    def _add(self, price: Price) -> None:
        self.nodes += 1
        self._micros += price.micros_per_hour


def _worst(pool: Pool | None) -> Price:
    """The most that a node of the pool can cost an hour."""
    return Price(0) if pool is None or pool.quote is None else pool.quote.worst
