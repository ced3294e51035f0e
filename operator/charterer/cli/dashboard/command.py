"""``charterer dashboard``: a live page of budgets, jobs, decisions and costs on this machine."""

from __future__ import annotations

import asyncio
import html
import os
import signal
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import click

from charterer.cli.costs.cost_sums import NAMESPACE, PURPOSE, KeysType
from charterer.cli.dashboard.board import Board, encode
from charterer.cli.dashboard.documents import PageQuestion
from charterer.cli.dashboard.prometheus import PrometheusHistory
from charterer.cli.dashboard.reader import ClusterSource, Source, read_on
from charterer.cli.dashboard.server import HOST, PageServer
from charterer.cli.shared.cluster import ClusterOptions, cluster_options
from charterer.cli.shared.option_groups import option_group
from charterer.cli.shared.output import announce_when_slow
from charterer.cli.shared.record_option import record_option
from charterer.cluster.client import Client
from charterer.sentences import visible


@dataclass(frozen=True, slots=True)
class PageOptions:
    """What is shown, and where. ``port`` 0: a free one. ``prometheus``: its URL, None without."""

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
    click.option("--budget", help="Only this GPUBudget and its jobs. Default: all."),
    click.option(
        "-n", "--namespace", help="Whose jobs are shown if you may not read the whole cluster. Default: the context's."
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

    The page shows what each budget has spent against its month and its forecast, the GPUs of every job over time, what
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
    """Until a signal ends it. ClickException where the cluster cannot be read or the port is taken."""
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
    """Serve the page of this source until SIGINT or SIGTERM. ClickException where the port is taken."""
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
    """Whether a browser can be opened: without a screen a text browser would take the terminal."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@contextmanager
def _redirection(url: str) -> Iterator[Path]:
    """A page that leads to the URL, which only this user may read: a browser's arguments are seen by everybody."""
    with tempfile.TemporaryDirectory(prefix="charterer-") as folder:
        file = Path(folder) / "dashboard.html"
        file.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(url)}">\n')
        yield file
