"""The Provider of Google Cloud: all pools of one project, from one list of instances and operations for each zone."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from charterer.clouds.gcp import GcpGroup, GcpTemplate, quota_metric
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Refusal, Reply, Traits
from charterer.domain.pool import CapacityType, Offering, Pool, Quote, Survey
from charterer.domain.time import Instant, seconds_between
from charterer.providers.codes import understood
from charterer.providers.errors import (
    CloudOutcomeUnknown,
    InvalidRequest,
    NotFoundInCloud,
    ProviderError,
    Transient,
    UnknownCode,
)
from charterer.providers.gcp.bulk import FIELD, BulkInserts
from charterer.providers.gcp.calls import Answer, Calls, Json, Params, Sdk
from charterer.providers.gcp.groups import (
    FlexRequests,
    GroupMembers,
    Groups,
    Member,
    problems_of_group,
    queued,
    raise_for,
)
from charterer.providers.gcp.listing import (
    LAG_SECONDS,
    LISTED_SECONDS,
    ListedInstance,
    Operation,
    OperationHistory,
    instances_of,
    label_value,
    listed_instance,
    order_of,
)
from charterer.providers.gcp.permissions import Call
from charterer.providers.gcp.prices import STALE_DAYS, Prices, PriceTable, read_table
from charterer.providers.gcp.template import GceHardware, InstanceTemplates, Template, problems_of
from charterer.providers.provider import NONE_KNOWN, Check, Drained, KnownMachines, PreflightFinding, checked
from charterer.providers.threads import Sleep

# All instances of this cluster in a zone, including those that ended lately. Only operations show when an instance
# ended.


@dataclass(slots=True)
class _ZoneInstances:
    """The known instances of a zone.

    ``listed``: the instances as they were last listed, and the time of that list. ``ended``: the instances that have
    ended. ``asked``: the pool of each order.
    """

    listed: dict[InstanceId, tuple[ListedInstance, Instant]] = field(default_factory=dict)
    ended: dict[InstanceId, ListedInstance] = field(default_factory=dict)
    asked: dict[OrderToken, PoolId] = field(default_factory=dict)


class Machines:
    """Lists instances. An instance that vanished between two lists is reported as ended for an hour."""

    def __init__(self, calls: Calls, history: OperationHistory) -> None:
        self._calls = calls
        self._history = history
        self._zones: dict[str, _ZoneInstances] = {}

    def asked(self, pool: Pool, zone: str, orders: Iterable[OrderToken]) -> None:
        """Note that the pool has sent these orders.

        The orders' instances belong to this pool, even if no list ever shows them.
        """
        self._zone(zone).asked |= dict.fromkeys(orders, pool.id)

    def given_up(self, zone: str, orders: Iterable[OrderToken]) -> None:
        """Forget orders that nobody waits for any more."""
        for order in orders:
            self._zone(zone).asked.pop(order, None)

    async def look(
        self, pools: Sequence[Pool], zone: str, cluster: str, known: KnownMachines
    ) -> tuple[Mapping[PoolId, Sequence[ListedInstance]], Instant]:
        """The instances of these pools, which are in that zone, and the cloud's time."""
        state, first = self._zone(zone), pools[0].id
        listed, asked = await instances_of(self._calls, first, zone, cluster)
        await self._history.read(first, zone)
        names = {label_value(pool.id): pool.id for pool in pools}
        found = {id: replace(row, pool=names[row.pool]) for id, row in listed.items() if row.pool in names}
        for pool in pools:
            for id in set(known.get(pool.id, ())) - found.keys() - state.listed.keys() - state.ended.keys():
                await self._look_for(pool.id, zone, id, found)
        await self._see_ends(zone, found, asked, frozenset(pool.id for pool in pools))
        rows = [*found.values(), *state.ended.values()]
        return {pool.id: [row for row in rows if row.pool == pool.id] for pool in pools}, asked

    async def _look_for(self, pool: PoolId, zone: str, id: InstanceId, found: dict[InstanceId, ListedInstance]) -> None:
        """Look for a known instance that no label finds. It may have lost its labels, or have ended."""
        try:
            answer = await self._calls(pool, Call.GET_INSTANCE, zone=zone, instance=id)
        except NotFoundInCloud:
            end = self._history.end_of(zone, id)
            launched = None if end is None else await self._history.launch_of(pool, zone, id)
            if end is not None and launched is not None:
                self._zone(zone).ended[id] = _ended(end, launched, zone, pool)
        else:
            found[id] = replace(listed_instance(answer.body), pool=pool)

    async def _see_ends(
        self, zone: str, found: Mapping[InstanceId, ListedInstance], asked: Instant, pools: frozenset[PoolId]
    ) -> None:
        """Note which instances have ended since the last list, and forget those that ended long ago."""
        state = self._zone(zone)
        for id, (row, seen) in list(state.listed.items()):
            if id not in found and row.pool in pools:
                end = self._history.end_of(zone, id)
                if end is not None and end.ended is not None:
                    state.ended[id] = row.end(end.ended)
                if id in state.ended or seconds_between(seen, asked) > LISTED_SECONDS:
                    del state.listed[id]
        state.listed |= {id: (row, asked) for id, row in found.items()}
        for order in (row.order for row in found.values() if row.order is not None):
            state.asked.pop(order, None)
        await self._see_unlisted(zone, found)
        for id, row in list(state.ended.items()):
            if id in found or (row.ended is not None and seconds_between(row.ended, asked) > LISTED_SECONDS):
                del state.ended[id]

    async def _see_unlisted(self, zone: str, found: Mapping[InstanceId, ListedInstance]) -> None:
        """Find instances that were ordered and have ended before any list showed them."""
        state = self._zone(zone)
        for each in self._history.operations(zone):
            order = order_of(each.name)
            pool = None if order is None else state.asked.get(order)
            if pool is None or not each.ends_instance or each.target in found or each.target in state.ended:
                continue
            end = self._history.end_of(zone, each.target) or each
            launched = await self._history.launch_of(pool, zone, each.target)
            if launched is not None:
                state.ended[each.target] = _ended(end, launched, zone, pool)
                self.given_up(zone, [order] if order is not None else [])

    def _zone(self, zone: str) -> _ZoneInstances:
        return self._zones.setdefault(zone, _ZoneInstances())


