"""What a running operator lets one see: metrics, health, Events, progress; and that it writes nothing for nothing."""

from __future__ import annotations

import base64
import json
import re
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from charterer.cluster.client import RawObject
from charterer.cluster.paths import EVENTS, GPU_BUDGETS, GPU_POOLS, NODES, SECRETS, SPEEDUP_PROFILES, TRAINING_JOBS
from tests.cluster.history import history
from tests.testbed.bed import API, SYSTEM, Bed
from tests.testbed.mirror import WATCHED
from tests.testbed.operators import OperatorProcess
from tests.unit.trainer.support import end, start

Sample = tuple[str, frozenset[tuple[str, str]]]


async def _ground(bed: Bed) -> OperatorProcess:
    """An operator that has seen the pool and the budget, so that no job is without them for a moment."""
    operator = bed.operator()
    await bed.pool()
    await bed.budget()
    for resource, name in ((GPU_POOLS, "a100"), (GPU_BUDGETS, "team")):
        await bed.until(lambda: "state" in ((bed.mirror.one(resource, name) or {}).get("status") or {}))  # noqa: B023 - awaited in this very turn
    return operator


def _port(operator: OperatorProcess, what: str) -> int:
    found = re.findall(rf"{what} on port (\d+)", operator.log.read_text())
    return int(found[-1])


async def _get(operator: OperatorProcess, path: str) -> tuple[int, str]:
    port = _port(operator, "metrics" if path == "/metrics" else "health")
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def _metrics(operator: OperatorProcess) -> dict[Sample, float]:
    _, text = await _get(operator, "/metrics")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _of(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


# --- metrics, health, Events ------------------------------------------------------------------------------------------


async def test_metrics_tell_money_gpus_and_jobs_and_the_probes_are_well(bed: Bed) -> None:
    operator = await _ground(bed)
    await bed.job("train", gpus=2)
    await bed.running("train")
    seen = await _metrics(operator)
    assert seen[_of("charterer_budget_spent_dollars", budget="team")] > 0
    assert seen[_of("charterer_budget_rented_dollars_per_hour", budget="team")] == 12
    assert seen[_of("charterer_spent_dollars_total", budget="team", pool="a100", cause="starting")] > 0
    assert seen[_of("charterer_pool_gpus", pool="a100", state="used")] == 2
    assert seen[_of("charterer_pool_gpus", pool="a100", state="idle")] == 2
    assert seen[_of("charterer_jobs", namespace=bed.namespace, state="Running")] == 1
    assert seen[_of("charterer_steps_total", step="Unsuspend", outcome="done")] == 1
    assert seen[_of("charterer_api_writes_total", verb="create", resource="gpurentals")] == 1
    assert seen[_of("charterer_leader")] == 1
    for probe in ("/healthz", "/readyz"):
        assert (await _get(operator, probe))[0] == 200


async def test_a_standby_is_well_and_ready_and_does_not_lead(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train")
    await bed.running("train")
    standby = bed.operator("charterer-1")
    await bed.job("next")
    await bed.running("next")
    status, told = await _get(standby, "/healthz")
    assert (status, (await _metrics(standby))[_of("charterer_leader")]) == (200, 0)
    assert "standing by; charterer-0_" in told
    assert (await _get(standby, "/readyz"))[0] == 200


async def test_events_on_a_job_tell_what_was_decided_and_how_its_run_ended(bed: Bed) -> None:
    await _ground(bed)
    async with history(bed.kube, EVENTS, bed.namespace) as events:
        await bed.job("train", annotations={"testbed.charterer.dev/complete-after": "0.5s"})
        await bed.complete("train")
        told: dict[str, RawObject] = {}

        def look() -> bool:
            told.update({raw["reason"]: raw for _, raw in events.events if raw["regarding"]["kind"] == "TrainingJob"})
            return {"Allocated", "RunComplete"} <= told.keys()

        await events.until(look)
    raw = bed.mirror.one(TRAINING_JOBS, "train", bed.namespace)
    assert raw is not None
    assert {event["regarding"]["uid"] for event in told.values()} == {raw["metadata"]["uid"]}
    assert "4 GPUs on a100" in told["Allocated"]["note"]
    warnings = {reason: event["note"] for reason, event in told.items() if event["type"] != "Normal"}
    assert warnings == {}


@pytest.mark.repeats  # tests/unit/controller/status/test_publisher.py
async def test_a_profile_deleted_and_made_again_while_the_operator_slept_is_shown_again(bed: Bed) -> None:
    operator = await _ground(bed)
    point = {"gpuType": "NVIDIA-A100-SXM4-40GB", "throughput": [{"gpus": 4, "value": 1}]}
    metadata = {"name": "class", "namespace": bed.namespace}
    body = {"apiVersion": API, "kind": "SpeedupProfile", "metadata": metadata, "spec": {"curves": [point]}}

    def state() -> str:
        raw = bed.mirror.one(SPEEDUP_PROFILES, "class", bed.namespace) or {}
        return str((raw.get("status") or {}).get("state", ""))

    await bed.kube.post(SPEEDUP_PROFILES.all(bed.namespace), body)
    await bed.until(lambda: state() == "Ready")
    operator.freeze()
    await bed.kube.delete(SPEEDUP_PROFILES.one("class", bed.namespace))
    await bed.kube.post(SPEEDUP_PROFILES.all(bed.namespace), body)
    await bed.until(lambda: state() == "")
    operator.thaw()
    await bed.until(lambda: state() == "Ready")


# --- progress ---------------------------------------------------------------------------------------------------------

TRAIN = """
import charterer_trainer
with charterer_trainer.run() as run:
    run.report(step=30, total_steps=120, throughput=812.5)
    print(run.allocation())
"""


def _uid(bed: Bed, job: str) -> str:
    raw = bed.mirror.one(TRAINING_JOBS, job, bed.namespace)
    return "" if raw is None else str(raw["metadata"]["uid"])


def _token(bed: Bed, pod: RawObject, job_uid: str) -> str:
    """The token that a kubelet would put into this pod, for this job's audience."""
    metadata = pod["metadata"]
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={metadata['name']}")
    audience = f"--audience=charterer.dev/tj/{job_uid}"
    words = ("create", "token", "default", "-n", bed.namespace, audience, *bound)
    return bed.plane.kubectl(*words, f"--bound-object-uid={metadata['uid']}").strip()


async def _report(bed: Bed, operator: OperatorProcess, token: str, **report: object) -> tuple[int, str]:
    """What the endpoint answers to a report: the status, and the code of a refusal."""
    secret = await bed.kube.get(SECRETS.one("charterer-progress-tls", SYSTEM))
    authority = base64.b64decode(secret["data"]["ca.crt"]).decode()
    url = f"https://localhost:{_port(operator, 'progress')}/v1/progress"
    trusted = ssl.create_default_context(cadata=authority)
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=report, headers=headers, ssl=trusted) as answer,
    ):
        body = await answer.json()
        return answer.status, (body.get("error") or {}).get("code", "")


