"""Why something was decided: what every fact can do, and facts of facts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from charterer.domain.option import Option
from charterer.domain.reasons.phrases import name


class Fact(ABC):
    """Why something was decided: data, and the one sentence that tells it. All facts can be compared and hashed."""

    __slots__ = ()

    @abstractmethod
    def sentence(self) -> str:
        """The fact in words, for people, with the numbers."""


# The facts of a reason: data only. ``sentences`` says them.


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
