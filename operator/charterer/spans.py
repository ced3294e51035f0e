"""A span of a trace: the time between the begin and the end of a context; nothing where nobody collects traces."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol


class Span(Protocol):
    """Makes the context of one span, inside the one that it is made in. An error that leaves it is in the trace."""

    def __call__(
        self, name: str, attributes: Mapping[str, str], *, outgoing: bool = False
    ) -> AbstractContextManager[object]:
        """``name``: one of few. ``outgoing``: it waits for another server."""


_NOTHING: Final = nullcontext()


def no_span(name: str, attributes: Mapping[str, str], *, outgoing: bool = False) -> AbstractContextManager[object]:
    """The same context each time, which does nothing."""
    return _NOTHING