@pytest.mark.repeats  # test_progress.py; tests/e2e
async def test_a_trainer_in_its_pod_reports_and_hears_its_allocation_and_status_shows_it(
    bed: Bed, tmp_path: Path
) -> None:
    operator = await _ground(bed)
    await bed.job("train", gpus=4)
    await bed.running("train")
    (pod,) = bed.pods("train")
    (tmp_path / "token").write_text(_token(bed, pod, _uid(bed, "train")))
    given = {
        variable["name"]: variable["value"] for variable in pod["spec"]["containers"][0]["env"] if "value" in variable
    }
    where = f"https://localhost:{_port(operator, 'progress')}"
    environ = {**given, "CHARTERER_PROGRESS_URL": where, "CHARTERER_TOKEN_FILE": str(tmp_path / "token")}
    process = await start(TRAIN, environ)
    assert process.stdout is not None
    printed = (await process.stdout.readline()).decode().strip()
    assert await end(process) == (0, "")
    assert printed == "Allocation(run=1, gpus=4, pods=1, gpus_per_pod=4)"
    await bed.until(lambda: bed.tj("train").get("progressPercent") == 25)
    await bed.until(lambda: (bed.tj("train").get("progress") or {}).get("throughput") == 812.5)


async def test_a_report_counts_only_from_a_pod_of_the_jobs_own_current_run(bed: Bed) -> None:
    operator = await _ground(bed)
    await bed.job("train", resizePolicy="Restart")
    await bed.job("other")
    await bed.running("train", "other")
    (former,), (foreign,) = bed.pods("train"), bed.pods("other")
    job = _uid(bed, "train")
    early = _token(bed, former, job)
    assert await _report(bed, operator, early, run=1, fraction=0.5) == (200, "")
    assert (await _report(bed, operator, _token(bed, foreign, job), run=1, fraction=0.9))[0] == 403
    gpus = {"min": 2, "preferred": 2, "max": 2}
    await bed.kube.merge_patch(TRAINING_JOBS.one("train", bed.namespace), {"spec": {"gpus": gpus}})
    await bed.until(lambda: bed.tj("train").get("gpus") == 2 and bed.state("train") == "Running")
    assert (await _report(bed, operator, early, run=1, fraction=0.9))[0] in (401, 403)
    (pod,) = (pod for pod in bed.pods("train") if pod["metadata"]["labels"]["charterer.dev/run"] == "2")
    assert await _report(bed, operator, _token(bed, pod, job), run=1, fraction=0.9) == (409, "RunIsOver")
    await bed.until(lambda: (bed.tj("train").get("progress") or {}).get("fraction") == 0.5)


