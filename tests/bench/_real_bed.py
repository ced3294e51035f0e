"""A bed of real nodes for a bench, with a folder for what its jobs write."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.testbed.bed import group
from tests.testbed.real_bed import RealBed, open_cluster, open_real_bed


@asynccontextmanager
async def real_bench_bed(nodes: int, hourly: float = 3.6) -> AsyncIterator[tuple[RealBed, Path]]:
    """A cluster of its own, whose cloud sells so many nodes of one GPU at so many dollars an hour; both end with it."""
    prices = group("a100", instanceType="fake.a100-1x", gpusPerInstance=1, hourlyPrice=f"{hourly:.2f}", maxSize=nodes)
    with tempfile.TemporaryDirectory(prefix="charterer-bench-") as name:
        folders = [Path(name) / part for part in ("cluster", "bed", "jobs")]
        for folder in folders:
            folder.mkdir()
        with open_cluster(folders[0]) as cluster:
            async with open_real_bed(cluster, folders[1], [prices]) as bed:
                yield bed, folders[2]
