"""What a job's conditions say of its template, read back by whoever has no other way to know it."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.api import decode
from tests.unit.api import values


def admitted(status: str, reason: str, generation: int, message: str = "") -> dict[str, Any]:
    since = "2026-11-01T00:00:00Z"
    condition = {"type": "Admitted", "status": status, "reason": reason, "message": message}
    return {"conditions": [{**condition, "observedGeneration": generation, "lastTransitionTime": since}]}


GENERATION = decode.training_job(values.raw_job()).job.generation


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (admitted("False", "InvalidTemplate", GENERATION, "no image"), "no image"),
        (admitted("True", "Accepted", GENERATION, "paid by GPUBudget research"), ""),
        (admitted("False", "NoBudget", GENERATION, "no GPUBudget"), ""),
        (admitted("False", "InvalidTemplate", GENERATION - 1, "no image"), None),
        (admitted("Unknown", "Checking", GENERATION), None),
        ({}, None),
    ],
    ids=["refused", "accepted", "accepted and unpaid", "of an older spec", "being tried", "new"],
)
def test_a_verdict_counts_for_the_spec_that_was_tried(status: dict[str, Any], verdict: str | None) -> None:
    assert decode.training_job(values.raw_job(status=status)).template_verdict == verdict


def test_the_conditions_that_say_what_holds_a_run_up_are_read_back_for_who_explains_it() -> None:
    told = {"type": "InputStarved", "status": "True", "reason": "WaitsForInput", "message": "pod 1 waits"}
    status = {"conditions": [told, {"type": "PodsReady", "status": "True", "reason": "AllReady", "message": ""}]}
    decoded = decode.training_job(values.raw_job(status=status))
    assert decoded.held_up == (("InputStarved", "WaitsForInput", "pod 1 waits"),)
    assert decode.training_job(values.raw_job()).held_up == ()


def test_why_a_run_does_not_start_is_read_back_for_who_explains_it() -> None:
    told = {"type": "PodsReady", "status": "False", "reason": "NotStarting", "message": "its submitter: refused"}
    assert decode.training_job(values.raw_job(status={"conditions": [told]})).not_starting == "its submitter: refused"
    waits = {**told, "reason": "NotReady", "message": "0 of 2 pods are ready"}
    assert decode.training_job(values.raw_job(status={"conditions": [waits]})).not_starting == ""
