"""The simulated training of a job: pure values without a clock, advanced to given times.

All times are workload seconds since the start of the replay. Work is in seconds on one GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Pass:
    """The training of one run. Its pods run since ``begun`` and train from ``training_from`` on.

    ``speed`` is work per second. ``origin`` is the work done at the checkpoint from which the run started.
    """

    run: int
    begun: float
    training_from: float
    speed: float
    origin: float


@dataclass(frozen=True, slots=True)
class Training:
    """``done`` of ``work`` at time ``at``. ``saved`` is the work at the last checkpoint.

    ``current`` None: nothing runs.
    """

    work: float
    checkpoint_every: float
    at: float = 0.0
    done: float = 0.0
    saved: float = 0.0
    current: Pass | None = None

    @property
    def finished(self) -> bool:
        """Whether all work is done."""
        return self.done >= self.work

    @property
    def fraction(self) -> float:
        """The fraction of the work that is done."""
        return min(1.0, self.done / self.work)

    @property
    def finishes_at(self) -> float:
        """Second at which the current run will have done all work, infinite while nothing runs."""
        if self.current is None:
            return math.inf
        return self.current.training_from + (self.work - self.current.origin) / self.current.speed

    def begin(self, run: int, at: float, speed: float, restart_seconds: float) -> Training:
        """Start training from the checkpoint, ``restart_seconds`` after all pods of a run are running.

        Raises ValueError if another run is training.
        """
        if self.current is not None:
            raise ValueError(f"run {run} begins while run {self.current.run} is training: two runs at a time")
        begun = Pass(run, at, at + restart_seconds, speed, self.saved)
        return replace(self, at=at, done=self.saved, current=begun)

    def advance(self, at: float) -> Training:
        """Return the training at second ``at``, unchanged if that is in the past."""
        if at <= self.at:
            return self
        if self.current is None:
            return replace(self, at=at)
        trained = max(0.0, at - self.current.training_from)
        done = min(self.work, self.current.origin + trained * self.current.speed)
        kept = math.floor(trained / self.checkpoint_every) * self.checkpoint_every * self.current.speed
        saved = max(self.saved, min(self.work, self.current.origin + kept))
        return replace(self, at=at, done=self.work if at >= self.finishes_at else done, saved=saved)

    def stop(self, at: float) -> Training:
        """Stop the pods in an orderly way: they write a checkpoint and end."""
        stopped = self.advance(at)
        return replace(stopped, saved=stopped.done, current=None)

    def crash(self, at: float) -> Training:
        """End the pods without warning: training falls back to the last checkpoint."""
        crashed = self.advance(at)
        if crashed.finished:
            return replace(crashed, saved=crashed.work, current=None)
        return replace(crashed, done=crashed.saved, current=None)
