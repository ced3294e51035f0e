"""What a training script did and when, one JSON line each, in the file ``diary.jsonl`` beside its checkpoints."""

import json
import os
import time


def note(what: str, **more: object) -> None:
    """Append a line: ``what``, the time, and which process of which run says so."""
    who = {"run": int(os.environ.get("CHARTERER_RUN", 0)), "pod": int(os.environ.get("JOB_COMPLETION_INDEX", 0))}
    with open(f"{os.environ['CHECKPOINTS']}/diary.jsonl", "a") as file:
        file.write(json.dumps({"what": what, "at": time.time(), **who, **more}) + "\n")
