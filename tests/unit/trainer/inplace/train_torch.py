"""A training script in PyTorch that is resized in place. Each rank writes which samples it saw in which step."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import torch

import charterer_trainer

FOLDER = Path(os.environ["FOLDER"])
CHECKPOINTS = FOLDER / "checkpoints"
BATCH, SAMPLES, WIDTH = 13, 130, int(os.environ.get("WIDTH", "16"))
FAIL_BY = os.environ.get("FAIL_BY", "")
STEPS, PAUSE = int(os.environ.get("STEPS", "1000000")), float(os.environ.get("PAUSE", "0.05"))


def batch_of(step: int) -> list[int]:
    """The samples of a step: every epoch has each sample once, in an order that depends on nothing else."""
    epoch, place = divmod(step, SAMPLES // BATCH)
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(epoch)).tolist()
    return list(order[place * BATCH : (place + 1) * BATCH])


def parts() -> dict[str, Any]:
    """Data, and a net with what trains it, at the start."""
    torch.manual_seed(0)
    x = torch.randn(SAMPLES, 8)
    net = torch.nn.Sequential(torch.nn.Linear(8, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, 3))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 50, 0.9)
    return {"x": x, "y": (x.sum(1) > 0).long(), "net": net, "optimizer": optimizer, "schedule": schedule}


def main() -> None:
    torch.set_num_threads(1)
    it = parts()
    net, optimizer, schedule = it["net"], it["optimizer"], it["schedule"]
    step = 0
    if found := charterer_trainer.latest_checkpoint(CHECKPOINTS):
        state = torch.load(found, weights_only=True)
        for name in ("net", "optimizer", "schedule"):
            it[name].load_state_dict(state[name])
        step = state["step"]

    def save(step: int) -> None:
        with charterer_trainer.save_atomically(CHECKPOINTS / f"step-{step}.pt") as path:
            torch.save({**{n: it[n].state_dict() for n in ("net", "optimizer", "schedule")}, "step": step}, path)

    def loss_of(model: Any, samples: list[int]) -> Any:
        return torch.nn.functional.cross_entropy(model(it["x"][samples]), it["y"][samples])

    if os.environ.get("NEVER_READY") == os.environ["JOB_COMPLETION_INDEX"]:
        time.sleep(600)
    index = os.environ["JOB_COMPLETION_INDEX"]
    seen = (FOLDER / f"seen-{index}").open("a", buffering=1)
    with charterer_trainer.run():
        job = charterer_trainer.elastic(
            net, optimizer, state={"schedule": schedule}, step=step, save=save,
            timeout=float(os.environ.get("TIMEOUT", "30")), patience=float(os.environ.get("PATIENCE", "30")),
            warm_up=lambda model: loss_of(model, [0, 1]).backward(),
        )  # fmt: skip
        while job.step < STEPS:
            before = job.step
            with job.attempt():
                samples = job.shard(batch_of(job.step))
                if f"{index}:{job.step}" == os.environ.get("FAIL_AT"):
                    raise {"value": ValueError, "shape": RuntimeError, "gloo": RuntimeError}[FAIL_BY](
                        f"my own {FAIL_BY}"
                    )
                loss = loss_of(job.model, samples) * job.weight(samples)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
            if job.step == before:  # a peer failed: the step is tried again
                continue
            files, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
            row = {
                "step": job.step,
                "at": time.time(),
                "cpu": time.process_time(),
                "generation": job.generation,
                "world": job.world,
                "samples": samples,
            }
            rss = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
            seen.write(
                json.dumps({**row, "files": files, "threads": threads, "rss": rss, "phases": job.standstill.phases})
                + "\n"
            )
            charterer_trainer.report(step=job.step)
            time.sleep(PAUSE)


if __name__ == "__main__":
    main()
