"""The Provider of AWS: all pools of one region and role, fleets and groups, from one list of instances."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Reply, Traits
from charterer.domain.pool import Offering, Pool, Quote, Survey
from charterer.domain.time import Instant
from charterer.providers.aws.blocks import CapacityBlocks
from charterer.providers.aws.calls import Answer, Calls, Params, Sdk
from charterer.providers.aws.fleet import FleetLauncher
from charterer.providers.aws.group import GroupLauncher
from charterer.providers.aws.hardware import AwsHardware
from charterer.providers.aws.listing import LAG_SECONDS, LISTED_SECONDS, ListedInstance, instances_named, instances_of
from charterer.providers.aws.notices import Notices
from charterer.providers.aws.permissions import CLUSTER_TAG, POOL_TAG, Call
from charterer.providers.aws.preflight import Preflight
from charterer.providers.aws.prices import Prices
from charterer.providers.aws.renewals import InstanceRenewals
from charterer.providers.errors import (
    CloudOutcomeUnknown,
    InvalidRequest,
    NotFoundInCloud,
    ProviderError,
    Transient,
    UnknownCode,
)
from charterer.providers.node_template import NO_TEMPLATE, NodeTemplate
from charterer.providers.provider import NONE_KNOWN, Drained, KnownMachines, PreflightFinding
from charterer.providers.threads import Sleep
from charterer.providers.understood import understood

_log = logging.getLogger(__name__)

FLEET_TRAITS: Final = Traits(
    named=True, keeps_trying=False, together=True, lag_seconds=LAG_SECONDS, listed_seconds=LISTED_SECONDS
)
ONE_BY_ONE: Final = Traits(
    named=True, keeps_trying=False, together=False, lag_seconds=LAG_SECONDS, listed_seconds=LISTED_SECONDS
)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a pool's nodes are launched. ``group``: its group's name in the whole world, ``size``: the most in it.

    ``nodes``: what the group says of them.
    """

    types: Sequence[str]
    zones: Sequence[str]
    group: str = ""
    size: int | None = None
    nodes: NodeTemplate = NO_TEMPLATE


