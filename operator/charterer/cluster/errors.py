"""Errors of calls to the API server. The class of an error says what the caller may do next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


class ApiError(Exception):
    """A call that did not succeed. ``status`` is 0 if there was no answer. ``reason`` is the API's CamelCase reason.

    ``retry_after``: seconds after which the API server allows the next attempt.
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
    """400 and other refusals of a wrong request."""


class Invalid(BadRequest):
    """422: the object was refused. ``fields`` has one sentence for each wrong field, and the message has all of the
    sentences.
    """

    def __init__(
        self, method: str, path: str, status: int, reason: str, message: str, fields: tuple[str, ...] = ()
    ) -> None:
        super().__init__(method, path, status, reason, message)
        self.fields = fields


class TooLarge(BadRequest):
    """The object exceeds the size limit of the API server or of etcd. Nothing was written."""


class Unauthorized(ApiError):
    """401, even after the token was read again."""


class Forbidden(ApiError):
    """403: the message names the missing permission, or another reason of the refusal."""


class NamespaceTerminating(Forbidden):
    """403: the namespace is being deleted, so nothing can be created in it."""


class NotFound(ApiError):
    """404: there is no such object, or no such resource type because its CRD is not installed."""


class AlreadyExists(ApiError):
    """409: an object of that name exists already."""


class Conflict(ApiError):
    """A precondition failed (stale resourceVersion, other uid, JSON patch test).

    Read the object again, then decide again.
    """


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old. List from the beginning."""


class TooManyRequests(ApiError):
    """429: nothing was done. The call may be repeated after ``retry_after`` seconds."""

    def __init__(self, method: str, path: str, status: int, reason: str, message: str, retry_after: float) -> None:
        super().__init__(method, path, status, reason, message)
        self.retry_after = retry_after


class Unreachable(ApiError):
    """Nothing was done, because no connection was made, or a read got no answer or a 5xx. The call is safe to
    repeat.
    """


class Withheld(ApiError):
    """A mutation of a dry run, which was logged and not sent."""


class Fenced(Unreachable):
    """Nothing was done, because this process does not lead, or does not lead for long enough. It may therefore change
    nothing.
    """


class OutcomeUnknown(ApiError):
    """A mutation was sent, and its answer was lost, came too late, or was a 5xx.

    The mutation may have taken effect. Read the object before you repeat the mutation.
    """


READS = frozenset({"GET", "HEAD"})
_STORE_REFUSES = "request is too large"
"""Etcd's message for an object above its size limit. The API server answers it with a 500."""


def classify(method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error for an answer of status 400 or more. ``body`` is a ``metav1.Status`` if the API server wrote it."""
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
    """The causes field by field if the API lists any, otherwise the API's message, otherwise the beginning of the
    body.
    """
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
