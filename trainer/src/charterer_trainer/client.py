"""The call to the progress endpoint. It uses HTTPS, accepts only Charterer's own CA, and has short time-outs."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from charterer_trainer.allocations import Allocation
from charterer_trainer.environment import Environment, whole
from charterer_trainer.members import Members

_MAX_ANSWER_BYTES = 1_048_576
"""Most bytes of an answer. They have room for the names of some thousands of pods."""


class Unanswered(Exception):
    """The call did not succeed. ``retry_after``: seconds to wait that the server requested, if it requested any."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True)
class Answer:
    """The operator's answer: the current allocation, whether a stop is coming, and seconds until the next report.

    ``batch``: samples per step that the whole job should use from now on. ``checkpoint_every``: seconds of training
    between two checkpoints. ``members``: the pods that should form the group of a job that is resized in place. Each
    value is None if the operator advises none.
    """

    allocation: Allocation | None
    stopping: bool
    again_seconds: float
    batch: int | None = None
    checkpoint_every: float | None = None
    members: Members | None = None


class Client:
    """Posts reports. The token is read from its file at each call, because Kubernetes renews the token in the file."""

    def __init__(self, environment: Environment, timeout: float = 5.0) -> None:
        self._environment = environment
        self._timeout = timeout
        self._tls: ssl.SSLContext | None = None

    def post(self, report: Mapping[str, object], held: float = 0.0) -> Answer:
        """Post a report and return the operator's answer. The operator may hold the answer back for ``held`` seconds.

        Raises Unanswered.
        """
        try:
            return self._post(report, self._timeout + held)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unanswered(f"{type(error).__name__}: {error}") from error

    def _post(self, report: Mapping[str, object], timeout: float) -> Answer:
        token = self._environment.token_file.read_text().strip()
        connection = self._connection(timeout)
        try:
            connection.request(
                "POST",
                urlsplit(self._environment.progress_url).path + "/v1/progress",
                body=json.dumps(report),
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
            response = connection.getresponse()
            body = response.read(_MAX_ANSWER_BYTES)
            if response.status != 200:
                raise Unanswered(_complaint(response.status, body), _seconds(response.headers.get("Retry-After")))
        finally:
            connection.close()
        return _answer(json.loads(body))

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        url = urlsplit(self._environment.progress_url)
        if url.hostname is None:
            raise ValueError(f"CHARTERER_PROGRESS_URL {self._environment.progress_url!r} has no host")
        if url.scheme == "http":
            return http.client.HTTPConnection(url.hostname, url.port, timeout=timeout)
        if self._tls is None:
            self._tls = ssl.create_default_context(cadata=self._environment.ca_pem or None)
        return http.client.HTTPSConnection(url.hostname, url.port, timeout=timeout, context=self._tls)


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text is not None else None
    except ValueError:
        return None


def _complaint(status: int, body: bytes) -> str:
    try:
        return f"HTTP {status}: {json.loads(body)['error']['message']}"
    except (ValueError, KeyError, TypeError):
        return f"HTTP {status}"


def _interval(value: object) -> float | None:
    sensible = isinstance(value, (int, float)) and not isinstance(value, bool) and 1 <= value <= 86_400
    return float(value) if sensible and isinstance(value, (int, float)) else None


def _answer(content: object) -> Answer:
    if not isinstance(content, dict):
        raise ValueError("the answer is no JSON object")
    again = content.get("againSeconds")
    return Answer(
        allocation=Allocation.of(content.get("allocation")),
        stopping=content.get("stopping") is True,
        again_seconds=float(again) if isinstance(again, (int, float)) and 1 <= again <= 300 else 10.0,
        batch=whole(content.get("batch")) or None,
        checkpoint_every=_interval(content.get("checkpointEverySeconds")),
        members=Members.of(content.get("members")),
    )
