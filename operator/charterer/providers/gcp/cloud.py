"""The Provider of Google Cloud: all pools of one project, from one list of instances and operations for each zone."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from charterer.clouds.gcp import GcpGroup, GcpTemplate
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Refusal, Reply, Traits
from charterer.domain.pool import Offering, Pool, Quote, Survey
from charterer.domain.time import Instant
from charterer.providers.errors import (
    CloudOutcomeUnknown,
    InvalidRequest,
    NotFoundInCloud,
    ProviderError,
    Transient,
    UnknownCode,
)
from charterer.providers.gcp.calls import Answer, Calls, Params, Sdk
from charterer.providers.gcp.hardware import GceHardware
from charterer.providers.gcp.history import OperationHistory
from charterer.providers.gcp.launch.bulk import FIELD, BulkInserts
from charterer.providers.gcp.launch.flex import FlexRequests, queued
from charterer.providers.gcp.launch.group import Groups
from charterer.providers.gcp.launch.members import GroupMembers, Member
from charterer.providers.gcp.launch.outcome import raise_for
from charterer.providers.gcp.listing import LAG_SECONDS, LISTED_SECONDS, ListedInstance, listed_instance
from charterer.providers.gcp.machines import Machines
from charterer.providers.gcp.names import label_value, order_of
from charterer.providers.gcp.permissions import Call
from charterer.providers.gcp.preflight import Preflight, flex_start
from charterer.providers.gcp.prices import Prices, PriceTable, read_table
from charterer.providers.gcp.template import InstanceTemplates, Template
from charterer.providers.provider import NONE_KNOWN, Drained, KnownMachines, PreflightFinding
from charterer.providers.threads import Sleep
from charterer.providers.understood import understood

_log = logging.getLogger(__name__)

GROUP_TRAITS: Final = Traits(
    named=True, keeps_trying=True, together=False, lag_seconds=LAG_SECONDS, listed_seconds=LISTED_SECONDS
)
FLEX_TRAITS: Final = replace(GROUP_TRAITS, together=True)
BULK_TRAITS: Final = replace(GROUP_TRAITS, keeps_trying=False, together=True)

GcpCloudSpec = GcpGroup | GcpTemplate


class GcpCloud:
    """The Provider of one project. ``cluster``: reads the uid of the namespace kube-system, which labels carry.

    ``send``: sends a call; by default the SDK. ``clock``: seconds that only grow. ``sleep``: waits between tries.
    ``prices``: by default those of this package.
    """

    def __init__(
        self,
        project: str,
        cluster: Callable[[PoolId], Awaitable[str]],
        send: Callable[[Call, Params], Answer] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        prices: PriceTable | None = None,
    ) -> None:
        self._project = project
        self._cluster = cluster
        self._calls = Calls(project, send or Sdk(), sleep)
        self._history = OperationHistory(self._calls)
        self._machines = Machines(self._calls, self._history)
        self._templates = InstanceTemplates(self._calls, clock)
        self._groups = Groups(self._calls, self._templates, clock)
        self._hardware = GceHardware(self._calls)
        self._prices = Prices(prices or read_table())
        self._members = GroupMembers(self._calls, self._history, clock)
        self._flex = FlexRequests(self._calls, self._history)
        self._bulk = BulkInserts(self._calls, self._history, clock)
        self._preflight = Preflight(self._calls, self._hardware, self._groups, self._templates, self._prices)

    async def survey(
        self, pools: Sequence[Pool], known: KnownMachines = NONE_KNOWN
    ) -> Mapping[PoolId, Survey | ProviderError]:
        """One list of instances and one of operations for each zone, and of a group what it is making."""
        zones: dict[str, list[Pool]] = {}
        for pool in pools:
            zones.setdefault(_mine(pool).zone, []).append(pool)
        answers = await asyncio.gather(*(self._survey_zone(zone, those, known) for zone, those in zones.items()))
        return {name: answer for those in answers for name, answer in those.items()}

    async def _survey_zone(
        self, zone: str, pools: Sequence[Pool], known: KnownMachines
    ) -> Mapping[PoolId, Survey | ProviderError]:
        """The pools of one zone. A zone that cannot be reached hides no other."""
        first = pools[0].id
        try:
            with understood(first, "survey", Transient):
                rows, asked = await self._machines.look(pools, zone, await self._cluster(first), known)
        except ProviderError as error:
            return {pool.id: error.about(pool.id) for pool in pools}
        answers = await asyncio.gather(*(self._survey_or_error(pool, rows[pool.id], asked) for pool in pools))
        return {pool.id: answer for pool, answer in zip(pools, answers, strict=True)}

    async def quote(self, pool: Pool) -> Quote:
        """The price of the table."""
        cloud = _mine(pool)
        with understood(pool.id, "quote", UnknownCode):
            return self._prices.quote(pool, await self._offering(pool, cloud), cloud.region, flex=flex_start(cloud))

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Make what is missing; the same orders again make nothing again."""
        cluster = await self._cluster(pool.id)
        with understood(pool.id, "ask", CloudOutcomeUnknown):
            match _mine(pool):
                case GcpGroup() as group:
                    settings = await self._groups.fit(pool, group, cluster)
                    self._machines.asked(pool, group.zone, [order.token for order in ask.orders])
                    launcher = self._members if group.run_seconds is None else self._flex
                    return await launcher.ask(pool, group, ask, settings)
                case GcpTemplate() as cloud:
                    template = await self._template(pool, cloud)
                    await self._hardware.offering(pool, template, cloud.zone, "", cloud.gpu_type)
                    self._machines.asked(pool, cloud.zone, [order.token for order in ask.orders])
                    return await self._bulk.ask(pool, cloud, ask, template, cluster)

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        """Take the names out of the group, or cancel the requests for them; bulkInsert leaves nothing to withdraw."""
        cloud = _mine(pool)
        with understood(pool.id, "withdraw", CloudOutcomeUnknown):
            if isinstance(cloud, GcpGroup):
                if cloud.run_seconds is not None:
                    await self._flex.withdraw(pool, cloud, orders)
                await self._members.withdraw(pool, cloud, orders)

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """End that instance, if it is this cluster's and this pool's, with its place in the group."""
        cloud, cluster = _mine(pool), await self._cluster(pool.id)
        with understood(pool.id, "terminate", CloudOutcomeUnknown):
            try:
                answer = await self._calls(pool.id, Call.GET_INSTANCE, zone=cloud.zone, instance=instance)
            except NotFoundInCloud:
                return
            row = listed_instance(answer.body)
            if not _is_ours(row, pool, cluster):
                raise _not_ours(pool, row)
            if not row.alive:
                return
            if isinstance(cloud, GcpGroup) and await self._members.end(pool.id, cloud, row.name):
                return
            if not (row.cluster and row.pool):
                raise _not_ours(pool, row)
            try:
                ended = await self._calls.operation(pool.id, Call.DELETE, cloud.zone, instance=instance)
                raise_for(pool.id, Call.DELETE, ended)
            except NotFoundInCloud:
                return

    async def renew(self, pools: Sequence[Pool]) -> None:
        """Nothing: what an instance's time limit is cannot be changed while it runs."""

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        """Find what would fail, or cost money by surprise, before the first dollar is spent."""
        _mine(pool)
        with understood(pool.id, "preflight", UnknownCode):
            return await self._preflight.findings(pool, await self._cluster(pool.id))

    async def close(self) -> None:
        """End the threads."""
        self._calls.close()

    async def _survey_or_error(
        self, pool: Pool, rows: Sequence[ListedInstance], asked: Instant
    ) -> Survey | ProviderError:
        try:
            with understood(pool.id, "survey", UnknownCode):
                return await self._survey(pool, rows, asked)
        except ProviderError as error:
            return error

    async def _survey(self, pool: Pool, rows: Sequence[ListedInstance], asked: Instant) -> Survey:
        cloud = _mine(pool)
        offering = await self._offering(pool, cloud)
        refusals: Sequence[Refusal]
        if isinstance(cloud, GcpTemplate):
            template = await self._template(pool, cloud)
            refusals, ordered = self._bulk.refusals(pool, cloud, template), self._bulk.ordered(pool.id, cloud.zone)
            ordered -= {row.order for row in rows}
            traits = BULK_TRAITS
        else:
            rows, ordered, refusals = await self._of_group(pool, cloud, rows, asked)
            traits = GROUP_TRAITS if cloud.run_seconds is None else FLEX_TRAITS
        return Survey(
            pool=pool.id,
            target=None,
            ordered=frozenset(ordered - {row.order for row in rows if row.ended is None}),
            instances=tuple([row.to_domain(self._project) for row in rows]),
            refusals=tuple(refusals),
            notices=(),
            asked=asked,
            traits=traits,
            offering=offering,
        )

    async def _of_group(
        self, pool: Pool, group: GcpGroup, rows: Sequence[ListedInstance], asked: Instant
    ) -> tuple[Sequence[ListedInstance], frozenset[OrderToken], Sequence[Refusal]]:
        """The instances with those that the list lacks, what the group is making, and what it cannot make."""
        settings = await self._groups.settings(pool, group)
        members = await self._members.listed(pool, group, [row.id for row in rows if row.ended is None])
        rows = [*rows, *await self._unlisted(pool, group, rows, members)]
        ordered = frozenset(member.order for member in members if member.in_the_making)
        refusals = await self._members.refusals(pool, group, members, settings, asked)
        if group.run_seconds is not None:
            requests, at = await self._flex.listed(pool.id, group)
            refusals = [*refusals, *self._flex.refusals(pool, group, requests, settings, at)]
            ordered |= queued(requests)
        return rows, ordered, refusals

    async def _unlisted(
        self, pool: Pool, group: GcpGroup, rows: Sequence[ListedInstance], members: Sequence[Member]
    ) -> Sequence[ListedInstance]:
        """Instances of the group with our names that no label finds, unless they carry another cluster's."""
        listed, found = {row.id for row in rows}, []
        for member in members:
            if member.id and member.id not in listed:
                try:
                    answer = await self._calls(pool.id, Call.GET_INSTANCE, zone=group.zone, instance=member.id)
                except NotFoundInCloud:
                    continue
                row = listed_instance(answer.body)
                if _is_ours(row, pool, await self._cluster(pool.id)):
                    found.append(replace(row, pool=pool.id))
        return found

    async def _offering(self, pool: Pool, cloud: GcpCloudSpec) -> Offering:
        if isinstance(cloud, GcpGroup):
            settings = await self._groups.settings(pool, cloud)
            return await self._hardware.offering(pool, settings.template, cloud.zone, settings.id, cloud.gpu_type)
        template = await self._template(pool, cloud)
        return await self._hardware.offering(pool, template, cloud.zone, "", cloud.gpu_type)

    async def _template(self, pool: Pool, cloud: GcpTemplate) -> Template:
        return await self._templates.read(pool.id, cloud.template, FIELD)


def _is_ours(row: ListedInstance, pool: Pool, cluster: str) -> bool:
    """Whether an instance is of this cluster and pool, by its name and what labels it has."""
    named = order_of(row.name) is not None
    return named and row.cluster in (cluster, "") and row.pool in (label_value(pool.id), "")


def _not_ours(pool: Pool, row: ListedInstance) -> InvalidRequest:
    message = f"instance {row.name} is not named and labelled as of this cluster and pool: it is not ended"
    return InvalidRequest(pool.id, Call.DELETE.full_name, "NotOurs", message)


def _mine(pool: Pool) -> GcpCloudSpec:
    """What the pool says of Google Cloud; InvalidRequest where it says nothing."""
    if not isinstance(pool.cloud, GcpGroup | GcpTemplate):
        raise InvalidRequest(pool.id, "spec", "NotGcp", "this is no pool of Google Cloud")
    return pool.cloud
