"""Calls of Compute Engine. Each call runs in a thread, has a time-out, and its errors are classified. A call that
changes anything is sent only once.

The first call imports the SDK in such a thread, because the import takes a second and a half of processor time.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, TypeVar

from charterer.clouds.gcp import of_gce
from charterer.domain.ids import OrderToken, PoolId
from charterer.domain.order import Refusal, RefusalKind, Scope
from charterer.domain.pool import CapacityType
from charterer.domain.time import Instant
from charterer.providers.codes import (
    LONGEST_MESSAGE,
    Code,
    CodeMeaning,
    LaunchError,
    OrderOfKinds,
    error_of_code,
    lost,
    one_refusal,
)
from charterer.providers.errors import CloudUnauthorized, CloudUnreachable, InvalidRequest, ProviderError
from charterer.providers.gcp.permissions import Call, snake_case
from charterer.providers.threads import NO_ANSWER, READ_SECONDS, Sleep, Threads, seconds_in, time_in

# The codes of Google Cloud: what each code means, how far a refusal with it reaches, and where the code is documented.
#
# Reasons of HTTP errors are in camelCase; codes of operations and of attempts of a group are in capitals. Sources:
# [KG] karpenter-provider-gcp ``pkg/providers/instance``; [CA] cluster-autoscaler ``cloudprovider/gce``; [SP]
# SkyPilot's classification of capacity errors; [D] Google's pages "Troubleshooting VM creation", "Error messages"
# and "Rate quotas"; [M] the enums of google-cloud-compute 1.57.


THROTTLED_SECONDS: Final = 5.0
"""Seconds to wait if Google does not say how long."""

_ZONE = Code(CodeMeaning.CAPACITY, Scope.ZONE)
_FAMILY = Code(CodeMeaning.QUOTA, Scope.FAMILY)
_UNAUTHORIZED = Code(CodeMeaning.UNAUTHORIZED, Scope.ACCOUNT)
_THROTTLED = Code(CodeMeaning.THROTTLED, Scope.ACCOUNT)
_NOT_FOUND = Code(CodeMeaning.NOT_FOUND)
_EXISTS = Code(CodeMeaning.EXISTS)
_INVALID = Code(CodeMeaning.INVALID)
_BUSY = Code(CodeMeaning.BUSY)
_SERVER = Code(CodeMeaning.SERVER)

CODES: Final[Mapping[str, Code]] = {
    "ZONE_RESOURCE_POOL_EXHAUSTED": _ZONE,  # CA, KG, SP
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": _ZONE,  # CA, KG, SP
    "RESOURCE_POOL_EXHAUSTED": _ZONE,  # CA
    "REGION_RESOURCE_POOL_EXHAUSTED": _ZONE,  # KG
    "INSUFFICIENT_CAPACITY": _ZONE,  # SP
    "insufficientCapacity": _ZONE,  # SP
    "stockout": _ZONE,  # KG
    "IP_SPACE_EXHAUSTED": Code(CodeMeaning.CAPACITY),  # CA, KG
    "IP_SPACE_EXHAUSTED_WITH_DETAILS": Code(CodeMeaning.CAPACITY),  # CA, KG
    "VM_MIN_COUNT_NOT_REACHED": Code(CodeMeaning.SUMMARY, Scope.ZONE),  # SP
    "QUOTA_EXCEEDED": _FAMILY,  # CA, SP
    "quotaExceeded": _FAMILY,  # CA, SP
    "limitExceeded": _FAMILY,  # D
    "rateLimitExceeded": _THROTTLED,  # D
    "userRateLimitExceeded": _THROTTLED,  # D
    "concurrentLimitExceeded": _THROTTLED,  # D
    "RATE_LIMIT_EXCEEDED": _THROTTLED,  # D
    "authError": _UNAUTHORIZED,  # D
    "forbidden": _UNAUTHORIZED,  # D
    "insufficientPermissions": _UNAUTHORIZED,  # D
    "accessNotConfigured": _UNAUTHORIZED,  # D: the project has not enabled the Compute Engine API
    "PERMISSIONS_ERROR": _UNAUTHORIZED,  # CA
    "CONDITION_NOT_MET": _UNAUTHORIZED,  # CA: a policy of the organisation forbids it
    "notFound": _NOT_FOUND,  # D
    "RESOURCE_NOT_FOUND": _INVALID,  # D: something that the template names
    "alreadyExists": _EXISTS,  # D
    "RESOURCE_ALREADY_EXISTS": _EXISTS,  # D
    "MEMBER_ALREADY_EXISTS": _EXISTS,  # CA
    "invalid": _INVALID,  # D
    "invalidParameter": _INVALID,  # D
    "invalidUsage": _INVALID,  # D
    "badRequest": _INVALID,  # D
    "required": _INVALID,  # D
    "parseError": _INVALID,  # D
    "INVALID_USAGE": _INVALID,  # D
    "INVALID_FIELD_VALUE": _INVALID,  # D
    "UNSUPPORTED_OPERATION": _INVALID,  # SP: of a spot node also that it was taken back while it was created
    "conditionNotMet": _BUSY,  # D
    "resourceInUseByAnotherResource": _BUSY,  # D
    "resourceNotReady": _BUSY,  # D
    "RESOURCE_NOT_READY": _BUSY,  # SP
    "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": _BUSY,  # SP
    "backendError": _SERVER,  # D
    "internalError": _SERVER,  # D
    "INTERNAL_ERROR": _SERVER,  # D
}
"""The meaning of each code."""

_BY_STATUS: Final[Mapping[int, Code]] = {
    400: _INVALID,
    401: _UNAUTHORIZED,
    403: _UNAUTHORIZED,
    404: _NOT_FOUND,
    409: _EXISTS,
    412: _BUSY,
    429: _THROTTLED,
}
"""The meaning of an HTTP status, for an error without a reason."""

_RESERVATIONS: Final = (
    ("does not have available resources", Code(CodeMeaning.CAPACITY)),
    ("not in ready state", Code(CodeMeaning.CAPACITY)),
    ("does not exist", _INVALID),
)
"""Texts about reservations, with their meanings. Errors of reservations have no code of their own (CA)."""

_SPOT_GONE: Final = "UNSUPPORTED_OPERATION"
_EVERYWHERE: Final = "GPUS_ALL_REGIONS"
_GPU_QUOTA: Final = "GPU"


_IDENTITY: Final = "give the operator's ServiceAccount an identity (Workload Identity), see docs/clouds/google.md"
_LONG_AGO: Final = Instant(0)


class Lack(Enum):
    """Why a call to Google Cloud got no answer."""

    CREDENTIALS = auto()
    """No credentials were found, or they were not accepted when a token was requested."""
    CONNECTION = auto()
    """Nothing was sent."""
    ANSWER = auto()
    """The call may have been sent."""
    SDK = auto()
    """google-cloud-compute is not installed."""
    CODE = auto()
    """Google Cloud refused the call with an HTTP status."""


class SdkError(Exception):
    """An exception of the SDK, translated. ``retry_after``: seconds to wait, if Google says so."""

    def __init__(
        self,
        lack: Lack,
        code: str,
        message: str,
        status: int = 0,
        at: Instant = _LONG_AGO,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.lack = lack
        self.code = code
        self.message = message[:LONGEST_MESSAGE]
        self.status = status
        self.at = at
        self.retry_after = retry_after


_KINDS: Final[OrderOfKinds] = (
    (RefusalKind.UNKNOWN_CODE, (None,)),
    (RefusalKind.UNAUTHORIZED, (CodeMeaning.UNAUTHORIZED,)),
    (RefusalKind.INVALID_REQUEST, (CodeMeaning.INVALID, CodeMeaning.NOT_FOUND, CodeMeaning.EXISTS)),
    (RefusalKind.QUOTA_EXCEEDED, (CodeMeaning.QUOTA,)),
    (RefusalKind.STOCK_OUT, (CodeMeaning.CAPACITY, CodeMeaning.SUMMARY)),
)


def meaning_of(code: str, message: str = "") -> Code | None:
    """The meaning of a code, or None if it is not known. For reservations only the message says the meaning."""
    if "reservation" in message.lower():
        for text, known in _RESERVATIONS:
            if text in message.lower():
                return known
    if (found := CODES.get(code)) is not None:
        return found
    return _FAMILY if "QUOTA" in code.upper() else None


def call_error(pool: PoolId, call: str, error: SdkError, *, mutation: bool) -> ProviderError:
    """The error for an exception of the SDK. These exceptions are looked at only here."""
    code, message = error.code, error.message
    match error.lack:
        case Lack.CREDENTIALS:
            return CloudUnauthorized(pool, call, code, f"{message}: {_IDENTITY}")
        case Lack.CONNECTION:
            return CloudUnreachable(pool, call, code, message)
        case Lack.ANSWER:
            return lost(mutation=mutation)(pool, call, code, message)
        case Lack.SDK:
            return InvalidRequest(pool, call, code, f"{message}: pip install '.[gcp]' in a checkout")
        case Lack.CODE:
            return _refused(pool, call, error, mutation=mutation)


def _refused(pool: PoolId, call: str, error: SdkError, *, mutation: bool) -> ProviderError:
    code, message = error.code, error.message
    known = meaning_of(code, message) if code else _BY_STATUS.get(error.status)
    code = code or f"HTTP {error.status}"
    wait = THROTTLED_SECONDS if error.retry_after is None else error.retry_after
    told = LaunchError(code, message)
    return error_of_code(pool, call, told, known, error.status, error.at, wait, mutation=mutation)


def refusal(
    pool: PoolId,
    errors: Sequence[LaunchError],
    place: tuple[str, str, str],
    sold: CapacityType,
    at: Instant,
    order: OrderToken,
) -> Refusal:
    """One refusal for all errors. Unknown codes come first, then rights, wrong requests, quotas, and capacity.

    ``place``: machine type, zone and project.
    """

    def reach(error: LaunchError, code: Code | None) -> tuple[Scope, str]:
        return _reach(pool, error, code, place, sold)

    return one_refusal(pool, [(each, _of_sold(each, sold)) for each in errors], _KINDS, reach, at, order)


def _of_sold(error: LaunchError, sold: CapacityType) -> Code | None:
    if error.code == _SPOT_GONE and sold is CapacityType.SPOT:
        return _ZONE
    return meaning_of(error.code, error.message)


def _reach(
    pool: PoolId, error: LaunchError, code: Code | None, place: tuple[str, str, str], sold: CapacityType
) -> tuple[Scope, str]:
    """How far an error reaches, and the name of the place that it reaches.

    A quota of anything other than GPUs concerns only the pool.
    """
    scope = Scope.POOL if code is None else code.scope
    if scope is Scope.FAMILY and _EVERYWHERE in error.message:
        scope = Scope.ACCOUNT
    elif scope is Scope.FAMILY and _GPU_QUOTA not in error.message.upper():
        scope = Scope.POOL
    instance_type, zone, project = place
    where = of_gce(instance_type, sold, zone, project).within(scope)
    return (scope, where) if where else (Scope.POOL, str(pool))


logger = logging.getLogger(__name__)

T = TypeVar("T")

Json = Mapping[str, Any]
Params = dict[str, Any]

_OPERATION_PAUSES: Final = (0.5, 1.0, 2.0, 4.0)
"""Seconds to wait before each look at an operation that has not ended."""
_SCOPE: Final = "https://www.googleapis.com/auth/compute"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, and the cloud's time of the answer to the second. Its fields have the SDK's names, and empty fields
    are absent.
    """

    body: Json
    at: Instant


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of the caller.

    ``account``: the service account's address, or empty if the credentials do not show it. ``key_file``: whether the
    credentials are a key.
    """

    account: str
    key_file: bool


class Sdk:
    """The SDK's clients. Each client is made when it is first needed.

    ``endpoint``, ``credentials``: given in tests. By default they are Google Cloud and the SDK's own credentials.
    """

    def __init__(self, endpoint: str | None = None, credentials: Any = None) -> None:
        self._endpoint = endpoint
        self._credentials = credentials
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._answered = threading.local()

    def __call__(self, call: Call, params: Params) -> Answer:
        """Send one call and wait for its answer. Raises SdkError if there is no answer."""
        try:
            method = getattr(self.client(call.service), call.python_name)
            self._answered.date = ""
            answer = method(params, retry=None, timeout=READ_SECONDS)
            if hasattr(answer, "pages"):
                answer = next(iter(answer.pages))
            body = type(answer).to_dict(
                answer, use_integers_for_enums=False, always_print_fields_with_no_presence=False
            )
        except Exception as error:
            raise _sdk_error(error) from error
        return Answer(body, time_in(self._answered.date))

    def identity(self) -> Identity:
        """The identity of the credentials that are used. Raises SdkError if there are no credentials."""
        try:
            credentials = self._found()
        except Exception as error:
            raise _sdk_error(error) from error
        kind = f"{type(credentials).__module__}.{type(credentials).__name__}"
        return Identity(
            str(getattr(credentials, "service_account_email", "")), kind.endswith("service_account.Credentials")
        )

    def client(self, service: str) -> Any:
        """The client of a service."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._make(service)
            return self._clients[service]

    def _found(self) -> Any:
        if self._credentials is None:
            import google.auth

            self._credentials, _ = google.auth.default(scopes=[_SCOPE])
        return self._credentials

    def _make(self, service: str) -> Any:
        # This does not use an attribute of compute_v1: that module imports a hundred services, and the image leaves it
        # out.
        module = importlib.import_module(f"google.cloud.compute_v1.services.{snake_case(service)}")
        name = "".join(part.capitalize() for part in snake_case(service).split("_"))
        client = getattr(module, f"{name}Client")
        transport = client.get_transport_class("rest")
        where = {} if self._endpoint is None else {"host": self._endpoint}
        return client(transport=transport(credentials=self._found(), interceptor=_Dated(self._answered), **where))


