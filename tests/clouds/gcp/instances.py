"""Instances: get, list, create in bulk or alone, delete, labels and scheduling."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime, timedelta

from google.cloud import compute_v1

from tests.clouds.gcp.lists import as_json, listed
from tests.clouds.gcp.project import Project
from tests.clouds.gcp.properties import gpus_of, last
from tests.clouds.gcp.protocol import Fault, Message, check_labels, check_name, invalid
from tests.clouds.gcp.state import Error, Operation, Vm, stamp


def found(project: Project, zone: str, name: str) -> Vm:
    """The instance of that name or id; Fault when there is none."""
    vm = project.named(zone, name)
    if vm is None:
        where = f"projects/{project.id}/zones/{zone}/instances/{name}"
        raise Fault(404, "notFound", f"The resource '{where}' was not found")
    return vm


def fingerprint(labels: dict[str, str]) -> str:
    """What changes whenever the labels do."""
    return hashlib.sha256(json.dumps(labels, sort_keys=True).encode()).hexdigest()[:11] + "="


def row(project: Project, vm: Vm, at: datetime) -> Message:
    """An instance as it is at a time."""
    link, zone = project.link, ("zones", vm.zone)
    status, labels = vm.status_at(at), vm.labels_at(at)
    shown = compute_v1.Instance(
        id=vm.id,
        kind="compute#instance",
        name=vm.name,
        zone=link(*zone),
        machine_type=link(*zone, "machineTypes", vm.type),
        self_link=link(*zone, "instances", vm.name),
        status=status,
        creation_timestamp=stamp(vm.launched),
        labels=labels,
        label_fingerprint=fingerprint(labels),
        scheduling=vm.properties.scheduling,
        guest_accelerators=[
            compute_v1.AcceleratorConfig(accelerator_type=link(*zone, "acceleratorTypes", kind), accelerator_count=n)
            for kind, n in gpus_of(vm.properties).items()
        ],
        disks=[
            compute_v1.AttachedDisk(boot=True, auto_delete=True, source=link(*zone, "disks", vm.name), disk_size_gb=100)
        ],
        network_interfaces=[compute_v1.NetworkInterface(name="nic0", network_i_p=f"10.128.0.{vm.id % 250 + 2}")],
    )
    if vm.reservation:
        shown.reservation_affinity = vm.properties.reservation_affinity
    if not shown.scheduling.provisioning_model:
        shown.scheduling.provisioning_model = vm.model
    items = {"created-by": f"projects/{project.number}/zones/{vm.zone}/instanceGroupManagers/{vm.group}"}
    if vm.group:
        shown.metadata = compute_v1.Metadata(items=[compute_v1.Items(key=k, value=v) for k, v in items.items()])
    if vm.runs <= at:
        shown.last_start_timestamp = stamp(vm.runs)
    if status == "TERMINATED" and vm.ended is not None:
        shown.last_stop_timestamp = stamp(vm.ended)
    if status == "RUNNING" and vm.ends is not None and not vm.doomed:
        # Set when the VM enters RUNNING: https://cloud.google.com/compute/docs/instances/limit-vm-runtime
        shown.resource_status = compute_v1.ResourceStatus(
            scheduling=compute_v1.ResourceStatusScheduling(termination_timestamp=stamp(vm.ends))
        )
    return shown


def get(project: Project, request: Message) -> Message:
    """One instance, as it is now."""
    return row(project, found(project, request.zone, request.instance), project.clock.now)


def _rows(project: Project, zone: str) -> list[Message]:
    at = project.clock.now - timedelta(seconds=project.list_lag)
    shown = [vm for vm in project.instances.values() if vm.zone == zone and vm.status_at(at)]
    return [row(project, vm, at) for vm in sorted(shown, key=lambda vm: vm.name)]


def list_(project: Project, request: Message) -> Message:
    """The instances of a zone."""
    items, more = listed(_rows(project, request.zone), request, compute_v1.Instance, project.page)
    return compute_v1.InstanceList(items=items, next_page_token=more)


def aggregated_list(project: Project, request: Message) -> Message:
    """The instances of all zones; a zone that cannot be reached fails the call."""
    if project.unreachable:
        raise Fault(503, "backendError", f"The zones {sorted(project.unreachable)} are unreachable.")
    everything = [each for zone in sorted(project.zones) for each in _rows(project, zone)]
    everything, more = listed(everything, request, compute_v1.Instance, project.page)
    items = {}
    for zone in project.zones:
        inside = [each for each in everything if last(each.zone) == zone]
        empty = compute_v1.Warning(code="NO_RESULTS_ON_PAGE", message=f"There are no results for scope '{zone}'.")
        scope = {"instances": inside} if inside else {"warning": empty}
        items[f"zones/{zone}"] = compute_v1.InstancesScopedList(**scope)
    return compute_v1.InstanceAggregatedList(items=items, next_page_token=more)


def template_of(project: Project, link: str, zone: str) -> tuple[Message, str]:
    """The properties and link of a template, from a full or partial URL."""
    parts = re.fullmatch(
        r"(?:https://[^/]+/compute/v1/)?(?:projects/([^/]+)/)?(global|regions/([^/]+))/"
        r"instanceTemplates/([^/]+)",
        link,
    )
    if parts is None:
        raise invalid("resource.sourceInstanceTemplate", link, "The URL is malformed.")
    region = parts.group(3) or ""
    template = project.templates.get((region, parts.group(4)))
    if template is None or parts.group(1) not in (None, project.id):
        raise Fault(
            404,
            "notFound",
            f"The resource 'projects/{project.id}/{parts.group(2)}/instanceTemplates/{parts.group(4)}' was not found",
        )
    if region and region != project.zones[zone]:
        raise invalid("resource.sourceInstanceTemplate", link, f"The template is not of the region of {zone}.")
    return template.properties, template.self_link


def _merged(base: object, patch: object) -> object:
    """JSON Merge Patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    whole = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        whole[key] = _merged(whole.get(key), value)
    return whole


