"""How a job ended for good."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.time import Instant


class FinishKind(StrEnum):
    """How a job ended for good."""

    COMPLETE = "Complete"
    FAILED = "Failed"


IN_DOUBT = "CompletedInDoubt"
"""``Finish.reason`` of a job whose pods all exited with 0 long before its work was done, as its last report says."""
CANNOT_START = "CannotStart"
"""``Finish.reason`` of a job none of whose last runs ever started."""
START_ATTEMPTS = 3
"""Runs in a row that may fail to start before the job fails. Each holds machines for up to readyTimeoutSeconds."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The job's end, recorded once in its status; no run is started after it."""

    kind: FinishKind
    at: Instant
    reason: str
    message: str

    @property
    def done(self) -> bool:
        """Whether the work is done, as far as is known."""
        return self.kind is FinishKind.COMPLETE and self.reason != IN_DOUBT
