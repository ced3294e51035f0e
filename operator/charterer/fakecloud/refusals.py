"""Refusals of calls: a code, its HTTP status, and a message that says what to do."""

from __future__ import annotations

from collections.abc import Mapping


class RefusedCall(Exception):
    """An error as the answer to a call. ``details``: further fields of the answer's error object."""

    def __init__(self, status: int, code: str, message: str, details: Mapping[str, int] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.details = dict(details or {})


def group_not_found(group: str) -> RefusedCall:
    """No group of that name."""
    return RefusedCall(404, "GroupNotFound", f"there is no group {group!r}; GET /v1/groups lists them")


def instance_not_found(instance: str, where: str) -> RefusedCall:
    """No such machine, or one that ended too long ago to be listed."""
    return RefusedCall(404, "InstanceNotFound", f"there is no instance {instance!r} in {where}")


def would_terminate(group: str, target: int, members: int) -> RefusedCall:
    """A target below the number of machines: the cloud would choose which one to end."""
    message = f"target {target} of group {group!r} is below its {members} instances; DELETE the instance to end instead"
    return RefusedCall(409, "WouldTerminate", message)


def target_changed(group: str, expected: int, target: int) -> RefusedCall:
    """The expected target is out of date; the answer carries the present one."""
    message = f"the target of group {group!r} is {target}, not {expected} as expected; decide again"
    return RefusedCall(409, "TargetChanged", message, {"target": target})


def max_size_exceeded(group: str, target: int, max_size: int) -> RefusedCall:
    """A target above the group's maxSize."""
    return RefusedCall(400, "MaxSizeExceeded", f"target {target} is above maxSize {max_size} of group {group!r}")


def min_size_reached(group: str, target: int, min_size: int) -> RefusedCall:
    """A target below the group's minSize."""
    return RefusedCall(409, "MinSizeReached", f"target {target} would be below minSize {min_size} of group {group!r}")


def other_orders(group: str, orders: str) -> RefusedCall:
    """A call that a group of this kind does not take."""
    call = f"PUT /v1/groups/{group}/target" if orders == "counted" else f"POST /v1/groups/{group}/orders"
    return RefusedCall(400, "InvalidRequest", f"the orders of group {group!r} are {orders}: use {call}")


def order_launched(group: str, order: str, instance: str) -> RefusedCall:
    """An order cannot be withdrawn any more: it has a machine."""
    message = f"order {order!r} of group {group!r} has instance {instance!r}; DELETE the instance to end it"
    return RefusedCall(409, "OrderLaunched", message)


def invalid(message: str) -> RefusedCall:
    """A call with invalid content."""
    return RefusedCall(400, "InvalidRequest", message)
