"""Adopted Jobs when the operator dies, when objects disappear, and when Charterer is taken away."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.paths import GPU_BUDGETS, JOBS, NAMESPACES, TRAINING_JOBS
from tests.cluster.adopted_jobs import (
    annotate,
    as_written,
    create,
    delete_jobs,
    edit_budget,
    end_pods,
    ended,
    give_up,
    job,
    once_held,
    plain_job,
    pods,
    run_of,
    running,
    told,
    twin,
    unlabel,
    unusual_job,
)
from tests.cluster.commands import charterer
from tests.cluster.test_crash import LISTED_SECONDS
from tests.testbed.bed import SYSTEM, Bed, group
from tests.testbed.call_killer import around
from tests.testbed.controlplane import ControlPlaneError
from tests.testbed.operators import Killer

_STEPS = frozenset({"AdoptTarget", "EditJob", "CreateRun", "Unsuspend", "StopRun", "RecordRun", "GiveBack", "LetGo"})
_CLAIMS = ("charterer.dev/job", "charterer.dev/job-uid", "charterer.dev/run")
"""Labels by which a pod says of which run it is."""
_GIVING_BACK = (
    "PATCH jobs suspend",
    "PATCH trainingjobs/status",
    "PATCH jobs annotations charterer.dev~1held charterer.dev~1original labels nodeSelector suspend tolerations",
    "DELETE trainingjobs",
)
"""What is written when a Job that runs loses its label, in this order."""
_POINTS = (around(_STEPS) - {"after GiveBack"}) | {f"amid GiveBack: {write}" for write in _GIVING_BACK}
"""After the last write of GiveBack there is nothing left to give back, and it is not carried out again."""


@pytest.fixture(autouse=True)
async def _without_jobs_in_the_end(bed: Bed) -> AsyncIterator[None]:
    yield
    await delete_jobs(bed)


@pytest.mark.long
@pytest.mark.groups(group("a100", listedSeconds=LISTED_SECONDS))
async def test_killed_around_every_step_and_amid_giving_back_a_job_is_neither_lost_nor_started_twice(bed: Bed) -> None:
    journal = bed.directory / "journal"
    await bed.budget()
    await once_held(bed)
    await bed.pool()
    await create(bed, plain_job("whisper"), {"resize": "Restart", "gpus": "4..8"})
    free = plain_job("free")
    written = await twin(bed, free)
    await create(bed, free)
    async with bed.operator(killer=Killer(journal, _STEPS, frozenset({"GiveBack"}))).revived():
        await bed.until(lambda: bed.state("whisper") == "Running" and bed.state("free") == "Running", 120)
        await annotate(bed, "whisper", gpus="8..8")
        await bed.until(lambda: len(running(bed, "whisper")) == 2 and bed.run("whisper") == 2)
        await end_pods(bed, "whisper")
        await bed.until(lambda: ended(bed, "whisper") == "Complete")
        await bed.complete("whisper")
        assert [run_of(pod) for pod in pods(bed, "whisper")] == ["2", "2"]
        await unlabel(bed, "free")
        await bed.until(lambda: bed.mirror.one(TRAINING_JOBS, "free", bed.namespace) is None)
        assert as_written(job(bed, "free")) == written
        await create(bed, plain_job("odd"), {"spot": "Perhaps"})
        await edit_budget(bed, mode="Observe")
        await bed.until(lambda: job(bed, "odd")["spec"]["suspend"] is False)
        await bed.until(lambda: not _POINTS - set(journal.read_text().splitlines()))
        await edit_budget(bed, mode="Enforce")


async def test_killed_around_the_end_of_a_job_that_is_given_up_its_end_is_written_once(bed: Bed) -> None:
    journal = bed.directory / "journal"
    await bed.budget()
    await once_held(bed)
    await bed.pool()
    await create(bed, plain_job("whisper"))
    async with bed.operator(killer=Killer(journal, frozenset({"EndTarget"}))).revived():
        await bed.running("whisper")
        await give_up(bed, "whisper")
        await bed.until(lambda: ended(bed, "whisper") == "Failed")
        await bed.until(lambda: not around({"EndTarget"}) - set(journal.read_text().splitlines()))
    assert job(bed, "whisper")["metadata"]["annotations"]["charterer.dev/given-up"].startswith("MaxRestartsExceeded")
    assert not running(bed, "whisper")


async def test_a_shadow_that_somebody_deletes_is_made_anew_and_a_job_that_comes_again_is_another(bed: Bed) -> None:
    await bed.budget()
    await once_held(bed)
    bed.operator()
    await bed.pool()
    await create(bed, plain_job("whisper"))
    await bed.running("whisper")
    first = bed.mirror.one(TRAINING_JOBS, "whisper", bed.namespace) or {}
    await bed.kube.delete(TRAINING_JOBS.one("whisper", bed.namespace))

    def anew() -> bool:
        shadow = bed.mirror.one(TRAINING_JOBS, "whisper", bed.namespace)
        return shadow is not None and shadow["metadata"]["uid"] != first["metadata"]["uid"]

    await bed.until(lambda: anew() and bed.state("whisper") == "Running" and len(running(bed, "whisper")) == 1)
    uid = (bed.mirror.one(TRAINING_JOBS, "whisper", bed.namespace) or {})["metadata"]["uid"]
    assert {pod["metadata"]["labels"]["charterer.dev/job-uid"] for pod in running(bed, "whisper")} == {uid}
    await bed.kube.delete(JOBS.one("whisper", bed.namespace))
    await bed.until(lambda: not job(bed, "whisper"))
    await create(bed, plain_job("whisper"))

    def another() -> bool:
        shadows = [raw["spec"]["targetRef"]["uid"] for raw in bed.mirror.all(TRAINING_JOBS, bed.namespace)]
        there = job(bed, "whisper").get("metadata", {}).get("uid")
        return shadows == [there] and len(running(bed, "whisper")) == 1

    await bed.until(another)


async def test_drain_gives_every_job_back_as_it_was_written_and_says_which_its_author_has_to_start(bed: Bed) -> None:
    asks: dict[str, tuple[RawObject, dict[str, str]]] = {
        "runs": (plain_job("runs"), {}),
        "paused": (plain_job("paused", suspend=True), {}),
        "waits": (plain_job("waits", pods=11), {}),
        "odd": (plain_job("odd"), {"max-cost": "much"}),
        "unusual": (unusual_job("unusual"), {"gpus": "2..2", "resize": "Restart"}),
    }
    await bed.budget()
    await once_held(bed)
    bed.operator()
    await bed.pool(labels={"disk": "fast"})
    written = {name: await twin(bed, body, said) for name, (body, said) in asks.items()}
    for body, said in asks.values():
        await create(bed, body, said)
    odd = job(bed, "odd")
    await bed.running("runs", "paused")
    await bed.until(lambda: job(bed, "unusual")["spec"]["suspend"] is False and bed.state("waits") == "Queued")
    await bed.until(lambda: told(bed, "odd"))
    looked = await charterer(bed.plane.kubeconfig, "doctor")
    refused = "charterer.dev/max-cost is 'much': give dollars"
    assert f"adoption: Job {bed.namespace}/odd is not adopted: {refused}" in looked.out
    assert told(bed, "odd")[0].startswith(refused)
    assert job(bed, "odd")["spec"] == odd["spec"]
    assert "adoption: 4 objects adopted" in looked.out
    shown = await charterer(bed.plane.kubeconfig, "logs", "runs", "-n", bed.namespace)
    assert "run 1 of Job runs: 1 pod" in shown.err
    file = bed.directory / "pools.yaml"
    drained = await charterer(bed.plane.kubeconfig, "drain", "--yes", "--save", str(file))
    assert (drained.code, drained.err.count("Error")) == (0, 0), drained
    for name in ("runs", "waits", "odd", "unusual"):
        assert f"Job {bed.namespace}/{name} is its own controller's again" in drained.out
    assert f"kubectl -n {bed.namespace} patch jobs.batch paused --type merge" in drained.out
    assert bed.mirror.all(TRAINING_JOBS, bed.namespace) == []
    assert {name: as_written(job(bed, name)) for name in asks} == written
    resumed = await charterer(bed.plane.kubeconfig, "resume")
    assert resumed.code == 0


async def test_a_job_that_ends_while_it_has_no_run_ends_its_shadow_and_lets_helm_uninstall(bed: Bed) -> None:
    """helm's hook deletes the ConfigMap first of all, and is refused while objects are adopted."""
    hook = ("delete", "configmap", "charterer-uninstall", "-n", SYSTEM, "--dry-run=server")
    await bed.budget()
    await once_held(bed)
    bed.plane.kubectl(*hook)
    bed.operator()
    await create(bed, plain_job("late", activeDeadlineSeconds=0))
    await bed.until(lambda: bed.state("late") == "Queued" and _adopted(bed) == 1)
    with pytest.raises(ControlPlaneError, match="objects of teams are adopted, 1 of GPUBudget team, and") as refused:
        bed.plane.kubectl(*hook)
    assert "run `charterer drain` first (docs/uninstall.md)" in str(refused.value)
    bed.gate.close()
    await bed.kube.merge_patch(JOBS.one("late", bed.namespace), {"spec": {"suspend": False}})
    await bed.until(lambda: ended(bed, "late") == "Failed")
    bed.gate.open()
    await bed.until(lambda: bed.state("late") == "Failed" and not _adopted(bed))
    finish = bed.tj("late")["finish"]
    assert (finish["reason"], bed.tj("late").get("runs")) == ("DeadlineExceeded", None), finish
    bed.plane.kubectl(*hook)


