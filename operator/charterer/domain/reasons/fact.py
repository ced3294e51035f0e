"""The base class of facts, which are reasons of decisions, and facts that contain other facts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from charterer.domain.option import Option
from charterer.domain.reasons.phrases import name


class Fact(ABC):
    """The reason of a decision: data, and a sentence made of it. All facts are comparable and hashable."""

    __slots__ = ()

    @abstractmethod
    def sentence(self) -> str:
        """The fact as a sentence for people, with the numbers."""


# Facts that contain other facts.


@dataclass(frozen=True, slots=True)
class Both(Fact):
    """Two facts, whose sentences follow each other."""

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
    """A job is running, but could not start again because of ``why``."""

    why: Fact

    def sentence(self) -> str:
        return f"it runs on, but could not start again: {self.why.sentence()}"


@dataclass(frozen=True, slots=True)
class OnlyObserved(Fact):
    """The budget only observes, so the consequence of ``why`` is not carried out."""

    why: Fact

    def sentence(self) -> str:
        return f"nothing is done in mode Observe: {self.why.sentence()}"
