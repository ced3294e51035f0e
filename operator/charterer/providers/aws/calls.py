"""Calls of AWS: each in a thread, with time-outs, sent once if it changes anything, its errors classified."""

from __future__ import annotations

import asyncio
import difflib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

import boto3
import botocore.session
from botocore import exceptions as sdk
from botocore import xform_name
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, CredentialResolver, DeferredRefreshableCredentials

from charterer.domain.ids import PoolId
from charterer.domain.time import Instant
from charterer.providers.aws.errors import call_error
from charterer.providers.aws.permissions import Call
from charterer.providers.codes import lost
from charterer.providers.errors import CloudUnauthorized, CloudUnreachable, InvalidRequest, ProviderError, UnknownCode
from charterer.providers.threads import (
    CALLS_AT_ONCE,
    CONNECT_SECONDS,
    NO_ANSWER,
    READ_SECONDS,
    Sleep,
    Threads,
    time_in,
)

Answer = Mapping[str, Any]
Params = dict[str, Any]

_PRICE_LISTS: Final[Mapping[str, str]] = {"aws": "us-east-1", "aws-cn": "cn-northwest-1"}
"""The region that has the price list, by partition."""

_NOTHING_SENT: Final = (sdk.EndpointConnectionError, sdk.ConnectTimeoutError, sdk.ProxyConnectionError, sdk.SSLError)
_NO_CREDENTIALS: Final = (
    sdk.NoCredentialsError,
    sdk.PartialCredentialsError,
    sdk.CredentialRetrievalError,
    sdk.TokenRetrievalError,
    sdk.UnauthorizedSSOTokenError,
    sdk.ProfileNotFound,
    sdk.NoAuthTokenError,
)
_ANSWER_LOST: Final = (sdk.HTTPClientError, sdk.ConnectionError, sdk.IncompleteReadError)


class Sdk:
    """The SDK's clients of one region and role, each made when it is first needed.

    ``endpoint``: where all services are, in tests; endpoints that the environment configures are not used, because
    whoever is there sees signed requests.
    """

    def __init__(self, region: str, role: str = "", endpoint: str | None = None) -> None:
        self._region = region
        self._role = role
        self._endpoint = endpoint
        self._clients: dict[str, Any] = {}
        self._session: Any = None
        self._lock = threading.Lock()
        self._config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": 1, "mode": "standard"},
            ignore_configured_endpoint_urls=True,
            max_pool_connections=CALLS_AT_ONCE,
        )

    def __call__(self, call: Call, params: Params) -> Answer:
        """Send one call and wait for its answer; the SDK's exceptions."""
        client = self.client(call.service)
        answer: Answer = getattr(client, xform_name(call.operation))(**params)
        return answer

    def similar_region(self) -> str:
        """The warning about a region that this version of the SDK does not know; empty if it knows it."""
        known = _known_regions()
        if self._region in known:
            return ""
        near = " or ".join(difflib.get_close_matches(self._region, known, 3))
        unknown = f"spec.aws.region {self._region!r} is no region that botocore knows"
        return f"{unknown}: did you mean {near}?" if near else unknown

    def client(self, service: str) -> Any:
        """The client of a service."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._make(service)
            return self._clients[service]

    def _make(self, service: str) -> Any:
        if self._session is None:
            self._session = self._open()
        region = self._region
        if service == "pricing":
            partition = self._session.get_partition_for_region(region)
            region = _PRICE_LISTS.get(partition, region)
        return self._session.client(service, region_name=region, config=self._config, endpoint_url=self._endpoint)

    def _open(self) -> Any:
        """boto3's own session: keys, profiles, SSO, chains of roles, IRSA and Pod Identity as boto3 finds them."""
        session = boto3.Session()
        if not self._role:
            return session
        create = partial(session.client, region_name=self._region, config=self._config, endpoint_url=self._endpoint)
        fetcher = AssumeRoleCredentialFetcher(
            create, _source_of(session), self._role, extra_args={"RoleSessionName": "charterer"}
        )
        of_role = botocore.session.get_session()
        of_role.register_component("credential_provider", CredentialResolver([_RoleProvider(fetcher)]))
        return boto3.Session(botocore_session=of_role)


@cache
def _known_regions() -> Sequence[str]:
    session = boto3.Session()
    partitions = session.get_available_partitions()
    return [region for partition in partitions for region in session.get_available_regions("ec2", partition)]


