"""A project of Google Cloud: its stock, its instances with their true bill, and what a test may do by hand."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from google.cloud import compute_v1

from tests.clouds.clock import Clock
from tests.clouds.faults import Faults
from tests.clouds.gcp.catalogue import PRICES, TYPES
from tests.clouds.gcp.properties import last, metrics_of, model_of, reservation_of
from tests.clouds.gcp.protocol import Fault, Message
from tests.clouds.gcp.state import BASE, Error, Group, Operation, Row, Vm

MINIMUM_SECONDS = 60
PLENTY = 10**6
STOCK_OUT = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
SYSTEM = "system@google.com"
ZONES = {"us-central1-a": "us-central1", "us-central1-b": "us-central1", "europe-west4-a": "europe-west4"}


@dataclass
class Reservation:
    """Machines kept for this project. ``ends``: when it goes away."""

    name: str
    zone: str
    type: str
    count: int
    specific: bool = True
    status: str = "READY"
    ends: datetime | None = None


@dataclass
class Project:
    """Everything of one project. A test sets the fields.

    ``zones``: the region of each. ``stock``: free machines by machine type, zone and provisioning model; what is not
    there is plenty. ``prices``: dollars an hour by machine type, and whether it is spot. ``quotas``: limits by region
    and metric; the region of GPUS_ALL_REGIONS is ``global``.
    ``tokens``: bearer tokens that are accepted; None accepts every caller. ``denied``: permissions that nobody has.
    ``operation_seconds``: how long an operation takes; ``pending_seconds``: an instance's way to RUNNING;
    ``ending_seconds``: its way from there. ``list_lag``: seconds by which lists (not gets) show the past.
    ``late``: errors with which the next operations of a kind end, without effect. ``remembers_seconds``: how long a
    requestId is known. ``keeps_failed``: whether a group that does not repair keeps a managed instance whose instance
    is gone; Google's pages do not say, so an adapter must bear both. ``refuses_known_at_once``: whether createInstances
    answers a known name with 409, and not with an operation that fails. ``hides_last_attempt``: an attempt is under
    way all the time, so that no managed instance tells the error of its last one.
    ``calls``: every call that came, with its parameters; ``callers``: the tokens of each method's callers.
    ``witness``: is called just before and just after (``before``, ``after``) a call takes effect, with its method.
    """

    clock: Clock = field(default_factory=Clock)
    id: str = "test-project"
    number: int = 111122223333
    faults: Faults = field(default_factory=Faults)
    zones: dict[str, str] = field(default_factory=lambda: dict(ZONES))
    stock: dict[tuple[str, str, str], int] = field(default_factory=dict)
    not_offered: set[tuple[str, str]] = field(default_factory=set)
    quotas: dict[tuple[str, str], int] = field(default_factory=dict)
    stock_out: str = STOCK_OUT
    prices: dict[tuple[str, bool], Decimal] = field(default_factory=lambda: dict(PRICES))
    templates: dict[tuple[str, str], Message] = field(default_factory=dict)
    groups: dict[tuple[str, str], Group] = field(default_factory=dict)
    autoscalers: dict[tuple[str, str], Message] = field(default_factory=dict)
    reservations: dict[tuple[str, str], Reservation] = field(default_factory=dict)
    tokens: set[str] | None = None
    denied: set[str] = field(default_factory=set)
    operation_seconds: float = 0.0
    pending_seconds: float = 0.0
    ending_seconds: float = 0.0
    retry_seconds: float = 0.0
    list_lag: float = 0.0
    page: int = 500
    remembers_seconds: float = 3600.0
    keeps_failed: bool = True
    refuses_known_at_once: bool = False
    hides_last_attempt: bool = False
    late: list[tuple[str, Error]] = field(default_factory=list)
    unreachable: set[str] = field(default_factory=set)
    instances: dict[int, Vm] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    remembered: dict[tuple[str, str], tuple[datetime, dict[str, Any], Operation]] = field(default_factory=dict)
    callers: dict[str, set[str]] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    witness: Callable[[str, str], None] = lambda when, method: None
    lock: threading.RLock = field(default_factory=threading.RLock)
    last_id: int = 10**18

    # --- setting up ------------------------------------------------------------------------------------------------

    def next_id(self) -> int:
        """An id that nothing has."""
        self.last_id += 1
        return self.last_id

    def link(self, *path: str) -> str:
        """The URL of a thing of the project."""
        return "/".join([BASE, "projects", self.id, *path])

    def add_template(
        self,
        name: str,
        machine_type: str,
        *,
        region: str = "",
        model: str = "STANDARD",
        labels: Mapping[str, str] | None = None,
        accelerators: Mapping[str, int] | None = None,
        run_seconds: int = 0,
        reservation: str = "",
        action: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Message:
        """Make an instance template, in a region or global. ``action``: what happens at the end of a spot one."""
        scheduling = compute_v1.Scheduling(
            provisioning_model=model, automatic_restart=False, on_host_maintenance="TERMINATE"
        )
        if action or model != "STANDARD":
            scheduling.instance_termination_action = action or "DELETE"
        if run_seconds:
            scheduling.max_run_duration = compute_v1.Duration(seconds=run_seconds)
        boot = compute_v1.AttachedDiskInitializeParams(disk_size_gb=100, source_image="projects/x/global/images/gpu")
        properties = compute_v1.InstanceProperties(
            machine_type=machine_type,
            scheduling=scheduling,
            labels=dict(labels or {}),
            metadata=compute_v1.Metadata(
                items=[{"key": key, "value": value} for key, value in (metadata or {}).items()]
            ),
            disks=[compute_v1.AttachedDisk(boot=True, auto_delete=True, initialize_params=boot)],
            guest_accelerators=[
                compute_v1.AcceleratorConfig(accelerator_type=kind, accelerator_count=count)
                for kind, count in (accelerators or {}).items()
            ],
            network_interfaces=[compute_v1.NetworkInterface(network="global/networks/default")],
        )
        if reservation:
            properties.reservation_affinity = compute_v1.ReservationAffinity(
                consume_reservation_type="SPECIFIC_RESERVATION",
                key="compute.googleapis.com/reservation-name",
                values=[reservation],
            )
        where = ("regions", region) if region else ("global",)
        self.templates[region, name] = compute_v1.InstanceTemplate(
            name=name, id=self.next_id(), self_link=self.link(*where, "instanceTemplates", name), properties=properties
        )
        return self.templates[region, name]

    def add_group(self, name: str, zone: str, template: str, *, region: str = "", repairs: bool = False) -> Group:
        """Make a managed instance group that leaves its instances alone, unless it ``repairs`` (Google's default)."""
        action = "REPAIR" if repairs else "DO_NOTHING"
        settings = compute_v1.InstanceGroupManager(
            base_instance_name=name,
            instance_template=self.templates[region, template].self_link,
            instance_lifecycle_policy=compute_v1.InstanceGroupManagerInstanceLifecyclePolicy(
                default_action_on_failure=action, force_update_on_repair="NO"
            ),
            list_managed_instances_results="PAGELESS",
            update_policy=compute_v1.InstanceGroupManagerUpdatePolicy(type_="OPPORTUNISTIC"),
        )
        group = Group(self.next_id(), name, zone, self.clock.now, settings)
        self.groups[zone, name] = group
        return group

    def add_autoscaler(self, group: Group, *, mode: str = "ON", most: int = 10) -> None:
        """Attach an autoscaler; this server does not play its part."""
        policy = compute_v1.AutoscalingPolicy(mode=mode, min_num_replicas=0, max_num_replicas=most)
        zone, target = ("zones", group.zone), ("instanceGroupManagers", group.name)
        self.autoscalers[group.zone, group.name] = compute_v1.Autoscaler(
            name=group.name,
            id=self.next_id(),
            zone=self.link(*zone),
            target=self.link(*zone, *target),
            autoscaling_policy=policy,
            status="ACTIVE",
        )

    def add_reservation(self, name: str, zone: str, machine_type: str, count: int, **facts: Any) -> None:
        """Make a reservation."""
        self.reservations[zone, name] = Reservation(name, zone, machine_type, count, **facts)

    # --- room ------------------------------------------------------------------------------------------------------

    def refused(self, properties: Message, zone: str, count: int = 1) -> Error | None:
        """The code and message with which that many more instances would be refused; None when there is room."""
        kind = last(properties.machine_type)
        if kind not in TYPES or (kind, zone) in self.not_offered:
            where = f"projects/{self.id}/zones/{zone}/machineTypes/{kind}"
            return "RESOURCE_NOT_FOUND", f"The resource '{where}' was not found"
        if (over := self._over_quota(properties, zone, count)) is not None:
            return over
        if name := reservation_of(properties):
            return self._full(name, zone, kind, count)
        if self.stock.get((kind, zone, model_of(properties)), PLENTY) < count:
            return self.stock_out, (
                f"The zone 'projects/{self.id}/zones/{zone}' does not have enough resources available to fulfill "
                "the request.  '(resource type:compute)'."
            )
        return None

    def _over_quota(self, properties: Message, zone: str, count: int) -> Error | None:
        region = self.zones[zone]
        for metric, each in metrics_of(properties).items():
            for place, said in ((region, f"in region {region}"), ("global", "globally")):
                limit = self.quotas.get((place, metric), PLENTY)
                if (place == "global") != (metric == "GPUS_ALL_REGIONS"):
                    continue
                if self.used(place, metric) + each * count > limit:
                    return "QUOTA_EXCEEDED", f"Quota '{metric}' exceeded.  Limit: {limit:.1f} {said}."
        return None

    def used(self, place: str, metric: str) -> int:
        """How much of a quota is used. A stopped instance uses none of its GPUs."""
        here = [vm for vm in self.alive() if place == "global" or self.zones[vm.zone] == place]
        return sum(metrics_of(vm.properties).get(metric, 0) for vm in here)

    def _full(self, name: str, zone: str, kind: str, count: int) -> Error | None:
        """Why a reservation does not serve. Only the texts are known (cluster-autoscaler's); the code is unproven."""
        kept = self.reservations.get((zone, name))
        if kept is None or kept.type != kind:
            return "INVALID_USAGE", f"Specified reservation [{name}] does not exist."
        if kept.status != "READY":
            return "INVALID_USAGE", f"Specified reservation [{name}] is not in READY state."
        if self.consumed(kept) + count > kept.count:
            return "INVALID_USAGE", f"Specified reservation [{name}] does not have available resources for the request."
        return None

    def consumed(self, kept: Reservation) -> int:
        """Instances that run in a reservation."""
        return sum((vm.zone, vm.reservation) == (kept.zone, kept.name) for vm in self.alive())

    # --- instances -------------------------------------------------------------------------------------------------

    def alive(self) -> list[Vm]:
        """The instances that are billed now."""
        return [vm for vm in self.instances.values() if vm.over is None or vm.over > self.clock.now]

    def named(self, zone: str, name: str) -> Vm | None:
        """The instance that has that name now, or that numeric id."""
        for vm in self.instances.values():
            if vm.zone == zone and name in (vm.name, str(vm.id)) and (vm.gone is None or vm.gone > self.clock.now):
                return vm
        return None

    def launch(
        self, name: str, zone: str, properties: Message, *, template: str = "", group: str = "", seconds: int = 0
    ) -> Vm:
        """One more instance; there is room. ``seconds``: a time limit, besides the one in the properties."""
        now, reservation = self.clock.now, reservation_of(properties)
        where = (last(properties.machine_type), zone, model_of(properties))
        if where in self.stock and not reservation:
            self.stock[where] -= 1
        runs, own = now + timedelta(seconds=self.pending_seconds), compute_v1.InstanceProperties(properties)
        labels: list[tuple[datetime, Mapping[str, str]]] = [(now, dict(properties.labels))]
        vm = Vm(self.next_id(), name, zone, own, now, runs, labels, template, group, reservation)
        limit = seconds or properties.scheduling.max_run_duration.seconds
        if limit:
            vm.ends = vm.runs + timedelta(seconds=limit)
        if at := properties.scheduling.termination_time:
            vm.ends = datetime.fromisoformat(at)
        if reservation and self.reservations[zone, reservation].ends is not None:
            vm.ends = self.reservations[zone, reservation].ends
        self.instances[vm.id] = vm
        self.operate("insert", vm, user="" if not group else SYSTEM)
        return vm

    def stop(self, vm: Vm, at: datetime, *, deletes: bool) -> None:
        """End an instance that runs, at a time: its bill ends there, and its disk's too if it is deleted."""
        if vm.ended is None:
            vm.stopping, vm.ended = min(at, self.clock.now), at
            where = (vm.type, vm.zone, vm.model)
            if where in self.stock and not vm.reservation:
                self.stock[where] += 1
        if deletes and vm.gone is None:
            vm.gone = max(at, vm.ended)

    def operate(
        self, kind: str, target: Vm | Group | str, *, request_id: str = "", user: str = "", done: datetime | None = None
    ) -> Operation:
        """An operation that begins now, on an instance, a group or a zone as a whole."""
        now, id = self.clock.now, self.next_id()
        if isinstance(target, str):
            zone, link, target_id = target, self.link("zones", target), 0
        else:
            sort = "instances" if isinstance(target, Vm) else "instanceGroupManagers"
            zone, target_id, link = target.zone, target.id, self.link("zones", target.zone, sort, target.name)
        operation = Operation(
            id,
            f"operation-{id}",
            kind,
            zone,
            link,
            target_id,
            now,
            done or now + timedelta(seconds=self.operation_seconds),
            request_id,
            user or "renter@test",
        )
        self.operations.append(operation)
        return operation

    def comes_late(self, kind: str) -> Error | None:
        """The error with which this operation is planned to end, which is then used up."""
        for index, (planned, error) in enumerate(self.late):
            if planned == kind:
                del self.late[index]
                return error
        return None

    def end(self, vm: Vm, *, user: str = "") -> Operation:
        """Delete an instance, as its owner does; what is deleted stays as it is."""
        at = self.clock.now + timedelta(seconds=max(self.ending_seconds, self.operation_seconds))
        self.stop(vm, at, deletes=True)
        return self.operate("delete", vm, user=user, done=max(at, vm.gone or at))

    def preempt(self, vm: Vm) -> None:
        """Take a spot instance back; it is deleted or stopped as its instanceTerminationAction says.

        The operation: https://cloud.google.com/compute/docs/instances/create-use-spot.
        """
        assert vm.spot, f"{vm.name} is not spot"
        at = self.clock.now + timedelta(seconds=self.ending_seconds)
        self.stop(vm, at, deletes=vm.properties.scheduling.instance_termination_action == "DELETE")
        self.operate("compute.instances.preempted", vm, user=SYSTEM, done=at).told = "Instance was preempted."

    def start_by_hand(self, name: str, zone: str, machine_type: str, labels: Mapping[str, str]) -> Vm:
        """An instance that nobody ordered."""
        properties = compute_v1.InstanceProperties(machine_type=machine_type, labels=dict(labels))
        return self.launch(name, zone, properties)

    def resize_by_hand(self, group: Group, size: int) -> None:
        """Set the target size as a human does: the group chooses names, and victims."""
        group.target = size
        members = group.members()
        for name in list(members)[size:]:
            self.drop(group, members[name])
        for _ in range(size - len(members)):
            name = f"{group.settings.base_instance_name}-{self.next_id() % 10**4:04d}"
            group.rows.append(Row(name, self.clock.now))

    def drop(self, group: Group, row: Row) -> None:
        """Delete a managed instance and what it has; the target size is the caller's."""
        row.deleting = row.left = self.clock.now
        if row.vm is not None and row.vm.gone is None:
            self.end(row.vm, user=SYSTEM)
            row.left = row.vm.gone

    def fail_late(self, kind: str, code: str, message: str = "") -> None:
        """Let the next operation of a kind (its operationType) end with an error, without effect."""
        self.late.append((kind, (code, message or code)))

    # --- money, and what happened ----------------------------------------------------------------------------------

    def bill(self) -> dict[int, int]:
        """Micro-dollars of each instance until now, by its id: its seconds, at least a minute; no disks.

        From its creation to the end of its deletion or stop. Google may charge less (not before RUNNING): never more.
        """
        return {vm.id: self._bill_of(vm) for vm in self.instances.values()}

    def _bill_of(self, vm: Vm) -> int:
        end = min(vm.over or self.clock.now, self.clock.now)
        seconds = max(-(-(end - vm.launched) // timedelta(seconds=1)), MINIMUM_SECONDS)
        return round(self.prices[vm.type, vm.spot] * 10**6 * seconds / Decimal(3600))

    def count(self) -> Mapping[str, int]:
        """Calls by method."""
        return Counter(name for name, _ in self.calls)

    def check_caller(self, method: str, token: str, permissions: list[tuple[str, str]]) -> None:
        """Refuse who may not make the call; ``permissions``: each with the resource it is for."""
        self.callers.setdefault(method, set()).add(token)
        if self.tokens is not None and token not in self.tokens:
            raise Fault(401, "authError", "Invalid Credentials")
        for permission, resource in permissions:
            if permission in self.denied:
                raise Fault(403, "forbidden", f"Required '{permission}' permission for '{resource}'")
