"""Commands that pages, charts and messages name exist, with the options that stand beside them."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from charterer.cli.main import main
from tests.unit.docs.test_links import PAGES, PROGRAMS, short_name

FILES = [*(page for page in PAGES if page.name != "CHANGELOG.md"), *PROGRAMS]
CALL = re.compile(r"(?<![\w./-])(?:kubectl )?charterer (?P<command>[a-z]+)(?P<rest>(?:[ \t]+(?!#)[^\s|;&`]+)*)")
OPTION = re.compile(r"(?<!\S)(--?[a-z][a-z-]*)")


def calls(file: Path) -> list[tuple[str, list[str]]]:
    """The commands of code blocks and of words between backticks, with their options; continued lines are one."""
    text = file.read_text().replace("\\\n", " ")
    code = [*re.findall(r"`([^`\n]+)`", text), *re.findall(r"^ {4,}(?:\$ )?(charterer .*)$", text, flags=re.MULTILINE)]
    code += [line for block in re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL) for line in block.splitlines()]
    found = [CALL.match(line.strip()) for line in code]
    return [(call["command"], OPTION.findall(call["rest"])) for call in found if call is not None]


def options(command: click.Command) -> set[str]:
    """The options that a command takes."""
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {
        "-h",
        "--help",
    }


@pytest.mark.parametrize("file", [file for file in FILES if calls(file)], ids=short_name)
def test_every_command_that_is_named_exists_with_its_options(file: Path) -> None:
    context = click.Context(main)
    for name, given in calls(file):
        command = main.get_command(context, name)
        assert command is not None, name
        assert set(given) <= options(command), name


def test_the_commands_of_the_pages_are_found() -> None:
    found = [call for page in PAGES for call in calls(page)]
    assert len(found) > 60
    assert ("logs", ["-n", "--follow"]) in found
    assert {name for name, _ in found} >= {"plan", "explain", "doctor", "logs", "drain", "simulate", "fakecloud"}
