"""Softmax regression on 1,794 of scikit-learn's digits by gradient descent, in JAX, with one process in each pod.

Every step uses all samples, each process an equal share (of 1, 2, 3 or 6 pods), so that the weights after a step are
the same at every width, but for rounding. It ends after STEPS, or when the file ``enough`` is there. PAUSE: seconds of
a step on one pod, as if the samples were many, of which n pods take an nth each; PAUSE_EACH: those that all take.
"""

import os
import time
from pathlib import Path

import charterer_trainer
from tests.e2e.scripts.diary import note

FOLDER = Path(os.environ["CHECKPOINTS"])
SAVE_EVERY, NOTE_EVERY = 100, 20
note("started")
STEPS, PAUSE = int(os.environ.get("STEPS", "100000")), float(os.environ.get("PAUSE", "0.02"))
PAUSE_EACH = float(os.environ.get("PAUSE_EACH", "0"))

with charterer_trainer.run():
    charterer_trainer.init_jax()
    import jax
    import jax.numpy as jnp
    import numpy
    from jax.experimental import multihost_utils
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    rank, width = jax.process_index(), jax.process_count()
    note("imported")
    table = numpy.loadtxt(os.environ["DIGITS"], delimiter=",", dtype=numpy.float32)[:1794]
    share = numpy.array_split(table, width)[rank]
    mesh = Mesh(numpy.array(jax.devices()), ("samples",))
    samples, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("samples",), ()))
    pixels = jax.make_array_from_process_local_data(samples, share[:, :64] / 16)
    labels = jax.make_array_from_process_local_data(samples, share[:, 64].astype(numpy.int32))

    def loss_of(weights: jax.Array, pixels: jax.Array, labels: jax.Array) -> jax.Array:
        scores = jax.nn.log_softmax(pixels @ weights)
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    @jax.jit
    def update(weights: jax.Array, pixels: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss, gradient = jax.value_and_grad(loss_of)(weights, pixels, labels)
        return weights - 0.5 * gradient, loss

    def any_rank(flag: bool) -> bool:
        return bool(multihost_utils.process_allgather(numpy.array(flag)).any())

    newest = charterer_trainer.latest_checkpoint(FOLDER, "step-*.npz")
    step, weights = 0, jax.device_put(numpy.zeros((64, 10), numpy.float32), whole)
    if newest:
        with numpy.load(newest) as saved:
            step, weights = int(saved["step"]), jax.device_put(saved["weights"], whole)
    note("restored", step=step)
    first, stop, converged = step + 1, False, False
    while not (stop or converged):
        weights, loss = update(weights, pixels, labels)
        step += 1
        if step == first or step % NOTE_EVERY == 1:
            note("trained", step=step, loss=float(loss), width=width)
        charterer_trainer.report(step=step, total_steps=STEPS, batch=len(table))
        told = charterer_trainer.should_stop()
        with charterer_trainer.phase("sync"):
            stop = any_rank(told)
            converged = any_rank(step == STEPS or (FOLDER / "enough").exists())
        if stop or converged:
            note("stop", step=step, width=width, told=told)
        if rank == 0 and (stop or step % SAVE_EVERY == 0):
            with charterer_trainer.save_atomically(FOLDER / f"step-{step:06}.npz") as path, path.open("wb") as file:
                numpy.savez(file, step=step, weights=numpy.asarray(weights.addressable_data(0)))
            note("saved", step=step)
        time.sleep(PAUSE / width + PAUSE_EACH)
    if converged:
        charterer_trainer.report(fraction=1)
    note("end", step=step, loss=float(loss))
