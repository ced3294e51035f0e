"""The object that a TrainingJob stands for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from charterer.api.models.base import ApiModel
from charterer.domain.jobs.target import TargetRef

_Word = Annotated[str, Field(min_length=1, max_length=253)]


class TargetRefSpec(ApiModel):
    """An object of the job's namespace that is carried out in the place of runs of its own."""

    api_version: _Word
    """Group and version of its kind, such as batch/v1."""
    kind: _Word
    """Its kind, such as Job."""
    name: _Word
    """Its name."""
    uid: _Word
    """Its uid: an object of the same name that is created later is another one."""
    queued: bool = False
    """True if it waits in a queue of Kueue, which starts and stops it."""
    sized: bool = False
    """True if it waits in a queue and has the annotation charterer.dev/gpus, so that its width is Charterer's."""

    def to_domain(self) -> TargetRef:
        """The reference."""
        return TargetRef(self.api_version, self.kind, self.name, self.uid, self.queued, self.sized)
