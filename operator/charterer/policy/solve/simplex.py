"""The linear program that shares a few scarce things out among many classes, each a mixture of its ways.

    min Σ_i λ_i Σ_o x_io c_io    s.t.  Σ_o x_io = 1,   Σ_i λ_i Σ_o x_io u_ior ≤ room_r for each row r,   x ≥ 0

Primal simplex with generalised upper bounds (Dantzig and Van Slyke, 1967): of every class one column, its key, stands
for "the rest", so the working basis has one row for each scarce thing (tens), however many classes there are, and
at most as many classes mix as rows bind. Every class has one way more than was given: to wait, which uses nothing. All
waiting is where the simplex starts, so that there is always a solution; what waiting costs is the caller's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import mul

Costs = Sequence[Sequence[float]]
"""By class and way, waiting last: what a job costs that takes it."""

Uses = tuple[tuple[int, float], ...]
"""What one job uses of each row: (row, amount)."""

_RELATIVE = 1e-11
"""Reduced costs below this part of the class's dearest way are rounding."""
_PIVOT = 1e-9
"""Smaller entries of a direction are rounding: rows are scaled to 1."""
_NEXT = 0.5
"""Gains below this part of the largest one wait for the next round: cheaper to price again than to step astray."""
_TIE = 1e-12
_STALLED = 64
"""So many steps of length 0 in a row may be a cycle: from then on Bland's rule, which has none."""
_PATIENCE = 200
"""Steps per class and row before the answer reached so far is returned; some three per class are usual."""


@dataclass(frozen=True, slots=True)
class LpColumns:
    """One class: ``load`` λ, and what a job uses on each way."""

    load: float
    uses: Sequence[Uses]


@dataclass(slots=True)
class _Table:
    """A class's ways laid out for pricing: the first two uses of each as plain columns, further ones apart."""

    ways: list[int]
    rows: tuple[list[int], list[int]]
    amounts: tuple[list[float], list[float]]
    more: list[tuple[int, list[tuple[int, float]]]]


def _table(uses: Sequence[Uses], ways: Sequence[int], scales: Sequence[float]) -> _Table:
    nothing = ((len(scales), 0.0),)
    first = [(uses[way] or nothing)[0] for way in ways]
    second = [(uses[way][1:] or nothing)[0] for way in ways]
    more = [
        (at, [(row, much / scales[row]) for row, much in uses[way][2:]])
        for at, way in enumerate(ways)
        if len(uses[way]) > 2
    ]
    divisors = [*scales, 1.0]
    return _Table(
        ways=list(ways),
        rows=([row for row, _ in first], [row for row, _ in second]),
        amounts=([much / divisors[row] for row, much in first], [much / divisors[row] for row, much in second]),
        more=more,
    )


