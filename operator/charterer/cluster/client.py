"""The client of the API server. It sends and returns JSON, limits the total time of each call, and classifies
errors.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import aiohttp
from yarl import URL

from charterer.api.metadata import connection_error
from charterer.cluster import credentials
from charterer.cluster.credentials import Access, NotSent
from charterer.cluster.errors import (
    READS,
    ApiError,
    Conflict,
    Fenced,
    Gone,
    Invalid,
    OutcomeUnknown,
    Unauthorized,
    Unreachable,
    classify,
)
from charterer.cluster.paths import resource_in
from charterer.spans import Span, no_span

RawObject: TypeAlias = dict[str, Any]
"""A Kubernetes object as JSON. ``charterer.api`` and ``charterer.workloads`` encode and decode such objects."""
Body: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""The body of a call: an object, or the operations of a JSON patch."""

TIMEOUT: Final = 10.0
"""Total seconds of a call, from connecting to reading. The limit is shorter than the duration of the Lease."""
PAGE: Final = 250
"""Objects in one page of a list. Decoding a page blocks the event loop for about 20 ms."""
MIN_LEADERSHIP: Final = 1.0
"""A mutation is sent only if this process leads for at least this many seconds more. A usual answer arrives within
them.
"""
_LIST_ATTEMPTS: Final = 3

