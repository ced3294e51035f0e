"""Checks of how a process that may be resized in place was started."""

from __future__ import annotations

from collections.abc import Mapping

from charterer_trainer.environment import Environment, whole
from charterer_trainer.inplace.board import own_port
from charterer_trainer.members import Members


def check_launch(environ: Mapping[str, str], devices: int | None = None) -> None:
    """Raise RuntimeError under torchrun, and with several processes in a pod.

    The agent of torchrun would restart all workers at a change. ``devices``: number of devices that hold the net. If
    one device holds the net and the pod has several GPUs, RuntimeError is raised too, because the other GPUs would cost
    money and be idle. None means that the framework uses all devices from one process.
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
    """The group, if the number of pods never changes or the process is alone. None if the operator announces groups."""
    port = own_port()
    if environment.pods is None:
        return None if environment.progress_url else Members(0, (environment.index,), (f"localhost:{port}",))
    host = environment.coordinator.rpartition(":")[0] or "localhost"
    return Members(0, tuple(range(environment.pods)), (f"{host}:{port}",) * environment.pods)
