"""Calls of Azure. Each call runs in a thread, has a time-out, and its errors are classified. A call that changes
anything is sent only once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode, urljoin

from azure.core import MatchConditions, PipelineClient
from azure.core import exceptions as sdk
from azure.core.pipeline.policies import UserAgentPolicy
from azure.core.rest import HttpRequest
from azure.identity import DefaultAzureCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.containerservice import ContainerServiceClient
from azure.mgmt.containerservice.models import AgentPool
from urllib3 import exceptions as http

from charterer.clouds.azure import AzureNodePool, AzureScaleSet, of_azure
from charterer.domain.ids import OrderToken, PoolId
from charterer.domain.order import Refusal, RefusalKind, Scope
from charterer.domain.pool import CapacityType, Cloud
from charterer.domain.time import Instant
from charterer.providers.azure.permissions import Call
from charterer.providers.codes import LONGEST_MESSAGE, Code, CodeMeaning, LaunchError, error_of_code, lost
from charterer.providers.errors import CloudUnauthorized, CloudUnreachable, InvalidRequest, ProviderError, UnknownCode
from charterer.providers.threads import (
    CONNECT_SECONDS,
    NO_ANSWER,
    READ_SECONDS,
    Sleep,
    Threads,
    seconds_in,
    time_in,
)

# The codes of Azure: what each code means, how far a refusal with it reaches, and where the code is documented.
#
# Sources: [KZ] karpenter-provider-azure ``pkg/providers/instance`` and azure-sdk-for-go-extensions ``pkg/errors``;
# [CA] cluster-autoscaler ``cloudprovider/azure`` and its issues; [D] Microsoft's pages on errors of Azure Resource
# Manager, of virtual machines and of AKS.


logger = logging.getLogger(__name__)

THROTTLED_SECONDS: Final = 60.0
"""Seconds to wait if Azure does not say how long. Azure renews its request limits every minute."""

_REGION = Code(CodeMeaning.CAPACITY, Scope.REGION)
_ZONE = Code(CodeMeaning.CAPACITY, Scope.ZONE)
_SUBNET = Code(CodeMeaning.CAPACITY, Scope.SUBNET)
_FAMILY = Code(CodeMeaning.QUOTA, Scope.FAMILY)
_UNAUTHORIZED = Code(CodeMeaning.UNAUTHORIZED, Scope.ACCOUNT)
_THROTTLED = Code(CodeMeaning.THROTTLED, Scope.ACCOUNT)
_LATE = Code(CodeMeaning.LATE)
_NOT_FOUND = Code(CodeMeaning.NOT_FOUND)
_INVALID = Code(CodeMeaning.INVALID)
_BUSY = Code(CodeMeaning.BUSY)
_SERVER = Code(CodeMeaning.SERVER)
_SUMMARY = Code(CodeMeaning.SUMMARY)

CODES: Final[Mapping[str, Code]] = {
    "AllocationFailed": _REGION,  # KZ
    "ZonalAllocationFailed": _ZONE,  # KZ
    "OverconstrainedAllocationRequest": _REGION,  # KZ
    "OverconstrainedZonalAllocationRequest": _ZONE,  # KZ
    "SkuNotAvailable": Code(CodeMeaning.NOT_OFFERED, Scope.REGION),  # KZ
    "InsufficientSubnetSize": _SUBNET,  # KZ
    "SubnetIsFull": _SUBNET,  # KZ
    "QuotaExceeded": _FAMILY,  # CA#8323
    "ErrCode_InsufficientVCPUQuota": _FAMILY,  # D: AKS
    "InsufficientVCPUQuota": _FAMILY,  # D: AKS
    "PublicIPCountLimitReached": Code(CodeMeaning.QUOTA, Scope.ACCOUNT),  # D: AKS
    "OSProvisioningTimedOut": _LATE,  # CA
    "OSProvisioningInternalError": _LATE,  # D
    "OSProvisioningClientError": _LATE,  # D
    "VMExtensionProvisioningError": _LATE,  # CA
    "VMExtensionProvisioningTimeout": _LATE,  # D
    "VMExtensionHandlerNonTransientError": _LATE,  # D
    "VMStartTimedOut": _LATE,  # D
    "NetworkingInternalOperationError": _LATE,  # CA#5767
    "ProvisioningFailed": _LATE,  # this adapter's own code, if Azure names none
    "TooManyRequests": _THROTTLED,  # D
    "SubscriptionRequestsThrottled": _THROTTLED,  # D
    "OperationThrottled": _THROTTLED,  # D
    "AuthenticationFailed": _UNAUTHORIZED,  # D
    "AuthorizationFailed": _UNAUTHORIZED,  # KZ
    "LinkedAuthorizationFailed": _UNAUTHORIZED,  # D
    "ExpiredAuthenticationToken": _UNAUTHORIZED,  # D
    "InvalidAuthenticationToken": _UNAUTHORIZED,  # D
    "InvalidAuthenticationTokenTenant": _UNAUTHORIZED,  # D
    "RequestDisallowedByPolicy": _UNAUTHORIZED,  # D
    "SubscriptionNotFound": _INVALID,  # D
    "InvalidSubscriptionId": _INVALID,  # D
    "ReadOnlyDisabledSubscription": _UNAUTHORIZED,  # D
    "ScopeLocked": _UNAUTHORIZED,  # D
    "ResourceGroupNotFound": _INVALID,  # D
    "ResourceNotFound": _NOT_FOUND,  # D
    "NotFound": _NOT_FOUND,  # D
    "ParentResourceNotFound": _NOT_FOUND,  # D
    "NoRegisteredProviderFound": _INVALID,  # D: also a location that does not exist
    "LocationNotAvailableForResourceType": _INVALID,  # D
    "MissingSubscriptionRegistration": _INVALID,  # D
    "InvalidParameter": _INVALID,  # D
    "InvalidRequestContent": _INVALID,  # D
    "InvalidResourceReference": _INVALID,  # D
    "InvalidApiVersionParameter": _INVALID,  # D
    "PropertyChangeNotAllowed": _INVALID,  # D
    "BadRequest": _INVALID,  # D
    "PreconditionFailed": _BUSY,  # the set has another version than the one that was read
    "Conflict": _BUSY,  # CA
    "ConflictingConcurrentWriteNotAllowed": _BUSY,  # D
    "AnotherOperationInProgress": _BUSY,  # D
    "EtagMismatch": _BUSY,  # D: AKS
    "RetryableError": _BUSY,  # D
    "NicReservedForAnotherVm": _BUSY,  # KZ: for 180 s after a VM was deleted
    "OperationPreempted": _SUMMARY,  # CA#9835: a newer operation took over
    "ResourceOperationFailure": _SUMMARY,  # D: its details say why
    "ResourceDeploymentFailure": _SUMMARY,  # D: its details say why
    "VMScaleSetUpdateFailed": _SUMMARY,  # D
    "InternalServerError": _SERVER,  # D
    "InternalOperationError": _SERVER,  # D
    "InternalExecutionError": _SERVER,  # D
    "ServerTimeout": _SERVER,  # D
    "ServiceUnavailable": _SERVER,  # D
    "ServerBusy": _SERVER,  # D
    "GatewayTimeout": _SERVER,  # D
}
"""The meaning of each code. OperationNotAllowed is not here, because only its text says what it means."""

_QUOTA_TEXTS: Final[Sequence[tuple[str, Scope]]] = (
    ("LowPriorityCores", Scope.CAPACITY_TYPE),
    ("Total Regional Cores quota", Scope.CAPACITY_TYPE),
    ("Total Regional vCPUs", Scope.CAPACITY_TYPE),
    ("Cores quota", Scope.FAMILY),
    ("Submit a request for Quota increase", Scope.FAMILY),
)
"""Texts of OperationNotAllowed that mean a quota, each with the quota's scope. Source: KZ."""
_BUSY_TEXTS: Final = ("is in progress", "marked for deletion")
_ORIGINAL: Final = re.compile(r'Code="(\w+)" Message="([^"]*)')
"""The pattern by which AKS repeats the scale set's error within its own error. Source: jenkins-infra/helpdesk#4337."""
_LAUNCH_KINDS: Final[Mapping[CodeMeaning, RefusalKind]] = {
    CodeMeaning.CAPACITY: RefusalKind.STOCK_OUT,
    CodeMeaning.QUOTA: RefusalKind.QUOTA_EXCEEDED,
    CodeMeaning.UNAUTHORIZED: RefusalKind.UNAUTHORIZED,
    CodeMeaning.INVALID: RefusalKind.INVALID_REQUEST,
}


