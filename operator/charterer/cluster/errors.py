"""Failures of calls to the API server, classified once, so that the class says what may be done next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


class ApiError(Exception):
    """A call that did not succeed. ``status`` is 0 when there was no answer; ``reason`` the API's CamelCase word.

    ``retry_after``: seconds for which the API server asked to be left alone.
    """

    retry_after = 0.0

    def __init__(self, method: str, path: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{method} {path}: {message}")
        self.method = method
        self.path = path
        self.status = status
        self.reason = reason
        self.message = message


class BadRequest(ApiError):
    """400 and other refusals of the request itself, which was wrong."""


class Invalid(BadRequest):
    """422: the object was refused. ``fields`` has a sentence for each wrong field; the message has them all."""

    def __init__(
        self, method: str, path: str, status: int, reason: str, message: str, fields: tuple[str, ...] = ()
    ) -> None:
        super().__init__(method, path, status, reason, message)
        self.fields = fields


class TooLarge(BadRequest):
    """The object is larger than the API server or its store takes; nothing was written."""


class Unauthorized(ApiError):
    """401, also after the token was read again."""


class Forbidden(ApiError):
    """403: the message names the missing permission, or what else forbids it."""


class NamespaceTerminating(Forbidden):
    """403: nothing can be created in a namespace that is being deleted."""


class NotFound(ApiError):
    """404: no such object (or no such resource type: is the CRD installed?)."""


class AlreadyExists(ApiError):
    """409: an object of that name exists already."""


class Conflict(ApiError):
    """A precondition failed (stale resourceVersion, other uid, JSON patch test): look again and decide anew."""


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old; list from the beginning."""


class TooManyRequests(ApiError):
    """429: nothing was done; repeat after ``retry_after`` seconds."""

    def __init__(self, method: str, path: str, status: int, reason: str, message: str, retry_after: float) -> None:
        super().__init__(method, path, status, reason, message)
        self.retry_after = retry_after


class Unreachable(ApiError):
    """Nothing was done: no connection could be made, or a read got no (or a 5xx) answer. Safe to repeat."""


class Withheld(ApiError):
    """A mutation of a dry run, which only logs it; nothing was sent."""


class Fenced(Unreachable):
    """Nothing was done: this process does not lead, or not for long enough, so it must not change anything."""


class OutcomeUnknown(ApiError):
    """A mutation was sent and its answer lost, late or a 5xx: it may have happened. Look before repeating."""


READS = frozenset({"GET", "HEAD"})
_STORE_REFUSES = "request is too large"
"""Etcd's message about an object above its limit, for which the API server answers 500."""


def classify(method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error of an answer with a status of 400 or more; ``body`` is a ``metav1.Status`` if the server made it."""
    answer = _status_object(body)
    reason = str(answer.get("reason") or "")
    message = _readable(answer, status, body)
    args = (method, path, status, reason, message)
    if status == 429:
        return TooManyRequests(*args, _retry_after(headers, answer))
    if status == 413 or _STORE_REFUSES in message:
        return TooLarge(*args)
    if status >= 500:
        return Unreachable(*args) if method in READS else OutcomeUnknown(*args)
    if status == 403 and "NamespaceTerminating" in _cause_reasons(answer):
        return NamespaceTerminating(*args)
    if status == 409 and reason == "AlreadyExists":
        return AlreadyExists(*args)
    if status == 422:
        return Invalid(*args, _fields(answer))
    return _BY_STATUS.get(status, BadRequest)(*args)


_BY_STATUS: Mapping[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
}


def _status_object(body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) and answer.get("kind") == "Status" else {}


def _causes(answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (answer.get("details") or {}).get("causes") or ()


def _cause_reasons(answer: Mapping[str, Any]) -> set[str]:
    return {str(cause.get("reason")) for cause in _causes(answer)}


def _fields(answer: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        f"{cause['field']}: {cause.get('message') or cause.get('reason')}"
        for cause in _causes(answer)
        if cause.get("field")
    )


def _readable(answer: Mapping[str, Any], status: int, body: bytes) -> str:
    """The causes, field by field, where the API lists some; otherwise its message, or the beginning of the body."""
    message = str(answer.get("message") or "")
    fields = _fields(answer)
    if status == 422 and fields:
        details = answer.get("details") or {}
        return f"{details.get('kind', 'object')} {details.get('name', '')} is invalid: {'; '.join(fields)}"
    if status == 403 and "cannot" in message:
        return f"{message} (grant it to that user by a Role or ClusterRole)"
    return message or f"status {status}: {body[:300].decode(errors='replace')}"


def _retry_after(headers: Mapping[str, str], answer: Mapping[str, Any]) -> float:
    delay = headers.get("Retry-After") or (answer.get("details") or {}).get("retryAfterSeconds") or 1
    try:
        return max(0.0, float(delay))
    except ValueError:
        return 1.0
