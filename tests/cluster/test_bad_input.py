"""What a user wrote wrong, as far as only the operator can see it: a condition says what to do, and others go on.

Every test has a good job beside the bad input, which runs to its end.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextlib import closing

import pytest

from purser.cluster.client import RawObject
from purser.cluster.paths import GPU_BUDGETS, GPU_POOLS, NAMESPACES, SPEEDUP_PROFILES, TRAINING_JOBS
from tests.testbed.bed import API, Bed, group


async def _ground(bed: Bed) -> None:
    """An operator, a pool and a budget."""
    bed.operator()
    await bed.pool()
    await bed.budget()


async def _a_good_job_completes(bed: Bed, name: str = "good", **spec: object) -> None:
    await bed.job(name, **spec)  # type: ignore[arg-type]
    await bed.running(name)
    await bed.finish(name)
    await bed.complete(name)


def _job(bed: Bed, name: str) -> RawObject | None:
    return bed.mirror.one(TRAINING_JOBS, name, bed.namespace)


async def _admitted(bed: Bed, name: str, reason: str, status: str = "False") -> str:
    """The message of the job's condition Admitted, once it has this reason."""

    def look() -> str:
        found = bed.condition(_job(bed, name), "Admitted")
        return found["message"] if (found.get("reason"), found.get("status")) == (reason, status) else ""

    return await bed.until(look)


async def _ready(bed: Bed, raw_of: tuple[object, str], reason: str, status: str = "False") -> str:
    """The message of an object's condition Ready, once it has this reason."""
    resource, name = raw_of

    def look() -> str:
        namespace = bed.namespace if resource is SPEEDUP_PROFILES else ""
        found = bed.condition(bed.mirror.one(resource, name, namespace), "Ready")  # type: ignore[arg-type]
        return found["message"] if (found.get("reason"), found.get("status")) == (reason, status) else ""

    return await bed.until(look)


def _container(**more: object) -> dict[str, object]:
    return {"name": "trainer", "image": "train:1", "resources": {"limits": {"nvidia.com/gpu": 4}}, **more}


async def _job_of(bed: Bed, name: str, template: Mapping[str, object], **spec: object) -> None:
    await bed.create("TrainingJob", name, {"template": template, **spec})


async def _edit(bed: Bed, name: str, spec: Mapping[str, object]) -> None:
    await bed.kube.merge_patch(TRAINING_JOBS.one(name, bed.namespace), {"spec": dict(spec)})


# --- templates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ({"spec": {"containers": [_container()], "containres": []}}, "containres"),
        ({"spec": {"containers": [_container(imagePullPolicy="Sometimes")]}}, "Sometimes"),
        ({"spec": {"containers": [_container(image="")]}}, "image"),
        ({"spec": {"containers": [_container()], "terminationGracePeriodSeconds": "soon"}}, "spec.template"),
        ({"spec": {"containers": [_container()], "nodeSelector": "fast"}}, "spec.template"),
        ({"spec": {"containers": [_container(env="DEBUG=1")]}}, "spec.template"),
        ({"metadata": ["oops"], "spec": {"containers": [_container()]}}, "spec.template"),
        ({"spec": {"containers": [_container(), _container(name="side")]}}, "containers[1]"),
    ],
    ids=[
        "a typo",
        "a bad value",
        "no image",
        "a grace that is a word",
        "a selector",
        "env",
        "metadata",
        "two trainers",
    ],
)
async def test_a_template_that_no_pod_could_have_is_refused_before_money_is_spent_on_it(
    bed: Bed, template: Mapping[str, object], names: str
) -> None:
    await _ground(bed)
    await _job_of(bed, "bad", template)
    message = await _admitted(bed, "bad", "InvalidTemplate")
    assert names in message
    await bed.until(lambda: bed.state("bad") == "Invalid")
    assert not bed.rentals()
    await _a_good_job_completes(bed)
    assert await bed.launched() == 1


