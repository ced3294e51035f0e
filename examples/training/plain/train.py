"""Any script: no framework, one process, a loop of its own. Each step is two passes, whose gradients tell the noise."""

from __future__ import annotations

import numpy
from digits import BATCH, TRAINED_ON, arguments, load, result

import charterer_trainer

RATE, MOMENTUM, HIDDEN = 0.1, 0.9, 64


def gradients(net, pixels, labels):
    """The mean loss and its gradients, by hand."""
    into, bias, out, offset = net
    hidden = numpy.maximum(pixels @ into + bias, 0)
    scores = hidden @ out + offset
    scores = numpy.exp(scores - scores.max(1, keepdims=True))
    scores /= scores.sum(1, keepdims=True)
    loss = -numpy.log(scores[numpy.arange(len(labels)), labels]).mean()
    scores[numpy.arange(len(labels)), labels] -= 1
    scores /= len(labels)
    back = (scores @ out.T) * (hidden > 0)
    return loss, [pixels.T @ back, back.sum(0), hidden.T @ scores, scores.sum(0)]


def squared(arrays) -> float:
    """The squared norm of all of them."""
    return sum(float((array**2).sum()) for array in arrays)


def main() -> None:
    """Train until all steps are done, or until asked to stop."""
    given = arguments()
    with charterer_trainer.run():
        (pixels, labels), (test_pixels, test_labels) = load()
        random = numpy.random.default_rng(given.seed)
        net = [random.normal(size=(64, HIDDEN)) * 0.15, numpy.zeros(HIDDEN)]
        net += [random.normal(size=(HIDDEN, 10)) * 0.15, numpy.zeros(10)]
        speed, step = [numpy.zeros_like(array) for array in net], 0
        if newest := charterer_trainer.latest_checkpoint(given.checkpoints, "step-*.npz"):
            with numpy.load(newest) as state:
                net, speed = ([state[f"{kind}{i}"] for i in range(4)] for kind in ("net", "speed"))
                step = int(state["step"])
        print(f"begins at step {step}", flush=True)
        batches = charterer_trainer.Batches(TRAINED_ON, BATCH, most=BATCH // 2, seed=given.seed)
        noise = charterer_trainer.GradientNoise(own_batch=BATCH)
        while step < given.steps:
            parts = [gradients(net, pixels[part], labels[part])[1] for part in batches.parts(step)]
            mean = [sum(each) / len(parts) for each in zip(*parts, strict=True)]
            if noise.due(step):
                noise.add_parts([squared(part) for part in parts], squared(mean), BATCH)
            speed = [MOMENTUM * old + new for old, new in zip(speed, mean, strict=True)]
            net = [array - RATE * change for array, change in zip(net, speed, strict=True)]
            step += 1
            charterer_trainer.report(step=step, total_steps=given.steps, batch=BATCH)
            stop = charterer_trainer.should_stop()
            if stop or step == given.steps or charterer_trainer.should_checkpoint():
                with charterer_trainer.save_atomically(f"{given.checkpoints}/step-{step}.npz") as path:
                    arrays = {f"net{i}": a for i, a in enumerate(net)} | {f"speed{i}": a for i, a in enumerate(speed)}
                    numpy.savez(path, step=step, **arrays)
                charterer_trainer.remove_old_checkpoints(given.checkpoints, keep=2)
            if stop:
                return
        loss, _ = gradients(net, pixels, labels)
        into, bias, out, offset = net
        found = (numpy.maximum(test_pixels @ into + bias, 0) @ out + offset).argmax(1)
        print(result(step, loss, (found == test_labels).mean()), flush=True)


if __name__ == "__main__":
    main()
