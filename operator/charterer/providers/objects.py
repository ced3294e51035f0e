"""The few calls to the Kubernetes API that adapters make, and their errors. The package ``app`` provides the
implementation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

from charterer.domain.ids import PoolId
from charterer.domain.time import Instant
from charterer.providers.errors import (
    CloudOutcomeUnknown,
    CloudUnauthorized,
    CloudUnreachable,
    InvalidRequest,
    NotFoundInCloud,
    ProviderError,
    Throttled,
    UnknownCode,
)

Json: TypeAlias = Mapping[str, Any]


class CallFailure(StrEnum):
    """What is known of a call that failed."""

    NOT_DONE = "Unreachable"
    """Nothing was done. The call may be repeated."""
    UNKNOWN = "OutcomeUnknown"
    """The call may have taken effect."""
    THROTTLED = "Throttled"
    """There were too many calls. Nothing was done."""
    FORBIDDEN = "Forbidden"
    """The operator lacks the right."""
    ABSENT = "NotFound"
    """There is no such kind: its CRD is not installed."""
    REFUSED = "Invalid"
    """The API server refuses the object."""


class ObjectsError(Exception):
    """A call to the API server failed. ``message``: the server's message. ``retry_after``: seconds to wait, if there
    were too many calls.
    """

    def __init__(self, failure: CallFailure, call: str, message: str, retry_after: float = 1.0) -> None:
        super().__init__(f"{call}: {message}")
        self.failure = failure
        self.call = call
        self.message = message
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Listed:
    """A whole list. It shows everything that had happened by ``at``, by the API server's clock."""

    items: Sequence[Json]
    at: Instant


class Objects(Protocol):
    """Objects of the cluster by path. Every call may raise ObjectsError. No call is repeated."""

    async def get(self, path: str) -> Json | None:
        """One object. None if there is no object of that name, or no such kind."""
        ...

    async def list(self, path: str, *, labels: str = "", fields: str = "") -> Listed:
        """A whole list, as it is now."""
        ...

    async def create(self, path: str, body: Json, *, dry_run: bool = False) -> bool:
        """Create an object in the collection at ``path``. Returns False if an object of that name exists."""
        ...

    async def keep_by(self, path: str, resource_version: str, finalizers: Sequence[str]) -> str | None:
        """Set an object's finalizers. Returns its new resourceVersion, or None if the object has changed since or is
        gone.
        """
        ...

    async def delete(self, path: str, *, uid: str, resource_version: str = "") -> bool:
        """Delete the object if it has this uid and, if given, this resourceVersion. Returns False if it differs in
        either, or is gone.
        """
        ...


_ERRORS: Final[Mapping[CallFailure, type[ProviderError]]] = {
    CallFailure.NOT_DONE: CloudUnreachable,
    CallFailure.UNKNOWN: CloudOutcomeUnknown,
    CallFailure.FORBIDDEN: CloudUnauthorized,
    CallFailure.ABSENT: NotFoundInCloud,
    CallFailure.REFUSED: InvalidRequest,
}


def about_pool(pool: PoolId, error: ObjectsError, hints: Mapping[CallFailure, str]) -> ProviderError:
    """The error of the API server as an error of that pool. ``hints``: texts that follow the API server's message, by
    the kind of failure.
    """
    message = f"{error.message}{hints.get(error.failure, '')}"
    if error.failure is CallFailure.THROTTLED:
        return Throttled(pool, error.call, error.failure.value, message, error.retry_after)
    return _ERRORS.get(error.failure, UnknownCode)(pool, error.call, error.failure.value, message)
