"""Softmax regression on scikit-learn's digits by PyTorch's DistributedDataParallel, under an unmodified torchrun.

A step sees the same samples at every width. It ends when the file ``enough`` is there. PAUSE: seconds of a step on one
pod, as if the samples were many.
"""

import os
import time
from pathlib import Path

import charterer_trainer
from tests.e2e.scripts.diary import note

FOLDER = Path(os.environ["CHECKPOINTS"])
BATCH, STEPS, PAUSE = 60, 100_000, 0.02
SAVE_EVERY, NOTE_EVERY = 100, 20
note("started")

with charterer_trainer.run():
    import numpy
    import torch
    from torch import distributed

    distributed.init_process_group("gloo")
    rank, width = distributed.get_rank(), distributed.get_world_size()
    note("imported")
    torch.set_num_threads(1)
    table = torch.from_numpy(numpy.loadtxt(os.environ["DIGITS"], delimiter=",", dtype=numpy.float32))
    pixels, labels = table[:, :64] / 16, table[:, 64].long()
    net = torch.nn.Linear(64, 10)
    torch.nn.init.zeros_(net.weight)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    step = 0
    if newest := charterer_trainer.latest_checkpoint(FOLDER, "step-*.pt"):
        state = torch.load(newest)
        net.load_state_dict(state["net"])
        step = state["step"]
    model = torch.nn.parallel.DistributedDataParallel(net)
    batches = charterer_trainer.Batches(len(table), BATCH, rank=rank, world=width)
    note("restored", step=step)
    first, stop, enough = step + 1, False, False
    while not (stop or enough):
        mine = batches.share(step)
        loss = torch.nn.functional.cross_entropy(model(pixels[mine]), labels[mine]) * batches.weight(mine)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step == first or step % NOTE_EVERY == 1:
            with torch.no_grad():
                whole = torch.nn.functional.cross_entropy(net(pixels), labels).item()
            note("trained", step=step, loss=whole, width=width)
        charterer_trainer.report(step=step, total_steps=STEPS)
        stop = charterer_trainer.should_stop(agree=charterer_trainer.any_rank)
        enough = charterer_trainer.any_rank((FOLDER / "enough").exists())
        if stop or enough:
            note("stop", step=step, width=width)
        if rank == 0 and (stop or step % SAVE_EVERY == 0):
            with charterer_trainer.save_atomically(FOLDER / f"step-{step:06}.pt") as path:
                torch.save({"net": net.state_dict(), "step": step}, path)
        time.sleep(PAUSE / width)
    if enough:
        charterer_trainer.report(fraction=1)
    note("end", step=step)
    if not stop:
        distributed.destroy_process_group()
