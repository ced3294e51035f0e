"""What a person can rely on: a switch that stops renting, a dry run that writes nothing, secrets that stay secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from charterer.cluster.paths import (
    EVENTS,
    GPU_BUDGETS,
    GPU_POOLS,
    GPU_RENTALS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    SPEEDUP_PROFILES,
    TRAINING_JOBS,
)
from charterer.domain.snapshot import Stop
from charterer.tools.commands.drain import annotate
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.bed import SYSTEM, Bed
from tests.testbed.operators import OperatorProcess

WRITTEN = (
    *(GPU_BUDGETS, GPU_POOLS, GPU_RENTALS, TRAINING_JOBS, SPEEDUP_PROFILES),
    *(JOBS, PODS, SERVICES, NODES, NAMESPACES, SECRETS, EVENTS),
)
"""All kinds of object that an operator writes, without its Lease, of which there are others."""


@pytest.fixture
async def running_bed(bed: Bed) -> AsyncIterator[Bed]:
    """A bed whose operators may rent again when the test ends."""
    try:
        yield bed
    finally:
        await annotate(bed.kube, SYSTEM, None)


async def versions(bed: Bed) -> Mapping[str, str]:
    """The resourceVersion of every object of the kinds that an operator writes."""
    paths = [*(kind.all() for kind in WRITTEN), LEASES.all(SYSTEM)]
    listings = await asyncio.gather(*(bed.kube.list(path) for path in paths))
    return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for found in listings for item in found.items}


def states(bed: Bed) -> tuple[str | None, str | None]:
    """The State columns of the bed's pool and budget."""
    shown = (bed.mirror.one(GPU_POOLS, "a100"), bed.mirror.one(GPU_BUDGETS, "team"))
    pool, budget = (((raw or {}).get("status") or {}).get("state") for raw in shown)
    return pool, budget


async def logged(operator: OperatorProcess, words: str) -> str:
    """The first line of the operator's log with these words, once there is one."""
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while True:
            for line in operator.log.read_text().splitlines() if operator.log.exists() else ():
                if words in line:
                    return line
            await asyncio.sleep(0.2)


async def test_a_stopped_operator_rents_nothing_drains_if_asked_and_goes_on_when_resumed(running_bed: Bed) -> None:
    bed = running_bed
    bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.job("first")
    await bed.running("first")
    assert await annotate(bed.kube, "", Stop.RENT) == SYSTEM
    await bed.job("second")
    await bed.until(lambda: bed.tj("second").get("why") == "Stopped")
    await bed.until(lambda: states(bed) == ("Stopped", "Stopped"))
    assert bed.condition(bed.mirror.one(GPU_BUDGETS, "team"), "Stopped")["reason"] == "NothingRented"
    assert (bed.state("first"), await bed.launched()) == ("Running", 1)
    await annotate(bed.kube, "", Stop.DRAIN)
    await bed.until(lambda: bed.state("first") == "Queued")
    await bed.given_back()
    assert (await bed.instances(), await bed.launched()) == ([], 1)
    await annotate(bed.kube, "", None)
    await bed.running("first", "second")
    await bed.until(lambda: "Stopped" not in states(bed))
    await bed.finish("first")
    await bed.finish("second")
    await bed.complete("first", "second")


async def test_a_dry_run_logs_what_it_would_do_and_writes_nothing_also_beside_an_operator(bed: Bed) -> None:
    live = bed.operator()
    await bed.pool()
    await bed.budget()
    await bed.until(lambda: bed.condition(bed.mirror.one(GPU_BUDGETS, "team"), "Ready").get("status") == "True")
    await bed.until(lambda: bed.condition(bed.mirror.one(GPU_POOLS, "a100"), "Ready").get("status") == "True")
    await live.stop()
    await bed.job("train")
    before = await versions(bed)
    dry = bed.operator("charterer-dry", dry_run=True)
    rent = await logged(dry, "dry run, not written: POST /apis/charterer.dev/v1alpha1/gpurentals")
    assert '"name":"a100-1"' in rent
    view = await logged(dry, f"PATCH /apis/charterer.dev/v1alpha1/namespaces/{bed.namespace}/trainingjobs/train/status")
    assert '"state":"Queued"' in view
    assert await versions(bed) == before
    assert await bed.launched() == 0
    bed.operator("charterer-1")
    await bed.running("train")
    await bed.finish("train")
    await bed.complete("train")
    assert dry.alive
    assert "Traceback" not in dry.log.read_text()
    assert await bed.launched() == 1
