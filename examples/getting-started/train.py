"""Fits a line to points by gradient descent: a whole training script for Charterer, without a GPU.

It goes on from its newest checkpoint, reports progress, and stops with a checkpoint when Charterer asks for it.
``python examples/getting-started/train.py --steps 200 --checkpoints /tmp/checkpoints`` runs it on your machine.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import charterer_trainer

POINTS = [(x / 10, 3.0 * x / 10 - 1.0) for x in range(-20, 21)]
"""On the line y = 3 x - 1."""
RATE = 0.05


def main() -> None:
    """Train until all steps are done, or until asked to stop."""
    parser = argparse.ArgumentParser(description="Fits a line to points.")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--checkpoints", default="/tmp/checkpoints", help="a folder that outlives the pod")
    parser.add_argument("--step-seconds", type=float, default=0.05, help="how long a step takes at least")
    given = parser.parse_args()
    os.makedirs(given.checkpoints, exist_ok=True)
    with charterer_trainer.run():
        newest = charterer_trainer.latest_checkpoint(given.checkpoints)
        state = json.loads(Path(newest).read_text()) if newest else {"step": 0, "slope": 0.0, "offset": 0.0}
        where = charterer_trainer.allocation() or "no allocation, outside Charterer"
        print(f"begins at step {state['step']} with {where}", flush=True)
        while state["step"] < given.steps:
            train_step(state)
            time.sleep(given.step_seconds)
            charterer_trainer.report(step=state["step"], total_steps=given.steps, batch=len(POINTS))
            stop = charterer_trainer.should_stop(agree=charterer_trainer.any_rank)
            if stop or state["step"] % 500 == 0 or state["step"] == given.steps:
                save(state, f"{given.checkpoints}/step-{state['step']}.json")
            if stop:
                break
        print(f"step {state['step']}: y = {state['slope']:.3f} x + {state['offset']:.3f}", flush=True)


def train_step(state: dict[str, float]) -> None:
    """One step of gradient descent on the mean squared error of all points."""
    errors = [(state["slope"] * x + state["offset"] - y, x) for x, y in POINTS]
    state["slope"] -= RATE * 2 * sum(error * x for error, x in errors) / len(POINTS)
    state["offset"] -= RATE * 2 * sum(error for error, _ in errors) / len(POINTS)
    state["step"] += 1


def save(state: dict[str, float], file: str) -> None:
    """Write a checkpoint that is complete or does not exist."""
    with charterer_trainer.save_atomically(file) as path:
        Path(path).write_text(json.dumps(state))


if __name__ == "__main__":
    main()
