"""The examples are objects that a real API server takes, and Charterer reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from charterer.api import decode
from tests.cluster.crd_cases import ROOT, install_crds
from tests.testbed.controlplane import ControlPlane

EXAMPLES = sorted(
    path for path in (ROOT / "examples").glob("*.yaml") if "apiVersion: charterer.dev/" in path.read_text()
)
READ: dict[str, Any] = {
    "GPUBudget": decode.budget,
    "GPUPool": decode.pool,
    "TrainingJob": decode.training_job,
    "SpeedupProfile": decode.profile,
}


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> ControlPlane:
    return install_crds(control_plane)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_accepted_and_understood(path: Path, api: ControlPlane) -> None:
    flags = ("--dry-run=server", "--validate=strict", "-o", "json")
    created = json.loads(api.kubectl("create", "-f", str(path), *flags))
    created["metadata"]["resourceVersion"] = "1"  # a dry run gives none
    READ[created["kind"]](created)
