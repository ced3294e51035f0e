"""Rows of the record of costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from charterer.domain.budget import Cause
from charterer.domain.cost_row import BilledMachine, CostRow, Payer
from charterer.domain.money import Money
from charterer.domain.time import parse_instant

TEAM = {"team": "perception"}
MACHINE = BilledMachine(
    "aws", "123456789012", "us-east-1", "us-east-1a", "i-0abc", "p4d.24xlarge", "NVIDIA-A100-SXM4-40GB", 8, "OnDemand"
)


def payer(job: str = "vision/vit", labels: Mapping[str, str] | None = None, **fields: Any) -> Payer:
    """A job's run 1; ``job``: namespace/name."""
    namespace, _, name = job.partition("/")
    plain = Payer(namespace, name, f"uid-{name}", 1, f"{namespace}/large", "ada", TEAM if labels is None else labels)
    return replace(plain, **fields)


def cost_row(
    cost: str,
    who: Payer | None = None,
    cause: Cause = Cause.IDLE,
    *,
    start: str = "2026-11-03T10:00:00Z",
    end: str = "2026-11-03T11:00:00Z",
    **fields: Any,
) -> CostRow:
    """A row of the budget ``research``, whose days are those of UTC; ``cause`` is JOB if there is a payer."""
    plain = CostRow(
        budget="research",
        budget_uid="uid-research",
        time_zone="UTC",
        rental="a100-7",
        rental_uid="uid-a100-7",
        pool="a100",
        machine=MACHINE,
        start=parse_instant(start),
        end=parse_instant(end),
        cause=cause if who is None else Cause.JOB,
        payer=who,
        gpu_seconds=3600,
        hourly=Money.parse("16.00"),
        cost=Money.parse(cost),
    )
    return replace(plain, **fields)


def in_any_order(rows: Iterable[CostRow]) -> list[CostRow]:
    """Sorted, to compare what has no promised order."""
    return sorted(rows, key=repr)