# --- nothing for nothing ----------------------------------------------------------------------------------------------


@pytest.mark.repeats  # as the next test, with jobs
async def test_an_idle_cluster_is_not_written_to(bed: Bed) -> None:
    operator = await _ground(bed)
    await bed.until(lambda: bed.condition(bed.mirror.one(GPU_POOLS, "a100"), "Ready").get("reason") == "Available")
    await bed.until(
        lambda: bed.condition(bed.mirror.one(GPU_BUDGETS, "team"), "PriceDataFresh").get("status") == "True"
    )
    await _calm(bed)
    before = await _writes(operator)
    await _unchanged(bed, 10, _versions)
    assert await _writes(operator) == before


async def test_while_jobs_only_run_nothing_is_written_but_now_and_then_how_far_the_numbers_are(bed: Bed) -> None:
    operator = await _ground(bed)
    for name in ("one", "two"):
        await bed.job(name)
    await bed.running("one", "two")
    await _calm(bed)
    before = await _writes(operator)
    await _unchanged(bed, 20, _without_views)
    after = await _writes(operator)
    views = {"trainingjobs/status": 2, "gpubudgets/status": 1, "gpupools/status": 1}
    for what in after:
        assert after[what] - before.get(what, 0) <= (views.get(what[1], 0) if what[0] == "patch" else 0), what


async def test_a_job_that_ends_with_its_machine_is_as_many_writes_as_a_new_process_needs(bed: Bed) -> None:
    """The table of docs/development/adr/0001: nothing is written on what goes anyway."""
    operator = await _ground(bed)
    await bed.job("train")
    await bed.running("train")
    await _calm(bed)
    before = await _writes(operator)
    await bed.finish("train")
    await bed.complete("train")
    await bed.settle()
    await bed.until(lambda: not bed.rentals())
    written = {what: number - before.get(what, 0) for what, number in (await _writes(operator)).items()}
    assert written["patch", "nodes"] == written["delete", "nodes"] == 1
    assert written.get(("delete", "pods"), 0) == 0
    assert written["patch", "gpurentals/status"] == 3
    assert written["patch", "trainingjobs/status"] <= 3  # its cost may have become another number
    assert written["patch", "gpubudgets/status"] <= 4  # what the job and what the machine has cost, and what it shows


async def _writes(operator: OperatorProcess) -> dict[tuple[str, str], float]:
    """Writes so far, by verb and resource."""
    return {
        (dict(labels)["verb"], dict(labels)["resource"]): value
        for (name, labels), value in (await _metrics(operator)).items()
        if name == "charterer_api_writes_total"
    }


async def _calm(bed: Bed) -> None:
    """Until nothing has changed for two seconds."""
    for _ in range(20):
        try:
            return await _unchanged(bed, 2, _versions)
        except pytest.fail.Exception:
            continue
    pytest.fail("the cluster does not come to rest")


async def _unchanged(bed: Bed, seconds: float, look: Callable[[Bed], Mapping[str, str]]) -> None:
    """Fails as soon as something changes within that time."""
    before = look(bed)
    try:
        await bed.until(lambda: look(bed) != before, seconds)
    except AssertionError:
        return
    after = look(bed)
    pytest.fail(f"changed: {sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))}")


def _versions(bed: Bed) -> Mapping[str, str]:
    """The resourceVersion of every object of this test, but of nodes only what is not their kubelet's heartbeat."""
    return {
        f"{resource} {raw['metadata']['name']}": _placement(raw) if resource is NODES else _version(raw)
        for resource in WATCHED
        for raw in bed.mirror.all(resource, bed.namespace if resource.namespaced else None)
    }


def _version(raw: RawObject) -> str:
    return str(raw["metadata"]["resourceVersion"])


def _without_views(bed: Bed) -> Mapping[str, str]:
    """The same, but of objects with a view when each other manager last wrote to them."""
    shown = (TRAINING_JOBS, GPU_BUDGETS, GPU_POOLS)
    found = dict(_versions(bed))
    for resource in shown:
        for raw in bed.mirror.all(resource):
            others = [entry for entry in raw["metadata"]["managedFields"] if entry["manager"] != "charterer-status"]
            found[f"{resource} {raw['metadata']['name']}"] = json.dumps(
                [(entry["manager"], entry["time"]) for entry in others]
            )
    return found


def _placement(node: RawObject) -> str:
    return json.dumps([node["spec"], node["metadata"]["labels"]], sort_keys=True)
