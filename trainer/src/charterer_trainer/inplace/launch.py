"""What a process that may be resized in place sees of how it was started."""

from __future__ import annotations

from collections.abc import Mapping

from charterer_trainer.environment import Environment, whole
from charterer_trainer.inplace.board import own_port
from charterer_trainer.members import Members


def check_launch(environ: Mapping[str, str], devices: int | None = None) -> None:
    """RuntimeError under torchrun, whose agent restarts all workers at a change, and beside others in the pod.

    ``devices``: on which the net lies. With a single one the other GPUs of a pod would be paid for and do nothing, so
    that is a RuntimeError, too. None: the framework uses all of them by one process.
    """
    if "TORCHELASTIC_RUN_ID" in environ:
        raise RuntimeError(
            "start this script with python instead of torchrun, which restarts the processes at a change"
        )
    if (whole(environ.get("LOCAL_WORLD_SIZE")) or 1) > 1:
        raise RuntimeError("resizing in place takes one process per pod: use nodes of one GPU, or Restart")
    gpus = Environment.read(environ).gpus_per_pod or 1
    if devices == 1 and gpus > 1:
        raise RuntimeError(
            f"this pod has {gpus} GPUs, and resizing in place takes one process per pod, whose net is on one device: "
            "use nodes of one GPU, a net that is spread over the pod's GPUs, or Restart with torchrun"
        )


def fixed_members(environment: Environment) -> Members | None:
    """The group where the number of pods never changes, or there is one process alone; None: the operator says it."""
    port = own_port()
    if environment.pods is None:
        return None if environment.progress_url else Members(0, (environment.index,), (f"localhost:{port}",))
    host = environment.coordinator.rpartition(":")[0] or "localhost"
    return Members(0, tuple(range(environment.pods)), (f"{host}:{port}",) * environment.pods)
