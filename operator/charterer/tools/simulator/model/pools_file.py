"""The pools on sale, read from a CSV file with a header, and measured lifetimes of nodes, read from another."""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, isfinite, log
from typing import Final, TypeVar
from zlib import crc32

from charterer.domain.money import Price
from charterer.domain.pool import CapacityType
from charterer.tools.simulator.model.node_market import DEAREST, MOST_NODES, PoolModel
from charterer.tools.simulator.model.workload import BadRow, check_unique

# Numbers in cells of files. A number out of range is a mistake, for which ValueError is raised.


HIGHEST: Final = 1e9
"""The highest number in a file. It is also the longest history in seconds (32 years). A higher number is a mistake."""
MOST_PER_NODE: Final = 1000


def finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    return value


def positive(text: str) -> float:
    if not 0.0 < (value := finite(text)) <= HIGHEST:
        raise ValueError(text)
    return value


def span(text: str) -> float:
    if not 0.0 <= (value := finite(text)) <= HIGHEST:
        raise ValueError(text)
    return value


def whole(text: str) -> int:
    if (value := span(text)) != int(value):
        raise ValueError(text)
    return int(value)


def whole_number(text: str) -> int:
    if (value := whole(text)) < 1:
        raise ValueError(text)
    return value


def gpus_of_a_node(text: str) -> int:
    if (value := whole_number(text)) > MOST_PER_NODE:
        raise ValueError(text)
    return value


def nodes(text: str) -> int:
    if (value := whole_number(text)) > MOST_NODES:
        raise ValueError(text)
    return value


def price(text: str) -> Price:
    if not Price(0) <= (price := Price.parse(text)) <= DEAREST:
        raise ValueError(text)
    return price


# How long nodes live before the cloud takes them back. Lifetimes are drawn from measured lifetimes, or exponentially
# distributed.
#
# The lifetime of a pool's n-th node depends only on the seed and on n, so every policy meets the same nodes.


_BITS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """A distribution of lifetimes, in seconds of readiness. A call with a node's number draws that node's lifetime.

    ``ages``, ``dead``: ages of measured deaths, ascending, and the fraction of nodes that are dead by each age.
    ``measured_until``, ``hazard``: nodes that live longer than ``measured_until`` die at ``hazard`` a second from then
    on.
    ``most``: the longest lifetime.
    """

    seed: int
    ages: tuple[float, ...] = ()
    dead: tuple[float, ...] = ()
    measured_until: float = 0.0
    hazard: float = 0.0
    most: float = inf

    def __call__(self, number: int) -> float:
        """Seconds that the node of that number lives. Infinite if the node is never taken back."""
        drawn = uniform(self.seed, number)
        at = bisect_left(self.dead, drawn)
        if at < len(self.dead):
            return min(self.ages[at], self.most)
        if not self.hazard:
            return self.most
        left = (1.0 - drawn) / (1.0 - self.dead[-1]) if self.dead else 1.0 - drawn
        return min(self.measured_until - log(left) / self.hazard, self.most)


def exponential(mean_seconds: float, seed: int, most: float = inf) -> Lifetimes:
    """Lifetimes of a hazard that does not depend on age."""
    return Lifetimes(seed, hazard=1.0 / mean_seconds, most=most)


def measured(lifetimes: Iterable[tuple[float, bool]], seed: int, most: float = inf) -> Lifetimes:
    """The product-limit estimate (Kaplan and Meier 1958) from pairs (seconds, whether the node still lived then).

    At least one pair is needed. After the longest time, nodes die at the mean rate of all nodes: deaths per second
    lived.
    """
    rows = sorted(lifetimes, key=lambda row: (row[0], row[1]))
    alive, survival = len(rows), 1.0
    ages: list[float] = []
    dead: list[float] = []
    for seconds, censored in rows:
        if not censored:
            survival *= 1.0 - 1.0 / alive
            if ages and ages[-1] == seconds:
                dead[-1] = 1.0 - survival
            else:
                ages.append(seconds)
                dead.append(1.0 - survival)
        alive -= 1
    if not rows[-1][1]:
        dead[-1] = 1.0  # the product is 0 up to rounding
    exposure, deaths = sum(seconds for seconds, _ in rows), sum(not censored for _, censored in rows)
    return Lifetimes(seed, tuple(ages), tuple(dead), rows[-1][0], deaths / exposure, most)


