"""What the SDK itself does: credentials, time-outs, answers that are lost, and who imports it."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from charterer.domain.order import Ask
from charterer.domain.pool import Pool, Survey
from charterer.providers import threads
from charterer.providers.azure.calls import Address, Answer, Params, Sdk, uses_a_secret
from charterer.providers.azure.cloud import AzureCloud
from charterer.providers.azure.permissions import Call
from charterer.providers.errors import (
    CloudOutcomeUnknown,
    CloudUnauthorized,
    CloudUnreachable,
    ProviderError,
    Transient,
    UnknownCode,
)
from tests.clouds.azure.credential import Credential
from tests.clouds.azure.protocol import Fault
from tests.clouds.azure.server import AzureServer
from tests.clouds.azure.subscription import Subscription
from tests.contract.azure_pools import SUBSCRIPTION, azure_pool
from tests.contract.wire import no_pause

UPDATE = "virtual_machine_scale_sets_update"
ONE = Ask((), 1)


@pytest.fixture
def server() -> Iterator[AzureServer]:
    """A server of this test's own, because its clients are."""
    with AzureServer(Subscription()) as server:
        yield server


@pytest.fixture
async def opened() -> AsyncIterator[list[AzureCloud]]:
    """Providers to be closed."""
    made: list[AzureCloud] = []
    yield made
    for provider in made:
        await provider.close()


@pytest.fixture
def no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the environment; metadata services and programs of Azure's are not asked."""
    for name in ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "WorkloadIdentityCredential")


def open_cloud(server: AzureServer, opened: list[AzureCloud], credential: object = None) -> AzureCloud:
    address = Address(server.url, server.url, str(server.certificate))
    provider = AzureCloud(SUBSCRIPTION, "", "", Sdk(SUBSCRIPTION, "", "", address, credential), sleep=no_pause)
    opened.append(provider)
    return provider


async def error_of(provider: AzureCloud, pool: Pool) -> ProviderError:
    """Why the pool cannot be surveyed."""
    answer = (await provider.survey([pool]))[pool.id]
    assert isinstance(answer, ProviderError)
    return answer


@pytest.mark.usefixtures("no_identity")
async def test_credentials_that_cannot_be_found_are_told_with_what_to_do(
    server: AzureServer, opened: list[AzureCloud]
) -> None:
    pool = azure_pool(server.subscription, "uniform")
    provider = open_cloud(server, opened)
    error = await error_of(provider, pool)
    assert isinstance(error, CloudUnauthorized)
    assert "give the operator's ServiceAccount an identity (Workload Identity), see docs/clouds/azure.md" in str(error)
    assert server.subscription.calls == []
    [found] = await provider.preflight(pool)
    assert (found.subject, found.well) == ("credentials", False)
    with pytest.raises(CloudUnauthorized):
        await provider.ask(pool, ONE)


def test_a_secret_in_the_environment_is_seen() -> None:
    assert not uses_a_secret({"AZURE_FEDERATED_TOKEN_FILE": "/var/run/token", "AZURE_CLIENT_ID": "id"})
    assert uses_a_secret({"AZURE_CLIENT_SECRET": "s"})


async def test_where_nobody_listens_nothing_was_sent(server: AzureServer, opened: list[AzureCloud]) -> None:
    pool = azure_pool(server.subscription, "uniform")
    provider = open_cloud(server, opened, Credential())
    server.__exit__()
    assert isinstance(await error_of(provider, pool), CloudUnreachable)
    with pytest.raises(CloudUnreachable):
        await provider.ask(pool, ONE)


async def test_a_server_whose_certificate_is_not_trusted_is_told_nothing(
    server: AzureServer, opened: list[AzureCloud]
) -> None:
    pool = azure_pool(server.subscription, "uniform")
    address = Address(server.url, server.url)
    provider = AzureCloud(SUBSCRIPTION, "", "", Sdk(SUBSCRIPTION, "", "", address, Credential()), sleep=no_pause)
    opened.append(provider)
    assert isinstance(await error_of(provider, pool), CloudUnreachable)


