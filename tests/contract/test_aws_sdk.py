"""What the SDK itself does: credentials, roles, regions, time-outs, and who imports it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from charterer.domain.pool import Survey
from charterer.providers import threads
from charterer.providers.aws.calls import Answer, Params, Sdk
from charterer.providers.aws.cloud import AwsCloud
from charterer.providers.aws.permissions import Call
from charterer.providers.errors import (
    CloudOutcomeUnknown,
    CloudUnauthorized,
    CloudUnreachable,
    InvalidRequest,
    ProviderError,
    UnknownCode,
)
from tests.clouds.aws.account import Account
from tests.clouds.aws.server import AwsServer
from tests.contract.aws_pools import FLEET, REGION, AwsMarket, account, aws_pool
from tests.contract.wire import no_pause, own_cluster

ROLE = "arn:aws:iam::444455556666:role/renter"


@pytest.fixture
def server() -> Iterator[AwsServer]:
    """A server of this test's own, because its clients are."""
    with AwsServer(account()) as server:
        yield server


@pytest.fixture
async def opened() -> AsyncIterator[list[AwsCloud]]:
    """Providers to be closed."""
    made: list[AwsCloud] = []
    yield made
    for provider in made:
        await provider.close()


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing in the environment or in files, and no metadata service."""
    nowhere = str(tmp_path_factory.mktemp("empty") / "none")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", nowhere)
    monkeypatch.setenv("AWS_CONFIG_FILE", nowhere)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def keys(no_credentials: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVENVENVENVENVE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret-of-the-environment")


def market(server: AwsServer, opened: list[AwsCloud], role: str = "") -> AwsMarket:
    here: Account = server.account
    provider = AwsCloud(REGION, role, own_cluster, Sdk(REGION, role, server.url), sleep=no_pause)
    opened.append(provider)
    return AwsMarket(here, provider, aws_pool(replace(FLEET, assume_role=role)))


async def error_of(m: AwsMarket) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await m.provider.survey([m.pool])
    return caught.value


@pytest.mark.usefixtures("no_credentials")
async def test_missing_credentials_are_told_with_what_to_do(server: AwsServer, opened: list[AwsCloud]) -> None:
    error = await error_of(market(server, opened))
    assert isinstance(error, CloudUnauthorized)
    assert "NoCredentials: Unable to locate credentials: give the operator's ServiceAccount a role" in str(error)
    assert server.account.calls == []
    [found] = await market(server, opened).provider.preflight(aws_pool(FLEET))
    assert (found.subject, found.well) == ("credentials", False)


@pytest.mark.usefixtures("keys")
async def test_a_role_is_assumed_and_acted_with(server: AwsServer, opened: list[AwsCloud]) -> None:
    server.account.roles.add(ROLE)
    m = market(server, opened, ROLE)
    assert isinstance((await m.provider.survey([m.pool]))[m.pool.id], Survey)
    assert m.account.callers == {
        "sts:AssumeRole": {"AKIAENVENVENVENVENVE"},
        "ec2:DescribeInstances": {"ASIAROLEROLEROLE0000"},
        "ec2:DescribeSubnets": {"ASIAROLEROLEROLE0000"},
        "ec2:DescribeInstanceTypes": {"ASIAROLEROLEROLE0000"},
    }


@pytest.mark.usefixtures("no_credentials")
async def test_a_profile_that_assumes_a_role_is_acted_with(
    server: AwsServer,
    opened: list[AwsCloud],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """As everywhere with boto3: the profile is in the files that the environment names."""
    server.account.roles.add(ROLE)
    files = {
        "AWS_CONFIG_FILE": f"[profile renter]\nrole_arn = {ROLE}\nsource_profile = base\n",
        "AWS_SHARED_CREDENTIALS_FILE": "[base]\naws_access_key_id = AKIABASEBASEBASEBASE\naws_secret_access_key = x\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("AWS_PROFILE", "renter")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    m = market(server, opened)
    assert isinstance((await m.provider.survey([m.pool]))[m.pool.id], Survey)
    assert m.account.callers["sts:AssumeRole"] == {"AKIABASEBASEBASEBASE"}
    assert m.account.callers["ec2:DescribeInstances"] == {"ASIAROLEROLEROLE0000"}


@pytest.mark.usefixtures("no_credentials")
async def test_a_program_that_tells_credentials_is_asked(
    server: AwsServer, opened: list[AwsCloud], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = {"Version": 1, "AccessKeyId": "AKIAPROGPROGPROGPROG", "SecretAccessKey": "x"}
    (tmp_path / "told").write_text(json.dumps(told))
    (tmp_path / "config").write_text(f"[default]\ncredential_process = cat {tmp_path}/told\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    m = market(server, opened)
    assert isinstance((await m.provider.survey([m.pool]))[m.pool.id], Survey)
    assert m.account.callers["ec2:DescribeInstances"] == {"AKIAPROGPROGPROGPROG"}


@pytest.mark.usefixtures("no_credentials")
async def test_a_profile_that_does_not_exist_is_named(
    server: AwsServer, opened: list[AwsCloud], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    error = await error_of(market(server, opened))
    assert isinstance(error, CloudUnauthorized)
    assert "(nobody) could not be found" in str(error)


@pytest.mark.usefixtures("keys")
async def test_a_role_that_may_not_be_assumed_is_named(server: AwsServer, opened: list[AwsCloud]) -> None:
    error = await error_of(market(server, opened, ROLE))
    assert isinstance(error, CloudUnauthorized)
    assert f"AccessDenied: User is not authorized to perform: sts:AssumeRole on {ROLE}" in str(error)


@pytest.mark.usefixtures("keys")
async def test_no_error_has_a_secret(server: AwsServer, opened: list[AwsCloud]) -> None:
    server.account.expired = {"AKIAENVENVENVENVENVE"}
    m = market(server, opened)
    said = str(await error_of(m)) + repr(await error_of(m)) + str(vars(await error_of(m)))
    assert "the-secret-of-the-environment" not in said


@pytest.mark.usefixtures("keys")
async def test_where_nobody_listens_nothing_was_sent(server: AwsServer, opened: list[AwsCloud]) -> None:
    m = market(server, opened)
    server.__exit__()
    assert isinstance(await error_of(m), CloudUnreachable)
    with pytest.raises(CloudUnreachable):
        await m.ask("one")


@pytest.mark.usefixtures("keys")
async def test_a_region_typed_wrong_is_told_with_what_was_meant(opened: list[AwsCloud]) -> None:
    provider = AwsCloud("us-esat-1", "", own_cluster, Sdk("us-esat-1", endpoint="http://127.0.0.1:9"), sleep=no_pause)
    opened.append(provider)
    pool = aws_pool(replace(FLEET, region="us-esat-1"))
    with pytest.raises(InvalidRequest) as caught:
        await provider.survey([pool])
    error = caught.value
    assert "spec.aws.region 'us-esat-1' is no region that botocore knows: did you mean us-west-1 or us-east-1" in str(
        error
    )


@pytest.mark.usefixtures("keys")
async def test_endpoints_that_the_environment_configures_are_not_used(
    server: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    client = Sdk(REGION).client("ec2")
    assert client.meta.endpoint_url == "https://ec2.us-east-1.amazonaws.com"


async def test_a_call_that_takes_too_long_has_an_unknown_outcome(
    monkeypatch: pytest.MonkeyPatch, opened: list[AwsCloud]
) -> None:
    answered = threading.Event()

    def never(call: Call, params: Params) -> Answer:
        answered.wait(10)
        return {}

    monkeypatch.setattr(threads, "_LONGEST_SECONDS", 0.02)
    provider = AwsCloud(REGION, "", own_cluster, never)
    opened.append(provider)
    m = AwsMarket(account(), provider, aws_pool(FLEET))
    with pytest.raises(CloudOutcomeUnknown, match="TimeOut"):
        await m.ask("one")
    answered.set()


async def test_an_answer_of_another_shape_is_told_and_hides_no_other_pool(opened: list[AwsCloud]) -> None:
    meta = {"HTTPHeaders": {"date": "Sun, 01 Nov 2026 00:00:00 GMT"}}
    shapes: dict[Call, Answer] = {
        Call.DESCRIBE_INSTANCES: {"ResponseMetadata": meta},
        Call.DESCRIBE_SUBNETS: {
            "Subnets": [{"SubnetId": "subnet-a", "AvailabilityZone": "z"}],
            "ResponseMetadata": meta,
        },
        Call.DESCRIBE_TYPES: {"InstanceTypes": []},
        Call.CREATE_FLEET: {"Instances": [{"No": "ids"}]},
    }
    provider = AwsCloud(REGION, "", own_cluster, lambda call, params: shapes[call], sleep=no_pause)
    opened.append(provider)
    m = AwsMarket(account(), provider, aws_pool(replace(FLEET, subnets=("subnet-a",))))
    error = (await provider.survey([m.pool]))[m.pool.id]
    assert isinstance(error, UnknownCode)
    assert "MalformedAnswer" in str(error)
    with pytest.raises(CloudOutcomeUnknown, match="MalformedAnswer"):
        await m.ask("one")


def test_the_sdk_is_imported_only_where_a_pool_of_aws_exists() -> None:
    program = "import sys, charterer.providers.accounts; sys.exit(bool({'boto3', 'botocore'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
