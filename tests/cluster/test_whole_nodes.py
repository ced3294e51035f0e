"""Two partly used nodes on a real control plane: one is emptied, and given back when its pods have left it."""

from __future__ import annotations

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.paths import EVENTS, GPU_RENTALS, PODS
from tests.cluster.history import history
from tests.testbed.bed import Bed, group

LEAVES_SLOWLY = {"testbed.charterer.dev/stop-delay": "1s"}
LIVE = ("Pending", "Running")


def _version(raw: RawObject) -> int:
    return int(raw["metadata"]["resourceVersion"])


def _rental(bed: Bed, job: str) -> str:
    """The node that the job was given."""
    (place,) = bed.tj(job)["allocation"]["placements"]
    return str(place["rental"])


@pytest.mark.groups(group("v100", gpusPerInstance=8, hourlyPrice="19.84"))
async def test_a_job_moves_to_free_gpus_of_another_node_and_its_own_is_given_back_once_its_pods_have_left(
    bed: Bed,
) -> None:
    bed.operator()
    await bed.pool("v100")
    await bed.budget()
    await bed.job("stays", gpus=4)
    await bed.job("ends", gpus=4)
    await bed.running("stays", "ends")
    await bed.create("SpeedupProfile", "saves", {"checkpointSeconds": 1})
    await bed.job("moves", gpus=2, resizePolicy="Restart", profileName="saves", annotations=LEAVES_SLOWLY)
    await bed.job("ends-too", gpus=4)
    await bed.running("moves", "ends-too")
    left = _rental(bed, "moves")
    assert (_rental(bed, "ends-too"), _rental(bed, "ends")) == (left, _rental(bed, "stays"))
    async with history(bed.kube, PODS, bed.namespace) as pods, history(bed.kube, GPU_RENTALS) as rentals:
        await bed.finish("ends")
        await bed.finish("ends-too")
        await bed.running_again("moves", after=1)
        await bed.until(lambda: [raw["metadata"]["name"] for raw in bed.rentals()] == [_rental(bed, "stays")])
    assert _rental(bed, "moves") == _rental(bed, "stays") != left
    assert (bed.run("stays"), bed.run("moves"), bed.tj("moves")["runs"][0]["outcome"]) == (1, 2, "Stopped")

    def versions(run: str) -> list[int]:
        """The versions of a run's pods while they are alive."""
        named = [raw for _, raw in pods.events if raw["metadata"]["name"].startswith(f"{run}-")]
        return [_version(raw) for raw in named if raw["status"]["phase"] in LIVE]

    told_to_leave = [raw for raw in rentals.versions(left) if (raw.get("status") or {}).get("releasedBecause")]
    assert max(versions("moves-r1")) < min(versions("moves-r2"))
    assert max(versions("moves-r1")) < _version(told_to_leave[0])
    events = await bed.kube.list(EVENTS.all(bed.namespace))
    notes = [event["note"] for event in events.items if event["reason"] == "Allocated"]
    why = f"from {left} to {_rental(bed, 'stays')}, so that {left} can be given back, which saves $"
    assert [note for note in notes if why in note], notes
