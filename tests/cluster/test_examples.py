"""The examples are objects that a real API server takes, and Charterer reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from charterer.api import decode
from charterer.api.names import API_VERSION
from tests.cluster.crd_cases import ROOT
from tests.testbed.controlplane import ControlPlane

FILES = [path for folder in ("examples", "examples/karpenter") for path in sorted((ROOT / folder).glob("*.yaml"))]
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
    flags = ("--dry-run=server", "--validate=strict", "-o", "json")
    created = json.loads(api.kubectl("create", "-f", "-", *flags, input=json.dumps(example)))
    created["metadata"]["resourceVersion"] = "1"  # a dry run gives none
    READ[created["kind"]](created)