_VERBS: Final = {"POST": "create", "PUT": "update"}
_JSON: Final = "application/json"
_APPLY: Final = "application/apply-patch+yaml"
_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. All pages of a list show the cluster as it was at ``resource_version``."""

    items: tuple[RawObject, ...]
    resource_version: int


@dataclass(frozen=True, slots=True)
class Listing:
    """A whole list, as the cluster was at ``resource_version``."""

    items: tuple[RawObject, ...]
    resource_version: int


class Client:
    """A client of one API server with one identity. Every method raises the classes of ``charterer.cluster.errors``.

    ``within`` is the total seconds of a call, TIMEOUT by default. The client repeats nothing, with one exception: after
    a 401, which changes nothing, it reads the token again and repeats the call once.

    ``fence`` returns the seconds for which this process still holds the Lease (``Lease.remaining``). A mutation times
    out before these seconds end. If too few seconds are left for a mutation, it is not sent (Fenced). ``wrote`` is
    called after every successful mutation except dry runs, with the verb, such as patch, and the resource, such as
    trainingjobs/status. ``withhold`` is called before a mutation is sent, with method, path and body. It raises an
    exception to prevent the mutation. ``span`` makes the span of each call.
    """

    def __init__(
        self,
        access: Access,
        *,
        fence: Callable[[], float] | None = None,
        wrote: Callable[[str, str], None] | None = None,
        withhold: Callable[[str, str, Body], None] | None = None,
        span: Span = no_span,
    ) -> None:
        """Make a client for a known access, in a running event loop. ``Client.connect`` also finds the access."""
        self.access = access
        self._fence = fence
        self._wrote = wrote
        self._withhold = withhold
        self._span = span
        self._session = access.session()
        self.date: tuple[str, float] | None = None
        """The header Date of the last answer, and the event loop's time in seconds at which the answer came."""

    @classmethod
    async def connect(
        cls,
        kubeconfig: Path | None = None,
        context: str | None = None,
        *,
        fence: Callable[[], float] | None = None,
    ) -> Client:
        """Make a client from the kubeconfig, the service account or the default kubeconfig. Sends nothing.

        Raises NoAccess.
        """
        return cls(credentials.load(kubeconfig, context), fence=fence)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- reads --------------------------------------------------------------------------------------------------------

    async def get(self, path: str, *, within: float | None = None) -> RawObject:
        """Get one object, or any other JSON object that a GET returns (``/version``, ``/apis/…``)."""
        return await self.raw("GET", path, within=within)

    async def pages(
        self, path: str, *, labels: str = "", fields: str = "", limit: int = PAGE, within: float | None = None
    ) -> AsyncIterator[Page]:
        """Get a list page by page. The items have apiVersion and kind.

        Raises Gone if the list has expired. The caller must then list from the beginning.
        """
        query = {"limit": str(limit)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        while True:
            answer = await self.raw("GET", path, query=query, within=within)
            metadata = answer.get("metadata") or {}
            if not str(metadata.get("resourceVersion", "")).isdecimal():
                raise Unreachable("GET", path, 200, "MalformedAnswer", "it is no list: is there a proxy in between?")
            yield Page(_items(answer), int(metadata["resourceVersion"]))
            token = metadata.get("continue")
            if not token:
                return
            query["continue"] = token

    async def list(
        self, path: str, *, labels: str = "", fields: str = "", limit: int = PAGE, within: float | None = None
    ) -> Listing:
        """Get a whole list. The list is begun again if its continue token expires between two pages."""
        for attempt in range(1, _LIST_ATTEMPTS + 1):
            items: list[RawObject] = []
            version = 0
            try:
                async for page in self.pages(path, labels=labels, fields=fields, limit=limit, within=within):
                    items.extend(page.items)
                    version = page.resource_version
            except Gone:
                if attempt == _LIST_ATTEMPTS:
                    raise
            else:
                return Listing(tuple(items), version)
        raise AssertionError("the last attempt returns or raises")

    async def lines(self, path: str, *, query: Mapping[str, str]) -> AsyncIterator[str]:
        """Stream the lines of a text that a GET returns, such as a pod's log, until the server ends the stream."""
        try:
            async with self._session.request(
                "GET",
                URL(self.access.server + path, encoded=True),
                params=query,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT),
                ssl=self.access.tls,
                allow_redirects=False,
            ) as response:
                if response.status >= 300:
                    raise classify("GET", path, response.status, response.headers, await response.read())
                async for line in _lines(response.content):
                    yield line
        except (aiohttp.ClientError, TimeoutError, OSError, NotSent) as error:
            raise _no_answer("GET", path, error) from error

    # --- mutations ----------------------------------------------------------------------------------------------------

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
        strict: bool = False,
        within: float | None = None,
    ) -> RawObject:
        """Create an object in the collection at ``path``. ``dry_run``: the server only validates the object and sets
        defaults.

        ``strict``: the server refuses unknown fields (BadRequest names them). Without ``strict``, the server drops
        unknown fields silently.
        """
        query = {**_dry(dry_run), **({"fieldValidation": "Strict"} if strict else {})}
        return await self.raw("POST", path, body=body, query=query, within=within)

    async def put(
        self, path: str, body: Mapping[str, Any], *, dry_run: bool = False, within: float | None = None
    ) -> RawObject:
        """Replace an object. If the body has metadata.resourceVersion, the write is conditional."""
        return await self.raw("PUT", path, body=body, query=_dry(dry_run), within=within)

    async def apply(
        self,
        path: str,
        body: Mapping[str, Any],
        manager: str,
        *,
        force: bool = True,
        may_create: bool = False,
        dry_run: bool = False,
        within: float | None = None,
    ) -> RawObject:
        """Server-side apply by ``manager``, which must send all the fields that it owns. An apply without a difference
        changes nothing.

        Server-side apply creates an object that does not exist, for example because it was deleted. To prevent this,
        the metadata must have a resourceVersion if the path is a status. That also makes the write conditional. If the
        path is the object itself, the metadata must have a uid, because a resourceVersion alone does not prevent a
        creation. Raises ValueError if the required field is absent, unless ``may_create``.
        """
        needed = "resourceVersion" if path.endswith("/status") else "uid"
        if not may_create and not (body.get("metadata") or {}).get(needed):
            raise ValueError(f"apply to {path} needs metadata.{needed}, or may_create=True")
        query = {"fieldManager": manager, "force": "true" if force else "false", **_dry(dry_run)}
        return await self.raw("PATCH", path, body=body, query=query, content_type=_APPLY, within=within)

    async def merge_patch(
        self, path: str, body: Mapping[str, Any], *, dry_run: bool = False, within: float | None = None
    ) -> RawObject:
        """JSON merge patch. If the body has metadata.resourceVersion, the write is conditional."""
        return await self.raw("PATCH", path, body=body, query=_dry(dry_run), content_type=_MERGE_PATCH, within=within)

    async def json_patch(
        self, path: str, operations: Sequence[Mapping[str, Any]], *, dry_run: bool = False, within: float | None = None
    ) -> RawObject:
        """JSON patch (RFC 6902). Raises Conflict if a ``test`` fails or a path does not exist."""
        try:
            return await self.raw(
                "PATCH", path, body=operations, query=_dry(dry_run), content_type=_JSON_PATCH, within=within
            )
        except Invalid as error:
            if error.fields:
                raise
            message = "the patch does not fit the object as it is now: a test failed, or a path does not exist"
            raise Conflict("PATCH", path, error.status, error.reason, message) from error

    async def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
        propagation: str = "Background",
        within: float | None = None,
    ) -> RawObject:
        """Delete an object. The answer is the object (now with a deletionTimestamp) or a Status.

        ``uid`` and ``resource_version`` are preconditions. If one fails, raises Conflict. ``grace`` is in seconds, and
        0 deletes by force.
        """
        options: RawObject = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid or resource_version:
            options["preconditions"] = {
                key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value
            }
        return await self.raw("DELETE", path, body=options, within=within)

    # --- the HTTP request of all calls ------------------------------------------------------------------------------

    async def raw(
        self,
        method: str,
        path: str,
        *,
        body: Body = None,
        query: Mapping[str, str] | None = None,
        content_type: str = _JSON,
        within: float | None = None,
    ) -> RawObject:
        """Send any call whose answer is a JSON object."""
        with self._span(f"{method} {resource_in(path)}".rstrip(), {"url.path": path}, outgoing=True):
            try:
                return await self._once(method, path, body, query, content_type, within)
            except Unauthorized:  # the session has read the credentials again, so the call is repeated
                return await self._once(method, path, body, query, content_type, within)

    async def _once(
        self,
        method: str,
        path: str,
        body: Body,
        query: Mapping[str, str] | None,
        content_type: str,
        within: float | None,
    ) -> RawObject:
        if self._withhold is not None and method not in READS and "dryRun" not in (query or {}):
            self._withhold(method, path, body)
        seconds = self._seconds(method, path, TIMEOUT if within is None else within)
        try:
            async with self._session.request(
                method,
                URL(self.access.server + path, encoded=True),
                params=query,
                data=None if body is None else json.dumps(body, separators=(",", ":")).encode(),
                headers={"Accept": _JSON, "Content-Type": content_type},
                timeout=aiohttp.ClientTimeout(total=seconds),
                ssl=self.access.tls,
                allow_redirects=False,
            ) as response:
                if date := response.headers.get("Date"):
                    self.date = date, asyncio.get_running_loop().time()
                answer = await response.read()
                if response.status >= 300:
                    raise classify(method, path, response.status, response.headers, answer)
                if self._wrote is not None and method not in READS and "dryRun" not in (query or {}):
                    self._wrote(_VERBS.get(method, method.lower()), resource_in(path))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, NotSent) as error:
            raise Unreachable(method, path, 0, "NotConnected", f"not sent: {connection_error(error)}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(method, path, error) from error
        return parsed_object(method, path, response.status, answer)

    def _seconds(self, method: str, path: str, wanted: float) -> float:
        if self._fence is None or method in READS:
            return wanted
        remaining = self._fence()
        if remaining < MIN_LEADERSHIP:
            raise Fenced(method, path, 0, "NotLeading", f"not sent: this process leads for {remaining:.1f} s more")
        return min(wanted, remaining)


def parsed_object(method: str, path: str, status: int, answer: bytes) -> RawObject:
    """Parse the JSON object of an answer. Raises ApiError if it is no JSON object, such as an answer of a proxy."""
    try:
        parsed = json.loads(answer)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise ApiError(method, path, status, "NotAnObject", "the answer is not a JSON object")
    return parsed


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[str]:
    """Split a stream into lines of any length."""
    rest = b""
    async for chunk in content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


def _no_answer(method: str, path: str, error: Exception) -> ApiError:
    message = f"no answer: {type(error).__name__} {error}".rstrip()
    return (Unreachable if method in READS else OutcomeUnknown)(method, path, 0, "NoAnswer", message)


def _items(answer: RawObject) -> tuple[RawObject, ...]:
    """The items of a list, with the kind and apiVersion that the API server omits from items."""
    kind, version = str(answer.get("kind", "")).removesuffix("List"), answer.get("apiVersion")
    items = answer.get("items") or []
    for item in items:
        item.setdefault("kind", kind)
        item.setdefault("apiVersion", version)
    return tuple(items)


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}
