"""Fixtures that every kind of test may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed import prometheus as prometheus_programs
from tests.testbed.build import MissingProgramsError
from tests.testbed.controlplane import ControlPlane


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real control plane, one for each xdist worker. Tests share it: each uses names of its own."""
    try:
        plane = ControlPlane.start(tmp_path_factory.mktemp("control-plane"))
    except MissingProgramsError as error:
        missing = str(error)
    else:
        with plane:
            yield plane
        return
    pytest.fail(missing, pytrace=False)


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus' program that checks rules; a test that wants it is skipped where it is neither found nor built."""
    return _program("promtool")


@pytest.fixture(scope="session")
def prometheus() -> Path:
    """Prometheus' server; a test that wants it is skipped where it is neither found nor built."""
    return _program("prometheus")


def _program(name: str) -> Path:
    found = prometheus_programs.find(name)
    if found is None:
        pytest.skip(f"no {name} on PATH and none built: run `make prometheus`")
    return found