def _check_new(project: Project, zone: str, name: str, where: str) -> None:
    check_name(name, where)
    if project.named(zone, name) is not None:
        taken = f"projects/{project.id}/zones/{zone}/instances/{name}"
        raise Fault(409, "alreadyExists", f"The resource '{taken}' already exists")


def _names(project: Project, zone: str, body: Message) -> list[str]:
    count, named = body.count, sorted(body.per_instance_properties)
    if count < 1:
        raise invalid("resource.count", count, "Must be at least 1.")
    for name in named:
        _check_new(project, zone, name, "resource.perInstanceProperties")
    if len(named) >= count or not body.name_pattern:
        if len(named) != count:
            raise invalid("resource.perInstanceProperties", len(named), "Not as many names as instances.")
        return named
    pattern = re.fullmatch(r"([a-z][-a-z0-9]*?)(#{1,18})([-a-z0-9]*)", body.name_pattern)
    if pattern is None:
        raise invalid("resource.namePattern", body.name_pattern, "Needs one sequence of up to 18 '#'.")
    head, digits, tail = pattern.groups()
    known = [re.fullmatch(rf"{head}(\d{{{len(digits)}}}){tail}", vm.name) for vm in project.instances.values()]
    highest = max((int(each.group(1)) for each in known if each), default=0)
    numbers = range(highest + 1, highest + 1 + count - len(named))
    return named + [f"{head}{number:0{len(digits)}d}{tail}" for number in numbers]