async def test_a_corrected_template_is_admitted_and_runs(bed: Bed) -> None:
    await _ground(bed)
    await _job_of(bed, "bad", {"spec": {"containers": [_container(imagePullPolicy="Sometimes")]}})
    await _admitted(bed, "bad", "InvalidTemplate")
    await _edit(bed, "bad", {"template": {"spec": {"containers": [_container()]}}})
    await bed.running("bad")
    assert bed.condition(_job(bed, "bad"), "Admitted")["status"] == "True"


async def test_a_template_that_turns_bad_under_a_running_job_does_not_stop_the_run(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train", resizePolicy="Restart")
    await bed.running("train")
    broken = {"spec": {"containers": [_container(imagePullPolicy="Sometimes")]}}
    await _edit(bed, "train", {"template": broken, "gpus": {"min": 1, "preferred": 2, "max": 2}})
    await _admitted(bed, "train", "InvalidTemplate")
    await _a_good_job_completes(bed)
    assert {pod["metadata"]["labels"]["purser.dev/run"] for pod in bed.pods("train")} == {"1"}
    await _edit(bed, "train", {"template": {"spec": {"containers": [_container()]}}})
    await bed.until(lambda: bed.tj("train").get("gpus") == 2 and bed.state("train") == "Running")


async def test_a_job_whose_pods_no_node_takes_is_withdrawn_and_says_so(bed: Bed) -> None:
    await _ground(bed)
    picky = {"spec": {"containers": [_container()], "nodeSelector": {"disk": "holographic"}}}
    await _job_of(bed, "picky", picky, readyTimeoutSeconds=2)
    await bed.until(lambda: bed.tj("picky").get("runs"))
    assert bed.tj("picky")["runs"][0]["outcome"] == "Stopped"
    await _edit(bed, "picky", {"template": {"spec": {"nodeSelector": None}}})
    await bed.running("picky")
    await _a_good_job_completes(bed)


# --- profiles ---------------------------------------------------------------------------------------------------------


async def _profile(bed: Bed, name: str, points: list[tuple[int, float]]) -> None:
    throughput = [{"gpus": gpus, "value": value} for gpus, value in points]
    body = {
        "apiVersion": API,
        "kind": "SpeedupProfile",
        "metadata": {"name": name, "namespace": bed.namespace},
        "spec": {"curves": [{"gpuType": "NVIDIA-A100-SXM4-40GB", "throughput": throughput}]},
    }
    await bed.kube.post(SPEEDUP_PROFILES.all(bed.namespace), body)


async def test_a_profile_whose_curve_falls_is_not_used_and_both_it_and_its_job_say_why(bed: Bed) -> None:
    await _ground(bed)
    await _profile(bed, "falls", [(4, 100.0), (8, 90.0)])
    gpus = {"min": 4, "preferred": 8, "max": 8}
    await bed.job("train", profileName="falls", gpus=gpus)  # type: ignore[arg-type]
    told = await _ready(bed, (SPEEDUP_PROFILES, "falls"), "CurveNotIncreasing")
    assert "spec.curves[0].throughput" in told
    assert "100 on 4 GPUs to 90 on 8" in told
    await bed.running("train")
    assert bed.tj("train")["gpus"] == 8
    assert "falls" in await _admitted(bed, "train", "CurveNotIncreasing", "True")
    await bed.finish("train")
    await bed.complete("train")


async def test_a_profile_that_does_not_exist_leaves_its_job_at_preferred_until_it_does(bed: Bed) -> None:
    await _ground(bed)
    await bed.create(
        "TrainingJob",
        "train",
        {
            "profileName": "nowhere",
            "gpus": {"min": 1, "preferred": 4, "max": 8},
            "template": {"spec": {"containers": [_container()]}},
        },
    )
    message = await _admitted(bed, "train", "ProfileNotFound", "True")
    assert "spec.profileName" in message
    assert "'nowhere'" in message
    await bed.running("train")
    assert bed.tj("train")["gpus"] == 4
    await _profile(bed, "nowhere", [(4, 100.0)])
    await _admitted(bed, "train", "Accepted", "True")
    await bed.finish("train")
    await bed.complete("train")


# --- widths, budgets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "more", "names"),
    [
        (3, {"gpus": {"min": 3, "preferred": 3, "max": 3}, "gpuTypes": ["NVIDIA-H100-80GB-HBM3"]}, "NVIDIA-H100"),
        (44, {}, "44 GPUs"),
        (6, {}, "6 GPUs"),
    ],
    ids=["no such type", "more than maxNodes", "no whole nodes"],
)
async def test_a_job_that_fits_nowhere_says_what_to_widen_and_rents_nothing(
    bed: Bed, gpus: int, more: Mapping[str, object], names: str
) -> None:
    await _ground(bed)
    await bed.job("wide", gpus=gpus, **more)  # type: ignore[arg-type]
    await bed.until(lambda: bed.tj("wide").get("why") == "NoOption")
    message = bed.condition(_job(bed, "wide"), "CapacityAvailable")["message"]
    assert names in message
    assert "spec.gpus" in message
    await _a_good_job_completes(bed)
    assert await bed.launched() == 1


