"""The pools on sale, read from a CSV file with a header, and measured lifetimes of nodes, read from another."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar
from zlib import crc32

from charterer.domain.pool import CapacityType
from charterer.simulate.model.cells import HIGHEST, MOST_PER_NODE, gpus_of_a_node, nodes, positive, price, span
from charterer.simulate.model.lifetimes import Lifetimes, exponential, measured
from charterer.simulate.model.node_market import DEAREST, MOST_NODES, PoolModel
from charterer.simulate.model.workload import BadRow, check_unique

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
        """The field's value, ``default`` for an empty cell. BadRow: the text is no ``what``."""
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
    """The pools in the order of the file. BadRow for the first row that cannot be used.

    ``default``: what holds where a cell is empty. ``seed``: of the drawn lifetimes, of each pool others. ``lines_of``:
    the lines of the file of a name, for measured lifetimes; BadRow where there is none.
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
    """(Seconds, whether the node still lived then), from columns lifetime_seconds and censored. BadRow.

    ``censored`` is 1 where the node still lived; without the column all of them died.
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
    """Measured ones where the cell names a file, otherwise exponential ones of the mean that it gives."""
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
    """Parse ``0:4 3600:0``: the first amount, and later ones by the second from which they hold."""

    def steps(text: str) -> Sequence[tuple[float, V]]:
        pairs = [(span(at), parse(amount)) for at, _, amount in (step.partition(":") for step in text.split())]
        if not pairs or pairs[0][0] or any(later <= earlier for (earlier, _), (later, _) in pairwise(pairs)):
            raise ValueError(text)
        return pairs

    nothing: Sequence[tuple[float, V]] = ((0.0, default),)
    first, *later = row.get(field, steps, f"steps: give second:{what} from second 0 on, like {like}", nothing)
    return first[1], tuple(later)
