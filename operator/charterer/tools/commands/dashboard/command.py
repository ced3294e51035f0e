"""``charterer dashboard`` serves a live page of budgets, jobs, decisions and costs on this machine."""

from __future__ import annotations

import asyncio
import hmac
import html
import logging
import os
import secrets
import signal
import sys
import tempfile
import time
import webbrowser
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Final, NoReturn

import aiohttp
import click
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from charterer.cluster.client import Client
from charterer.cluster.errors import Forbidden
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.domain.ids import JobId
from charterer.sentences import visible
from charterer.server.listener import Listener
from charterer.tools.commands.costs.answer import NAMESPACE, PURPOSE, KeysType
from charterer.tools.commands.dashboard.documents import (
    Board,
    MonthCosts,
    PageQuestion,
    Parts,
    PrometheusHistory,
    Sighting,
    cluster_parts,
    encode,
    own_parts,
    read_events,
)
from charterer.tools.commands.shared.cluster import (
    ROLE,
    ClusterOptions,
    cluster_options,
    explained,
    read_all,
    wall_clock,
)
from charterer.tools.commands.shared.completion import budget_names, namespace_names
from charterer.tools.commands.shared.one_namespace import read_own_jobs
from charterer.tools.commands.shared.options import option_group, record_option
from charterer.tools.commands.shared.output import announce_when_slow
from charterer.tools.commands.shared.plan_report import with_trials

# The page's HTTP server, which listens on the loopback address and requires a token.


HOST: Final = "127.0.0.1"
MOST_CLIENTS: Final = 16
"""Maximum number of pages connected at the same time."""
_MOST_CONNECTIONS: Final = 128
"""Maximum number of connections at the same time. A browser opens six connections for each page.

If the number is exceeded, the server closes the oldest connection. A page whose event stream was closed reconnects.
"""
_REQUEST_SECONDS: Final = 15.0
"""Maximum seconds that a connection may wait before its first request and between requests."""
_PULSE_SECONDS: Final = 15.0
"""Seconds without a message after which an empty one is sent, so that the server notices a lost client."""
_SLOW_SECONDS: Final = 60.0
"""Seconds that a client may take to receive one message."""

_TYPES: Final = MappingProxyType(
    {
        "index.html": "text/html",
        "dashboard.css": "text/css",
        "dashboard.js": "text/javascript",
        "lanes.js": "text/javascript",
        "charts.js": "text/javascript",
        "icon.svg": "image/svg+xml",
        "uPlot.iife.min.js": "text/javascript",
        "uPlot.min.css": "text/css",
    }
)
"""The files of the page and their media types."""

HEADERS: Final = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
            "require-trusted-types-for 'script'"
        ),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
)
"""Headers of every response. The page may load only its own files, and no other page may frame or read it."""

