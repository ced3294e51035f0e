"""Calls of Compute Engine: each in a thread, with time-outs, sent once if it changes anything, its errors classified.

The SDK is imported in such a thread, by the first call: it takes a second and a half of a processor.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from charterer.domain.ids import PoolId
from charterer.domain.time import Instant
from charterer.providers.errors import ProviderError
from charterer.providers.gcp.errors import Lack, SdkError, call_error
from charterer.providers.gcp.permissions import Call, snake_case
from charterer.providers.threads import NO_ANSWER, READ_SECONDS, Sleep, Threads, seconds_in, time_in

logger = logging.getLogger(__name__)

T = TypeVar("T")

Json = Mapping[str, Any]
Params = dict[str, Any]

_OPERATION_PAUSES: Final = (0.5, 1.0, 2.0, 4.0)
"""Seconds before each look at an operation that is not done."""
_SCOPE: Final = "https://www.googleapis.com/auth/compute"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with the SDK's names of fields, absent where empty, and the cloud's time of it, to the second."""

    body: Json
    at: Instant


@dataclass(frozen=True, slots=True)
class Identity:
    """Who calls: the service account's address where the credentials tell it. ``key_file``: it comes from a key."""

    account: str
    key_file: bool


class Sdk:
    """The SDK's clients, each made when it is first needed.

    ``endpoint`` and ``credentials``: those of tests; otherwise Google Cloud, with the SDK's own credentials.
    """

    def __init__(self, endpoint: str | None = None, credentials: Any = None) -> None:
        self._endpoint = endpoint
        self._credentials = credentials
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._answered = threading.local()

    def __call__(self, call: Call, params: Params) -> Answer:
        """Send one call and wait for its answer. SdkError for whatever is no answer."""
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
        """Whose credentials are used. SdkError where there are none."""
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
        # Not an attribute of compute_v1: that module imports a hundred services, and the image does without it.
        module = importlib.import_module(f"google.cloud.compute_v1.services.{snake_case(service)}")
        name = "".join(part.capitalize() for part in snake_case(service).split("_"))
        client = getattr(module, f"{name}Client")
        transport = client.get_transport_class("rest")
        where = {} if self._endpoint is None else {"host": self._endpoint}
        return client(transport=transport(credentials=self._found(), interceptor=_Dated(self._answered), **where))


class _Dated:
    """What the SDK calls an interceptor: leaves everything as it is, and keeps the time of each answer."""

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
    """The SDK's exception in our words."""
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
    """An answer with an HTTP status of an error."""
    rows = [row for row in error.errors if isinstance(row, Mapping)]
    reason = str(rows[0].get("reason", "")) if rows else ""
    headers: Mapping[str, str] = {} if error.response is None else error.response.headers
    at, wait = time_in(headers.get("Date")), seconds_in(headers.get("Retry-After"))
    return SdkError(Lack.CODE, reason, error.message, int(error.code or 0), at, wait)


class Calls:
    """Sends calls of one project for pools. ``send``: the SDK; ``sleep``: waits between tries."""

    def __init__(self, project: str, send: Callable[[Call, Params], Answer], sleep: Sleep = asyncio.sleep) -> None:
        self._project = project
        self._send = send
        self._sleep = sleep
        self._threads = Threads("gcp", sleep)

    async def __call__(self, pool: PoolId, call: Call, **params: Any) -> Answer:
        """The answer. Reads are tried again; a mutation is sent once. ProviderError, of launches also LaunchRefused."""
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

        ``enough``: whether no page is needed after one with that row, in a list of that time.
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
        """Start an operation and look some seconds long for its end: the operation, which may not be done.

        Once it was accepted nothing is raised: where it cannot be looked at, it is as its acceptance said.
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
        """Whose credentials are used, where the SDK is what sends; CloudUnauthorized when there are none."""
        if not isinstance(self._send, Sdk):
            return None
        return await self._threaded(pool, "google.auth.default", self._send.identity, mutation=False)

    def close(self) -> None:
        """End the threads when their calls are done."""
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
