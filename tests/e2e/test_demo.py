"""The demo on a real control plane: the replay as a stand-in for containers, and the whole of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from demo.kube import Access, Kube
from demo.pace import Pace
from demo.replay import JOBS, PODS, Replay
from demo.scenario import NAMESPACE, ReplayJob, Scenario
from demo.tables import T4, Application
from tests.cluster.crd_cases import install_crds
from tests.patience import OPERATORS_PATIENCE
from tests.testbed.controlplane import ControlPlane
from tests.testbed.gate import Gate, kubeconfig_through

pytestmark = pytest.mark.programs  # those without a cluster, too: the whole of the demo is no test for each change

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CRDS = ROOT / "crds"
DEMO = [sys.executable, "-m", "demo"]
LINEAR = Application("linear", 1, {T4: ((1, 3600.0), (16, 225.0))})
PACE = Pace(100)
REPLAY = pytest.mark.xdist_group("replay")
"""Tests that share the cluster below."""


@dataclass(frozen=True)
class OneJob(Scenario):
    """A scenario of one job that takes 300 s on four GPUs, submitted at once; 3 s here."""

    name: str = "job"

    @cached_property
    def jobs(self) -> tuple[ReplayJob, ...]:
        return (ReplayJob(self.name, LINEAR, 0.0, 300.0 * LINEAR.speedup(4), 4),)


def one_job(name: str) -> OneJob:
    return OneJob((0.0, 1.0), {}, PACE, name=name)


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """With the custom resources and the team's namespace, and a node for pods."""
    install_crds(control_plane)
    for kind in ("Namespace", "Node"):
        control_plane.kubectl("apply", "--server-side", "--filename=-", input=json.dumps(_base(kind)))
    yield control_plane
    control_plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    control_plane.kubectl("delete", "node", "demo-node")


def _base(kind: str) -> Json:
    metadata: Json = {"name": NAMESPACE}
    if kind == "Node":
        metadata = {
            "name": "demo-node",
            "labels": {"kubernetes.io/hostname": "demo-node"},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        }
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


def a_pod(job: str, run: int) -> Json:
    """A run's only pod, as the operator would have it made."""
    allocation = {"run": run, "gpus": 4, "pods": 1, "gpusPerPod": 4}
    labels = {"charterer.dev/job": job, "charterer.dev/job-uid": "0", "charterer.dev/run": str(run)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job}-r{run}-0",
            "labels": labels,
            "annotations": {"charterer.dev/allocation": json.dumps(allocation)},
        },
        "spec": {
            "nodeName": "demo-node",
            "restartPolicy": "Never",
            "containers": [{"name": "trainer", "image": "example.invalid/trainer"}],
        },
    }


@asynccontextmanager
async def replaying(kubeconfig: Path, name: str) -> AsyncIterator[Replay]:
    """A replay that is ended with the block."""
    async with Kube(Access.of(kubeconfig)) as kube:
        replay = Replay(kube, one_job(name))
        replay.jobs[name].gpu_types = {1: T4, 2: T4}  # what the operator would have written into the job's status
        task = asyncio.create_task(replay.run())
        try:
            yield replay
            async with asyncio.timeout(OPERATORS_PATIENCE):
                await task
        finally:
            task.cancel()


async def until(reached: Callable[[], bool]) -> None:
    """Looks again and again at a replay, which passes time by itself and tells nobody."""
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while not reached():  # noqa: ASYNC110 - a replay tells nobody
            await asyncio.sleep(0.02)


async def until_phase(kube: Kube, pod: str, phase: str) -> None:
    async with asyncio.timeout(OPERATORS_PATIENCE):
        async for pods in kube.watch(PODS, fieldSelector=f"metadata.name={pod}"):
            if any(each["status"].get("phase") == phase for each in pods.values()):
                return


async def until_gone(kube: Kube, pod: str) -> None:
    async with asyncio.timeout(OPERATORS_PATIENCE):
        async for pods in kube.watch(PODS, fieldSelector=f"metadata.name={pod}"):
            if not pods:
                return


async def until_submitted(kube: Kube, job: str) -> None:
    async with asyncio.timeout(OPERATORS_PATIENCE):
        async for jobs in kube.watch(JOBS, fieldSelector=f"metadata.name={job}"):
            if jobs:
                return


async def finish(kube: Kube, job: str) -> None:
    """Says what the operator says of a job whose pods have succeeded."""
    done = {"kind": "Complete", "at": "2026-01-01T00:00:00Z", "reason": "Completed"}
    await kube.merge_patch(f"{JOBS}/{job}/status", {"status": {"finish": done}})


@REPLAY
async def test_a_job_is_submitted_trained_while_its_pods_run_and_ended_when_its_work_is_done(
    cluster: ControlPlane,
) -> None:
    async with Kube(Access.of(cluster.kubeconfig)) as kube, replaying(cluster.kubeconfig, "whole") as replay:
        await until_submitted(kube, "whole")
        await kube.call("POST", PODS, a_pod("whole", 1))
        await until_phase(kube, "whole-r1-0", "Running")
        begun = replay.now
        await until_phase(kube, "whole-r1-0", "Succeeded")
        assert 200.0 < replay.now - begun < 600.0
        await finish(kube, "whole")
    job = replay.jobs["whole"]
    assert job.training.finished
    assert job.widths == [4]
    assert job.completed is not None


