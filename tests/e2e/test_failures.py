"""What goes wrong with real containers and nodes, and what the operator makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from tests.e2e.support import REAL_NODES, SCRIPTS, Training, parts_pod
from tests.testbed.real_bed import RealBed
from tests.testbed.training_pods import TrainingPod, jax_pod

pytestmark = REAL_NODES


@pytest.mark.repeats  # tests/unit/api/test_decode_core.py; tests/cluster/test_faults.py
async def test_a_container_killed_for_its_memory_fails_the_job_and_says_so(real_bed: RealBed, tmp_path: Path) -> None:
    real_bed.operator()
    await real_bed.pool(maxNodes=1)
    await real_bed.budget()
    pod = TrainingPod(SCRIPTS / "greedy.py", tmp_path / "greedy", memory="48Mi")
    job = await Training.submit(real_bed, "greedy", pod, backoffLimit=0)
    (run,) = await job.ended_runs()
    assert run["outcome"] == "Failed"
    assert "OOMKilled" in run["message"]
    await real_bed.until(lambda: real_bed.state(job.name) == "Failed")


@pytest.mark.repeats  # tests/scenarios/policy/test_trouble.py; test_stuck.py
async def test_the_node_of_an_image_that_cannot_be_there_is_given_back_at_once(
    real_bed: RealBed, tmp_path: Path
) -> None:
    real_bed.operator()
    await real_bed.pool(maxNodes=1, readyTimeoutSeconds=600)
    await real_bed.budget()
    pod = TrainingPod(SCRIPTS / "plain.py", tmp_path / "absent", image="localhost/absent:1")
    job = await Training.submit(real_bed, "absent", pod)
    (run,) = await job.ended_runs()
    assert run["outcome"] == "NotStarted"
    assert "ErrImageNeverPull" in run["message"]
    await real_bed.until(lambda: all((raw.get("status") or {}).get("releasedAt") for raw in real_bed.rentals()))
    assert real_bed.state(job.name) != "Running"


@pytest.mark.repeats  # on simulated nodes: tests/cluster/test_rules_runs.py
async def test_a_job_that_does_not_hear_sigterm_is_killed_and_its_owner_told(real_bed: RealBed, tmp_path: Path) -> None:
    real_bed.operator()
    await real_bed.pool(maxNodes=1)
    await real_bed.budget()
    pod = TrainingPod(SCRIPTS / "stubborn.py", tmp_path / "stubborn", grace_seconds=2)
    job = await Training.submit(real_bed, "stubborn", pod)
    await job.noted("begun")
    await job.suspend()
    (run,) = await job.ended_runs()
    assert run["outcome"] == "Stopped"
    assert "killed" in run["message"]

    def warned() -> bool:
        said = real_bed.plane.kubectl("get", "events", "-n", real_bed.namespace, "-o", "json")
        return any(event["reason"] == "KilledAfterGrace" for event in json.loads(said)["items"])

    await job.until(warned)


@pytest.mark.repeats  # on simulated nodes: tests/cluster/test_faults.py, test_rules_runs.py
async def test_a_job_whose_node_is_switched_off_goes_on_elsewhere_though_the_peer_of_its_pod_failed(
    real_bed: RealBed, tmp_path: Path
) -> None:
    real_bed.operator()
    await real_bed.pool(maxNodes=3)
    await real_bed.budget()
    pod = parts_pod(tmp_path / "lost", SAVE_EVERY="5")
    job = await Training.submit(real_bed, "lost", pod, gpus=2, resizePolicy="Restart")
    await job.noted("saved", 3)
    lost = next(raw["spec"]["nodeName"] for raw in real_bed.pods("lost") if "-r1-0-" in raw["metadata"]["name"])
    await real_bed.switch_off(lost)
    saved = job.notes("saved")[-1]["step"]
    begins = await job.noted("restored", 2, run=2)
    assert {line["step"] for line in begins} <= {saved, saved + 5}
    nodes = {raw["spec"]["nodeName"] for raw in real_bed.pods("lost") if "-r2-" in raw["metadata"]["name"]}
    assert lost not in nodes
    job.enough()
    await real_bed.complete("lost")
    (run, _) = real_bed.tj("lost")["runs"]
    assert run["outcome"] == "Interrupted"
    assert real_bed.tj("lost").get("failures", 0) == 0


@pytest.mark.repeats  # tests/unit/trainer/test_damage.py; tests/cluster/test_faults.py
async def test_a_rank_that_is_killed_and_a_checkpoint_that_is_cut_off_cost_the_steps_since_the_one_before(
    real_bed: RealBed, tmp_path: Path, jax_python: Path
) -> None:
    real_bed.operator()
    await real_bed.pool(maxNodes=2)
    await real_bed.budget()
    pod = jax_pod(SCRIPTS / "regress.py", tmp_path / "killed", jax_python)
    job = await Training.submit(real_bed, "killed", pod, gpus=2, resizePolicy="Restart")
    await job.noted("saved", 2)
    _process_of("killed", 1).kill()
    (run,) = await job.ended_runs()
    assert run["outcome"] == "Failed"
    cut, before = sorted((line["step"] for line in job.notes("saved")), reverse=True)[:2]
    newest = job.folder / f"step-{cut:06}.npz"
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    begins = await job.noted("restored", 2, run=2)
    assert {line["step"] for line in begins} == {before}
    job.enough()
    await real_bed.complete("killed")


def _process_of(job: str, pod: int) -> psutil.Process:
    """The script's process in that pod of the job, as this machine sees it."""
    for process in psutil.process_iter(["cmdline"]):
        if any(word.endswith("regress.py") for word in process.info["cmdline"] or ()):
            about = process.environ()
            if (about.get("CHARTERER_JOB"), about.get("JOB_COMPLETION_INDEX")) == (job, str(pod)):
                return process
    raise AssertionError(f"no process of pod {pod} of {job}")
