"""The interface of what learns from reports and knows the batch size that a job should use: the controller."""

from __future__ import annotations

from typing import Protocol

from charterer.domain.ids import JobId
from charterer.domain.time import Instant
from charterer.server.progress import ProgressReport


class BatchAdvisor(Protocol):
    """Receives every report that was accepted, and answers at once and from memory; it never raises."""

    def handle_report(self, job_id: JobId, run: int, report: ProgressReport, at: Instant) -> int | None:
        """The total batch size that the job should use from now on; None where it should keep its own."""
        ...