_BRIEF: Final = logging.getLogger(__name__)
_BRIEF.addFilter(lambda record: record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError))
"""Logs no tracebacks about malformed requests, which any user of this machine can send."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageServer:
    """Serves the page and its event stream below ``/<token>/`` until it is closed."""

    def __init__(self, board: Board, request_seconds: float = _REQUEST_SECONDS) -> None:
        self._board = board
        self._listener: Listener | None = None
        self._token = secrets.token_urlsafe(32)
        self._files = {name: _file(name) for name in _TYPES}
        self._address = ""
        self._hosts: frozenset[str] = frozenset()
        app = web.Application(middlewares=[self._guarded])
        app.router.add_get("/{token}/", self._page, allow_head=False)
        app.router.add_get("/{token}/parts", self._stream, allow_head=False)
        app.router.add_get("/{token}/{file}", self._static, allow_head=False)
        app.on_response_prepare.append(_with_headers)
        # Cancel the handler when its client disconnects, so that the stream of a closed page ends at once.
        self._runner = web.AppRunner(
            app,
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=0.5,
            logger=_BRIEF,
            keepalive_timeout=request_seconds,  # also the time limit for the first request's headers
        )
        self.url = ""

    async def start(self, port: int) -> None:
        """Listen on the port. Port 0 means any free port. Raises OSError if the port is taken."""
        await self._runner.setup()
        assert self._runner.server is not None
        self._listener = Listener(self._runner.server, HOST, port, None, _MOST_CONNECTIONS)
        bound = self._listener.port
        self._address = f"{HOST}:{bound}"
        self._hosts = frozenset({self._address, f"localhost:{bound}"})
        self.url = f"http://{self._address}/{self._token}/"

    async def close(self) -> None:
        """Close all connections, including event streams."""
        if self._listener is not None:
            await self._listener.close()
        await self._runner.cleanup()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests for another host name (DNS rebinding) or without the token.

        The router itself refuses every method except GET.
        """
        if request.headers.get("Host", "").lower() not in self._hosts:
            return _refusal(403, f"this page is at {self._address} only; by SSH, take the same port on both sides")
        given = request.path.strip("/").partition("/")[0]
        if not hmac.compare_digest(given.encode(errors="replace"), self._token.encode()):
            return _refusal(403, "open the address that charterer dashboard has printed: it ends with a token")
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return _refusal(404, "there is nothing here")

    async def _page(self, _: web.Request) -> web.StreamResponse:
        return self._answer("index.html")

    async def _static(self, request: web.Request) -> web.StreamResponse:
        return self._answer(request.match_info["file"])

    def _answer(self, name: str) -> web.StreamResponse:
        if name not in _TYPES:
            raise web.HTTPNotFound
        return web.Response(body=self._files[name], content_type=_TYPES[name], charset="utf-8")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Send server-sent events (WHATWG HTML, section 9.2). Each event has the parts that changed."""
        if self._board.clients >= MOST_CLIENTS:
            return _refusal(503, f"{MOST_CLIENTS} pages are open already: close one")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        with self._board.client(), suppress(ConnectionError, TimeoutError):
            async for text in self._board.messages(_PULSE_SECONDS):
                async with asyncio.timeout(_SLOW_SECONDS):
                    await response.write(f"data: {text}\n\n".encode() if text else b": \n\n")
        return response


async def _with_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


def _refusal(status: int, sentence: str) -> web.Response:
    return web.Response(status=status, text=f"{sentence}\n")


def _file(name: str) -> bytes:
    return resources.files("charterer.tools.commands.dashboard").joinpath("static", name).read_bytes()


# The read loop. While a page is open, the loop reads the cluster, once for all pages. The slower a read was, the longer
# the loop pauses before the next read.


LEAST_SECONDS: Final = 5.0
"""Minimum seconds between the end of a read and the next read."""
_IDLE_PART: Final = 4.0
"""Seconds of pause per second that a read took. Reads of a large cluster thus take at most a fifth of the time."""
_MOST_SECONDS: Final = 60.0
"""Maximum seconds between two attempts while the cluster cannot be read."""

Source = Callable[[], Awaitable[Parts]]
"""Computes the parts of the page. Raises ClickException."""


def pause_seconds(took: float, failures: int) -> float:
    """Return the seconds until the next read.

    ``took``: seconds of the last read, ``failures``: failed reads in a row.
    """
    if failures:
        return min(LEAST_SECONDS * 2.0 ** (failures - 1), _MOST_SECONDS)
    return max(LEAST_SECONDS, _IDLE_PART * took)


async def read_on(
    source: Source,
    board: Board,
    say: Callable[[str], None],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> NoReturn:
    """Read repeatedly while a page is connected.

    ``say`` logs an error once. The page shows the error until a read succeeds.
    """
    failures, said, took = 0, "", 0.0
    while True:
        await sleep(pause_seconds(took, failures))
        await board.watched()
        began = clock()
        try:
            parts = await source()
        except click.ClickException as error:
            failures += 1
            board.show(encode({"problem": error.message}), whole=False)
            if error.message != said:
                said = error.message
                say(said)
        else:
            failures, said = 0, ""
            board.show(await asyncio.to_thread(encode, parts))
        took = clock() - began


class ClusterSource:
    """Computes the parts from the cluster with the user's rights. The caller must close the client.

    If the account may not read the whole cluster, only ``namespace`` is read. If ``namespace`` is None, the context's
    namespace is read.
    """

    def __init__(
        self,
        cluster: ClusterOptions,
        client: Client,
        question: PageQuestion,
        namespace: str | None,
        history: PrometheusHistory | None,
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._question = question
        self._namespace = namespace or client.access.namespace
        self._history = history
        self._month = MonthCosts(question)
        self._own = False
        self._refusals: dict[tuple[JobId, int], str] = {}

    async def __call__(self) -> Parts:
        """Read the cluster. Raises ClickException, or MayNotRead if the account may not even read the namespace."""
        with explained(self._client.access):
            parts = await self._read_own() if self._own else await self._read()
        history = None if self._history is None else await self._history.latest()
        return {**parts, "history": history, "problem": None}

    async def _read(self) -> Parts:
        try:
            state, trouble = await read_all(self._client)
        except Forbidden:
            if self._question.budget is not None:
                raise
            self._own = True
            return await self._read_own()
        now = wall_clock()
        events, lacking = await read_events(self._client, None)
        seen = Sighting(state, now, trouble, events, [lacking] if lacking else [])
        return await asyncio.to_thread(self._planned, seen)

    def _planned(self, seen: Sighting) -> Parts:
        """Plan in a separate thread, because a plan takes seconds for thousands of jobs."""
        tried = with_trials(self._cluster, self._with_known(seen.state), {})
        generations = {decoded.job.id: decoded.job.generation for decoded in tried.state.jobs.values()}
        self._refusals = {
            (job, generations[job]): refusal
            for job, refusal in tried.state.refusals.items()
            if refusal is not None and job in generations
        }
        warned = replace(seen, state=tried.state, warnings=[*seen.warnings, *tried.warnings])
        return cluster_parts(warned, self._question, self._month)

    def _with_known(self, state: ClusterState) -> ClusterState:
        """Return the state with the refusals of earlier dry runs, so that each template is tried only once."""
        jobs = [decoded.job for decoded in state.jobs.values() if decoded.template_verdict is None]
        known = {
            job.id: self._refusals[job.id, job.generation] for job in jobs if (job.id, job.generation) in self._refusals
        }
        return replace(state, refusals={**state.refusals, **known})

    async def _read_own(self) -> Parts:
        own = await read_own_jobs(self._client, self._namespace)
        events, lacking = await read_events(self._client, self._namespace)
        limited = (
            f"your account may not read the whole cluster (ClusterRole {ROLE} allows it): these are the jobs of "
            f"namespace {self._namespace}"
        )
        return await asyncio.to_thread(own_parts, own, events, [limited, *([lacking] if lacking else [])])


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Options of the page. ``port`` 0 is any free port. ``prometheus`` is a URL, or None for no history."""

    budget: str | None
    namespace: str | None
    port: int
    no_browser: bool
    prometheus: str | None
    record: str
    by: tuple[str, ...]


