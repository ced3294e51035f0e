"""Whether the GPUs of this pod compute anything, as NVIDIA's nvidia-smi says."""

from __future__ import annotations

import subprocess

_QUERY = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
_SECONDS = 10.0


def gpu_idle() -> bool | None:
    """Whether no GPU of this pod has had a kernel run on it lately (utilization.gpu is 0 on each).

    NVIDIA: the percent of time over the past sample period, a sixth to one second, in which a kernel executed. None
    where nobody says it: without nvidia-smi, or where it has no figure, as for a MIG slice.
    """
    try:
        done = subprocess.run(_QUERY, capture_output=True, text=True, timeout=_SECONDS, check=True)
        figures = [int(line) for line in done.stdout.split()]
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return not any(figures) if figures else None