def uniform(seed: int, number: int) -> float:
    """A number in (0, 1) that looks random and depends only on its arguments (SplitMix64, Steele et al. 2014)."""
    state = (_mixed(seed) + number * 0x9E3779B97F4A7C15) & _BITS
    return ((_mixed(state) >> 11) + 0.5) / (1 << 53)


def _mixed(state: int) -> int:
    state = (state + 0x9E3779B97F4A7C15) & _BITS
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _BITS
    return state ^ (state >> 31)


_COLUMNS = (
    "name",
    "gpu_type",
    "gpus_per_node",
    "node_price",
    "capacity_type",
    "start_seconds",
    "restart_seconds",
    "max_nodes",
    "billing_minimum_seconds",
    "lifetimes",
    "most_lifetime_seconds",
    "prices",
    "stock",
    "quota",
)
_NEEDED = ("name", "gpu_type")

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _NamedCells:
    where: str
    cells: Mapping[str, str]

    def get(self, field: str, parse: Callable[[str], V], what: str, default: V) -> V:
        """The field's value, or ``default`` if the cell is empty. Raises BadRow if the text is no ``what``."""
        text = self.cells.get(field, "")
        if not text:
            return default
        try:
            return parse(text)
        except (ValueError, OverflowError):
            raise BadRow(f"{self.where}: {field} {text!r} is no {what}") from None


def read_pools(
    lines: Iterable[str], file: str, default: PoolModel, seed: int, lines_of: Callable[[str], Iterable[str]]
) -> tuple[PoolModel, ...]:
    """The pools in the order of the file. Raises BadRow for the first row that cannot be used.

    ``default``: values for empty cells.
    ``seed``: seed of the drawn lifetimes, which differ from pool to pool.
    ``lines_of``: reads a file of measured lifetimes by its name. Raises BadRow if there is no such file.
    """
    reader = csv.DictReader(lines)
    names = [(name or "").strip().lower() for name in reader.fieldnames or ()]
    missing = [field for field in _NEEDED if field not in names]
    if missing:
        raise BadRow(f"{file}: no column {', '.join(missing)}: its first line must name {', '.join(_NEEDED)}")
    unknown = [name for name in names if name not in _COLUMNS]
    if unknown:
        raise BadRow(f"{file}: column {unknown[0]!r} is not known: use any of {', '.join(_COLUMNS)}")
    check_unique(names, _COLUMNS, file)
    pools: dict[str, PoolModel] = {}
    for cells in reader:
        row = _NamedCells(
            f"{file} line {reader.line_num}",
            {name: (text or "").strip() for name, text in zip(names, cells.values(), strict=False)},
        )
        pool = _pool(row, default, seed, lines_of)
        if pool.name in pools:
            raise BadRow(f"{row.where}: name {pool.name!r} occurs twice: give it another")
        pools[pool.name] = pool
    if not pools:
        raise BadRow(f"{file}: has no row: add at least one pool")
    return tuple(pools.values())


def read_lifetimes(lines: Iterable[str], file: str) -> tuple[tuple[float, bool], ...]:
    """Pairs (seconds, whether the node still lived then), from the columns lifetime_seconds and censored. Raises BadRow
    for a bad row.

    ``censored`` is 1 if the node still lived. If the column is absent, all nodes died.
    """
    reader = csv.DictReader(lines)
    header = [(name or "").strip().lower() for name in reader.fieldnames or ()]
    if "lifetime_seconds" not in header:
        raise BadRow(
            f"{file}: no column lifetime_seconds: its first line must name lifetime_seconds, and may name censored"
        )
    check_unique(header, ("lifetime_seconds", "censored"), file)
    names = dict(zip(header, reader.fieldnames or (), strict=True))
    rows = []
    for cells in reader:
        row = _NamedCells(
            f"{file} line {reader.line_num}",
            {name: (cells.get(column) or "").strip() for name, column in names.items()},
        )
        seconds = row.get("lifetime_seconds", positive, _LIFETIME, 0.0)
        if not seconds:
            raise BadRow(f"{row.where}: lifetime_seconds '' is no {_LIFETIME}")
        rows.append((seconds, row.get("censored", _flag, "1 (it still lived) or 0 (it was taken back)", False)))
    if not rows:
        raise BadRow(f"{file}: has no row: add at least one lifetime")
    return tuple(rows)


_LIFETIME = f"lifetime: give seconds above 0, up to {HIGHEST:,.0f}"
_NODE_GPUS = f"number of GPUs: give 1 to {MOST_PER_NODE}"
_NODES = f"number of nodes: give 1 to {MOST_NODES:,}"
_SPAN = f"number of seconds: give 0 to {HIGHEST:,.0f}"


