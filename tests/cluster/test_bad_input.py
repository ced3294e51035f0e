"""What a user wrote wrong, as far as only the operator can see it: a condition says what to do, and others go on.

Every test has a good job beside the bad input, which runs to its end.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping
from contextlib import closing

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.paths import GPU_BUDGETS, GPU_POOLS, NAMESPACES, SPEEDUP_PROFILES, TRAINING_JOBS, Resource
from charterer.domain.time import parse_instant
from tests.cluster.test_stuck import BESIDE_NOBODY
from tests.testbed.bed import API, Bed, group


async def _ground(bed: Bed) -> None:
    """An operator, a pool and a budget."""
    bed.operator()
    await bed.pool()
    await bed.budget()


async def _a_good_job_completes(bed: Bed, name: str = "good", *, seconds: float = 30) -> None:
    await bed.job(name)
    await bed.running(name, seconds=seconds)
    await bed.finish(name)
    await bed.complete(name, seconds=seconds)


async def _told(
    bed: Bed, resource: Resource, name: str, kind: str, reason: str, status: str = "False", namespace: str | None = None
) -> str:
    """The message of an object's condition, once it has this status and reason."""
    where = (bed.namespace if namespace is None else namespace) if resource.namespaced else ""

    def look() -> Mapping[str, str]:
        found = bed.condition(bed.mirror.one(resource, name, where), kind)
        return found if (found.get("reason"), found.get("status")) == (reason, status) else {}

    return (await bed.until(look))["message"]


async def _admitted(bed: Bed, name: str, reason: str, status: str = "False", namespace: str | None = None) -> str:
    return await _told(bed, TRAINING_JOBS, name, "Admitted", reason, status, namespace)


async def _ready(bed: Bed, resource: Resource, name: str, reason: str, status: str = "False") -> str:
    return await _told(bed, resource, name, "Ready", reason, status)


def _container(**more: object) -> dict[str, object]:
    return {"name": "trainer", "image": "train:1", **more}


async def _job_of(bed: Bed, name: str, template: Mapping[str, object], **spec: object) -> None:
    await bed.create("TrainingJob", name, {"gpus": {"min": 4, "max": 4}, "template": template, **spec})


async def _edit(bed: Bed, name: str, spec: Mapping[str, object]) -> None:
    await bed.kube.merge_patch(TRAINING_JOBS.one(name, bed.namespace), {"spec": dict(spec)})


# --- templates --------------------------------------------------------------------------------------------------------


BAD_TEMPLATES: Mapping[str, tuple[Mapping[str, object], str]] = {
    "typo": ({"spec": {"containers": [_container()], "containres": []}}, "containres"),
    "value": ({"spec": {"containers": [_container(imagePullPolicy="Sometimes")]}}, "Sometimes"),
    "no-image": ({"spec": {"containers": [_container(image="")]}}, "image: Required"),
    "grace": ({"spec": {"containers": [_container()], "terminationGracePeriodSeconds": "soon"}}, "PeriodSeconds is 's"),
    "for-ever": ({"spec": {"containers": [_container()], "terminationGracePeriodSeconds": 2**62}}, "86400 (a day)"),
    "selector": ({"spec": {"containers": [_container()], "nodeSelector": "fast"}}, "nodeSelector"),
    "env": ({"spec": {"containers": [_container(env="DEBUG=1")]}}, "env"),
    "metadata": ({"metadata": ["oops"], "spec": {"containers": [_container()]}}, "metadata"),
    "two-trainers": (
        {"spec": {"containers": [_container(), _container(name="side", resources={"limits": {"nvidia.com/gpu": 4}})]}},
        "containers[1]",
    ),
}


async def test_templates_that_no_pod_could_have_are_refused_before_money_is_spent_on_them(bed: Bed) -> None:
    await _ground(bed)
    for name, (template, _) in BAD_TEMPLATES.items():
        await _job_of(bed, name, template)
    for name, (_, named) in BAD_TEMPLATES.items():
        message = await _admitted(bed, name, "InvalidTemplate")
        assert "spec.template" in message
        assert named in message
    await bed.until(lambda: {bed.state(name) for name in BAD_TEMPLATES} == {"Invalid"})
    assert not bed.rentals()
    await _a_good_job_completes(bed)
    assert await bed.launched() == 1


@pytest.mark.repeats  # as the next test
async def test_a_corrected_template_is_admitted_and_runs(bed: Bed) -> None:
    await _ground(bed)
    await _job_of(bed, "bad", {"spec": {"containers": [_container(imagePullPolicy="Sometimes")]}})
    await _admitted(bed, "bad", "InvalidTemplate")
    await _edit(bed, "bad", {"template": {"spec": {"containers": [_container()]}}})
    await bed.running("bad")
    await _admitted(bed, "bad", "Accepted", "True")


