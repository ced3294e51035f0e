"""Reads the cluster once for a command and turns errors into one line that names the fault and the remedy.

Most callers import this module's slow dependencies late, because loading them takes a second and ``--help`` does not
need them.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from charterer.api.names import GROUP
from charterer.cluster.errors import ApiError, Forbidden, NotFound, Unauthorized, Unreachable
from charterer.domain.time import Instant
from charterer.sentences import visible
from charterer.tools.commands.shared.options import option_group
from charterer.tools.commands.shared.output import announce_when_slow

if TYPE_CHECKING:
    from charterer.cluster.client import Client
    from charterer.cluster.credentials import Access
    from charterer.controller.snapshot.cluster_state import ClusterState
    from charterer.controller.snapshot.offline import OtherJobs


ROLE: Final = "charterer-view"

_T = TypeVar("_T")


class MayNotRead(click.ClickException):
    """The account lacks a right to read something."""


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """The state of the cluster at ``now``, and the ``namespace`` of the kubeconfig's context.

    ``trouble`` says why no operator acts on the cluster. The text is empty while an operator leads, or if the account
    may not read the operator's Lease.
    """

    state: ClusterState
    now: Instant
    namespace: str
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster to read, and the user as whom it is read. A context of None is the kubeconfig's current context."""

    kubeconfig: Path | None = None
    context: str | None = None
    as_user: str = ""
    as_groups: tuple[str, ...] = ()

    def access(self) -> Access:
        """Return the API server's address and credentials. Raises ClickException if there are none."""
        from charterer.cluster import credentials

        identity = credentials.Impersonation(self.as_user, self.as_groups)
        try:
            return credentials.load(self.kubeconfig, self.context, identity)
        except credentials.NoAccess as error:
            raise click.ClickException(str(error)) from error

    def client(self, access: Access) -> Client:
        """A client of that cluster."""
        from charterer.cluster.client import Client

        return Client(access)


cluster_options = option_group(
    "cluster",
    ClusterOptions,
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Default: $KUBECONFIG, or ~/.kube/config, as for kubectl.",
    ),
    click.option("--context", help="Context of the kubeconfig. Default: its current one."),
    click.option("--as", "as_user", default="", help="User to impersonate, as for kubectl."),
    click.option("--as-group", "as_groups", multiple=True, help="Group to impersonate; may be repeated."),
)
"""Command-line options that choose the cluster. A command gets them as its argument ``cluster``."""


def read(cluster: ClusterOptions) -> ClusterReading:
    """Read everything that a plan needs, once.

    Raises MayNotRead if the account lacks a right, and ClickException with one line for any other failure.
    """
    access = cluster.access()
    state, trouble = read_with(cluster, read_all)
    return ClusterReading(state, wall_clock(), access.namespace, trouble)


async def read_all(client: Client) -> tuple[ClusterState, str]:
    """Return the ``state`` and ``trouble`` of a ClusterReading. Raises ApiError."""
    from charterer.controller.snapshot.offline import read_cluster
    from charterer.tools.commands.shared.leader import as_operated, leader_if_known

    state, leader = await asyncio.gather(read_cluster(client), leader_if_known(client, wall_clock))
    return as_operated(state, leader), leader.trouble


def wall_clock() -> Instant:
    """Return the time of this machine's clock."""
    return Instant(time.time_ns() // 1_000)


def read_others(cluster: ClusterOptions) -> OtherJobs:
    """Read the jobs that train in the cluster without Charterer. Raises like ``read``."""
    from charterer.controller.snapshot.offline import read_other_jobs

    return read_with(cluster, read_other_jobs)


def call(cluster: ClusterOptions, use: Callable[[Client], Awaitable[_T]], *, within: float | None = None) -> _T:
    """Call ``use`` with a client of the cluster and return its result.

    Raises like ``read``, and TimeoutError after ``within`` seconds.
    """
    access = cluster.access()

    async def with_client() -> _T:
        async with cluster.client(access) as client, asyncio.timeout(within):
            return await use(client)

    with explained(access):
        return _run(with_client)


def _run(use: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run ``use`` and return its result. If an event loop runs in this thread, as in a notebook, ``use`` runs in
    another thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(use())
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(use())).result()


@contextmanager
def explained(access: Access) -> Iterator[None]:
    """Turn an ApiError of the ``with`` block into the exception that ``read`` raises."""
    try:
        yield
    except Forbidden as error:
        raise MayNotRead(_forbidden(error)) from error
    except ApiError as error:
        raise click.ClickException(visible(_explained(error, access))) from error


def read_with(cluster: ClusterOptions, reader: Callable[[Client], Awaitable[_T]]) -> _T:
    """Call ``reader`` with a client, and print a line on stderr if the call is slow. Raises like ``read``."""
    with announce_when_slow("reading the cluster"):
        return call(cluster, reader)


def _forbidden(error: Forbidden) -> str:
    namespace = re.search("/namespaces/([^/]+)/", error.path)
    remedy = f"a ClusterRoleBinding to ClusterRole {ROLE} (chart charterer) allows all that is read here"
    if namespace is not None:
        remedy = (
            f"a RoleBinding to ClusterRole view or edit in namespace {namespace[1]} shows what is there, and a "
            f"ClusterRoleBinding to ClusterRole {ROLE} (chart charterer) everything"
        )
    return f"{error.message.partition(' (grant ')[0]}; {remedy}"


def _explained(error: ApiError, access: Access) -> str:
    match error:
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
            return f"cannot reach the API server {access.server}: {error.message.removeprefix('not sent: ')}"
        case _:
            return str(error)
