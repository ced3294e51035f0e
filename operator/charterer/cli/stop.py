"""``charterer stop`` and ``charterer resume``: an annotation of the operator's Namespace stops all renting."""

from __future__ import annotations

import click

from charterer.api.names import ANNOTATION_STOP
from charterer.cli.shared.cluster import ClusterOptions, call, cluster_options
from charterer.cli.shared.leader import operator_namespace
from charterer.cluster.client import Client
from charterer.cluster.errors import Forbidden, NotFound
from charterer.cluster.paths import NAMESPACES
from charterer.domain.snapshot import Stop

_NAMESPACE = click.option(
    "-n", "--namespace", default="", help="The operator's namespace. Default: the one of its Lease."
)


@click.command()
@click.option("--drain", is_flag=True, help="Also end everything that is rented, with the jobs' grace periods.")
@click.option("--yes", is_flag=True, help="With --drain: do not ask.")
@_NAMESPACE
@cluster_options
def stop(drain: bool, yes: bool, namespace: str, cluster: ClusterOptions) -> None:
    """Rent nothing more, from now on and until `charterer resume`; what runs goes on.

    \b
      charterer stop               # rents no more
      charterer stop --drain       # and ends all machines; jobs write a checkpoint and wait
      charterer resume

    It sets an annotation on the operator's Namespace, which needs the right to patch that one object (the chart's Role
    charterer-stop). It holds for an operator that starts later, too. Without this program:
    `kubectl annotate namespace charterer-system charterer.dev/stop=drain`.
    """
    if drain and not yes:
        click.confirm("Stop all jobs and end all rented machines?", abort=True)
    name = call(cluster, lambda client: annotate(client, namespace, Stop.DRAIN if drain else Stop.RENT))
    ended = "all machines are ended" if drain else "what runs goes on, and costs what it costs"
    click.echo(f"Renting is stopped ({name}): {ended}. `charterer resume` rents again")


@click.command()
@_NAMESPACE
@cluster_options
def resume(namespace: str, cluster: ClusterOptions) -> None:
    """Rent again after `charterer stop`. Machines that are being ended are not kept."""
    name = call(cluster, lambda client: annotate(client, namespace, None))
    click.echo(f"Renting is no longer stopped ({name}): nodes are rented as budgets allow")


async def annotate(client: Client, namespace: str, stop: Stop | None) -> str:
    """Set the annotation, or take it away, and return the namespace's name. ClickException where there is none."""
    name = namespace or await _found(client)
    body = {"metadata": {"annotations": {ANNOTATION_STOP: stop}}}
    try:
        await client.merge_patch(NAMESPACES.one(name), body)
    except NotFound as error:
        raise click.ClickException(f"there is no Namespace {name}: name the operator's with --namespace") from error
    except Forbidden as error:
        message = f"you may not patch Namespace {name}: bind Role charterer-stop of that namespace to yourself"
        raise click.ClickException(message) from error
    return name


async def _found(client: Client) -> str:
    try:
        name = await operator_namespace(client)
    except Forbidden as error:
        message = "you may not read the operator's Lease: name its namespace with --namespace"
        raise click.ClickException(message) from error
    if not name:
        raise click.ClickException("no operator has ever run here: name its namespace with --namespace")
    return name