async def test_a_template_that_turns_bad_under_a_running_job_does_not_stop_the_run(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train", resizePolicy="Restart")
    await bed.running("train")
    broken = {"spec": {"containers": [_container(imagePullPolicy="Sometimes")]}}
    await _edit(bed, "train", {"template": broken, "gpus": {"min": 1, "preferred": 2, "max": 2}})
    await _admitted(bed, "train", "InvalidTemplate")
    await _told(bed, TRAINING_JOBS, "train", "TemplateCurrent", "TemplateChanged", "False")
    await _a_good_job_completes(bed)
    assert {pod["metadata"]["labels"]["charterer.dev/run"] for pod in bed.pods("train")} == {"1"}
    await _edit(bed, "train", {"template": {"spec": {"containers": [_container()]}}})
    await bed.until(lambda: bed.tj("train").get("gpus") == 2 and bed.state("train") == "Running")


@pytest.mark.repeats  # test_stuck.py
async def test_a_job_whose_pods_no_node_takes_is_withdrawn_and_says_so(bed: Bed) -> None:
    await _ground(bed)
    picky = {"spec": {"containers": [_container()], "affinity": BESIDE_NOBODY}}
    await _job_of(bed, "picky", picky, readyTimeoutSeconds=10)
    await bed.until(lambda: bed.tj("picky").get("runs"))
    assert bed.tj("picky")["runs"][0]["outcome"] == "NotStarted"
    assert "Unschedulable" in bed.tj("picky")["runs"][0]["message"]
    await _edit(bed, "picky", {"template": {"spec": {"affinity": None}}})
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


@pytest.mark.repeats  # tests/unit/api/test_decode_own.py; tests/unit/controller/status
async def test_a_profile_whose_curve_falls_is_not_used_and_both_it_and_its_job_say_why(bed: Bed) -> None:
    await _ground(bed)
    await _profile(bed, "falls", [(4, 100.0), (8, 90.0)])
    gpus = {"min": 4, "preferred": 8, "max": 8}
    await _job_of(bed, "train", {"spec": {"containers": [_container()]}}, profileName="falls", gpus=gpus)
    told = await _ready(bed, SPEEDUP_PROFILES, "falls", "CurveNotIncreasing")
    assert "spec.curves[0].throughput" in told
    assert "100 on 4 GPUs to 90 on 8" in told
    await bed.running("train")
    assert bed.tj("train")["gpus"] == 8
    assert "falls" in await _admitted(bed, "train", "CurveNotIncreasing", "True")
    await bed.finish("train")
    await bed.complete("train")


@pytest.mark.repeats  # tests/unit/controller/status/test_publisher.py
async def test_a_profile_that_does_not_exist_leaves_its_job_at_preferred_until_it_does(bed: Bed) -> None:
    await _ground(bed)
    gpus = {"min": 1, "preferred": 4, "max": 8}
    await _job_of(bed, "train", {"spec": {"containers": [_container()]}}, profileName="nowhere", gpus=gpus)
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


@pytest.mark.repeats  # test_selectors.py; the words: tests/scenarios
async def test_jobs_that_fit_nowhere_say_what_to_widen_and_rent_nothing(bed: Bed) -> None:
    await _ground(bed)
    await bed.until(lambda: bed.condition(bed.mirror.one(GPU_POOLS, "a100", ""), "Ready").get("status") == "True")
    await bed.job("type", gpus=3, gpuTypes=["NVIDIA-H100-80GB-HBM3"])
    await bed.job("many", gpus=44)
    await bed.job("odd", gpus=6)
    for name, asked, there in (
        ("type", "of type NVIDIA-H100", "pools have NVIDIA-A100"),
        ("many", "44 GPUs", "the largest pool is a100 with 40 GPUs"),
        ("odd", "6 GPUs", "widen spec.gpus"),
    ):
        message = await _told(bed, TRAINING_JOBS, name, "CapacityAvailable", "NoOption")
        assert asked in message
        assert there in message
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
        "spec": {"gpus": {"min": 4, "max": 4}, "template": {"spec": {"containers": [_container()]}}, **spec},
    }
    await bed.kube.post(TRAINING_JOBS.all(namespace), body)


def _state_in(bed: Bed, namespace: str, name: str) -> RawObject:
    raw = bed.mirror.one(TRAINING_JOBS, name, namespace)
    return {} if raw is None else raw.get("status") or {}


async def test_a_namespace_without_a_budget_queues_its_jobs_until_it_has_one(bed: Bed) -> None:
    await _ground(bed)
    town = await _town(bed, "poor")
    await _job_in(bed, town, "train")
    message = await _admitted(bed, "train", "NoBudget", namespace=town)
    assert f"no GPUBudget selects namespace {town}" in message
    await _a_good_job_completes(bed)
    await bed.budget("late", namespaceSelector={"matchLabels": {"town": town}})
    await bed.until(lambda: _state_in(bed, town, "train").get("state") == "Running")
    await bed.kube.delete(TRAINING_JOBS.one("train", town))


