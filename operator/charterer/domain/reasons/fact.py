"""What every fact can do."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Fact(ABC):
    """Why something was decided: data, and the one sentence that tells it. All facts can be compared and hashed."""

    __slots__ = ()

    @abstractmethod
    def sentence(self) -> str:
        """The fact in words, for people, with the numbers."""
