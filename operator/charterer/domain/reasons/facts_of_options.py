"""What is known of the option that a job has, or goes to."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import RentalId
from charterer.domain.money import ZERO, Money
from charterer.domain.option import Option
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.phrases import format_duration, name
from charterer.domain.time import Instant, format_minute


@dataclass(frozen=True, slots=True)
class UnknownSpeed(Fact):
    """It has ``option``, and nobody knows how fast others are. ``left``: seconds of work that are assumed."""

    option: Option
    seconds: float
    cost: Money
    left: float

    def sentence(self) -> str:
        return (
            f"{name(self.option)}: {format_duration(self.seconds)} for {self.cost} if "
            f"{format_duration(self.left)} of work are "
            "left; no speedup curve is known yet"
        )


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
class Chosen(Fact):
    """It has ``option``, which takes ``seconds`` to the end and costs ``cost``.

    ``faster``: the next faster option; ``fastest``: whether there is none on its menu. Neither, where its option is on
    the menu no more.
    """

    option: Option
    seconds: float
    cost: Money
    faster: Faster | None
    fastest: bool

    def sentence(self) -> str:
        faster = "" if self.faster is None else f"; {_faster(self.faster)}"
        fastest = "; nothing on its menu is faster" if self.fastest else ""
        return f"{name(self.option)}: {format_duration(self.seconds)} for {self.cost}{faster}{fastest}"


@dataclass(frozen=True, slots=True)
class MovePays(Fact):
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

    def sentence(self) -> str:
        if self.saved < 0:
            saves = f"save {-self.cost} for {format_duration(-self.saved)} more"
        else:
            dollars = f"and {-self.cost}" if self.cost < ZERO else f"for {self.cost}"
            saves = f"save {format_duration(self.saved)} {dollars}"
        pays = "any price" if self.pays is None else self.pays
        return (
            f"with {format_duration(self.left)} left on {name(self.here)}, {name(self.to)} {saves}, restart included; "
            f"the budget pays {pays} per hour saved"
        )


@dataclass(frozen=True, slots=True)
class MakesRoom(Fact):
    """It goes from ``here`` to ``to`` for jobs that wait, ends ``later`` seconds later, and costs ``cost`` more."""

    to: Option
    here: Option
    later: float
    cost: Money

    def sentence(self) -> str:
        cost = f"{max(self.cost, -self.cost)} {'more' if self.cost > ZERO else 'less'}"
        return (
            f"{name(self.to)} instead of {name(self.here)}, to make room for jobs that wait: this job ends "
            f"{format_duration(self.later)} later for {cost}, and their time is worth more"
        )


@dataclass(frozen=True, slots=True)
class NodeEmptied(Fact):
    """It goes to another node so that its own can be given back."""

    option: Option
    here: RentalId
    to: RentalId
    saved: Money

    def sentence(self) -> str:
        return (
            f"{name(self.option)}: from {self.here} to {self.to}, so that {self.here} can be given back, which saves "
            f"{self.saved}, restarts included"
        )


@dataclass(frozen=True, slots=True)
class SlowNode(Fact):
    """It gets another node instead of ``here``, on which its pod ``pod`` computes ``times`` as long as the others."""

    option: Option
    here: RentalId
    pod: int | None
    times: float
    seconds: float
    saved: Money

    def sentence(self) -> str:
        return (
            f"{name(self.option)}: another node instead of {self.here}, on which pod {self.pod} "
            f"computes {self.times:.2f} "
            f"times as long as the others; that saves {format_duration(self.seconds)} and "
            f"{self.saved} in time and money, "
            "the restart included"
        )


@dataclass(frozen=True, slots=True)
class HadNow(Fact):
    """An option that the job could have now. On it, it would end ``later`` seconds later, for ``more``."""

    option: Option
    later: float
    more: Money

    def sentence(self) -> str:
        when = f"{format_duration(abs(self.later))} {'later' if self.later >= 0.0 else 'earlier'}"
        cost = f"{max(self.more, -self.more)} {'more' if self.more > ZERO else 'less'}"
        return f"on {name(self.option)}, which it could have now, it would end {when} for {cost}"


@dataclass(frozen=True, slots=True)
class WholeNode(Fact):
    """Whole nodes are paid for: with ``instead`` those of all jobs in sight would cost ``saved`` more (negative: less),
    and this job would end ``sooner`` seconds later (negative: sooner).
    """

    instead: Option
    saved: Money
    sooner: float

    def sentence(self) -> str:
        cost = f"{max(self.saved, -self.saved)} {'more' if self.saved > ZERO else 'less'}"
        when = f"{format_duration(abs(self.sooner))} {'later' if self.sooner >= 0.0 else 'sooner'}"
        return (
            f"nodes are paid for as a whole: with {name(self.instead)} those of all jobs in sight "
            f"would cost {cost}, and "
            f"this job would end {when}"
        )


@dataclass(frozen=True, slots=True)
class RestartedAtOnce(Fact):
    """It restarts on what is there."""

    option: Option

    def sentence(self) -> str:
        return f"restarted at once on {name(self.option)}"


@dataclass(frozen=True, slots=True)
class RunsMeanwhile(Fact):
    """It runs on the nodes that are ready until all nodes for ``wanted`` are."""

    option: Option
    wanted: Option

    def sentence(self) -> str:
        return f"it runs on {name(self.option)} until the other nodes for {name(self.wanted)} are ready"


@dataclass(frozen=True, slots=True)
class TargetKept(Fact):
    """Its target is met, as far as can be told."""

    target: Instant

    def sentence(self) -> str:
        return f"target {format_minute(self.target)}"


@dataclass(frozen=True, slots=True)
class TargetNotPaid(Fact):
    """The budget does not pay for its target: on the fastest path that it pays for it ends at ``end``."""

    target: Instant
    end: Instant

    def sentence(self) -> str:
        return (
            f"target {format_minute(self.target)} cannot be met with what is left of the budget: the fastest path "
            f"that it pays for ends {format_minute(self.end)}"
        )


@dataclass(frozen=True, slots=True)
class TargetOutOfReach(Fact):
    """Its target counts as none: even the fastest path ends much later, at ``end``."""

    target: Instant
    end: Instant

    def sentence(self) -> str:
        return (
            f"target {format_minute(self.target)} cannot be met, so the job is planned as one without a target: "
            f"the fastest path ends {format_minute(self.end)}"
        )


@dataclass(frozen=True, slots=True)
class TargetMissed(Fact):
    """Its target is missed by little: the fastest path ends at ``end``."""

    target: Instant
    end: Instant

    def sentence(self) -> str:
        return f"target {format_minute(self.target)} cannot be met: the fastest path ends {format_minute(self.end)}"


TargetFact = TargetKept | TargetNotPaid | TargetOutOfReach | TargetMissed
"""What is expected of a job's target."""


def _faster(way: Faster) -> str:
    return (
        f"{name(way.option)} would save {format_duration(way.saved)} for {way.more}, {way.hourly} per hour saved, "
        f"and the budget pays up to {way.pays}"
    )
