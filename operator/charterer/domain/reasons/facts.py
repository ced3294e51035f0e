"""The facts of a reason: data only. ``sentences`` says them."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.option import Option
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.phrases import name


@dataclass(frozen=True, slots=True)
class Both(Fact):
    """Facts that are told one after the other."""

    first: Fact
    then: Fact

    def sentence(self) -> str:
        return f"{self.first.sentence()}; {self.then.sentence()}"


@dataclass(frozen=True, slots=True)
class Wanted(Fact):
    """A job waits for ``option``, because of ``why``."""

    option: Option
    why: Fact

    def sentence(self) -> str:
        return f"{name(self.option)} wanted: {self.why.sentence()}"


@dataclass(frozen=True, slots=True)
class RunsOn(Fact):
    """A job runs on, but could not start again because of ``why``."""

    why: Fact

    def sentence(self) -> str:
        return f"it runs on, but could not start again: {self.why.sentence()}"


@dataclass(frozen=True, slots=True)
class OnlyObserved(Fact):
    """The budget only observes, so that what would follow from ``why`` is not done."""

    why: Fact

    def sentence(self) -> str:
        return f"nothing is done in mode Observe: {self.why.sentence()}"
