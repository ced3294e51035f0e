"""Scale sets in Uniform and Flexible orchestration, by azure-mgmt-compute."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from charterer.clouds.azure import AzureScaleSet
from charterer.domain.ids import InstanceId, PoolId
from charterer.domain.order import Ask, Refusal, Reply
from charterer.domain.pool import Pool
from charterer.domain.time import Instant, after
from charterer.providers.azure.calls import Calls, Place, launch_error, meaning_of, refusal
from charterer.providers.azure.listing import LAG_SECONDS, Group, GroupState, ListedVm, listed, sold_otherwise
from charterer.providers.azure.permissions import Call
from charterer.providers.codes import CodeMeaning, LaunchError, LaunchRefused
from charterer.providers.errors import Busy, InvalidRequest, NotFoundInCloud, ProviderError, WouldTerminate
from charterer.providers.provider import NodeTemplate

# Autoscale settings of Azure Monitor. They would add or end VMs of a scale set.


_SECONDS: Final = 300.0
"""Seconds for which a resource group's settings are used before they are read again."""
_VERSION: Final = "2022-10-01"


class Autoscale:
    """Reads the autoscale settings of resource groups. ``clock``: seconds of a clock that never goes back."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._known: dict[str, tuple[float, Sequence[tuple[str, str]]]] = {}

    async def problems(self, pool: Pool, state: GroupState) -> Sequence[str]:
        """Sentences on the enabled autoscale settings of the set."""
        group = state.id.partition("/providers/")[0]
        known = self._known.get(group.lower())
        if known is None or self._clock() - known[0] > _SECONDS:
            url = f"{group}/providers/Microsoft.Insights/autoscalesettings"
            answer = await self._calls(pool.id, Call.LIST_AUTOSCALE, {"url": url, "query": {"api-version": _VERSION}})
            enabled = [row for row in answer.body if row["properties"].get("enabled", True)]
            targets = [(row["name"], str(row["properties"].get("targetResourceUri", "")).lower()) for row in enabled]
            known = self._known[group.lower()] = self._clock(), targets
        names = [name for name, target in known[1] if target == state.id.lower()]
        return [f"autoscale setting {name} changes its capacity: disable or delete it" for name in names]


# How a scale set grows and shrinks: each change tests the version of the set, the capacity is never set below the
# number of VMs, and the code finds out why a set did not grow.
#
# Azure only counts VMs. It does not say for which order a VM is. If the capacity is set below the number of VMs, Azure
# itself chooses which VM to end, so Charterer never does this. A VM that found no host stays in the set with the state
# Failed. The code in its instance view is the record of the failed operation (docs/development/adr/0022).


_log = logging.getLogger(__name__)

_TRIES: Final = 3
"""Number of attempts to change a set that other programs change at the same time."""
_CHANGED: Final = frozenset({"PreconditionFailed", "EtagMismatch"})
_RUNS: Final = frozenset({"InProgress", "Running", "Accepted", "Updating", "Scaling", "Creating"})
_SHORT: Final = LaunchError(
    "ProvisioningFailed", "no operation of the scale set runs, and it has fewer VMs than it wants"
)


class Scaling:
    """Changes the scale sets of pools, and finds out why growth was refused."""

    def __init__(self, calls: Calls, autoscale: Autoscale) -> None:
        self._calls = calls
        self._autoscale = autoscale
        self._steady: dict[PoolId, tuple[object, Instant]] = {}
        """The version of each pool's set, and since when the set has had this version."""
        self._operations: dict[PoolId, str] = {}
        """The URL of the operation of each set's last growth, while the operation may be under way."""
        self._failed: dict[PoolId, LaunchError] = {}
        """Why the last growth of each set failed, by its operation."""

    async def read(self, pool: Pool, group: Group) -> GroupState:
        """Read the set's present state."""
        state = await group.read(pool)
        version = state.etag, state.capacity, state.updating
        if self._steady.get(pool.id, (None,))[0] != version:
            self._steady[pool.id] = version, state.asked
        return state

    async def ask(self, pool: Pool, group: Group, ask: Ask) -> Reply:
        """Raise the capacity to ``at_least`` if it is lower. If it is called again with the same orders, nothing
        changes.

        Raises InvalidRequest if the set would end or add nodes by itself. Raises Busy while other programs keep
        changing the set. Raises Busy also while the list shows more VMs than the set wants, because ``at_least`` may
        count a VM that is gone.
        """
        for tries_left in reversed(range(_TRIES)):
            state = await self.read(pool, group)
            if wrong := [*state.wrong, *await self._autoscale.problems(pool, state)]:
                raise InvalidRequest(pool.id, "ask", "UnfitScaleSet", "; ".join(wrong))
            if state.wanted >= ask.at_least:
                return Reply()
            if state.capacity < len(state.alive):
                message = f"the list shows {len(state.alive)} VMs, and the scale set wants {state.capacity}"
                raise Busy(pool.id, "ask", "MoreListedThanWanted", message)
            try:
                operation = await group.set_capacity(pool, state, ask.at_least)
            except Busy as error:
                if not tries_left or error.code not in _CHANGED:
                    raise
            except LaunchRefused as refused:
                place = place_of(pool, state)
                return Reply(
                    refused={o.token: refusal(pool.id, refused.error, place, refused.at, o.token) for o in ask.orders}
                )
            else:
                self._failed.pop(pool.id, None)
                self._operations[pool.id] = operation
                return Reply()
        raise AssertionError("unreachable: the last try returns or raises")

    async def withdraw(self, pool: Pool, group: Group, keep: int) -> None:
        """Delete the VMs that found no host. If there are none, lower the capacity to ``keep``. Each call makes one
        change.

        Raises Busy while an operation runs, because the operation may still bring VMs. The capacity is lowered only
        once lists must show every VM. It is never lowered below the number of VMs, because Azure would then choose a VM
        to end.
        """
        state = await self.read(pool, group)
        if state.wanted <= keep and not state.hostless:
            return
        if state.updating:
            raise Busy(pool.id, "withdraw", "Updating", "a change of the scale set runs, which may still bring VMs")
        if state.hostless:
            await self._delete(pool, group, state, [vm.id for vm in state.hostless])
            return
        if len(state.alive) > keep:
            there = f"{len(state.alive)} VMs are there, and {keep} are to be kept"
            raise WouldTerminate(pool.id, "withdraw", "WouldTerminate", there)
        lowest = max(keep, len(state.vms))
        if lowest >= state.capacity:
            return
        if not self._is_steady(pool, state):
            message = f"the scale set changed less than {LAG_SECONDS:.0f} s ago: VMs may have come that no list shows"
            raise Busy(pool.id, "withdraw", "JustChanged", message)
        await group.set_capacity(pool, state, lowest)

    async def terminate(self, pool: Pool, group: Group, instance: InstanceId) -> None:
        """Delete the VM if it is in the pool's scale set now. A VM that is not in the set has ended."""
        state = await self.read(pool, group)
        await self._delete(pool, group, state, [instance])

    async def refusals(self, pool: Pool, state: GroupState) -> Sequence[Refusal]:
        """Why the set now has fewer VMs than it wants. A VM that found no host stays in the set until it is deleted."""
        await self._poll(pool)
        place = place_of(pool, state)
        if state.hostless:
            errors = dict.fromkeys(vm.failure for vm in state.hostless if vm.failure is not None)
            return [refusal(pool.id, error, place, state.asked) for error in errors]
        if state.updating or state.capacity <= len(state.vms):
            if not state.updating:
                self._failed.pop(pool.id, None)
            return ()
        error = self._failed.get(pool.id)
        if error is None and not self._is_steady(pool, state):
            return ()
        return [refusal(pool.id, error or _SHORT, place, state.asked)]

    async def _delete(self, pool: Pool, group: Group, state: GroupState, doomed: Sequence[InstanceId]) -> None:
        vms = [vm for vm in state.vms if vm.id in doomed and not vm.deleting]
        if not vms:
            return
        if group.recounts and not state.updating:
            await self._count_again(pool, group, state)
        try:
            await group.delete(pool, state, vms)
        # the code does not show whether a VM is gone or is being deleted
        except (NotFoundInCloud, InvalidRequest) as error:
            there = {vm.id for vm in (await self.read(pool, group)).vms if not vm.deleting}
            if there.intersection(doomed):
                raise
            _log.info("%s", error)

    async def _count_again(self, pool: Pool, group: Group, state: GroupState) -> None:
        """Set the capacity to the number of VMs before a VM is deleted. Raises Busy until lists must show all VMs.

        Other programs change the scale set behind a node pool, and Azure takes spot VMs back, so the capacity may be
        wrong.
        """
        there, steady = len(state.alive) + len(state.hostless), self._is_steady(pool, state)
        if state.capacity == there or (state.capacity > there and not steady):
            return
        if steady:
            await group.set_capacity(pool, state, there)
        message = f"the node pool wants {state.capacity} VMs, and {there} are there: deletions wait until these agree"
        raise Busy(pool.id, "delete", "OtherCount", message)

    async def _poll(self, pool: Pool) -> None:
        """Read how the last growth ended. If this process never reads that, the VMs' instance views still show it."""
        url = self._operations.get(pool.id)
        if not url:
            return
        try:
            body = (await self._calls(pool.id, Call.GET_OPERATION, {"url": url})).body
        except ProviderError as error:
            _log.info("%s", error)
            self._operations.pop(pool.id, None)
            return
        if body.get("status") in _RUNS:
            return
        self._operations.pop(pool.id, None)
        if body.get("status") != "Succeeded":
            told = launch_error(body.get("error") or {})
            known = meaning_of(told.code, told.message)
            if known is None or known.meaning is not CodeMeaning.SUMMARY:
                self._failed[pool.id] = told

    def _is_steady(self, pool: Pool, state: GroupState) -> bool:
        """Whether lists must show all VMs that the set's last change brought."""
        return state.asked >= after(self._steady[pool.id][1], LAG_SECONDS)


