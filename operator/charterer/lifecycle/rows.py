"""Tables of steps: rows in the order in which they are asked, which docs/development/lifecycle.md lists by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from charterer.domain.steps import Wait
from charterer.lifecycle.view import LifecycleView

_Subject = TypeVar("_Subject")
_Step = TypeVar("_Step")


@dataclass(frozen=True, slots=True)
class Row(Generic[_Subject, _Step]):
    """One row. ``step``: the next step or what it waits for; None where the row does not apply.

    ``meanwhile``: whether the row is also asked while one above it waits.
    """

    step: Callable[[_Subject, LifecycleView], _Step | Wait | None]
    meanwhile: bool = False


def first_step(rows: Iterable[Row[_Subject, _Step]], subject: _Subject, view: LifecycleView) -> _Step | Wait | None:
    """What the first row says that applies. If that is a wait, rows below that are asked meanwhile may have a step."""
    waits: Wait | None = None
    for row in rows:
        if waits is None or row.meanwhile:
            step = row.step(subject, view)
            if isinstance(step, Wait):
                waits = waits or step
            elif step is not None:
                return step
    return waits
