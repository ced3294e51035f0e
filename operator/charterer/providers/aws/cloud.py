"""The Provider of AWS: all pools of one region and role, fleets and groups, from one list of instances."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from charterer.clouds.aws import QUOTAS, AwsFleet, AwsGroup, VcpuQuota
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Refusal, RefusalKind, Reply, Scope, Traits
from charterer.domain.pool import CapacityType, Notice, Offering, Pool, Quote, Survey
from charterer.domain.time import Instant, after, instant, moment, parse_instant, seconds_between
from charterer.providers.aws.calls import Answer, Calls, Params, Sdk, time_of
from charterer.providers.aws.fleet import FleetLauncher, Tags, fleet_request
from charterer.providers.aws.group import (
    GroupLauncher,
    problems_of,
    problems_with_ending_itself,
    problems_with_tags,
    read_template,
    template_of,
)
from charterer.providers.aws.hardware import AwsHardware
from charterer.providers.aws.listing import LAG_SECONDS, LISTED_SECONDS, ListedInstance, instances_named, instances_of
from charterer.providers.aws.permissions import CLUSTER_TAG, POOL_TAG, Call
from charterer.providers.aws.prices import Prices
from charterer.providers.aws.renewals import InstanceRenewals
from charterer.providers.codes import understood
from charterer.providers.errors import (
    CloudOutcomeUnknown,
    InvalidRequest,
    NotFoundInCloud,
    ProviderError,
    Transient,
    UnknownCode,
)
from charterer.providers.provider import (
    NO_TEMPLATE,
    NONE_KNOWN,
    Check,
    Drained,
    KnownMachines,
    NodeTemplate,
    PreflightFinding,
    checked,
    size_finding,
    vcpus_finding,
)
from charterer.providers.threads import Sleep

_log = logging.getLogger(__name__)

# Warnings of interruptions, and recommendations to rebalance. They come from an SQS queue that EventBridge fills.


_MOST_BATCHES: Final = 20
_BATCH: Final = 10
_HIDDEN_SECONDS: Final = 20
_LEAD_SECONDS: Final[dict[str, float]] = {
    "EC2 Spot Instance Interruption Warning": 120.0,
    "EC2 Capacity Reservation Instance Interruption Warning": 120.0,
    "EC2 Interruptible Capacity Reservation Instance Interruption Warning": 120.0,
}
"""Seconds from the event to the end of the instance, by the event's detail-type. Events that are neither here nor in
the next constant are deleted. Source: EC2 User Guide, spot-instance-termination-notices and
monitor-interruptible-cr.
"""
_REBALANCE: Final = "EC2 Instance Rebalance Recommendation"
"""The event that an instance is at elevated risk. The event has no time, and the interruption may never come. Source:
EC2 User Guide, rebalance-recommendations.
"""
_RISK_SECONDS: Final = 3600.0
"""Seconds for which a recommendation counts."""


@dataclass(frozen=True, slots=True)
class _Message:
    """A warning as it was received. ``until``: when the warning no longer matters."""

    receipt: str
    notice: Notice
    until: Instant


class Notices:
    """Messages of the queues of a region and role. A message stays in its queue until its time has passed, so a new
    process gets it again."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._known: dict[str, dict[str, _Message]] = {}

    async def receive(self, pool: PoolId, queue: str, now: Instant) -> None:
        """Read the messages of the queue, once for all pools that name it. ``pool``: the pool that errors name."""
        messages = self._known.setdefault(queue, {})
        over: list[str] = []
        for _ in range(_MOST_BATCHES):
            params = {"QueueUrl": queue, "MaxNumberOfMessages": _BATCH, "VisibilityTimeout": _HIDDEN_SECONDS}
            received = (await self._calls(pool, Call.RECEIVE, params)).get("Messages", ())
            for message in received:
                read = _read(message["ReceiptHandle"], message["Body"])
                if read is None:
                    over.append(message["ReceiptHandle"])
                else:
                    messages[message["MessageId"]] = read
            if len(received) < _BATCH:
                break
        for id, message in list(messages.items()):
            if message.until < now:
                over.append(message.receipt)
                del messages[id]
        for receipt in over:
            await self._delete(pool, queue, receipt)

    def of(self, queue: str, alive: Collection[InstanceId]) -> Sequence[Notice]:
        """The warnings received from the queue about instances that are alive."""
        messages = self._known.get(queue, {}).values()
        told = {message.notice: message.until for message in messages if message.notice.instance in alive}
        return sorted(told, key=lambda notice: (told[notice], notice.instance))

    async def _delete(self, pool: PoolId, queue: str, receipt: str) -> None:
        try:
            await self._calls(pool, Call.DELETE_MESSAGE, {"QueueUrl": queue, "ReceiptHandle": receipt})
        except ProviderError as error:  # the message comes again and is deleted then
            _log.warning("%s", error)


