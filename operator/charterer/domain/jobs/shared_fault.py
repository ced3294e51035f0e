"""That two jobs failed together on a GPU of both, as their records say it."""

from __future__ import annotations

from typing import Final

from charterer.domain.job import Job, RunOutcome

_WORDS: Final = ", with which it shares GPUs by MPS, failed in the same moment"
_MOST: Final = 2
"""Times that two jobs may end each other: the first may be chance, or the fault of what one of them has mended."""


def told_of(other: Job) -> str:
    """What the record of a run says that failed together with a run of the other job."""
    return f"{other.namespace}/{other.name}{_WORDS}"


def end_each_other(one: Job, other: Job) -> bool:
    """Whether the two have ended each other so often that they share no GPU any more."""
    return _times(one, other) >= _MOST or _times(other, one) >= _MOST


def has_partners_to_avoid(job: Job) -> bool:
    """Whether any of its runs failed together with another job's: for most jobs the only question."""
    return any(record.message.endswith(_WORDS) for record in job.records)


def _times(job: Job, other: Job) -> int:
    told = told_of(other)
    return sum([record.outcome is RunOutcome.INTERRUPTED and record.message == told for record in job.records])
