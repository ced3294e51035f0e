"""The interface to knowledge of the job classes: what the world asks, and the room ``knowledge`` implements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from charterer.domain.ids import ClassId
from charterer.domain.profile import Profile
from charterer.domain.time import Instant
from charterer.simulate.model.sim_job import SimJob


class Knowledge(Protocol):
    """The profiles of the classes, and what trainers' reports add to them."""

    @property
    def report_seconds(self) -> float:
        """Seconds between two reports of a job in training; infinite where reports carry no news."""

    def profiles(self) -> Mapping[ClassId, Profile]:
        """The profiles as of now; the same objects as long as nothing changed."""

    def expected_work(self, job: SimJob) -> float | None:
        """The whole work of a job as expected now, in reference seconds of its class's profile; None if unknown."""

    def batch(self, job: SimJob) -> int:
        """The total batch size with which a job trains from now on; 0: the best one of each epoch."""

    def receive_report(self, job: SimJob, at: Instant) -> None:
        """A job in training reports."""
