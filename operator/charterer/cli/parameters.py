"""What a shell completes: the options and arguments of each command, without the command, whose import takes seconds.

``parameters.json`` beside this module has them; ``make generated`` writes it from the commands (tests/parameters.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click

FILE: Final = Path(__file__).with_suffix(".json")


def stand_in(name: str) -> click.Command:
    """A command with the parameters of the real one, that completes as it does and does nothing."""
    return click.Command(name, params=[_parameter(each) for each in json.loads(FILE.read_text())[name]])


def _parameter(told: dict[str, Any]) -> click.Parameter:
    choices = told.get("choices")
    kind = click.Choice(choices) if choices else click.Path() if told.get("path") else None
    values: dict[str, Any] = {
        "type": kind,
        "nargs": told.get("nargs", 1),
        "shell_complete": _completer(told.get("names", "")),
    }
    if "options" not in told:
        return click.Argument([told["name"]], required=False, **values)
    if told.get("flag"):
        values = {"is_flag": True}
    help_text, multiple = told.get("help"), told.get("multiple", False)
    return click.Option([told["name"], *told["options"]], help=help_text, multiple=multiple, **values)


def _completer(names: str) -> Any:
    if not names:
        return None
    from charterer.tools.commands.shared import completion

    return getattr(completion, names)