class GubSimplex:
    """The program and where its simplex stands: minimise one cost after the other, each from where the last one ended.

    ``prices`` (one a row, and a last one of nothing that stays 0) are the duals of the cost minimised last, positive
    where a row binds, in cost per unit of the row.
    """

    def __init__(self, classes: Sequence[LpColumns], rooms: Sequence[float]) -> None:
        count = len(rooms)
        self._rows = count
        self._scales = _row_scales(classes, rooms)
        self._loads = [one.load for one in classes]
        self._uses: list[Sequence[Uses]] = [[*one.uses, ()] for one in classes]
        self._open = [_table(uses, range(len(uses)), self._scales) for uses in self._uses]
        self._closed_rows: frozenset[int] = frozenset()
        self._rooms = [room / scale for room, scale in zip(rooms, self._scales, strict=True)]
        self._costs: Costs = [[0.0] * len(uses) for uses in self._uses]
        self._key = [len(uses) - 1 for uses in self._uses]
        self._members: list[dict[int, int]] = [{} for _ in classes]
        self._basis = [(-1, row) for row in range(count)]
        self._inverse = [[float(row == at) for at in range(count)] for row in range(count)]
        self._values = list(self._rooms)
        self._prices = [0.0] * (count + 1)
        self._rounding: list[float] = []
        self._still = 0
        self._freed = False
        self._limit = 0
        self.steps = 0

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def prices(self) -> list[float]:
        """Cost per unit of each row; negative only for rows that ``settle`` has closed."""
        tolerance = self._row_tolerance
        return [
            price / scale if abs(price) > tolerance else 0.0
            for price, scale in zip(self._prices, self._scales, strict=False)
        ]

    def shares(self, of: int) -> dict[int, float]:
        """The mixture of a class: way → share, those above 0 only."""
        found = {way: value for way, at in self._members[of].items() if (value := self._values[at]) > _TIE}
        rest = 1.0 - sum(found.values())
        if rest > _TIE or not found:
            found[self._key[of]] = rest
        return dict(sorted(found.items()))

    def key(self, of: int) -> int:
        """A way that the class takes, or ties with one that it takes."""
        return self._key[of]

    def prices_at(self, cost: Callable[[int, int], float]) -> list[float]:
        """The prices if a job of a class (first) on a way (second) cost that, with the same mixtures; linear in it."""
        return [price / scale for price, scale in zip(self._duals(cost), self._scales, strict=True)]

    # -- solving ---------------------------------------------------------------------------------------------------

    def start(self, ways: Sequence[int]) -> None:
        """Give classes the ways named, in order, as far as there is room; to be called before the first cost."""
        for of, way in enumerate(ways):
            column = self._relative(of, way)
            if all(self._values[row] >= much for row, much in column.items()):
                for row, much in column.items():
                    self._values[row] -= much
                self._key[of] = way

    def minimise(self, costs: Costs) -> None:
        """Go on to the cheapest mixtures."""
        self._costs = costs
        self._rounding = [_RELATIVE * max(map(abs, one)) for one in costs]
        self._still = 0
        self._limit = self.steps + _PATIENCE * (len(self._loads) + self._rows)
        self._price()
        while self.steps < self._limit:
            before = self.steps
            self._sweep()
            if self.steps == before:
                break
            self._refresh()

    def settle(self) -> None:
        """Keep the cost reached: from now on only ways and rooms that do not worsen it are open to further costs."""
        for of, table in enumerate(self._open):
            tolerance = self._rounding[of]
            values, members = self._priced(of), self._members[of]
            most = values[table.ways.index(self._key[of])] + 10.0 * tolerance
            keep = [way for way, value in zip(table.ways, values, strict=True) if way in members or value <= most]
            if len(keep) < len(table.ways):
                self._open[of] = _table(self._uses[of], keep, self._scales)
        priced = {row for row in range(self._rows) if self._prices[row] > self._row_tolerance}
        self._closed_rows |= priced

    @property
    def _row_tolerance(self) -> float:
        return _RELATIVE * max(map(abs, self._prices))

    def _priced(self, of: int) -> list[float]:
        """Cost and prices of the open ways of a class, by job."""
        table, cost, prices = self._open[of], self._costs[of], self._prices
        (one, two), (much, many) = table.rows, table.amounts
        values = [
            cost[way] + prices[r] * u + prices[q] * v
            for way, r, u, q, v in zip(table.ways, one, much, two, many, strict=True)
        ]
        for at, uses in table.more:
            values[at] += sum(prices[row] * used for row, used in uses)
        return values

    def _sweep(self) -> None:
        """Offer each class its best way at the prices of that moment, large gains first, until nobody changes.

        Those that could gain are asked again before the others are.
        """
        everybody = range(len(self._loads))
        asked: Sequence[int] = everybody
        bar = float("inf")
        while self.steps < self._limit:
            before, largest, eager = self.steps, 0.0, []
            for of in asked:
                self._free_rooms()
                way, gain = self._offer(of)
                if not gain:
                    continue
                eager.append(of)
                if gain < -bar:
                    self._step(of, way, gain)
                    if self._bland:
                        break
                else:
                    largest = max(largest, -gain)
            if self.steps == before and not eager and asked is everybody:
                return
            asked = everybody if self._bland or not eager else eager
            bar = 0.0 if self._bland else _NEXT * largest

    @property
    def _bland(self) -> bool:
        return self._still > _STALLED

    def _free_rooms(self) -> None:
        """Leave room unused where its price is negative, if prices have changed since that was looked at."""
        if self._freed:
            return
        self._freed = True
        for _ in range(_PATIENCE * self._rows):
            gains = self._prices[: self._rows]
            for row in self._closed_rows:
                gains[row] = 0.0
            worst = min(gains, default=0.0)
            if worst >= -self._row_tolerance:
                return
            self._step(-1, gains.index(worst), worst)

    def _offer(self, of: int) -> tuple[int, float]:
        """The way by which a class gains most, and what the cost changes for all of it: 0 if it has the best."""
        values = self._priced(of)
        ways = self._open[of].ways
        best = values[ways.index(self._key[of])]
        least = min(values)
        tolerance = self._rounding[of]
        if least >= best - tolerance:
            return self._key[of], 0.0
        if self._bland:
            least = next(value for value in values if value < best - tolerance)
        way = ways[values.index(least)]
        if way in self._members[of]:
            return way, 0.0
        return way, (least - best) * self._loads[of]

    # -- the simplex step ------------------------------------------------------------------------------------------

    def _relative(self, of: int, way: int) -> dict[int, float]:
        """What changes in each row when all of a class goes from its key to the way; of −1 the room of a row."""
        if of < 0:
            return {way: 1.0}
        load, scales = self._loads[of], self._scales
        column = {row: much * load / scales[row] for row, much in self._uses[of][way]}
        for row, much in self._uses[of][self._key[of]]:
            column[row] = column.get(row, 0.0) - much * load / scales[row]
        return column

    def _direction(self, of: int, way: int) -> list[float]:
        """How much each basic value falls for each unit of the way that comes in."""
        total = [0.0] * self._rows
        for row, much in self._relative(of, way).items():
            if much:
                total = [had + much * each for had, each in zip(total, self._inverse[row], strict=True)]
        return total

    def _step(self, of: int, way: int, gain: float) -> bool:
        """Let a way (or the unused room of a row) in as far as nothing becomes negative; False if rounding forbids."""
        self.steps += 1
        direction = self._direction(of, way)
        length, leaving, key_of = self._ratio(of, direction)
        self._still = self._still + 1 if length <= _TIE else 0
        if key_of >= 0 and not self._members[key_of]:
            self._move(direction, 1.0)
            self._key[key_of] = way
            return True
        if key_of >= 0:
            leaving = self._swap_key(key_of)
            direction = self._direction(of, way)
        if leaving < 0 or abs(direction[leaving]) < _PIVOT * 1e-3:
            return False
        if key_of == of >= 0:
            # Relative to the new key the same step gains the same: the new key was basic, so it costs as much.
            length = max(self._values[leaving] / direction[leaving], 0.0) if direction[leaving] else 0.0
        self._move(direction, length)
        self._pivot(of, way, leaving, direction, length, gain)
        return True

    def _move(self, direction: Sequence[float], length: float) -> None:
        self._values = [value - length * fall for value, fall in zip(self._values, direction, strict=True)]

    def _ratio(self, of: int, direction: Sequence[float]) -> tuple[float, int, int]:
        """(length, position that leaves or −1, class whose key leaves or −1)."""
        best, pivot, leaving, key_of = float("inf"), 0.0, -1, -1
        falls: dict[int, float] = {} if of < 0 else {of: 1.0}
        for at, fall in enumerate(direction):
            owner = self._basis[at][0]
            if owner >= 0 and fall:
                falls[owner] = falls.get(owner, 0.0) - fall
            if fall > _PIVOT:
                ratio = max(self._values[at], 0.0) / fall
                if ratio < best - _TIE or (ratio <= best + _TIE and fall > pivot and not self._bland):
                    best, pivot, leaving = min(best, ratio), fall, at
        for owner, fall in falls.items():
            if fall > _PIVOT:
                rest = 1.0 - sum(self._values[at] for at in self._members[owner].values())
                ratio = max(rest, 0.0) / fall
                if ratio < best - _TIE or (ratio <= best + _TIE and fall > pivot and not self._bland):
                    best, pivot, leaving, key_of = min(best, ratio), fall, -1, owner
        return best, leaving, key_of

    def _swap_key(self, of: int) -> int:
        """Make the largest other way of a class its key, the old key an ordinary one; returns the latter's position."""
        members = self._members[of]
        new = max(members, key=lambda way: self._values[members[way]])
        at = members[new]
        rest = 1.0 - sum(self._values[position] for position in members.values())
        others = list(members.values())
        for column in self._inverse:
            column[at] = -sum(column[position] for position in others)
        del members[new]
        old, self._key[of] = self._key[of], new
        members[old] = at
        self._basis[at] = (of, old)
        self._values[at] = rest
        return at

    def _pivot(self, of: int, way: int, at: int, direction: Sequence[float], length: float, gain: float) -> None:
        owner, left = self._basis[at]
        if owner >= 0:
            del self._members[owner][left]
        if of >= 0:
            self._members[of][way] = at
        self._basis[at] = (of, way)
        self._values[at] = length
        self._freed = False
        divisor = direction[at]
        for row, column in enumerate(self._inverse):
            if entry := column[at]:
                part = entry / divisor
                self._inverse[row] = [each - part * fall for each, fall in zip(column, direction, strict=True)]
                self._inverse[row][at] = part
                self._prices[row] -= gain * part

    # -- exactness -------------------------------------------------------------------------------------------------

    def _duals(self, cost: Callable[[int, int], float]) -> list[float]:
        """−c_B·B⁻¹ of the working basis."""
        basic = [
            0.0 if of < 0 else self._loads[of] * (cost(of, way) - cost(of, self._key[of])) for of, way in self._basis
        ]
        return [-sum(map(mul, basic, column)) for column in self._inverse]

    def _price(self) -> None:
        costs = self._costs
        self._prices = [*self._duals(lambda of, way: costs[of][way]), 0.0]
        self._freed = False

    def _refresh(self) -> None:
        """Invert the working basis anew, so that no rounding of earlier steps is left."""
        size = self._rows
        matrix = [[0.0] * size for _ in range(size)]
        for at, (of, way) in enumerate(self._basis):
            for row, much in self._relative(of, way).items():
                matrix[row][at] = much
        inverse = inverted(matrix)
        if inverse is None:
            return
        self._inverse = [[inverse[at][row] for at in range(size)] for row in range(size)]
        left = list(self._rooms)
        for of, key in enumerate(self._key):
            for row, much in self._uses[of][key]:
                left[row] -= much * self._loads[of] / self._scales[row]
        self._values = [sum(each * room for each, room in zip(line, left, strict=True)) for line in inverse]
        self._price()


def _row_scales(classes: Sequence[LpColumns], rooms: Sequence[float]) -> list[float]:
    """What each row is divided by: its room, or what a whole class may use of it where that is more."""
    scales = list(rooms)
    for one in classes:
        for way in one.uses:
            for row, much in way:
                scales[row] = max(scales[row], much * one.load)
    return [scale if scale > 0.0 else 1.0 for scale in scales]


def inverted(matrix: Sequence[Sequence[float]]) -> list[list[float]] | None:
    """The inverse by Gauss and Jordan with row pivoting; None when the matrix is singular."""
    size = len(matrix)
    work = [[*row, *(float(at == to) for to in range(size))] for at, row in enumerate(matrix)]
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(work[row][at]))
        if not work[pivot][at]:
            return None
        work[at], work[pivot] = work[pivot], work[at]
        head = work[at][at]
        work[at] = top = [each / head for each in work[at]]
        for row, line in enumerate(work):
            if row != at and (part := line[at]):
                work[row] = [each - part * above for each, above in zip(line, top, strict=True)]
    return [row[size:] for row in work]
