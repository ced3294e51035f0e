"""Bringing the run's pods together where the framework does not do it from the environment by itself."""

from __future__ import annotations

import importlib
import os

from purser_trainer.environment import Environment


def init_jax() -> bool:
    """Initialise ``jax.distributed`` over the run's pods, one process each; call it before anything else of JAX.

    Returns False, and does not even import JAX, where the run has one pod or Purser is not there. ``torchrun`` needs
    nothing like it: it reads its ``PET_*`` variables.
    """
    environment = Environment.read(os.environ)
    if not environment.coordinator or environment.pods is None or environment.pods < 2:
        return False
    jax = importlib.import_module("jax")
    jax.distributed.initialize(
        coordinator_address=environment.coordinator,
        num_processes=environment.pods,
        process_id=environment.index,
    )
    return True
