"""Bringing the run's pods together where the framework does not do it from the environment by itself."""

from __future__ import annotations

import importlib
import os

from charterer_trainer.environment import Environment
from charterer_trainer.session import allocation


def init_jax() -> bool:
    """Initialise ``jax.distributed`` over the run's pods, one process each; call it before anything else of JAX.

    Returns False, and does not even import JAX, where the run has one pod or Charterer is not there. ``torchrun`` needs
    nothing like it: it reads its ``PET_*`` variables. A job that is resized in place has no number of pods in its
    environment; the newest allocation says it.
    """
    environment = Environment.read(os.environ)
    pods = environment.pods
    if pods is None:
        newest = allocation()
        pods = newest.pods if newest is not None else 1
    if not environment.coordinator or pods < 2:
        return False
    jax = importlib.import_module("jax")
    jax.distributed.initialize(
        coordinator_address=environment.coordinator,
        num_processes=pods,
        process_id=environment.index,
    )
    return True
