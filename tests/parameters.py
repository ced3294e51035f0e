"""Writes what a shell completes, from the commands: ``python -m tests.parameters [--check]``.

With ``--check`` it exits 1 if the file is stale.
"""

from __future__ import annotations

import json
from typing import Any, Final

import click

from charterer.cli.main import main as charterer
from charterer.cli.parameters import FILE
from charterer.tools.commands.shared import completion

_COMPLETERS: Final = ("pool_names", "budget_names", "namespace_names", "profile_names", "job_names")


def told_of(parameter: click.Parameter) -> dict[str, Any]:
    """A parameter as the file has it: what differs from an argument of one free text."""
    option = parameter if isinstance(parameter, click.Option) else None
    completers = {id(getattr(completion, name)): name for name in _COMPLETERS}
    told = {
        "name": parameter.name,
        "help": option and option.help,
        "flag": option and (option.is_flag or option.count),
        "multiple": option and option.multiple,
        "nargs": parameter.nargs if parameter.nargs != 1 else None,
        "path": isinstance(parameter.type, click.Path),
        "choices": isinstance(parameter.type, click.Choice) and list(map(str, parameter.type.choices)),
        "names": completers.get(id(parameter._custom_shell_complete)),
    }
    if option is not None:
        told["options"] = [*option.opts[:-1], "/".join([option.opts[-1], *option.secondary_opts])]
    return {key: value for key, value in told.items() if value}


def table() -> str:
    """The file's text, with a line for each parameter."""
    context = click.Context(charterer)
    blocks = []
    for name in charterer.list_commands(context):
        command = charterer.get_command(context, name)
        assert command is not None
        shown = [each for each in command.params if not getattr(each, "hidden", False)]
        lines = ",\n".join(f"  {json.dumps(told_of(each), ensure_ascii=False)}" for each in shown)
        blocks.append(f"{json.dumps(name)}: [\n{lines}\n]" if lines else f"{json.dumps(name)}: []")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the file is stale.")
def main(check: bool) -> None:
    """Write the file."""
    text = table()
    if not check:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        raise click.ClickException(f"stale: {FILE.name}; run `make generated`")


if __name__ == "__main__":
    main()
