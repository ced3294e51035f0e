"""Softmax regression on scikit-learn's digits, by a JAX loop that is resized in place, with one process in each pod.

A step sees the same samples at every width. It ends when the file ``enough`` is there. PAUSE: seconds of a step.
"""

import os
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy

import charterer_trainer
from tests.e2e.scripts.diary import note

FOLDER = Path(os.environ["CHECKPOINTS"])
BATCH, STEPS, PAUSE = 1024, 100_000, 0.02
State = dict[str, Any]


def loss_of(weights: jax.Array, pixels: jax.Array, labels: jax.Array, shares: jax.Array) -> jax.Array:
    scores = jax.nn.log_softmax(pixels @ weights)
    return -(jnp.take_along_axis(scores, labels[:, None], 1)[:, 0] * shares).sum()


def update(state: State, pixels: jax.Array, labels: jax.Array, shares: jax.Array) -> tuple[State, jax.Array]:
    loss, gradient = jax.value_and_grad(loss_of)(state["weights"], pixels, labels, shares)
    return {"weights": state["weights"] - 0.1 * gradient}, loss


def save(step: int) -> None:
    with charterer_trainer.save_atomically(FOLDER / f"step-{step:06}.npz") as path, path.open("wb") as file:
        numpy.savez(file, step=step, weights=numpy.asarray(job.state["weights"]))


with charterer_trainer.run():
    table = numpy.loadtxt(os.environ["DIGITS"], delimiter=",", dtype=numpy.float32)
    pixels, labels = table[:, :64] / 16, table[:, 64].astype(numpy.int32)
    step, state = 0, {"weights": numpy.zeros((64, 10), numpy.float32)}
    if newest := charterer_trainer.latest_checkpoint(FOLDER, "step-*.npz"):
        with numpy.load(newest) as saved:
            step, state = int(saved["step"]), {"weights": saved["weights"]}
    note("begun", step=step, pid=os.getpid())
    warm = (state, pixels[:2], labels[:2], pixels[:2, 0])
    job = charterer_trainer.elastic_jax(
        state, step=step, save=save, cache=f"{FOLDER}/compiled", warm_up=lambda: jax.jit(update)(*warm)
    )
    compiled: Any = None

    @job.on_resize
    def compile_again() -> None:
        global compiled
        compiled = jax.jit(update, out_shardings=job.replicated)

    last = 0
    while job.step < STEPS and not (FOLDER / "enough").exists():
        with job.attempt():
            order = numpy.random.default_rng(job.step).permutation(len(table))[:BATCH]
            mine = job.shard(order)
            parts = (pixels[mine], labels[mine], job.weight(mine))
            job.state, loss = compiled(job.state, *(job.spread(part) for part in parts))
            value = float(loss)
        if job.generation != last or job.step % 20 == 0:
            phases = job.standstill.phases if job.generation != last else {}
            note("trained", step=job.step, loss=value, width=job.world, generation=job.generation, phases=phases)
            last = job.generation
        charterer_trainer.report(step=job.step, total_steps=STEPS)
        time.sleep(PAUSE)
    charterer_trainer.report(fraction=1)
    note("end", step=job.step)
