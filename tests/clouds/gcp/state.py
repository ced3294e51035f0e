"""What a project has: instances, groups with their managed instances, resize requests, operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from google.cloud import compute_v1

from tests.clouds.gcp.properties import last, model_of
from tests.clouds.gcp.protocol import Message

BASE = "https://www.googleapis.com/compute/v1"
_PACIFIC = timezone(timedelta(hours=-8))
Error = tuple[str, str]
"""A code and a message."""


def stamp(at: datetime) -> str:
    """A time as the API writes it: milliseconds, and the offset of California."""
    return at.astimezone(_PACIFIC).isoformat(timespec="milliseconds")


@dataclass
class Vm:
    """An instance. ``labels``: what it carries, with the time from which it does. ``ends``: when its time limit is.

    ``ended``: when it stopped costing; ``gone``: when it was deleted, and its disk with it. A stopped one (TERMINATED)
    has ended and is not gone. ``doomed``: why the cloud will end it at ``ends``, if that is no time limit.
    """

    id: int
    name: str
    zone: str
    properties: Message
    launched: datetime
    runs: datetime
    labels: list[tuple[datetime, Mapping[str, str]]]
    template: str = ""
    group: str = ""
    reservation: str = ""
    ends: datetime | None = None
    doomed: str = ""
    stopping: datetime | None = None
    ended: datetime | None = None
    gone: datetime | None = None

    @property
    def type(self) -> str:
        """Its machine type."""
        return last(self.properties.machine_type)

    @property
    def model(self) -> str:
        """Its provisioning model."""
        return model_of(self.properties)

    @property
    def spot(self) -> bool:
        """Whether it is billed as spot."""
        return self.model == "SPOT"

    @property
    def over(self) -> datetime | None:
        """When it stops costing, as far as is known: its end, or its time limit."""
        return self.ended or self.ends

    def labels_at(self, at: datetime) -> dict[str, str]:
        """The labels at a time: each change has all of them."""
        return dict(next((labels for since, labels in reversed(self.labels) if since <= at), {}))

    def status_at(self, at: datetime) -> str:
        """The status at a time; empty when there was no such instance."""
        if at < self.launched or (self.gone is not None and self.gone <= at):
            return ""
        if self.ended is not None and self.ended <= at:
            return "TERMINATED"
        if self.stopping is not None and self.stopping <= at:
            return "STOPPING"
        return "RUNNING" if self.runs <= at else "STAGING"


@dataclass
class Row:
    """A managed instance of a group. ``vm``: its instance now; ``attempts``: each failed creation.

    ``left``: when it left the group; ``idle``: its instance failed, and the group does not repair.
    """

    name: str
    since: datetime
    request: str = ""
    vm: Vm | None = None
    attempts: list[tuple[datetime, Error]] = field(default_factory=list)
    repaired: bool = False
    idle: bool = False
    deleting: datetime | None = None
    left: datetime | None = None


@dataclass
class ResizeRequest:
    """A request for several instances at once, and for how long."""

    id: int
    name: str
    created: datetime
    names: list[str]
    by_count: bool
    seconds: int
    description: str = ""
    state: str = "ACCEPTED"
    error: Error | None = None
    attempt: Error | None = None


@dataclass
class Group:
    """A zonal managed instance group. ``settings``: what get answers, besides sizes and state."""

    id: int
    name: str
    zone: str
    created: datetime
    settings: Message
    target: int = 0
    rows: list[Row] = field(default_factory=list)
    requests: dict[str, ResizeRequest] = field(default_factory=dict)

    @property
    def repairs(self) -> bool:
        """Whether a failed instance is made again, which is Google's default."""
        return str(self.settings.instance_lifecycle_policy.default_action_on_failure) != "DO_NOTHING"

    def members(self) -> dict[str, Row]:
        """The managed instances that are not on their way out."""
        return {row.name: row for row in self.rows if row.deleting is None}

    def row_of(self, vm: Vm) -> Row | None:
        """The managed instance that has this instance."""
        return next((row for row in self.rows if row.vm is vm and row.left is None), None)


@dataclass
class Operation:
    """An operation of a zone. ``errors``: with which it ends."""

    id: int
    name: str
    kind: str
    zone: str
    target: str
    target_id: int
    began: datetime
    done: datetime
    request_id: str = ""
    user: str = "renter@test"
    told: str = ""
    errors: tuple[Error, ...] = ()
    counts: tuple[int, int, int] | None = None


def errors_of(errors: tuple[Error, ...]) -> Message:
    """Those errors as an operation or a resize request tells them."""
    return compute_v1.Error(errors=[compute_v1.Errors(code=code, message=message) for code, message in errors])
