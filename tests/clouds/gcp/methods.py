"""Every call that a project answers, and the permissions it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.clouds.gcp import groups, instances, operations, places, resizing
from tests.clouds.gcp.project import Project
from tests.clouds.gcp.protocol import Message

_TESTED = ("autoscalers", "instanceTemplates", "instances", "reservations")
METHODS: Mapping[str, Callable[[Project, Message], Message]] = {
    "acceleratorTypes.list": places.accelerator_types,
    "autoscalers.aggregatedList": places.all_autoscalers,
    "autoscalers.list": places.autoscalers,
    "instanceGroupManagerResizeRequests.cancel": resizing.cancel,
    "instanceGroupManagerResizeRequests.delete": resizing.delete,
    "instanceGroupManagerResizeRequests.get": resizing.get,
    "instanceGroupManagerResizeRequests.insert": resizing.insert,
    "instanceGroupManagerResizeRequests.list": resizing.list_,
    "instanceGroupManagers.aggregatedList": groups.aggregated_list,
    "instanceGroupManagers.createInstances": groups.create_instances,
    "instanceGroupManagers.deleteInstances": groups.delete_instances,
    "instanceGroupManagers.get": groups.get,
    "instanceGroupManagers.list": groups.list_,
    "instanceGroupManagers.listErrors": groups.list_errors,
    "instanceGroupManagers.listManagedInstances": groups.list_managed_instances,
    "instanceTemplates.get": places.template,
    "instances.aggregatedList": instances.aggregated_list,
    "instances.bulkInsert": instances.bulk_insert,
    "instances.delete": instances.delete,
    "instances.get": instances.get,
    "instances.insert": instances.insert,
    "instances.list": instances.list_,
    "instances.setLabels": instances.set_labels,
    "instances.setScheduling": instances.set_scheduling,
    "machineTypes.aggregatedList": places.all_machine_types,
    "machineTypes.get": places.machine_type,
    "machineTypes.list": places.machine_types,
    "projects.get": places.project,
    "regionInstanceTemplates.get": places.region_template,
    "regions.get": places.region,
    "reservations.get": places.reservation,
    "reservations.list": places.reservations,
    "zoneOperations.get": operations.get,
    "zoneOperations.list": operations.list_,
    "zoneOperations.wait": operations.wait,
    **{f"{service}.testIamPermissions": places.granted for service in _TESTED},
    "zones.get": places.zone,
    "zones.list": places.zones,
}
_VERBS = {"aggregatedList": "list", "bulkInsert": "create", "insert": "create", "wait": "get"}
_GROUP_READS = frozenset({"get", "listErrors", "listManagedInstances"})


def permissions(method: str) -> tuple[str, ...]:
    """What IAM must grant for a method: the pages of the REST reference, section "IAM permissions".

    A resize request needs the rights of its group
    (https://cloud.google.com/compute/docs/instance-groups/manage-resize-requests-mig). Creating with labels needs
    ``setLabels`` too, from a template also its use.
    """
    service, verb = method.split(".")
    if verb == "testIamPermissions":
        return ()
    if service == "instanceGroupManagers" and verb not in ("list", "aggregatedList"):
        return (f"compute.{service}.{'get' if verb in _GROUP_READS else 'update'}",)
    if service == "instanceGroupManagerResizeRequests":
        return (f"compute.instanceGroupManagers.{'get' if verb in ('get', 'list') else 'update'}",)
    service = "instanceTemplates" if service == "regionInstanceTemplates" else service
    return (f"compute.{service}.{_VERBS.get(verb, verb)}",)
