"""The numbers in the cells of files: ValueError for what is out of range, because it is a slip of the pen."""

from __future__ import annotations

from math import isfinite
from typing import Final

from charterer.domain.money import Price
from charterer.simulate.model.node_market import DEAREST, MOST_NODES

HIGHEST: Final = 1e9
"""The highest number in a file, and in seconds (32 years) the longest history: what is above is a slip of the pen."""
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


def count(text: str) -> int:
    if (value := whole(text)) < 1:
        raise ValueError(text)
    return value


def gpus_of_a_node(text: str) -> int:
    if (value := count(text)) > MOST_PER_NODE:
        raise ValueError(text)
    return value


def nodes(text: str) -> int:
    if (value := count(text)) > MOST_NODES:
        raise ValueError(text)
    return value


def price(text: str) -> Price:
    if not Price(0) <= (price := Price.parse(text)) <= DEAREST:
        raise ValueError(text)
    return price
