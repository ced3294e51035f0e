"""The linear program that allocates limited rows to classes, each a mixture of its columns, by HiGHS.

min Σ_j c_j·x_j    s.t.  Σ_j of class i x_j = 1 for each class i,   Σ_j u_jr·x_j ≤ limit_r for each row r,   x ≥ 0
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from charterer.domain.ids import PoolId

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from highspy import HighsLp

    Floats = npt.NDArray[np.float64]
    Numbers = npt.NDArray[np.int64]

Uses = Sequence[tuple[int, float]]
"""The rows that a class uses on one column, each with the amount that it uses if the whole class takes that column."""

_TOLERANCES = (1e-10, 1e-7)
"""Tolerances relative to a row's scale and to the most expensive column: the smallest that HiGHS accepts, and the
default of HiGHS for programs that it cannot solve so exactly."""
_MOST_ITERATIONS = 100_000
"""Number of iterations after which a program is given up. A few iterations for each column are usual."""
_FEW = 1_000
"""Number of columns up to which it is no faster to leave out columns that no optimum contains."""
_ROUNDING = 1e-10
"""A smaller fraction counts as 0, and so does a price that is a smaller fraction of the largest one."""


class SolverGaveUp(RuntimeError):
    """A program was not solved: its numbers are too far apart, or it took too many iterations."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The optimum of a program.

    ``cost``: the least cost.
    ``fractions``: x for each column.
    ``prices``: for each row, the decrease of the cost if its limit is higher by one.
    """

    cost: float
    fractions: Floats
    prices: Sequence[float]


class Columns(NamedTuple):
    """The columns of a program: for each column, its cost, the number of its class (from 0 without gaps), and its
    kind."""

    costs: Floats
    classes: Numbers
    kinds: Numbers


def minimise(columns: Columns, uses: Sequence[Uses], limits: Sequence[float], begin: Numbers) -> Optimum | None:
    """The optimum; None if no mixture keeps within the limits. Raises SolverGaveUp if HiGHS gives up.

    ``uses``: for each kind, the amounts of each row that a column of the kind uses. No limit may be negative.
    ``begin``: the columns with which a large program is solved first. Then columns that improve the optimum are
    added, one of each class at first and twice as many each time, until no column improves it. If it were always one,
    equal jobs would try the same pool each time, and hundreds of pools would take hundreds of solutions. The libraries
    are imported here because most plans need no program.
    """
    import numpy as np
    from highspy import Highs, HighsModelStatus

    number = len(columns.costs)
    scales = list(limits)
    for kind in np.unique(columns.kinds):
        for row, amount in uses[kind]:
            scales[row] = max(scales[row], amount)
    scales = [scale or 1.0 for scale in scales]
    dearest = float(np.max(np.abs(columns.costs), initial=0.0)) or 1.0
    scaled = columns._replace(costs=columns.costs / dearest)
    matrix = _Matrix([[(row, amount / scales[row]) for row, amount in used] for used in uses], len(limits))
    bounds = [limit / scale for limit, scale in zip(limits, scales, strict=True)]
    for tolerance in _TOLERANCES:
        solver, here = Highs(), begin if number > _FEW else np.arange(number)
        solver.silent()
        solver.setOptionValue("solver", "simplex")
        solver.setOptionValue("simplex_iteration_limit", _MOST_ITERATIONS)
        solver.setOptionValue("primal_feasibility_tolerance", tolerance)
        solver.setOptionValue("dual_feasibility_tolerance", tolerance)
        solver.passModel(_program(scaled, here, matrix, bounds))
        most = 1  # columns of each class that are added next
        while True:
            solver.run()
            status = solver.getModelStatus()
            if status == HighsModelStatus.kInfeasible:
                more = np.setdiff1d(np.arange(number), here)
            elif status == HighsModelStatus.kOptimal:
                more = _improving(scaled, here, matrix.prices(solver.getSolution().row_dual), most)
                most *= 2
            else:
                break
            if not len(more):
                break
            ends, index, value = matrix.entries(scaled, more)
            none = np.zeros(len(more))
            starts = (ends - np.diff(ends, prepend=0)).astype(np.int32)
            solver.addCols(len(more), scaled.costs[more], none, none + np.inf, len(index), starts, index, value)
            here = np.concatenate([here, more])
        if status == HighsModelStatus.kInfeasible:
            return None
        if status == HighsModelStatus.kOptimal:
            break
    else:
        size = f"{number} columns and {len(limits)} rows"
        raise SolverGaveUp(f"a linear program of {size}: {solver.modelStatusToString(status)}")
    solution, fractions = solver.getSolution(), np.zeros(number)
    fractions[here] = solution.col_value
    prices = [-price for price in list(solution.row_dual)[: len(limits)]]
    least = _ROUNDING * max(prices, default=0.0)
    return Optimum(
        cost=solver.getInfo().objective_function_value * dearest,
        fractions=np.where(fractions > _ROUNDING, fractions, 0.0),
        prices=[price * dearest / scale if price > least else 0.0 for price, scale in zip(prices, scales, strict=True)],
    )


class _Matrix:
    """The amounts that columns use of each row. The rows of limits come first, and then a row for each class."""

    def __init__(self, uses: Sequence[Uses], rows: int) -> None:
        import numpy as np

        each = [[*used, (rows, 1.0)] for used in uses]  # the row of its class comes last
        self._sizes = np.array([len(entries) for entries in each], dtype=np.int64)
        self._firsts = np.cumsum(self._sizes) - self._sizes
        self._index = np.array([row for used in each for row, _ in used], dtype=np.int32)
        self._value = np.array([amount for used in each for _, amount in used])
        self._uses = uses

    def entries(self, columns: Columns, which: Numbers) -> tuple[Numbers, npt.NDArray[np.int32], Floats]:
        """The entries of these columns, one column after the other, in the format of HiGHS: where each column ends,
        the rows, and the amounts."""
        import numpy as np

        kinds = columns.kinds[which]
        sizes = self._sizes[kinds]
        ends = np.cumsum(sizes)
        at = np.repeat(self._firsts[kinds] - (ends - sizes), sizes) + np.arange(sizes.sum())
        index = self._index[at]
        index[ends - 1] += columns.classes[which]
        return ends, index, self._value[at]

    def prices(self, duals: Sequence[float]) -> Floats:
        """For each kind, the value of the room that a column of the kind takes."""
        import numpy as np

        of_rows = [-dual for dual in duals]
        return np.array([sum([amount * of_rows[row] for row, amount in used]) for used in self._uses], dtype=np.float64)


def _improving(columns: Columns, here: Numbers, prices: Floats, most: int) -> Numbers:
    """The ``most`` cheapest columns of each class at the rows' ``prices``, of those that are cheaper than all columns
    of the class in ``here``."""
    import numpy as np

    if len(here) == len(columns.costs):
        return here[:0]
    net, classes = columns.costs + prices[columns.kinds], columns.classes
    least = np.full(int(np.max(classes)) + 1, np.inf)
    np.minimum.at(least, classes[here], net[here])
    better = np.flatnonzero(net < least[classes] - _TOLERANCES[0])
    return better[_cheapest(net[better], classes[better], most)]


def _cheapest(costs: Floats, classes: Numbers, most: int) -> Numbers:
    """The indexes of the ``most`` lowest costs of each class, class by class."""
    import numpy as np

    order = np.lexsort((costs, classes))
    firsts = np.flatnonzero(np.diff(classes[order], prepend=-1) > 0)
    ranks = np.arange(len(order)) - np.repeat(firsts, np.diff(firsts, append=len(order)))
    return order[ranks < most]


def _program(columns: Columns, which: Numbers, matrix: _Matrix, limits: Sequence[float]) -> HighsLp:
    """The program of these columns in the format of HiGHS: a row for each limit, then a row for each class."""
    import numpy as np
    from highspy import HighsLp, MatrixFormat

    mixtures = [1.0] * (int(np.max(columns.classes, initial=-1)) + 1)
    ends, index, value = matrix.entries(columns, which)
    program = HighsLp()
    program.num_col_, program.num_row_ = len(which), len(limits) + len(mixtures)
    program.col_cost_ = columns.costs[which]
    program.col_lower_, program.col_upper_ = np.zeros(len(which)), np.full(len(which), np.inf)
    program.row_lower_ = np.array([-np.inf] * len(limits) + mixtures)
    program.row_upper_ = np.array([*limits, *mixtures])
    used = program.a_matrix_
    used.format_ = MatrixFormat.kColwise
    used.num_col_, used.num_row_ = program.num_col_, program.num_row_
    used.start_ = np.concatenate([[0], ends]).astype(np.int32)
    used.index_, used.value_ = index, value
    return program


# If there are too few nodes for all jobs, an integer program decides which jobs get which nodes. It also gives a
# bound on the value of any answer.
#
#   max Σ_j Σ_o v_jo·x_jo    s.t.  Σ_o x_jo ≤ 1 per job (= 1 for one that runs), and the nodes hold what is chosen
#
# A way to run takes ``gpus`` GPUs of one node, or whole nodes, all at once. A running job may stay where it is, and
# then takes exactly its present GPUs. Let a_jo be the GPUs that a way takes of each node, n_jo its number of nodes,
# and f_i the free GPUs of node i:
#
#   Σ_j Σ_o n_jo·⌊a_jo/k⌋·x_jo ≤ Σ_i ⌊f_i/k⌋    for each width k and pool
#
# This holds for every placement, because parts of nodes cannot be combined. If each width divides the next one, the
# condition is also sufficient for jobs that do not stay. So no variable names a node: the relaxation has a row for
# each pool and width. Its optimum is the bound. Its choices are placed on the nodes, and choices that do not fit are
# replaced. A second placement takes one job after the other. The answer is the better of the two placements. If the
# answer is not within ``NEAR`` of the bound, branch and bound goes on for a limited number of columns. The limit is
# not a time, so that the same program always has the same answer (docs/development/adr/0010).


NEAR = 0.01
"""Largest gap between answer and bound, as a fraction, at which the search stops."""
_EACH = 100
"""The fixed work for each program, counted as this number of columns."""
_WHOLE = 1e-6
"""A fraction that differs from 0 or 1 by less than this counts as 0 or 1."""


class Way(NamedTuple):
    """One way to run: ``gpus`` GPUs of a pool. ``value``: dollars a second by which this way is better than
    waiting."""

    pool: PoolId
    gpus: int
    value: float


class Claimant(NamedTuple):
    """A job that asks for room.

    ``ways``: the ways that it may run, the best for itself first.
    ``stays``: the index of the way that it has now; None for a waiting job.
    ``held``: the nodes and GPUs that it holds now.

    A running job always keeps some way. If it changes its way, it leaves its nodes. The cost of that is subtracted
    from the value of the new way.
    """

    ways: tuple[Way, ...]
    stays: int | None = None
    held: tuple[tuple[int, int], ...] = ()


class NodeRoom(NamedTuple):
    """The nodes of a pool, in one zone.

    ``size``: GPUs of a node.
    ``free``: for each node, the GPUs that are free or that claimants hold.
    """

    size: int
    free: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Allotment:
    """The ways that claimants get.

    ``chosen``: for each claimant, the index of its way; None if it waits.
    ``value``: dollars a second of this answer. ``bound``: the most dollars a second that any answer can have.
    ``first``: dollars a second if one job after the other were placed.
    ``node_worth``: for each pool, the dollars a second that one more node would add to the bound.
    """

    chosen: tuple[int | None, ...]
    value: float
    bound: float
    first: float
    node_worth: Mapping[PoolId, float]

    @property
    def gap(self) -> float:
        """The difference between bound and answer, as a fraction of the bound."""
        return max(1.0 - self.value / self.bound, 0.0) if self.bound > 0.0 else 0.0


def fits(wanted: Iterable[Way], pools: Mapping[PoolId, NodeRoom]) -> bool:
    """Whether there may be nodes for all of these ways. If each width divides the next one, a positive answer is
    certain."""
    ways = tuple(wanted)
    program = _Rows(pools, {(way.pool, way.gpus) for way in ways})
    used = [0.0] * len(program.limits)
    for way in ways:
        for row, amount in program.uses(way):
            used[row] += amount
    return all(amount <= limit for amount, limit in zip(used, program.limits, strict=True))


def allocate(claimants: Sequence[Claimant], pools: Mapping[PoolId, NodeRoom], work: int) -> Allotment:
    """The best allotment found. ``work``: the largest number of columns, over all programs together, that may be
    solved for it."""
    return _Program(claimants, pools).solve(work)


class _Rows:
    """The rows of the relaxation: a row for each pool and each width up to a node."""

    def __init__(self, pools: Mapping[PoolId, NodeRoom], widths: Iterable[tuple[PoolId, int]]) -> None:
        self._pools = pools
        parts = sorted({(pool, min(gpus, pools[pool].size)) for pool, gpus in widths})
        self.widths: dict[PoolId, list[int]] = {}
        self._first: dict[PoolId, int] = {}
        self.limits: list[float] = []
        for row, (pool, width) in enumerate(parts):
            self._first.setdefault(pool, row)
            self.widths.setdefault(pool, []).append(width)
            self.limits.append(float(sum(max(free, 0) // width for free in pools[pool].free)))
        self._known: dict[tuple[PoolId, int], Uses] = {}

    def uses(self, way: Way) -> Uses:
        """The amount of each row that a way takes."""
        key = way.pool, way.gpus
        if key not in self._known:
            size, first = self._pools[way.pool].size, self._first[way.pool]
            part, nodes = min(way.gpus, size), max(way.gpus // size, 1)
            taken = [(first + at, float(nodes * (part // width))) for at, width in enumerate(self.widths[way.pool])]
            self._known[key] = [(row, amount) for row, amount in taken if amount]
        return self._known[key]

    def worth(self, pool: PoolId, prices: Sequence[float]) -> float:
        """The value of one more whole node, at the prices of the rows."""
        size, first = self._pools[pool].size, self._first.get(pool, 0)
        return sum(prices[first + at] * (size // width) for at, width in enumerate(self.widths.get(pool, ())))


class _Nodes:
    """One pool's nodes, by their free GPUs."""

    def __init__(self, free: Sequence[int]) -> None:
        self.free = list(free)
        self._with: dict[int, list[int]] = {}
        for node, gpus in enumerate(free):
            self._with.setdefault(gpus, []).append(node)

    def change(self, node: int, more: int) -> None:
        """Count ``more`` GPUs of the node as free."""
        before, now = self.free[node], self.free[node] + more
        self.free[node] = now
        alike = self._with[before]
        del alike[bisect_left(alike, node)]
        insort(self._with.setdefault(now, []), node)

    def fullest(self, gpus: int) -> int | None:
        """Among the nodes with at least ``gpus`` free GPUs, the fullest one, and the first of several; None if there
        is no such node."""
        least = min((free for free, nodes in self._with.items() if free >= gpus and nodes), default=None)
        return None if least is None else self._with[least][0]

    def whole(self, size: int, count: int) -> Sequence[int] | None:
        """The first ``count`` nodes that no job uses; None if there are fewer."""
        found = self._with.get(size, ())
        return found[:count] if len(found) >= count else None