def bulk_insert(project: Project, request: Message) -> Operation:
    """As many instances as there is room for, or none if that is below minCount.

    With a duration of operations, those that were created before it failed exist, and cost, until they are rolled back:
    https://cloud.google.com/compute/docs/instances/multiple/about-bulk-creation.
    """
    body, zone = request.bulk_insert_instance_resource_resource, request.zone
    base, template = {}, ""
    if body.source_instance_template:
        shape, template = template_of(project, body.source_instance_template, zone)
        base = as_json(shape)
    whole = _merged(base, as_json(body.instance_properties))
    properties = compute_v1.InstanceProperties.from_json(json.dumps(whole))
    if not properties.machine_type:
        raise invalid("resource.instanceProperties.machineType", "", "A machine type is required.")
    check_labels(dict(properties.labels))
    count, least = body.count, body.min_count or body.count
    if least > count:
        raise invalid("resource.minCount", least, "Must not be above count.")
    names = _names(project, zone, body)
    cause: Error | None = None
    fits = count
    while fits and (refusal := project.refused(properties, zone, fits)) is not None:
        cause, fits = refusal, fits - 1
    late = project.comes_late("bulkInsert")
    failed = fits < least or late is not None
    operation = project.operate("bulkInsert", zone, request_id=request.request_id)
    exist = fits if not failed or operation.done > project.clock.now else 0
    for name in names[:exist]:
        vm = project.launch(name, zone, properties, template=template)
        if failed:
            vm.ends, vm.doomed = operation.done, "Rolled back by bulkInsert."
    if failed:
        told = "VM_MIN_COUNT_NOT_REACHED", f"Requested minimum count of {least} VMs could not be created."
        operation.errors = (late,) if late else tuple(each for each in (told, cause) if each)
    operation.counts = (count, 0 if failed else fits, exist if failed else 0)
    return operation


def insert(project: Project, request: Message) -> Operation:
    """One instance; a stock-out or a full quota comes with the operation."""
    body, zone = request.instance_resource, request.zone
    _check_new(project, zone, body.name, "resource.name")
    base, template = {}, ""
    if request.source_instance_template:
        shape, template = template_of(project, request.source_instance_template, zone)
        base = as_json(shape)
    given = {key: value for key, value in as_json(body).items() if key != "name"}
    shared = {f.json_name for f in compute_v1.InstanceProperties.pb(compute_v1.InstanceProperties()).DESCRIPTOR.fields}
    if outside := set(given) - shared:
        raise Fault(501, "notImplemented", f"this server knows no {sorted(outside)} of a new instance")
    properties = compute_v1.InstanceProperties.from_json(json.dumps(_merged(base, given)))
    check_labels(dict(properties.labels))
    if not properties.machine_type:
        raise invalid("resource.machineType", "", "A machine type is required.")
    error = project.comes_late("insert") or project.refused(properties, zone)
    if error is None:
        project.launch(body.name, zone, properties, template=template)
        operation = project.operations[-1]
        operation.request_id = request.request_id
        return operation
    operation = project.operate("insert", zone, request_id=request.request_id)
    operation.target, operation.errors = project.link("zones", zone, "instances", body.name), (error,)
    return operation


def delete(project: Project, request: Message) -> Operation:
    """Delete an instance."""
    vm = found(project, request.zone, request.instance)
    if (late := project.comes_late("delete")) is not None:
        operation = project.operate("delete", vm, request_id=request.request_id)
        operation.errors = (late,)
        return operation
    operation = project.end(vm)
    operation.request_id = request.request_id
    return operation


def set_labels(project: Project, request: Message) -> Operation:
    """Replace all labels, if the fingerprint is that of the present ones."""
    vm, body = found(project, request.zone, request.instance), request.instances_set_labels_request_resource
    now, labels = project.clock.now, dict(body.labels)
    check_labels(labels)
    if body.label_fingerprint != fingerprint(vm.labels_at(now)):
        raise Fault(412, "conditionNotMet", "Labels fingerprint either invalid or resource labels have changed")
    operation = project.operate("setLabels", vm, request_id=request.request_id)
    if (late := project.comes_late("setLabels")) is not None:
        operation.errors = (late,)
    else:
        vm.labels.append((now, labels))
    return operation


def set_scheduling(project: Project, request: Message) -> Operation:
    """Change the scheduling of a stopped instance; the SDK's description of setScheduling allows no other."""
    vm = found(project, request.zone, request.instance)
    if vm.status_at(project.clock.now) != "TERMINATED":
        raise Fault(400, "invalid", "Scheduling can only be set on a stopped instance (TERMINATED).")
    vm.properties.scheduling = request.scheduling_resource
    return project.operate("setScheduling", vm, request_id=request.request_id)
