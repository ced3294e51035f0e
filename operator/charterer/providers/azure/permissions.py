"""The calls of Azure and the rights that each needs. The roles in docs/clouds/azure.md are made from them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Final


class For(Enum):
    """The kinds of pool that need a right."""

    ALL = "every pool"
    SET = "pools with spec.azure.scaleSet"
    FLEXIBLE = "pools with spec.azure.scaleSet in Flexible orchestration"
    AKS = "pools with spec.azure.aks"
    RESERVED = "pools whose scale set names a capacity reservation group"


class At(Enum):
    """The scope at which a role with a right has to be assigned."""

    GROUP = "the resource group that spec.azure.resourceGroup names"
    NODES = "the resource group of the nodes of an AKS cluster"
    SUBSCRIPTION = "the subscription"


@dataclass(frozen=True, slots=True)
class RoleAction:
    """An action of Azure's roles, the scope at which it is needed, and the kinds of pool that need it."""

    action: str
    at: At
    kind: For


class Call(Enum):
    """A call: its client, its group of operations and its method there, and whether it changes anything.

    A call without a group is a plain request to a path. Its ``method`` then only describes it.
    """

    GET_SET = ("compute", "virtual_machine_scale_sets", "get", False)
    LIST_SETS = ("compute", "virtual_machine_scale_sets", "list", False)
    UPDATE_SET = ("compute", "virtual_machine_scale_sets", "begin_update", True)
    DELETE_INSTANCES = ("compute", "virtual_machine_scale_sets", "begin_delete_instances", True)
    LIST_UNIFORM_VMS = ("compute", "virtual_machine_scale_set_vms", "list", False)
    LIST_FLEXIBLE_VMS = ("compute", "virtual_machines", "list", False)
    GET_CLUSTER = ("containers", "managed_clusters", "get", False)
    LIST_POOLS = ("containers", "agent_pools", "list", False)
    UPDATE_POOL = ("containers", "agent_pools", "begin_create_or_update", True)
    DELETE_MACHINES = ("containers", "agent_pools", "begin_delete_machines", True)
    LIST_SKUS = ("compute", "resource_skus", "list", False)
    LIST_USAGE = ("compute", "usage", "list", False)
    LIST_RESERVATIONS = ("compute", "capacity_reservations", "list_by_capacity_reservation_group", False)
    GET_RESERVATION = ("compute", "capacity_reservations", "get", False)
    GET_OPERATION = ("compute", "", "operation", False)
    LIST_PERMISSIONS = ("compute", "", "permissions", False)
    LIST_AUTOSCALE = ("compute", "", "autoscale settings", False)
    LIST_PRICES = ("prices", "", "retail prices", False)

    def __init__(self, client: str, group: str, method: str, mutation: bool) -> None:
        self.client = client
        self.group = group
        self.method = method
        self.mutation = mutation

    @property
    def full_name(self) -> str:
        """Group and method, as the SDK writes them."""
        return f"{self.group}.{self.method.removeprefix('begin_')}" if self.group else self.method


_SETS = "Microsoft.Compute/virtualMachineScaleSets"
_VMS = "Microsoft.Compute/virtualMachines"
_RESERVATIONS = "Microsoft.Compute/capacityReservationGroups/capacityReservations"
_CLUSTERS = "Microsoft.ContainerService/managedClusters"
_POOLS = f"{_CLUSTERS}/agentPools"


def _anywhere(action: str, kind: For = For.ALL) -> tuple[RoleAction, ...]:
    return (RoleAction(action, At.SUBSCRIPTION, kind),)