def _ended(end: Operation, launched: Instant, zone: str, pool: PoolId) -> ListedInstance:
    """An instance that no list contains any more, from the operation that ended it."""
    row = ListedInstance(end.target, end.name, zone, "", pool, "TERMINATED", launched, None)
    return row.end(end.ended if end.ended is not None else end.began)


# How many more GPUs a project may have: its quotas of the region and of all regions, minus the GPUs that are used.


_EVERYWHERE: Final = "GPUS_ALL_REGIONS"


class Quotas:
    """Compares quotas with their use."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def finding(
        self, pool: Pool, region: str, gpus: Mapping[str, int], own: int, *, flex: bool
    ) -> PreflightFinding:
        """Whether all nodes of the pool fit into the quotas of their GPUs.

        ``own``: number of nodes that the pool has already.
        """
        [(accelerator, each)] = gpus.items()
        preemptible = flex or pool.capacity_type is CapacityType.SPOT
        metric = quota_metric(accelerator, spot=preemptible)
        here = await self._calls(pool.id, Call.GET_REGION, region=region)
        everywhere = await self._calls(pool.id, Call.GET_PROJECT)
        places = (region, here.body), ("all regions", everywhere.body)
        rows = {row["metric"]: (row, place) for place, body in places for row in body.get("quotas", ())}
        found = [rows[name] for name in (metric, _EVERYWHERE) if name in rows]
        told = [f"{row['metric']} of {place}: {_used(row)} of {_limit(row)} are used" for row, place in found]
        if metric not in rows:
            told.append(f"the API tells no quota of {accelerator} in {region}: look in IAM & Admin, Quotas")
        fit = own + min((_free(row) // each for row, _ in found), default=pool.max_nodes)
        said = f"{'; '.join(told)}; a node has {each}"
        if fit >= pool.max_nodes:
            return PreflightFinding("quota", True, f"{said}, spec.maxNodes {pool.max_nodes} fits" if found else said)
        short = [row for row, _ in found if own + _free(row) // each < pool.max_nodes]
        wanted = "; ".join(f"{row['metric']} {_used(row) + (pool.max_nodes - own) * each}" for row in short)
        advice = f"ask for {wanted} in IAM & Admin, Quotas, or lower spec.maxNodes {pool.max_nodes}"
        return PreflightFinding("quota", False, f"{said}, so that {fit} fit: {advice}")


def _limit(row: Json) -> int:
    return int(row.get("limit", 0))


def _used(row: Json) -> int:
    return int(row.get("usage", 0))


def _free(row: Json) -> int:
    return max(_limit(row) - _used(row), 0)


# A reservation in which a pool's nodes are made: what machines it has, and when it ends.


async def reservation_finding(calls: Calls, pool: Pool, cloud: GcpTemplate, template: Template) -> PreflightFinding:
    """The finding on whether the reservation exists, has the pool's machine type, and is ready."""
    try:
        answer = await calls(pool.id, Call.GET_RESERVATION, zone=cloud.zone, reservation=cloud.reservation)
    except NotFoundInCloud as error:
        message = f"there is no reservation {cloud.reservation!r} in {cloud.zone} of project {cloud.project}"
        raise InvalidRequest(pool.id, "spec.gcp.reservation", error.code, message) from error
    row = answer.body
    kept = row.get("specific_reservation", {})
    kind = kept.get("instance_properties", {}).get("machine_type", "")
    count, used = int(kept.get("count", 0)), int(kept.get("in_use_count", 0))
    told = f"{cloud.reservation}: {count - used} of {count} {kind} are free"
    wrong = []
    if kind != template.machine_type:
        wrong.append(f"instance template {template.name} has {template.machine_type}: name a reservation of that")
    if (status := row.get("status", "")) != "READY":
        wrong.append(f"it is {status}: wait until it is READY")
    if not row.get("specific_reservation_required"):
        wrong.append("it is not specific: without spec.gcp.reservation, nodes use it by themselves")
    if end := row.get("delete_at_time"):
        told += f"; it ends at {end}"
    return PreflightFinding("reservation", not wrong, f"{told}; {'; '.join(wrong)}" if wrong else told)


