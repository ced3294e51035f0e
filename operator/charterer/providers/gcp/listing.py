"""Compute Engine's list of instances as domain values: whose each is, its state, and when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.pool import Instance, InstanceState
from charterer.domain.time import Instant, parse_instant
from charterer.providers.gcp.calls import Calls, Json
from charterer.providers.gcp.names import CLUSTER_LABEL, POOL_LABEL, last, order_of
from charterer.providers.gcp.permissions import Call

LAG_SECONDS: Final = 60.0
"""Lists show a new instance within seconds; no bound is documented."""
LISTED_SECONDS: Final = 3600.0
"""For how long an ended instance is told, from the operations of its zone."""
BILLING_MINIMUM: Final = 60
"""Seconds (https://cloud.google.com/compute/vm-instance-pricing)."""
_PAGE: Final = 500

_STATES: Final[Mapping[str, InstanceState]] = {
    "PROVISIONING": InstanceState.PENDING,
    "STAGING": InstanceState.PENDING,
    "PENDING": InstanceState.PENDING,
    "RUNNING": InstanceState.RUNNING,
    "REPAIRING": InstanceState.RUNNING,
    "SUSPENDING": InstanceState.RUNNING,  # somebody's work by hand, as those below: it can go on, and is to be ended
    "SUSPENDED": InstanceState.RUNNING,
    "STOPPED": InstanceState.RUNNING,
    "TERMINATED": InstanceState.RUNNING,
    "PENDING_STOP": InstanceState.STOPPING,
    "STOPPING": InstanceState.STOPPING,
    "DEPROVISIONING": InstanceState.STOPPING,
}
"""A stopped instance has its disks, and a deleted one is not listed any more."""


@dataclass(frozen=True, slots=True)
class ListedInstance:
    """An instance of a zone's list. ``cluster`` and ``pool``: its labels, empty where it has none.

    ``ends``: when Google Cloud deletes it by itself, where that is set.
    """

    id: InstanceId
    name: str
    zone: str
    cluster: str
    pool: str
    status: str
    launched: Instant
    ends: Instant | None
    ended: Instant | None = None

    @property
    def order(self) -> OrderToken | None:
        """What it is for; None if its name is none of ours."""
        return order_of(self.name)

    @property
    def state(self) -> InstanceState:
        """The state; what is being deleted is still billed."""
        return InstanceState.ENDED if self.ended is not None else _STATES[self.status]

    @property
    def alive(self) -> bool:
        """Whether it has not begun to end."""
        return self.state in (InstanceState.PENDING, InstanceState.RUNNING)

    def end(self, at: Instant) -> ListedInstance:
        """The same instance once it has ended."""
        return replace(self, ended=at)

    def to_domain(self, project: str) -> Instance:
        """The instance. Its Node is known by the provider's id once it has joined."""
        return Instance(
            id=self.id,
            state=self.state,
            provider_id=f"gce://{project}/{self.zone}/{self.name}",
            node=None,
            launched=self.launched,
            ended=self.ended,
            segments=(),
            billing_minimum_seconds=BILLING_MINIMUM,
            order=self.order,
            ends=self.ends,
        )


async def instances_of(
    calls: Calls, pool: PoolId, zone: str, cluster: str
) -> tuple[Mapping[InstanceId, ListedInstance], Instant]:
    """The instances of this cluster in a zone, and the cloud's time. ``pool``: the pool that errors name.

    A list of all zones at once would fail for all when one zone cannot be reached.
    """
    rows, asked = await calls.pages(
        pool, Call.LIST_INSTANCES, "items", zone=zone, filter=f"labels.{CLUSTER_LABEL} = {cluster}", max_results=_PAGE
    )
    listed = [listed_instance(row) for row in rows]
    return {row.id: row for row in listed}, asked


def listed_instance(row: Json) -> ListedInstance:
    """An instance as Compute Engine describes it."""
    labels = row.get("labels", {})
    ends = row.get("resource_status", {}).get("scheduling", {}).get("termination_timestamp")
    return ListedInstance(
        id=InstanceId(str(row["id"])),
        name=row["name"],
        zone=last(row["zone"]),
        cluster=labels.get(CLUSTER_LABEL, ""),
        pool=labels.get(POOL_LABEL, ""),
        status=row["status"],
        launched=parse_instant(row["creation_timestamp"]),
        ends=None if ends is None else parse_instant(ends),
    )
