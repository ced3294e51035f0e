"""Runs a training script, and sends its process SIGTERM when it reports a step: ``stop_at.py STEP SCRIPT ARGUMENTS``.

A signal to one rank at a step that is known stands for a stop at any moment, on a machine of any speed. Under torchrun
its agent gets it, as the pod's first process does; the first worker sends it.
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
    """Run the script as if it had been started."""
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