def _source_of(session: Any) -> Any:
    credentials = session.get_credentials()
    if credentials is None:
        raise sdk.NoCredentialsError
    return credentials


class _RoleProvider:
    """Credentials of a role, renewed before they expire."""

    METHOD: Final = "assume-role"
    CANONICAL_NAME: Final = "assume-role"

    def __init__(self, fetcher: Any) -> None:
        self._fetcher = fetcher

    def load(self) -> Any:
        """The credentials, fetched when they are first used."""
        return DeferredRefreshableCredentials(self._fetcher.fetch_credentials, self.METHOD)


class Calls:
    """Sends calls for pools. ``send``: the SDK; ``sleep``: waits between tries of a read."""

    def __init__(self, send: Callable[[Call, Params], Answer], sleep: Sleep = asyncio.sleep) -> None:
        self._send = send
        self._threads = Threads("aws", sleep)

    async def __call__(self, pool: PoolId, call: Call, params: Params) -> Answer:
        """The answer. Reads are tried again; a mutation is sent once. ProviderError, of launches also LaunchRefused."""
        return await self._threads.patiently(lambda: self._once(pool, call, params), mutation=call.mutation)

    async def pages(self, pool: PoolId, call: Call, params: Params, key: str) -> tuple[list[Any], Instant]:
        """All rows under ``key``, page by page, and the cloud's time of the first page."""
        answer = await self(pool, call, params)
        rows, asked = list(answer.get(key, ())), time_of(answer)
        while token := answer.get("NextToken"):
            answer = await self(pool, call, params | {"NextToken": token})
            rows += answer.get(key, ())
        return rows, asked

    async def dry_run(self, pool: PoolId, call: Call, params: Params) -> None:
        """Whether the call would be allowed: returns if so, and raises the error otherwise. Nothing happens."""
        try:
            await self._once(pool, call, params | {"DryRun": True})
        except UnknownCode as error:
            if error.code != "DryRunOperation":
                raise

    def close(self) -> None:
        """End the threads when their calls are done."""
        self._threads.close()

    async def _once(self, pool: PoolId, call: Call, params: Params) -> Answer:
        try:
            return await self._threads.run(self._send, call, params)
        except TimeoutError as error:
            raise lost(mutation=call.mutation)(pool, call.full_name, "TimeOut", NO_ANSWER) from error
        except sdk.ClientError as error:
            told = error.response.get("Error", {})
            code, message = str(told.get("Code", "")), str(told.get("Message", ""))
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            raise call_error(
                pool, call.full_name, code, message, status, _time_in(error.response), mutation=call.mutation
            ) from error
        except (sdk.BotoCoreError, sdk.HTTPClientError) as error:
            raise self._without_answer(pool, call, error) from error

    def _without_answer(self, pool: PoolId, call: Call, error: Exception) -> ProviderError:
        """The error that stands for an exception of the SDK's own, and not of AWS."""
        code, message = type(error).__name__.removesuffix("Error"), str(error)
        if isinstance(error, sdk.InvalidRegionError):
            return InvalidRequest(pool, call.full_name, code, f"spec.aws.region: {message}")
        if isinstance(error, _NOTHING_SENT):
            hint = self._send.similar_region() if isinstance(self._send, Sdk) else ""
            if hint:
                return InvalidRequest(pool, call.full_name, "UnknownRegion", hint)
            return CloudUnreachable(pool, call.full_name, code, message)
        if isinstance(error, _NO_CREDENTIALS):
            advice = "give the operator's ServiceAccount a role (IRSA or EKS Pod Identity), see docs/clouds/aws.md"
            return CloudUnauthorized(pool, call.full_name, code, f"{message}: {advice}")
        if isinstance(error, sdk.ParamValidationError):
            return InvalidRequest(pool, call.full_name, code, message)
        if isinstance(error, _ANSWER_LOST) or call.mutation:
            return lost(mutation=call.mutation)(pool, call.full_name, code, message)
        return UnknownCode(pool, call.full_name, code, message)


def time_of(answer: Answer) -> Instant:
    """The cloud's own time of an answer, to the second."""
    return time_in(answer["ResponseMetadata"]["HTTPHeaders"]["date"])


def _time_in(response: Answer) -> Instant:
    """The cloud's time of an error; the beginning of time if it has none."""
    return time_in(response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date"))
