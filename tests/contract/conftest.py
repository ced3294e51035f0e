"""One fake cloud process and one server of each cloud for each worker; a group, an account of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

import pytest
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.containerservice import ContainerServiceClient

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.clouds.gcp import GcpGroup, GcpTemplate
from charterer.domain.pool import CapacityType
from charterer.providers.aws.calls import Sdk
from charterer.providers.aws.cloud import AwsCloud
from charterer.providers.azure.calls import Address
from charterer.providers.azure.calls import Sdk as AzureSdk
from charterer.providers.azure.cloud import AzureCloud
from charterer.providers.fake import FakeCloud
from charterer.providers.gcp import calls as gcp_calls
from charterer.providers.gcp.cloud import GcpCloud
from tests.clouds.aws.account import Account
from tests.clouds.aws.server import AwsServer
from tests.clouds.azure.credential import Credential
from tests.clouds.azure.retail import Feed, RetailServer
from tests.clouds.azure.server import AzureServer
from tests.clouds.azure.subscription import Subscription
from tests.clouds.gcp.project import Project
from tests.clouds.gcp.server import GcpServer
from tests.contract import gcp_pools
from tests.contract.aws_pools import FLEET, REGION, AwsMarket, account, aws_pool
from tests.contract.azure_calls import open_client
from tests.contract.azure_pools import SUBSCRIPTION, AzureMarket, azure_pool
from tests.contract.pools import Market, pool
from tests.contract.wire import Wire, no_pause, own_cluster
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


class OpenAws(Protocol):
    """Makes a pool of AWS in the test's account; ``fields``: of the Pool."""

    def __call__(
        self, cloud: AwsFleet | AwsGroup = FLEET, capacity: CapacityType = CapacityType.ON_DEMAND, **fields: Any
    ) -> AwsMarket: ...


@pytest.fixture(scope="session")
def aws_server() -> Iterator[AwsServer]:
    """The shared server."""
    with AwsServer(Account()) as server:
        yield server


@pytest.fixture(scope="session")
def aws_clients(aws_server: AwsServer) -> Iterator[Sdk]:
    """Clients of the shared server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIATESTTESTTESTTEST")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield Sdk(REGION, endpoint=aws_server.url)


@pytest.fixture
async def aws(aws_server: AwsServer, aws_clients: Sdk) -> AsyncIterator[OpenAws]:
    """Makes pools of one account, which this test has for itself. The adapter's clock is the account's."""
    here = aws_server.account = account()
    made: list[AwsCloud] = []

    def make(
        cloud: AwsFleet | AwsGroup = FLEET, capacity: CapacityType = CapacityType.ON_DEMAND, **fields: Any
    ) -> AwsMarket:
        provider = AwsCloud(REGION, "", own_cluster, Wire(aws_clients), lambda: here.clock.now.timestamp(), no_pause)
        made.append(provider)
        return AwsMarket(here, provider, aws_pool(cloud, capacity, **fields))

    yield make
    for provider in made:
        await provider.close()


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """The shared server of Azure."""
    with AzureServer(Subscription()) as server:
        yield server


@pytest.fixture(scope="session")
def compute(azure_server: AzureServer) -> Iterator[Any]:
    """The SDK's client for VMs, which sends nothing twice."""
    with open_client(ComputeManagementClient, azure_server) as client:
        yield client


@pytest.fixture(scope="session")
def containers(azure_server: AzureServer) -> Iterator[Any]:
    """The SDK's client for clusters, which sends nothing twice."""
    with open_client(ContainerServiceClient, azure_server) as client:
        yield client


class OpenAzure(Protocol):
    """Makes a pool of Azure in the test's subscription; ``kind``: uniform, flexible or aks; ``fields``: of the Pool."""

    def __call__(
        self, kind: str = "uniform", capacity: CapacityType = CapacityType.ON_DEMAND, **fields: Any
    ) -> AzureMarket: ...


@pytest.fixture(scope="session")
def retail_server() -> Iterator[RetailServer]:
    """The shared server of retail prices."""
    with RetailServer() as server:
        yield server


@pytest.fixture(scope="session")
def azure_clients(azure_server: AzureServer, retail_server: RetailServer) -> AzureSdk:
    """Clients of the shared servers."""
    address = Address(azure_server.url, retail_server.url, str(azure_server.certificate))
    return AzureSdk(SUBSCRIPTION, "", "", address, Credential())


@pytest.fixture
async def azure_market(
    azure: Subscription, retail_server: RetailServer, azure_clients: AzureSdk
) -> AsyncIterator[OpenAzure]:
    """Makes pools of one subscription, which this test has for itself. The adapter's clock is the subscription's."""
    feed = retail_server.feed = Feed(clock=azure.clock)
    made: list[AzureCloud] = []

    def make(kind: str = "uniform", capacity: CapacityType = CapacityType.ON_DEMAND, **fields: Any) -> AzureMarket:
        wire = Wire(azure_clients)
        provider = AzureCloud(SUBSCRIPTION, "", "", wire, lambda: azure.clock.now.timestamp(), no_pause)
        made.append(provider)
        return AzureMarket(azure, feed, provider, azure_pool(azure, kind, capacity, **fields), wire)

    yield make
    for provider in made:
        await provider.close()


@pytest.fixture
def azure(azure_server: AzureServer) -> Subscription:
    """A subscription of this test's own behind the shared server."""
    azure_server.subscription = Subscription()
    return azure_server.subscription


class OpenGcp(Protocol):
    """Makes a pool of Google Cloud in the test's project; ``fields``: of the Pool."""

    def __call__(
        self,
        cloud: GcpGroup | GcpTemplate = gcp_pools.GROUP,
        capacity: CapacityType = CapacityType.ON_DEMAND,
        **fields: Any,
    ) -> gcp_pools.GcpMarket: ...


@pytest.fixture(scope="session")
def gcp_server() -> Iterator[GcpServer]:
    """The shared server."""
    with GcpServer(Project()) as server:
        yield server


@pytest.fixture(scope="session")
def gcp_clients(gcp_server: GcpServer) -> gcp_calls.Sdk:
    """Clients of the shared server."""
    from google.oauth2.credentials import Credentials

    return gcp_calls.Sdk(gcp_server.url, Credentials("a-token"))  # type: ignore[no-untyped-call]


@pytest.fixture
async def gcp(gcp_server: GcpServer, gcp_clients: gcp_calls.Sdk) -> AsyncIterator[OpenGcp]:
    """Makes pools of one project, which this test has for itself. The adapter's clock is the project's."""
    here = gcp_server.project = gcp_pools.project()
    made: list[GcpCloud] = []

    def make(
        cloud: GcpGroup | GcpTemplate = gcp_pools.GROUP,
        capacity: CapacityType = CapacityType.ON_DEMAND,
        **fields: Any,
    ) -> gcp_pools.GcpMarket:
        wire, clock = Wire(gcp_clients), lambda: here.clock.now.timestamp()
        provider = GcpCloud(here.id, own_cluster, wire, clock, no_pause, prices=gcp_pools.table(here))
        made.append(provider)
        return gcp_pools.GcpMarket(here, provider, gcp_pools.gcp_pool(cloud, capacity, **fields))

    yield make
    for provider in made:
        await provider.close()