@pytest.mark.repeats  # tests/unit/controller/status; tests/scenarios
async def test_a_budget_of_nothing_runs_nothing_and_says_so(bed: Bed) -> None:
    await _ground(bed)
    town = await _town(bed, "broke")
    await bed.budget("nothing", amount="0", namespaceSelector={"matchLabels": {"town": town}})
    await _job_in(bed, town, "train")
    told = await _ready(bed, GPU_BUDGETS, "nothing", "ZeroAmount")
    assert "spec.amount" in told
    await bed.until(lambda: _state_in(bed, town, "train").get("why") == "WaitingForBudget")
    await _a_good_job_completes(bed)
    assert await bed.launched() == 1
    await bed.kube.delete(TRAINING_JOBS.one("train", town))


@pytest.mark.repeats  # tests/unit/api/test_decode_own.py
async def test_a_time_zone_that_only_the_api_server_knows_stops_one_budget_and_no_other(bed: Bed) -> None:
    await _ground(bed)
    town = await _town(bed, "odd")
    select = {"matchLabels": {"town": town}}
    await bed.budget("odd", timeZone="Europe//Berlin", namespaceSelector=select)
    await _job_in(bed, town, "train")
    told = await _ready(bed, GPU_BUDGETS, "odd", "UnknownTimeZone")
    assert "spec.timeZone" in told
    assert "'Europe//Berlin'" in told
    await _a_good_job_completes(bed)
    await bed.kube.merge_patch(GPU_BUDGETS.one("odd"), {"spec": {"timeZone": "Europe/Berlin"}})
    await bed.until(lambda: _state_in(bed, town, "train").get("state") == "Running")
    await bed.kube.delete(TRAINING_JOBS.one("train", town))


@pytest.mark.repeats  # tests/unit/controller/snapshot
async def test_of_two_budgets_that_select_a_namespace_the_oldest_pays(bed: Bed) -> None:
    bed.operator()
    await bed.pool()
    await bed.budget("zz-first")
    await _next_second(bed, "zz-first")
    await bed.budget("aa-second")
    await bed.job("train")
    await bed.running("train")
    assert [rental["spec"]["budget"] for rental in bed.rentals()] == ["zz-first"]
    await bed.finish("train")
    await bed.complete("train")


async def _next_second(bed: Bed, budget: str) -> None:
    """Creation times have whole seconds: let the one pass in which this budget was made."""
    made = (await bed.kube.get(GPU_BUDGETS.one(budget)))["metadata"]["creationTimestamp"]
    over = parse_instant(made) + 1_000_000
    await asyncio.sleep(max(over - time.time_ns() // 1_000, 0) / 1_000_000)


# --- pools and clouds -------------------------------------------------------------------------------------------------


async def test_pools_whose_group_or_cloud_is_not_there_say_so_and_others_serve(bed: Bed) -> None:
    await _ground(bed)
    with closing(socket.socket()) as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        await bed.pool("away", fake={"endpoint": f"http://{address}", "group": "away"})
        await bed.pool("ghost", fake={"endpoint": bed.cloud.url, "group": "ghost"})
        assert address in await _ready(bed, GPU_POOLS, "away", "Unreachable")
        assert "ghost" in await _ready(bed, GPU_POOLS, "ghost", "GroupNotFound")
        await _a_good_job_completes(bed)
    await bed.cloud.admin("PUT", "/groups/ghost", group("ghost"))
    await _ready(bed, GPU_POOLS, "ghost", "Available", "True")


async def test_a_cloud_that_never_answers_holds_up_no_other(bed: Bed) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        bed.operator()
        await bed.pool("mute", fake={"endpoint": endpoint, "group": "mute"})
        await bed.pool()
        await bed.budget()
        # Held up by it, each turn would take the 10 s after which a call is given up, and three are needed.
        await _a_good_job_completes(bed, seconds=25)
        assert "no answer within" in await _ready(bed, GPU_POOLS, "mute", "Transient")


async def test_a_cloud_that_goes_away_leaves_what_runs_alone_and_is_used_again_when_it_is_back(bed: Bed) -> None:
    await _ground(bed)
    await bed.job("train")
    await bed.running("train")
    await bed.cloud.kill()
    await _ready(bed, GPU_POOLS, "a100", "Unreachable")
    await bed.job("next")
    await bed.until(lambda: bed.state("next") == "Queued" and len(bed.rentals()) == 2)
    await bed.cloud.restart()
    await bed.running("next")
    await _ready(bed, GPU_POOLS, "a100", "Available", "True")
    assert bed.state("train") == "Running"
    assert (bed.run("train"), await bed.launched()) == (1, 2)
