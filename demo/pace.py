"""Speeds up manifests that are written in workload seconds and dollars.

Times are divided and prices multiplied by the pace, so a job costs the same dollars in less time. Only the fields
listed here change the demo's speed. The operator itself has no such setting. ``listedSeconds`` is not among them: the
operator asks the cloud as often as at any pace, and a busy machine asks too late for a list that is sped up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Json = dict[str, Any]

_RATE = re.compile(
    r"(?P<before>pays up to |a GPU-hour there counts )?\$(?P<dollars>[\d,]+(?:\.\d+)?)"
    r"(?P<after>(?:/h| an hour| per hour| per job-hour| for each hour)\b)?"
)
"""Dollars in a message. With the words before or after them, they are dollars per hour."""
_SPAN = re.compile(r"\b(\d+(?:\.\d+)?) (s|min|h|d)\b")
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True)
class Pace:
    """``factor`` seconds of the workload pass in one second of the demo."""

    factor: int

    def demo_seconds(self, workload_seconds: float) -> float:
        """Convert workload seconds to demo seconds."""
        return workload_seconds / self.factor

    def workload_seconds(self, demo_seconds: float) -> float:
        """Convert demo seconds to workload seconds."""
        return demo_seconds * self.factor

    def told(self, message: str) -> str:
        """Convert an operator message to workload times and prices: longer times and lower rates.

        Dollars that are not per hour do not change, because a job costs the same.
        """
        slower = _RATE.sub(self._slower, message)
        return _SPAN.sub(lambda match: _span(float(match[1]) * _UNITS[match[2]] * self.factor), slower)

    def _slower(self, dollars: re.Match[str]) -> str:
        before, after = dollars["before"] or "", dollars["after"] or ""
        if not before and not after:
            return dollars[0]
        return f"{before}${_dollars(dollars['dollars']) / self.factor:,.2f}{after}"

    def sped_up(self, document: Json) -> Json:
        """Return a copy of a manifest, or of the fake cloud's configuration, at this pace."""
        table = _FIELDS.get(document.get("kind", "FakeCloud"), {})
        return {key: self._sped_up(value, table[key]) if key in table else value for key, value in document.items()}

    def _sped_up(self, value: Any, table: _Table) -> Any:
        if isinstance(value, list):
            return [self._sped_up(item, table) for item in value]
        if callable(table):
            return table(value, self.factor)
        return {key: self._sped_up(item, table[key]) if key in table else item for key, item in value.items()}


def _faster(seconds: float, factor: int) -> float:
    return round(seconds / factor, 6)


def _whole_seconds(seconds: float, factor: int) -> int:
    return max(1, math.ceil(seconds / factor))


def _more_often(rate: float, factor: int) -> float:
    return rate * factor


def _dearer(dollars: str, factor: int) -> str:
    return str(Decimal(dollars) * factor)


def _dollars(text: str) -> float:
    return float(text.replace(",", ""))


def _span(seconds: float) -> str:
    """Format workload seconds."""
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200.0 else f"{seconds / 3600:.1f} h"


_Table = Mapping[str, Any] | Callable[[Any, int], Any]

_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "GPUBudget": {"spec": {"amount": _dearer, "openingSpend": _dearer, "maxPaysPerHourSaved": _dearer}},
    "GPUPool": {
        "spec": {
            "karpenter": {"billingMinimumSeconds": _whole_seconds},
            "startSeconds": _whole_seconds,
            "cooldownSeconds": _whole_seconds,
        }
    },
    "SpeedupProfile": {"spec": {"meanWork": _faster, "arrivalsPerHour": _more_often, "restartSeconds": _faster}},
    "FakeCloud": {
        "groups": {
            "hourlyPrice": _dearer,
            "startupSeconds": _faster,
            "lifetimeSeconds": _faster,
            "noticeSeconds": _faster,
            "billingMinimumSeconds": _whole_seconds,
            "retrySeconds": _faster,
        }
    },
}
