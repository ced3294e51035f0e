"""What was counted of a pool's nodes: for people in GPUPool.status.launches, and in full in its machineState."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field

from charterer.api.models.base import ApiModel, Time
from charterer.api.models.machine_state import MachineContent
from charterer.domain.nodes.waits import NO_ANSWERS, SLOTS, Answers, availability
from charterer.domain.pool import Pool
from charterer.domain.time import Instant

_Sum = Annotated[float, Field(ge=0, le=1e12)]
_Week = Annotated[tuple[_Sum, ...], Field(min_length=SLOTS, max_length=SLOTS)]
_Hour = Annotated[int, Field(ge=-1, le=10_000_000)]
_DIGITS: Final = 4
"""Digits of hours that are recorded: a ten-thousandth of an hour's answer decides nothing."""


class AnswerStatistics(ApiModel):
    """``domain.nodes.waits.Answers``."""

    given: _Week
    refused: _Week
    last_given: _Hour
    last_refused: _Hour
    starts: _Sum
    logs: _Sum
    squares: _Sum
    queued: _Sum
    through: Time | None = None
    at: Time

    @classmethod
    def from_domain(cls, answers: Answers) -> Self | None:
        """The statistics as they are recorded; None where nothing was counted."""
        if answers.at is None:
            return None
        return cls(
            given=tuple([round(hours, _DIGITS) for hours in answers.given]),
            refused=tuple([round(hours, _DIGITS) for hours in answers.refused]),
            last_given=answers.last_given,
            last_refused=answers.last_refused,
            starts=answers.starts,
            logs=answers.logs,
            squares=answers.squares,
            queued=answers.queued,
            through=answers.through,
            at=answers.at,
        )

    def to_domain(self) -> Answers:
        """The statistics as they were recorded."""
        return Answers(
            self.given,
            self.refused,
            self.last_given,
            self.last_refused,
            self.starts,
            self.logs,
            self.squares,
            self.queued,
            self.through,
            self.at,
        )


class LaunchesStatus(ApiModel):
    """What the pool's refusals and starts have been."""

    available_percent: Annotated[int, Field(ge=0, le=100)]
    """Chance that a node can be had in this hour of the week, in percent."""
    start_seconds: Annotated[int, Field(ge=0)]
    """Expected seconds from a node's launch until it is ready for pods."""
    hours_seen: Annotated[int, Field(ge=0)]
    """Hours in which nodes were asked for. Older ones count for less: half after four weeks."""
    starts_seen: Annotated[int, Field(ge=0)]
    """Nodes whose start was seen. Older ones count for less: half after four weeks."""

    @classmethod
    def from_domain(cls, pool: Pool, now: Instant) -> Self:
        """As of this hour."""
        return cls(
            available_percent=round(100.0 * availability(pool.known_answers, now)),
            start_seconds=round(pool.likely_start_seconds),
            hours_seen=round(pool.known_answers.hours),
            starts_seen=round(pool.answers.starts),
        )


class PoolStatistics(MachineContent):
    """Each part by itself: None where nothing was counted."""

    answers: AnswerStatistics | None = None

    @classmethod
    def from_domain(cls, answers: Answers) -> Self | None:
        """All parts; None where nothing was counted."""
        parts = cls(answers=AnswerStatistics.from_domain(answers))
        return None if parts == cls() else parts

    @property
    def known_answers(self) -> Answers:
        """What was counted of refusals and starts."""
        return NO_ANSWERS if self.answers is None else self.answers.to_domain()

    def smaller(self) -> Self | None:
        """Nothing: its size is bounded."""
        return None
