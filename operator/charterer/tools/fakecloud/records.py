"""The cloud's records, and views of the records. A view is a pure function of a record and an instant.

A machine's whole life is planned at its launch: when it will run, and when a spot machine will be taken back. If
somebody ends the machine, its life is planned again. So a machine changes its state without any action. A list that
shows changes late is the list of an earlier instant. A cloud that was killed and started again has missed nothing.
Instants are microseconds since 1970-01-01T00:00:00Z.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from charterer.tools.fakecloud import config
from charterer.tools.fakecloud.config import SECOND, BillSegment, GroupSpec

_TARGETS_KEPT = 600 * SECOND


class MachinePhase(StrEnum):
    """The state of a machine as lists show it."""

    PENDING = "Pending"
    RUNNING = "Running"
    STOPPING = "Stopping"
    ENDED = "Ended"


class NodePhase(StrEnum):
    """The last action on the machine's Kubernetes Node.

    ABSENT: the Node is not registered yet. REGISTERED: the Node was created, with a kubelet. SILENT: the Node stays
    without a kubelet. GONE: the Node was deleted.
    """

    ABSENT = "Absent"
    REGISTERED = "Registered"
    SILENT = "Silent"
    GONE = "Gone"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine. Its record is never deleted, because the bill has all machines.

    ``gpu_type``, ``gpus``, ``list_price``, ``billing_minimum`` (seconds): the group's values at the machine's launch.
    ``runs``, ``stops``: when the machine becomes Running, and when it begins to stop.
    ``ends``: when the machine ends. The time may be in the future, for a planned interruption or a machine that stops.
    ``detached``: since when the machine no longer counts for its group's target.
    ``interrupt_noticed``, ``interrupt_at``: when a spot interruption was announced, and when it happens.
    ``stays``: whether the Node object remains after the machine's end.
    ``silenced``: whether the machine's kubelet no longer reports.
    ``order``: the name of the order for which the machine was launched, in a group that accepts orders.
    """

    id: str
    group: str
    zone: str
    gpu_type: str
    gpus: int
    list_price: int
    billing_minimum: int
    segments: tuple[BillSegment, ...]
    launched: int
    runs: int
    stops: int | None = None
    ends: int | None = None
    ends_because: str = ""
    detached: int | None = None
    interrupt_noticed: int | None = None
    interrupt_at: int | None = None
    stays: bool = False
    silenced: bool = False
    order: str = ""
    node: NodePhase = NodePhase.ABSENT

    def state(self, at: int) -> MachinePhase:
        """The machine's state at that instant."""
        if self.ends is not None and at >= self.ends:
            return MachinePhase.ENDED
        if self.stops is not None and at >= self.stops:
            return MachinePhase.STOPPING
        return MachinePhase.RUNNING if at >= self.runs else MachinePhase.PENDING

    def ended(self, at: int) -> bool:
        """Whether the machine no longer exists and is no longer billed."""
        return self.state(at) is MachinePhase.ENDED

    @property
    def provider_id(self) -> str:
        """The Node's spec.providerID."""
        return f"fake:///{self.zone}/{self.id}"

    def seconds(self, now: int) -> int:
        """Whole seconds that are billed until ``now`` or until the machine's end."""
        return config.billed_seconds(self.launched, self._until(now), self.billing_minimum)

    def cost(self, now: int) -> int:
        """Micro-dollars that are billed until ``now`` or until the machine's end."""
        return config.cost(self.segments, self.launched, self._until(now), self.billing_minimum)

    def _until(self, now: int) -> int:
        return self.ends if self.ends is not None and self.ends <= now else now

    def ending(self, at: int, because: str) -> Machine:
        """The machine with its end planned for ``at``, unless it ends earlier."""
        if self.ends is not None and self.ends <= at:
            return self
        return replace(self, ends=at, ends_because=because)


@dataclass(frozen=True, slots=True)
class TargetSet:
    """The group's target since ``at``."""

    at: int
    target: int


@dataclass(frozen=True, slots=True)
class WaitingOrders:
    """Names of orders that wait for machines. ``together``: whether all the orders are launched or none."""

    names: tuple[str, ...]
    together: bool


@dataclass(frozen=True, slots=True)
class InstanceGroup:
    """An instance group.

    ``declared``: the spec in the configuration file. ``spec``: the present spec.
    ``targets``: the targets so far, the newest last. Older targets are stored while a late answer may need them.
    ``retry``: when the next launch may be tried.
    ``changes_done``: number of scheduled changes of the spec that have happened.
    ``waiting``: orders without a machine, in a group whose orders are ``named``.
    """

    declared: GroupSpec
    spec: GroupSpec
    targets: tuple[TargetSet, ...]
    retry: int = 0
    changes_done: int = 0
    waiting: tuple[WaitingOrders, ...] = ()

    @property
    def ordered(self) -> tuple[str, ...]:
        """The names of all waiting orders."""
        return tuple(name for together in self.waiting for name in together.names)

    @property
    def name(self) -> str:
        """The group's name."""
        return self.spec.name

    @property
    def target(self) -> int:
        """The present target."""
        return self.targets[-1].target

    def target_at(self, at: int) -> int:
        """The target at that instant. Before the oldest known target, the oldest known target."""
        return next((entry.target for entry in reversed(self.targets) if entry.at <= at), self.targets[0].target)

    def seen_at(self, now: int) -> int:
        """The instant whose state an answer at ``now`` shows."""
        return now - round(self.spec.list_lag_seconds * SECOND)

    def with_target(self, target: int, now: int) -> InstanceGroup:
        """The group with a new target from now on. It may launch at once."""
        horizon = self.seen_at(now) - _TARGETS_KEPT
        past = [entry for entry in self.targets if entry.at <= horizon][-1:]
        recent = [entry for entry in self.targets if entry.at > horizon]
        return replace(self, targets=(*past, *recent, TargetSet(now, target)), retry=0)


@dataclass(frozen=True, slots=True)
class Activity:
    """An attempt to launch.

    ``order``: the name of its order, or empty. ``code``: the error's code, or empty on success. ``instance``: the
    launched instance, or empty on failure.
    """

    id: str
    group: str
    at: int
    succeeded: bool
    code: str
    message: str
    instance: str
    order: str = ""


@dataclass(frozen=True, slots=True)
class CloudAccount:
    """The account.

    ``born``: when the cloud was first started.
    ``quotas``: the most GPUs of each type.
    ``machines``, ``activities``: the last ordinals that were used.
    """

    born: int
    seed: int
    quotas: tuple[tuple[str, int], ...]
    declared_quotas: tuple[tuple[str, int], ...]
    machines: int = 0
    activities: int = 0

    @property
    def id(self) -> str:
        """The account's identifier. Another fake cloud has the same identifier only if it was first started at the same
        moment.
        """
        return f"fake-{self.born:x}-{self.seed}"

    def quota(self, gpu_type: str) -> int | None:
        """The most GPUs of that type at a time, or None for unlimited."""
        return dict(self.quotas).get(gpu_type)