def meaning_of(code: str, message: str) -> Code | None:
    """The meaning of a code, or None if it is not in the table."""
    if code != "OperationNotAllowed":
        return CODES.get(code)
    for text, scope in _QUOTA_TEXTS:
        if text.lower() in message.lower():
            return Code(CodeMeaning.QUOTA, scope)
    return _BUSY if any(text in message for text in _BUSY_TEXTS) else _INVALID


def call_error(
    pool: PoolId,
    call: str,
    told: LaunchError,
    status: int,
    retry_after: float | None,
    at: Instant,
    *,
    mutation: bool,
) -> ProviderError:
    """The error for the code with which Azure answered a whole call.

    ``at``: the cloud's time of the answer. ``retry_after``: seconds that Azure says to wait.
    """
    code, message = told.code, told.message[:LONGEST_MESSAGE]
    known = meaning_of(code, message)
    if status == 429:
        known = _THROTTLED
    elif known is None and status in (401, 403):
        known = _UNAUTHORIZED
    wait = THROTTLED_SECONDS if retry_after is None else retry_after
    return error_of_code(pool, call, LaunchError(code, message), known, status, at, wait, mutation=mutation)


def launch_error(error: Mapping[str, Any]) -> LaunchError:
    """The error of a failed operation. Of the error and its details, the most specific one is returned."""
    code, message = str(error.get("code", "")), str(error.get("message", ""))
    if (original := _ORIGINAL.search(message)) is not None:
        return LaunchError(original[1], original[2])
    known = meaning_of(code, message)
    if known is None or known.meaning is CodeMeaning.SUMMARY:
        for each in error.get("details") or ():
            inner = launch_error(each)
            if meaning_of(inner.code, inner.message) is not None:
                return inner
    return LaunchError(code, message)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a VM, as refusals name it: its size, how it is sold, and the pool's cloud with location and
    subscription.
    """

    size: str
    sold: CapacityType
    cloud: Cloud

    def within(self, scope: Scope, zone: str) -> str:
        """The name of the place that a refusal of that scope concerns, or an empty text if the refusal concerns no
        other pool.
        """
        if not isinstance(self.cloud, AzureScaleSet | AzureNodePool) or (scope is Scope.ZONE and not zone):
            return ""
        return of_azure(self.size, self.sold, zone, self.cloud.location, self.cloud.subscription).within(scope)


def refusal(pool: PoolId, error: LaunchError, place: Place, at: Instant, order: OrderToken | None = None) -> Refusal:
    """The error as a refusal of a VM in that place."""
    known = meaning_of(error.code, error.message)
    if known is None:
        logger.error("GPUPool %s: unknown code %s: %s", pool, error.code, error.message)
        kind, scope = RefusalKind.UNKNOWN_CODE, Scope.POOL
    elif known.meaning is CodeMeaning.NOT_OFFERED:
        spot = place.sold is CapacityType.SPOT
        kind, scope = RefusalKind.STOCK_OUT if spot else RefusalKind.INVALID_REQUEST, known.scope
    else:
        kind, scope = _LAUNCH_KINDS.get(known.meaning, RefusalKind.LAUNCH_FAILED), known.scope
    named = place.within(scope, error.zone)
    if not named:
        scope, named = Scope.POOL, pool
    return Refusal(kind, scope, named, error.code, error.message[:LONGEST_MESSAGE], at, order)


Params = dict[str, Any]

ARM: Final = "https://management.azure.com"
PRICES: Final = "https://prices.azure.com"
_NOTHING_SENT: Final = (http.NewConnectionError, http.ConnectTimeoutError, ssl.SSLCertVerificationError)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. Its body has the names of the API, and for a list all rows. Its headers are those of the first
    page.
    """

    body: Any
    headers: Mapping[str, str]

    @property
    def at(self) -> Instant:
        """The cloud's own time of the answer, to the second."""
        return time_in(self.headers.get("Date"))


