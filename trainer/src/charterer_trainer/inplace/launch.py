"""How a process that is resized in place must have been started."""

from __future__ import annotations

from collections.abc import Mapping

from charterer_trainer.environment import whole


def check_launch(environ: Mapping[str, str]) -> None:
    """RuntimeError under torchrun, whose agent restarts all workers at a change, and beside others in the pod."""
    if "TORCHELASTIC_RUN_ID" in environ:
        raise RuntimeError(
            "start this script with python instead of torchrun, which restarts the processes at a change"
        )
    if (whole(environ.get("LOCAL_WORLD_SIZE")) or 1) > 1:
        raise RuntimeError("resizing in place takes one process per pod: ask for one GPU per pod, or use Restart")
