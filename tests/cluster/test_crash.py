"""The operator is killed just before and just after every kind of command and step, and started again each time."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest

from purser.cluster.paths import NODES, TRAINING_JOBS
from purser.domain.plan import Command
from purser.domain.steps import Step
from tests.testbed.bed import Bed, group
from tests.testbed.operator import Killer

_UNREACHED = frozenset[str]()


def _points() -> set[str]:
    kinds = [*get_args(Command), *get_args(Step)]
    return {f"{when} {kind.__name__}" for kind in kinds for when in ("before", "after")} - _UNREACHED


@pytest.mark.timeout(400)
@pytest.mark.groups(group("a100"), group("empty", stock=0, hourlyPrice="6.00"), group("orphans", initialTarget=1))
async def test_killed_around_every_step_nothing_is_rented_twice_and_nothing_forgotten(bed: Bed) -> None:
    journal = bed.directory / "journal"
    operator = bed.operator(killer=Killer(journal))

    async def keep_alive() -> None:
        while True:
            await operator.death()
            operator.restart()

    nurse = asyncio.create_task(keep_alive())
    try:
        await _a_life_with_every_step(bed)
        await bed.until(lambda: _missing(journal) == set(), 60)
    finally:
        nurse.cancel()
    assert _missing(journal) == set()


def _missing(journal: object) -> set[str]:
    from pathlib import Path

    passed = set(Path(str(journal)).read_text().splitlines())
    return _points() - passed


async def _a_life_with_every_step(bed: Bed) -> None:
    """Runs, a resize, an in-place resize, a failure, a lost node, a stock-out, an orphan, a time to live, a new month."""
    await bed.pool("empty")
    await bed.pool("a100")
    await bed.pool("orphans")
    await bed.budget()
    await bed.job("train", resizePolicy="Restart", ttlSecondsAfterFinished=1)
    await bed.job("wide", gpus=8, resizePolicy="InPlace")
    await bed.running("train", "wide", seconds=120)
    gpus = {"min": 1, "preferred": 2, "max": 2}
    await bed.kube.merge_patch(TRAINING_JOBS.one("train", bed.namespace), {"spec": {"gpus": gpus}})
    gpus = {"min": 4, "preferred": 4, "max": 4}
    await bed.kube.merge_patch(TRAINING_JOBS.one("wide", bed.namespace), {"spec": {"gpus": gpus}})
    await bed.until(lambda: bed.tj("train").get("gpus") == 2 and bed.state("train") == "Running", 60)
    await bed.until(lambda: bed.tj("wide").get("gpus") == 4 and bed.state("wide") == "Running", 60)
    instance = next(one for one in bed.rentals("Ready"))["status"]["instance"]
    await bed.cloud.admin("POST", f"/instances/{instance}/kill", {"nodeObject": "silent"})
    await bed.until(lambda: all(node["metadata"]["name"] != instance for node in bed.mirror.all(NODES)), 60)
    await bed.running("train", "wide", seconds=60)
    await bed.finish("train")
    await bed.until(lambda: bed.mirror.one(TRAINING_JOBS, "train", bed.namespace) is None, 60)
    await bed.finish("wide")
    await bed.complete("wide", seconds=60)
    await bed.until(lambda: not bed.rentals(), 60)
    await bed.delete("GPUPool", "orphans")
