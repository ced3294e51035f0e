"""The calls of EC2 that end, tag and describe."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tests.clouds.aws.account import Account, Machine, Subnet
from tests.clouds.aws.catalogue import TYPES
from tests.clouds.aws.paging import filtered, page
from tests.clouds.aws.protocol import Fault, Params

_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}


def _tags(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _instance(account: Account, m: Machine) -> Params:
    at = account.listed_at
    state = m.state_at(at)
    number = int(m.id[2:], 16)
    row: dict[str, Any] = {
        "InstanceId": m.id,
        "ImageId": "ami-0123456789abcdef0",
        "InstanceType": m.type,
        "LaunchTime": m.launched.replace(microsecond=0),
        "State": {"Code": _CODES[state], "Name": state},
        "Placement": {"AvailabilityZone": m.subnet.zone},
        "PrivateDnsName": "" if state == "terminated" else f"ip-10-0-{number // 256}-{number % 256}.ec2.internal",
        "Tags": _tags(m.tags_at(at)),
        "ClientToken": m.token,
    }
    if m.lifecycle == "spot":
        row["InstanceLifecycle"] = "spot"
    if m.reservation:
        row["CapacityReservationId"] = m.reservation
    if m.reservation in account.blocks:
        row["InstanceLifecycle"] = "capacity-block"
    if state in ("shutting-down", "terminated") and m.ending is not None:
        code, by = m.reason
        row["StateReason"] = {"Code": code, "Message": f"{code}: {by}"}
        row["StateTransitionReason"] = f"{by} ({m.ending:%Y-%m-%d %H:%M:%S} GMT)" if by else ""
    return row


def _values(account: Account, m: Machine, name: str) -> list[str]:
    tags = m.tags_at(account.listed_at)
    if name.startswith("tag:"):
        return [tags[name[4:]]] if name[4:] in tags else []
    return {
        "tag-key": list(tags),
        "instance-state-name": [m.state_at(account.listed_at)],
        "client-token": [m.token],
        "instance-id": [m.id],
        "instance-type": [m.type],
    }[name]


def describe_instances(account: Account, params: Params, region: str) -> Params:
    """One reservation for each instance."""
    if "InstanceIds" in params and "MaxResults" in params:
        raise Fault("InvalidParameterCombination", "InstanceIds and MaxResults exclude each other")
    rows = account.listed()
    if ids := params.get("InstanceIds"):
        known = {m.id for m in rows}
        _all_known(ids, known)
        rows = [m for m in rows if m.id in ids]
    rows = filtered(params, rows, lambda m, name: _values(account, m, name))
    rows, more = page(params, rows, account.page)
    return {
        "Reservations": [{"ReservationId": f"r-{m.id[2:]}", "Instances": [_instance(account, m)]} for m in rows],
        **more,
    }


def _all_known(ids: list[str], known: set[str]) -> None:
    if unknown := [id for id in ids if id not in known]:
        raise Fault("InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(unknown)}' do not exist")


def terminate_instances(account: Account, params: Params, region: str) -> Params:
    """All or, if one is unknown, none. What has ended stays ended."""
    ids = params["InstanceIds"]
    _all_known(ids, {m.id for m in account.listed()})
    rows = []
    for id in ids:
        before = account.machines[id].state_at(account.clock.now)
        account.end(id)
        now = account.machines[id].state_at(account.clock.now)
        state = {"CurrentState": {"Code": _CODES[now], "Name": now}}
        rows.append({"InstanceId": id, **state, "PreviousState": {"Code": _CODES[before], "Name": before}})
    return {"TerminatingInstances": rows}


def run_instances(account: Account, params: Params, region: str) -> Params:
    """Only dry runs are expected, and those end before this."""
    raise Fault("UnsupportedOperation", "this account launches by fleets and groups only")


def create_tags(account: Account, params: Params, region: str) -> Params:
    """Add or replace tags of instances."""
    _all_known(params["Resources"], {m.id for m in account.listed()})
    for id in params["Resources"]:
        new = {tag["Key"]: tag["Value"] for tag in params["Tags"]}
        if len({**account.machines[id].tags_at(account.clock.now), **new}) > 50:
            raise Fault("TagLimitExceeded", "The maximum number of tags for a resource is 50")
        account.machines[id].tags.append((account.clock.now, new))
    return {}


def describe_subnets(account: Account, params: Params, region: str) -> Params:
    """Zone and free addresses."""
    ids = params.get("SubnetIds", list(account.subnets))
    for id in ids:
        if id not in account.subnets:
            raise Fault("InvalidSubnetID.NotFound", f"The subnet ID '{id}' does not exist")

    def row(subnet: Subnet) -> Params:
        used = sum(m.subnet.id == subnet.id for m in account.alive())
        facts = {"SubnetId": subnet.id, "AvailabilityZone": subnet.zone, "State": "available"}
        return {**facts, "AvailableIpAddressCount": subnet.free - used}

    rows, more = page(params, [account.subnets[id] for id in ids], account.page)
    return {"Subnets": [row(subnet) for subnet in rows], **more}


def describe_instance_types(account: Account, params: Params, region: str) -> Params:
    """GPUs, virtual CPUs, memory and the classes in which a type is sold."""
    rows: list[Params] = []
    for name in params.get("InstanceTypes", []):
        if name not in TYPES:
            raise Fault("InvalidInstanceType", f"The following supplied instance types do not exist: [{name}]")
        facts = TYPES[name]
        row: Params = {"InstanceType": name, "SupportedUsageClasses": list(facts.sold)}
        row |= {"VCpuInfo": {"DefaultVCpus": facts.vcpus}, "MemoryInfo": {"SizeInMiB": facts.memory}}
        if facts.gpu is not None:
            gpu: Params = {"Name": facts.gpu.name, "Manufacturer": facts.gpu.manufacturer, "Count": facts.gpus}
            if not facts.gpus:
                gpu |= {"LogicalGpuCount": 1, "GpuPartitionSize": 0.125}
            row["GpuInfo"] = {"Gpus": [{**gpu, "MemoryInfo": {"SizeInMiB": facts.gpu.memory}}]}
        rows.append(row)
    rows, more = page(params, rows, account.page)
    return {"InstanceTypes": rows, **more}


def describe_instance_type_offerings(account: Account, params: Params, region: str) -> Params:
    """The zones in which each type is offered."""
    zones = sorted({subnet.zone for subnet in account.subnets.values()})
    rows = [(name, zone) for name in TYPES for zone in zones if (name, zone) not in account.not_offered]
    rows = filtered(params, rows, lambda row, name: {"instance-type": [row[0]], "location": [row[1]]}[name])
    rows, more = page(params, rows, account.page)
    found = [{"InstanceType": name, "LocationType": "availability-zone", "Location": zone} for name, zone in rows]
    return {"InstanceTypeOfferings": found, **more}


def describe_launch_template_versions(account: Account, params: Params, region: str) -> Params:
    """Versions by number, ``$Latest`` or ``$Default``."""
    name = params["LaunchTemplateName"]
    rows = []
    for asked in params.get("Versions", ["$Default"]):
        number, data = template_version(account, name, asked)
        rows.append({"LaunchTemplateName": name, "VersionNumber": int(number), "LaunchTemplateData": data})
    return {"LaunchTemplateVersions": rows}


def template_version(account: Account, name: str, asked: str) -> tuple[str, Params]:
    """The number and data of a version; Fault when there is none."""
    if name not in account.templates:
        code = "InvalidLaunchTemplateName.NotFoundException"
        raise Fault(code, "At least one of the launch templates specified in the request does not exist.")
    versions = account.templates[name]
    number = {"$Latest": str(len(versions)), "$Default": "1"}.get(asked, asked)
    if number not in versions:
        raise Fault("InvalidLaunchTemplateId.VersionNotFound", f"Could not find launch template version {asked}")
    return number, versions[number]


def describe_capacity_reservations(account: Account, params: Params, region: str) -> Params:
    """Type, zone and free machines."""
    rows = []
    for id in params["CapacityReservationIds"]:
        if id not in account.reservations:
            raise Fault("InvalidCapacityReservationId.NotFound", f"The capacity reservation '{id}' does not exist")
        type_name, zone, total = account.reservations[id]
        used = sum(m.reservation == id for m in account.alive())
        facts = {"CapacityReservationId": id, "InstanceType": type_name, "AvailabilityZone": zone, "State": "active"}
        facts["ReservationType"] = "capacity-block" if id in account.blocks else "default"
        end: Params = {"EndDate": account.blocks[id]} if id in account.blocks else {}
        rows.append({**facts, **end, "TotalInstanceCount": total, "AvailableInstanceCount": total - used})
    return {"CapacityReservations": rows}


def describe_spot_price_history(account: Account, params: Params, region: str) -> Params:
    """Changes since the start time, the newest first, and the price that held at the start."""
    since = params["StartTime"]
    rows: list[tuple[Any, str, str, Decimal]] = []
    for (type_name, zone), history in account.spot_history.items():
        if type_name not in params["InstanceTypes"] or params.get("AvailabilityZone", zone) != zone:
            continue
        before = [(at, price) for at, price in history if at.isoformat() <= since]
        rows += [(at, type_name, zone, price) for at, price in [*before[-1:], *history[len(before) :]]]
    rows.sort(key=lambda row: row[0], reverse=True)
    rows, more = page(params, rows, account.page)
    fixed = {"ProductDescription": "Linux/UNIX"}
    return {
        "SpotPriceHistory": [
            {"Timestamp": at, "InstanceType": name, "AvailabilityZone": zone, "SpotPrice": f"{price:f}", **fixed}
            for at, name, zone, price in rows
        ],
        **more,
    }
