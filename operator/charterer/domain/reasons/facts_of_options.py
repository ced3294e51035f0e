"""What is known of the option that a job has, or goes to."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import RentalId
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class UnknownSpeed:
    """It has ``option``, and nobody knows how fast others are. ``left``: seconds of work that are assumed."""

    option: Option
    seconds: float
    cost: Money
    left: float


@dataclass(frozen=True, slots=True)
class Faster:
    """A faster option: ``saved`` seconds for ``more`` dollars, which are ``hourly`` for each hour saved.

    ``pays``: what the budget pays for an hour at most.
    """

    option: Option
    saved: float
    more: Money
    hourly: Money
    pays: Money


@dataclass(frozen=True, slots=True)
class Chosen:
    """It has ``option``, which takes ``seconds`` to the end and costs ``cost``.

    ``faster``: the next faster option; ``fastest``: whether there is none on its menu. Neither, where its option is on
    the menu no more.
    """

    option: Option
    seconds: float
    cost: Money
    faster: Faster | None
    fastest: bool


@dataclass(frozen=True, slots=True)
class MovePays:
    """It goes from ``here`` to ``to``, with ``left`` seconds left here.

    That saves ``saved`` seconds (negative: takes more) and costs ``cost`` (negative: saves). ``pays``: what the
    budget pays for an hour; None: any price.
    """

    here: Option
    left: float
    to: Option
    saved: float
    cost: Money
    pays: Money | None


@dataclass(frozen=True, slots=True)
class MakesRoom:
    """It goes from ``here`` to ``to`` for jobs that wait, ends ``later`` seconds later, and costs ``cost`` more."""

    to: Option
    here: Option
    later: float
    cost: Money


@dataclass(frozen=True, slots=True)
class NodeEmptied:
    """It goes to another node so that its own can be given back."""

    option: Option
    here: RentalId
    to: RentalId
    saved: Money


@dataclass(frozen=True, slots=True)
class SlowNode:
    """It gets another node instead of ``here``, on which its pod ``pod`` computes ``times`` as long as the others."""

    option: Option
    here: RentalId
    pod: int | None
    times: float
    seconds: float
    saved: Money


@dataclass(frozen=True, slots=True)
class HadNow:
    """An option that the job could have now. On it, it would end ``later`` seconds later, for ``more``."""

    option: Option
    later: float
    more: Money


@dataclass(frozen=True, slots=True)
class WholeNode:
    """Whole nodes are paid for: with ``instead`` those of all jobs in sight would cost ``saved`` more (negative: less),
    and this job would end ``sooner`` seconds later (negative: sooner).
    """

    instead: Option
    saved: Money
    sooner: float


@dataclass(frozen=True, slots=True)
class RestartedAtOnce:
    """It restarts on what is there."""

    option: Option


@dataclass(frozen=True, slots=True)
class RunsMeanwhile:
    """It runs on the nodes that are ready until all nodes for ``wanted`` are."""

    option: Option
    wanted: Option


@dataclass(frozen=True, slots=True)
class TargetKept:
    """Its target is met, as far as can be told."""

    target: Instant


@dataclass(frozen=True, slots=True)
class TargetNotPaid:
    """The budget does not pay for its target: on the fastest path that it pays for it ends at ``end``."""

    target: Instant
    end: Instant


@dataclass(frozen=True, slots=True)
class TargetOutOfReach:
    """Its target counts as none: even the fastest path ends much later, at ``end``."""

    target: Instant
    end: Instant


@dataclass(frozen=True, slots=True)
class TargetMissed:
    """Its target is missed by little: the fastest path ends at ``end``."""

    target: Instant
    end: Instant


TargetFact = TargetKept | TargetNotPaid | TargetOutOfReach | TargetMissed
"""What is expected of a job's target."""

OptionFact = (
    UnknownSpeed
    | Chosen
    | MovePays
    | MakesRoom
    | NodeEmptied
    | SlowNode
    | HadNow
    | WholeNode
    | RestartedAtOnce
    | RunsMeanwhile
    | TargetFact
)
"""Facts of options."""