class _Dated:
    """An interceptor of the SDK that changes nothing and stores the time of each answer."""

    def __init__(self, answered: threading.local) -> None:
        self._answered = answered

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("pre_"):
            return lambda request, metadata: (request, metadata)
        if name.endswith("_with_metadata"):
            return self._keep
        return lambda response: response

    def _keep(self, response: Any, headers: Sequence[tuple[str, str]]) -> tuple[Any, Sequence[tuple[str, str]]]:
        self._answered.date = next(value for name, value in headers if name.lower() == "date")
        return response, headers


def _sdk_error(error: Exception) -> SdkError:
    name, message = type(error).__name__, str(error) or type(error).__name__
    if isinstance(error, ModuleNotFoundError):
        return SdkError(Lack.SDK, name, message)
    import requests
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError, TransportError
    from urllib3.exceptions import NewConnectionError

    if isinstance(error, GoogleAPICallError):
        return _refusal(error)
    if isinstance(error, TransportError):
        return SdkError(Lack.CONNECTION, name, message)
    if isinstance(error, GoogleAuthError):
        return SdkError(Lack.CREDENTIALS, name, message)
    unsent = (requests.exceptions.ConnectTimeout, requests.exceptions.SSLError, requests.exceptions.ProxyError)
    cause = getattr(error.args[0], "reason", None) if error.args else None
    if isinstance(error, unsent) or isinstance(cause, NewConnectionError):
        return SdkError(Lack.CONNECTION, name, message)
    return SdkError(Lack.ANSWER, name, message)