def _read(receipt: str, body: str) -> _Message | None:
    """The warning in a message, or None if the message is another event."""
    try:
        event: Any = json.loads(body)
        kind = event["detail-type"]
        lead = _RISK_SECONDS if kind == _REBALANCE else _LEAD_SECONDS.get(kind)
        if lead is None:
            return None
        instance, until = event["detail"]["instance-id"], after(parse_instant(event["time"]), lead)
        if not isinstance(instance, str):
            raise TypeError("an instance id is a string")
    except (ValueError, KeyError, TypeError, RecursionError):
        _log.warning("a message of the interruption queue is no event of EC2: %.200s", body)
        return None
    if kind == _REBALANCE:
        return _Message(receipt, Notice(InstanceId(instance), None, certain=False, why=kind), until)
    return _Message(receipt, Notice(InstanceId(instance), until), until)


# How many more virtual CPUs an account may run: its quota for a family of instance types, minus the virtual CPUs that
# run.


_COUNTED_STATES: Final = ("pending", "running")


class Quotas:
    """Compares quotas with the instances of the account."""

    def __init__(self, calls: Calls, hardware: AwsHardware) -> None:
        self._calls = calls
        self._hardware = hardware

    async def finding(self, pool: Pool, types: Sequence[str], cluster: str) -> PreflightFinding:
        """Whether all nodes of the pool fit into the quota of their family, in addition to all other instances that
        run.
        """
        counting = {quota for name in types for quota in QUOTAS if quota.counts(name, pool.capacity_type)}
        if len(counting) != 1:
            message = f"no quota is known for {', '.join(types)}, {pool.capacity_type.value}: look in Service Quotas"
            return PreflightFinding("quota", True, message)
        [quota] = counting
        answer = await self._calls(pool.id, Call.QUOTA, {"ServiceCode": "ec2", "QuotaCode": quota.code})
        allowed = int(answer["Quota"]["Value"])
        used, own = await self._used(pool, quota, cluster)
        each = max([await self._hardware.vcpus(pool, name) for name in types])
        return vcpus_finding(pool, quota.name, used, allowed, each, own, f"in Service Quotas ({quota.code})")

    async def _used(self, pool: Pool, quota: VcpuQuota, cluster: str) -> tuple[int, int]:
        """Virtual CPUs of all instances that count against the quota, and how many of these are in this pool."""
        filters = [
            {"Name": "instance-type", "Values": list(quota.families)},
            {"Name": "instance-state-name", "Values": list(_COUNTED_STATES)},
        ]
        params = {"Filters": filters, "MaxResults": 1000}
        reservations, _ = await self._calls.pages(pool.id, Call.DESCRIBE_INSTANCES, params, "Reservations")
        lifecycle = "spot" if quota.capacity is CapacityType.SPOT else ""
        rows = [row for reservation in reservations for row in reservation["Instances"]]
        rows = [row for row in rows if row.get("InstanceLifecycle", "") == lifecycle]
        own = 0
        for row in rows:
            tags = {tag["Key"]: tag["Value"] for tag in row.get("Tags", ())}
            own += (tags.get(CLUSTER_TAG), tags.get(POOL_TAG)) == (cluster, pool.id)
        return sum([await self._hardware.vcpus(pool, row["InstanceType"]) for row in rows]), own


# Capacity Blocks have an end. From 30 minutes before the block's end date on, EC2 ends the instances that still run in
# the block.


