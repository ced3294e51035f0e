"""A bed for measuring: what the cluster tests act on, without pytest."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.testbed.bed import Bed, dismantle, install_charts, make_bed
from tests.testbed.controlplane import ControlPlane


@asynccontextmanager
async def measuring_plane() -> AsyncIterator[tuple[ControlPlane, Path]]:
    """A control plane of its own with the charts, and a folder."""
    with tempfile.TemporaryDirectory(prefix="charterer-bench-") as folder:
        directory = Path(folder)
        with ControlPlane.start(directory / "control-plane") as plane:
            install_charts(plane)
            yield plane, directory


@asynccontextmanager
async def measuring_bed(*groups: Mapping[str, object], close: bool = True) -> AsyncIterator[Bed]:
    """A fake cloud that sells these groups, on a control plane of its own, and the closing checks."""
    async with measuring_plane() as (plane, directory):
        bed = await make_bed(plane, directory, groups)
        try:
            yield bed
            if close:
                await bed.close()
        finally:
            await dismantle(bed)