@REPLAY
async def test_a_stopped_run_goes_on_in_the_next_from_where_it_was(cluster: ControlPlane) -> None:
    async with Kube(Access.of(cluster.kubeconfig)) as kube, replaying(cluster.kubeconfig, "halved") as replay:
        await until_submitted(kube, "halved")
        await kube.call("POST", PODS, a_pod("halved", 1))
        await until_phase(kube, "halved-r1-0", "Running")
        job = replay.jobs["halved"]
        await until(lambda: job.training.fraction > 0.3)
        await kube.call("DELETE", f"{PODS}/halved-r1-0")
        await until_gone(kube, "halved-r1-0")
        await until(lambda: job.training.current is None)
        assert job.training.saved > 0.3 * job.training.work
        await kube.call("POST", PODS, a_pod("halved", 2))
        await until_phase(kube, "halved-r2-0", "Succeeded")
        await finish(kube, "halved")
    assert replay.jobs["halved"].widths == [4, 4]


@REPLAY
async def test_an_outage_of_the_api_server_is_waited_out(cluster: ControlPlane, tmp_path: Path) -> None:
    host, port = cluster.url.removeprefix("https://").split(":")
    with Gate(host, int(port)) as gate:
        through = tmp_path / "kubeconfig"
        kubeconfig_through(gate, cluster.kubeconfig, through)
        async with Kube(Access.of(cluster.kubeconfig)) as kube, replaying(through, "outage"):
            await until_submitted(kube, "outage")
            await kube.call("POST", PODS, a_pod("outage", 1))
            await until_phase(kube, "outage-r1-0", "Running")
            gate.close()
            await asyncio.sleep(1.0)
            gate.open()
            await until_phase(kube, "outage-r1-0", "Succeeded")
            await finish(kube, "outage")


@pytest.mark.timeout(900)
@pytest.mark.long
@pytest.mark.programs
def test_the_whole_demo_completes_all_jobs_and_its_ledger_equals_the_bill(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    done = subprocess.run([*DEMO, "--pace=60", f"--out={out}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert summary["completed"] == summary["jobs"] == 28
    assert summary["ledger_micros"] == summary["bill_micros"] > 0
    assert summary["reports"]["200"] > 0
    assert summary["narrowed"] > 0
    assert titled(out / "demo.png", summary["headline"])
    assert done.stdout.index("all columns are simulated") < done.stdout.index("starting a control plane")
    assert len(summary["rows"]) == 6
    today, same, run = (summary[name] for name in ("autoscaler", "same_money", "run"))
    assert same["mean_completion_seconds"] < today["mean_completion_seconds"]
    assert same["dollars"] <= today["dollars"] * 1.01
    assert run["dollars"] < today["dollars"]
    assert summary["headline"] in " ".join(done.stdout.split())


def titled(picture: Path, headline: str) -> bool:
    """Whether it is a picture of the demo with that headline."""
    with Image.open(picture) as image:
        return bool(image.info["Title"] == headline)


@pytest.fixture
def nothing_built(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine without the test bed's programs. Its Go does what ``tmp_path / "build"`` says."""
    programs = tmp_path / "bin"
    programs.mkdir()
    go = programs / "go"
    go.write_text(f'#!/bin/sh\nif [ "$1" = env ]; then echo go1.99.0; exit; fi\nexec sh {tmp_path / "build"}\n')
    go.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    cache = {"CHARTERER_CACHE_DIR": str(tmp_path / "cache"), "CHARTERER_FROM_SOURCE": "1"}
    return kept | cache | {"PATH": f"{programs}:/usr/bin:/bin"}


def test_where_the_build_fails_its_words_are_told_and_the_simulated_picture_stays(
    tmp_path: Path, nothing_built: dict[str, str]
) -> None:
    out = tmp_path / "demo"
    (tmp_path / "build").write_text("echo main.go:7: undefined: truth\nexit 1\n")
    command = [*DEMO, "--cloud=karpenter", f"--out={out}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=nothing_built)
    assert done.returncode == 1
    assert "a control plane is being fetched or built" in done.stdout
    assert "main.go:7: undefined: truth" in done.stdout
    assert titled(out / "demo.png", json.loads((out / "summary.json").read_text())["headline"])


def test_a_demo_that_is_interrupted_while_it_builds_leaves_no_compiler_behind(
    tmp_path: Path, nothing_built: dict[str, str]
) -> None:
    compiling = tmp_path / "compiling"
    (tmp_path / "build").write_text(f"sleep 600 & echo $! > {compiling}.new\nmv {compiling}.new {compiling}\nwait\n")
    command = [*DEMO, f"--out={tmp_path / 'demo'}"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=nothing_built, preexec_fn=_hear_interrupts
    ) as demo:
        deadline = time.monotonic() + OPERATORS_PATIENCE
        while not compiling.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        compiler = psutil.Process(int(compiling.read_text()))
        started = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGINT)
        assert demo.stdout is not None
        assert "Stopped; nothing is left running" in demo.stdout.read()
    assert demo.returncode == 130
    assert compiler in started
    assert not [process for process in started if running(process)]


def running(process: psutil.Process) -> bool:
    """Not so if it has ended and nobody has asked for its exit status."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def _hear_interrupts() -> None:
    """A shell without job control starts what it puts into the background, tests too, with interrupts ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.repeats  # as while it builds: the test above
@pytest.mark.timeout(900)
@pytest.mark.programs
def test_an_interrupted_demo_leaves_no_process_behind(tmp_path: Path) -> None:
    out = f"--out={tmp_path / 'demo'}"
    with subprocess.Popen(
        [*DEMO, out], cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=_hear_interrupts
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "starting the operator" in line:
                break
        started = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGINT)
        assert "Stopped; nothing is left running" in demo.stdout.read()
    assert demo.returncode == 130
    assert len(started) > 5
    assert not [process for process in started if running(process)]


def test_a_folder_with_other_things_in_it_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    done = subprocess.run([*DEMO, f"--out={tmp_path}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "choose another folder with --out" in done.stdout
    assert (tmp_path / "thesis.tex").exists()