_BLOCK: Final = "capacity-block"
"""The word for a Capacity Block, both in the reservation's type and in the lifecycle of the instances in it."""
_ENDS_BEFORE_SECONDS: Final = 1800.0
"""Seconds before the end date from which on instances are ended. Source: EC2 User Guide, capacity-blocks-monitor: 30
minutes.
"""
_LEAVING_SECONDS: Final = 600.0
"""Least seconds before EC2 begins to end the instances at which jobs leave them (``policy.nodes.rentals``)."""
_KNOWN_SECONDS: Final = 60.0
"""Seconds for which a known end is used before it is read again. It can change, because a block can be extended."""


@dataclass(frozen=True, slots=True)
class _Reservation:
    """A reservation as it was read. ``read``: when, by our clock. ``asked``: when, by the cloud's clock. ``end``: see
    ``ends``.
    """

    read: float
    asked: Instant
    end: Instant | None


def ends(row: Mapping[str, Any]) -> Instant | None:
    """When EC2 begins to end the instances of a reservation, or None if the reservation is no Capacity Block."""
    if row.get("ReservationType") != _BLOCK or row.get("EndDate") is None:
        return None
    return after(instant(row["EndDate"]), -_ENDS_BEFORE_SECONDS)


class CapacityBlocks:
    """The ends of Capacity Blocks. ``clock``: seconds of a clock that never goes back."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._known: dict[str, _Reservation] = {}

    async def ends_of(self, pool: PoolId, rows: Sequence[ListedInstance]) -> Mapping[InstanceId, Instant]:
        """The ends of the pool's instances in Capacity Blocks. If an end cannot be read, that is logged and the
        instance is left out.
        """
        found = {}
        for row in rows:
            if row.alive and row.lifecycle == _BLOCK and row.reservation:
                known = await self._reservation(pool, row.reservation)
                if known is not None and known.end is not None:
                    found[row.id] = known.end
        return found

    async def refusals(self, pool: Pool, fleet: AwsFleet, ask: Ask) -> Reply | None:
        """The refusal if a node would be usable for less time than it takes to start. None if EC2 may be asked for the
        node.
        """
        reservation = fleet.capacity_reservation
        known = await self._reservation(pool.id, reservation) if reservation else None
        if known is None or known.end is None:
            return None
        now = after(known.asked, self._clock() - known.read)
        if seconds_between(now, known.end) > 2.0 * pool.start_seconds + _LEAVING_SECONDS:
            return None
        message = "the Capacity Block ends before a node would be of use: give the pool another, or set maxNodes to 0"
        what = RefusalKind.STOCK_OUT, Scope.POOL, reservation, "CapacityBlockEnds", message, now
        return Reply(refused={order.token: Refusal(*what, order.token) for order in ask.orders})

    async def _reservation(self, pool: PoolId, id: str) -> _Reservation | None:
        """The reservation as it was last read, or None if it could never be read."""
        known = self._known.get(id)
        if known is not None and self._clock() - known.read <= _KNOWN_SECONDS:
            return known
        try:
            answer = await self._calls(pool, Call.DESCRIBE_RESERVATIONS, {"CapacityReservationIds": [id]})
        except ProviderError as error:
            _log.warning("%s", error)
            return known
        [row] = answer["CapacityReservations"]
        self._known[id] = _Reservation(self._clock(), time_of(answer), ends(row))
        return self._known[id]


# Preflight: checks that find failures and surprising costs before any money is spent.


_CLASSES: Final = {CapacityType.ON_DEMAND: "on-demand", CapacityType.SPOT: "spot"}
_ABANDON: Final = "spec.aws.abandonAfterSeconds"


class Preflight:
    """Checks everything that a pool needs. It changes nothing."""

    def __init__(self, calls: Calls, hardware: AwsHardware, groups: GroupLauncher, prices: Prices) -> None:
        self._calls = calls
        self._hardware = hardware
        self._groups = groups
        self._prices = prices
        self._quotas = Quotas(calls, hardware)

    async def findings(self, pool: Pool, cluster: str) -> Sequence[PreflightFinding]:
        """One finding for each thing that was checked. If there are no credentials, the only finding is about them."""
        who = await checked("credentials", lambda: self._identity(pool))
        if not who.well:
            return [who]
        match pool.cloud:
            case AwsFleet() as fleet:
                return [who, *await self._of_fleet(pool, fleet, {CLUSTER_TAG: cluster, POOL_TAG: pool.id})]
            case AwsGroup() as group:
                return [who, *await self._of_group(pool, group, cluster)]
            case _:
                return [who]

    async def _of_fleet(self, pool: Pool, fleet: AwsFleet, tags: Tags) -> Sequence[PreflightFinding]:
        checks: list[tuple[str, Check]] = [
            ("launch template", lambda: self._template(pool, fleet)),
            ("subnets", lambda: self._subnets(pool, fleet.subnets)),
            ("GPUs", lambda: self._gpus(pool, fleet.instance_types, fleet.gpu_type)),
            ("zones", lambda: self._offered(pool, fleet)),
            ("right to make fleets", lambda: self._may_fleet(pool, fleet, tags)),
            ("right to launch", lambda: self._may_run(pool, fleet, tags)),
            ("price", lambda: self._price(pool, fleet.instance_types, fleet.subnets)),
        ]
        if fleet.capacity_reservation:
            checks.append(("capacity reservation", lambda: self._reservation(pool, fleet)))
        else:
            checks.append(("quota", lambda: self._quotas.finding(pool, fleet.instance_types, tags[CLUSTER_TAG])))
        if (seconds := fleet.abandon_seconds) is not None:
            template, version = fleet.launch_template, fleet.version
            checks.append((_ABANDON, lambda: self._abandons(pool, template, version, seconds)))
        return [await checked(subject, check) for subject, check in checks]

    async def _of_group(self, pool: Pool, group: AwsGroup, cluster: str) -> Sequence[PreflightFinding]:
        try:
            settings = await self._groups.settings(pool, group)
        except ProviderError as error:
            return [PreflightFinding("group", False, error.said)]
        wrong = problems_of(pool, settings, cluster)
        checks: list[tuple[str, Check]] = [
            ("group's policies", lambda: self._policies(pool, group)),
            ("subnets", lambda: self._subnets(pool, settings.subnets)),
            ("GPUs", lambda: self._gpus(pool, settings.types, group.gpu_type)),
            ("price", lambda: self._price(pool, settings.types, settings.subnets)),
            ("quota", lambda: self._quotas.finding(pool, settings.types, cluster)),
        ]
        if (seconds := group.abandon_seconds) is not None:
            checks.append((_ABANDON, lambda: self._abandons(pool, *template_of(pool, settings.row), seconds)))
        whole = [PreflightFinding("group", False, each) for each in wrong]
        whole = whole or [PreflightFinding("group", True, f"{settings.arn} is fit")]
        whole.append(size_finding(pool, settings.size))
        return [*whole, *[await checked(subject, check) for subject, check in checks]]

    async def _identity(self, pool: Pool) -> PreflightFinding:
        answer = await self._calls(pool.id, Call.IDENTITY, {})
        return PreflightFinding("credentials", True, f"account {answer['Account']} as {answer['Arn']}")

    async def _template(self, pool: Pool, fleet: AwsFleet) -> PreflightFinding:
        found = await read_template(self._calls, pool, fleet.launch_template, fleet.version)
        name = f"{fleet.launch_template} version {found['VersionNumber']}"
        wrong = list(problems_with_tags(found["LaunchTemplateData"]))
        if "InstanceMarketOptions" in found["LaunchTemplateData"]:
            wrong.append("it sets InstanceMarketOptions, which a fleet refuses: make a version without them")
        return PreflightFinding("launch template", not wrong, f"{name}: {'; '.join(wrong)}" if wrong else name)

    async def _abandons(self, pool: Pool, name: str, version: str, seconds: int) -> PreflightFinding:
        """Whether an instance can read that it was renewed, and does not exist any more after it has shut itself
        down.
        """
        data = (await read_template(self._calls, pool, name, version))["LaunchTemplateData"]
        wrong = [f"launch template {name} {problem}" for problem in problems_with_ending_itself(data)]
        well = f"instances that nobody renews for {seconds} s can end themselves, where they run the script"
        return PreflightFinding(_ABANDON, not wrong, "; ".join(wrong) or well)

    async def _subnets(self, pool: Pool, subnets: Sequence[str]) -> PreflightFinding:
        rows, _ = await self._calls.pages(pool.id, Call.DESCRIBE_SUBNETS, {"SubnetIds": list(subnets)}, "Subnets")
        free = sum(row["AvailableIpAddressCount"] for row in rows)
        each = ", ".join(f"{row['SubnetId']} in {row['AvailabilityZone']}" for row in rows)
        well = free >= pool.max_nodes
        advice = "" if well else f", fewer than spec.maxNodes {pool.max_nodes}: add a subnet or lower maxNodes"
        return PreflightFinding("subnets", well, f"{each}: {free} free addresses{advice}")

    async def _gpus(self, pool: Pool, types: Sequence[str], said: str) -> PreflightFinding:
        offering = await self._hardware.offering(pool, types, (), "", said)
        sold = _CLASSES[pool.capacity_type]
        for name in types:
            if sold not in await self._hardware.sold_as(pool, name):
                message = f"{name} is not sold {sold}: change spec.capacityType or the instance types"
                return PreflightFinding("GPUs", False, message)
        wrong = await self._hardware.told_otherwise(pool, types)
        return PreflightFinding("GPUs", not wrong, wrong or f"{offering.gpus_per_node} × {offering.gpu_type} a node")

    async def _offered(self, pool: Pool, fleet: AwsFleet) -> PreflightFinding:
        zones = sorted(set(await self._hardware.zones(pool, fleet.subnets)))
        filters = [
            {"Name": "instance-type", "Values": list(fleet.instance_types)},
            {"Name": "location", "Values": zones},
        ]
        params = {"LocationType": "availability-zone", "Filters": filters}
        rows, _ = await self._calls.pages(pool.id, Call.DESCRIBE_OFFERINGS, params, "InstanceTypeOfferings")
        sold = {row["Location"] for row in rows}
        where = f"{', '.join(fleet.instance_types)} in {', '.join(sorted(sold)) or 'no zone'}"
        if missing := [zone for zone in zones if zone not in sold]:
            message = f"{where}; not offered in {', '.join(missing)}: spec.aws.subnets there give no node"
            return PreflightFinding("zones", bool(sold), message)
        return PreflightFinding("zones", True, where)

    async def _may_fleet(self, pool: Pool, fleet: AwsFleet, tags: Tags) -> PreflightFinding:
        params = fleet_request(pool, fleet, 1, tags)
        await self._calls.dry_run(pool.id, Call.CREATE_FLEET, params)
        return PreflightFinding("right to make fleets", True, "EC2 would accept CreateFleet")

    async def _may_run(self, pool: Pool, fleet: AwsFleet, own: Tags) -> PreflightFinding:
        """Whether the caller has the rights to launch, to tag and to pass the node's role. A fleet launches with the
        caller's rights.
        """
        tags = [{"Key": key, "Value": value} for key, value in own.items()]
        params = {
            "LaunchTemplate": {"LaunchTemplateName": fleet.launch_template, "Version": fleet.version},
            "InstanceType": fleet.instance_types[0],
            "SubnetId": fleet.subnets[0],
            "MinCount": 1,
            "MaxCount": 1,
            "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")],
        }
        await self._calls.dry_run(pool.id, Call.RUN_INSTANCES, params)
        return PreflightFinding(
            "right to launch", True, f"EC2 would launch {fleet.instance_types[0]} in {fleet.subnets[0]}"
        )

    async def _price(self, pool: Pool, types: Sequence[str], subnets: Sequence[str]) -> PreflightFinding:
        quote = await self._prices.quote(pool, types, await self._hardware.zones(pool, subnets))
        return PreflightFinding("price", True, f"{quote.price}, at most {quote.worst}: {quote.source}")

    async def _reservation(self, pool: Pool, fleet: AwsFleet) -> PreflightFinding:
        params = {"CapacityReservationIds": [fleet.capacity_reservation]}
        answer = await self._calls(pool.id, Call.DESCRIBE_RESERVATIONS, params)
        [row] = answer["CapacityReservations"]
        what = f"{row['AvailableInstanceCount']} of {row['TotalInstanceCount']} {row['InstanceType']} are free"
        fits = row["InstanceType"] in fleet.instance_types
        advice = "" if fits else ": spec.aws.instanceTypes do not name that type"
        if (end := ends(row)) is not None:
            what += f"; EC2 ends its instances from {moment(end):%Y-%m-%d %H:%M} UTC on"
        return PreflightFinding("capacity reservation", fits, f"{fleet.capacity_reservation}: {what}{advice}")

    async def _policies(self, pool: Pool, group: AwsGroup) -> PreflightFinding:
        """The finding on whether anything other than Charterer may change the group's size."""
        params = {"AutoScalingGroupName": group.auto_scaling_group}
        policies, _ = await self._calls.pages(pool.id, Call.DESCRIBE_POLICIES, params, "ScalingPolicies")
        schedules, _ = await self._calls.pages(pool.id, Call.DESCRIBE_SCHEDULES, params, "ScheduledUpdateGroupActions")
        names = [row["PolicyName"] for row in policies] + [row["ScheduledActionName"] for row in schedules]
        if names:
            message = f"{', '.join(names)} would add or end nodes: delete these policies and scheduled actions"
            return PreflightFinding("group's policies", False, message)
        return PreflightFinding("group's policies", True, "no policy or schedule changes the group's size")


