"""A job of the standard library alone: a step is a pause, shorter the more pods there are, and a line of a loss.

STEPS: how many. PAUSE: seconds of a step on one pod. SAVE_EVERY: steps.
"""

import json
import os
import time
from pathlib import Path

from diary import note

import charterer_trainer

STEPS, PAUSE = int(os.environ["STEPS"]), float(os.environ.get("PAUSE", "0.05"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "50"))
FOLDER = Path(os.environ["CHECKPOINTS"])

with charterer_trainer.run():
    mine = charterer_trainer.allocation()
    pods = mine.pods if mine else 1
    rank = int(os.environ.get("JOB_COMPLETION_INDEX", 0))
    newest = charterer_trainer.latest_checkpoint(FOLDER, "step-*.json")
    state = json.loads(newest.read_text()) if newest else {"step": 0, "weight": 0.0}
    note("restored", step=state["step"], pods=pods)
    while state["step"] < STEPS:
        time.sleep(PAUSE / pods)
        state = {"step": state["step"] + 1, "weight": state["weight"] + 0.01 * (1.0 - state["weight"])}
        charterer_trainer.report(step=state["step"], total_steps=STEPS)
        stop = charterer_trainer.should_stop()
        if rank == 0 and (stop or state["step"] % SAVE_EVERY == 0):
            with charterer_trainer.save_atomically(FOLDER / f"step-{state['step']:06}.json") as path:
                path.write_text(json.dumps(state))
        if stop:
            break
    note("end", step=state["step"], weight=state["weight"], stopped=charterer_trainer.should_stop())