def place_of(pool: Pool, state: GroupState) -> Place:
    """The place in which the set would launch VMs."""
    return Place(state.size, pool.capacity_type, pool.cloud)


# What a scale set or a node pool of AKS declares about its nodes.
#
# The tags are those that the cluster autoscaler reads:
# https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/cloudprovider/azure


_TEMPLATE: Final = "k8s.io_cluster-autoscaler_node-template"


def template_of_set(row: Mapping[str, Any]) -> NodeTemplate:
    """The template in the tags of a scale set.

    In these tags, a slash in a name is written as an underscore, and an underscore as ~2.
    """
    tags: Mapping[str, str] = row.get("tags") or {}
    return NodeTemplate(_under("label", tags), tuple(_under("taint", tags).items()), _under("resources", tags))


def _under(kind: str, tags: Mapping[str, str]) -> Mapping[str, str]:
    beginning = f"{_TEMPLATE}_{kind}_"
    return {
        key.removeprefix(beginning).replace("_", "/").replace("~2", "_"): value or ""
        for key, value in tags.items()
        if key.startswith(beginning)
    }


def template_of_pool(properties: Mapping[str, Any]) -> NodeTemplate:
    """The template of a node pool's nodes: its labels and taints, those that AKS gives spot nodes, and its mode."""
    labels = {key: value or "" for key, value in (properties.get("nodeLabels") or {}).items()}
    mode = str(properties.get("mode", "User")).lower()
    taints = [_parted(taint) for taint in properties.get("nodeTaints") or ()]
    return NodeTemplate({**labels, "kubernetes.azure.com/mode": mode}, tuple(taints))


