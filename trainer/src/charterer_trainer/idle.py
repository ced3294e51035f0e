"""Whether the GPUs of this pod compute anything, according to NVIDIA's nvidia-smi."""

from __future__ import annotations

import subprocess

_QUERY = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
_SECONDS = 10.0


def gpu_idle() -> bool | None:
    """Whether no kernel has run on any GPU of this pod recently (utilization.gpu is 0 on each).

    NVIDIA defines utilization.gpu as the percentage of the past sample period in which a kernel executed. The period is
    a sixth of a second to one second. None if the value is unknown, because nvidia-smi is absent or has no figure. For
    a MIG slice, for example, it has none.
    """
    try:
        done = subprocess.run(_QUERY, capture_output=True, text=True, timeout=_SECONDS, check=True)
        figures = [int(line) for line in done.stdout.split()]
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return not any(figures) if figures else None
