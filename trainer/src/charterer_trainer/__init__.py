"""The library for training scripts under Charterer. It needs only the standard library, and does nothing outside
Charterer.

If the operator is absent, slow or wrong, no function raises an error in the training script.
``charterer_trainer.pytorch``, ``charterer_trainer.huggingface`` and ``charterer_trainer.lightning`` need their
frameworks and are imported by name.
"""

from charterer_trainer.allocations import Allocation
from charterer_trainer.checkpoints import (
    latest_checkpoint,
    remove_old_checkpoints,
    remove_partials,
    save_atomically,
    seal_checkpoint,
)
from charterer_trainer.distributed import any_rank, init_jax
from charterer_trainer.gradients import GradientNoise
from charterer_trainer.idle import gpu_idle
from charterer_trainer.inplace.in_jax import elastic_jax
from charterer_trainer.inplace.in_torch import elastic
from charterer_trainer.measuring import loading, phase
from charterer_trainer.sampling import Batches
from charterer_trainer.session import (
    STOPPED,
    Session,
    allocation,
    batch,
    busy,
    report,
    run,
    should_checkpoint,
    should_stop,
)

__version__ = "0.1.0"

__all__ = [
    "STOPPED",
    "Allocation",
    "Batches",
    "GradientNoise",
    "Session",
    "allocation",
    "any_rank",
    "batch",
    "busy",
    "elastic",
    "elastic_jax",
    "gpu_idle",
    "init_jax",
    "latest_checkpoint",
    "loading",
    "phase",
    "remove_old_checkpoints",
    "remove_partials",
    "report",
    "run",
    "save_atomically",
    "seal_checkpoint",
    "should_checkpoint",
    "should_stop",
]
