"""A notebook in a real Jupyter server, whose cells get their GPU from the operator in a container on a real node."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from charterer.cluster.paths import TRAINING_JOBS
from tests.cluster.notebooks import Notebooks, notebooks
from tests.e2e.support import REAL_NODES, SCRIPTS
from tests.testbed.frameworks import JAX
from tests.testbed.real_bed import RealBed
from tests.testbed.training_pods import TrainingPod

pytestmark = REAL_NODES
_LONG = 3600
"""Seconds for which a GPU that is not used is held, while a test is not done with it."""
_JOB, _KEYS, _PORT = "notebook-gpu", "/var/run/secrets/notebook-gpu", 8786


def _worker(python: Path, folder: Path) -> Mapping[str, Any]:
    """The example's pod template, with this machine's interpreter."""
    base = JAX.directory  # Jupyter's environment has its packages from there
    spec = TrainingPod(SCRIPTS / "plain.py", folder, python, files={str(base): base}).template()["spec"]
    container = {**spec["containers"][0], "command": [str(python), "-m", "charterer_trainer.jupyter.worker"]}
    container["volumeMounts"] = [*container["volumeMounts"], {"name": "keys", "mountPath": _KEYS, "readOnly": True}]
    keys = {"name": "keys", "secret": {"secretName": _JOB}}
    return {"spec": {**spec, "containers": [container], "volumes": [*spec["volumes"], keys]}}


@contextmanager
def _forwarded(bed: RealBed, run: int, port: int) -> Iterator[None]:
    """The port of the worker's pod is on this machine, as for a notebook outside the cluster.

    kubectl ends its forward when the pod refuses a connection, as the worker does until it listens; it begins again.
    """
    (pod,) = [each for each in bed.pods(_JOB) if each["metadata"]["name"].startswith(f"{_JOB}-r{run}-")]
    name, ports = pod["metadata"]["name"], f"{port}:{_PORT}"
    kubectl = [str(bed.plane.binaries.kubectl), f"--kubeconfig={bed.plane.kubeconfig}", "-n", bed.namespace]
    command = shlex.join([*kubectl, "port-forward", name, ports])
    with subprocess.Popen(
        ["sh", "-c", f"while ! {command}; do sleep 0.2; done"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as forward:
        try:
            yield
        finally:
            os.killpg(forward.pid, signal.SIGKILL)


async def test_cells_get_a_gpu_and_their_values_come_home_when_it_goes_back(
    real_bed: RealBed, tmp_path: Path, jupyter_python: Path
) -> None:
    real_bed.operator()
    await real_bed.pool(maxNodes=1)
    await real_bed.budget()
    (tmp_path / "worker").mkdir()
    spec = {"template": _worker(jupyter_python, tmp_path / "worker"), "interactive": {"idleSeconds": _LONG}}
    server: Notebooks
    async with notebooks(real_bed.plane, jupyter_python, tmp_path, real_bed.namespace, **spec) as server:
        keys = (f"--cert={server.keys}/tls.crt", f"--key={server.keys}/tls.key")
        await asyncio.to_thread(
            real_bed.plane.kubectl, "create", "secret", "tls", _JOB, "-n", real_bed.namespace, *keys
        )
        await real_bed.until(lambda: real_bed.state(_JOB) == "Idle")
        assert real_bed.rentals() == []
        async with server.kernel() as (front, port):
            await front.run("counts = [1]")
            for run in (1, 2):
                cell = await front.send("%%gpu\ncounts.append(len(counts) + 1)\nimport os; os.environ['CHARTERER_RUN']")
                await real_bed.running(_JOB, seconds=240)
                with _forwarded(real_bed, run, port):
                    assert (await cell.done()).text.endswith(f"'{run}'"), cell.text
                    assert cell.shown[0].startswith("Waiting for a GPU: ")
                    await _holds(real_bed, 1)
                    await real_bed.until(partial(_is_answered, real_bed, run))
                    assert (await front.run("print(counts)")).text == f"{[*range(1, run + 2)]}\n"
                await real_bed.until(lambda: real_bed.state(_JOB) == "Idle")
                await _holds(real_bed, _LONG)
        runs = real_bed.tj(_JOB)["runs"]
        assert [(each["outcome"], each["number"]) for each in runs] == [("Stopped", 1), ("Stopped", 2)]
        assert _sessions(real_bed)["startSeconds"] > 0
        await real_bed.until(lambda: not real_bed.rentals("Ready"))


def _sessions(bed: RealBed) -> Mapping[str, Any]:
    found: Mapping[str, Any] = bed.tj(_JOB).get("interactive") or {}
    return found


async def _holds(bed: RealBed, seconds: float) -> None:
    """The job's owner wants a GPU that is not used to be held for so long."""
    change = {"spec": {"interactive": {"idleSeconds": seconds}}}
    await bed.kube.merge_patch(TRAINING_JOBS.one(_JOB, bed.namespace), change)


def _is_answered(bed: RealBed, ask: int) -> bool:
    """Whether that ask is answered: its GPU is given back."""
    return _sessions(bed).get("answered") == ask
