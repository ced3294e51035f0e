"""The record of costs: renting goes on while its place refuses, and afterwards all is there, also of deleted jobs."""

from __future__ import annotations

from datetime import UTC, datetime

from charterer.cluster.client import RawObject
from charterer.cluster.paths import GPU_BUDGETS, TRAINING_JOBS
from charterer.controller.loop import LoopTiming
from charterer.cost_record import CostRecord
from charterer.domain.budget import Cause, JobTime
from charterer.domain.cost_row import CostRecording
from charterer.domain.money import Money, total
from tests.cluster.adopted_jobs import once_users_are
from tests.testbed.bed import Bed


def _budget(bed: Bed) -> RawObject:
    status: RawObject = (bed.mirror.one(GPU_BUDGETS, "team") or {}).get("status", {})
    return status


def _recorded(bed: Bed) -> RawObject:
    conditions = _budget(bed).get("conditions", ())
    return next((shown for shown in conditions if shown["type"] == "CostsRecorded"), {})


async def test_while_the_place_refuses_renting_goes_on_and_later_all_is_on_record(bed: Bed) -> None:
    place = bed.directory / "costs"
    recording = CostRecording(str(place), ("example.com/team",), users=True, every_seconds=0.5)
    retries = LoopTiming(idle_seconds=2.0, batch_idle_seconds=0.1, last_retry_seconds=1.0)
    bed.operator(cost_recording=recording, timing=retries)
    await bed.pool("a100")
    await bed.budget()
    await once_users_are(bed, written=True)
    template = {"spec": {"containers": [{"name": "trainer", "image": "train:1"}]}}
    labels = {"example.com/team": "vision", "other": "not-recorded"}
    spec = {"gpus": {"min": 4, "max": 4}, "template": template}
    await bed.create("TrainingJob", "first", spec, labels=labels)
    await bed.running("first")
    await bed.finish("first")
    await bed.complete("first")
    await bed.until(lambda: _recorded(bed).get("status") == "False")
    assert _recorded(bed)["reason"] == "RecordRefuses"
    assert str(place) in _recorded(bed)["message"]
    await bed.job("second")
    await bed.running("second")
    await bed.kube.delete(TRAINING_JOBS.one("second", bed.namespace))
    await bed.given_back()
    ended = [item["metadata"]["uid"] for item in bed.rentals()]
    assert ended
    place.mkdir()
    await bed.until(lambda: not bed.rentals())
    await bed.until(lambda: _recorded(bed).get("status") == "True")
    rows = list(CostRecord(str(place)).read([datetime.now(UTC).strftime("%Y-%m")], ["team"]))
    assert set(ended) <= {row.rental_uid for row in rows}
    assert total(row.cost for row in rows) == Money.parse(_budget(bed)["lifetime"])
    payers = {row.payer.job: row.payer for row in rows if row.payer is not None}
    assert payers.keys() == {"first", "second"}
    assert (payers["first"].user, payers["first"].labels) == ("admin", {"example.com/team": "vision"})
    assert (payers["second"].user, payers["second"].labels) == ("admin", {})
    assert {row.cause for row in rows} >= {Cause.STARTING, Cause.JOB}
    assert JobTime.RUN_START in {kind for row in rows for kind in row.went_to}, "runs held GPUs before their pods ran"
    assert all(total(row.went_to.values()) <= row.cost for row in rows if row.went_to)
