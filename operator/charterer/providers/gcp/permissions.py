"""The calls of Compute Engine and the rights that each needs. The role in the docs is made from them.

Source of the rights: the page of each method in the REST reference, section "Authorization".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final


class For(Enum):
    """The kinds of pool that need a right."""

    ALL = "every pool"
    GROUP = "pools with spec.gcp.instanceGroup"
    FLEX = "pools with spec.gcp.instanceGroup and runSeconds"
    TEMPLATE = "pools with spec.gcp.instanceTemplate"
    RESERVATION = "pools with spec.gcp.reservation"


class Call(Enum):
    """A call: its service, its method, and whether it changes anything."""

    CREATE_INSTANCES = ("instanceGroupManagers", "createInstances", True)
    DELETE_INSTANCES = ("instanceGroupManagers", "deleteInstances", True)
    GET_GROUP = ("instanceGroupManagers", "get", False)
    FIND_GROUPS = ("instanceGroupManagers", "aggregatedList", False)
    LIST_MEMBERS = ("instanceGroupManagers", "listManagedInstances", False)
    LIST_ERRORS = ("instanceGroupManagers", "listErrors", False)
    REQUEST = ("instanceGroupManagerResizeRequests", "insert", True)
    CANCEL_REQUEST = ("instanceGroupManagerResizeRequests", "cancel", True)
    LIST_REQUESTS = ("instanceGroupManagerResizeRequests", "list", False)
    BULK_INSERT = ("instances", "bulkInsert", True)
    DELETE = ("instances", "delete", True)
    GET_INSTANCE = ("instances", "get", False)
    LIST_INSTANCES = ("instances", "list", False)
    GET_OPERATION = ("zoneOperations", "get", False)
    LIST_OPERATIONS = ("zoneOperations", "list", False)
    GET_TEMPLATE = ("instanceTemplates", "get", False)
    GET_REGION_TEMPLATE = ("regionInstanceTemplates", "get", False)
    GET_TYPE = ("machineTypes", "get", False)
    GET_RESERVATION = ("reservations", "get", False)
    GET_PROJECT = ("projects", "get", False)
    GET_REGION = ("regions", "get", False)

    def __init__(self, service: str, method: str, mutation: bool) -> None:
        self.service = service
        self.method = method
        self.mutation = mutation

    @property
    def full_name(self) -> str:
        """Service and method, as the REST reference writes them."""
        return f"{self.service}.{self.method}"

    @property
    def python_name(self) -> str:
        """The method's name in the SDK. If a method starts an operation, this variant returns the operation itself."""
        name = snake_case(self.method)
        return f"{name}_unary" if self.mutation else name


def snake_case(name: str) -> str:
    """The SDK's form of a name of the REST reference."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_CREATE: Final = (
    "compute.disks.create",
    "compute.instanceTemplates.useReadOnly",
    "compute.instances.create",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setServiceAccount",
    "compute.instances.setTags",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
)

RIGHTS: Final[Mapping[Call, tuple[For, tuple[str, ...]]]] = {
    Call.CREATE_INSTANCES: (For.GROUP, ("compute.instanceGroupManagers.update",)),
    Call.DELETE_INSTANCES: (For.GROUP, ("compute.instanceGroupManagers.update",)),
    Call.GET_GROUP: (For.GROUP, ("compute.instanceGroupManagers.get",)),
    Call.FIND_GROUPS: (For.GROUP, ("compute.instanceGroupManagers.list",)),
    Call.LIST_MEMBERS: (For.GROUP, ("compute.instanceGroupManagers.get",)),
    Call.LIST_ERRORS: (For.GROUP, ("compute.instanceGroupManagers.get",)),
    Call.REQUEST: (For.FLEX, ("compute.instanceGroupManagers.update",)),
    Call.CANCEL_REQUEST: (For.FLEX, ("compute.instanceGroupManagers.update",)),
    Call.LIST_REQUESTS: (For.FLEX, ("compute.instanceGroupManagers.get",)),
    Call.BULK_INSERT: (For.TEMPLATE, _CREATE),
    Call.DELETE: (For.ALL, ("compute.instances.delete",)),
    Call.GET_INSTANCE: (For.ALL, ("compute.instances.get",)),
    Call.LIST_INSTANCES: (For.ALL, ("compute.instances.list",)),
    Call.GET_OPERATION: (For.ALL, ("compute.zoneOperations.get",)),
    Call.LIST_OPERATIONS: (For.ALL, ("compute.zoneOperations.list",)),
    Call.GET_TEMPLATE: (For.ALL, ("compute.instanceTemplates.get",)),
    Call.GET_REGION_TEMPLATE: (For.ALL, ("compute.instanceTemplates.get",)),
    Call.GET_TYPE: (For.ALL, ("compute.machineTypes.get",)),
    Call.GET_RESERVATION: (For.RESERVATION, ("compute.reservations.get",)),
    Call.GET_PROJECT: (For.ALL, ("compute.projects.get",)),
    Call.GET_REGION: (For.ALL, ("compute.regions.get",)),
}
"""The rights that each call needs, and the kinds of pools for which it needs them. A call that is not here cannot be
made.

Whoever makes instances from a template also needs the right to act as the instances' service account. That right is
given on that account alone, and not with this role. The instances of a group are made by Google's own service account.
"""


def rights(kinds: Iterable[For]) -> list[str]:
    """The permissions that these kinds of pool need, in order, without repetition."""
    wanted = frozenset(kinds)
    return sorted({right for kind, those in RIGHTS.values() if kind in wanted for right in those})


def role(kinds: Iterable[For]) -> str:
    """The smallest custom role for those kinds of pool, as the YAML that ``gcloud iam roles create --file`` reads."""
    lines = ["title: Charterer", "stage: GA", "includedPermissions:", *(f"- {right}" for right in rights(kinds))]
    return "\n".join(lines) + "\n"