@dataclass(frozen=True, slots=True)
class Address:
    """The addresses of the APIs. ``certificate``: in tests, the file of the certificate to trust."""

    arm: str = ARM
    prices: str = PRICES
    certificate: str | None = None


class Sdk:
    """The SDK's clients of one subscription and identity. Each client is made when it is first needed.

    ``credential``: None for the SDK's own credentials, which are Workload Identity, a managed identity, or those of az
    login.
    """

    def __init__(
        self, subscription: str, tenant: str, client: str, address: Address | None = None, credential: Any = None
    ) -> None:
        self._subscription = subscription
        self._identity = tenant, client
        self._address = Address() if address is None else address
        self._credential = credential
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        # the SDK would log every request, and each source of credentials
        logging.getLogger("azure").setLevel(logging.ERROR)

    def __call__(self, call: Call, params: Params) -> Answer:
        """Send one call and wait for its answer, whose body is as the API sends it. Raises the SDK's exceptions."""
        client = self._client(call.client)
        if not call.group:
            base = self._address.prices if call.client == "prices" else self._address.arm
            return _plain(client, base, params)
        seen: list[Any] = []
        method = getattr(getattr(client, call.group), call.method)
        result = method(**_arguments(call, params), raw_response_hook=seen.append)
        if call.mutation:
            return Answer(None, seen[0].http_response.headers)
        body = result.as_dict() if hasattr(result, "as_dict") else [row.as_dict() for row in result]
        return Answer(body, seen[0].http_response.headers)

    def _client(self, name: str) -> Any:
        with self._lock:
            if name not in self._clients:
                self._clients[name] = self._make(name)
            return self._clients[name]

    def _make(self, name: str) -> Any:
        common: Any = {
            "connection_verify": self._address.certificate or True,
            "connection_timeout": CONNECT_SECONDS,
            "read_timeout": READ_SECONDS,
            "retry_total": 0,
        }
        if name == "prices":
            return PipelineClient(self._address.prices, policies=[UserAgentPolicy("charterer")], **common)
        if self._credential is None:
            self._credential = _credential(*self._identity)
        kind = ComputeManagementClient if name == "compute" else ContainerServiceClient
        return kind(self._credential, self._subscription, base_url=self._address.arm, **common)


