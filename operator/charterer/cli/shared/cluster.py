"""Reading the cluster for a person: one look, or one line that says what is wrong and what to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

from charterer.api.names import GROUP
from charterer.cli.shared.output import announce_when_slow
from charterer.cluster import credentials
from charterer.cluster.client import Client
from charterer.cluster.credentials import Access, NoAccess
from charterer.cluster.errors import ApiError, Forbidden, NotFound, Unauthorized, Unreachable
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.offline import OtherJobs, read_cluster, read_other_jobs
from charterer.domain.time import Instant

_ROLE = "charterer-view"

_F = TypeVar("_F", bound=Callable[..., object])
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """What was seen and when; ``namespace`` is the one of the kubeconfig's context."""

    seen: ClusterState
    now: Instant
    namespace: str


def cluster_options(command: _F) -> _F:
    """The options that say which cluster."""
    kubeconfig = click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Default: $KUBECONFIG, or ~/.kube/config, as kubectl does.",
    )
    context = click.option("--context", help="Context of the kubeconfig; default: its current one.")
    return kubeconfig(context(command))


def read(kubeconfig: Path | None, context: str | None) -> ClusterReading:
    """Everything that matters, once. ClickException with one line where that is impossible."""
    access = _access(kubeconfig, context)
    return ClusterReading(_asked(access, read_cluster), Instant(time.time_ns() // 1_000), access.namespace)


def read_others(kubeconfig: Path | None, context: str | None) -> OtherJobs:
    """What trains in the cluster without Charterer. ClickException like ``read``."""
    return _asked(_access(kubeconfig, context), read_other_jobs)


def _access(kubeconfig: Path | None, context: str | None) -> Access:
    try:
        return credentials.load(kubeconfig, context)
    except NoAccess as error:
        raise click.ClickException(str(error)) from error


def _asked(access: Access, looking: Callable[[Client], Awaitable[_T]]) -> _T:
    async def ask() -> _T:
        async with Client(access) as client:
            return await looking(client)

    try:
        with announce_when_slow("reading the cluster"):
            return asyncio.run(ask())
    except ApiError as error:
        raise click.ClickException(_explained(error, access)) from error


def _explained(error: ApiError, access: Access) -> str:
    match error:
        case Forbidden():
            needed = f"a ClusterRoleBinding to ClusterRole {_ROLE} (chart charterer) allows all that is read here"
            return f"{error.message.partition(' (grant ')[0]}; {needed}"
        case Unauthorized():
            return f"{access.server} does not know you: {error.message}; log in again"
        case NotFound() if f"/apis/{GROUP}/" in error.path:
            what = error.path.rpartition("/")[2]
            return (
                f"{access.server} has no {what}.{GROUP}: Charterer's CRDs are not installed; "
                "helm install charterer-crds charts/charterer-crds, "
                "or charterer crds | kubectl apply --server-side -f -"
            )
        case Unreachable():
            return f"cannot reach the API server {access.server}: {error.message}"
        case _:
            return str(error)
