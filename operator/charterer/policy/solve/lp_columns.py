"""Classes as the linear program of scarce room sees them: each a mixture of columns, which are ways to run a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from charterer.domain.ids import BudgetId, PoolId
from charterer.policy.solve.hull import corners

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LpColumn:
    """One way to run a job to its end: dollars, seconds, and GPU-seconds by pool."""

    money: float
    seconds: float
    use: Mapping[PoolId, float]


@dataclass(frozen=True, slots=True)
class PoolUses:
    """Columns that use pools: ``columns[k]`` uses ``amounts[k]`` GPU-seconds of the pool ``pools[numbers[k]]``."""

    columns: NDArray[np.intp]
    pools: Sequence[PoolId]
    numbers: NDArray[np.intp]
    amounts: NDArray[np.float64]


class LpColumns(tuple[LpColumn, ...]):
    """The columns of a class, with what does not depend on its load: worked out once for several programs.

    Its arrays are made, and numpy is imported, where a program is solved.
    """

    @cached_property
    def chain(self) -> Sequence[int]:
        """The columns on the hull of (dollars, seconds)."""
        return corners([(column.money, column.seconds) for column in self])

    @cached_property
    def slopes(self) -> Sequence[float]:
        """Dollars for each second saved, from corner to corner of the chain."""
        columns = [self[at] for at in self.chain]
        return [(fast.money - cheap.money) / (cheap.seconds - fast.seconds) for cheap, fast in pairwise(columns)]

    @cached_property
    def money(self) -> NDArray[np.float64]:
        """Dollars by column."""
        import numpy as np

        return np.array([column.money for column in self])

    @cached_property
    def seconds(self) -> NDArray[np.float64]:
        """Seconds by column."""
        import numpy as np

        return np.array([column.seconds for column in self])

    @cached_property
    def uses(self) -> PoolUses:
        """All uses of pools."""
        import numpy as np

        uses = [(at, pool, amount) for at, column in enumerate(self) for pool, amount in column.use.items() if amount]
        pools = tuple({pool: None for _, pool, _ in uses})
        return PoolUses(
            columns=np.array([at for at, _, _ in uses], dtype=int),
            pools=pools,
            numbers=np.array([pools.index(pool) for _, pool, _ in uses], dtype=int),
            amounts=np.array([amount for _, _, amount in uses], dtype=float),
        )


@dataclass(frozen=True, slots=True)
class LpClass:
    """Jobs of a budget that choose alike: ``load`` jobs a second, each of ``weight``; at least one column.

    ``ceiling``: dollars that a second of life of weight 1 may cost at most. ``held``: GPU-seconds that are really held
    for each in the columns' use.
    """

    budget: BudgetId
    load: float
    weight: float
    ceiling: float
    columns: LpColumns
    held: float = 1.0


def pareto_front(columns: Sequence[LpColumn]) -> list[int]:
    """Indices of the columns that can win at some rate and prices: none is at most as dear, slow and wide in all pools.

    A column above the hull of (dollars, seconds) may win once a pool has a price. Of equal columns the first is kept.
    """
    kept: list[int] = []
    order = sorted(
        range(len(columns)), key=lambda at: (columns[at].money, columns[at].seconds, sum(columns[at].use.values()))
    )
    for new in order:
        column = columns[new]
        if not any(
            columns[old].seconds <= column.seconds
            and all(amount <= column.use.get(pool, 0.0) for pool, amount in columns[old].use.items())
            for old in kept
        ):
            kept.append(new)
    return sorted(kept)
