"""Authentication of training pods by projected service-account tokens, each made for the audience of its job.

Kubernetes verifies the token (TokenReview). The token must be bound to a pod, and the directory must list that pod in
the job's current run at the moment of the call. So a deleted pod loses access at once, even if its token is cached.

The token's claims are read before the TokenReview, although nobody has verified them. They name the job, and a token
for something else must not cost a call of the API server. Uids of jobs and pods are no secret, so a forged token can
name such a pod. So tokens that Kubernetes has not accepted before are reviewed only at a limited rate.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from charterer.api.names import token_audience
from charterer.domain.ids import JobId
from charterer.server.listener import RateLimiter, Refused
from charterer.server.progress import CurrentRun, JobDirectory

log = logging.getLogger(__name__)

PostReview = Callable[[Mapping[str, object]], Awaitable[Mapping[str, object]]]
"""Creates a TokenReview (authentication.k8s.io/v1). The function gets the JSON body and returns the API server's JSON
answer.
"""

_K = TypeVar("_K", str, bytes)

_AUDIENCE_PREFIX = token_audience(JobId(""))
_MAX_TOKEN_CHARACTERS = 8_192
_LATEST_EXPIRY = 1e12
"""The largest time of expiry, in Unix seconds. A larger number in a token does not count as an expiry."""
_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"
_REFUSAL_SECONDS = 10.0
"""Seconds for which a refusal by Kubernetes is cached.

The time is short, because a pod may send its token a second before the token becomes valid.
"""
_REFUSALS = 1_000
"""Number of refused tokens in the cache. Unless somebody sends a flood of tokens, fewer tokens are reviewed in
_REFUSAL_SECONDS.
"""


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated pod."""

    job: JobId
    pod: str
    pod_uid: str


@dataclass(frozen=True, slots=True)
class _Claims:
    """The unverified claims of a token. ``expires`` is in Unix seconds, or None if the token has no expiry."""

    job: JobId
    pod_uid: str
    expires: float | None


@dataclass(frozen=True, slots=True)
class _TokenVerdict:
    """The answer of Kubernetes about a token.

    ``key`` is the token's hash. ``until`` is a time of the authenticator's clock.
    """

    key: bytes
    caller: Caller | None
    why_not: str
    until: float


def _unauthenticated(message: str) -> Refused:
    return Refused(401, "Unauthenticated", message)


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise _unauthenticated("send the projected service-account token as 'Authorization: Bearer <token>'")
    if len(token) > _MAX_TOKEN_CHARACTERS or not token.isascii():
        raise _unauthenticated(f"the token is longer than {_MAX_TOKEN_CHARACTERS} characters, or not plain ASCII")
    return token


def _claims(token: str) -> _Claims:
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        audiences = claims["aud"]
        bound_to = claims.get("kubernetes.io", {}).get("pod", {}).get("uid", "")
        expires = claims.get("exp")
    except (IndexError, KeyError, AttributeError, TypeError, ValueError, RecursionError, binascii.Error):
        raise _unauthenticated("the token is no service-account token (a JSON web token with an audience)") from None
    named = [audiences] if isinstance(audiences, str) else audiences
    ours = (
        [a for a in named if isinstance(a, str) and a.startswith(_AUDIENCE_PREFIX)] if isinstance(named, list) else []
    )
    if len(ours) != 1:
        raise _unauthenticated(f"the token's audience must be {_AUDIENCE_PREFIX}<uid of the TrainingJob>, once")
    if not isinstance(bound_to, str) or not bound_to:
        raise Refused(
            403, "NotAPod", "the token is not bound to a pod; use the one that Charterer projects into the pod"
        )
    return _Claims(
        JobId(ours[0].removeprefix(_AUDIENCE_PREFIX)),
        bound_to,
        float(expires) if isinstance(expires, int | float) and abs(expires) < _LATEST_EXPIRY else None,
    )


def _review_of(token: str, job: JobId) -> Mapping[str, object]:
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [token_audience(job)]},
    }


def _read_review(answer: Mapping[str, object], job: JobId) -> tuple[Caller | None, str]:
    """The caller, or None and the reason."""
    status = answer.get("status")
    if not isinstance(status, Mapping) or status.get("authenticated") is not True:
        return None, "Kubernetes does not accept the token: it is expired, revoked or of another cluster"
    accepted = status.get("audiences")
    if not isinstance(accepted, list) or token_audience(job) not in accepted:
        return None, f"Kubernetes does not accept the token for the audience {token_audience(job)}"
    user = status.get("user")
    extra = user.get("extra") if isinstance(user, Mapping) else None
    names, uids = (extra.get(_POD_NAME), extra.get(_POD_UID)) if isinstance(extra, Mapping) else (None, None)
    if not (isinstance(names, list) and isinstance(uids, list) and len(names) == len(uids) == 1):
        return None, "the token is not bound to a pod; use the one that Charterer projects into the pod"
    return Caller(job, str(names[0]), str(uids[0])), ""


