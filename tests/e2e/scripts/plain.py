"""A job of the standard library alone: a step is a pause, shorter the more pods there are.

It has converged, and ends, when the file ``enough`` is there. PAUSE: seconds of a step on one pod. SAVE_EVERY: steps.
"""

import json
import os
import time
from pathlib import Path

import charterer_trainer
from tests.e2e.scripts.diary import note

PAUSE = float(os.environ.get("PAUSE", "0.05"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "50"))
FOLDER = Path(os.environ["CHECKPOINTS"])

with charterer_trainer.run():
    mine = charterer_trainer.allocation()
    pods = mine.pods if mine else 1
    rank = int(os.environ.get("JOB_COMPLETION_INDEX", 0))
    newest = charterer_trainer.latest_checkpoint(FOLDER, "step-*.json")
    step = json.loads(newest.read_text())["step"] if newest else 0
    note("restored", step=step, pods=pods)
    stop = converged = False
    while not (stop or converged):
        time.sleep(PAUSE / pods)
        step += 1
        charterer_trainer.report(step=step, total_steps=100_000)
        stop, converged = charterer_trainer.should_stop(), (FOLDER / "enough").exists()
        if rank == 0 and (stop or step % SAVE_EVERY == 0):
            with charterer_trainer.save_atomically(FOLDER / f"step-{step:06}.json") as path:
                path.write_text(json.dumps({"step": step}))
            note("saved", step=step)
    if converged:
        charterer_trainer.report(fraction=1)
    note("end", step=step, stopped=stop)