def _url(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    if text is not None and not text.startswith(("http://", "https://")):
        raise click.BadParameter(f"{text!r} is no URL: write it like http://127.0.0.1:9090")
    return text


page_options = option_group(
    "options",
    PageOptions,
    click.option("--budget", shell_complete=budget_names, help="Only this GPUBudget and its jobs. Default: all."),
    click.option(
        "-n",
        "--namespace",
        shell_complete=namespace_names,
        help="Whose jobs are shown if you may not read the whole cluster. Default: the context's.",
    ),
    click.option(
        "--port", type=click.IntRange(0, 65_535), default=0, show_default="a free one", help="Port on 127.0.0.1."
    ),
    click.option("--no-browser", is_flag=True, help="Only print the address."),
    click.option(
        "--prometheus", metavar="URL", callback=_url, help="A Prometheus that scrapes the operator, for a longer past."
    ),
    record_option(default=""),
    click.option(
        "--by",
        type=KeysType(),
        default=NAMESPACE,
        show_default=True,
        metavar="KEY,...",
        help="Who spent what: as in `charterer costs`. All but namespace and purpose need --record.",
    ),
)


@click.command()
@page_options
@cluster_options
def dashboard(options: PageOptions, cluster: ClusterOptions) -> None:
    """Show budgets, jobs, decisions and costs on a page in your browser that keeps itself up to date.

    The page shows what each budget has spent against its amount and its forecast, the GPUs of every job over time, what
    was decided and why, what more or less money would buy, and who spent what. It is read with your own kubeconfig,
    and changes nothing. Ctrl-C ends it.

    It can be reached on this machine only (127.0.0.1), at an address with a random token: whoever has that address and
    an account on this machine sees what you may see. The cluster is read while a page is open, every five seconds at
    most.

    \b
    The page in your browser; one budget on a port of your choice:
      charterer dashboard
      charterer dashboard --budget research --port 8787 --no-browser
    \b
    From another machine, by SSH, with the same port on both sides; then open the address that is printed:
      ssh -L 8787:127.0.0.1:8787 login-node charterer dashboard --port 8787 --no-browser
    \b
    With who spent what by team, from the record of costs, and with a longer past:
      charterer dashboard --record s3://acme-costs/gpus --by label:team
      charterer dashboard --prometheus http://127.0.0.1:9090

    If you may not read the whole cluster, it shows the jobs of one namespace (-n).
    """
    lacking = [key for key in options.by if key not in (NAMESPACE, PURPOSE)]
    if lacking and not options.record:
        raise click.UsageError(f"--by {lacking[0]} needs a record of costs, named by --record")
    asyncio.run(_serve(options, cluster))


async def _serve(options: PageOptions, cluster: ClusterOptions) -> None:
    """Serve until a signal. Raises ClickException if the cluster cannot be read or the port is taken."""
    question = PageQuestion(options.budget, options.record, options.by)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(cluster.access()))
        history = None
        if options.prometheus is not None:
            session = await stack.enter_async_context(aiohttp.ClientSession())
            history = PrometheusHistory(options.prometheus, session)
        source = ClusterSource(cluster, client, question, options.namespace, history)
        await serve_page(source, options)


