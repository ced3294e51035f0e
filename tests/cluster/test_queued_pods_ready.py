"""Kueue evicts what does not get ready in its own time (``waitForPodsReady``), here after seconds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from charterer.cluster.paths import PODS
from tests import awaited, outcome
from tests.testbed.bed import group, install_charts
from tests.testbed.controlplane import ControlPlane
from tests.testbed.kueue import program as kueue_program
from tests.testbed.kueue.bed import KueueBed, open_kueue_bed
from tests.testbed.kueue.process import KueueProcess

pytestmark = [pytest.mark.xdist_group("kueue"), pytest.mark.repeats]


@pytest.fixture(scope="module")
def hasty_kueue(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane with Charterer's check and a Kueue that waits for pods for three seconds."""
    files = awaited.have("kueue", kueue_program.find, "Kueue has not been built: run `make kueue`")
    waits = {"timeout": "3s", "requeuingStrategy": {"backoffBaseSeconds": 1}}
    folder = tmp_path_factory.mktemp("hasty-kueue")
    with KueueProcess.start(control_plane, files, folder, waitForPodsReady=waits):
        install_charts(control_plane, "kueue.enabled=true")
        yield control_plane


@pytest.fixture
async def hasty_bed(
    hasty_kueue: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[KueueBed]:
    """A bed with a queue, an operator, a budget and a pool."""
    async with open_kueue_bed(hasty_kueue, tmp_path, [group("a100")]) as bed:
        bed.operator()
        await bed.budget()
        await bed.pool()
        await bed.queue()
        yield bed
        if not outcome.failed(request.node):
            await bed.delete_jobs()
            await bed.close()


async def test_a_run_whose_pods_are_not_ready_in_kueues_time_is_a_stopped_run(hasty_bed: KueueBed) -> None:
    """Its first pod waits for a gate of its author's; that of the next run does not."""
    bed = hasty_bed
    await bed.queued("llm", schedulingGates=[{"name": "example.com/data"}])
    await bed.until(lambda: bed.outcomes("llm") == ["Stopped"])
    assert "PodsReadyTimeout" in bed.tj("llm")["runs"][0]["message"]
    await bed.until(
        lambda: [pod for pod in bed.job_pods("llm") if pod["metadata"]["labels"]["charterer.dev/run"] == "2"]
    )
    (pod,) = bed.job_pods("llm")
    await bed.kube.merge_patch(PODS.one(pod["metadata"]["name"], bed.namespace), {"spec": {"schedulingGates": None}})
    await bed.trains("llm")
    await bed.ends_well("llm")
    assert bed.outcomes("llm") == ["Stopped", "Complete"]
