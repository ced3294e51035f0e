"""The example of Karpenter's nodes is read as it is, and its GPUPoolSet declares the same GPUPools and more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from charterer.api import decode
from charterer.domain.pool_set import DeclaredPool
from charterer.tools.commands.shared.what_if import manifest_sources, planned_and_left_out, schema_faults
from tests.unit.docs.test_links import ROOT

FOLDER = ROOT / "examples/karpenter"
READ: dict[str, Any] = {"GPUBudget": decode.budget, "GPUPool": decode.pool, "TrainingJob": decode.training_job}
SERVED = {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
"""What the API server adds to metadata."""


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


def test_the_set_makes_a_pool_for_each_type_zone_and_capacity_type_and_those_of_the_example_among_them() -> None:
    text = (FOLDER / "pool-set.yaml").read_text()
    written = yaml.safe_load(text)
    assert list(schema_faults("GPUPoolSet", written["spec"])) == []
    declared = decode.pool_set({**written, "metadata": {**written["metadata"], **SERVED}}).pools
    assert len(declared) == len({(pool.cloud, pool.capacity_type) for pool in declared.values()}) == 3 * 3 * 2
    assert "gpu-p5-1b-spot" in declared
    alone = [decode.pool({**each, "metadata": {**each["metadata"], **SERVED}}) for each in objects() if _is_pool(each)]
    unlabelled = [replace(pool, labels={}) for pool in declared.values()]
    assert [pool for pool in map(DeclaredPool.of, alone) if pool not in unlabelled] == []
    assert len([line for line in text.splitlines() if not line.startswith("#")]) <= 26


def _is_pool(raw: dict[str, Any]) -> bool:
    return bool(raw["kind"] == "GPUPool")
