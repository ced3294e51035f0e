"""Groups of command-line options that reach a command as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

F = TypeVar("F", bound=Callable[..., object])


def option_group(parameter: str, group: type[DataclassInstance], *options: Callable[..., Any]) -> Callable[[F], F]:
    """Add ``options`` to a command, and pass their values as one ``group`` object, the argument ``parameter``.

    ``options``: what ``click.option`` returns, in the order of --help; their names are those of the group's fields.
    """
    names = [field.name for field in fields(group)]

    def decorate(command: F) -> F:
        @wraps(command)
        def grouped(**values: Any) -> object:
            chosen = {name: values.pop(name) for name in names}
            return command(**values, **{parameter: group(**chosen)})

        decorated: Any = grouped
        for option in reversed(options):
            decorated = option(decorated)
        result: F = decorated
        return result

    return decorate