FLEET_TRAITS: Final = Traits(
    named=True, keeps_trying=False, together=True, lag_seconds=LAG_SECONDS, listed_seconds=LISTED_SECONDS
)
ONE_BY_ONE: Final = Traits(
    named=True, keeps_trying=False, together=False, lag_seconds=LAG_SECONDS, listed_seconds=LISTED_SECONDS
)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a pool's nodes are launched.

    ``types``, ``zones``: instance types and zones.
    ``group``: the group's ARN, or empty for a fleet.
    ``size``: the most nodes that the group may have, or None for a fleet.
    ``nodes``: what the group declares about its nodes.
    """

    types: Sequence[str]
    zones: Sequence[str]
    group: str = ""
    size: int | None = None
    nodes: NodeTemplate = NO_TEMPLATE


class AwsCloud:
    """The Provider of one region and role.

    ``cluster``: reads the uid of the namespace kube-system, which is in the tags.
    ``send``: sends a call. By default it is the SDK.
    ``clock``: seconds of a clock that never goes back.
    ``sleep``: waits between attempts.
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
        """The surveys, from one list of instances for all pools and from further reads for each pool. Raises if the
        list fails.
        """
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
        """The known instances that no tag finds any more, if EC2 still has them. They are billed like any other
        instance.
        """
        listed = {row.id for row in rows if row.pool}
        lost = {machine: pool.id for pool in pools for machine in known.get(pool.id, ()) if machine not in listed}
        if not lost:
            return ()
        return [replace(row, pool=lost[row.id]) for row in await instances_named(self._calls, pools[0].id, list(lost))]

    async def quote(self, pool: Pool) -> Quote:
        """The price of the dearest type and zone. It is the price list's price, or for spot the present spot price."""
        with understood(pool.id, "quote", UnknownCode):
            place = await self._place(pool)
            return await self._prices.quote(pool, place.types, place.zones)

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Launch the instances that are missing. If it is called again with the same orders, it sends the same
        calls.
        """
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
        """Do nothing. An instance that was not launched at once is never launched."""

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """End the instance if it belongs to this cluster and this pool."""
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
        """Renew the instances of these pools that would otherwise end themselves, if a renewal is due."""
        first = pools[0].id
        with understood(first, "renew", CloudOutcomeUnknown):
            if self._renewals.outdated:
                try:
                    self._renewals.listed(*await instances_of(self._calls, first, await self._cluster(first)))
                except ProviderError as error:  # the instances of the older list are renewed all the same
                    _log.warning("%s", error)
            await self._renewals.renew(pools)

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        """Find failures and surprising costs before any money is spent."""
        with understood(pool.id, "preflight", UnknownCode):
            return await self._preflight.findings(pool, await self._cluster(pool.id))

    async def close(self) -> None:
        """End the threads."""
        self._calls.close()

    async def _hear(self, pools: Sequence[Pool], asked: Instant) -> Mapping[str, ProviderError]:
        """Read each queue that these pools name, once. Returns the errors of queues that cannot be read."""
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
    """The URL of the pool's queue, or an empty text if it names none."""
    return pool.cloud.queue if isinstance(pool.cloud, AwsFleet | AwsGroup) else ""


def _not_mine(pool: Pool) -> InvalidRequest:
    return InvalidRequest(pool.id, "spec", "NotAws", "this is no pool of AWS")
