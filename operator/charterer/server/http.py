"""The HTTP applications: health (for the kubelet), metrics (for Prometheus) and progress (TLS, for pods)."""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import Final, Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from charterer.api.names import TRAINER_STATUS_PATH
from charterer.domain.ids import JobId
from charterer.domain.time import Instant
from charterer.policy.options.market import advised_checkpoint_interval
from charterer.server.listener import Listener, RateLimiter, Refused
from charterer.server.progress import CurrentRun, JobDirectory, ProgressBoard, ProgressReport, parse_trainer_status
from charterer.server.tokens import Authenticator, Caller

# Long polling: an answer is held back until the group that a run should form changes, so that pods hear of the change
# at once.
#
# Only the leader of a run and pods that wait to join request this. A waiting request costs its connection and a future.
# Each turn of the loop checks the waiting requests. It looks only at jobs that have waiting requests.


HOLD_SECONDS: Final = 20.0
"""Most seconds for which an answer is held back. The limit is shorter than the time-outs of proxies and clients."""
MOST_HELD: Final = 2_048
"""Most answers that are held back at the same time. A further answer is sent at once, and the pod asks again later."""


class HeldAnswers:
    """Answers that are held back.

    ``generation`` returns the generation of the group that a job's run should form now, or None if it should form no
    group.
    """

    def __init__(
        self, generation: Callable[[JobId], int | None], *, seconds: float = HOLD_SECONDS, most: int = MOST_HELD
    ) -> None:
        self._generation = generation
        self._seconds = seconds
        self._most = most
        self._waiting: dict[JobId, dict[asyncio.Future[None], int]] = {}
        self._held = 0

    def __len__(self) -> int:
        return self._held

    async def wait(self, job: JobId, generation: int) -> None:
        """Wait until the job's group differs from ``generation``, but at most ``seconds``."""
        if self._generation(job) != generation or self._held >= self._most:
            return
        changed = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job, {})[changed] = generation
        self._held += 1
        try:
            async with asyncio.timeout(self._seconds):
                await changed
        except TimeoutError:
            pass
        finally:
            self._held -= 1
            of_job = self._waiting[job]
            del of_job[changed]
            if not of_job:
                del self._waiting[job]

    def look(self) -> None:
        """End the waits of jobs whose group changed."""
        for job, waits in self._waiting.items():
            current = self._generation(job)
            for changed, generation in waits.items():
                if generation != current and not changed.done():
                    changed.set_result(None)


# The interface of the part that learns from reports and advises batch sizes. The controller implements this interface.


class BatchAdvisor(Protocol):
    """Receives every accepted report and answers at once, from memory. No method raises."""

    def handle_report(self, job_id: JobId, run: int, report: ProgressReport, at: Instant) -> int | None:
        """The total batch size in samples that the job should use from now on. None if the job should keep its own."""
        ...


log = logging.getLogger(__name__)

Check = Callable[[], tuple[bool, str]]
"""Returns whether a part of the process works, and a sentence about it."""

_EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MAX_BODY_BYTES = 65_536
"""The limit of Kubeflow Trainer, whose clients send up to 256 metrics."""
AGAIN_SECONDS = 10
"""Seconds between two reports of a pod. A pod learns of a coming stop within this time, before SIGTERM."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """``connections``: most open at a time. ``request_seconds``: time within which a connection must send its next
    request.
    """

    connections: int = 512
    request_seconds: float = 15.0


PROGRESS_CONNECTIONS = ServerLimits(connections=4_096)
"""Limits for reports. The answers that are held back (``MOST_HELD``) use at most half of the connections."""
FEW_CONNECTIONS = ServerLimits(connections=64)
"""Limits for health and metrics, which have few clients."""


def _checked(checks: Mapping[str, Check]) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        results = {name: check() for name, check in checks.items()}
        lines = [f"{'ok  ' if ok else 'FAIL'} {name}: {detail}" for name, (ok, detail) in results.items()]
        well = all(ok for ok, _ in results.values())
        return web.Response(status=200 if well else 503, text="\n".join([*lines, "ok" if well else "not ok", ""]))

    return answer


def health_app(live: Mapping[str, Check], ready: Mapping[str, Check]) -> web.Application:
    """GET /healthz (every check of ``live``) and /readyz (every check of ``ready``): 200, or 503 with the reasons."""
    app = web.Application()
    app.router.add_get("/healthz", _checked(live))
    app.router.add_get("/readyz", _checked(ready))
    return app


def metrics_app(exposition: Callable[[], bytes]) -> web.Application:
    """GET /metrics, without authentication."""

    async def metrics(_: web.Request) -> web.StreamResponse:
        return web.Response(body=exposition(), headers={"Content-Type": _EXPOSITION_TYPE})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app


def _refusal(refused: Refused) -> web.Response:
    headers = {} if refused.retry_after is None else {"Retry-After": str(refused.retry_after)}
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    error = {"code": refused.code, "message": refused.message}
    return web.json_response({"error": error}, status=refused.status, headers=headers)


@web.middleware
async def _refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refused as refused:
        return _refusal(refused)
    except web.HTTPRequestEntityTooLarge:
        return _refusal(Refused(413, "TooLarge", f"a report has at most {_MAX_BODY_BYTES} bytes"))


async def _body(request: web.Request, within: float) -> bytes:
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise Refused(415, "ContentEncoding", f"Content-Encoding {encoding!r:.40}: send the report as it is")
    try:
        async with asyncio.timeout(within):
            return await request.read()
    except TimeoutError:
        raise Refused(408, "TooSlow", f"the report did not arrive within {within:g} s") from None
    except (web.RequestPayloadError, HttpProcessingError):
        raise Refused(400, "InvalidReport", "the body does not arrive as its headers say") from None


def _current_run(directory: JobDirectory, job: JobId, report: ProgressReport) -> CurrentRun:
    """The current run of the job, which must be the run that the report names.

    Raises Refused (409) if the report's run is over.
    """
    run = directory.find(job)
    if run is not None and report.run in (None, run.number):
        return run
    current = f"run {run.number} is current" if run is not None else "no run is current"
    raise Refused(409, "RunIsOver", f"the report is of run {report.run}; {current}")


def progress_app(
    authenticator: Authenticator,
    directory: JobDirectory,
    board: ProgressBoard,
    now: Callable[[], Instant],
    counsel: BatchAdvisor,
    held: HeldAnswers,
    *,
    pace: RateLimiter | None = None,
    again_seconds: int = AGAIN_SECONDS,
    limits: ServerLimits | None = None,
) -> web.Application:
    """POST /v1/progress: a pod reports progress and gets its allocation and whether its run is about to stop.

    POST /v1/trainer-status/<index of the pod> does the same in Kubeflow Trainer's protocol (``progress``).

    The answer is ``{"allocation": {"run", "gpus", "pods", "gpusPerPod"}, "stopping": bool, "againSeconds": int}``, with
    ``"batch"`` (samples per step) if ``counsel`` advises one, ``"checkpointEverySeconds"`` if nodes may be taken back,
    and ``"members"`` (the pods that should train together) if the width changes in place. ``held`` lets answers wait
    for a change of the members.

    Refusals: 400 (names the field and the fault), 401, 403, 408, 409 (the report's run is over), 413, 415, 429, 503.
    """
    pods = pace if pace is not None else RateLimiter()
    body_seconds = (limits or ServerLimits()).request_seconds

    async def admitted(request: web.Request) -> tuple[Caller, bytes]:
        caller = await authenticator.authenticate(request.headers.get("Authorization"), request.remote or "")
        wait = pods.wait_seconds(caller.pod_uid)
        if wait:
            raise Refused(429, "TooManyReports", f"pod {caller.pod} reports too often", retry_after=math.ceil(wait))
        return caller, await _body(request, body_seconds)

    async def post(request: web.Request) -> web.StreamResponse:
        caller, body = await admitted(request)
        return await answered(caller, ProgressReport.parse(body))

    async def post_trainer_status(request: web.Request) -> web.StreamResponse:
        caller, body = await admitted(request)
        run = _current_run(directory, caller.job, ProgressReport())
        index = int(request.match_info["index"])
        return await answered(caller, parse_trainer_status(body, index, stopping=run.stopping))

    async def answered(caller: Caller, report: ProgressReport) -> web.StreamResponse:
        run = _current_run(directory, caller.job, report)
        board.report(caller.job, run.number, report, now(), leader=run.leader, session=run.session)
        batch = counsel.handle_report(caller.job, run.number, report, now())
        if report.wait_generation is not None:
            await held.wait(caller.job, report.wait_generation)
            run = _current_run(directory, caller.job, report)
        answer = {"allocation": dict(run.allocation), "stopping": run.stopping, "againSeconds": again_seconds}
        if batch is not None:
            answer["batch"] = batch
        if run.members is not None:
            answer["members"] = run.members._asdict()
        if run.hazard is not None:
            answer["checkpointEverySeconds"] = round(
                advised_checkpoint_interval(run.hazard, run.ages, report.checkpoint_seconds)
            )
        return web.json_response(answer)

    app = web.Application(client_max_size=_MAX_BODY_BYTES, middlewares=[_refusals])
    app.router.add_post("/v1/progress", post)
    app.router.add_post(TRAINER_STATUS_PATH + r"/{index:\d{1,9}}", post_trainer_status)
    return app


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A served application. ``port`` is the real port even if 0 was requested."""

    port: int
    _listener: Listener
    _runner: web.AppRunner

    async def close(self) -> None:
        """Stop listening, and give open requests a moment to finish."""
        await self._listener.close()
        await self._runner.cleanup()


async def serve(
    app: web.Application,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    *,
    limits: ServerLimits | None = None,
) -> HttpServer:
    """Serve ``app`` in the running loop. Raises OSError if the port is taken."""
    limits = limits or ServerLimits()
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_requests_log,
        shutdown_timeout=2.0,
        keepalive_timeout=limits.request_seconds,  # also the time limit for the first request's headers
        lingering_time=1.0,
        auto_decompress=False,
    )
    await runner.setup()
    try:
        assert runner.server is not None
        listener = Listener(runner.server, host, port, tls, limits.connections)
    except BaseException:
        await runner.cleanup()
        raise
    log.info("serving on %s port %s%s", host, listener.port, " with TLS" if tls else "")
    return HttpServer(listener.port, listener, runner)


def _brief(record: logging.LogRecord) -> bool:
    """Log one line for an unhandled request and none for malformed HTTP, so that clients cannot fill the log."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError | web.RequestPayloadError | ConnectionError):
        return False
    if error is not None:
        *_, last = extract_tb(error.__traceback__) or [None]
        where = "" if last is None else f" at {Path(last.filename).name}:{last.lineno}"
        record.msg, record.args = "a request was not handled: %s%s", (type(error).__name__, where)
        record.exc_info = None
    return True


_requests_log = logging.getLogger(f"{__name__}.requests")
_requests_log.addFilter(_brief)