class _Placement:
    """The GPUs that are taken on each node while claimants are given their ways."""

    def __init__(self, claimants: Sequence[Claimant], pools: Mapping[PoolId, NodeRoom]) -> None:
        self._claimants = claimants
        self._pools = pools
        self._nodes = {name: _Nodes(pool.free) for name, pool in pools.items()}
        self._on: list[Mapping[int, int]] = [{}] * len(claimants)
        self.chosen: list[int | None] = [None] * len(claimants)
        for number, claimant in enumerate(claimants):
            if claimant.stays is not None:
                self._take(number, claimant.stays, dict(claimant.held))

    @property
    def value(self) -> float:
        """Dollars a second of the ways that are chosen."""
        return sum(
            claimant.ways[at].value for claimant, at in zip(self._claimants, self.chosen, strict=True) if at is not None
        )

    def give(self, number: int, at: int) -> bool:
        """Give the claimant that way instead of its present way.

        If the way does not fit, nothing changes, and the result is False.
        """
        claimant, before, on = self._claimants[number], self.chosen[number], self._on[number]
        self.drop(number)
        nodes = dict(claimant.held) if at == claimant.stays else self._find(claimant.ways[at])
        if nodes is not None and at == claimant.stays:
            free = self._nodes[claimant.ways[at].pool].free
            nodes = nodes if all(free[node] >= gpus for node, gpus in nodes.items()) else None
        if nodes is None:
            if before is not None:
                self._take(number, before, on)
            return False
        self._take(number, at, nodes)
        return True

    def drop(self, number: int) -> None:
        """Take the claimant's way and GPUs away."""
        at = self.chosen[number]
        if at is not None:
            there = self._nodes[self._claimants[number].ways[at].pool]
            for node, gpus in self._on[number].items():
                there.change(node, gpus)
            self.chosen[number] = None

    def _take(self, number: int, at: int, nodes: Mapping[int, int]) -> None:
        there = self._nodes[self._claimants[number].ways[at].pool]
        for node, gpus in nodes.items():
            there.change(node, -gpus)
        self.chosen[number], self._on[number] = at, nodes

    def _find(self, way: Way) -> Mapping[int, int] | None:
        """The fullest node with enough free GPUs for the way, or as many whole nodes as the way needs."""
        nodes, size = self._nodes[way.pool], self._pools[way.pool].size
        if way.gpus < size:
            node = nodes.fullest(way.gpus)
            return None if node is None else {node: way.gpus}
        whole = nodes.whole(size, way.gpus // size)
        return None if whole is None else dict.fromkeys(whole, size)


class _Program:
    """The integer program. ``_columns``: claimants and their ways. The arrays have one entry for each of these
    columns, and one more for each claimant that may wait.

    ``_uses``: the uses of each kind of way, which is a pool and a number of GPUs. The first kind is waiting.
    ``_as_it_is``: whether a column means that the claimant stays or waits.
    """

    def __init__(self, claimants: Sequence[Claimant], pools: Mapping[PoolId, NodeRoom]) -> None:
        import numpy as np

        self._claimants = claimants
        self._pools = pools
        known: dict[tuple[int, int | None], tuple[list[int], list[int], list[float], list[bool]]] = {}
        kinds: dict[tuple[PoolId, int], int] = {}
        for one in claimants:
            if (id(one.ways), one.stays) not in known:
                which = _worthwhile(one)
                ways = [one.ways[at] for at in which]
                numbers = [kinds.setdefault((way.pool, way.gpus), len(kinds) + 1) for way in ways]
                values, stays = [way.value for way in ways], [at == one.stays for at in which]
                known[id(one.ways), one.stays] = which, numbers, values, stays
        each = [known[id(one.ways), one.stays] for one in claimants]
        waiting = [number for number, one in enumerate(claimants) if one.stays is None]
        self._columns = [(number, at) for number, (which, *_) in enumerate(each) for at in which]
        self._rows = _Rows(pools, kinds)
        self._uses: list[Uses] = [(), *[self._rows.uses(Way(*kind, 0.0)) for kind in kinds]]
        self._owners = np.array([*(number for number, _ in self._columns), *waiting], dtype=np.int64)
        self._kinds, self._values, self._as_it_is = (
            np.array([*chain.from_iterable(found[part] for found in each), *[of_waits] * len(waiting)], dtype=kind)
            for part, of_waits, kind in ((1, 0, np.int64), (2, 0.0, np.float64), (3, True, bool))
        )

    def solve(self, work: int) -> Allotment:
        """Branch and bound, the most promising branch first, for at most ``work`` columns."""
        best = first = self._first_come()
        one_by_one = first.value
        root = self._relaxed(frozenset())
        if root is None:
            raise SolverGaveUp("jobs that run fit where they are")
        worth = {pool: self._rows.worth(pool, root.prices) for pool in self._pools}
        branches: list[tuple[float, int, frozenset[int], Optimum]] = [(root.cost, 0, frozenset(), root)]
        lost, spent = 0.0, len(self._columns)
        while branches and best.value < -branches[0][0] * (1.0 - NEAR):
            _, made, without, optimum = heappop(branches)
            best = self._better(best, self._rounded(optimum.fractions))
            near = best.value >= -optimum.cost * (1.0 - NEAR)
            if optimum is root and not near:
                best = self._better(best, first)
                near = best.value >= -optimum.cost * (1.0 - NEAR)
            halves = () if near else self._halves(optimum.fractions, without)
            columns = sum(len(self._columns) - len(half) + _EACH for half in halves)
            if not halves or spent + columns > work:
                lost = min(lost, optimum.cost)
                break
            for number, half in enumerate(halves):
                relaxed = self._relaxed(half)
                if relaxed is not None:
                    heappush(branches, (relaxed.cost, 2 * made + 1 + number, half, relaxed))
            spent += columns
        bound = max(-min([lost, *(branch[0] for branch in branches)]), best.value)
        return Allotment(tuple(best.chosen), best.value, bound, one_by_one, worth)

    def _relaxed(self, without: frozenset[int]) -> Optimum | None:
        """The optimum of the relaxation without some columns; None if a job has no column left, or no mixture fits.

        Waiting is a column too. ``fractions`` has a number for every column, including waiting.
        """
        import numpy as np

        kept = np.ones(len(self._owners), dtype=bool)
        kept[[*without]] = False
        columns = Columns(-self._values[kept], self._owners[kept], self._kinds[kept])
        best = _cheapest(columns.costs, columns.classes, 1)
        if len(best) < len(self._claimants):
            return None
        begin = np.union1d(best, np.flatnonzero(self._as_it_is[kept]))
        found = minimise(columns, self._uses, self._rows.limits, begin)
        if found is None:
            return None
        fractions = np.zeros(len(kept))
        fractions[kept] = found.fractions
        return replace(found, fractions=fractions)

    def _halves(self, fractions: Floats, without: frozenset[int]) -> Sequence[frozenset[int]]:
        """The two branches: one excludes the column whose fraction is nearest to one half, and the other excludes all
        other columns of its job. Empty if no column has a fraction."""
        import numpy as np

        split = np.minimum(fractions, 1.0 - fractions)
        column = int(np.argmax(split))
        if split[column] <= _WHOLE:
            return ()
        others = np.flatnonzero(self._owners == self._owners[column]).tolist()
        return without | {column}, without.union(others) - {column}

    def _first_come(self) -> _Placement:
        """The placement in which running jobs stay, and waiting jobs, one after the other, take the first of their
        ways that fits."""
        placed, full = _Placement(self._claimants, self._pools), set[tuple[PoolId, int]]()
        for number, claimant in enumerate(self._claimants):
            for at, way in enumerate(claimant.ways if claimant.stays is None else ()):
                if way.value > 0.0 and (way.pool, way.gpus) not in full:
                    if placed.give(number, at):
                        break
                    full.add((way.pool, way.gpus))
        return placed

    def _better(self, best: _Placement, placed: _Placement) -> _Placement:
        found = self._improved(placed)
        return found if found.value > best.value else best

    def _rounded(self, fractions: Floats) -> _Placement:
        """The placement of the columns with the larger fractions in a relaxed optimum. First the jobs that leave make
        room, and then the widest jobs are placed."""
        placed = _Placement(self._claimants, self._pools)
        wanted: dict[int, tuple[float, int]] = {}
        for column in fractions[: len(self._columns)].nonzero()[0].tolist():
            (number, at), fraction = self._columns[column], float(fractions[column])
            if fraction > wanted.get(number, (0.0, 0))[0]:
                wanted[number] = fraction, at
        order = sorted(
            (
                (self._claimants[number].ways[at].gpus, fraction, number, at)
                for number, (fraction, at) in wanted.items()
            ),
            key=lambda entry: (-entry[0], -entry[1], entry[2]),
        )
        movers = [entry for entry in order if self._claimants[entry[2]].stays is not None]
        for _, _, number, at in reversed(movers):
            placed.give(number, at)
        for _, _, number, at in order:
            if self._claimants[number].stays is None:
                placed.give(number, at)
        return placed

    def _improved(self, placed: _Placement) -> _Placement:
        """The placement after claimants have changed to the most valuable ways for which there is room."""
        for _ in range(3):
            changed, full = False, set[tuple[PoolId, int]]()
            for number, at in self._by_gain(placed):
                now = placed.chosen[number]
                ways = self._claimants[number].ways
                if now is not None and ways[at].value <= ways[now].value:
                    continue
                wanted = ways[at].pool, ways[at].gpus
                leaves = now is not None and (ways[now].pool == ways[at].pool or at == self._claimants[number].stays)
                if not leaves and wanted in full:
                    continue
                if placed.give(number, at):
                    changed = True
                    full = full if now is None else set()
                elif not leaves:
                    full.add(wanted)
            if not changed:
                break
        return placed

    def _by_gain(self, placed: _Placement) -> list[tuple[int, int]]:
        """The columns that are worth more than their claimants' present ways. Those that gain most for each
        additional GPU come first."""
        import numpy as np

        had = [None if at is None else one.ways[at] for one, at in zip(self._claimants, placed.chosen, strict=True)]
        owners = self._owners[: len(self._columns)]
        gains = self._values[: len(owners)] - np.array([0.0 if way is None else way.value for way in had])[owners]
        found: list[tuple[float, int]] = []
        for column in np.flatnonzero(gains > 0.0).tolist():
            number, at = self._columns[column]
            way, before = self._claimants[number].ways[at], had[number]
            more = max(way.gpus - (0 if before is None or before.pool != way.pool else before.gpus), 1)
            found.append((-float(gains[column]) / more, column))
        return [self._columns[column] for _, column in sorted(found)]


def _worthwhile(claimant: Claimant) -> list[int]:
    """The ways that are worth choosing: the present way, and each way that is worth more than all ways with fewer
    GPUs of the same pool.

    For a waiting job, such a way must also be worth more than waiting. A running job always keeps some way. So a
    narrower way may have a negative value, because the room that it leaves may be worth more to other jobs.
    """
    found: list[int] = []
    most: dict[PoolId, float] = {}
    nothing = 0.0 if claimant.stays is None else -inf
    for at in sorted(range(len(claimant.ways)), key=lambda at: (claimant.ways[at].gpus, -claimant.ways[at].value)):
        way = claimant.ways[at]
        least = most.get(way.pool, nothing)
        if at == claimant.stays or way.value > least:
            found.append(at)
            most[way.pool] = max(way.value, least)
    return sorted(found)
