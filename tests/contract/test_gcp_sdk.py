"""What the SDK of Google Cloud itself does: credentials, time-outs, and who imports it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.oauth2.credentials import Credentials

from charterer.domain.pool import Survey
from charterer.domain.time import Instant
from charterer.providers import threads
from charterer.providers.errors import (
    CloudOutcomeUnknown,
    CloudUnauthorized,
    CloudUnreachable,
    ProviderError,
    UnknownCode,
)
from charterer.providers.gcp import calls
from charterer.providers.gcp.calls import Answer, Params, Sdk
from charterer.providers.gcp.cloud import GcpCloud
from charterer.providers.gcp.permissions import Call
from tests.clouds.gcp.server import GcpServer
from tests.contract.gcp_pools import GROUP, PROJECT, GcpMarket, gcp_pool, project, table
from tests.contract.wire import no_pause, own_cluster

ANYBODY: Any = AnonymousCredentials()  # type: ignore[no-untyped-call]


@pytest.fixture
def server() -> Iterator[GcpServer]:
    """A server of this test's own, because its clients are."""
    with GcpServer(project()) as server:
        yield server


@pytest.fixture
async def opened() -> AsyncIterator[list[GcpCloud]]:
    """Providers to be closed."""
    made: list[GcpCloud] = []
    yield made
    for provider in made:
        await provider.close()


def market(server: GcpServer, opened: list[GcpCloud], sdk: Sdk) -> GcpMarket:
    provider = GcpCloud(PROJECT, own_cluster, sdk, sleep=no_pause, prices=table(server.project))
    opened.append(provider)
    return GcpMarket(server.project, provider, gcp_pool(GROUP))


async def error_of(m: GcpMarket) -> ProviderError:
    answer = (await m.provider.survey([m.pool]))[m.pool.id]
    assert isinstance(answer, ProviderError)
    return answer


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing in the environment or in files, and no metadata server."""
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


@pytest.mark.usefixtures("no_credentials")
async def test_missing_credentials_are_told_with_what_to_do(server: GcpServer, opened: list[GcpCloud]) -> None:
    m = market(server, opened, Sdk(server.url))
    error = await error_of(m)
    assert isinstance(error, CloudUnauthorized)
    assert "DefaultCredentialsError" in str(error)
    assert "give the operator's ServiceAccount an identity (Workload Identity), see docs/clouds/google.md" in str(error)
    with pytest.raises(CloudUnauthorized):
        await m.ask("one")
    assert server.project.calls == []
    [found] = await m.provider.preflight(m.pool)
    assert (found.subject, found.well) == ("credentials", False)


@pytest.mark.usefixtures("no_credentials")
async def test_a_key_file_is_told_where_an_identity_should_be(
    server: GcpServer, opened: list[GcpCloud], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    content = {
        "type": "service_account",
        "client_email": "renter@test-project.iam.gserviceaccount.com",
        "private_key": key.decode(),
        "token_uri": "http://127.0.0.1:9/token",
    }
    path = tmp_path / "key.json"
    path.write_text(json.dumps(content))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    identity = Sdk(server.url).identity()
    assert (identity.account, identity.key_file) == ("renter@test-project.iam.gserviceaccount.com", True)

    class Keyed(Sdk):
        def identity(self) -> calls.Identity:
            return identity

    m = market(server, opened, Keyed(server.url, ANYBODY))
    found = {finding.subject: finding for finding in await m.provider.preflight(m.pool)}
    assert "as renter@test-project.iam.gserviceaccount.com" in found["credentials"].message
    assert not found["identity"].well
    assert "use Workload Identity instead" in found["identity"].message


async def test_a_token_that_is_not_accepted_is_told_without_it(server: GcpServer, opened: list[GcpCloud]) -> None:
    server.project.tokens = set()
    credentials = Credentials("the-secret-token")  # type: ignore[no-untyped-call]
    error = await error_of(market(server, opened, Sdk(server.url, credentials)))
    assert isinstance(error, CloudUnauthorized)
    assert "the-secret-token" not in str(error) + str(vars(error))


async def test_where_nobody_listens_nothing_was_sent(server: GcpServer, opened: list[GcpCloud]) -> None:
    m = market(server, opened, Sdk(server.url, ANYBODY))
    server.__exit__()
    assert isinstance(await error_of(m), CloudUnreachable)
    with pytest.raises(CloudUnreachable):
        await m.ask("one")


def test_google_cloud_is_where_calls_go_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_USE_MTLS_ENDPOINT", "always")
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", "http://127.0.0.1:9")
    client = Sdk(credentials=ANYBODY).client("instances")
    assert client.transport._host == "https://compute.googleapis.com"


async def test_a_call_that_takes_too_long_has_an_unknown_outcome(
    monkeypatch: pytest.MonkeyPatch, opened: list[GcpCloud], server: GcpServer
) -> None:
    sdk, answered = Sdk(server.url, ANYBODY), threading.Event()

    def slow(call: Call, params: Params) -> Answer:
        if call.mutation:
            answered.wait(10)
        return sdk(call, params)

    provider = GcpCloud(PROJECT, own_cluster, slow, sleep=no_pause, prices=table(server.project))
    opened.append(provider)
    m = GcpMarket(server.project, provider, gcp_pool(GROUP))
    assert isinstance(await m.survey(), Survey)
    monkeypatch.setattr(threads, "_LONGEST_SECONDS", 0.5)
    with pytest.raises(CloudOutcomeUnknown, match="TimeOut"):
        await m.ask("one")
    answered.set()


async def test_an_answer_of_another_shape_is_told_and_hides_no_other_pool(opened: list[GcpCloud]) -> None:
    shapes = {Call.LIST_INSTANCES: {}, Call.LIST_OPERATIONS: {}, Call.GET_GROUP: {"no": "id"}}

    def odd(call: Call, params: Params) -> Answer:
        return Answer(shapes[call], Instant(10**15))

    provider = GcpCloud(PROJECT, own_cluster, odd, sleep=no_pause)
    opened.append(provider)
    error = await error_of(GcpMarket(project(), provider, gcp_pool(GROUP)))
    assert isinstance(error, UnknownCode)
    assert "MalformedAnswer" in str(error)


def test_the_sdk_is_imported_only_where_a_pool_of_google_cloud_calls_it() -> None:
    program = (
        "import sys, charterer.providers.accounts, charterer.providers.gcp.cloud as gcp\n"
        "gcp.GcpCloud('test-project', None)\n"
        "sys.exit(any(name.split('.')[0] in ('google', 'requests', 'grpc') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
