"""Ports for programs that bind them later."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.testbed import ports

ROOT = Path(__file__).parents[3]


def test_no_port_is_one_that_linux_gives_to_connections() -> None:
    assert ports.reserve() < 32_768


def test_another_process_does_not_get_it_before_the_program_listens() -> None:
    taken = ports.reserve()
    only = f"ports._PORTS, ports._TRIES = range({taken}, {taken + 1}), 1"
    elsewhere = [sys.executable, "-c", f"from tests.testbed import ports; {only}; ports.reserve()"]
    ended = subprocess.run(elsewhere, cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"from {taken} to {taken} none is free at 127.0.0.1" in ended.stderr
