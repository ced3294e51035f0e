"""Answers as JSON. All fields of the protocol are written here, and only what a call at that instant may show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from charterer.fakecloud.bill import decimal
from charterer.fakecloud.cloud import Failure
from charterer.fakecloud.records import Activity, InstanceGroup, Machine, MachinePhase

Json = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp(at: int) -> str:
    """RFC 3339 in UTC with microseconds."""
    return (_EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _optional(at: int | None, seen: int) -> str | None:
    return None if at is None or at > seen else timestamp(at)


def group_json(group: InstanceGroup, account: str, seen: int) -> Json:
    """A group of an account with its target as of ``seen``."""
    spec = group.spec
    return {
        "id": f"{account}/{spec.name}",
        "name": spec.name,
        "orders": spec.orders,
        "target": group.target_at(seen) if spec.orders == "counted" else None,
        "ordered": list(group.ordered),
        "minSize": spec.min_size,
        "maxSize": spec.max_size,
        "instanceType": spec.instance_type,
        "gpuType": spec.gpu_type,
        "gpusPerInstance": spec.gpus_per_instance,
        "zone": spec.zone,
        "capacityType": spec.capacity_type,
        "listLagSeconds": spec.list_lag_seconds,
        "listedSeconds": spec.listed_seconds,
        "labels": spec.labels,
        "taints": [taint.model_dump() for taint in spec.taints],
        "resources": spec.room,
    }


def instance_json(machine: Machine, seen: int) -> Json:
    """A machine as of ``seen``, without what happened or was announced later."""
    state = machine.state(seen)
    noticed = machine.interrupt_noticed is not None and machine.interrupt_noticed <= seen
    return {
        "id": machine.id,
        "state": state.value,
        "launchedAt": timestamp(machine.launched),
        "endedAt": _optional(machine.ends, seen),
        "order": machine.order or None,
        "endedBecause": machine.ends_because if state is MachinePhase.ENDED else "",
        "nodeName": machine.id,
        "providerId": machine.provider_id,
        "segments": [
            {"since": timestamp(segment.since), "hourlyPrice": decimal(segment.micros_per_hour)}
            for segment in machine.segments
            if segment.since <= seen
        ],
        "billingMinimumSeconds": machine.billing_minimum,
        "interruption": {"at": timestamp(machine.interrupt_at)}
        if noticed and machine.interrupt_at is not None
        else None,
    }


def activity_json(activity: Activity) -> Json:
    """An attempt to launch."""
    return {
        "id": activity.id,
        "at": timestamp(activity.at),
        "status": "Successful" if activity.succeeded else "Failed",
        "code": activity.code,
        "message": activity.message,
        "instance": activity.instance or None,
        "order": activity.order or None,
    }


def placed_json(placed: Mapping[str, Machine | Failure | None]) -> Json:
    """The outcome of each order: an instance, an error, or neither while it waits."""
    answers = []
    for order, result in placed.items():
        answer: Json = {"order": order, "instance": None, "error": None}
        match result:
            case Machine():
                answer["instance"] = result.id
            case Failure():
                answer["error"] = {"code": result.code, "message": result.message}
        answers.append(answer)
    return {"orders": answers}


def quote_json(group: InstanceGroup, now: int) -> Json:
    """The hourly price of a machine of the group launched now, and the most that it can ever cost an hour."""
    spec = group.spec
    price = spec.price_of(spec.list_price)
    return {
        "hourlyPrice": decimal(price),
        "worstHourlyPrice": decimal(spec.list_price if spec.reprice_running else price),
        "billingMinimumSeconds": spec.billing_minimum_seconds,
        "asOf": timestamp(now),
    }


def bill_json(machines: Iterable[Machine], now: int) -> Json:
    """The bill: a line for every machine ever launched."""
    machines = list(machines)
    lines = [
        {
            "instance": machine.id,
            "group": machine.group,
            "seconds": machine.seconds(now),
            "cost": decimal(machine.cost(now)),
            "final": machine.ended(now),
        }
        for machine in machines
    ]
    return {"lines": lines, "total": decimal(sum(machine.cost(now) for machine in machines))}
