"""The examples are objects that a real API server takes, and Charterer reads."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from charterer.api import decode
from charterer.api.names import API_VERSION
from tests.cluster.crd_cases import ROOT
from tests.cluster.raw_objects import create
from tests.testbed.controlplane import ControlPlane

FOLDERS = (
    "examples",
    "examples/interactive",
    "examples/karpenter",
    *sorted(map(str, (ROOT / "examples/training").glob("*/"))),
)
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.yaml"))]
EXAMPLES = [
    pytest.param(each, id=f"{path.relative_to(ROOT)}: {each['kind']} {each['metadata']['name']}")
    for path in FILES
    if "apiVersion: charterer.dev/" in path.read_text()
    for each in yaml.safe_load_all(path.read_text())
    if each["apiVersion"] == API_VERSION
]
READ: dict[str, Any] = {
    "GPUBudget": decode.budget,
    "GPUPool": decode.pool,
    "GPUPoolSet": decode.pool_set,
    "TrainingJob": decode.training_job,
    "SpeedupProfile": decode.profile,
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_accepted_and_understood(example: dict[str, Any], api: ControlPlane) -> None:
    if "namespace" in example["metadata"]:
        example = {**example, "metadata": {**example["metadata"], "namespace": "default"}}
    created = create(api, example, dry_run=True)
    created["metadata"]["resourceVersion"] = "1"  # a dry run gives none
    READ[created["kind"]](created)
