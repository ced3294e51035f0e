"""JAX with one process per pod: the batch is spread over all devices, and the compiler adds up their gradients."""

from __future__ import annotations

from functools import partial

import numpy
from digits import BATCH, TRAINED_ON, arguments, load, result

import charterer_trainer

PARTS = 4
"""Parts of a batch whose gradients are compared in a step that measures their noise."""


def main() -> None:
    """Train until all steps are done, or until asked to stop."""
    given = arguments()
    with charterer_trainer.run():
        charterer_trainer.init_jax()
        import jax

        jax.config.update("jax_compilation_cache_dir", f"{given.checkpoints}/compiled")  # the next run at this width
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)  # need not compile again
        from jax import numpy as jnp
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        rank, world = jax.process_index(), jax.process_count()
        (pixels, labels), (test_pixels, test_labels) = load()
        mesh = Mesh(numpy.array(jax.devices()), ("batch",))
        spread, whole = NamedSharding(mesh, PartitionSpec("batch")), NamedSharding(mesh, PartitionSpec())

        def scores(net, x):
            return jnp.maximum(x @ net["into"] + net["bias"], 0) @ net["out"] + net["offset"]

        def loss_of(net, x, y):
            return -jnp.take_along_axis(jax.nn.log_softmax(scores(net, x)), y[:, None], 1).mean()

        @partial(jax.jit, donate_argnums=(0, 1))
        def update(net, speed, x, y):
            gradients = jax.grad(loss_of)(net, x, y)
            speed = jax.tree.map(lambda old, new: 0.9 * old + new, speed, gradients)
            return jax.tree.map(lambda array, change: array - 0.1 * change, net, speed), speed

        @partial(jax.jit, out_shardings=whole)
        def norms(net, x, y):
            """Squared norms of the gradient of each part of the batch, and of their mean."""
            parts = jax.vmap(jax.grad(loss_of), (None, 0, 0))(net, x.reshape(PARTS, -1, 64), y.reshape(PARTS, -1))
            squares = [(array**2).reshape(PARTS, -1).sum(1) for array in jax.tree.leaves(parts)]
            return sum(squares), sum((array.mean(0) ** 2).sum() for array in jax.tree.leaves(parts))

        random = numpy.random.default_rng(given.seed)
        shapes = {"into": (64, 128), "bias": (128,), "out": (128, 10), "offset": (10,)}
        net = {name: (random.normal(size=s) * 0.1 * (len(s) > 1)).astype("float32") for name, s in shapes.items()}
        speed, step = {name: numpy.zeros_like(array) for name, array in net.items()}, 0
        if newest := charterer_trainer.latest_checkpoint(given.checkpoints, "step-*.npz"):
            with numpy.load(newest) as state:
                net, speed = ({name: state[kind + name] for name in shapes} for kind in ("net_", "speed_"))
                step = int(state["step"])
        if rank == 0:
            print(f"begins at step {step} with {world} ranks", flush=True)
        net, speed = jax.device_put((net, speed), whole)
        batches = charterer_trainer.Batches(TRAINED_ON, BATCH, rank=rank, world=world, seed=given.seed)
        noise = charterer_trainer.GradientNoise(own_batch=BATCH)
        while step < given.steps:
            share = batches.share(step)
            x, y = (jax.make_array_from_process_local_data(spread, a[share]) for a in (pixels, labels))
            if noise.due(step):
                parts, mean = norms(net, x, y)
                noise.add_parts(parts.tolist(), mean.item(), BATCH)
            net, speed = update(net, speed, x, y)
            step += 1
            charterer_trainer.report(step=step, total_steps=given.steps, batch=BATCH)
            stop = charterer_trainer.should_stop(agree=charterer_trainer.any_rank)
            if rank == 0 and (stop or step == given.steps or charterer_trainer.should_checkpoint()):
                arrays = {f"net_{name}": numpy.asarray(array) for name, array in net.items()}
                arrays |= {f"speed_{name}": numpy.asarray(array) for name, array in speed.items()}
                with charterer_trainer.save_atomically(f"{given.checkpoints}/step-{step}.npz") as path:
                    numpy.savez(path, step=step, **arrays)
                charterer_trainer.remove_old_checkpoints(given.checkpoints, keep=2)
            if stop:
                return
        if rank == 0:
            net = {name: numpy.asarray(array) for name, array in net.items()}
            accuracy = (scores(net, test_pixels).argmax(1) == test_labels).mean()
            print(result(step, float(loss_of(net, pixels, labels)), float(accuracy)), flush=True)


if __name__ == "__main__":
    main()
