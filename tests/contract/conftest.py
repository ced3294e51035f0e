"""One fake cloud process for each worker, and a group of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest

from charterer.domain.pool import CapacityType
from charterer.providers.fake import FakeCloud
from tests.contract.pools import Market, pool
from tests.testbed.fakecloud import FakeCloudProcess

GROUP: dict[str, object] = {
    "instanceType": "fake.a100-4x",
    "gpuType": "NVIDIA-A100-SXM4-40GB",
    "gpusPerInstance": 4,
    "zone": "fake-1a",
    "hourlyPrice": "12.80",
    "maxSize": 8,
}


class OpenMarket(Protocol):
    """Makes a group that differs from the plain one in those fields."""

    async def __call__(self, **fields: Any) -> Market: ...


@pytest.fixture(scope="session")
async def cloud_process(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FakeCloudProcess]:
    """The shared process."""
    async with FakeCloudProcess.running({}, tmp_path_factory.mktemp("fakecloud")) as cloud:
        yield cloud


@pytest.fixture
async def provider(cloud_process: FakeCloudProcess) -> AsyncIterator[FakeCloud]:
    """A provider of the shared process; faults that a test left are removed after it."""
    provider = FakeCloud(cloud_process.url)
    yield provider
    await provider.close()
    await cloud_process.admin("DELETE", "/faults")


@pytest.fixture
def market(cloud_process: FakeCloudProcess, provider: FakeCloud, request: pytest.FixtureRequest) -> OpenMarket:
    """Makes groups named after the test."""
    made: list[str] = []

    async def make(**fields: Any) -> Market:
        group = f"g{abs(hash(request.node.nodeid)) % 10**9}-{len(made)}"
        made.append(group)
        await cloud_process.admin("PUT", f"/groups/{group}", GROUP | fields)
        capacity = CapacityType(fields.get("capacityType", "OnDemand"))
        return Market(cloud_process, provider, pool(cloud_process.url, group, capacity))

    return make
