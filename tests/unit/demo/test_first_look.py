"""The simulation that the demo starts: where it fails, the demo says why."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from demo.first_look import look
from demo.programs import DemoError
from demo.scenario import an_hour


async def test_a_simulation_that_fails_ends_the_demo_with_its_words(tmp_path: Path) -> None:
    console = Console(file=io.StringIO())
    with pytest.raises(DemoError, match=r"(?s)demo\.simulated ended with code 2: .*missing\.json"):
        await look(an_hour(30), tmp_path / "missing.json", tmp_path, console, console.print)