async def serve_page(source: Source, options: PageOptions) -> None:
    """Serve the page of this source until SIGINT or SIGTERM. Raises ClickException if the port is taken."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with announce_when_slow("reading the cluster"):
        parts = await source()
    board = Board()
    board.show(await asyncio.to_thread(encode, parts))
    server = PageServer(board)
    try:
        await server.start(options.port)
    except OSError as error:
        raise click.ClickException(
            f"port {options.port} of {HOST} cannot be used: {os.strerror(error.errno or 0)}: choose another by --port"
        ) from error
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    reading = asyncio.create_task(read_on(source, board, _say))
    try:
        click.echo(f"The page is at {server.url}\nIt is read with your kubeconfig. Ctrl-C ends it.")
        with _redirection(server.url) as file:
            if not options.no_browser and _has_screen():
                webbrowser.open(file.as_uri())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if reading.done():
                reading.result()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await server.close()


def _say(sentence: str) -> None:
    click.echo(visible(f"Warning: {sentence}"), err=True)


def _has_screen() -> bool:
    """Return whether a browser can open a window. Without a display, a text browser would take over the terminal."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@contextmanager
def _redirection(url: str) -> Iterator[Path]:
    """Yield a file that redirects to the URL and that only this user may read.

    A browser's arguments are visible to all users of the machine, so they must not contain the token.
    """
    with tempfile.TemporaryDirectory(prefix="charterer-") as folder:
        file = Path(folder) / "dashboard.html"
        file.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(url)}">\n')
        yield file
