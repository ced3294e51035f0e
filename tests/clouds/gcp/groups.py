"""Managed instance groups: their settings, and instances by name."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from google.cloud import compute_v1

from tests.clouds.gcp.lists import listed, page
from tests.clouds.gcp.project import Project
from tests.clouds.gcp.properties import last
from tests.clouds.gcp.protocol import Fault, Message, check_name, invalid
from tests.clouds.gcp.settle import settle
from tests.clouds.gcp.state import Error, Group, Operation, Row, errors_of, stamp

_MOST_NAMES = 1000


def group_of(project: Project, request: Message) -> Group:
    """The group of a request; Fault when there is none."""
    name = request.instance_group_manager
    for group in project.groups.values():
        if group.zone == request.zone and name in (group.name, str(group.id)):
            return group
    where = f"projects/{project.id}/zones/{request.zone}/instanceGroupManagers/{name}"
    raise Fault(404, "notFound", f"The resource '{where}' was not found")


def _action(row: Row, at: datetime) -> str:
    if row.deleting is not None and row.deleting <= at:
        return "DELETING"
    if row.idle:
        return "NONE"
    if row.vm is None or row.vm.launched > at or row.vm.status_at(at) == "STAGING":
        return "RECREATING" if row.repaired else "CREATING"
    return "NONE"


def row(project: Project, group: Group) -> Message:
    """A group: its settings, sizes and state."""
    shown, now, link = compute_v1.InstanceGroupManager(group.settings), project.clock.now, project.link
    shown.id, shown.name, shown.kind = group.id, group.name, "compute#instanceGroupManager"
    shown.zone, shown.self_link = link("zones", group.zone), _link(project, group)
    shown.creation_timestamp, shown.target_size = stamp(group.created), group.target
    shown.instance_group = link("zones", group.zone, "instanceGroups", group.name)
    if not shown.versions:
        shown.versions = [compute_v1.InstanceGroupManagerVersion(instance_template=shown.instance_template)]
    counts = dict.fromkeys(("creating", "deleting", "none", "recreating"), 0)
    for each in group.rows:
        if each.left is None or each.left > now:
            counts[_action(each, now).lower()] += 1
    shown.current_actions = compute_v1.InstanceGroupManagerActionsSummary(**counts)
    shown.status.is_stable = sum(counts.values()) == counts["none"]
    if scaler := next((a for a in project.autoscalers.values() if a.target == _link(project, group)), None):
        shown.status.autoscaler = link("zones", group.zone, "autoscalers", scaler.name)
    return shown


def _link(project: Project, group: Group) -> str:
    return project.link("zones", group.zone, "instanceGroupManagers", group.name)


def get(project: Project, request: Message) -> Message:
    """One group, as it is now."""
    return row(project, group_of(project, request))


def list_(project: Project, request: Message) -> Message:
    """The groups of a zone."""
    rows = [row(project, group) for group in project.groups.values() if group.zone == request.zone]
    items, more = listed(rows, request, compute_v1.InstanceGroupManager, project.page)
    return compute_v1.InstanceGroupManagerList(items=items, next_page_token=more)


def aggregated_list(project: Project, request: Message) -> Message:
    """The groups of all zones."""
    everything = [row(project, group) for group in project.groups.values()]
    everything, more = listed(everything, request, compute_v1.InstanceGroupManager, project.page)
    items = {
        f"zones/{zone}": compute_v1.InstanceGroupManagersScopedList(
            instance_group_managers=[each for each in everything if last(each.zone) == zone]
        )
        for zone in project.zones
    }
    return compute_v1.InstanceGroupManagerAggregatedList(items=items, next_page_token=more)


def create_instances(project: Project, request: Message) -> Operation:
    """Add managed instances by name: the operation is done before any of them runs.

    A known name fails the operation with MEMBER_ALREADY_EXISTS, as cluster-autoscaler met it, and nothing is created
    (https://github.com/kubernetes/autoscaler/pull/5496, GoogleCloudPlatform/cluster-toolkit/pull/6127).
    """
    group = group_of(project, request)
    configs = request.instance_group_managers_create_instances_request_resource.instances
    names = [config.name for config in configs]
    if not 1 <= len(names) <= _MOST_NAMES:
        raise invalid("instances", len(names), f"Between 1 and {_MOST_NAMES} instances can be created.")
    for name in names:
        check_name(name, "instances.name")
    if any(config.fingerprint or config.status for config in configs):
        raise invalid("instances", names[0], "Only name and preservedState can be set.")
    known = {each.name for each in group.rows if each.left is None or each.left > project.clock.now}
    twice = sorted(name for name in set(names) if name in known or names.count(name) > 1)
    error = project.comes_late("compute.instanceGroupManagers.createInstances")
    if twice and project.refuses_known_at_once:
        where = f"projects/{project.id}/zones/{group.zone}/instances/{twice[0]}"
        raise Fault(409, "alreadyExists", f"The resource '{where}' already exists")
    if twice:
        told = f"Instance {twice[0]} is already a member of {group.name}."
        error = error or ("MEMBER_ALREADY_EXISTS", told)
    operation = _operate(project, group, "createInstances", request, error)
    if error is None:
        group.rows += [Row(name, project.clock.now) for name in names]
        group.target += len(names)
        settle(project)
    return operation


def _operate(project: Project, group: Group, method: str, request: Message, error: Error | None) -> Operation:
    kind = f"compute.instanceGroupManagers.{method}"
    operation = project.operate(kind, group, request_id=request.request_id)
    operation.errors = (error,) if error else ()
    return operation


def delete_instances(project: Project, request: Message) -> Operation:
    """Take managed instances out, and delete what they have; the target size shrinks with them.

    By URL or by name, not both (the SDK's description of the request). One that is no member fails the operation, with
    no effect, unless skipInstancesOnValidationError; a malformed URL or another zone always fails.
    """
    group, body = group_of(project, request), request.instance_group_managers_delete_instances_request_resource
    asked = list(body.instances)
    if not 1 <= len(asked) <= _MOST_NAMES:
        raise invalid("instances", len(asked), f"Between 1 and {_MOST_NAMES} instances can be deleted.")
    if len({"/" in each for each in asked}) > 1:
        raise invalid("instances", asked[0], "One cannot specify both URLs and names in a single request.")
    names = [_name(project, group, each) for each in asked]
    members = group.members()
    strangers = [name for name in names if name not in members]
    error = project.comes_late("compute.instanceGroupManagers.deleteInstances")
    if strangers and not body.skip_instances_on_validation_error:
        error = error or ("INVALID_USAGE", f"Instance {strangers[0]} is not a member of {group.name}.")
    operation = _operate(project, group, "deleteInstances", request, error)
    for name in dict.fromkeys(names) if error is None else ():
        if name in members:
            group.target -= 1
            project.drop(group, members[name])
    return operation


def _name(project: Project, group: Group, asked: str) -> str:
    if "/" not in asked:
        check_name(asked, "instances")
        return asked
    parts = re.fullmatch(r"(?:https://[^/]+/compute/v1/)?(?:projects/([^/]+)/)?zones/([^/]+)/instances/([^/]+)", asked)
    if parts is None:
        raise invalid("instances", asked, "The URL is malformed.")
    if parts.group(1) not in (None, project.id, str(project.number)) or parts.group(2) != group.zone:
        raise invalid("instances", asked, "The instance is not of the group's project and zone.")
    return parts.group(3)


def list_managed_instances(project: Project, request: Message) -> Message:
    """The managed instances, also those without an instance.

    Pages exist only in a group with listManagedInstancesResults PAGINATED; PAGELESS, which is the default, ignores
    maxResults and pageToken (the SDK's description of that enum).
    """
    group, at = group_of(project, request), project.clock.now - timedelta(seconds=project.list_lag)
    shown = [each for each in group.rows if each.since <= at and (each.left is None or each.left > at)]
    rows = [_managed(project, group, each, at) for each in sorted(shown, key=lambda each: each.name)]
    if request.filter:
        raise Fault(501, "notImplemented", "this server has no filter of managed instances")
    more = ""
    if group.settings.list_managed_instances_results == "PAGINATED":
        rows, more = page(rows, request, project.page)
    return compute_v1.InstanceGroupManagersListManagedInstancesResponse(managed_instances=rows, next_page_token=more)


def _managed(project: Project, group: Group, each: Row, at: datetime) -> Message:
    template = group.settings.instance_template
    shown = compute_v1.ManagedInstance(
        name=each.name,
        instance=project.link("zones", group.zone, "instances", each.name),
        current_action=_action(each, at),
        version=compute_v1.ManagedInstanceVersion(instance_template=template),
    )
    if each.vm is not None and (status := each.vm.status_at(at)):
        shown.id, shown.instance_status = each.vm.id, status
        if each.vm.ends is not None and status == "RUNNING":
            shown.scheduling = compute_v1.ManagedInstanceScheduling(termination_timestamp=stamp(each.vm.ends))
    elif each.attempts and each.attempts[0][0] <= at and each.vm is None and not project.hides_last_attempt:
        errors = errors_of((next(error for when, error in reversed(each.attempts) if when <= at),))
        shown.last_attempt = compute_v1.ManagedInstanceLastAttempt(
            errors=compute_v1.ManagedInstanceLastAttemptErrors(errors=errors.errors)
        )
    return shown


def list_errors(project: Project, request: Message) -> Message:
    """Every failed attempt, the newest first; of managed instances that have left, too."""
    group, kind = group_of(project, request), compute_v1.InstanceManagedByIgmError
    if request.filter or request.order_by:
        raise invalid("filter", request.filter, "The filter and orderBy query parameters are not supported.")
    found = [(at, each, error) for each in group.rows for at, error in each.attempts]
    rows = [
        kind(
            timestamp=stamp(at),
            error=compute_v1.InstanceManagedByIgmErrorManagedInstanceError(code=code, message=message),
            instance_action_details=compute_v1.InstanceManagedByIgmErrorInstanceActionDetails(
                action="RECREATING" if each.repaired else "CREATING",
                instance=project.link("zones", group.zone, "instances", each.name),
                version=compute_v1.ManagedInstanceVersion(instance_template=group.settings.instance_template),
            ),
        )
        for at, each, (code, message) in sorted(found, key=lambda one: one[0], reverse=True)
    ]
    items, more = page(rows, request, project.page)
    return compute_v1.InstanceGroupManagersListErrorsResponse(items=items, next_page_token=more)
