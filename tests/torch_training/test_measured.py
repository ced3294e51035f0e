"""What is measured in PyTorch: gradient noise between ranks and between passes, and the waiting for other ranks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.resizes import interpreter
from tests.testbed import ports
from tests.testbed.build import ROOT
from tests.testbed.frameworks import TORCH_TRAINERS

pytestmark = pytest.mark.timeout(1000)  # a minute on a machine without other work

MODEL = """
import sys
import torch
from torch import distributed as dist
import charterer_trainer
from charterer_trainer import pytorch

steps, batch = 2000, 64
torch.set_num_threads(1)
torch.manual_seed(5)
net = torch.nn.Sequential(torch.nn.Linear(30, 1, bias=False), torch.nn.Linear(1, 1, bias=False))
net[1].weight.data.fill_(1.0)
inner, outer = net[0].weight.detach()[0].clone(), 1.0
noise = charterer_trainer.GradientNoise(own_batch=128, every=1, share=1e6)

def drawn(count, generator):
    return torch.randn(count, 30, generator=generator), 2 * torch.randn(count, 1, generator=generator)

def truth():
    # The gradient of each of many samples, by hand: of the inner weights, and of the outer one.
    x, y = drawn(400_000, torch.Generator().manual_seed(99))
    error = 2 * (x @ inner - y[:, 0])
    each = torch.cat([error[:, None] * x, (error * (x @ inner))[:, None]], 1)
    mean = each.mean(0)
    return float((mean**2).sum()), float(((each - mean) ** 2).sum(1).mean()) / 128
"""

RANKS = (
    MODEL
    + """
waited = []
pytorch.spent = lambda part, seconds: waited.append((part, seconds))
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1e-5)
measured = pytorch.measure_ddp(model, batch, noise)
generator = torch.Generator().manual_seed(rank)
for step in range(steps + 1):
    x, y = drawn(batch // world, generator)
    net.zero_grad()
    ((model(x) - y) ** 2).mean().backward()
if rank == 0:
    assert {part for part, _ in waited} == {"sync"} and len(waited) == steps + 1, waited[:3]
    assert all(seconds > 0 for _, seconds in waited)
    print(noise.measured, noise.sqr, noise.var, *truth())
dist.destroy_process_group()
"""
)

PASSES = (
    MODEL
    + """
batches = charterer_trainer.Batches(10**6, batch, most=27, order=lambda epoch: range(10**6))
passes = pytorch.PassNoise(net.parameters(), noise, batch)
generator = torch.Generator().manual_seed(1)
assert batches.passes == 3
for step in range(steps):
    net.zero_grad()
    for number, part in enumerate(batches.parts(step)):
        x, y = drawn(len(part), generator)
        (((net(x) - y) ** 2).mean() * batches.weight(part)).backward()
        passes.passed(step, len(part), last=number == batches.passes - 1)
print(noise.measured, noise.sqr, noise.var, *truth())
"""
)

SELDOM = """
import time
import torch
from torch import distributed as dist
import charterer_trainer
from charterer_trainer import pytorch

took = []
measure = pytorch.squared_norm
def timed(tensors):
    begin = time.perf_counter()
    norm = measure(tensors)
    took.append(time.perf_counter() - begin)
    return norm
pytorch.squared_norm = timed

torch.set_num_threads(1)
dist.init_process_group("gloo")
noise = charterer_trainer.GradientNoise(own_batch=64, every=2, share=0.02)
net = torch.nn.Linear(500, 500)
model = torch.nn.parallel.DistributedDataParallel(net)
pytorch.measure_ddp(model, 64, noise)
begin = time.perf_counter()
for step in range(300):
    net.zero_grad()
    model(torch.randn(32, 500)).square().mean().backward()
    if step == 3:
        took.clear()
        begin = time.perf_counter()
share = sum(took) / (time.perf_counter() - begin)
everybody = [None, None]
dist.all_gather_object(everybody, (noise.measured, share))
if dist.get_rank() == 0:
    print(*(number for each in everybody for number in each))
dist.destroy_process_group()
"""


def ran(script: str, folder: Path, world: int) -> list[float]:
    """The numbers that the ranks print."""
    file = folder / "script.py"
    file.write_text(script)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}/trainer/src", "OMP_NUM_THREADS": "1"}
    environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports.reserve()), "WORLD_SIZE": str(world)}
    python = interpreter(TORCH_TRAINERS)
    ranks = [
        subprocess.Popen([python, file], env={**environ, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(world)
    ]
    outputs = [rank.communicate(timeout=900)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * world
    return [float(number) for number in "".join(outputs).split()]


@pytest.mark.parametrize(("script", "world", "times"), [(RANKS, 2, 2001), (PASSES, 1, 2000)], ids=["ranks", "passes"])
def test_the_mean_of_many_steps_is_the_truth(script: str, world: int, times: int, tmp_path: Path) -> None:
    measured, sqr, var, true_sqr, true_var = ran(script, tmp_path, world)
    assert times - 1 <= measured <= times, "the last step's numbers are read at the next"
    assert var == pytest.approx(true_var, rel=0.03)
    assert sqr == pytest.approx(true_sqr, rel=0.15)


def test_ranks_agree_on_how_seldom_they_measure_and_it_costs_what_it_may(tmp_path: Path) -> None:
    first, share, second, other_share = ran(SELDOM, tmp_path, 2)
    assert first == second
    assert 5 < first < 150, "each second step would be 150"
    assert min(share, other_share) < 0.03