# Preflight: checks that find failures and surprising costs before any money is spent.


_KEY_FILE: Final = "a key file, which works for whoever has it until somebody deletes it: use Workload Identity instead"


class Preflight:
    """Checks everything that a pool needs. It changes nothing."""

    def __init__(
        self, calls: Calls, hardware: GceHardware, groups: Groups, templates: InstanceTemplates, prices: Prices
    ) -> None:
        self._calls = calls
        self._hardware = hardware
        self._groups = groups
        self._templates = templates
        self._prices = prices
        self._quotas = Quotas(calls)

    async def findings(self, pool: Pool, cluster: str) -> Sequence[PreflightFinding]:
        """One finding for each thing that was checked. If there are no credentials, the only finding is about them."""
        try:
            who = await self._credentials(pool)
        except ProviderError as error:
            return [PreflightFinding("credentials", False, error.said)]
        match pool.cloud:
            case GcpGroup() as group:
                return [*who, *await self._of_group(pool, group, cluster)]
            case GcpTemplate() as cloud:
                return [*who, *await self._of_template(pool, cloud, cluster)]
            case _:
                return who

    async def _credentials(self, pool: Pool) -> Sequence[PreflightFinding]:
        identity = await self._calls.identity(pool.id)
        answer = await self._calls(pool.id, Call.GET_PROJECT)
        who = f" as {identity.account}" if identity is not None and identity.account else ""
        found = PreflightFinding("credentials", True, f"project {answer.body.get('name', '')}{who}")
        if identity is not None and identity.key_file:
            return [found, PreflightFinding("identity", False, f"the credentials come from {_KEY_FILE}")]
        return [found]

    async def _of_group(self, pool: Pool, group: GcpGroup, cluster: str) -> Sequence[PreflightFinding]:
        try:
            settings = await self._groups.settings(pool, group)
        except ProviderError as error:
            return [PreflightFinding("group", False, error.said)]
        wrong = problems_of_group(pool, group, settings, cluster)
        whole = [PreflightFinding("group", False, each) for each in wrong]
        whole = whole or [PreflightFinding("group", True, f"{group.group} in {group.zone} is fit")]
        return [*whole, *await self._of_nodes(pool, group, settings.template, cluster)]

    async def _of_template(self, pool: Pool, cloud: GcpTemplate, cluster: str) -> Sequence[PreflightFinding]:
        try:
            template = await self._templates.read(pool.id, cloud.template, FIELD)
        except ProviderError as error:
            return [PreflightFinding("instance template", False, error.said)]
        wrong = problems_of(pool, template, flex=False)
        said = f"{template.name}: {'; '.join(wrong)}" if wrong else template.name
        whole = [PreflightFinding("instance template", not wrong, said)]
        if cloud.reservation:
            whole.append(await checked("reservation", lambda: reservation_finding(self._calls, pool, cloud, template)))
        return [*whole, *await self._of_nodes(pool, cloud, template, cluster)]

    async def _of_nodes(
        self, pool: Pool, cloud: GcpGroup | GcpTemplate, template: Template, cluster: str
    ) -> Sequence[PreflightFinding]:
        checks: list[tuple[str, Check]] = [
            ("GPUs", lambda: self._gpus(pool, cloud, template)),
            ("price", lambda: self._price(pool, cloud, template)),
        ]
        if not (isinstance(cloud, GcpTemplate) and cloud.reservation):
            checks.append(("quota", lambda: self._quota(pool, cloud, template, cluster)))
        return [await checked(subject, check) for subject, check in checks]

    async def _gpus(self, pool: Pool, cloud: GcpGroup | GcpTemplate, template: Template) -> PreflightFinding:
        offering = await self._hardware.offering(pool, template, cloud.zone, "", cloud.gpu_type)
        wrong = await self._hardware.told_otherwise(pool.id, template, cloud.zone)
        return PreflightFinding("GPUs", not wrong, wrong or f"{offering.gpus_per_node} × {offering.gpu_type} a node")

    async def _price(self, pool: Pool, cloud: GcpGroup | GcpTemplate, template: Template) -> PreflightFinding:
        offering = await self._hardware.offering(pool, template, cloud.zone, "", cloud.gpu_type)
        quote = self._prices.quote(pool, offering, cloud.region, flex=flex_start(cloud))
        said = f"{quote.price}, at most {quote.worst}: {quote.source}"
        now = (await self._calls(pool.id, Call.GET_PROJECT)).at
        age = self._prices.table.age_days(now)
        if age <= STALE_DAYS or pool.price_override is not None:
            return PreflightFinding("price", True, said)
        advice = "compare it with Google's, and set spec.price.hourly or take a newer Charterer"
        return PreflightFinding("price", False, f"{said}, which is {age} days old: {advice}")

    async def _quota(
        self, pool: Pool, cloud: GcpGroup | GcpTemplate, template: Template, cluster: str
    ) -> PreflightFinding:
        gpus = await self._hardware.gpus(pool.id, template, cloud.zone)
        if len(gpus) != 1:
            return PreflightFinding("quota", True, "of GPUs none is needed")
        listed, _ = await instances_of(self._calls, pool.id, cloud.zone, cluster)
        own = sum(row.alive and row.pool == label_value(pool.id) for row in listed.values())
        return await self._quotas.finding(pool, cloud.region, gpus, own, flex=flex_start(cloud))


