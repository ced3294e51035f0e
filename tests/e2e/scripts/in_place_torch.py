"""Softmax regression on scikit-learn's digits in PyTorch, resized in place, with one process in each pod.

A step sees the same samples at every width. It ends when the file ``enough`` is there. PAUSE: seconds of a step.
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy
import torch

import charterer_trainer
from tests.e2e.scripts.diary import note

FOLDER = Path(os.environ["CHECKPOINTS"])
BATCH, STEPS, PAUSE = 60, 100_000, 0.02

with charterer_trainer.run():
    torch.set_num_threads(1)
    table = torch.from_numpy(numpy.loadtxt(os.environ["DIGITS"], delimiter=",", dtype=numpy.float32))
    pixels, labels = table[:, :64] / 16, table[:, 64].long()
    net = torch.nn.Linear(64, 10)
    torch.nn.init.zeros_(net.weight)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    batches = charterer_trainer.Batches(len(table), BATCH)
    step = 0
    if newest := charterer_trainer.latest_checkpoint(FOLDER, "step-*.pt"):
        state = torch.load(newest)
        net.load_state_dict(state["net"])
        step = state["step"]
    note("begun", step=step, pid=os.getpid())

    def save(step: int) -> None:
        with charterer_trainer.save_atomically(FOLDER / f"step-{step:06}.pt") as path:
            torch.save({"net": net.state_dict(), "step": step}, path)

    def loss_of(model: Any, samples: list[int]) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(pixels[samples]), labels[samples])

    job = charterer_trainer.elastic(
        net, optimizer, step=step, save=save, warm_up=lambda model: loss_of(model, [0, 1]).backward()
    )
    last = 0
    while job.step < STEPS and not (FOLDER / "enough").exists():
        before = job.step
        with job.attempt():
            mine = job.shard(batches.of(job.step))
            loss = loss_of(job.model, mine) * job.weight(mine)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if job.step > before and (job.generation != last or job.step % 20 == 0):
            phases = job.standstill.phases if job.generation != last else {}
            with torch.no_grad():
                whole = torch.nn.functional.cross_entropy(net(pixels), labels).item()
            note("trained", step=job.step, loss=whole, width=job.world, generation=job.generation, phases=phases)
            last = job.generation
        charterer_trainer.report(step=job.step, total_steps=STEPS)
        time.sleep(PAUSE)
    charterer_trainer.report(fraction=1)
    note("end", step=job.step)
