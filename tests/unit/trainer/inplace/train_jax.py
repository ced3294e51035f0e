"""A training script in JAX that is resized in place. Each rank writes which samples it saw in which step."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy

import charterer_trainer
from charterer_trainer.inplace import in_jax

FOLDER = Path(os.environ["FOLDER"])
CHECKPOINTS = FOLDER / "checkpoints"
BATCH, SAMPLES = 13, 130
STEPS, PAUSE = int(os.environ.get("STEPS", "1000000")), float(os.environ.get("PAUSE", "0.05"))


def batch_of(step: int) -> Any:
    """The samples of a step: every epoch has each sample once, in an order that depends on nothing else."""
    epoch, place = divmod(step, SAMPLES // BATCH)
    return numpy.random.default_rng(epoch).permutation(SAMPLES)[place * BATCH : (place + 1) * BATCH]


def forward(p: Any, x: Any) -> Any:
    return jnp.tanh(x @ p["in"]) @ p["out"]


def loss_of(p: Any, x: Any, y: Any, weights: Any) -> Any:
    losses = -jnp.take_along_axis(jax.nn.log_softmax(forward(p, x)), y[:, None], 1)[:, 0]
    return (losses * weights).sum()


def update(state: Any, x: Any, y: Any, weights: Any) -> Any:
    loss, slope = jax.value_and_grad(loss_of)(state["params"], x, y, weights)
    speed = jax.tree.map(lambda v, g: 0.9 * v + g, state["speed"], slope)
    return {"params": jax.tree.map(lambda p, v: p - 0.05 * v, state["params"], speed), "speed": speed}, loss


def main() -> None:
    in_jax.MOST_CHANGES = int(os.environ.get("MOST_CHANGES", "20"))
    rng = numpy.random.default_rng(0)
    x = rng.normal(size=(SAMPLES, 8)).astype("f")
    y = (x.sum(1) > 0).astype(numpy.int32)
    params = {"in": rng.normal(size=(8, 16)).astype("f"), "out": rng.normal(size=(16, 2)).astype("f")}
    state: Any = {"params": params, "speed": {name: numpy.zeros_like(value) for name, value in params.items()}}
    step = 0
    if found := charterer_trainer.latest_checkpoint(CHECKPOINTS):
        with numpy.load(found) as kept:
            state = {part: {name: kept[f"{part}.{name}"] for name in params} for part in state}
            step = int(kept["step"])
    index = os.environ["JOB_COMPLETION_INDEX"]
    seen = (FOLDER / f"seen-{index}").open("a", buffering=1)
    with charterer_trainer.run():

        def save(step: int) -> None:
            flat: dict[str, Any] = {
                f"{part}.{name}": numpy.asarray(leaf) for part, tree in job.state.items() for name, leaf in tree.items()
            }
            with charterer_trainer.save_atomically(CHECKPOINTS / f"step-{step}.npz") as path:
                numpy.savez(path, **flat, step=numpy.array(step))

        job = charterer_trainer.elastic_jax(
            state, step=step, save=save, cache=os.environ.get("CACHE"),
            timeout=float(os.environ.get("TIMEOUT", "60")), patience=float(os.environ.get("PATIENCE", "30")),
            warm_up=lambda: jax.jit(update)(state, x[:2], y[:2], x[:2, 0])[1].block_until_ready(),
        )  # fmt: skip
        compiled: Any = None

        @job.on_resize
        def compile_again() -> None:
            nonlocal compiled
            compiled = jax.jit(update, out_shardings=job.replicated)

        while job.step < STEPS:
            with job.attempt():
                samples = job.shard(batch_of(job.step))
                weights = job.weight(samples)
                if f"{index}:{job.step}" == os.environ.get("FAIL_AT"):
                    raise ValueError("my own")
                job.state, loss = compiled(
                    job.state, job.spread(x[samples]), job.spread(y[samples]), job.spread(weights)
                )
                value = float(loss)
            row = {
                "step": job.step,
                "at": time.time(),
                "cpu": time.process_time(),
                "generation": job.generation,
                "world": job.world,
                "loss": value,
            }
            files, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
            rss = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
            digest = hashlib.sha256(
                b"".join(numpy.asarray(leaf).tobytes() for leaf in jax.tree.leaves(job.state))
            ).hexdigest()
            own = {"samples": samples[weights > 0].tolist(), "digest": digest, "phases": job.standstill.phases}
            seen.write(json.dumps({**row, **own, "files": files, "threads": threads, "rss": rss}) + "\n")
            charterer_trainer.report(step=job.step)
            time.sleep(PAUSE)
        if job.rank == 0:
            save(job.step)


if __name__ == "__main__":
    main()
