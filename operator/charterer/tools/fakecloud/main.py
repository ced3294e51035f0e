"""The command ``charterer fakecloud``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import click
from aiohttp import web

from charterer.tools.fakecloud.cloud import FakeAccount
from charterer.tools.fakecloud.config import SECOND, CloudConfig, Faults, load_config
from charterer.tools.fakecloud.http import Api
from charterer.tools.fakecloud.nodes import Kube, KubeAccess, NodeKeeper, from_kubeconfig, in_cluster
from charterer.tools.fakecloud.state import State, StateInUse

# How tasks that wait for a change are told about it.


class ChangeNotifier:
    """Every listener has its own event. ``notify`` sets the event. The listener clears the event before it looks for
    changes.
    """

    def __init__(self) -> None:
        self._listeners: list[asyncio.Event] = []

    def listener(self) -> asyncio.Event:
        """A new event. The event is already set, so that its owner looks for changes at once."""
        event = asyncio.Event()
        event.set()
        self._listeners.append(event)
        return event

    def notify(self) -> None:
        """Set every listener's event."""
        for event in self._listeners:
            event.set()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file with groups, quotas and faults.",
)
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that keeps the state.",
)
@click.option("--listen", default="127.0.0.1:8080", show_default=True, help="HOST:PORT; port 0 picks a free one.")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Register Nodes in this cluster.",
)
@click.option("--in-cluster", "inside", is_flag=True, help="Register Nodes in the cluster that this process runs in.")
@click.option(
    "--ready-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the URL to this file when ready."
)
@click.option("--verbose", "-v", is_flag=True, help="Log every event to standard error.")
def main(
    config: Path | None,
    state: Path | None,
    listen: str,
    kubeconfig: Path | None,
    inside: bool,
    ready_file: Path | None,
    verbose: bool,
) -> None:
    """A process that behaves like a cloud with GPU machines, for trying Charterer without paying for one.

    It has instance groups. A group launches machines until it has as many as its target, replaces those that die,
    and runs out of stock or quota like a real one. Machines take time to start, are billed from their launch, and
    appear as Kubernetes Nodes (simulated by kwok) if a cluster is given.

    \b
    Try it:
      charterer fakecloud --config examples/fakecloud.yaml --state cloud.db
      curl localhost:8080/v1/groups
      curl -X PUT localhost:8080/v1/groups/a100-on-demand/target -d '{"target": 2}'
      curl localhost:8080/v1/groups/a100-on-demand/instances
      curl localhost:8080/admin/v1/bill

    Started again with the same --state it continues where it was, even after kill -9: machines, targets, launches and
    the bill. docs/fakecloud.md describes the whole protocol, including the test controls under /admin/v1.
    """
    if kubeconfig and inside:
        raise click.UsageError("--kubeconfig and --in-cluster cannot be used together")
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise click.UsageError(f"--listen {listen!r}: write HOST:PORT, like 127.0.0.1:8080")
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(message)s")
    try:
        access = from_kubeconfig(kubeconfig) if kubeconfig else in_cluster() if inside else None
        declared = load_config(config) if config else CloudConfig()
        changes = ChangeNotifier()
        memory = State(state, changes.notify)
    except (ValueError, OSError, StateInUse) as error:
        raise click.ClickException(str(error)) from error
    with contextlib.closing(memory):
        cloud = FakeAccount(memory, lambda: time.time_ns() // 1000, declared)
        if not cloud.groups():
            click.echo("there are no groups, so nothing can be rented: give --config, such as examples/fakecloud.yaml")
        api = Api(cloud, Faults(declared.seed, declared.faults), declared.token)
        asyncio.run(_serve(api, changes, host.strip("[]"), int(port), access, ready_file))


async def _serve(
    api: Api, changes: ChangeNotifier, host: str, port: int, access: KubeAccess | None, ready_file: Path | None
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with _listening(api, host, port) as url, asyncio.TaskGroup() as background:
        tasks = [background.create_task(_pass_time(api.cloud, changes.listener()))]
        if access is not None:
            tasks.append(background.create_task(_keep_nodes(api.cloud, access, changes.listener())))
        _announce(url, ready_file)
        await stop.wait()
        for task in tasks:
            task.cancel()


def _announce(url: str, ready_file: Path | None) -> None:
    click.echo(f"listening on {url}")
    if ready_file is not None:
        ready_file.write_text(url + "\n")


@contextlib.asynccontextmanager
async def _listening(api: Api, host: str, port: int) -> AsyncIterator[str]:
    runner = web.AppRunner(api.application(), access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, reuse_address=True).start()
        bound = runner.addresses[0]
        yield f"http://{f'[{host}]' if ':' in host else host}:{bound[1]}"
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host}:{port}: {error.strerror}") from error
    finally:
        await runner.cleanup()


async def _pass_time(cloud: FakeAccount, changed: asyncio.Event) -> None:
    """Let the cloud do what is due in time, even if nobody calls."""
    while True:
        changed.clear()
        cloud.advance()
        due = cloud.next_due()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if due is None else max(0.001, (due - cloud.now()) / SECOND)):
                await changed.wait()


async def _keep_nodes(cloud: FakeAccount, access: KubeAccess, changed: asyncio.Event) -> None:
    kube = Kube(access)
    try:
        await NodeKeeper(cloud, kube).run(changed)
    finally:
        await kube.close()
