"""PyTorch's DistributedDataParallel, under an unmodified ``torchrun train.py``."""

from __future__ import annotations

import torch
import torch.distributed as dist
from digits import BATCH, TRAINED_ON, arguments, load, result
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import charterer_trainer
from charterer_trainer.pytorch import measure_ddp

MOST = 30
"""Samples that fit into one pass of a GPU: one GPU takes two passes for a step, two and more take one."""


def main() -> None:
    """Train until all steps are done, or until asked to stop."""
    given = arguments()
    with charterer_trainer.run():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        rank, world = dist.get_rank(), dist.get_world_size()
        device = torch.device("cuda", rank % torch.cuda.device_count()) if torch.cuda.is_available() else "cpu"
        torch.set_num_threads(1)
        torch.manual_seed(given.seed)
        train, test = (TensorDataset(*map(torch.from_numpy, part)) for part in load())
        net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        step = 0
        if newest := charterer_trainer.latest_checkpoint(given.checkpoints, "step-*.pt"):
            state = torch.load(newest, map_location=device)
            net.load_state_dict(state["net"])
            optimizer.load_state_dict(state["optimizer"])
            step = state["step"]
        if rank == 0:
            print(f"begins at step {step} with {world} ranks", flush=True)
        model = torch.nn.parallel.DistributedDataParallel(net)
        measure_ddp(model, BATCH, charterer_trainer.GradientNoise(own_batch=BATCH))
        batches = charterer_trainer.Batches(TRAINED_ON, BATCH, rank=rank, world=world, most=MOST, seed=given.seed)
        loader = iter(charterer_trainer.loading(DataLoader(train, batch_sampler=batches.sampler(step, given.steps))))
        while step < given.steps:
            optimizer.zero_grad()
            for number in range(batches.passes):
                pixels, labels = (tensor.to(device) for tensor in next(loader))
                model.require_backward_grad_sync = number == batches.passes - 1
                loss = cross_entropy(model(pixels), labels) * batches.weight(labels)
                loss.backward()
            optimizer.step()
            step += 1
            charterer_trainer.report(step=step, total_steps=given.steps, batch=BATCH)
            stop = charterer_trainer.should_stop(agree=charterer_trainer.any_rank)
            if rank == 0 and (stop or step == given.steps or charterer_trainer.should_checkpoint()):
                with charterer_trainer.save_atomically(f"{given.checkpoints}/step-{step}.pt") as path:
                    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)
                charterer_trainer.remove_old_checkpoints(given.checkpoints, keep=2)
            if stop:
                return
        if rank == 0:
            with torch.no_grad():
                pixels, labels = (tensor.to(device) for tensor in train.tensors)
                loss = cross_entropy(net(pixels), labels).item()
                pixels, labels = (tensor.to(device) for tensor in test.tensors)
                accuracy = (net(pixels).argmax(1) == labels).float().mean().item()
            print(result(step, loss, accuracy), flush=True)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
