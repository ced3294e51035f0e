"""Functions that record measurements of a step in this process's session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

from charterer_trainer.session import current

_T = TypeVar("_T")


def phase(part: str) -> AbstractContextManager[None]:
    """See Session.phase."""
    return current().phase(part)


def loading(batches: Iterable[_T]) -> Iterator[_T]:
    """See Session.loading: ``for batch in charterer_trainer.loading(loader)``."""
    return current().loading(batches)


def spent(part: str, seconds: float) -> None:
    """See Session.spent."""
    current().spent(part, seconds)


def gradient(sqr: float, var: float) -> None:
    """See Session.gradient."""
    current().gradient(sqr, var)
