"""The fake cloud's command: its first lines, and its help."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner

from charterer.cli.main import main as charterer
from charterer.tools.fakecloud.cloud import FakeAccount
from charterer.tools.fakecloud.config import Faults, load_config
from charterer.tools.fakecloud.http import Api
from charterer.tools.fakecloud.main import main
from charterer.tools.fakecloud.state import State
from tests.unit.cli.test_hostile_files import HOSTILE, is_one_sentence

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/fakecloud.yaml"
CALL = re.compile(r"curl (?:-X (?P<method>[A-Z]+) )?localhost:8080(?P<path>/\S+)(?: -d '(?P<body>.*)')?")

GROUPS = """
groups:
- {name: a100, instanceType: fake.a100-4x, gpuType: A100, gpusPerInstance: 4, zone: z, hourlyPrice: "12.00", maxSize: 1}
"""


@pytest.mark.parametrize("groups", ["", GROUPS], ids=["none", "one"])
def test_a_cloud_without_groups_says_that_nothing_can_be_rented_from_it(tmp_path: Path, groups: str) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text(groups or "{}")
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that the command ends
        said = CliRunner().invoke(main, ["--config", str(file), "--listen", f"127.0.0.1:{taken.getsockname()[1]}"])
    assert "cannot listen on" in said.output
    assert ("there are no groups, so nothing can be rented: give --config" in said.output) is (not groups)


async def statuses(calls: list[re.Match[str]]) -> list[int]:
    """The status of the answer to each call."""
    cloud = FakeAccount(State(None, lambda: None), lambda: 0, load_config(EXAMPLE))
    async with TestClient(TestServer(Api(cloud, Faults(0), None).application())) as client:
        answers = [await client.request(call["method"] or "GET", call["path"], data=call["body"]) for call in calls]
        return [answer.status for answer in answers]


def test_the_calls_in_the_help_succeed() -> None:
    calls = list(CALL.finditer(CliRunner().invoke(main, ["--help"]).output))
    assert len(calls) == 4
    assert asyncio.run(statuses(calls)) == [200] * 4


@pytest.mark.parametrize("body", [b"\xff\xfe{}", b"[" * 20_000], ids=["no text", "deep"])
def test_a_body_that_is_no_json_is_a_bad_request(body: bytes) -> None:
    async def put() -> int:
        cloud = FakeAccount(State(None, lambda: None), lambda: 0, load_config(EXAMPLE))
        async with TestClient(TestServer(Api(cloud, Faults(0), None).application())) as client:
            return (await client.put("/v1/groups/a100-on-demand/target", data=body)).status

    assert asyncio.run(put()) == 400


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("kubeconfig", "a: [", "is not valid YAML"),
        ("kubeconfig", "", "there is no"),
        ("state", "no database\n" * 200, "or is it another file"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_error(name: str, content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(content)
    said = CliRunner().invoke(main, [f"--{name}", str(tmp_path / "file")])
    assert (said.exit_code, "Traceback" in said.output) == (1, False)
    assert told in said.output


def test_a_port_that_does_not_exist_is_refused() -> None:
    assert "write HOST:PORT" in CliRunner().invoke(main, ["--listen", "127.0.0.1:70000"]).output


@pytest.mark.parametrize("option", ["--config", "--kubeconfig"])
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_none_is_one_sentence(option: str, content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "given"
    file.write_bytes(content)
    is_one_sentence(CliRunner().invoke(charterer, ["fakecloud", option, str(file)]))


def test_what_is_no_file_is_one_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 100 * 2**30)
    for file in (str(tmp_path / "pipe"), str(tmp_path / "large"), "/dev/zero"):
        is_one_sentence(CliRunner().invoke(charterer, ["fakecloud", "--config", file]))
