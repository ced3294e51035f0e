"""How the ranks of a run are initialised, and how they agree with each other."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from charterer_trainer.environment import Environment
from charterer_trainer.session import allocation


def init_jax() -> bool:
    """Initialise ``jax.distributed`` over the run's pods, with one process in each. Call it before any other JAX
    function.

    If the run has one pod, or outside Charterer, returns False without importing JAX. ``torchrun`` needs no such call,
    because it reads its ``PET_*`` variables. The environment of a job that is resized in place does not have the number
    of pods. The number is then taken from the newest allocation.

    JAX's own preemption service is disabled. The service would handle SIGTERM itself, so ``should_stop()`` would never
    see the signal.
    """
    environment = Environment.read(os.environ)
    pods = environment.pods
    if pods is None:
        newest = allocation()
        pods = newest.pods if newest is not None else 1
    if not environment.coordinator or pods < 2:
        return False
    jax = importlib.import_module("jax")
    if hasattr(jax.config, "jax_enable_preemption_service"):  # the oldest JAX in use does not have it
        jax.config.update("jax_enable_preemption_service", False)
    jax.distributed.initialize(
        coordinator_address=environment.coordinator,
        num_processes=pods,
        process_id=environment.index,
    )
    return True


def any_rank(flag: bool) -> bool:
    """Whether the flag of any rank is true. The call is a collective by ``torch.distributed`` or JAX, whichever is
    initialised.

    Every rank must make this call equally often. If neither is initialised, there is only one rank, and its flag is
    returned.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return _any_in_torch(torch, flag)
    jax = sys.modules.get("jax")
    if jax is not None and jax.distributed.is_initialized():
        return _any_in_jax(flag)
    return flag


def _any_in_torch(torch: Any, flag: bool) -> bool:
    on_gpu = "nccl" in str(torch.distributed.get_backend())
    flags = torch.tensor(int(flag), device="cuda" if on_gpu else "cpu")
    torch.distributed.all_reduce(flags, op=torch.distributed.ReduceOp.MAX)
    return bool(flags.item())


def _any_in_jax(flag: bool) -> bool:
    numpy = importlib.import_module("numpy")
    gathered = importlib.import_module("jax.experimental.multihost_utils").process_allgather(numpy.array(flag))
    return bool(gathered.any())