def flex_start(cloud: GcpGroup | GcpTemplate) -> bool:
    """Whether the pool's nodes are ordered by resize requests."""
    return isinstance(cloud, GcpGroup) and cloud.run_seconds is not None


_log = logging.getLogger(__name__)

GROUP_TRAITS: Final = Traits(
    named=True, keeps_trying=True, together=False, lag_seconds=LAG_SECONDS, listed_seconds=LISTED_SECONDS
)
FLEX_TRAITS: Final = replace(GROUP_TRAITS, together=True)
BULK_TRAITS: Final = replace(GROUP_TRAITS, keeps_trying=False, together=True)

GcpCloudSpec = GcpGroup | GcpTemplate


class GcpCloud:
    """The Provider of one project.

    ``cluster``: reads the uid of the namespace kube-system, which is in the labels.
    ``send``: sends a call. By default it is the SDK.
    ``clock``: seconds of a clock that never goes back.
    ``sleep``: waits between attempts.
    ``prices``: by default the prices of this package.
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
        """The surveys. For each zone, a list of instances and a list of operations are read. For each group, the nodes
        that the group is making are read too.
        """
        zones: dict[str, list[Pool]] = {}
        for pool in pools:
            zones.setdefault(_mine(pool).zone, []).append(pool)
        answers = await asyncio.gather(*(self._survey_zone(zone, those, known) for zone, those in zones.items()))
        return {name: answer for those in answers for name, answer in those.items()}

    async def _survey_zone(
        self, zone: str, pools: Sequence[Pool], known: KnownMachines
    ) -> Mapping[PoolId, Survey | ProviderError]:
        """The surveys of the pools of one zone. If the zone cannot be reached, pools of other zones are not
        affected.
        """
        first = pools[0].id
        try:
            with understood(first, "survey", Transient):
                rows, asked = await self._machines.look(pools, zone, await self._cluster(first), known)
        except ProviderError as error:
            return {pool.id: error.about(pool.id) for pool in pools}
        answers = await asyncio.gather(*(self._survey_or_error(pool, rows[pool.id], asked) for pool in pools))
        return {pool.id: answer for pool, answer in zip(pools, answers, strict=True)}

    async def quote(self, pool: Pool) -> Quote:
        """The node's price by the table."""
        cloud = _mine(pool)
        with understood(pool.id, "quote", UnknownCode):
            return self._prices.quote(pool, await self._offering(pool, cloud), cloud.region, flex=flex_start(cloud))

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Make the nodes that are missing. If it is called again with the same orders, no further nodes are made."""
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
        """Remove the names from the group, or cancel the requests for them.

        With bulkInsert there is nothing to withdraw.
        """
        cloud = _mine(pool)
        with understood(pool.id, "withdraw", CloudOutcomeUnknown):
            if isinstance(cloud, GcpGroup):
                if cloud.run_seconds is not None:
                    await self._flex.withdraw(pool, cloud, orders)
                await self._members.withdraw(pool, cloud, orders)

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """End the instance and remove its place in the group, if it belongs to this cluster and this pool."""
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
        """Do nothing. The time limit of an instance cannot be changed while the instance runs."""

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        """Find failures and surprising costs before any money is spent."""
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
        """The instances (unlisted ones included), the orders that the group is making, and the group's refusals."""
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
        """Instances of the group with our names that no label finds.

        Instances with another cluster's labels are left out.
        """
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
    """Whether an instance belongs to this cluster and pool, by its name and its labels."""
    named = order_of(row.name) is not None
    return named and row.cluster in (cluster, "") and row.pool in (label_value(pool.id), "")


def _not_ours(pool: Pool, row: ListedInstance) -> InvalidRequest:
    message = f"instance {row.name} is not named and labelled as of this cluster and pool: it is not ended"
    return InvalidRequest(pool.id, Call.DELETE.full_name, "NotOurs", message)


def _mine(pool: Pool) -> GcpCloudSpec:
    """The pool's spec for Google Cloud. Raises InvalidRequest if the pool has none."""
    if not isinstance(pool.cloud, GcpGroup | GcpTemplate):
        raise InvalidRequest(pool.id, "spec", "NotGcp", "this is no pool of Google Cloud")
    return pool.cloud