RIGHTS: Final[Mapping[Call, tuple[RoleAction, ...]]] = {
    Call.GET_SET: (RoleAction(f"{_SETS}/read", At.GROUP, For.SET),),
    Call.LIST_SETS: (RoleAction(f"{_SETS}/read", At.NODES, For.AKS),),
    Call.UPDATE_SET: (RoleAction(f"{_SETS}/write", At.GROUP, For.SET),),
    Call.DELETE_INSTANCES: (
        RoleAction(f"{_SETS}/delete/action", At.GROUP, For.SET),
        RoleAction(f"{_VMS}/delete", At.GROUP, For.FLEXIBLE),
    ),
    Call.LIST_UNIFORM_VMS: (
        RoleAction(f"{_SETS}/virtualMachines/read", At.GROUP, For.SET),
        RoleAction(f"{_SETS}/virtualMachines/read", At.NODES, For.AKS),
    ),
    Call.LIST_FLEXIBLE_VMS: (RoleAction(f"{_VMS}/read", At.GROUP, For.FLEXIBLE),),
    Call.GET_CLUSTER: (RoleAction(f"{_CLUSTERS}/read", At.GROUP, For.AKS),),
    Call.LIST_POOLS: (RoleAction(f"{_POOLS}/read", At.GROUP, For.AKS),),
    Call.UPDATE_POOL: (RoleAction(f"{_POOLS}/write", At.GROUP, For.AKS),),
    Call.DELETE_MACHINES: (RoleAction(f"{_POOLS}/deleteMachines/action", At.GROUP, For.AKS),),
    Call.LIST_SKUS: _anywhere("Microsoft.Compute/skus/read"),
    Call.LIST_USAGE: _anywhere("Microsoft.Compute/locations/usages/read"),
    Call.LIST_RESERVATIONS: _anywhere(f"{_RESERVATIONS}/read", For.RESERVED),
    Call.GET_RESERVATION: _anywhere(f"{_RESERVATIONS}/read", For.RESERVED),
    Call.GET_OPERATION: (
        *_anywhere("Microsoft.Compute/locations/operations/read", For.SET),
        *_anywhere("Microsoft.ContainerService/locations/operations/read", For.AKS),
    ),
    Call.LIST_PERMISSIONS: (RoleAction("Microsoft.Authorization/permissions/read", At.GROUP, For.ALL),),
    Call.LIST_AUTOSCALE: (
        RoleAction("Microsoft.Insights/autoscalesettings/read", At.GROUP, For.SET),
        RoleAction("Microsoft.Insights/autoscalesettings/read", At.NODES, For.AKS),
    ),
    Call.LIST_PRICES: (),  # anybody may read prices
}
"""The rights that each call needs. A call that is not here cannot be made."""


def actions(kinds: Iterable[For], at: At) -> Collection[str]:
    """The actions that those kinds of pool need at that scope, sorted."""
    wanted = frozenset(kinds)
    every = (right for rights in RIGHTS.values() for right in rights)
    return sorted({right.action for right in every if right.kind in wanted and right.at is at})


def role(kinds: Iterable[For], at: At) -> str:
    """The smallest custom role for those kinds of pool at that scope, as JSON. A person has to fill in the words in
    capitals.
    """
    name, group = {
        At.GROUP: ("charterer", "/resourceGroups/RESOURCE_GROUP"),
        At.NODES: ("charterer-nodes", "/resourceGroups/NODE_RESOURCE_GROUP"),
        At.SUBSCRIPTION: ("charterer-subscription", ""),
    }[at]
    definition: dict[str, Any] = {
        "Name": name,
        "Description": f"What Charterer does in {at.value}",
        "Actions": list(actions(kinds, at)),
        "NotActions": [],
        "AssignableScopes": [f"/subscriptions/SUBSCRIPTION{group}"],
    }
    return json.dumps(definition, indent=2)


def missing(needed: Iterable[str], granted: Iterable[Mapping[str, Any]]) -> Collection[str]:
    """The needed actions that no row of the list of permissions grants. A row grants its actions except its
    notActions.
    """
    rows = list(granted)
    return [action for action in needed if not any(_grants(row, action) for row in rows)]


def _grants(row: Mapping[str, Any], action: str) -> bool:
    def among(patterns: Iterable[str]) -> bool:
        return any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)

    return among(row.get("actions") or ()) and not among(row.get("notActions") or ())
