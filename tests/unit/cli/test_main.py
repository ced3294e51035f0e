"""What all commands have in common: exit codes, suggestions, completion."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from charterer.cli.main import main


@pytest.mark.parametrize(
    "arguments",
    [["nosuch"], ["--nosuch"], ["plan", "--nosuch"], ["simulate", "/nope.csv"], ["explain"], ["completion", "dos"]],
    ids=" ".join,
)
def test_wrong_usage_of_any_command_is_an_error_like_any_other(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, arguments).exit_code == 1


def test_a_misspelled_command_brings_similar_ones() -> None:
    assert "no command 'pla': did you mean plan or" in CliRunner().invoke(main, ["pla"]).output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_each_shell_asks_charterer_itself(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"_CHARTERER_COMPLETE={shell}_complete" in done.output


@pytest.mark.parametrize(
    ("words", "offered"),
    [(["charterer", "pl"], "plain,plan"), (["charterer", "plan", "--pic"], "plain,--picture")],
    ids=["command", "option"],
)
def test_commands_and_options_are_completed(words: list[str], offered: str) -> None:
    environment = {
        "_CHARTERER_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = CliRunner().invoke(main, [], env=environment, prog_name="charterer")
    assert done.output.splitlines() == [offered]


def test_a_variable_that_is_typed_wrong_is_told_with_the_one_that_is_read() -> None:
    environment = {"CHARTERER_COST_RECRD": "/costs", "CHARTERER_JOB": "sft", "CHARTERER_COST_RECORD": "/costs"}
    done = CliRunner().invoke(main, ["completion", "bash"], env=environment)
    assert done.exit_code == 0
    assert done.stderr == "The variable CHARTERER_COST_RECRD is not read: did you mean CHARTERER_COST_RECORD?\n"
