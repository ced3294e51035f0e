"""Fixtures that every kind of test may use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
