"""Torch's tensors between a notebook and its GPU's process, without a GPU: `torch_device` says what stands for it.

What only a GPU can show is the copy between its memory and the host's.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.testbed.frameworks import TORCH
from tests.unit.trainer.support import SOURCE

SCRIPT = """
import torch
from charterer_trainer.jupyter import devices
from charterer_trainer.jupyter.cells import cell_names
from charterer_trainer.jupyter.values import Values

def move(values, to, cell, stands_for=None):
    devices.torch_device = lambda home: stands_for
    for parcel in values.changed(cell_names(cell)).parcels:
        to.install(parcel)

def side(source=""):
    values = Values({"__name__": "__main__", "torch": torch})
    exec(source, values.namespace)
    return values

worker = side('''
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 4, bias=False))
model[1].weight = torch.nn.Parameter(model[0].weight.T.contiguous())
tied = model[0].weight
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
model(torch.ones(2, 4)).sum().backward()
optimizer.step()
base = torch.arange(6.0)
view = base.view(2, 3)[1]
half = torch.ones(3, dtype=torch.bfloat16)
empty = torch.zeros(0, 3)
''')
worker.touch(worker.names())
kernel = side()
for parcel in worker.changed().parcels:
    kernel.install(parcel)
ns = kernel.namespace
assert ns["tied"] is ns["model"][0].weight
assert ns["optimizer"].param_groups[0]["params"][0] is ns["tied"]
assert ns["tied"].grad is not None and type(ns["tied"]) is torch.nn.Parameter
for mine, theirs in zip(worker.namespace["optimizer"].state.values(), ns["optimizer"].state.values()):
    assert torch.equal(mine["exp_avg"], theirs["exp_avg"])
ns["base"][5] = 50
assert ns["view"].tolist() == [3, 4, 50], ns["view"]
assert ns["half"].dtype is torch.bfloat16 and ns["empty"].shape == (0, 3)
ns["model"](torch.ones(1, 4)).sum().backward()
ns["optimizer"].step()
kernel.touch({"half", "model"})
assert not [parcel.names for parcel in kernel.changed(cell_names("half")).parcels]
assert ("model" in kernel.changed(cell_names("model")).parcels[0].names)

# a tensor whose home is a GPU: in host memory here, back on the device where there is one
devices.torch_device = lambda home: None
storage = devices.torch_storage(bytes(8), "cuda:1")
marked = devices.torch_tensor(storage, torch.float32, 0, (2,), (1,), False, False, "cuda:1", None, {})
assert marked.device.type == "cpu"
asked = []
devices.torch_device = lambda home: asked.append(home) or "cpu"
kernel.namespace["marked"] = marked
(parcel,) = kernel.changed(cell_names("marked")).parcels
worker.install(parcel)
assert asked == ["cuda:1"], asked
print("fine")
"""


def test_modules_optimizers_views_gradients_and_homes_of_tensors_arrive() -> None:
    python = TORCH.find()
    if python is None:
        pytest.skip("torch has not been installed for tests: run `make training-torch`")
    environ = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([str(python), "-c", SCRIPT], env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