def _parted(taint: str) -> tuple[str, str]:
    """The key, and ``VALUE:EFFECT``, of ``KEY=VALUE:EFFECT`` or ``KEY:EFFECT``."""
    key, equals, rest = taint.partition("=")
    if equals:
        return key, rest
    key, _, effect = taint.partition(":")
    return key, f":{effect}"


_ONE_PLACEMENT_GROUP: Final = 100
"""The most VMs of a scale set that is confined to one placement group.

Source: the page virtual-machine-scale-sets-placement-groups of Microsoft's documentation.
"""
_FIGHTING: Final = {
    "automaticRepairsPolicy": "replaces nodes that jobs run on",
    "spotRestorePolicy": "makes nodes anew that nobody asked for",
    "resiliencyPolicy.automaticZoneRebalancingPolicy": "moves nodes that jobs run on",
}
"""Policies that must not be enabled. For each, what Azure would do because of it."""


class ScaleSets(Group):
    """The scale set of a pool with spec.azure.scaleSet."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def read(self, pool: Pool) -> GroupState:
        """The set and its VMs. Raises NotFoundInCloud if there is no such set."""
        cloud = scale_set_of(pool)
        names = {"resource_group_name": cloud.resource_group, "vm_scale_set_name": cloud.scale_set}
        try:
            answer = await self._calls(pool.id, Call.GET_SET, names)
        except NotFoundInCloud as error:
            message = f"spec.azure.scaleSet: {cloud.resource_group} has no scale set {cloud.scale_set!r}"
            raise NotFoundInCloud(pool.id, error.call, error.code, message) from error
        row = answer.body
        location = str(row["location"]).lower()
        flexible = row["properties"].get("orchestrationMode") == "Flexible"
        names = {"resource_group_name": cloud.resource_group}
        if flexible:
            names["filter"] = f"'virtualMachineScaleSet/id' eq '{row['id']}'"
            rows = await self._calls(pool.id, Call.LIST_FLEXIBLE_VMS, {**names, "expand": "instanceView"})
        else:
            rows = await uniform_vms(self._calls, pool.id, cloud.resource_group, cloud.scale_set)
        properties = row["properties"]
        profile = properties.get("virtualMachineProfile") or {}
        reserved = (profile.get("capacityReservation") or {}).get("capacityReservationGroup") or {}
        mine = str(row["id"]).lower()
        return GroupState(
            id=row["id"],
            etag=row["etag"],
            capacity=int(row["sku"]["capacity"]),
            updating=properties["provisioningState"] not in ("Succeeded", "Failed", "Canceled"),
            failed=properties["provisioningState"] == "Failed",
            size=row["sku"]["name"],
            zones=[f"{location}-{zone}" for zone in row.get("zones") or ()],
            most=_ONE_PLACEMENT_GROUP if properties.get("singlePlacementGroup") else None,
            reservation=reserved.get("id", ""),
            wrong=problems_of(pool, cloud, row),
            vms=[listed(each, location) for each in rows.body if not flexible or _set_of(each).lower() == mine],
            asked=min(answer.at, rows.at),
            body=row,
            nodes=template_of_set(row),
        )

    async def set_capacity(self, pool: Pool, state: GroupState, capacity: int) -> str:
        """PATCH the capacity and nothing else."""
        cloud = scale_set_of(pool)
        params: dict[str, Any] = {
            "resource_group_name": cloud.resource_group,
            "vm_scale_set_name": cloud.scale_set,
            "parameters": {"sku": {**state.body["sku"], "capacity": capacity}},
            "etag": state.etag,
        }
        answer = await self._calls(pool.id, Call.UPDATE_SET, params)
        return answer.headers.get("Azure-AsyncOperation", "")

    async def delete(self, pool: Pool, state: GroupState, vms: Sequence[ListedVm]) -> str:
        """Delete those VMs. In a Uniform set the call has their numbers, in a Flexible set their names."""
        cloud = scale_set_of(pool)
        params: dict[str, Any] = {
            "resource_group_name": cloud.resource_group,
            "vm_scale_set_name": cloud.scale_set,
            "vm_instance_i_ds": {"instanceIds": [vm.key for vm in vms]},
        }
        answer = await self._calls(pool.id, Call.DELETE_INSTANCES, params)
        return answer.headers.get("Azure-AsyncOperation", "")


async def uniform_vms(calls: Calls, pool: PoolId, resource_group: str, scale_set: str) -> Any:
    """The VMs of a Uniform set, with their instance views."""
    names = {"resource_group_name": resource_group, "virtual_machine_scale_set_name": scale_set}
    return await calls(pool, Call.LIST_UNIFORM_VMS, {**names, "expand": "instanceView"})


def scale_set_of(pool: Pool) -> AzureScaleSet:
    """The pool's scale set."""
    if not isinstance(pool.cloud, AzureScaleSet):
        raise InvalidRequest(pool.id, "spec.azure", "NoScaleSet", "this is no pool with a scale set of Azure")
    return pool.cloud


