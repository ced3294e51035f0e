"""The allocation of a run, which is its number and its GPUs. It is read from several sources."""

from __future__ import annotations

import json
from dataclasses import dataclass

from charterer_trainer.environment import Environment, whole


@dataclass(frozen=True)
class Allocation:
    """Run number ``run`` has ``gpus`` GPUs: ``pods`` pods of ``gpus_per_pod`` each."""

    run: int
    gpus: int
    pods: int
    gpus_per_pod: int

    @classmethod
    def of(cls, content: object) -> Allocation | None:
        """Parse the object ``{"run", "gpus", "pods", "gpusPerPod"}``. None if the object is malformed."""
        if not isinstance(content, dict):
            return None
        run, gpus, pods, per_pod = (whole(content.get(name)) for name in ("run", "gpus", "pods", "gpusPerPod"))
        if run is None or gpus is None or pods is None or per_pod is None:
            return None
        return cls(run, gpus, pods, per_pod)


def from_file(environment: Environment) -> Allocation | None:
    """The allocation in the downward API's file, or None if there is no file. The file changes a minute or more after a
    resize.
    """
    try:
        return Allocation.of(json.loads(environment.allocation_file.read_text()))
    except (OSError, ValueError):
        return None


def from_environment(environment: Environment) -> Allocation | None:
    """The allocation with which the run was started. None outside Charterer."""
    run, pods, per_pod = environment.run, environment.pods, environment.gpus_per_pod
    if run is None or pods is None or per_pod is None:
        return None
    return Allocation(run, pods * per_pod, pods, per_pod)
