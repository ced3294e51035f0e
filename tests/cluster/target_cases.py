"""TrainingJobs of adopted objects that the CRD accepts and refuses."""

from __future__ import annotations

from typing import Any

from tests.cluster.crd_cases import Case, Json, make


def _of(uid: str, **spec: Any) -> Json:
    return make(
        "TrainingJob", "adopted", targetRef={"apiVersion": "batch/v1", "kind": "Job", "name": "sft", "uid": uid}, **spec
    )


TARGET_CASES = (
    Case(
        "TrainingJob",
        "targetRef cannot be changed: Charterer makes a TrainingJob for each object that it adopts",
        _of("a", suspend=True),
        _of("b"),
        before=_of("a"),
        by_operator=True,
    ),
)
