"""The answers of the API server, told apart."""

from __future__ import annotations

import json
from typing import Any

import pytest

from charterer.cluster import errors
from charterer.cluster.errors import ApiError, classify


def answer(status: int, reason: str = "", message: str = "said", method: str = "POST", **details: Any) -> ApiError:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "details": details}
    return classify(method, "/path", status, {}, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", errors.BadRequest),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Gone),
        (415, "UnsupportedMediaType", errors.BadRequest),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.OutcomeUnknown),
        (504, "Timeout", errors.OutcomeUnknown),
    ],
)
def test_each_status_has_its_class(status: int, reason: str, expected: type[ApiError]) -> None:
    error = answer(status, reason)
    assert type(error) is expected
    assert (error.status, error.reason) == (status, reason)


def test_an_answer_that_is_nested_too_deeply_is_one_without_words() -> None:
    assert type(classify("GET", "/path", 404, {}, b"[" * 20_000)) is errors.NotFound


def test_an_object_that_is_too_large_is_told_from_a_server_that_failed() -> None:
    assert type(answer(500, "", "etcdserver: request is too large")) is errors.TooLarge
    assert type(answer(413, "RequestEntityTooLarge")) is errors.TooLarge
    assert issubclass(errors.TooLarge, errors.BadRequest)


def test_a_server_that_failed_at_a_read_may_simply_be_asked_again() -> None:
    assert type(answer(503, "ServiceUnavailable", method="GET")) is errors.Unreachable


def test_a_terminating_namespace_is_told_from_a_missing_permission() -> None:
    causes = [{"reason": "NamespaceTerminating", "message": "namespace x is being terminated"}]
    assert type(answer(403, "Forbidden", causes=causes)) is errors.NamespaceTerminating


def test_every_invalid_field_is_in_the_message() -> None:
    causes = [
        {"reason": "FieldValueInvalid", "field": "spec.gpus", "message": "must be at least 1"},
        {"reason": "FieldValueRequired", "field": "spec.template", "message": "Required value"},
    ]
    error = answer(422, "Invalid", "long and hard to read", kind="TrainingJob", name="sft", causes=causes)
    assert isinstance(error, errors.Invalid)
    assert error.fields == ("spec.gpus: must be at least 1", "spec.template: Required value")
    assert error.message == ("TrainingJob sft is invalid: spec.gpus: must be at least 1; spec.template: Required value")


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({"Retry-After": "7"}, {}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({}, {}, 1.0),
        ({"Retry-After": "soon"}, {}, 1.0),
    ],
)
def test_when_to_come_back_is_taken_from_wherever_it_is_said(
    headers: dict[str, str], details: dict[str, int], seconds: float
) -> None:
    body = json.dumps({"kind": "Status", "details": details}).encode()
    error = classify("GET", "/path", 429, headers, body)
    assert isinstance(error, errors.TooManyRequests)
    assert error.retry_after == seconds


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b"[]", b'"x"', b"\xff\xfe"])
def test_an_answer_that_is_not_from_the_api_server_is_quoted(body: bytes) -> None:
    error = classify("POST", "/path", 502, {}, body)
    assert type(error) is errors.OutcomeUnknown
    assert "status 502" in str(error)
