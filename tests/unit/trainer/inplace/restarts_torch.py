"""The same training by restarts from checkpoints; fails where a resized job's last checkpoint is another.

PLAN is ``FROM:WIDTH,FROM:WIDTH,...,END``. Every part makes all objects anew, from the checkpoint that the part before
has left, by torch.distributed alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from train_torch import batch_of, parts  # type: ignore[import-not-found]  # its folder is this one


def train(folder: Path, rank: int, world: int, first: int, last: int) -> None:
    it = parts()
    names = ("net", "optimizer", "schedule")
    if first:
        state = torch.load(folder / f"restart-{first}.pt", weights_only=True)
        for name in names:
            it[name].load_state_dict(state[name])
    model = torch.nn.parallel.DistributedDataParallel(it["net"])
    for step in range(first, last):
        samples = batch_of(step)[rank::world]
        loss = torch.nn.functional.cross_entropy(model(it["x"][samples]), it["y"][samples])
        it["optimizer"].zero_grad()
        (loss * (len(samples) * world / len(batch_of(step)))).backward()
        it["optimizer"].step()
        it["schedule"].step()
    if rank == 0:
        torch.save({name: it[name].state_dict() for name in names}, folder / f"restart-{last}.pt")


def same(one: Any, other: Any) -> bool:
    """Whether two states are equal bit by bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(torch.equal(one, other)) if isinstance(one, torch.Tensor) else bool(one == other)


def main() -> None:
    folder, rank = Path(os.environ["FOLDER"]), int(os.environ["JOB_COMPLETION_INDEX"])
    *starts, end = os.environ["PLAN"].split(",")
    cuts = [tuple(map(int, start.split(":"))) for start in starts]
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", int(os.environ["PORT"]), None, rank == 0, wait_for_workers=False)
    for number, (first, world) in enumerate(cuts):
        last = cuts[number + 1][0] if number + 1 < len(cuts) else int(end)
        if rank < world:
            dist.init_process_group("gloo", store=dist.PrefixStore(str(first), store), rank=rank, world_size=world)
            train(folder, rank, world, first, last)
            dist.barrier()
            dist.destroy_process_group()
        store.set(f"left {first} {rank}", "")
        store.wait([f"left {first} {other}" for other in range(3)])
    if rank:
        store.set(f"gone {rank}", "")
        return
    store.wait(["gone 1", "gone 2"])
    files = (folder / f"restart-{end}.pt", folder / "checkpoints" / f"step-{end}.pt")
    restarted, resized = (torch.load(file, weights_only=True) for file in files)
    for name, part in restarted.items():
        assert same(part, resized[name]), (name, part, resized[name])


if __name__ == "__main__":
    main()
