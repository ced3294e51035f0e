"""A small Kubernetes that reviews tokens, and a directory of one job: enough to run the real server against."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from charterer.domain.ids import JobId
from charterer.domain.time import Instant
from charterer.server.progress import CurrentRun, ProgressReport

JOB = JobId("0b6b5f3e-6d3c-4a0e-9d6e-000000000001")
POD_UID = "0b6b5f3e-6d3c-4a0e-9d6e-0000000000aa"
ALLOCATION = {"run": 2, "gpus": 8, "pods": 2, "gpusPerPod": 4}


def token(
    *, job: str = JOB, pod_uid: str = POD_UID, audiences: object = None, expires: float | None = None, salt: str = ""
) -> str:
    """A token as Kubernetes shapes them; its signature is worth what the Reviewer says."""
    claims: dict[str, object] = {
        "aud": [f"charterer.dev/tj/{job}"] if audiences is None else audiences,
        "kubernetes.io": {"namespace": "research", "pod": {"name": "sft-r2-0-abcde", "uid": pod_uid}},
        "jti": salt,
    }
    if expires is not None:
        claims["exp"] = expires
    return ".".join(
        base64.urlsafe_b64encode(part.encode()).decode().rstrip("=")
        for part in ('{"alg":"RS256"}', json.dumps(claims), "signature")
    )


def bearer(token: str) -> str:
    """The header Authorization."""
    return f"Bearer {token}"


@dataclass
class Adviser:
    """Hears reports and has one batch size for everybody."""

    batch: int | None = None
    heard: list[ProgressReport] = field(default_factory=list)

    def handle_report(self, job_id: JobId, run: int, report: ProgressReport, at: Instant) -> int | None:
        assert (job_id, run) == (JOB, 2)
        self.heard.append(report)
        return self.batch


@dataclass
class Reviewer:
    """Answers TokenReviews as Kubernetes does: a token is accepted for its own audience unless it is in ``revoked``."""

    asked: list[str] = field(default_factory=list)
    revoked: set[str] = field(default_factory=set)
    down: bool = False

    async def __call__(self, body: Mapping[str, object]) -> Mapping[str, object]:
        spec = cast("Mapping[str, Any]", body["spec"])
        asked = spec["token"]
        self.asked.append(asked)
        if self.down:
            raise ConnectionError("no route to the API server")
        if asked in self.revoked:
            return {"status": {"authenticated": False, "error": "invalid bearer token"}}
        payload = asked.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
        extra = {
            "authentication.kubernetes.io/pod-name": [claims["kubernetes.io"]["pod"]["name"]],
            "authentication.kubernetes.io/pod-uid": [claims["kubernetes.io"]["pod"]["uid"]],
        }
        audiences = sorted(set(claims["aud"]) & set(spec["audiences"]))
        user = {"username": "system:serviceaccount:research:default", "extra": extra}
        return {"status": {"authenticated": True, "user": user, "audiences": audiences}}


@dataclass
class Directory:
    """The jobs that exist, by uid."""

    runs: dict[JobId, CurrentRun] = field(
        default_factory=lambda: {JOB: CurrentRun(2, frozenset({POD_UID}), ALLOCATION, stopping=False)}
    )

    def find(self, job: JobId) -> CurrentRun | None:
        return self.runs.get(job)


@dataclass
class Clock:
    """A clock that the test turns, in seconds."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now
