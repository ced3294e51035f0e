"""The rule of the bill (docs/fakecloud.md), in integers: micro-dollars, whole seconds, instants in microseconds.

This is the cloud's own arithmetic. The operator's ledger has other code for the same published rule, and the two
must agree to the micro-dollar.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SECOND = 1_000_000
"""Microseconds in a second; also micro-dollars in a dollar and millionths in a factor of 1."""

_HOUR = 3600
_DECIMAL = re.compile(r"(\d{1,9})(?:\.(\d{1,6}))?")


@dataclass(frozen=True, slots=True)
class BillSegment:
    """The price from ``since`` until the next segment or the end."""

    since: int
    micros_per_hour: int


def millionths(decimal: str) -> int:
    """A decimal string with up to six decimals, in millionths; ValueError if it is not one."""
    match = _DECIMAL.fullmatch(decimal)
    if match is None:
        raise ValueError(f"{decimal!r} is not a decimal number with up to six decimals, like 12.50")
    whole, fraction = match.groups()
    return int(whole) * SECOND + int((fraction or "0").ljust(6, "0"))


def decimal(micros: int) -> str:
    """The exact decimal string of a non-negative number of millionths, with at least two decimals."""
    whole, fraction = divmod(micros, SECOND)
    digits = f"{fraction:06d}"
    return f"{whole}.{digits[:2]}{digits[2:].rstrip('0')}"


def scaled(micros_per_hour: int, factor_millionths: int) -> int:
    """A list price times a factor, to the nearest micro-dollar an hour (half up)."""
    return (micros_per_hour * factor_millionths + SECOND // 2) // SECOND


def billed_seconds(launched: int, until: int, minimum: int) -> int:
    """The span in seconds, rounded up to a whole number, at least ``minimum``."""
    return max(-((launched - until) // SECOND), minimum)


def cost(segments: Sequence[BillSegment], launched: int, until: int, minimum: int) -> int:
    """Micro-dollars of one machine from ``launched`` to ``until``.

    Each segment but the last lasts from its ``since`` to the next one's, rounded down to whole seconds; the last one
    takes the rest of the billed time. n seconds at p an hour cost p·n/3600, rounded half up.
    """
    begun = [segment for segment in segments if segment.since <= until]
    lengths = [(later.since - earlier.since) // SECOND for earlier, later in pairwise(begun)]
    lengths.append(billed_seconds(launched, until, minimum) - sum(lengths))
    return sum(
        (segment.micros_per_hour * length + _HOUR // 2) // _HOUR for segment, length in zip(begun, lengths, strict=True)
    )
