"""Jobs that teams already have: held, placed, started and ended in place, on the real API server and Job controller."""

from __future__ import annotations

from copy import deepcopy

from charterer.cluster.paths import TRAINING_JOBS
from tests.cluster.adopted_jobs import (
    as_written,
    create,
    end_pods,
    ended,
    job,
    plain_job,
    pods,
    running,
    unlabel,
)
from tests.testbed.bed import Bed


async def test_a_labelled_job_is_held_placed_and_started_and_its_end_is_its_own(bed: Bed) -> None:
    await bed.budget()
    held = await create(bed, plain_job("whisper", pods=2, gpus=4))
    assert held["spec"]["suspend"] is True
    assert held["metadata"]["annotations"] == {"charterer.dev/held": "true"}
    bed.operator()
    await bed.pool()
    await bed.running("whisper", seconds=30)
    assert len(running(bed, "whisper")) == 2
    shadow = bed.tj("whisper")
    assert (shadow["gpus"], shadow["allocation"]["run"]) == (8, 1)
    assert job(bed, "whisper")["spec"]["suspend"] is False
    await end_pods(bed, "whisper")
    await bed.until(lambda: ended(bed, "whisper") == "Complete")
    await bed.complete("whisper")
    assert [pod["status"]["phase"] for pod in pods(bed, "whisper")] == ["Succeeded"] * 2
    assert job(bed, "whisper")["metadata"]["labels"].keys() >= {"team"}


async def test_a_job_is_given_back_as_its_author_wrote_it_when_the_label_is_taken_away(bed: Bed) -> None:
    await bed.budget()
    wanted = plain_job("whisper", pods=2, gpus=2)
    wanted["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "fast"}
    unlabelled = deepcopy(wanted)
    unlabelled["metadata"] = {"name": "twin", "labels": {"team": "speech"}}
    twin = await create(bed, unlabelled)
    await create(bed, wanted)
    bed.operator()
    await bed.pool()
    await bed.until(lambda: bed.tj("whisper").get("allocation"))
    await bed.until(lambda: job(bed, "whisper")["spec"]["suspend"] is False, 30)
    await unlabel(bed, "whisper")
    await bed.until(lambda: bed.mirror.one(TRAINING_JOBS, "whisper", bed.namespace) is None, 30)
    given = job(bed, "whisper")
    assert as_written(given) == as_written(twin)
