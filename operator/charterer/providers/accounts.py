"""One provider for each account of the pools: the vendor's adapter, wrapped in ``Guarded``.

A vendor's library is imported only when a pool needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.clouds.azure import AzureNodePool, AzureScaleSet
from charterer.clouds.existing import ExistingNodes
from charterer.clouds.fake import FakeGroup
from charterer.clouds.gcp import GcpGroup, GcpTemplate
from charterer.clouds.karpenter import NodeClaims
from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool
from charterer.providers.errors import Transient
from charterer.providers.guarded import Fleet, Guarded, Guards
from charterer.providers.objects import Objects, ObjectsError
from charterer.providers.provider import Provider

# How to tell this cluster's machines from those of other clusters in the same account.


_PATH: Final = "/api/v1/namespaces/kube-system"


class OwnCluster:
    """Reads the uid of the namespace kube-system, which exists as long as the cluster. The uid is read only once."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._uid = ""

    async def __call__(self, pool: PoolId) -> str:
        """The uid. Raises Transient if it cannot be read. ``pool`` is the pool that the error names."""
        if not self._uid:
            try:
                found = await self._objects.get(_PATH)
            except ObjectsError as error:
                raise Transient(pool, f"GET {_PATH}", "Unread", str(error)) from error
            if found is None:
                raise Transient(pool, f"GET {_PATH}", "NotFound", "the cluster has no namespace kube-system")
            self._uid = str(found["metadata"]["uid"])
        return self._uid


Environment: TypeAlias = Mapping[str, str]
"""Variables with credentials. ``CHARTERER_FAKECLOUD_TOKEN`` is the bearer token for fake clouds that require one."""


Account: TypeAlias = tuple[str, str]
"""Vendor and account."""


def account_of(pool: Pool) -> Account:
    """The vendor and account of the pool."""
    return pool.cloud.vendor, pool.cloud.account


class Adapters(Protocol):
    """Makes the vendor's adapter for a pool's account, as ``adapter_for`` does."""

    def __call__(self, pool: Pool, environ: Environment, objects: Objects | None = None) -> Provider:
        """Make the adapter. ``objects``: the objects of the cluster, if there is one."""
        ...


def adapter_for(pool: Pool, environ: Environment, objects: Objects | None = None) -> Provider:
    """The vendor's adapter for the pool's account. ``objects``: the objects of the cluster, if there is one."""
    match pool.cloud:
        case FakeGroup(endpoint=endpoint):
            from charterer.providers.fake import FakeCloud

            return FakeCloud(endpoint, environ.get("CHARTERER_FAKECLOUD_TOKEN"))
        case NodeClaims():
            from charterer.providers.karpenter.provider import KarpenterCloud

            if objects is None:
                raise ValueError(f"GPUPool {pool.id} is Karpenter's, which needs a cluster")
            return KarpenterCloud(objects)
        case ExistingNodes():
            from charterer.providers.existing import ExistingCloud

            if objects is None:
                raise ValueError(f"GPUPool {pool.id} selects Nodes of the cluster, which it needs")
            return ExistingCloud(objects)
        case AwsFleet(region=region, assume_role=role) | AwsGroup(region=region, assume_role=role):
            from charterer.providers.aws.cloud import AwsCloud

            if objects is None:
                raise ValueError(f"GPUPool {pool.id} is of AWS, where tags name the cluster: it needs one")
            return AwsCloud(region, role, OwnCluster(objects))
        case AzureScaleSet() | AzureNodePool():
            from charterer.providers.azure.cloud import AzureCloud

            return AzureCloud(pool.cloud.subscription, pool.cloud.tenant, pool.cloud.client)
        case GcpGroup(project=project) | GcpTemplate(project=project):
            from charterer.providers.gcp.cloud import GcpCloud

            if objects is None:
                raise ValueError(f"GPUPool {pool.id} is of Google Cloud, where labels name the cluster: it needs one")
            return GcpCloud(project, OwnCluster(objects))
        case _:
            raise TypeError(f"no adapter is known for {pool.cloud}")


class Accounts:
    """The accounts of all pools. An account is opened when a pool first needs it, and stays open until ``close``."""

    def __init__(
        self,
        environ: Environment,
        guards: Guards | None = None,
        adapter: Callable[[Pool, Environment], Provider] = adapter_for,
    ) -> None:
        self._environ = environ
        self._guards = Guards() if guards is None else guards
        self._adapter = adapter
        self._fleet = Fleet(self._guards.limits, lambda: asyncio.get_running_loop().time())
        self._accounts: dict[Account, Guarded] = {}

    def account_of(self, pool: Pool) -> Guarded:
        """The provider of the pool's account."""
        key = account_of(pool)
        account = self._accounts.get(key)
        if account is None:
            adapter = self._adapter(pool, self._environ)
            account = self._accounts[key] = Guarded(key[0], adapter, self._guards, self._fleet)
        return account

    def by_account(self, pools: Iterable[Pool]) -> Mapping[Guarded, Sequence[Pool]]:
        """The pools of each account, so that one survey can ask about all of them."""
        grouped: dict[Guarded, list[Pool]] = {}
        for pool in pools:
            grouped.setdefault(self.account_of(pool), []).append(pool)
        return grouped

    def keep(self, pools: Mapping[PoolId, Pool]) -> None:
        """Forget the machines of all pools other than these. ``pools`` are all pools that exist."""
        self._fleet.keep(pools)

    async def close(self) -> None:
        """Close every account. No account may be used afterwards."""
        accounts = list(self._accounts.values())
        self._accounts.clear()
        await asyncio.gather(*(account.close() for account in accounts))