def _refusal(error: Any) -> SdkError:
    """The error for an answer with an HTTP status of an error."""
    rows = [row for row in error.errors if isinstance(row, Mapping)]
    reason = str(rows[0].get("reason", "")) if rows else ""
    headers: Mapping[str, str] = {} if error.response is None else error.response.headers
    at, wait = time_in(headers.get("Date")), seconds_in(headers.get("Retry-After"))
    return SdkError(Lack.CODE, reason, error.message, int(error.code or 0), at, wait)


class Calls:
    """Sends calls of one project for pools. ``send``: the SDK. ``sleep``: waits between attempts."""

    def __init__(self, project: str, send: Callable[[Call, Params], Answer], sleep: Sleep = asyncio.sleep) -> None:
        self._project = project
        self._send = send
        self._sleep = sleep
        self._threads = Threads("gcp", sleep)

    async def __call__(self, pool: PoolId, call: Call, **params: Any) -> Answer:
        """The answer.

        A read that fails is repeated, and a mutation is sent only once. Raises ProviderError, and for launches also
        LaunchRefused.
        """
        return await self._threads.patiently(lambda: self._once(pool, call, params), mutation=call.mutation)

    async def pages(
        self,
        pool: PoolId,
        call: Call,
        key: str,
        enough: Callable[[Json, Instant], bool] = lambda row, asked: False,
        **params: Any,
    ) -> tuple[list[Json], Instant]:
        """All rows under ``key``, page by page, and the cloud's time of the first page.

        ``enough``: a function of a row and the time of the list. If it returns True, no page after that row's page is
        read.
        """
        answer = await self(pool, call, **params)
        rows, asked = list(answer.body.get(key, ())), answer.at
        while (token := answer.body.get("next_page_token")) and not any(
            enough(row, asked) for row in answer.body.get(key, ())
        ):
            answer = await self(pool, call, page_token=token, **params)
            rows += answer.body.get(key, ())
        return rows, asked

    async def operation(self, pool: PoolId, call: Call, zone: str, **params: Any) -> Answer:
        """Start an operation and wait some seconds for its end. Returns the operation, which may not have ended.

        Once the operation is accepted, nothing is raised. If it cannot be read again, the answer that accepted it is
        returned.
        """
        answer = await self(pool, call, zone=zone, **params)
        for pause in _OPERATION_PAUSES:
            if answer.body.get("status") == "DONE":
                break
            await self._sleep(pause)
            try:
                answer = await self(pool, Call.GET_OPERATION, zone=zone, operation=answer.body["name"])
            except ProviderError as error:
                logger.warning("%s", error)
                break
        return answer

    async def identity(self, pool: PoolId) -> Identity | None:
        """The identity whose credentials are used, or None if calls are not sent by the SDK.

        Raises CloudUnauthorized if there are no credentials.
        """
        if not isinstance(self._send, Sdk):
            return None
        return await self._threaded(pool, "google.auth.default", self._send.identity, mutation=False)

    def close(self) -> None:
        """End the threads once their calls have ended."""
        self._threads.close()

    async def _once(self, pool: PoolId, call: Call, params: Params) -> Answer:
        sent = {"project": self._project, **params}
        return await self._threaded(pool, call.full_name, lambda: self._send(call, sent), mutation=call.mutation)

    async def _threaded(self, pool: PoolId, call: str, send: Callable[[], T], *, mutation: bool) -> T:
        try:
            return await self._threads.run(send)
        except TimeoutError:
            error = SdkError(Lack.ANSWER, "TimeOut", NO_ANSWER)
            raise call_error(pool, call, error, mutation=mutation) from error
        except SdkError as error:
            raise call_error(pool, call, error, mutation=mutation) from error
