"""CreateFleet of type instant: the machines that are there now, each refusal by type and subnet, once a token."""

from __future__ import annotations

from tests.clouds.aws.account import Account
from tests.clouds.aws.catalogue import TYPES
from tests.clouds.aws.ec2 import template_version
from tests.clouds.aws.protocol import Fault, Params

_Offer = tuple[str, str]
"""An instance type and a subnet."""


def create_fleet(account: Account, params: Params, region: str) -> Params:
    """Launch what is wanted; the same token is the same call, also when it launched nothing."""
    if params["Type"] != "instant":
        raise Fault("InvalidParameterValue", "this account has instant fleets only")
    if (before := account.once("ec2:CreateFleet", params, None)) is not None:
        return before
    target = params["TargetCapacitySpecification"]
    lifecycle = target["DefaultTargetCapacityType"]
    if (lifecycle == "reserved-capacity") != ("ReservedCapacityOptions" in params):
        raise Fault("InvalidParameterCombination", "reserved-capacity and ReservedCapacityOptions need each other")
    options = params.get("SpotOptions" if lifecycle == "spot" else "OnDemandOptions", {})
    least, one_zone = options.get("MinTargetCapacity"), options.get("SingleAvailabilityZone", False)
    if least is not None and not (one_zone or options.get("SingleInstanceType")):
        raise Fault(
            "InvalidParameterCombination", "MinTargetCapacity needs SingleInstanceType or SingleAvailabilityZone"
        )
    offers = _offers(account, params)
    if lifecycle == "on-demand" and options.get("AllocationStrategy", "lowest-price") == "lowest-price":
        offers.sort(key=lambda offer: account.prices[offer[0]])
    lifecycle = "spot" if lifecycle == "spot" else "on-demand"
    wanted, reservation = target["TotalTargetCapacity"], _reservation(account, params)
    zones = (
        list(dict.fromkeys(account.subnets[s].zone for _, s in offers if s in account.subnets)) if one_zone else [""]
    )
    errors: dict[_Offer, tuple[str, str]] = {}
    best: list[_Offer] = []
    for zone in zones or [""]:
        inside = [o for o in offers if not zone or (o[1] in account.subnets and account.subnets[o[1]].zone == zone)]
        chosen = _chosen(account, inside, wanted, lifecycle, reservation, errors)
        best = max(best, chosen, key=len)
        if len(best) == wanted:
            break
    if least is not None and len(best) < least:
        best = []
    tags = {
        t["Key"]: t["Value"]
        for s in params.get("TagSpecifications", [])
        if s["ResourceType"] == "instance"
        for t in s["Tags"]
    }
    number = len(account.tokens) + 1
    tags["aws:ec2:fleet-id"] = f"fleet-{number}"
    answer = _answer(account, best, errors, lifecycle, tags, reservation) | {"FleetId": f"fleet-{number}"}
    return account.once("ec2:CreateFleet", params, answer) or answer


def _offers(account: Account, params: Params) -> list[_Offer]:
    found = []
    for config in params["LaunchTemplateConfigs"]:
        template = config["LaunchTemplateSpecification"]
        _, data = template_version(account, template["LaunchTemplateName"], template["Version"])
        for override in config.get("Overrides", [{}]):
            type_name = override.get("InstanceType", data.get("InstanceType", "m7i.large"))
            if type_name not in TYPES:
                raise Fault("InvalidParameterValue", f"Invalid value '{type_name}' for InstanceType.")
            found.append((type_name, override["SubnetId"]))
    return found


def _reservation(account: Account, params: Params) -> str | None:
    ids = params.get("ReservedCapacityOptions", {}).get("CapacityReservationTarget", {}).get("CapacityReservationIds")
    if not ids:
        return None
    if ids[0] not in account.reservations:
        raise Fault("InvalidCapacityReservationId.NotFound", f"The capacity reservation '{ids[0]}' does not exist")
    return str(ids[0])


def _chosen(
    account: Account,
    offers: list[_Offer],
    wanted: int,
    lifecycle: str,
    reservation: str | None,
    errors: dict[_Offer, tuple[str, str]],
) -> list[_Offer]:
    """The offers of the machines to launch, found by launching and taking back; ``errors`` gets the refusals."""
    chosen: list[_Offer] = []
    made = []
    for type_name, subnet in offers:
        while len(chosen) < wanted:
            refusal = account.refused(type_name, subnet, lifecycle) or _full(account, reservation, type_name, subnet)
            if refusal is not None:
                errors[type_name, subnet] = refusal
                break
            made.append(account.launch(type_name, subnet, lifecycle, "", {}, reservation=reservation))
            chosen.append((type_name, subnet))
    for machine in made:
        account.end(machine.id)
        del account.machines[machine.id]
    return chosen


def _full(account: Account, reservation: str | None, type_name: str, subnet: str) -> tuple[str, str] | None:
    if reservation is None:
        return None
    sold, zone, total = account.reservations[reservation]
    if (sold, zone) != (type_name, account.subnets[subnet].zone):
        return "InvalidParameterValue", f"The capacity reservation {reservation} is for {sold} in {zone}"
    if sum(m.reservation == reservation for m in account.alive()) >= total:
        return (
            "ReservationCapacityExceeded",
            f"The requested reservation {reservation} does not have sufficient capacity",
        )
    return None


def _answer(
    account: Account,
    chosen: list[_Offer],
    errors: dict[_Offer, tuple[str, str]],
    lifecycle: str,
    tags: dict[str, str],
    reservation: str | None,
) -> Params:
    launched = []
    for offer in dict.fromkeys(chosen):
        type_name, subnet = offer
        ids = [
            account.launch(type_name, subnet, lifecycle, "", tags, reservation=reservation).id
            for _ in range(chosen.count(offer))
        ]
        launched.append({"InstanceIds": ids, "InstanceType": type_name, "Lifecycle": lifecycle})
    refused = []
    for (type_name, subnet), (code, message) in errors.items():
        zone = {"AvailabilityZone": account.subnets[subnet].zone} if subnet in account.subnets else {}
        overrides = {"Overrides": {"InstanceType": type_name, "SubnetId": subnet, **zone}}
        error = {"LaunchTemplateAndOverrides": overrides, "Lifecycle": lifecycle}
        refused.append({**error, "ErrorCode": code, "ErrorMessage": message})
    return {"Instances": launched, "Errors": refused}
