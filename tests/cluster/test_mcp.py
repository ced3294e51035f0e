"""``charterer mcp`` on a real API server, by the SDK's own client: nothing changes, whatever the rights of who asks."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from mcp import Client, StdioServerParameters

from charterer.cluster.paths import (
    CONFIG_MAPS,
    EVENTS,
    GPU_BUDGETS,
    GPU_POOLS,
    GPU_RENTALS,
    JOBS,
    PODS,
    SPEEDUP_PROFILES,
    TRAINING_JOBS,
)
from tests.testbed.bed import Bed

RESOURCES = (
    *(CONFIG_MAPS, EVENTS, JOBS, PODS, SPEEDUP_PROFILES, TRAINING_JOBS),
    *(GPU_BUDGETS, GPU_POOLS, GPU_RENTALS),
)
OTHER = """
apiVersion: charterer.dev/v1alpha1
kind: TrainingJob
metadata: {name: other}
spec: {gpus: {min: 1, max: 4}, template: {spec: {containers: [{name: t, image: "t:1"}]}}}
"""


async def versions(bed: Bed) -> Mapping[str, str]:
    """The resourceVersion of each object that is there, by its uid."""
    found: dict[str, str] = {}
    for resource in RESOURCES:
        for raw in (await bed.kube.list(resource.all())).items:
            found[raw["metadata"]["uid"]] = raw["metadata"]["resourceVersion"]
    return found


async def test_an_agent_is_answered_and_changes_nothing_whatever_the_rights(bed: Bed) -> None:
    """No operator runs, so the template of the job is tried by a dry run."""
    await bed.pool()
    await bed.budget()
    await bed.job("train", gpus=4)
    before = await versions(bed)
    main = ["-c", "from charterer.cli import main; main()", "mcp"]
    command = StdioServerParameters(
        command=sys.executable, args=[*main, "--kubeconfig", str(bed.plane.kubeconfig)], env={"HOME": "/nonexistent"}
    )
    asked: Mapping[str, Mapping[str, Any]] = {
        "plan": {"manifests": OTHER, "namespace": bed.namespace},
        "explain": {"job": "tj/train", "namespace": bed.namespace},
        "costs": {},
        "quote": {"manifests": OTHER, "namespace": bed.namespace},
    }
    answers: dict[str, Mapping[str, Any]] = {}
    async with Client(command) as agent:
        for tool, given in asked.items():
            result = await agent.call_tool(tool, dict(given))
            assert not result.is_error, result.content
            answers[tool] = result.structured_content or {}
    assert {job["name"] for job in answers["plan"]["jobs"]} == {"train", "other"}
    assert answers["explain"]["name"] == "train"
    assert [budget["name"] for budget in answers["costs"]["budgets"]] == ["team"]
    assert answers["quote"]["name"] == "other"
    assert await versions(bed) == before