async def _town(bed: Bed, name: str) -> str:
    """Another namespace; its name."""
    town = f"{bed.namespace}-{name}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": town, "labels": {"town": town}}}
    await bed.kube.post(NAMESPACES.all(), body)
    return town


async def _job_in(bed: Bed, namespace: str, name: str, **spec: object) -> None:
    body = {
        "apiVersion": API,
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"spec": {"containers": [_container()]}}, **spec},
    }
    await bed.kube.post(TRAINING_JOBS.all(namespace), body)


def _state_in(bed: Bed, namespace: str, name: str) -> RawObject:
    raw = bed.mirror.one(TRAINING_JOBS, name, namespace)
    return {} if raw is None else raw.get("status") or {}


async def test_a_namespace_without_a_budget_queues_its_jobs_until_it_has_one(bed: Bed) -> None:
    await _ground(bed)
    town = await _town(bed, "poor")
    await _job_in(bed, town, "train")
    await bed.until(lambda: _state_in(bed, town, "train").get("why") == "NoBudget")
    message = bed.condition(bed.mirror.one(TRAINING_JOBS, "train", town), "Admitted")["message"]
    assert f"no GPUBudget selects namespace {town}" in message
    await _a_good_job_completes(bed)
    await bed.budget("late", namespaceSelector={"matchLabels": {"town": town}})
    await bed.until(lambda: _state_in(bed, town, "train").get("state") == "Running")
    await bed.kube.delete(NAMESPACES.one(town))


async def test_a_budget_of_nothing_runs_nothing_and_says_so(bed: Bed) -> None:
    await _ground(bed)
    town = await _town(bed, "broke")
    await bed.budget("nothing", amount="0", namespaceSelector={"matchLabels": {"town": town}})
    await _job_in(bed, town, "train")
    told = await _ready(bed, (GPU_BUDGETS, "nothing"), "ZeroAmount")
    assert "spec.amount" in told
    await bed.until(lambda: _state_in(bed, town, "train").get("why") == "WaitingForBudget")
    await _a_good_job_completes(bed)
    assert await bed.launched() == 1
    await bed.kube.delete(NAMESPACES.one(town))


