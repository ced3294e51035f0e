"""Auto Scaling: LaunchInstances into a group, the end of one of its machines, and its settings."""

from __future__ import annotations

from tests.clouds.aws.account import Account, Group, Machine
from tests.clouds.aws.paging import page
from tests.clouds.aws.protocol import Fault, Params
from tests.clouds.clock import BEGIN

_REQUIREMENTS = {"InstanceRequirements": {"VCpuCount": {"Min": 96}, "MemoryMiB": {"Min": 1}}}
"""An override that names no instance type."""


def _group(account: Account, name: str) -> Group:
    if name not in account.groups:
        raise Fault("ValidationError", f"AutoScalingGroup name not found - {name}")
    return account.groups[name]


def _members(account: Account, group: Group) -> list[Machine]:
    return [m for m in account.alive() if m.group == group.name]


def launch_instances(account: Account, params: Params, region: str) -> Params:
    """Launch in one zone; the same token is the same call, also when it launched nothing."""
    group = _group(account, params["AutoScalingGroupName"])
    if (before := account.once("autoscaling:LaunchInstances", params, None)) is not None:
        return before
    zones = {account.subnets[s].zone for s in group.subnets}
    asked = params.get("AvailabilityZones", [])
    if not asked and len(zones) > 1:
        raise Fault("ValidationError", "The group has several Availability Zones: name one")
    zone = asked[0] if asked else next(iter(zones))
    if len(_members(account, group)) + params["RequestedCapacity"] > group.most:
        raise Fault("ValidationError", f"The capacity would be above the MaxSize of {group.most}")
    subnet = next(s for s in group.subnets if account.subnets[s].zone == zone)
    ids: dict[str, list[str]] = {}
    errors = []
    for _ in range(params["RequestedCapacity"]):
        for type_name in group.types:
            refusal = account.refused(type_name, subnet, group.lifecycle)
            where = {
                "InstanceType": type_name,
                "MarketType": group.lifecycle,
                "SubnetId": subnet,
                "AvailabilityZone": zone,
            }
            if refusal is None:
                tags = {**group.tags, "aws:autoscaling:groupName": group.name}
                machine = account.launch(type_name, subnet, group.lifecycle, "", tags, group=group.name)
                ids.setdefault(type_name, []).append(machine.id)
                group.desired += 1
                break
            errors.append({**where, "ErrorCode": refusal[0], "ErrorMessage": refusal[1]})
    place = {"MarketType": group.lifecycle, "SubnetId": subnet, "AvailabilityZone": zone}
    launched = [{"InstanceType": name, "InstanceIds": each, **place} for name, each in ids.items()]
    same = {key: params[key] for key in ("AutoScalingGroupName", "ClientToken")}
    answer = {**same, "Instances": launched, "Errors": errors}
    return account.once("autoscaling:LaunchInstances", params, answer) or answer


def terminate_instance_in_auto_scaling_group(account: Account, params: Params, region: str) -> Params:
    """End one machine; ValidationError when no group has it (any more)."""
    machine = account.machines.get(params["InstanceId"])
    if machine is None or machine.group is None or machine.ending is not None:
        raise Fault(
            "ValidationError",
            f"Instance Id not found - No managed instance found for instance ID: {params['InstanceId']}",
        )
    group = account.groups[machine.group]
    if params["ShouldDecrementDesiredCapacity"]:
        if group.desired - 1 < group.least:
            raise Fault("ValidationError", f"Currently, desiredSize equals minSize ({group.least}).")
        group.desired -= 1
    account.end(machine.id)
    facts = {"ActivityId": "a", "AutoScalingGroupName": group.name, "Cause": "user request", "StatusCode": "InProgress"}
    return {"Activity": {**facts, "StartTime": account.clock.now}}


def describe_auto_scaling_groups(account: Account, params: Params, region: str) -> Params:
    """The groups with those names; unknown ones are left out."""
    names = params.get("AutoScalingGroupNames", list(account.groups))
    rows, more = page(params, [account.groups[n] for n in names if n in account.groups], account.page, "MaxRecords")
    return {"AutoScalingGroups": [_row(account, group) for group in rows], **more}


def _row(account: Account, group: Group) -> Params:
    template = {"LaunchTemplateName": group.template, "Version": "$Default"}
    share = group.on_demand_percent
    if share is None:
        share = 0 if group.lifecycle == "spot" else 100
    subnets = [account.subnets[s] for s in group.subnets]
    of_group = {"ResourceId": group.name, "ResourceType": "auto-scaling-group"}
    tags = [(key, value, True) for key, value in group.tags.items()]
    tags += [(key, value, False) for key, value in group.notes.items()]
    return {
        "AutoScalingGroupName": group.name,
        "AutoScalingGroupARN": f"arn:aws:autoscaling:{account.region}:{account.number}:autoScalingGroup:x:{group.name}",
        "MinSize": group.least,
        "MaxSize": group.most,
        "DesiredCapacity": group.desired,
        "DefaultCooldown": 300,
        "HealthCheckType": "EC2",
        "CreatedTime": BEGIN,
        "AvailabilityZones": sorted({subnet.zone for subnet in subnets}),
        "VPCZoneIdentifier": ",".join(group.subnets),
        "MixedInstancesPolicy": {
            "LaunchTemplate": {
                "LaunchTemplateSpecification": template,
                "Overrides": [{"InstanceType": name} if name else _REQUIREMENTS for name in group.types],
            },
            "InstancesDistribution": {"OnDemandBaseCapacity": 0, "OnDemandPercentageAboveBaseCapacity": share},
        },
        "SuspendedProcesses": [{"ProcessName": name, "SuspensionReason": "user"} for name in group.suspended],
        "Tags": [{"Key": key, "Value": value, "PropagateAtLaunch": to, **of_group} for key, value, to in tags],
        **({"MaxInstanceLifetime": group.max_lifetime} if group.max_lifetime else {}),
        **({"WarmPoolConfiguration": {"MinSize": 1}} if group.warm else {}),
        "Instances": [
            {
                "InstanceId": m.id,
                "InstanceType": m.type,
                "AvailabilityZone": m.subnet.zone,
                "LifecycleState": "InService" if m.state_at(account.clock.now) == "running" else "Pending",
                "HealthStatus": "Healthy",
                "ProtectedFromScaleIn": False,
            }
            for m in _members(account, group)
        ],
    }


def describe_policies(account: Account, params: Params, region: str) -> Params:
    """The scaling policies of a group."""
    name = params["AutoScalingGroupName"]
    rows = [{"AutoScalingGroupName": name, "PolicyName": p} for p in _group(account, name).policies]
    return {"ScalingPolicies": rows}


def describe_scheduled_actions(account: Account, params: Params, region: str) -> Params:
    """The scheduled actions of a group."""
    name = params["AutoScalingGroupName"]
    rows = [{"AutoScalingGroupName": name, "ScheduledActionName": a} for a in _group(account, name).scheduled]
    return {"ScheduledUpdateGroupActions": rows}
