"""A budget above another one on a real control plane: it is missing, it limits, it tells, it is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from charterer.cluster.client import RawObject
from charterer.cluster.paths import GPU_BUDGETS, TRAINING_JOBS
from tests.testbed.bed import Bed


def _status(bed: Bed, budget: str) -> Mapping[str, Any]:
    return (bed.mirror.one(GPU_BUDGETS, budget) or {}).get("status") or {}


def _ready(bed: Bed, budget: str) -> tuple[str, str]:
    raw: RawObject | None = bed.mirror.one(GPU_BUDGETS, budget)
    if not any(each["type"] == "Ready" for each in _status(bed, budget).get("conditions", ())):
        return "", ""
    found = bed.condition(raw, "Ready")
    return found["status"], found["reason"]


async def test_a_parent_limits_all_below_it_and_without_it_nothing_new_is_rented(bed: Bed) -> None:
    operator = bed.operator()
    await bed.pool()
    await bed.budget(amount="600000", parent="company")
    await bed.job("first")
    await bed.until(lambda: _ready(bed, "team") == ("False", "ParentUnknown"))
    await bed.until(lambda: bed.tj("first").get("why") == "ParentUnknown")
    assert bed.rentals() == []
    await bed.create("GPUBudget", "company", {"amount": "300000", "maxHourlyRate": "14"})
    await bed.running("first")
    await bed.until(lambda: _ready(bed, "team") == ("True", "Enforcing"))
    assert _status(bed, "team")["effectiveAmount"] == "300000.00"
    await bed.job("second")
    await bed.until(lambda: bed.tj("second").get("why") == "HourlyLimit")
    limited = bed.condition(bed.mirror.one(TRAINING_JOBS, "second", bed.namespace), "BudgetLimited")
    assert "that spec.maxHourlyRate of GPUBudget company allows" in limited["message"]
    operator.kill()
    operator.restart()
    await bed.until(lambda: "withDescendants" in _status(bed, "company"))
    await bed.delete("GPUBudget", "company")
    await bed.until(lambda: _ready(bed, "team") == ("False", "ParentUnknown"))
    assert bed.state("first") == "Running"
    assert len(bed.rentals()) == 1