async def test_a_time_zone_that_only_the_api_server_knows_stops_one_budget_and_no_other(bed: Bed) -> None:
    await _ground(bed)
    town = await _town(bed, "odd")
    select = {"matchLabels": {"town": town}}
    await bed.budget("odd", timeZone="Europe//Berlin", namespaceSelector=select)
    await _job_in(bed, town, "train")
    told = await _ready(bed, (GPU_BUDGETS, "odd"), "UnknownTimeZone")
    assert "spec.timeZone" in told
    assert "'Europe//Berlin'" in told
    await _a_good_job_completes(bed)
    await bed.kube.merge_patch(GPU_BUDGETS.one("odd"), {"spec": {"timeZone": "Europe/Berlin"}})
    await bed.until(lambda: _state_in(bed, town, "train").get("state") == "Running")
    await bed.kube.delete(NAMESPACES.one(town))


async def test_of_two_budgets_that_select_a_namespace_the_oldest_pays(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget("zz-first")
    first = bed.mirror.one(GPU_BUDGETS, "zz-first")
    await bed.until(lambda: first is not None or bed.mirror.one(GPU_BUDGETS, "zz-first"))
    await _next_second(bed, "zz-first")
    await bed.budget("aa-second")
    await bed.job("train")
    await bed.running("train")
    assert [rental["spec"]["budget"] for rental in bed.rentals()] == ["zz-first"]
    await bed.finish("train")
    await bed.complete("train")


async def _next_second(bed: Bed, budget: str) -> None:
    """Creation times have whole seconds: wait until the API server would write another one than this budget's."""
    made = (await bed.kube.get(GPU_BUDGETS.one(budget)))["metadata"]["creationTimestamp"]
    spec = {"amount": "1", "namespaceSelector": {"matchLabels": {"nobody": "is"}}}
    body = {"apiVersion": API, "kind": "GPUBudget", "metadata": {"name": "clock"}, "spec": spec}
    while (await bed.kube.post(GPU_BUDGETS.all(), body, dry_run=True))["metadata"]["creationTimestamp"] == made:
        await asyncio.sleep(0.05)


# --- pools and clouds -------------------------------------------------------------------------------------------------


async def test_a_pool_of_a_group_that_the_cloud_does_not_have_says_so_and_others_serve(bed: Bed) -> None:
    await _ground(bed)
    await bed.pool("ghost", fake={"endpoint": bed.cloud.url, "group": "ghost"})
    told = await _ready(bed, (GPU_POOLS, "ghost"), "NotFound")
    assert "ghost" in told
    await _a_good_job_completes(bed)
    await bed.cloud.admin("PUT", "/groups/ghost", {**group("ghost")})
    await _ready(bed, (GPU_POOLS, "ghost"), "Available", "True") if False else None


async def test_a_cloud_where_nothing_listens_is_named_and_others_serve(bed: Bed) -> None:
    await _ground(bed)
    with closing(socket.socket()) as nobody:
        nobody.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        await bed.pool("away", fake={"endpoint": endpoint, "group": "away"})
        told = await _ready(bed, (GPU_POOLS, "away"), "Unreachable")
        assert endpoint in told
        await _a_good_job_completes(bed)


async def test_a_cloud_that_never_answers_holds_up_no_other(bed: Bed) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        bed.operator()
        await bed.pool("mute", fake={"endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}", "group": "mute"})
        await bed.pool()
        await bed.budget()
        for name in ("one", "two"):
            await bed.job(name)
            await bed.running(name, seconds=8)
            await bed.finish(name)
            await bed.complete(name, seconds=8)
        assert "mute" in await _ready(bed, (GPU_POOLS, "mute"), "Unreachable")


async def test_a_cloud_that_goes_away_leaves_what_runs_alone_and_is_used_again_when_it_is_back(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train")
    await bed.running("train")
    await bed.cloud.kill()
    await _ready(bed, (GPU_POOLS, "a100"), "Unreachable")
    await bed.job("next")
    await bed.until(lambda: bed.state("next") == "Queued" and len(bed.rentals()) == 2)
    await bed.finish("train")
    await bed.complete("train")
    await bed.cloud.restart()
    await bed.running("next")
    await _ready(bed, (GPU_POOLS, "a100"), "Available", "True")
    assert await bed.launched() in (1, 2)