@pytest.mark.parametrize("takes_effect", [False, True])
async def test_a_change_whose_answer_is_lost_is_sent_once(
    server: AzureServer, opened: list[AzureCloud], takes_effect: bool
) -> None:
    sub = server.subscription
    pool, provider = azure_pool(sub, "uniform"), open_cloud(server, opened, Credential())
    await provider.survey([pool])
    sub.faults.lose_answer(UPDATE, takes_effect=takes_effect)
    with pytest.raises(CloudOutcomeUnknown):
        await provider.ask(pool, ONE)
    assert sub.count()[UPDATE] == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_server_that_fails_leaves_open_what_a_change_did_and_is_asked_once(
    server: AzureServer, opened: list[AzureCloud], status: int
) -> None:
    sub = server.subscription
    pool, provider = azure_pool(sub, "uniform"), open_cloud(server, opened, Credential())
    sub.faults.fail(UPDATE, Fault(status, "AnyCode"), takes_effect=True)
    with pytest.raises(CloudOutcomeUnknown):
        await provider.ask(pool, ONE)
    assert sub.count()[UPDATE] == 1


async def test_reads_are_tried_again(server: AzureServer, opened: list[AzureCloud]) -> None:
    sub = server.subscription
    pool, provider = azure_pool(sub, "uniform"), open_cloud(server, opened, Credential())
    sub.faults.lose_answer("virtual_machine_scale_sets_get", takes_effect=False, times=2)
    assert isinstance((await provider.survey([pool]))[pool.id], Survey)
    sub.faults.lose_answer("virtual_machine_scale_sets_get", takes_effect=False, times=3)
    assert isinstance(await error_of(provider, pool), Transient)


async def test_an_operator_does_not_log_each_call_with_its_headers(
    server: AzureServer, opened: list[AzureCloud], caplog: pytest.LogCaptureFixture
) -> None:
    pool = azure_pool(server.subscription, "uniform")
    with caplog.at_level(logging.INFO):
        provider = open_cloud(server, opened, Credential())
        assert isinstance((await provider.survey([pool]))[pool.id], Survey)
    assert [record.name for record in caplog.records if record.name.startswith("azure")] == []


async def test_no_error_has_a_token(server: AzureServer, opened: list[AzureCloud]) -> None:
    sub = server.subscription
    pool, provider = azure_pool(sub, "uniform"), open_cloud(server, opened, Credential("the-secret-token"))
    error = await error_of(provider, pool)
    assert "InvalidAuthenticationToken" in str(error)
    assert "the-secret-token" not in str(error) + repr(error) + str(vars(error))


async def test_a_call_that_takes_too_long_has_an_unknown_outcome(
    monkeypatch: pytest.MonkeyPatch, opened: list[AzureCloud]
) -> None:
    answered = threading.Event()
    row = {
        "id": "/subscriptions/s/resourceGroups/gpu-rg/providers/Microsoft.Compute/virtualMachineScaleSets/gpu",
        "location": "westeurope",
        "etag": "1",
        "sku": {"name": "Standard_ND96asr_v4", "capacity": 0},
        "properties": {"provisioningState": "Succeeded", "overprovision": False},
    }

    def slow(call: Call, params: Params) -> Answer:
        if call.mutation:
            answered.wait(10)
        return Answer(row if call is Call.GET_SET else [], {})

    monkeypatch.setattr(threads, "_LONGEST_SECONDS", 0.05)
    provider = AzureCloud(SUBSCRIPTION, "", "", slow)
    opened.append(provider)
    with pytest.raises(CloudOutcomeUnknown, match="TimeOut"):
        await provider.ask(azure_pool(Subscription(), "uniform"), ONE)
    answered.set()


async def test_an_answer_of_another_shape_is_told_and_hides_no_other_pool(opened: list[AzureCloud]) -> None:
    provider = AzureCloud(SUBSCRIPTION, "", "", lambda call, params: Answer({"no": "set"}, {}), sleep=no_pause)
    opened.append(provider)
    pool = azure_pool(Subscription(), "uniform")
    error = await error_of(provider, pool)
    assert isinstance(error, UnknownCode)
    assert "MalformedAnswer" in str(error)
    with pytest.raises(CloudOutcomeUnknown, match="MalformedAnswer"):
        await provider.ask(pool, ONE)


def test_the_sdk_is_imported_only_where_a_pool_of_azure_exists() -> None:
    program = (
        "import sys, charterer.providers.accounts, charterer.api.models.clouds; "
        "sys.exit(any(name == 'azure' or name.startswith('azure.') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
