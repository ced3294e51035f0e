"""What the command says when it starts."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from charterer.fakecloud.main import main

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
