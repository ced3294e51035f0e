"""All mistakes in files are told at once, so that a person corrects a file once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

_SHOWN: Final = 10
"""Mistakes that are told; of more, the number is."""


class AllFaults:
    """The mistakes of several documents, in order."""

    def __init__(self) -> None:
        self._found: list[str] = []

    @contextmanager
    def of_one(self) -> Iterator[None]:
        """Goes on after a ClickException, which is kept."""
        try:
            yield
        except click.ClickException as error:
            self._found.append(error.message)

    def tell(self) -> None:
        """ClickException with all of them, if there is any."""
        if self._found:
            more = len(self._found) - _SHOWN
            raise click.ClickException("; ".join([*self._found[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]))
