"""The real SDK in front of a server: each call once, and what it was answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from uuid import uuid4

from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1
from google.oauth2.credentials import Credentials

from tests.clouds.gcp.protocol import Message

ZONE = "us-central1-a"


class Clients:
    """Clients of google-cloud-compute for one server, project and zone, and its commonest calls in short."""

    def __init__(self, url: str, project: str = "test-project", zone: str = ZONE, token: str = "") -> None:
        self.url, self.where, self.token = url, {"project": project, "zone": zone}, token

    def client(self, name: str) -> Any:
        """A client by the name of its class."""
        options = ClientOptions(api_endpoint=self.url)
        credentials: Any = AnonymousCredentials()  # type: ignore[no-untyped-call]
        if self.token:
            credentials = Credentials(self.token)  # type: ignore[no-untyped-call]
        return getattr(compute_v1, name)(credentials=credentials, client_options=options, transport="rest")

    @cached_property
    def groups(self) -> Any:
        """The client of managed instance groups."""
        return self.client("InstanceGroupManagersClient")

    @cached_property
    def requests(self) -> Any:
        """The client of resize requests."""
        return self.client("InstanceGroupManagerResizeRequestsClient")

    @cached_property
    def instances(self) -> Any:
        """The client of instances."""
        return self.client("InstancesClient")

    @cached_property
    def operations(self) -> Any:
        """The client of operations of zones."""
        return self.client("ZoneOperationsClient")

    def call(self, method: Any, kind: Any, **fields: Any) -> Message:
        """One call, sent once."""
        return method(kind(**self.where, **fields), retry=None, timeout=10)

    def create(self, group: str, names: Sequence[str], request_id: str = "") -> Message:
        """createInstances."""
        body = compute_v1.InstanceGroupManagersCreateInstancesRequest(
            instances=[compute_v1.PerInstanceConfig(name=name) for name in names]
        )
        return self.call(
            self.groups.create_instances_unary,
            compute_v1.CreateInstancesInstanceGroupManagerRequest,
            instance_group_manager=group,
            request_id=request_id or str(uuid4()),
            instance_group_managers_create_instances_request_resource=body,
        )

    def withdraw(self, group: str, names: Sequence[str], *, skip: bool = False) -> Message:
        """deleteInstances."""
        body = compute_v1.InstanceGroupManagersDeleteInstancesRequest(
            instances=list(names), skip_instances_on_validation_error=skip
        )
        return self.call(
            self.groups.delete_instances_unary,
            compute_v1.DeleteInstancesInstanceGroupManagerRequest,
            instance_group_manager=group,
            request_id=str(uuid4()),
            instance_group_managers_delete_instances_request_resource=body,
        )

    def managed(self, group: str, **fields: Any) -> list[Message]:
        """listManagedInstances, all pages."""
        kind = compute_v1.ListManagedInstancesInstanceGroupManagersRequest
        return list(self.call(self.groups.list_managed_instances, kind, instance_group_manager=group, **fields))

    def states(self, group: str) -> dict[str, tuple[str, str, str]]:
        """Action, status and error of each managed instance."""
        return {
            each.name: (
                each.current_action,
                each.instance_status,
                ",".join(error.code for error in each.last_attempt.errors.errors),
            )
            for each in self.managed(group)
        }

    def errors(self, group: str) -> list[Message]:
        """listErrors, all pages."""
        kind = compute_v1.ListErrorsInstanceGroupManagersRequest
        return list(self.call(self.groups.list_errors, kind, instance_group_manager=group))

    def group(self, name: str) -> Message:
        """A group."""
        return self.call(self.groups.get, compute_v1.GetInstanceGroupManagerRequest, instance_group_manager=name)

    def bulk(self, names: Sequence[str], *, request_id: str = "", **fields: Any) -> Message:
        """bulkInsert of those names from the template ``gpu``, unless the fields say otherwise."""
        each = compute_v1.BulkInsertInstanceResourcePerInstanceProperties()
        plain: dict[str, Any] = {
            "count": len(names),
            "source_instance_template": "global/instanceTemplates/gpu",
            "per_instance_properties": {name: each for name in names},
        }
        return self.call(
            self.instances.bulk_insert_unary,
            compute_v1.BulkInsertInstanceRequest,
            request_id=request_id or str(uuid4()),
            bulk_insert_instance_resource_resource=compute_v1.BulkInsertInstanceResource(**plain | fields),
        )

    def listed(self, filter: str = "", **fields: Any) -> list[Message]:
        """instances.list, all pages."""
        return list(self.call(self.instances.list, compute_v1.ListInstancesRequest, filter=filter, **fields))

    def names(self, filter: str = "") -> list[str]:
        """The names of the instances that are listed."""
        return [each.name for each in self.listed(filter)]

    def get(self, name: str) -> Message:
        """An instance."""
        return self.call(self.instances.get, compute_v1.GetInstanceRequest, instance=name)

    def delete(self, name: str, request_id: str = "") -> Message:
        """instances.delete."""
        request_id = request_id or str(uuid4())
        kind = compute_v1.DeleteInstanceRequest
        return self.call(self.instances.delete_unary, kind, instance=name, request_id=request_id)

    def label(self, name: str, labels: Mapping[str, str], fingerprint: str) -> Message:
        """instances.setLabels."""
        body = compute_v1.InstancesSetLabelsRequest(labels=dict(labels), label_fingerprint=fingerprint)
        return self.call(
            self.instances.set_labels_unary,
            compute_v1.SetLabelsInstanceRequest,
            instance=name,
            instances_set_labels_request_resource=body,
        )

    def operation(self, name: str) -> Message:
        """An operation."""
        return self.call(self.operations.get, compute_v1.GetZoneOperationRequest, operation=name)

    def history(self, filter: str) -> list[tuple[str, str]]:
        """The type and target's name of the operations that a filter lets through."""
        rows = self.call(self.operations.list, compute_v1.ListZoneOperationsRequest, filter=filter)
        return [(row.operation_type, row.target_link.rsplit("/", 1)[1]) for row in rows]

    def order(self, group: str, name: str, *, seconds: int = 3600, **fields: Any) -> Message:
        """resizeRequests.insert."""
        body = compute_v1.InstanceGroupManagerResizeRequest(
            name=name, requested_run_duration=compute_v1.Duration(seconds=seconds), **fields
        )
        return self.call(
            self.requests.insert_unary,
            compute_v1.InsertInstanceGroupManagerResizeRequestRequest,
            instance_group_manager=group,
            instance_group_manager_resize_request_resource=body,
        )

    def ordered(self, group: str, name: str) -> Message:
        """resizeRequests.get."""
        kind = compute_v1.GetInstanceGroupManagerResizeRequestRequest
        return self.call(self.requests.get, kind, instance_group_manager=group, resize_request=name)


def codes(operation: Message) -> list[str]:
    """The codes of an operation's errors."""
    return [error.code for error in operation.error.errors]