def _adopted(bed: Bed) -> int:
    """How many objects the budget says are adopted."""
    return int(((bed.mirror.one(GPU_BUDGETS, "team") or {}).get("status") or {}).get("adopted") or 0)


async def test_what_a_job_says_in_charterers_name_changes_no_other_job_and_rents_nothing(bed: Bed) -> None:
    """Its template names a run of another job, it carries that job's note, and it says that it is held."""
    await bed.budget()
    await once_held(bed)
    bed.operator()
    await bed.pool()
    await create(bed, plain_job("victim"))
    await bed.running("victim")
    (rental,), (pod,), before = bed.rentals(), running(bed, "victim"), job(bed, "victim")
    claims = {key: pod["metadata"]["labels"][key] for key in _CLAIMS}
    forged = plain_job("forged", suspend=True)
    forged["spec"]["template"]["metadata"] = {"labels": claims}
    notes = {"held": "true", "original": before["metadata"]["annotations"]["charterer.dev/original"]}
    unpaid = f"{bed.namespace}-unpaid"
    await bed.kube.post(NAMESPACES.all(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": unpaid}})
    noted = {**forged["metadata"], "annotations": {f"charterer.dev/{key}": text for key, text in notes.items()}}
    await bed.kube.post(JOBS.all(unpaid), {**forged, "metadata": noted})
    await bed.until(lambda: [raw["spec"]["suspend"] for raw in bed.mirror.all(JOBS, unpaid)] == [False])
    assert (bed.mirror.all(TRAINING_JOBS, unpaid), len(bed.rentals())) == ([], 1)
    uid = (await create(bed, forged, notes))["metadata"]["uid"]
    await annotate(bed, "forged", original=json.dumps({"uid": uid, "parallelism": -1, "labels": ["x"]}))
    await bed.running("forged")
    (moved,), after = running(bed, "forged"), job(bed, "victim")
    assert moved["metadata"]["labels"]["charterer.dev/job-uid"] != claims["charterer.dev/job-uid"]
    assert moved["spec"]["nodeName"] != pod["spec"]["nodeName"]
    assert (after["spec"], as_written(after)) == (before["spec"], as_written(before))
    assert [each["metadata"]["uid"] for each in running(bed, "victim")] == [pod["metadata"]["uid"]]
    assert len(bed.rentals()) == 2
    assert rental["metadata"]["uid"] in {each["metadata"]["uid"] for each in bed.rentals()}
    await bed.kube.delete(JOBS.one("forged", unpaid))
