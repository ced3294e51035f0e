"""Hugging Face's Trainer reports by its own callback to the operator's endpoint: the script imports nothing of ours.

`make test-torch` runs this; `make test` does not.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from charterer.api import decode
from charterer.workloads import INDEXED_JOB, RunEnvironment
from tests.resizes import interpreter
from tests.testbed.frameworks import TORCH_TRAINERS
from tests.unit.api import values
from tests.unit.server.support import JOB
from tests.unit.trainer.support import SECONDS, Operator, operator

STEPS = 6
SCRIPT = f"""
import torch
from transformers import Trainer, TrainingArguments
from transformers.integrations.integration_utils import KubeflowCallback

KubeflowCallback._MIN_UPDATE_INTERVAL = 0.0  # its five seconds are longer than this training

class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Linear(1, 1)

    def forward(self, x, labels):
        return {{"loss": ((self.slope(x) - labels) ** 2).mean()}}

samples = [{{"x": torch.tensor([float(n)]), "labels": torch.tensor([2.0 * n])}} for n in range(16)]
arguments = TrainingArguments("out", max_steps={STEPS}, logging_steps=1, save_strategy="no", use_cpu=True)
Trainer(Line(), arguments, train_dataset=samples).train()
"""


def kubeflow_variables(told: Operator, folder: Path) -> dict[str, str]:
    """The variables that a run's pods get, as the kubelet gives them to the pod of index 0, with files of this test."""
    environment = RunEnvironment(told.environ["CHARTERER_PROGRESS_URL"], told.environ["CHARTERER_CA"])
    raw = values.raw_job()
    template = INDEXED_JOB.manifest(decode.training_job(raw).job, raw, values.allocation(), environment)["spec"][
        "template"
    ]
    (folder / "ca.crt").write_text(template["metadata"]["annotations"]["charterer.dev/ca"])
    variables = {variable["name"]: str(variable.get("value")) for variable in template["spec"]["containers"][0]["env"]}
    mount = template["spec"]["containers"][0]["volumeMounts"][0]["mountPath"]
    return {
        name: value.replace("$(PET_NODE_RANK)", "0").replace(mount, str(folder))
        for name, value in variables.items()
        if name.startswith("KUBEFLOW_")
    }


async def test_a_script_of_transformers_alone_reports_its_steps(tmp_path: Path) -> None:
    python = interpreter(TORCH_TRAINERS)
    async with operator(tmp_path) as told:
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **kubeflow_variables(told, tmp_path)}
        process = await asyncio.create_subprocess_exec(
            python, "-c", SCRIPT, env=environ, cwd=tmp_path, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(5 * SECONDS):
            _, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
    said = [(report.step, report.total_steps) for report in told.adviser.heard if report.step is not None]
    assert said == [(step, STEPS) for step in range(1, STEPS + 1)]
    latest = told.board.latest(JOB)
    assert latest is not None
    assert (latest.step, latest.fraction) == (STEPS, 1.0)
