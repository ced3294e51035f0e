"""The objects of the cluster for adapters of clouds, whose layer does not know the client of the API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Final

from charterer.cluster.client import TIMEOUT, Client
from charterer.cluster.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    TooManyRequests,
    Unauthorized,
)
from charterer.domain.time import Instant, instant
from charterer.providers.karpenter.objects import CallFailure, Json, Listed, ObjectsError

_FAILURES: Final[Mapping[type[ApiError], CallFailure]] = {
    OutcomeUnknown: CallFailure.UNKNOWN,
    TooManyRequests: CallFailure.THROTTLED,
    Unauthorized: CallFailure.FORBIDDEN,
    Forbidden: CallFailure.FORBIDDEN,
    NotFound: CallFailure.ABSENT,
    BadRequest: CallFailure.REFUSED,
}

_LOOSENESS: Final = round((TIMEOUT + 1) * 1e6)
"""Microseconds by which an answer's time may be behind: it is told in whole seconds, and on its way for a while."""


class ClusterObjects:
    """The calls of ``providers.karpenter.objects.Objects``, made by the operator's client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ahead: int | None = None
        """Microseconds by which the API server's clock is ahead of the event loop's, at least."""

    async def get(self, path: str) -> Json | None:
        """One object; None where there is none of that name, nor that kind."""
        with _classified("get", path):
            try:
                return await self._client.get(path)
            except NotFound:
                return None

    async def list(self, path: str, *, labels: str = "", fields: str = "") -> Listed:
        """A whole list, with the time at which it was asked for: by then it was complete."""
        began = asyncio.get_running_loop().time()
        with _classified("list", path):
            listing = await self._client.list(path, labels=labels, fields=fields)
        return Listed(listing.items, self._at(began))

    async def create(self, path: str, body: Json, *, dry_run: bool = False) -> bool:
        """Create an object in the collection at ``path``; False where one of that name exists."""
        with _classified("create", path):
            try:
                await self._client.post(path, body, dry_run=dry_run)
            except AlreadyExists:
                return False
            return True

    async def keep_by(self, path: str, resource_version: str, finalizers: Sequence[str]) -> str | None:
        """Set an object's finalizers; its new resourceVersion, or None where it has changed since or is gone."""
        body = {"metadata": {"resourceVersion": resource_version, "finalizers": list(finalizers)}}
        with _classified("patch", path):
            try:
                changed = await self._client.merge_patch(path, body)
            except (Conflict, NotFound):
                return None
            return str(changed["metadata"]["resourceVersion"])

    async def delete(self, path: str, *, uid: str, resource_version: str = "") -> bool:
        """Delete that object, if it is still the same (and unchanged); False where it is not, or is gone."""
        with _classified("delete", path):
            try:
                await self._client.delete(path, uid=uid, resource_version=resource_version or None)
            except (Conflict, NotFound):
                return False
            return True

    def _at(self, clock: float) -> Instant:
        """The API server's time when the event loop's clock shows ``clock``; it goes back only if that clock did.

        Answers tell whole seconds, so each bounds the difference of the clocks from below, and the best bound counts.
        """
        if self._client.date is None:
            return Instant(time.time_ns() // 1_000)
        date, received = self._client.date
        least = instant(parsedate_to_datetime(date)) - round(received * 1e6)
        known = least if self._ahead is None else self._ahead
        self._ahead = min(max(known, least), least + _LOOSENESS)
        return Instant(round(clock * 1e6) + self._ahead)


@contextmanager
def _classified(call: str, path: str) -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        failure = next((found for kind, found in _FAILURES.items() if isinstance(error, kind)), CallFailure.NOT_DONE)
        retry_after = error.retry_after if isinstance(error, TooManyRequests) else 1.0
        raise ObjectsError(failure, f"{call} {path}", error.message, retry_after) from error
