"""Why the cloud refuses a call: a code, the HTTP status that carries it, and a message that says what to do."""

from __future__ import annotations

from collections.abc import Mapping


class Refusal(Exception):
    """An answer that is an error. ``details`` are further fields of the answer's error object."""

    def __init__(self, status: int, code: str, message: str, details: Mapping[str, int] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.details = dict(details or {})


def group_not_found(group: str) -> Refusal:
    """No group of that name."""
    return Refusal(404, "GroupNotFound", f"there is no group {group!r}; GET /v1/groups lists them")


def instance_not_found(instance: str, where: str) -> Refusal:
    """No such machine, or it ended so long ago that it is no longer listed."""
    return Refusal(404, "InstanceNotFound", f"there is no instance {instance!r} in {where}")


def would_terminate(group: str, target: int, members: int) -> Refusal:
    """A target below what exists: the cloud would choose which machine to end."""
    message = f"target {target} of group {group!r} is below its {members} instances; DELETE the instance to end instead"
    return Refusal(409, "WouldTerminate", message)


def target_changed(group: str, expected: int, target: int) -> Refusal:
    """The caller's idea of the target is out of date; the answer carries the true one."""
    message = f"the target of group {group!r} is {target}, not {expected} as expected; decide again"
    return Refusal(409, "TargetChanged", message, {"target": target})


def max_size_exceeded(group: str, target: int, max_size: int) -> Refusal:
    """A target above the group's maxSize."""
    return Refusal(400, "MaxSizeExceeded", f"target {target} is above maxSize {max_size} of group {group!r}")


def min_size_reached(group: str, target: int, min_size: int) -> Refusal:
    """A target below the group's minSize."""
    return Refusal(409, "MinSizeReached", f"target {target} would be below minSize {min_size} of group {group!r}")


def token_used(group: str, token: str, target: int, before: int) -> Refusal:
    """One token for two different targets."""
    message = f"token {token!r} set the target of group {group!r} to {before} before, not to {target}; use a new one"
    return Refusal(400, "IdempotentParameterMismatch", message)


def invalid(message: str) -> Refusal:
    """A call that cannot be understood."""
    return Refusal(400, "InvalidRequest", message)
