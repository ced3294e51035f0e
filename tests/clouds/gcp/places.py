"""What a project is offered and allowed: templates, machine types, reservations, regions with quotas, zones."""

from __future__ import annotations

from google.cloud import compute_v1

from tests.clouds.gcp.catalogue import METRICS, TYPES
from tests.clouds.gcp.lists import listed
from tests.clouds.gcp.project import PLENTY, Project, Reservation
from tests.clouds.gcp.properties import last
from tests.clouds.gcp.protocol import Fault, Message
from tests.clouds.gcp.state import stamp


def _missing(project: Project, *path: str) -> Fault:
    return Fault(404, "notFound", f"The resource 'projects/{project.id}/{'/'.join(path)}' was not found")


def template(project: Project, request: Message) -> Message:
    """A global instance template."""
    if ("", request.instance_template) not in project.templates:
        raise _missing(project, "global", "instanceTemplates", request.instance_template)
    return project.templates["", request.instance_template]


def region_template(project: Project, request: Message) -> Message:
    """An instance template of a region."""
    if (request.region, request.instance_template) not in project.templates:
        raise _missing(project, "regions", request.region, "instanceTemplates", request.instance_template)
    return project.templates[request.region, request.instance_template]


def _types(project: Project, zone: str) -> list[Message]:
    return [_type(project, zone, name) for name in sorted(TYPES) if (name, zone) not in project.not_offered]


def _type(project: Project, zone: str, name: str) -> Message:
    facts = TYPES[name]
    gpus = [compute_v1.Accelerators(guest_accelerator_type=facts.gpu, guest_accelerator_count=facts.gpus)]
    return compute_v1.MachineType(
        id=sum(name.encode()),
        name=name,
        zone=zone,
        guest_cpus=facts.vcpus,
        memory_mb=facts.memory,
        accelerators=gpus if facts.gpus else [],
        self_link=project.link("zones", zone, "machineTypes", name),
    )


def machine_type(project: Project, request: Message) -> Message:
    """A machine type in a zone that offers it."""
    name = request.machine_type
    if name not in TYPES or (name, request.zone) in project.not_offered:
        raise _missing(project, "zones", request.zone, "machineTypes", name)
    return _type(project, request.zone, name)


def machine_types(project: Project, request: Message) -> Message:
    """The machine types of a zone."""
    items, more = listed(_types(project, request.zone), request, compute_v1.MachineType, project.page)
    return compute_v1.MachineTypeList(items=items, next_page_token=more)


def all_machine_types(project: Project, request: Message) -> Message:
    """The machine types of every zone."""
    rows = [each for zone in sorted(project.zones) for each in _types(project, zone)]
    rows, more = listed(rows, request, compute_v1.MachineType, project.page)
    items = {
        f"zones/{zone}": compute_v1.MachineTypesScopedList(machine_types=[each for each in rows if each.zone == zone])
        for zone in project.zones
    }
    return compute_v1.MachineTypeAggregatedList(items=items, next_page_token=more)


def accelerator_types(project: Project, request: Message) -> Message:
    """The GPUs that machine types of a zone have."""
    names = sorted(
        {each.accelerators[0].guest_accelerator_type for each in _types(project, request.zone) if each.accelerators}
    )
    zone = project.link("zones", request.zone)
    rows = [compute_v1.AcceleratorType(name=name, zone=zone, maximum_cards_per_instance=16) for name in names]
    items, more = listed(rows, request, compute_v1.AcceleratorType, project.page)
    return compute_v1.AcceleratorTypeList(items=items, next_page_token=more)


def _reservation(project: Project, kept: Reservation) -> Message:
    properties = compute_v1.AllocationSpecificSKUAllocationReservedInstanceProperties(machine_type=kept.type)
    shown = compute_v1.Reservation(
        name=kept.name,
        zone=project.link("zones", kept.zone),
        self_link=project.link("zones", kept.zone, "reservations", kept.name),
        status=kept.status,
        specific_reservation_required=kept.specific,
        specific_reservation=compute_v1.AllocationSpecificSKUReservation(
            count=kept.count,
            assured_count=kept.count,
            in_use_count=project.consumed(kept),
            instance_properties=properties,
        ),
    )
    if kept.ends is not None:
        shown.delete_at_time = stamp(kept.ends)
    return shown


