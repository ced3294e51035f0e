"""Lightning under Charterer: a callback. The import needs lightning or pytorch_lightning."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import signal
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from charterer_trainer.checkpoints import latest_checkpoint, remove_old_checkpoints, save_atomically, saves
from charterer_trainer.distributed import any_rank
from charterer_trainer.gradients import GradientNoise
from charterer_trainer.measuring import spent
from charterer_trainer.pytorch import measure_ddp
from charterer_trainer.session import STOPPED, report, should_checkpoint, should_stop

_package = "lightning.pytorch" if importlib.util.find_spec("lightning") else "pytorch_lightning"
_Callback: Any = importlib.import_module(_package).Callback
_PATTERN = "step-*.ckpt"


class Callback(_Callback):  # type: ignore[misc]
    """Reports progress, saves into ``folder`` when Charterer advises it and at a stop, and ends the process after a
    stop.

    ``batch``: samples of all ranks in a step. ``own_batch``: the class's own batch size. If it is given, the gradient
    noise between the ranks of DDP is measured. ``keep``: number of newest good checkpoints that stay. The callback is
    for strategies in which the first rank writes the checkpoint (a single device, DDP). Begin with ``trainer.fit(…,
    ckpt_path=callback.newest())``.

    Lightning's SIGTERM handler is replaced by that of ``run()``. Lightning's handler would broadcast at any point of
    the training, while the ranks of other pods may be at another point. After a stop the process leaves ``fit()`` by
    SystemExit(143).
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, batch: int, own_batch: int | None = None, keep: int = 2
    ) -> None:
        self._folder = Path(folder)
        self._batch = batch
        self._noise = None if own_batch is None else GradientNoise(own_batch)
        self._keep = keep
        self._handler: Any = None
        self._step = -1
        self._stopped = False
        self._ended: float | None = None

    def newest(self) -> str | None:
        """The newest good checkpoint, for ``ckpt_path``. None if there is none."""
        found = latest_checkpoint(self._folder, _PATTERN, summed=True)
        return None if found is None else str(found)

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Count batches from the checkpoint's step, because the loader begins there.

        Lightning would instead continue its count within the epoch, in batches of the former width. It would then end
        the epoch too early and use other samples for its steps. If a loader has a state of its own, Lightning restores
        that state.
        """
        loop = checkpoint["loops"]["fit_loop"]
        if not loop["state_dict"]:
            counts = loop["epoch_loop.batch_progress"]["current"]
            before = counts["processed"]
            counts.update({name: count - before for name, count in counts.items()})

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Store the handler that was installed before Lightning's."""
        self._handler = signal.getsignal(signal.SIGTERM)

    def on_sanity_check_start(self, trainer: Any, pl_module: Any) -> None:
        """Restore the handler, because Lightning has installed its own by now."""
        self._restore_handler()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Measure the model if DistributedDataParallel wraps it, unless it has a communication hook."""
        self._restore_handler()
        self._step = trainer.global_step
        model = trainer.strategy.model
        hooked = getattr(trainer.strategy, "_ddp_comm_hook", None) is not None
        if type(model).__name__ == "DistributedDataParallel" and not hooked:
            measure_ddp(model, self._batch, self._noise)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Count the time since the last batch's end as waiting for input."""
        if self._ended is not None:
            spent("load", time.perf_counter() - self._ended)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Decide about a stop and a save after each step. All ranks decide the same."""
        if trainer.global_step != self._step:
            self._step = trainer.global_step
            self._stepped(trainer)
        self._ended = time.perf_counter()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Do not count validation as waiting for input."""
        self._ended = None

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """End a stopped run here, so that code of the script after its training does not run."""
        if self._stopped and stage == "fit":
            raise SystemExit(STOPPED)

    def _stepped(self, trainer: Any) -> None:
        total = trainer.estimated_stepping_batches
        report(step=self._step, total_steps=int(total) if math.isfinite(total) else None, batch=self._batch)
        self._stopped = should_stop(agree=any_rank)
        if self._stopped or any_rank(should_checkpoint()):
            self._save(trainer)
        if self._stopped:
            trainer.should_stop = True

    def _save(self, trainer: Any) -> None:
        target = self._folder / f"step-{self._step}.ckpt"
        first = trainer.is_global_zero
        begin = time.perf_counter()
        with save_atomically(target) if first else nullcontext(target) as path:
            trainer.save_checkpoint(path)  # all ranks make this call, and the first rank writes
        if first:
            remove_old_checkpoints(self._folder, self._keep, _PATTERN)
        else:
            saves.saved(time.perf_counter() - begin)

    def _restore_handler(self) -> None:
        if threading.current_thread() is threading.main_thread() and self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)
