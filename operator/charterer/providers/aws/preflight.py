"""Preflight: what would fail, or cost money by surprise, is found before the first dollar is spent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.time import moment
from charterer.providers.aws.blocks import ends
from charterer.providers.aws.calls import Calls
from charterer.providers.aws.fleet import Tags, fleet_request
from charterer.providers.aws.group import GroupLauncher, problems_of, template_of
from charterer.providers.aws.hardware import AwsHardware
from charterer.providers.aws.launch_template import problems_with_ending_itself, problems_with_tags, read_template
from charterer.providers.aws.permissions import CLUSTER_TAG, POOL_TAG, Call
from charterer.providers.aws.prices import Prices
from charterer.providers.aws.quotas import Quotas
from charterer.providers.errors import ProviderError
from charterer.providers.provider import Check, PreflightFinding, checked, size_finding

_CLASSES: Final = {CapacityType.ON_DEMAND: "on-demand", CapacityType.SPOT: "spot"}
_ABANDON: Final = "spec.aws.abandonAfterSeconds"


class Preflight:
    """Looks at everything that a pool needs, and changes nothing."""

    def __init__(self, calls: Calls, hardware: AwsHardware, groups: GroupLauncher, prices: Prices) -> None:
        self._calls = calls
        self._hardware = hardware
        self._groups = groups
        self._prices = prices
        self._quotas = Quotas(calls, hardware)

    async def findings(self, pool: Pool, cluster: str) -> Sequence[PreflightFinding]:
        """One finding for each thing that was looked at. Without credentials there is only that one."""
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
        """Whether an instance can read that it was renewed, and is gone when it shuts itself down."""
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
        """A fleet launches with the caller's rights, so the rights to launch, tag and pass the node's role count."""
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
        """Nobody else may change the group's size."""
        params = {"AutoScalingGroupName": group.auto_scaling_group}
        policies, _ = await self._calls.pages(pool.id, Call.DESCRIBE_POLICIES, params, "ScalingPolicies")
        schedules, _ = await self._calls.pages(pool.id, Call.DESCRIBE_SCHEDULES, params, "ScheduledUpdateGroupActions")
        names = [row["PolicyName"] for row in policies] + [row["ScheduledActionName"] for row in schedules]
        if names:
            message = f"{', '.join(names)} would add or end nodes: delete these policies and scheduled actions"
            return PreflightFinding("group's policies", False, message)
        return PreflightFinding("group's policies", True, "no policy or schedule changes the group's size")