class AwsCloud:
    """The Provider of one region and role. ``cluster``: reads the uid of the namespace kube-system, which tags carry.

    ``send``: sends a call; by default the SDK. ``clock``: seconds that only grow. ``sleep``: waits between tries.
    """

    def __init__(
        self,
        region: str,
        role: str,
        cluster: Callable[[PoolId], Awaitable[str]],
        send: Callable[[Call, Params], Answer] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._cluster = cluster
        self._calls = Calls(send or Sdk(region, role), sleep)
        self._hardware = AwsHardware(self._calls)
        self._prices = Prices(self._calls, region, clock)
        self._notices = Notices(self._calls)
        self._blocks = CapacityBlocks(self._calls, clock)
        self._renewals = InstanceRenewals(self._calls, clock)
        self._fleets = FleetLauncher(self._calls)
        self._groups = GroupLauncher(self._calls, clock, sleep)
        self._preflight = Preflight(self._calls, self._hardware, self._groups, self._prices)

    async def survey(
        self, pools: Sequence[Pool], known: KnownMachines = NONE_KNOWN
    ) -> Mapping[PoolId, Survey | ProviderError]:
        """One list of instances for all pools, and what each pool needs beside it. Raises where the list fails."""
        if not pools:
            return {}
        first = pools[0].id
        with understood(first, "survey", Transient):
            rows, asked = await instances_of(self._calls, first, await self._cluster(first))
            rows = [*rows, *await self._without_our_tags(pools, known, rows)]
            self._renewals.listed(rows, asked)
        unheard = await self._hear(pools, asked)
        answers = await asyncio.gather(*(self._survey_or_error(pool, rows, asked, unheard) for pool in pools))
        return {pool.id: answer for pool, answer in zip(pools, answers, strict=True)}

    async def _without_our_tags(
        self, pools: Sequence[Pool], known: KnownMachines, rows: Sequence[ListedInstance]
    ) -> Sequence[ListedInstance]:
        """Known instances that no tag finds any more, as far as EC2 still has them: they are billed like any other."""
        listed = {row.id for row in rows if row.pool}
        lost = {machine: pool.id for pool in pools for machine in known.get(pool.id, ()) if machine not in listed}
        if not lost:
            return ()
        return [replace(row, pool=lost[row.id]) for row in await instances_named(self._calls, pools[0].id, list(lost))]

    async def quote(self, pool: Pool) -> Quote:
        """The price list's price, or the present spot price, of the dearest type and zone."""
        with understood(pool.id, "quote", UnknownCode):
            place = await self._place(pool)
            return await self._prices.quote(pool, place.types, place.zones)

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Launch what is missing; the same orders again are the same calls."""
        cluster = await self._cluster(pool.id)
        with understood(pool.id, "ask", CloudOutcomeUnknown):
            match pool.cloud:
                case AwsFleet() as fleet:
                    if (refused := await self._blocks.refusals(pool, fleet, ask)) is not None:
                        return refused
                    return await self._fleets.ask(pool, fleet, ask, cluster)
                case AwsGroup() as group:
                    return await self._groups.ask(pool, group, ask, cluster)
                case _:
                    raise _not_mine(pool)

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        """Nothing: what was not launched at once never is."""

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """End that instance, if it is this cluster's and this pool's."""
        cluster = await self._cluster(pool.id)
        try:
            answer = await self._calls(pool.id, Call.DESCRIBE_INSTANCES, {"InstanceIds": [instance]})
        except NotFoundInCloud:
            return
        for row in (row for each in answer["Reservations"] for row in each["Instances"]):
            tags = {tag["Key"]: tag["Value"] for tag in row.get("Tags", ())}
            if (tags.get(CLUSTER_TAG), tags.get(POOL_TAG)) != (cluster, pool.id):
                message = f"instance {instance} is not tagged as of this cluster and pool: it is not ended"
                raise InvalidRequest(pool.id, Call.TERMINATE_INSTANCES.full_name, "NotOurs", message)
            if row["State"]["Name"] in ("shutting-down", "terminated"):
                return
        if isinstance(pool.cloud, AwsGroup) and await self._groups.terminate(pool, instance):
            return
        try:
            await self._calls(pool.id, Call.TERMINATE_INSTANCES, {"InstanceIds": [instance]})
        except NotFoundInCloud:
            return

    async def renew(self, pools: Sequence[Pool]) -> None:
        """Renew the instances of these pools that would end themselves, if it is time."""
        first = pools[0].id
        with understood(first, "renew", CloudOutcomeUnknown):
            if self._renewals.outdated:
                try:
                    self._renewals.listed(*await instances_of(self._calls, first, await self._cluster(first)))
                except ProviderError as error:  # what an older list shows is renewed all the same
                    _log.warning("%s", error)
            await self._renewals.renew(pools)

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        """Find what would fail, or cost money by surprise, before the first dollar is spent."""
        with understood(pool.id, "preflight", UnknownCode):
            return await self._preflight.findings(pool, await self._cluster(pool.id))

    async def close(self) -> None:
        """End the threads."""
        self._calls.close()

    async def _hear(self, pools: Sequence[Pool], asked: Instant) -> Mapping[str, ProviderError]:
        """Read each queue that these pools name, once; the errors of those that cannot be read."""
        queues = {queue: pool.id for pool in reversed(pools) if (queue := _queue_of(pool))}
        unheard: dict[str, ProviderError] = {}

        async def hear(queue: str, pool: PoolId) -> None:
            try:
                with understood(pool, "survey", UnknownCode):
                    await self._notices.receive(pool, queue, asked)
            except ProviderError as error:
                unheard[queue] = error

        await asyncio.gather(*(hear(queue, pool) for queue, pool in queues.items()))
        return unheard

    async def _survey_or_error(
        self, pool: Pool, rows: Sequence[ListedInstance], asked: Instant, unheard: Mapping[str, ProviderError]
    ) -> Survey | ProviderError:
        if (deaf := unheard.get(_queue_of(pool))) is not None:
            return deaf.about(pool.id)
        try:
            with understood(pool.id, "survey", UnknownCode):
                return await self._survey(pool, [row for row in rows if row.pool == pool.id], asked)
        except ProviderError as error:
            return error

    async def _survey(self, pool: Pool, rows: Sequence[ListedInstance], asked: Instant) -> Survey:
        place = await self._place(pool)
        offering = await self._offering(pool, place)
        segments = await self._prices.segments(pool, sorted({*place.types, *(row.type for row in rows)}), rows)
        alive = {row.id for row in rows if row.ended is None}
        ends = await self._blocks.ends_of(pool.id, rows)
        fleet = isinstance(pool.cloud, AwsFleet) and not pool.cloud.capacity_reservation
        return Survey(
            pool=pool.id,
            target=None,
            ordered=frozenset(),
            instances=tuple([row.to_domain(segments.get(row.id, ()), ends.get(row.id)) for row in rows]),
            refusals=(),
            notices=tuple(self._notices.of(_queue_of(pool), alive)),
            asked=asked,
            traits=FLEET_TRAITS if fleet else ONE_BY_ONE,
            offering=offering,
        )

    async def _place(self, pool: Pool) -> _Place:
        """Where the pool's nodes are launched."""
        match pool.cloud:
            case AwsFleet() as fleet:
                return _Place(fleet.instance_types, await self._hardware.zones(pool, fleet.subnets))
            case AwsGroup() as group:
                settings = await self._groups.settings(pool, group)
                return _Place(settings.types, settings.zones, settings.arn, settings.size, settings.nodes)
            case _:
                raise _not_mine(pool)

    async def _offering(self, pool: Pool, place: _Place) -> Offering:
        said = pool.cloud.gpu_type if isinstance(pool.cloud, AwsFleet | AwsGroup) else ""
        found = await self._hardware.offering(pool, place.types, place.zones, place.group, said, place.nodes)
        return replace(found, group_size=place.size)


def _queue_of(pool: Pool) -> str:
    """The URL of the queue that the pool names; empty where it names none."""
    return pool.cloud.queue if isinstance(pool.cloud, AwsFleet | AwsGroup) else ""


def _not_mine(pool: Pool) -> InvalidRequest:
    return InvalidRequest(pool.id, "spec", "NotAws", "this is no pool of AWS")