@dataclass(frozen=True, slots=True)
class ReviewLimits:
    """Rate limits of TokenReviews for tokens that were never accepted.

    ``address`` limits each client address, which may be a node with many pods behind it. ``pod`` limits each claimed
    pod per address, so that forged tokens do not keep the pod itself from sending a new token.
    """

    address: RateLimiter
    pod: RateLimiter

    @classmethod
    def usual(cls, clock: Callable[[], float] = time.monotonic) -> ReviewLimits:
        """Limits for pods that send a new token every hour, and all send one at once after the operator has started."""
        return cls(RateLimiter(rate=5.0, burst=100, clock=clock), RateLimiter(rate=0.2, burst=5, clock=clock))

    def wait_seconds(self, pod_uid: str, address: str) -> float:
        """0 if one more token may be reviewed, which counts the token. Otherwise the seconds until one may be
        reviewed.
        """
        return self.pod.wait_seconds(f"{address} {pod_uid}") or self.address.wait_seconds(address)


class Authenticator:
    """Turns the Authorization header into a Caller, with one TokenReview per token and ``cache_seconds``.

    The cache has the hash of the last accepted token of each pod, for at most ``cache_size`` pods. Refused tokens have
    a cache of their own, so that forged tokens do not displace valid ones. No verdict is used after its token has
    expired. At most ``concurrent_reviews`` reviews run at a time. Concurrent requests with the same token share one
    review.
    """

    def __init__(
        self,
        review: PostReview,
        directory: JobDirectory,
        *,
        cache_seconds: float = 300.0,
        cache_size: int = 10_000,
        concurrent_reviews: int = 8,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._review = review
        self._directory = directory
        self._cache_seconds = cache_seconds
        self._cache_size = cache_size
        self._slots = asyncio.Semaphore(concurrent_reviews)
        self._clock = clock
        self._wall_clock = wall_clock
        self._limits = ReviewLimits.usual(clock)
        self._accepted: OrderedDict[str, _TokenVerdict] = OrderedDict()
        self._refused: OrderedDict[bytes, _TokenVerdict] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[_TokenVerdict]] = {}

    async def authenticate(self, authorization: str | None, address: str) -> Caller:
        """Authenticate the pod that sent this header from ``address``.

        Raises Refused: 401 (not authenticated), 403 (not a pod of the job's current run), 429 (too many tokens), 503
        (Kubernetes not reached).
        """
        token = _bearer(authorization)
        claims = _claims(token)
        self._admit(claims.job, claims.pod_uid)
        if claims.expires is not None and claims.expires <= self._wall_clock():
            raise _unauthenticated("the token has expired; read its file anew at each call")
        verdict = await self._verdict(token, claims, address)
        if verdict.caller is None:
            raise _unauthenticated(verdict.why_not)
        self._admit(verdict.caller.job, verdict.caller.pod_uid)
        return verdict.caller

    def _admit(self, job: JobId, pod_uid: str) -> CurrentRun:
        run = self._directory.find(job)
        if run is None:
            raise Refused(403, "NoSuchJob", f"there is no TrainingJob with uid {job} that has a run with pods")
        if pod_uid not in run.pod_uids:
            raise Refused(403, "NotCurrentRun", f"pod {pod_uid} is not of run {run.number}, the job's current run")
        return run

    async def _verdict(self, token: str, claims: _Claims, address: str) -> _TokenVerdict:
        key = hashlib.sha256(token.encode()).digest()
        last = self._accepted.get(claims.pod_uid)
        accepted = last is not None and last.key == key
        known = last if accepted else self._refused.get(key)
        if known is not None and known.until > self._clock():
            if accepted:
                self._accepted.move_to_end(claims.pod_uid)
            return known
        task = self._asking.get(key)
        if task is None:
            wait = 0.0 if accepted else self._limits.wait_seconds(claims.pod_uid, address)
            if wait:
                message = f"too many tokens from {address} that Kubernetes has not accepted before"
                raise Refused(429, "TooManyTokens", message, retry_after=math.ceil(wait))
            task = asyncio.create_task(self._ask(key, token, claims))
            self._asking[key] = task
            task.add_done_callback(lambda done: self._asked(key, done))
        return await asyncio.shield(task)

    def _asked(self, key: bytes, task: asyncio.Task[_TokenVerdict]) -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            task.exception()  # retrieves the exception, because all callers may have gone

    async def _ask(self, key: bytes, token: str, claims: _Claims) -> _TokenVerdict:
        async with self._slots:
            try:
                answer = await self._review(_review_of(token, claims.job))
            except Exception as error:
                log.warning("TokenReview failed: %s", type(error).__name__)
                raise Refused(
                    503, "CannotVerify", "Kubernetes could not be asked about the token; try again", retry_after=5
                ) from None
        caller, why_not = _read_review(answer, claims.job)
        seconds = self._cache_seconds if caller is not None else _REFUSAL_SECONDS
        if claims.expires is not None:
            seconds = min(seconds, claims.expires - self._wall_clock())
        verdict = _TokenVerdict(key, caller, why_not, self._clock() + seconds)
        if caller is not None:
            _remember(self._accepted, caller.pod_uid, verdict, self._cache_size)
        else:
            if claims.pod_uid in self._accepted and self._accepted[claims.pod_uid].key == key:
                del self._accepted[claims.pod_uid]
            _remember(self._refused, key, verdict, _REFUSALS)
        return verdict


def _remember(verdicts: OrderedDict[_K, _TokenVerdict], key: _K, verdict: _TokenVerdict, size: int) -> None:
    """Add a verdict as the latest one. If there are more than ``size``, the verdicts that were not used for longest are
    removed.
    """
    verdicts[key] = verdict
    verdicts.move_to_end(key)
    while len(verdicts) > size:
        verdicts.popitem(last=False)
