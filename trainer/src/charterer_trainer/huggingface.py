"""Hugging Face's Trainer under Charterer: a callback, and the arguments that give the same batch size at every width.

The import needs transformers.
"""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path
from typing import Any

from charterer_trainer.checkpoints import latest_checkpoint, remove_old_checkpoints, saves, seal_checkpoint
from charterer_trainer.distributed import any_rank
from charterer_trainer.environment import whole
from charterer_trainer.gradients import GradientNoise
from charterer_trainer.measuring import spent
from charterer_trainer.pytorch import measure_ddp
from charterer_trainer.session import STOPPED, report, should_checkpoint, should_stop

_TrainerCallback: Any = importlib.import_module("transformers").TrainerCallback
_PATTERN = "checkpoint-*"


def batch_arguments(batch: int, most: int) -> dict[str, int]:
    """The two TrainingArguments with which a step has ``batch`` samples on the present number of ranks.

    ``most``: samples that fit into one pass of a GPU. Raises ValueError if the batch is not divisible by the ranks,
    because every pass of the Trainer has the same number of samples.
    """
    world = whole(os.environ.get("WORLD_SIZE")) or 1
    share = batch // world
    if batch % world or share < 1:
        raise ValueError(f"a batch of {batch} samples does not divide by {world} ranks: choose widths that divide it")
    size = max(size for size in range(1, min(most, share) + 1) if share % size == 0)
    return {"per_device_train_batch_size": size, "gradient_accumulation_steps": share // size}


def newest(directory: str | os.PathLike[str]) -> str | None:
    """The newest good checkpoint in the Trainer's ``output_dir``, for ``resume_from_checkpoint``. None if there is no
    such checkpoint.

    A checkpoint counts only if the callback has sealed it, because other checkpoints may be left over from a killed
    save.
    """
    found = latest_checkpoint(directory, _PATTERN, summed=True)
    return None if found is None else str(found)


class Callback(_TrainerCallback):  # type: ignore[misc]
    """Reports progress, saves when Charterer advises it, seals each checkpoint, and ends the process after a stop.

    Usage: ``trainer.add_callback(Callback(trainer))``. ``own_batch`` is the class's own batch size. If it is given, the
    gradient noise between ranks is measured. ``keep`` is the number of newest good checkpoints that stay. If you use
    ``keep``, do not set ``save_total_limit``, because it also counts damaged checkpoints. After a stop the process
    leaves ``train()`` by SystemExit(143).
    """

    def __init__(self, trainer: Any, *, own_batch: int | None = None, keep: int | None = None) -> None:
        self._trainer = trainer
        self._noise = None if own_batch is None else GradientNoise(own_batch)
        self._keep = keep
        self._ended: float | None = None
        self._begun = 0.0
        self._stopped = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Measure the model if DistributedDataParallel wraps it."""
        model = self._trainer.model_wrapped
        if type(model).__name__ == "DistributedDataParallel":
            measure_ddp(model, _batch(args), self._noise)

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Count the time since the last step as waiting for input."""
        if self._ended is not None:
            spent("load", time.perf_counter() - self._ended)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Decide about a stop and a save. All ranks decide the same."""
        report(step=state.global_step, total_steps=state.max_steps, batch=_batch(args))
        self._stopped = should_stop(agree=any_rank)
        if self._stopped:
            control.should_save = control.should_training_stop = True
        elif any_rank(should_checkpoint()):
            control.should_save = True
        self._begun = time.perf_counter()
        busy = control.should_save or control.should_evaluate or control.should_log
        self._ended = None if busy else self._begun

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Seal the checkpoint after all ranks have written their parts."""
        any_rank(False)
        folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
        if state.is_world_process_zero:
            seal_checkpoint(folder)
            if self._keep is not None:
                remove_old_checkpoints(args.output_dir, self._keep, _PATTERN)
        took = time.perf_counter() - self._begun
        saves.total_seconds += took
        saves.saved(took)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """End a stopped run here, so that code of the script after its training does not run."""
        if self._stopped:
            raise SystemExit(STOPPED)


def _batch(args: Any) -> int:
    return int(args.train_batch_size * args.gradient_accumulation_steps * args.world_size)
