"""What the examples share: scikit-learn's 1,797 images of digits, and the arguments of a script."""

from __future__ import annotations

import argparse
import importlib.util
import os

import numpy

BATCH = 60
"""Samples of a step on all GPUs together, at every width: 60 divides by 1, 2, 3, 4, 5 and 6."""
TRAINED_ON = 1500


def load(file: str | None = None):
    """Pixels in [0, 1] and labels: 1,500 images to train on, 297 to test with. ``file``, or $DIGITS, is their table.

    scikit-learn has it among its files, and is not imported, which would take longer than the training.
    """
    package = importlib.util.find_spec("sklearn") if not (file := file or os.environ.get("DIGITS")) else None
    file = file or f"{package.submodule_search_locations[0]}/datasets/data/digits.csv.gz"
    table = numpy.loadtxt(file, delimiter=",", dtype=numpy.float32)
    table = table[numpy.random.default_rng(0).permutation(len(table))]
    pixels, labels = table[:, :64] / 16, table[:, 64].astype(numpy.int64)
    return (pixels[:TRAINED_ON], labels[:TRAINED_ON]), (pixels[TRAINED_ON:], labels[TRAINED_ON:])


def arguments() -> argparse.Namespace:
    """``--steps``, ``--checkpoints`` and ``--seed``."""
    parser = argparse.ArgumentParser(description="Trains a small net to tell digits apart.")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--checkpoints", default="/checkpoints", help="a folder that outlives the pods")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def result(step: int, loss: float, accuracy: float) -> str:
    """The last line of a run that is done: the loss on what it was trained on, the accuracy on the test."""
    return f"done at step {step}: loss {loss:.6f}, accuracy {accuracy:.4f}"
