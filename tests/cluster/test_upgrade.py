"""Definitions are upgraded while jobs run: watches go on, no run is begun anew, and no machine is lost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from charterer.cluster.paths import JOBS, TRAINING_JOBS
from tests.testbed.bed import Bed

DEFINITIONS = Path(__file__).parents[2] / "crds"
JOBS_RUNNING = 8


def next_version(definition: dict[str, Any]) -> dict[str, Any]:
    """The definition with one more optional field in its spec and its status, and one more printer column."""
    (version,) = definition["spec"]["versions"]
    parts = version["schema"]["openAPIV3Schema"]["properties"]
    for part in ("spec", "status"):
        parts[part]["properties"]["ofTheNextVersion"] = {"type": "string", "description": "A field to come."}
    columns = version.setdefault("additionalPrinterColumns", [])
    columns.append({"name": "Next", "type": "string", "jsonPath": ".spec.ofTheNextVersion"})
    return definition


def _apply(bed: Bed, definitions: list[dict[str, Any]]) -> None:
    bed.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=yaml.safe_dump_all(definitions))


async def test_definitions_are_upgraded_while_jobs_run(bed: Bed) -> None:
    bed.operator()
    await bed.pool(maxNodes=12)
    await bed.budget()
    names = [f"job-{number}" for number in range(JOBS_RUNNING)]
    for name in names:
        await bed.job(name, gpus=1)
    await bed.running(*names)
    runs, rented, launched = _runs(bed), _rented(bed), await bed.launched()
    files = sorted(DEFINITIONS.glob("*.yaml"))
    assert files
    present = [yaml.safe_load(path.read_text()) for path in files]
    try:
        _apply(bed, [next_version(yaml.safe_load(path.read_text())) for path in files])
        await bed.finish(names[0])
        await bed.until(lambda: bed.state(names[0]) == "Complete")
        await bed.kube.merge_patch(TRAINING_JOBS.one(names[1], bed.namespace), {"spec": {"suspend": True}})
        await bed.until(lambda: bed.state(names[1]) == "Suspended")
        await bed.job("after", gpus=1)
        await bed.running("after")
    finally:
        _apply(bed, present)
    await bed.delete("TrainingJob", "after")
    await bed.until(lambda: not bed.runs("after"))
    others = names[2:]
    assert {name: bed.run(name) for name in others} == dict.fromkeys(others, 1)
    assert {name: bed.state(name) for name in others} == dict.fromkeys(others, "Running")
    after = _runs(bed)
    assert {name: after[name] for name in others} == {name: runs[name] for name in others}
    assert _rented(bed).items() <= rented.items()
    assert await bed.launched() == launched


def _runs(bed: Bed) -> Mapping[str, str]:
    """The uid of each job's run."""
    found = bed.mirror.all(JOBS, bed.namespace)
    return {raw["metadata"]["labels"]["charterer.dev/job"]: raw["metadata"]["uid"] for raw in found}


def _rented(bed: Bed) -> Mapping[str, str]:
    return {raw["metadata"]["name"]: raw["metadata"]["uid"] for raw in bed.rentals()}
