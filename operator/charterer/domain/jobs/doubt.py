"""A doubt about what the status of a job says."""

from __future__ import annotations

from typing import NamedTuple

from charterer.domain.ids import RentalId


class Doubt(NamedTuple):
    """A rental that a job's status names and that is not believed to be the job's, and why, as a sentence."""

    rental: RentalId
    why: str