def _credential(tenant: str, client: str) -> Any:
    """The identity of the pod or of its node. On a person's own machine, the identity of az login."""
    given: dict[str, Any] = {}
    if client:
        given |= {"managed_identity_client_id": client, "workload_identity_client_id": client}
    if tenant:
        given["workload_identity_tenant_id"] = tenant
    return DefaultAzureCredential(
        exclude_shared_token_cache_credential=True,
        exclude_visual_studio_code_credential=True,
        exclude_developer_cli_credential=True,
        exclude_powershell_credential=True,
        exclude_broker_credential=True,
        **given,
    )


def uses_a_secret(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the SDK uses a secret from the environment. Anybody who has seen the secret may use it."""
    return "AZURE_CLIENT_SECRET" in environ or "AZURE_PASSWORD" in environ


def _arguments(call: Call, params: Params) -> Params:
    """The arguments of the SDK's method. If they have an ``etag``, the change applies only to that version."""
    arguments = dict(params)
    if call.mutation:
        arguments["polling"] = False
    if "etag" in arguments:
        arguments["match_condition"] = MatchConditions.IfNotModified
    if call is Call.UPDATE_POOL:
        arguments["parameters"] = AgentPool(arguments["parameters"])  # this leaves out what only Azure may write
    return arguments


def _plain(client: Any, base: str, params: Params) -> Answer:
    """The answer to a GET of a URL, with the rows of all pages. If the URL is relative, it is relative to ``base``."""
    query = f"?{urlencode(params['query'], quote_via=quote)}" if "query" in params else ""
    response = client.send_request(HttpRequest("GET", f"{urljoin(base, params['url'])}{query}"))
    headers, rows = response.headers, []
    while True:
        response.raise_for_status()
        body = response.json()
        following = body.get("nextLink") or body.get("NextPageLink")
        rows += body.get("value", body.get("Items", ()))
        if not following:
            return Answer(rows if "value" in body or "Items" in body else body, headers)
        response = client.send_request(HttpRequest("GET", following))


class Calls:
    """Sends calls for pools. ``send``: the SDK. ``sleep``: waits between attempts of a read."""

    def __init__(self, send: Callable[[Call, Params], Answer], sleep: Sleep = asyncio.sleep) -> None:
        self._send = send
        self._threads = Threads("azure", sleep)

    async def __call__(self, pool: PoolId, call: Call, params: Params) -> Answer:
        """The answer.

        A read that fails is repeated, and a mutation is sent only once. Raises ProviderError, and for launches also
        LaunchRefused.
        """
        return await self._threads.patiently(lambda: self._once(pool, call, params), mutation=call.mutation)

    def close(self) -> None:
        """End the threads once their calls have ended."""
        self._threads.close()

    async def _once(self, pool: PoolId, call: Call, params: Params) -> Answer:
        try:
            return await self._threads.run(self._send, call, params)
        except TimeoutError as error:
            raise lost(mutation=call.mutation)(pool, call.full_name, "TimeOut", NO_ANSWER) from error
        except (sdk.AzureError, sdk.DeserializationError, sdk.SerializationError) as error:
            raise _error_of(pool, call, error) from error


def _error_of(pool: PoolId, call: Call, error: Exception) -> ProviderError:
    code, message = type(error).__name__.removesuffix("Error"), str(error).split("\n")[0]
    told = _told(error)
    if isinstance(error, sdk.ClientAuthenticationError) and (told is None or told.code not in CODES):
        advice = "give the operator's ServiceAccount an identity (Workload Identity), see docs/clouds/azure.md"
        return CloudUnauthorized(pool, call.full_name, code, f"{message}: {advice}")
    response: Any = getattr(error, "response", None)
    if told is not None:
        status, headers = response.status_code, response.headers
        wait, at = seconds_in(headers.get("Retry-After")), time_in(headers.get("Date"))
        return call_error(pool, call.full_name, told, status, wait, at, mutation=call.mutation)
    if isinstance(error, sdk.ServiceRequestError) and any(isinstance(each, _NOTHING_SENT) for each in _causes(error)):
        return CloudUnreachable(pool, call.full_name, code, message)
    if isinstance(error, sdk.SerializationError):
        return InvalidRequest(pool, call.full_name, code, message)
    if isinstance(error, sdk.ServiceRequestError | sdk.ServiceResponseError) or call.mutation:
        return lost(mutation=call.mutation)(pool, call.full_name, code, message)
    return UnknownCode(pool, call.full_name, code, message)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and the errors that caused it. The SDK, requests and urllib3 each wrap a cause in a different way."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__cause__, getattr(each, "reason", None), getattr(each, "inner_exception", None)]
            waiting += [arg for arg in each.args if isinstance(arg, BaseException)]


def _told(error: Exception) -> LaunchError | None:
    """Code and message of an error answer. If the answer has no code, its HTTP status. None if there was no answer."""
    if not isinstance(error, sdk.HttpResponseError) or error.response is None:
        return None
    if error.error is not None and error.error.code:
        return LaunchError(str(error.error.code), str(error.error.message or ""))
    return LaunchError(f"HTTP {error.status_code}", str(error.message).split("\n")[0])