def reservation(project: Project, request: Message) -> Message:
    """A reservation of a zone."""
    kept = project.reservations.get((request.zone, request.reservation))
    if kept is None:
        raise _missing(project, "zones", request.zone, "reservations", request.reservation)
    return _reservation(project, kept)


def reservations(project: Project, request: Message) -> Message:
    """The reservations of a zone."""
    rows = [_reservation(project, kept) for kept in project.reservations.values() if kept.zone == request.zone]
    items, more = listed(rows, request, compute_v1.Reservation, project.page)
    return compute_v1.ReservationList(items=items, next_page_token=more)


def _quota(project: Project, place: str, metric: str) -> Message:
    limit = float(project.quotas.get((place, metric), PLENTY))
    return compute_v1.Quota(metric=metric, limit=limit, usage=float(project.used(place, metric)))


def region(project: Project, request: Message) -> Message:
    """A region with its quotas; on demand, the quota of a GPU without a metric of the SDK is not told."""
    name = request.region
    if name not in project.zones.values():
        raise _missing(project, "regions", name)
    wanted = [prefix + metric for metric in METRICS.values() for prefix in ("", "PREEMPTIBLE_")]
    return compute_v1.Region(
        name=name,
        status="UP",
        self_link=project.link("regions", name),
        zones=[project.link("zones", zone) for zone, at in project.zones.items() if at == name],
        quotas=[_quota(project, name, m) for m in wanted if hasattr(compute_v1.Quota.Metric, m)],
    )


def project(project: Project, request: Message) -> Message:
    """The project with its quotas."""
    return compute_v1.Project(
        id=project.number,
        name=project.id,
        self_link=project.link(),
        default_service_account=f"{project.number}-compute@developer.gserviceaccount.com",
        quotas=[_quota(project, "global", "GPUS_ALL_REGIONS")],
    )


def _zone(project: Project, name: str) -> Message:
    status = "DOWN" if name in project.unreachable else "UP"
    region = project.link("regions", project.zones[name])
    return compute_v1.Zone(name=name, status=status, region=region, self_link=project.link("zones", name))


def zone(project: Project, request: Message) -> Message:
    """A zone."""
    return _zone(project, request.zone)


def zones(project: Project, request: Message) -> Message:
    """All zones."""
    rows = [_zone(project, name) for name in sorted(project.zones)]
    items, more = listed(rows, request, compute_v1.Zone, project.page)
    return compute_v1.ZoneList(items=items, next_page_token=more)


def autoscalers(project: Project, request: Message) -> Message:
    """The autoscalers of a zone."""
    rows = [each for (zone, _), each in project.autoscalers.items() if zone == request.zone]
    items, more = listed(rows, request, compute_v1.Autoscaler, project.page)
    return compute_v1.AutoscalerList(items=items, next_page_token=more)


def all_autoscalers(project: Project, request: Message) -> Message:
    """The autoscalers of every zone."""
    rows, more = listed(list(project.autoscalers.values()), request, compute_v1.Autoscaler, project.page)
    items = {
        f"zones/{zone}": compute_v1.AutoscalersScopedList(autoscalers=[a for a in rows if last(a.zone) == zone])
        for zone in project.zones
    }
    return compute_v1.AutoscalerAggregatedList(items=items, next_page_token=more)


def granted(project: Project, request: Message) -> Message:
    """Which of some permissions are granted, on a resource.

    Those on the project itself are asked of another API (cloudresourcemanager), which this server is not.
    """
    asked = request.test_permissions_request_resource.permissions
    return compute_v1.TestPermissionsResponse(permissions=[each for each in asked if each not in project.denied])
