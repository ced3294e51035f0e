"""An event simulation of one job on spot nodes, made without the formulas: it knows seconds and draws, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass
class InterruptedJob:
    """Nodes die at ``per_hour`` in all; the fraction ``together`` of that takes all of them. ``narrower``: speed with
    one node less, None where the job waits for a new node instead. Times are seconds.
    """

    per_hour: float
    together: float
    write: float
    restart: float
    boot: float
    interval: float
    narrower: float | None
    random: Random

    def speed(self, hours: float) -> float:
        """Work a second that is not lost, of a job that would do 1 a second without interruptions."""
        rate, until = self.per_hour / 3600.0, hours * 3600.0
        clock, work, boots_at, ready_at, since_checkpoint = 0.0, 0.0, 0.0, 0.0, 0.0
        dies_at = self.random.expovariate(rate)
        while clock < until:
            shrunk = clock < boots_at
            speed = (self.narrower or 1.0) if shrunk else 1.0
            written_at = max(clock, ready_at) + (self.interval - since_checkpoint) + self.write
            happens = min(written_at, dies_at, boots_at if shrunk else written_at)
            if happens == dies_at:
                all_of_them = self.narrower is None or self.random.random() < self.together
                boots_at = 0.0 if all_of_them else dies_at + self.boot
                ready_at = dies_at + self.restart + (self.boot if all_of_them else 0.0)
                since_checkpoint = 0.0
                dies_at = happens + self.random.expovariate(rate)
            elif happens == written_at:
                work += speed * self.interval - (speed * since_checkpoint)
                since_checkpoint = 0.0
            else:  # the new node is there: a checkpoint, and on with all
                trained = max(boots_at - max(clock, ready_at), 0.0)
                work += speed * trained
                ready_at = boots_at + self.write + self.restart
                since_checkpoint = 0.0
            clock = happens
        return work / clock