def _pool(row: _NamedCells, default: PoolModel, seed: int, lines_of: Callable[[str], Iterable[str]]) -> PoolModel:
    name = row.cells.get("name", "")
    for field in _NEEDED:
        if not row.cells.get(field):
            raise BadRow(f"{row.where}: {field} '' is empty: name the {'pool' if field == 'name' else 'GPU type'}")
    capacity_type = row.get(
        "capacity_type", CapacityType, f"capacity type: use one of {', '.join(CapacityType)}", default.capacity_type
    )
    spot = capacity_type is CapacityType.SPOT
    if spot and not (row.cells.get("node_price") or row.cells.get("prices")):
        raise BadRow(f"{row.where}: node_price '' is empty: give spot pool {name!r} the price of a node, like 19.80")
    if not spot and (row.cells.get("lifetimes") or row.cells.get("most_lifetime_seconds")):
        field = "lifetimes" if row.cells.get("lifetimes") else "most_lifetime_seconds"
        raise BadRow(
            f"{row.where}: {field} {row.cells[field]!r} is about nodes that the cloud takes back: make capacity_type "
            "Spot, or leave it empty"
        )
    price_like = f"price of a node: give dollars an hour like 19.80, up to {DEAREST.decimal()}"
    hourly, prices = _series(row, "prices", price, "price", "0:9.80 3600:12", default.hourly)
    if row.cells.get("prices") and row.cells.get("node_price"):
        raise BadRow(f"{row.where}: prices {row.cells['prices']!r} stands beside node_price: leave one of them empty")
    stock, later_stock = _series(row, "stock", _amount, "nodes", "0:4 3600:0 7200:10", default.stock)
    quota, later_quota = _series(row, "quota", _amount, "nodes", "0:4 3600:0 7200:10", default.quota)
    return replace(
        default,
        name=name,
        gpu_type=row.cells["gpu_type"],
        gpus_per_node=row.get("gpus_per_node", gpus_of_a_node, _NODE_GPUS, default.gpus_per_node),
        hourly=row.get("node_price", price, price_like, hourly),
        capacity_type=capacity_type,
        start_seconds=row.get("start_seconds", span, _SPAN, default.start_seconds),
        restart_seconds=row.get("restart_seconds", span, _SPAN, default.restart_seconds),
        max_nodes=row.get("max_nodes", nodes, _NODES, default.max_nodes),
        billing_minimum_seconds=int(
            row.get("billing_minimum_seconds", span, _SPAN, float(default.billing_minimum_seconds))
        ),
        draw_lifetime=_lifetimes(row, seed ^ crc32(name.encode()), lines_of),
        later_prices=prices,
        stock=stock,
        later_stock=later_stock,
        quota=quota,
        later_quota=later_quota,
    )


def _lifetimes(row: _NamedCells, seed: int, lines_of: Callable[[str], Iterable[str]]) -> Lifetimes | None:
    """Measured lifetimes if the cell names a file. Exponential lifetimes if the cell has a mean. None if the cell is
    empty.
    """
    most = row.get("most_lifetime_seconds", positive, _LIFETIME, float("inf"))
    text = row.cells.get("lifetimes", "")
    if text.lower().endswith(".csv"):
        return measured(read_lifetimes(lines_of(text), text), seed, most)
    mean = row.get("lifetimes", positive, "mean lifetime in seconds and no .csv file of measured ones", 0.0)
    if mean:
        return exponential(mean, seed, most)
    return Lifetimes(seed, most=most) if most < float("inf") else None


def _amount(text: str) -> int | None:
    if not 0 <= (value := int(text)) <= MOST_NODES:
        raise ValueError(text)
    return value


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError(text)
    return text == "1"


def _series(
    row: _NamedCells, field: str, parse: Callable[[str], V], what: str, like: str, default: V
) -> tuple[V, tuple[tuple[float, V], ...]]:
    """Parse ``0:4 3600:0``: the first amount, and later amounts, each with the second from which on it is valid."""

    def steps(text: str) -> Sequence[tuple[float, V]]:
        pairs = [(span(at), parse(amount)) for at, _, amount in (step.partition(":") for step in text.split())]
        if not pairs or pairs[0][0] or any(later <= earlier for (earlier, _), (later, _) in pairwise(pairs)):
            raise ValueError(text)
        return pairs

    nothing: Sequence[tuple[float, V]] = ((0.0, default),)
    first, *later = row.get(field, steps, f"steps: give second:{what} from second 0 on, like {like}", nothing)
    return first[1], tuple(later)
