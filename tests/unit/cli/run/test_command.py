"""``charterer run --dry-run``: what the command line is understood as, without a cluster."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from charterer.cli.main import main
from tests.unit.cli.run.repository import repository


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a script, no cluster, and nothing that leads to one."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(repository(tmp_path / "code", {"train.py": "print(1)"}))
    return tmp_path / "code"


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", "--dry-run", *arguments])


def job_of(*arguments: str) -> dict[str, Any]:
    result = ran(*arguments)
    assert result.exit_code == 0, result.output
    job: dict[str, Any] = list(yaml.safe_load_all(result.stdout))[-1]
    return job


def test_the_command_is_all_after_the_first_word_that_is_no_option() -> None:
    for dashes in (["--"], []):
        job = job_of("--gpus", "4..32", "--image", "a:1", *dashes, "torchrun", "train.py", "--gpus", "8", "--", "-n")
        assert job["spec"]["gpus"] == {"min": 4, "max": 32}
        (trainer,) = job["spec"]["template"]["spec"]["containers"]
        assert trainer["command"] == ["torchrun", "train.py", "--gpus", "8", "--", "-n"]


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        (["torchrun", "train.py"], "train"),
        (["python", "-m", "sft"], "python"),
        (["bash", "-c", "x"], "bash"),
        (["./7_Fine-Tune it.sh"], "fine-tune-it"),
        (["x" * 80], "x" * 39),
        (["日本"], "job"),
    ],
)
def test_the_name_is_the_scripts_and_never_the_same(command: list[str], stem: str) -> None:
    first, second = (job_of("--gpus", "1", "--image", "a:1", "--", *command)["metadata"]["name"] for _ in range(2))
    assert first != second
    assert re.fullmatch(rf"{stem}-[a-z0-9]{{5}}", first)
    assert re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", first)
    assert len(first) <= 45


def test_with_name_image_and_namespace_the_manifest_is_the_same_again() -> None:
    asked = ("--gpus", "1", "--image", "a:1", "--name", "sft", "-n", "research", "--", "python", "train.py")
    assert ran(*asked).stdout == ran(*asked).stdout
    assert job_of(*asked)["metadata"] == {"name": "sft", "namespace": "research"}


def test_without_code_the_manifest_is_one_object(here: Path) -> None:
    asked = ("--gpus", "1", "--image", "a:1", "--no-code", "--", "python", "train.py")
    assert ran(*asked).stdout.startswith("apiVersion: charterer.dev/v1alpha1\n")
    assert "initContainers" not in job_of(*asked)["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--", "python"], "Missing option '--gpus'"),
        (["--gpus", "1"], "Missing argument"),
        (["--gpus", "0", "x"], "'0': write a number of GPUs, 4, or the least and the most, 4..32"),
        (["--gpus", "8..4", "x"], "'8..4': write a number of GPUs"),
        (["--gpus", "4-32", "x"], "'4-32': write a number of GPUs"),
        (["--gpus", "1", "--env", "A", "x"], "'A': write NAME=VALUE"),
        (["--gpus", "1", "--env", "A-B=1", "x"], "'A-B=1': write NAME=VALUE"),
        (["--gpus", "1", "--volume", "ck:relative", "x"], "'ck:relative': write CLAIM:/PATH"),
        (["--gpus", "1", "--max-cost", "0", "x"], "can never run"),
        (["--gpus", "1", "--max-cost", "twenty", "x"], "'twenty' is no amount of money"),
        (["--gpus", "1", "--max-cost", "60.000", "x"], "may be meant as thousands: write 60000, or 60.0000"),
        (["--gpus", "1", "--complete-by", "tomorrow", "x"], "write date and time with a zone"),
        (["--gpus", "1", "--complete-by", "2026-12-01T18:00:00", "x"], "has no time zone"),
        (["--gpus", "1", "--resize", "Sometimes", "x"], "'Never', 'Restart', 'InPlace'"),
        (["--gpus", "1", "--git", "HEAD", "--no-code", "x"], "exclude each other"),
    ],
)
def test_what_is_wrong_is_named_with_what_to_write(arguments: list[str], wanted: str) -> None:
    result = ran(*arguments)
    assert result.exit_code == 1
    assert wanted in result.output


def test_without_an_image_a_cluster_is_asked_for_the_default() -> None:
    result = ran("--gpus", "1", "--", "python", "train.py")
    assert result.exit_code == 1
    assert "kubeconfig" in result.output.lower()


def test_a_variable_that_may_be_secret_is_said() -> None:
    given = "--env", "WANDB_API_KEY=x", "--env", "HF_TOKEN=y"
    told = ran("--gpus", "1", "--image", "a:1", *given, "--", "python", "t.py")
    assert "Warning: HF_TOKEN, WANDB_API_KEY may be secret" in told.stderr
    plain = ran("--gpus", "1", "--image", "a:1", "--env", "TOKENIZERS_PARALLELISM=x", "--", "python", "t.py")
    assert "secret" not in plain.stderr


def test_an_amount_of_three_decimals_is_written_so_that_nobody_takes_it_for_thousands() -> None:
    asked = ("--gpus", "1", "--image", "a:1", "--max-cost", "12.3450", "--", "python", "train.py")
    assert job_of(*asked)["spec"]["maxCost"] == "12.3450"
