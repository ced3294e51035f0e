"""What a training script did and when, one JSON line each, in the file ``diary.jsonl`` beside its checkpoints."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path


def note(what: str, **more: object) -> None:
    """Append a line: ``what``, the time, the pod's processor seconds, and which process of which run says so."""
    who = {"run": int(os.environ.get("CHARTERER_RUN", 0)), "pod": int(os.environ.get("JOB_COMPLETION_INDEX", 0))}
    with open(f"{os.environ['CHECKPOINTS']}/diary.jsonl", "a") as file:
        file.write(
            json.dumps({"what": what, "at": time.time(), "processor": _processor_seconds(), **who, **more}) + "\n"
        )


def _processor_seconds() -> float:
    """Of all processes of this container since it began, those that ended included."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # a process that has ended since
            ticks += sum(map(int, file.read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
