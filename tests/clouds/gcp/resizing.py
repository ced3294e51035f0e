"""Resize requests of a managed instance group: several instances at once, when they are there.

https://cloud.google.com/compute/docs/instance-groups/about-resize-requests-mig
"""

from __future__ import annotations

from google.cloud import compute_v1

from tests.clouds.gcp.groups import group_of
from tests.clouds.gcp.lists import listed
from tests.clouds.gcp.project import Project
from tests.clouds.gcp.properties import model_of
from tests.clouds.gcp.protocol import Fault, Message, check_name, invalid
from tests.clouds.gcp.settle import properties_of, settle
from tests.clouds.gcp.state import Group, Operation, ResizeRequest, errors_of, stamp

_SHORTEST, _LONGEST = 600, 7 * 24 * 3600


def _row(project: Project, group: Group, request: ResizeRequest) -> Message:
    shown = compute_v1.InstanceGroupManagerResizeRequest(
        id=request.id,
        name=request.name,
        kind="compute#instanceGroupManagerResizeRequest",
        description=request.description,
        state=request.state,
        creation_timestamp=stamp(request.created),
        zone=project.link("zones", group.zone),
        self_link=_link(project, group, request.name),
        requested_run_duration=compute_v1.Duration(seconds=request.seconds) if request.seconds else None,
    )
    if request.by_count:
        shown.resize_by = len(request.names)
    else:
        shown.instances = [compute_v1.PerInstanceConfig(name=name) for name in request.names]
    if request.error is not None:
        shown.status.error = errors_of((request.error,))
    elif request.state == "ACCEPTED" and request.attempt is not None:
        kind = compute_v1.InstanceGroupManagerResizeRequestStatusLastAttempt
        shown.status.last_attempt = kind(error=errors_of((request.attempt,)))
    return shown


def _link(project: Project, group: Group, name: str) -> str:
    return project.link("zones", group.zone, "instanceGroupManagers", group.name, "resizeRequests", name)


def _found(project: Project, request: Message) -> tuple[Group, ResizeRequest]:
    group = group_of(project, request)
    if request.resize_request not in group.requests:
        where = _link(project, group, request.resize_request).split("/v1/")[1]
        raise Fault(404, "notFound", f"The resource '{where}' was not found")
    return group, group.requests[request.resize_request]


def insert(project: Project, request: Message) -> Operation:
    """Queue a request: of names or of a number, for 10 minutes to 7 days if its instances are flex-start."""
    group, body = group_of(project, request), request.instance_group_manager_resize_request_resource
    check_name(body.name, "resource.name")
    if body.name in group.requests:
        where = _link(project, group, body.name).split("/v1/")[1]
        raise Fault(409, "alreadyExists", f"The resource '{where}' already exists")
    names = [each.name for each in body.instances]
    for name in names:
        check_name(name, "resource.instances.name")
    if bool(names) == bool(body.resize_by) or body.resize_by < 0:
        raise invalid("resource.resizeBy", body.resize_by, "Exactly one of resizeBy and instances must be set.")
    if known := sorted({each.name for each in group.rows if each.left is None} & set(names)):
        raise Fault(409, "alreadyExists", f"The instance '{known[0]}' already exists in {group.name}")
    model, seconds = model_of(properties_of(project, group)[0]), body.requested_run_duration.seconds
    if model not in ("FLEX_START", "RESERVATION_BOUND"):
        raise invalid("resource.name", body.name, f"The provisioning model {model} of the template has no requests.")
    if model == "FLEX_START" and not _SHORTEST <= seconds <= _LONGEST:
        raise invalid("resource.requestedRunDuration", seconds, "Must be between 10 minutes and 7 days.")
    if any(a.target.endswith(f"/{group.name}") for a in project.autoscalers.values()):
        raise invalid("resource.name", body.name, "The group has an autoscaler.")
    made = names or [
        f"{group.settings.base_instance_name}-{project.next_id() % 10**4:04d}" for _ in range(body.resize_by)
    ]
    operation = _operate(project, group, "insert", request)
    if (error := project.comes_late(operation.kind)) is not None:
        operation.errors = (error,)
        return operation
    group.requests[body.name] = ResizeRequest(
        project.next_id(), body.name, project.clock.now, made, not names, seconds, body.description
    )
    settle(project)
    return operation


def _operate(project: Project, group: Group, method: str, request: Message) -> Operation:
    kind = f"compute.instanceGroupManagerResizeRequests.{method}"
    return project.operate(kind, group, request_id=request.request_id)


def get(project: Project, request: Message) -> Message:
    """One request."""
    return _row(project, *_found(project, request))


def list_(project: Project, request: Message) -> Message:
    """The requests of a group."""
    group, kind = group_of(project, request), compute_v1.InstanceGroupManagerResizeRequest
    items, more = listed([_row(project, group, r) for r in group.requests.values()], request, kind, project.page)
    return compute_v1.InstanceGroupManagerResizeRequestsListResponse(items=items, next_page_token=more)


def cancel(project: Project, request: Message) -> Operation:
    """Take a request out of the queue; what has left the queue cannot be cancelled (the SDK's description)."""
    group, found = _found(project, request)
    if found.state != "ACCEPTED":
        raise Fault(
            400, "invalid", f"The resize request {found.name} is {found.state}: only ACCEPTED can be cancelled."
        )
    found.state = "CANCELLED"
    return _operate(project, group, "cancel", request)


def delete(project: Project, request: Message) -> Operation:
    """Forget a request that is no longer active; its instances stay (the SDK's description)."""
    group, found = _found(project, request)
    if found.state == "ACCEPTED":
        raise Fault(400, "invalid", f"The resize request {found.name} is {found.state}: cancel it first.")
    del group.requests[found.name]
    return _operate(project, group, "delete", request)
