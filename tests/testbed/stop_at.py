"""Runs a training script and sends its process SIGTERM at a step: ``stop_at.py STEP SCRIPT ARGUMENTS``.

A signal to one rank at a known step represents a stop at any time, independent of the machine's speed. With torchrun
the first worker sends the signal to torchrun's agent, as Kubernetes signals the first process of a pod.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from typing import Any

from charterer_trainer.session import Session

_report = Session.report


def main() -> None:
    """Run the script as if it had been started directly."""
    last = int(sys.argv[1])

    def report(session: Session, *, step: int | None = None, **numbers: Any) -> None:
        _report(session, step=step, **numbers)
        if step == last and os.environ.get("TORCHELASTIC_RUN_ID") is None:
            os.kill(os.getpid(), signal.SIGTERM)
        elif step == last and os.environ["LOCAL_RANK"] == "0":
            os.kill(os.getppid(), signal.SIGTERM)

    Session.report = report  # type: ignore[assignment, method-assign]
    sys.argv = sys.argv[2:]
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
