"""What the cloud does by itself as time goes by: time limits, repairs, attempts to create."""

from __future__ import annotations

from datetime import timedelta

from tests.clouds.gcp.project import SYSTEM, Project
from tests.clouds.gcp.properties import last
from tests.clouds.gcp.protocol import Message
from tests.clouds.gcp.state import Error, Group, ResizeRequest, Row, Vm


def settle(project: Project) -> None:
    """Bring the project to the time of its clock."""
    now = project.clock.now
    for vm in list(project.instances.values()):
        if vm.ends is not None and vm.ends <= now and vm.ended is None:
            _reach_limit(project, vm)
    for group in project.groups.values():
        for row in group.rows:
            _see_failure(project, group, row)
        for request in group.requests.values():
            if request.state == "ACCEPTED":
                _try_request(project, group, request)
        for row in group.rows:
            if row.vm is None and row.deleting is None and not row.idle:
                _try_row(project, group, row)


def _reach_limit(project: Project, vm: Vm) -> None:
    """End an instance at its limit.

    A group deletes it (https://cloud.google.com/compute/docs/instance-groups/limit-vm-runtime-in-migs). No page says
    the type of this operation: here it is that of an ordinary deletion or stop, by the system.
    """
    assert vm.ends is not None
    group = next((g for g in project.groups.values() if (g.zone, g.name) == (vm.zone, vm.group)), None)
    deletes = bool(vm.doomed or group) or vm.properties.scheduling.instance_termination_action == "DELETE"
    project.stop(vm, vm.ends, deletes=deletes)
    operation = project.operate("delete" if deletes else "stop", vm, user=SYSTEM, done=vm.ends)
    operation.began, operation.told = vm.ends, vm.doomed
    row = group.row_of(vm) if group is not None else None
    if group is not None and row is not None and row.deleting is None:
        row.deleting = row.left = vm.gone
        group.target -= 1


def _see_failure(project: Project, group: Group, row: Row) -> None:
    """Notice that an instance of a group is gone or stopped though nobody asked the group.

    https://cloud.google.com/compute/docs/instance-groups/working-with-managed-instances: what is deleted beside the
    group is made again, unless defaultActionOnFailure is DO_NOTHING.
    """
    vm, now = row.vm, project.clock.now
    if vm is None or row.deleting is not None or row.idle or vm.ended is None or vm.ended > now:
        return
    if group.repairs:
        operation = project.operate("compute.instances.repair.recreateInstance", vm, user=SYSTEM)
        operation.told = "Instance eligible for repair: instance should be RUNNING, but it doesn't exist"
        vm.gone = vm.gone or now
        row.vm, row.repaired = None, True
    elif vm.gone is None or project.keeps_failed:
        row.idle = True
    else:
        row.deleting = row.left = vm.gone
        group.target -= 1


def properties_of(project: Project, group: Group) -> tuple[Message, str]:
    """What the group makes its instances from, and the link of that template."""
    link = group.settings.instance_template
    region = link.split("/regions/")[1].split("/")[0] if "/regions/" in link else ""
    return project.templates[region, last(link)].properties, link


def _try_row(project: Project, group: Group, row: Row) -> None:
    """Try to create a managed instance, again and again: ManagedInstance.currentAction in the SDK."""
    now = project.clock.now
    if row.attempts and row.attempts[-1][0] + timedelta(seconds=project.retry_seconds) > now:
        return
    properties, template = properties_of(project, group)
    error: Error | None = None
    if project.named(group.zone, row.name) is not None:
        where = f"projects/{project.id}/zones/{group.zone}/instances/{row.name}"
        error = "RESOURCE_ALREADY_EXISTS", f"The resource '{where}' already exists"
    error = error or project.refused(properties, group.zone)
    if error is None:
        row.vm = project.launch(row.name, group.zone, properties, template=template, group=group.name)
    elif not row.attempts or row.attempts[-1] != (now, error):
        row.attempts.append((now, error))


def _try_request(project: Project, group: Group, request: ResizeRequest) -> None:
    """Fulfil a resize request wholly or not at all."""
    properties, template = properties_of(project, group)
    request.attempt = project.refused(properties, group.zone, len(request.names))
    if request.attempt is not None:
        return
    for name in request.names:
        row = Row(name, project.clock.now, request.name)
        row.vm = project.launch(
            name, group.zone, properties, template=template, group=group.name, seconds=request.seconds
        )
        group.rows.append(row)
    group.target += len(request.names)
    request.state = "SUCCEEDED"
