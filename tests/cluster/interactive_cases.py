"""Interactive jobs that the CRD accepts and refuses."""

from __future__ import annotations

from typing import Any

from tests.cluster.crd_cases import Case, Json, make


def _asking(**interactive: Any) -> Json:
    return make("TrainingJob", "asks", interactive=interactive)


INTERACTIVE_CASES = (
    Case(
        "TrainingJob",
        "interactive can neither be added to a job nor taken from it: create another job",
        _asking(asks=3, hourly="20"),
        make("TrainingJob", "asks"),
        before=_asking(asks=3),
    ),
    Case(
        "TrainingJob",
        "an interactive job has no end: leave targetCompletionTime or interactive out",
        _asking(),
        {**_asking(), "spec": {**_asking()["spec"], "targetCompletionTime": "2026-01-31T12:00:00Z"}},
    ),
    Case(
        "TrainingJob",
        "interactive.idleSeconds must be more than 0: leave it out to hold GPUs as long as that pays",
        _asking(idleSeconds=0.5),
        _asking(idleSeconds=0),
    ),
)
INTERACTIVE_REFUSED = {
    "fewer than no asks": _asking(asks=-1),
    "an hour of waiting that earns": _asking(hourly="-1"),
    "idle seconds in words": _asking(idleSeconds="5"),
}
