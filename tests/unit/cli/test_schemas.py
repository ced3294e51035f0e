"""Each command that prints JSON has a published schema, and every answer of these tests is held against its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from charterer.cli.main import _COMMANDS, main
from charterer.tools.commands.shared.answers import ANSWERS
from charterer.tools.commands.shared.answers import main as write_schemas

ROOT = Path(__file__).parents[3]
FOUND = {"subject": "price", "ok": True, "message": "known"}


def prints_json(command: str) -> bool:
    found = main.get_command(click.Context(main), command)
    assert found is not None
    kinds = [option.type for option in found.params if option.name in ("output", "shown")]
    return any(isinstance(kind, click.Choice) and "json" in kind.choices for kind in kinds)


def test_exactly_the_commands_that_print_json_have_a_schema_which_their_page_names() -> None:
    assert {command for command in _COMMANDS if prints_json(command)} == set(ANSWERS)
    named = re.findall(r"\]\(schemas/([a-z]+)\.json\)", (ROOT / "docs/cli.md").read_text())
    assert sorted(named) == sorted(ANSWERS)


@pytest.mark.parametrize(
    ("finding", "wrong"),
    [
        (FOUND | {"since": "today"}, "'since' was unexpected"),
        (FOUND | {"ok": "yes"}, "'yes' is not of type 'boolean'"),
        ({"ok": True, "message": "known"}, "'subject' is a required property"),
    ],
)
def test_an_answer_that_its_schema_does_not_describe_fails_the_test_that_asks(
    finding: dict[str, Any], wrong: str
) -> None:
    @click.command()
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        click.echo(json.dumps({"pools": [{"pool": "a100", "ok": True, "findings": [finding]}]}))

    with pytest.raises(AssertionError, match=wrong):
        CliRunner().invoke(command, ["preflight", "--", "-o", "json"])


def test_a_stale_schema_and_one_of_no_command_are_named(tmp_path: Path) -> None:
    assert CliRunner().invoke(write_schemas, [str(tmp_path)]).exit_code == 0
    assert CliRunner().invoke(write_schemas, [str(tmp_path), "--check"]).exit_code == 0
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "plans.json").write_text("{}")
    done = CliRunner().invoke(write_schemas, [str(tmp_path), "--check"])
    assert (done.exit_code, re.findall(r"(\w+)\.json", done.output)) == (1, ["plan", "plans"])