def _set_of(row: Mapping[str, Any]) -> str:
    """The ARM id of a VM's scale set.

    The id is compared, because Azure may ignore a filter and then list VMs of other people.
    """
    return str((row["properties"].get("virtualMachineScaleSet") or {}).get("id", ""))


def problems_of(pool: Pool, cloud: AzureScaleSet, row: Mapping[str, Any]) -> Sequence[str]:
    """Settings of a set by which it adds or ends nodes by itself, is billed for what nobody uses, or sells another kind
    of node.
    """
    properties = row["properties"]
    profile = properties.get("virtualMachineProfile") or {}
    wrong = []
    if str(row["location"]).lower() != cloud.location:
        wrong.append(f"it is in {row['location']}, but spec.azure.location is {cloud.location}")
    wrong += sold_otherwise(pool, profile.get("priority"), profile.get("evictionPolicy"))
    if properties.get("priorityMixPolicy"):
        wrong.append("it has a priorityMixPolicy, so that prices of its nodes differ: make a set for each priority")
    if properties.get("skuProfile"):
        wrong.append("it has a skuProfile, so that its nodes differ: make a set of one size")
    flexible = properties.get("orchestrationMode") == "Flexible"
    if not flexible and properties.get("overprovision", True):
        wrong.append("overprovision is true: set it to false, or Azure makes more nodes than asked and ends some")
    for setting, effect in _FIGHTING.items():
        if (_at(properties, setting) or {}).get("enabled"):
            wrong.append(f"{setting} is enabled: disable it, or Azure {effect}")
    mode = (properties.get("upgradePolicy") or {}).get("mode", "Manual")
    if mode != "Manual":
        wrong.append(f"upgradePolicy.mode is {mode}: set it to Manual, or Azure makes nodes anew that jobs run on")
    return wrong


def _at(properties: Mapping[str, Any], path: str) -> Any:
    found: Any = properties
    for key in path.split("."):
        found = (found or {}).get(key)
    return found
