"""The two HTTP applications: health and metrics (plain, for kubelet and Prometheus) and progress (TLS, for pods)."""

from __future__ import annotations

import logging
import math
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from charterer.domain.time import Instant
from charterer.server.batch_advisor import BatchAdvisor
from charterer.server.directory import JobDirectory
from charterer.server.errors import Refused
from charterer.server.progress import ProgressBoard, ProgressReport
from charterer.server.rate_limiter import RateLimiter
from charterer.server.tokens import Authenticator

log = logging.getLogger(__name__)

Check = Callable[[], tuple[bool, str]]
"""Returns whether a part of the process works, and a sentence about it."""

_EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MAX_BODY_BYTES = 4_096
_AGAIN_SECONDS = 10
"""Seconds between two reports of a pod. A pod hears of a coming stop within this time, before SIGTERM."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _checked(checks: Mapping[str, Check]) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        results = {name: check() for name, check in checks.items()}
        lines = [f"{'ok  ' if ok else 'FAIL'} {name}: {detail}" for name, (ok, detail) in results.items()]
        well = all(ok for ok, _ in results.values())
        return web.Response(status=200 if well else 503, text="\n".join([*lines, "ok" if well else "not ok", ""]))

    return answer


def health_app(
    exposition: Callable[[], bytes], live: Mapping[str, Check], ready: Mapping[str, Check]
) -> web.Application:
    """GET /metrics, /healthz (every check of ``live``) and /readyz (every check of ``ready``): 200, or 503 and why."""

    async def metrics(_: web.Request) -> web.StreamResponse:
        return web.Response(body=exposition(), headers={"Content-Type": _EXPOSITION_TYPE})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", _checked(live))
    app.router.add_get("/readyz", _checked(ready))
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


def progress_app(
    authenticator: Authenticator,
    directory: JobDirectory,
    board: ProgressBoard,
    now: Callable[[], Instant],
    counsel: BatchAdvisor,
    *,
    pace: RateLimiter | None = None,
    again_seconds: int = _AGAIN_SECONDS,
) -> web.Application:
    """POST /v1/progress: a pod reports its progress and learns its allocation, and whether its run is to stop.

    The answer is ``{"allocation": {"run", "gpus", "pods", "gpusPerPod"}, "stopping": bool, "againSeconds": int}``, and
    ``"batch"``, samples per step, where ``counsel`` has one.
    Refusals: 400 (what is wrong with which field), 401, 403, 409 (the report is of a run that is over), 413, 429, 503.
    """
    pods = pace if pace is not None else RateLimiter()

    async def post(request: web.Request) -> web.StreamResponse:
        caller = await authenticator.authenticate(request.headers.get("Authorization"))
        wait = pods.wait_seconds(caller.pod_uid)
        if wait:
            raise Refused(429, "TooManyReports", f"pod {caller.pod} reports too often", retry_after=math.ceil(wait))
        report = ProgressReport.parse(await request.read())
        run = directory.find(caller.job)
        if run is None or (report.run is not None and report.run != run.number):
            current = f"run {run.number} is current" if run is not None else "no run is current"
            raise Refused(409, "RunIsOver", f"the report is of run {report.run}; {current}")
        board.report(caller.job, run.number, report, now())
        batch = counsel.handle_report(caller.job, run.number, report, now())
        answer = {"allocation": dict(run.allocation), "stopping": run.stopping, "againSeconds": again_seconds}
        return web.json_response(answer if batch is None else answer | {"batch": batch})

    app = web.Application(client_max_size=_MAX_BODY_BYTES, middlewares=[_refusals])
    app.router.add_post("/v1/progress", post)
    return app


@dataclass(frozen=True, slots=True)
class HttpServer:
    """An application that is being served on ``port``, which is the real port even if 0 was requested."""

    port: int
    _runner: web.AppRunner

    async def close(self) -> None:
        """Stop listening and let open requests finish for a moment."""
        await self._runner.cleanup()


async def serve(app: web.Application, host: str, port: int, tls: ssl.SSLContext | None = None) -> HttpServer:
    """Serve ``app`` in the running loop; OSError when the port is taken."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        await site.start()
    except BaseException:
        await runner.cleanup()
        raise
    address = runner.addresses[0]
    log.info("serving on %s port %s%s", host, address[1], " with TLS" if tls else "")
    return HttpServer(int(address[1]), runner)
