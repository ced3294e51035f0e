"""Adopted Jobs when the operator dies, when objects disappear, and when Charterer is taken away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from copy import deepcopy

import pytest

from charterer.cluster.paths import JOBS, TRAINING_JOBS
from tests.cluster.adopted_jobs import (
    annotate,
    as_written,
    create,
    delete_jobs,
    edit_budget,
    end_pods,
    ended,
    job,
    plain_job,
    pods,
    run_of,
    running,
    unlabel,
)
from tests.cluster.commands import charterer
from tests.testbed.bed import Bed
from tests.testbed.call_killer import around
from tests.testbed.operators import Killer

_STEPS = frozenset({"AdoptTarget", "EditJob", "CreateRun", "Unsuspend", "StopRun", "RecordRun", "GiveBack", "LetGo"})


@pytest.fixture(autouse=True)
async def _without_jobs_in_the_end(bed: Bed) -> AsyncIterator[None]:
    yield
    await delete_jobs(bed)


@pytest.mark.long
async def test_killed_around_every_step_a_job_is_neither_lost_nor_started_twice(bed: Bed) -> None:
    journal = bed.directory / "journal"
    await bed.budget()
    await bed.pool()
    await create(bed, plain_job("whisper"), {"resize": "Restart", "gpus": "4..8"})
    free = plain_job("free")
    twin = await create(bed, {**deepcopy(free), "metadata": {"name": "twin", "labels": {"team": "speech"}}})
    await create(bed, free)
    async with bed.operator(killer=Killer(journal, _STEPS)).revived():
        await bed.until(lambda: bed.state("whisper") == "Running" and bed.state("free") == "Running", 120)
        await annotate(bed, "whisper", gpus="8..8")
        await bed.until(lambda: len(running(bed, "whisper")) == 2 and bed.run("whisper") == 2, 90)
        await end_pods(bed, "whisper")
        await bed.until(lambda: ended(bed, "whisper") == "Complete", 60)
        await bed.complete("whisper")
        assert [run_of(pod) for pod in pods(bed, "whisper")] == ["2", "2"]
        await unlabel(bed, "free")
        await bed.until(lambda: bed.mirror.one(TRAINING_JOBS, "free", bed.namespace) is None, 90)
        assert as_written(job(bed, "free")) == as_written(twin)
        await create(bed, plain_job("odd"), {"spot": "Perhaps"})
        await edit_budget(bed, mode="Observe")
        await bed.until(lambda: job(bed, "odd")["spec"]["suspend"] is False, 60)
        await bed.until(lambda: not around(_STEPS) - set(journal.read_text().splitlines()), 60)
        await edit_budget(bed, mode="Enforce")


async def test_a_shadow_that_somebody_deletes_is_made_anew_and_a_job_that_comes_again_is_another(bed: Bed) -> None:
    await bed.budget()
    bed.operator()
    await bed.pool()
    await create(bed, plain_job("whisper"))
    await bed.running("whisper")
    first = bed.mirror.one(TRAINING_JOBS, "whisper", bed.namespace) or {}
    await bed.kube.delete(TRAINING_JOBS.one("whisper", bed.namespace))

    def anew() -> bool:
        shadow = bed.mirror.one(TRAINING_JOBS, "whisper", bed.namespace)
        return shadow is not None and shadow["metadata"]["uid"] != first["metadata"]["uid"]

    await bed.until(lambda: anew() and bed.state("whisper") == "Running" and len(running(bed, "whisper")) == 1, 90)
    uid = (bed.mirror.one(TRAINING_JOBS, "whisper", bed.namespace) or {})["metadata"]["uid"]
    assert {pod["metadata"]["labels"]["charterer.dev/job-uid"] for pod in running(bed, "whisper")} == {uid}
    await bed.kube.delete(JOBS.one("whisper", bed.namespace))
    await bed.until(lambda: not job(bed, "whisper"))
    await create(bed, plain_job("whisper"))

    def another() -> bool:
        shadows = [raw["spec"]["targetRef"]["uid"] for raw in bed.mirror.all(TRAINING_JOBS, bed.namespace)]
        there = job(bed, "whisper").get("metadata", {}).get("uid")
        return shadows == [there] and len(running(bed, "whisper")) == 1

    await bed.until(another, 90)


async def test_drain_gives_every_job_back_and_says_which_its_author_has_to_start(bed: Bed) -> None:
    await bed.budget()
    bed.operator()
    await bed.pool()
    await create(bed, plain_job("runs"))
    await create(bed, plain_job("paused", suspend=True))
    await create(bed, plain_job("odd"), {"max-cost": "much"})
    await bed.running("runs", "paused")
    looked = await charterer(bed.plane.kubeconfig, "doctor")
    assert f"adoption: Job {bed.namespace}/odd is not adopted: charterer.dev/max-cost is 'much'" in looked.out
    assert "adoption: 2 objects adopted, as their authors ask" in looked.out
    shown = await charterer(bed.plane.kubeconfig, "logs", "runs", "-n", bed.namespace)
    assert "Job runs (run 1): 1 pod" in shown.err
    file = bed.directory / "pools.yaml"
    drained = await charterer(bed.plane.kubeconfig, "drain", "--yes", "--save", str(file))
    assert (drained.code, drained.err.count("Error")) == (0, 0), drained
    assert f"Job {bed.namespace}/runs is its own controller's again" in drained.out
    assert f"kubectl -n {bed.namespace} patch jobs.batch paused --type merge" in drained.out
    assert bed.mirror.all(TRAINING_JOBS, bed.namespace) == []
    assert [job(bed, name)["spec"]["suspend"] for name in ("runs", "paused", "odd")] == [False, True, False]
    resumed = await charterer(bed.plane.kubeconfig, "resume")
    assert resumed.code == 0
