"""Operations of zones: each tells what was asked, of what, and how it ended."""

from __future__ import annotations

from google.cloud import compute_v1

from tests.clouds.gcp.lists import listed
from tests.clouds.gcp.project import Project
from tests.clouds.gcp.protocol import Fault, Message
from tests.clouds.gcp.state import Operation, errors_of, stamp

_HTTP = {"QUOTA_EXCEEDED": (403, "FORBIDDEN"), "MEMBER_ALREADY_EXISTS": (409, "CONFLICT")}
_UNAVAILABLE = (503, "SERVICE UNAVAILABLE")


def row(project: Project, operation: Operation) -> Message:
    """An operation as it is now: errors come at its end."""
    done = operation.done <= project.clock.now
    shown = compute_v1.Operation(
        id=operation.id,
        kind="compute#operation",
        name=operation.name,
        operation_type=operation.kind,
        zone=project.link("zones", operation.zone),
        self_link=project.link("zones", operation.zone, "operations", operation.name),
        target_link=operation.target,
        user=operation.user,
        insert_time=stamp(operation.began),
        start_time=stamp(operation.began),
        progress=100 if done else 0,
        status="DONE" if done else "RUNNING",
    )
    if operation.target_id:
        shown.target_id = operation.target_id
    if operation.request_id:
        shown.client_operation_id = operation.request_id
    if operation.told:
        shown.status_message = operation.told
    if operation.counts is not None:
        wanted, created, deleted = operation.counts
        status = compute_v1.BulkInsertOperationStatus(
            target_vm_count=wanted,
            created_vm_count=created if done else 0,
            deleted_vm_count=deleted if done else 0,
            failed_to_create_vm_count=wanted - created if done else 0,
            status="DONE" if done else "CREATING",
        )
        places = {f"zones/{operation.zone}": status}
        metadata = compute_v1.InstancesBulkInsertOperationMetadata(per_location_status=places)
        shown.instances_bulk_insert_operation_metadata = metadata
    if done:
        shown.end_time = stamp(operation.done)
    if done and operation.errors:
        shown.error = errors_of(operation.errors)
        code, words = _HTTP.get(operation.errors[-1][0], _UNAVAILABLE)
        shown.http_error_status_code, shown.http_error_message = code, words
    return shown


def get(project: Project, request: Message) -> Message:
    """One operation, by its name or id."""
    for operation in project.operations:
        if operation.zone == request.zone and request.operation in (operation.name, str(operation.id)):
            return row(project, operation)
    where = f"projects/{project.id}/zones/{request.zone}/operations/{request.operation}"
    raise Fault(404, "notFound", f"The resource '{where}' was not found")


def list_(project: Project, request: Message) -> Message:
    """The operations of a zone, the oldest first."""
    rows = [row(project, each) for each in project.operations if each.zone == request.zone]
    items, more = listed(rows, request, compute_v1.Operation, project.page)
    return compute_v1.OperationList(items=items, next_page_token=more)


def wait(project: Project, request: Message) -> Message:
    """The operation now: the SDK's description of wait lets it return before two minutes, or the end."""
    return get(project, request)
