"""The simulation beside the replay."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from demo import run
from tests.unit.demo import samples


async def test_a_simulation_that_a_busy_machine_did_not_get_to_begins_again_at_normal_priority(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = samples.scenario()
    columns = samples.columns(of)
    commands: list[Sequence[str]] = []

    def started(command: Sequence[str]) -> subprocess.Popen[str]:
        commands.append(command)
        program = ["sleep", "600"] if command[0] == "nice" else ["echo", columns.json()]
        return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    monkeypatch.setattr(run, "_started", started)
    simulation = run.Simulation(of, datetime(2026, 1, 1, tzinfo=UTC), None)
    assert not simulation.over
    assert (await simulation.columns()).json() == columns.json()
    assert commands[0][3:] == commands[1]
