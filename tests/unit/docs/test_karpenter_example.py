"""The example of Karpenter's nodes is read as it is, and its script writes the same GPUPools and more."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from charterer.api import decode
from charterer.cli.plan.what_ifs.manifest_files import manifest_sources, planned_and_left_out
from charterer.cli.plan.what_ifs.schema_faults import schema_faults
from tests.unit.docs.test_links import ROOT

FOLDER = ROOT / "examples/karpenter"
READ: dict[str, Any] = {"GPUBudget": decode.budget, "GPUPool": decode.pool, "TrainingJob": decode.training_job}
SERVED = {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
"""What the API server adds to metadata."""


def pools(**choice: str) -> list[dict[str, Any]]:
    """What the script writes."""
    script = ["sh", str(FOLDER / "pools.sh")]
    done = subprocess.run(script, env={**os.environ, **choice}, capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def objects() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / "objects.yaml").read_text()))


def test_every_object_of_charterer_in_the_example_is_understood() -> None:
    own = [each for each in objects() if each["kind"] in READ]
    assert [each["kind"] for each in own] == ["GPUBudget", *["GPUPool"] * 4, "TrainingJob"]
    for each in own:
        assert list(schema_faults(each["kind"], each["spec"])) == []
        READ[each["kind"]]({**each, "metadata": {**each["metadata"], **SERVED}})


def test_what_plan_leaves_out_of_the_example_is_karpenters_own() -> None:
    planned, left_out = planned_and_left_out(manifest_sources([Path(FOLDER / "objects.yaml")]))
    assert planned[0].is_namespace
    (told,) = left_out
    assert told.startswith("EC2NodeClass gpu of ")


def test_the_script_writes_the_pools_of_the_example() -> None:
    machines = "p4d.24xlarge:NVIDIA-A100-SXM4-40GB:8 p5.48xlarge:NVIDIA-H100-80GB-HBM3:8"
    written = [each for each in objects() if each["kind"] == "GPUPool"]
    assert pools(MACHINES=machines, ZONES="us-east-1a") == written


def test_the_script_writes_a_pool_for_each_type_zone_and_capacity_type() -> None:
    made = [decode.pool({**each, "metadata": {**each["metadata"], **SERVED}}) for each in pools()]
    assert len({pool.id for pool in made}) == 3 * 3 * 2
    assert len({(pool.cloud, pool.capacity_type) for pool in made}) == 3 * 3 * 2


def test_the_set_makes_a_pool_for_each_type_zone_and_capacity_type_like_those_of_the_script() -> None:
    text = (FOLDER / "pool-set.yaml").read_text()
    written = yaml.safe_load(text)
    assert list(schema_faults("GPUPoolSet", written["spec"])) == []
    declared = decode.pool_set({**written, "metadata": {**written["metadata"], **SERVED}}).pools
    made = [decode.pool({**each, "metadata": {**each["metadata"], **SERVED}}) for each in pools()]
    assert "gpu-p5-1b-spot" in declared
    assert {(pool.cloud, pool.capacity_type, pool.max_nodes, pool.start_seconds) for pool in declared.values()} == {
        (pool.cloud, pool.capacity_type, pool.max_nodes, pool.start_seconds) for pool in made
    }
    assert len(declared) == 18
    assert len([line for line in text.splitlines() if not line.startswith("#")]) <= 26
