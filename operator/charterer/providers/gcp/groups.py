"""Nodes of Google Cloud in a zonal managed instance group: its members by name, and resize requests (flex-start)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charterer.clouds.gcp import GcpGroup
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Refusal, RefusalKind, Reply
from charterer.domain.pool import Pool
from charterer.domain.time import Instant, parse_instant
from charterer.providers.codes import AlreadyThere, CodeMeaning, LaunchError, LaunchRefused
from charterer.providers.errors import InvalidRequest, NotFoundInCloud
from charterer.providers.gcp.calls import Answer, Calls, Json, Lack, SdkError, call_error, meaning_of, refusal
from charterer.providers.gcp.listing import (
    OperationHistory,
    errors_in,
    instance_name,
    labels_of,
    last,
    order_of,
    request_id,
    request_name,
)
from charterer.providers.gcp.permissions import Call
from charterer.providers.gcp.template import InstanceTemplates, Template, problems_of
from charterer.providers.threads import in_waves

# Zonal managed instance groups: their settings, and the settings by which a group would add or end nodes by itself.


FIELD: Final = "spec.gcp.instanceGroup"
_SETTINGS_SECONDS: Final = 300.0
"""Seconds for which a group's settings are used before they are read again."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """A group as Compute Engine describes it (``row``), its template, and the labels of its instances."""

    id: str
    name: str
    template: Template
    labels: Mapping[str, str]
    row: Json


class Groups:
    """Reads the settings of groups. ``clock``: seconds of a clock that never goes back."""

    def __init__(self, calls: Calls, templates: InstanceTemplates, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._templates = templates
        self._clock = clock
        self._settings: dict[tuple[str, str], tuple[float, GroupSettings]] = {}

    async def settings(self, pool: Pool, group: GcpGroup) -> GroupSettings:
        """The group's settings. Raises InvalidRequest if the pool's zone has no such group."""
        key = group.zone, group.group
        known = self._settings.get(key)
        if known is None or self._clock() - known[0] > _SETTINGS_SECONDS:
            known = self._clock(), await self._read(pool, group)
            self._settings[key] = known
        return known[1]

    async def fit(self, pool: Pool, group: GcpGroup, cluster: str) -> GroupSettings:
        """The settings of a group that does not change its nodes by itself. Raises InvalidRequest for any other
        group.
        """
        settings = await self.settings(pool, group)
        if wrong := problems_of_group(pool, group, settings, cluster):
            raise InvalidRequest(pool.id, FIELD, "UnfitGroup", f"{group.group}: {'; '.join(wrong)}")
        return settings

    async def _read(self, pool: Pool, group: GcpGroup) -> GroupSettings:
        try:
            answer = await self._calls(pool.id, Call.GET_GROUP, zone=group.zone, instance_group_manager=group.group)
        except NotFoundInCloud as error:
            message = await self._whereabouts(pool.id, group)
            raise InvalidRequest(pool.id, FIELD, error.code, message) from error
        row = answer.body
        [first, *_] = row.get("versions") or [{}]
        link = row.get("instance_template") or first.get("instance_template", "")
        template = await self._templates.read(pool.id, link, FIELD)
        everywhere = row.get("all_instances_config", {}).get("properties", {}).get("labels", {})
        return GroupSettings(str(row["id"]), group.group, template, {**template.labels, **everywhere}, row)

    async def _whereabouts(self, pool: PoolId, group: GcpGroup) -> str:
        """Advice on a group that is not in its pool's zone."""
        missing = f"there is no managed instance group {group.group!r} in {group.zone} of project {group.project}"
        answer = await self._calls(pool, Call.FIND_GROUPS, filter=f"name = {group.group}")
        found = [
            scope.partition("/")
            for scope, those in answer.body.get("items", {}).items()
            if those.get("instance_group_managers")
        ]
        zones = [place for kind, _, place in found if kind == "zones"]
        regions = [place for kind, _, place in found if kind == "regions"]
        if zones:
            return f"{missing}, but in {', '.join(zones)}: set spec.gcp.zone to that"
        if regions:
            return f"{missing}: the one in {', '.join(regions)} is regional; make a zonal one"
        return f"{missing}: check its name, spec.gcp.zone and spec.gcp.project"


def problems_of_group(pool: Pool, group: GcpGroup, settings: GroupSettings, cluster: str) -> Sequence[str]:
    """Settings by which a group adds or ends nodes by itself, hides nodes, keeps something billed, or sells another
    kind of node.
    """
    row = settings.row
    wrong = [
        *_unlabelled(pool, settings, cluster),
        *_autonomous(row),
        *_changing(row),
        *(f"instance template {settings.template.name}: {each}" for each in _of_template(pool, group, settings)),
    ]
    return wrong


def _of_template(pool: Pool, group: GcpGroup, settings: GroupSettings) -> Sequence[str]:
    return problems_of(pool, settings.template, flex=group.run_seconds is not None)


def _unlabelled(pool: Pool, settings: GroupSettings, cluster: str) -> Sequence[str]:
    wrong = []
    for key, value in labels_of(cluster, pool.id).items():
        has = settings.labels.get(key)
        if has != value:
            found = f"{has!r} is another's" if has is not None else "is missing"
            wrong.append(f"the label {key} {found}: set it to {value!r} in its template or its allInstancesConfig")
    return wrong


def _autonomous(row: Json) -> Sequence[str]:
    """Settings by which the group adds or ends nodes by itself."""
    wrong = []
    if scaler := row.get("status", {}).get("autoscaler"):
        wrong.append(f"autoscaler {last(scaler)} would add and end nodes: delete it")
    action = row.get("instance_lifecycle_policy", {}).get("default_action_on_failure", "REPAIR")
    if action != "DO_NOTHING":
        wrong.append(
            f"instanceLifecyclePolicy.defaultActionOnFailure is {action}, which makes nodes again that nobody ordered: "
            "set it to DO_NOTHING"
        )
    if row.get("auto_healing_policies"):
        wrong.append("autoHealingPolicies would make nodes again that jobs run on: remove them")
    return wrong


def _changing(row: Json) -> Sequence[str]:
    """Settings by which the group replaces nodes, makes nodes of another kind, or keeps something that is billed."""
    wrong = []
    update = row.get("update_policy", {}).get("type_", "PROACTIVE")
    if update != "OPPORTUNISTIC":
        wrong.append(f"updatePolicy.type is {update}, which replaces nodes that jobs run on: set it to OPPORTUNISTIC")
    if len(row.get("versions", ())) > 1:
        wrong.append("it has several versions, whose nodes differ: leave one")
    if row.get("instance_flexibility_policy"):
        wrong.append("instanceFlexibilityPolicy makes nodes of several machine types, whose prices differ: remove it")
    if row.get("target_size_policy", {}).get("mode") == "BULK":
        wrong.append("targetSizePolicy.mode is BULK, which makes no node by itself: set it to INDIVIDUAL")
    for field in ("target_stopped_size", "target_suspended_size"):
        if size := int(row.get(field, 0)):
            kind = field.split("_")[1]
            wrong.append(f"it keeps {size} {kind} nodes, whose disks are billed: set that number to 0")
    if row.get("stateful_policy", {}).get("preserved_state", {}).get("disks"):
        wrong.append("statefulPolicy keeps disks of deleted nodes, which are billed: remove it")
    return wrong


# How an operation ended that should end something.


def raise_for(pool: PoolId, call: Call, answer: Answer) -> None:
    """Raise the ProviderError for an operation's first error, if it has one. If there is an error, nothing has
    happened.
    """
    for error in errors_in(answer.body.get("error", {})):
        status = int(answer.body.get("http_error_status_code", 400))
        told = SdkError(Lack.CODE, error.code, error.message, status, answer.at)
        raise call_error(pool, call.full_name, told, mutation=call.mutation)


# Nodes by resize requests of a group (flex-start). A request makes either all of its nodes or none, and waits until
# there is room.


_QUEUED: Final = frozenset({"ACCEPTED", "CREATING"})
_FAILED: Final = "FAILED"
_GIVEN_UP: Final = frozenset({"CANCELLED", _FAILED})


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    """A resize request with one of our names.

    ``errors``: why the request failed. ``attempt``: why the request is still queued.
    """

    name: str
    state: str
    orders: frozenset[OrderToken]
    errors: tuple[LaunchError, ...]
    attempt: tuple[LaunchError, ...]


class FlexRequests:
    """Orders nodes from groups whose pools have ``runSeconds``."""

    def __init__(self, calls: Calls, history: OperationHistory) -> None:
        self._calls = calls
        self._history = history

    async def listed(self, pool: PoolId, group: GcpGroup) -> tuple[Sequence[ResizeRequest], Instant]:
        """The group's requests with our names, and the cloud's time."""
        rows, asked = await self._calls.pages(
            pool, Call.LIST_REQUESTS, "items", zone=group.zone, instance_group_manager=group.group
        )
        return [request for row in rows if (request := _request(row)).orders], asked

    async def ask(self, pool: Pool, group: GcpGroup, ask: Ask, settings: GroupSettings) -> Reply:
        """Request the orders that are not served yet. Orders that are needed together are in one request. Otherwise
        each order has its own.
        """
        requests, _ = await self.listed(pool.id, group)
        await self._history.read(pool.id, group.zone)
        known = {order for each in requests if each.state not in _GIVEN_UP for order in each.orders}
        known |= self._history.served(group.zone)
        missing = [order.token for order in ask.orders if order.token not in known]
        if ask.together:
            return Reply({}, await self._insert(pool, group, missing, settings, requests) if missing else {})

        async def one(token: OrderToken) -> InstanceId | Refusal | None:
            return (await self._insert(pool, group, [token], settings, requests)).get(token)

        return await in_waves([order for order in ask.orders if order.token in missing], lambda order: one(order.token))

    async def withdraw(self, pool: Pool, group: GcpGroup, orders: Sequence[OrderToken]) -> None:
        """Cancel the queued requests of these orders, each as a whole.

        If a request is already being served, it is not cancelled, and the next survey shows its nodes.
        """
        requests, _ = await self.listed(pool.id, group)
        for request in requests:
            if request.state == "ACCEPTED" and request.orders & set(orders):
                try:
                    answer = await self._calls.operation(
                        pool.id,
                        Call.CANCEL_REQUEST,
                        group.zone,
                        instance_group_manager=group.group,
                        resize_request=request.name,
                    )
                    raise_for(pool.id, Call.CANCEL_REQUEST, answer)
                except (InvalidRequest, NotFoundInCloud):
                    continue

    def refusals(
        self, pool: Pool, group: GcpGroup, requests: Sequence[ResizeRequest], settings: GroupSettings, asked: Instant
    ) -> Sequence[Refusal]:
        """Why requests failed, or will fail.

        A lack of room now is no refusal, because a request waits for room.
        """
        found = []
        for request in requests:
            errors = request.errors if request.state == _FAILED else request.attempt
            for order in request.orders if errors else ():
                told = self._refusal(pool, group, errors, settings, asked, order)
                if request.state == _FAILED or told.kind is not RefusalKind.STOCK_OUT:
                    found.append(told)
        return found

    async def _insert(
        self,
        pool: Pool,
        group: GcpGroup,
        orders: Sequence[OrderToken],
        settings: GroupSettings,
        known: Sequence[ResizeRequest],
    ) -> Mapping[OrderToken, Refusal]:
        """For each order that is not served, the reason. Empty if the request is accepted now or was accepted before.

        A request that was cancelled or failed keeps its name. So the next request for the same orders gets another
        name.
        """
        before = sum(each.orders == frozenset(orders) and each.state in _GIVEN_UP for each in known)
        again = [f"again {before}"] if before else []
        body = {
            "name": request_name(orders, *again),
            "instances": [{"name": instance_name(order)} for order in orders],
            "requested_run_duration": {"seconds": group.run_seconds},
        }
        try:
            answer = await self._calls.operation(
                pool.id,
                Call.REQUEST,
                group.zone,
                instance_group_manager=group.group,
                request_id=request_id(orders, *again),
                instance_group_manager_resize_request_resource=body,
            )
        except LaunchRefused as refused:
            errors: tuple[LaunchError, ...] = (refused.error,)
            at = refused.at
        except AlreadyThere:
            return {}
        else:
            errors, at = errors_in(answer.body.get("error", {})), answer.at
        return {order: self._refusal(pool, group, errors, settings, at, order) for order in orders if errors}

    @staticmethod
    def _refusal(
        pool: Pool,
        group: GcpGroup,
        errors: Sequence[LaunchError],
        settings: GroupSettings,
        at: Instant,
        order: OrderToken,
    ) -> Refusal:
        place = settings.template.machine_type, group.zone, group.project
        return refusal(pool.id, errors, place, pool.capacity_type, at, order)


def queued(requests: Sequence[ResizeRequest]) -> frozenset[OrderToken]:
    """The orders of queued requests."""
    return frozenset(order for each in requests if each.state in _QUEUED for order in each.orders)


def _request(row: Json) -> ResizeRequest:
    orders = frozenset(order for each in row.get("instances", ()) if (order := order_of(each["name"])) is not None)
    status = row.get("status", {})
    return ResizeRequest(
        name=row["name"],
        state=row.get("state", ""),
        orders=orders,
        errors=errors_in(status.get("error", {})),
        attempt=errors_in(status.get("last_attempt", {}).get("error", {})),
    )


# Nodes in a zonal managed instance group are made and withdrawn by name. The code also finds out which nodes the group
# cannot make.


_MEMBERS_SECONDS: Final = 300.0
"""Seconds for which a group in which nothing changes is not listed again."""
_MOST_NAMES: Final = 1000
"""Most names in one call."""
_MAKING: Final = frozenset({"CREATING", "CREATING_WITHOUT_RETRIES", "RECREATING", "VERIFYING"})


@dataclass(frozen=True, slots=True)
class Member:
    """A managed instance with one of our names.

    ``id``: the id of its instance, or empty while there is none. ``errors``: why the last attempt to make the instance
    failed.
    """

    order: OrderToken
    name: str
    id: InstanceId
    action: str
    errors: tuple[LaunchError, ...]

    @property
    def in_the_making(self) -> bool:
        """Whether the group still tries to make the instance."""
        return not self.id and self.action in _MAKING

    @property
    def left_over(self) -> bool:
        """Whether the instance is gone and the group does nothing about that."""
        return not self.id and self.action == "NONE"


@dataclass(frozen=True, slots=True)
class _Listed:
    read: float
    members: Sequence[Member]


class GroupMembers:
    """Makes and ends the managed instances of pools with a group. ``clock``: seconds of a clock that never goes
    back.
    """

    def __init__(self, calls: Calls, history: OperationHistory, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._history = history
        self._clock = clock
        self._listed: dict[tuple[str, str], _Listed] = {}

    async def listed(self, pool: Pool, group: GcpGroup, there: Collection[InstanceId]) -> Sequence[Member]:
        """The group's managed instances with our names. ``there``: the pool's instances that a list shows.

        While no instance is made or ended, the managed instances are read only now and then.
        """
        known = self._listed.get((group.zone, group.group))
        if known is not None and self._clock() - known.read < _MEMBERS_SECONDS:
            quiet = all(member.id for member in known.members)
            if quiet and {member.id for member in known.members} == set(there):
                return known.members
        return await self._read(pool.id, group)

    async def refusals(
        self, pool: Pool, group: GcpGroup, members: Iterable[Member], settings: GroupSettings, asked: Instant
    ) -> Sequence[Refusal]:
        """Why the group could not make the instances that it still tries to make.

        An attempt that is under way has no error. For such an instance the group's own list of errors has the errors of
        earlier attempts.
        """
        making = [member for member in members if member.in_the_making]
        errors = {member.order: (member.errors, asked) for member in making if member.errors}
        if silent := {member.name: member.order for member in making if not member.errors}:
            errors |= await self._earlier(pool.id, group, silent)
        place = settings.template.machine_type, group.zone, group.project
        return [refusal(pool.id, those, place, pool.capacity_type, at, order) for order, (those, at) in errors.items()]

    async def ask(self, pool: Pool, group: GcpGroup, ask: Ask, settings: GroupSettings) -> Reply:
        """Order, in one call, all nodes that the group does not have yet and that were not served before."""
        members = await self._read(pool.id, group)
        await self._history.read(pool.id, group.zone)
        if left := [member.name for member in members if member.left_over]:
            await self._delete(pool.id, group, left)
        known = {member.order for member in members} | self._history.served(group.zone)
        missing = [order.token for order in ask.orders if order.token not in known]
        refused: dict[OrderToken, Refusal] = {}
        place = settings.template.machine_type, group.zone, group.project
        for first in range(0, len(missing), _MOST_NAMES):
            part = missing[first : first + _MOST_NAMES]
            errors, at = await self._create(pool.id, group, part)
            refused |= {
                order: refusal(pool.id, errors, place, pool.capacity_type, at, order) for order in part if errors
            }
        return Reply({}, refused)

    async def withdraw(self, pool: Pool, group: GcpGroup, orders: Sequence[OrderToken]) -> None:
        """Remove from the group the names that have no instance. The next survey lists instances that exist."""
        members = await self._read(pool.id, group)
        names = [member.name for member in members if member.order in set(orders) and not member.id]
        if names:
            await self._delete(pool.id, group, names)

    async def end(self, pool: PoolId, group: GcpGroup, name: str) -> bool:
        """Delete the instance of that name and its place in the group. Returns False if the group does not have the
        instance.
        """
        members = await self._read(pool, group)
        if not any(member.name == name for member in members):
            return False
        await self._delete(pool, group, [name])
        return True

    async def _create(
        self, pool: PoolId, group: GcpGroup, orders: Sequence[OrderToken]
    ) -> tuple[tuple[LaunchError, ...], Instant]:
        """For each order that the group did not accept, the reason. Empty if it accepted all. If the group has a name
        already, that is no error.

        If a call has several names and the group already has one of the names, the group accepts none of them. Then
        each order is sent in a call of its own.
        """
        self._listed.pop((group.zone, group.group), None)
        body = {"instances": [{"name": instance_name(order)} for order in orders]}
        try:
            answer = await self._calls.operation(
                pool,
                Call.CREATE_INSTANCES,
                group.zone,
                instance_group_manager=group.group,
                request_id=request_id(orders),
                instance_group_managers_create_instances_request_resource=body,
            )
            errors, at, exists = *_errors(answer), False
        except LaunchRefused as refused:
            errors, at, exists = (refused.error,), refused.at, False
        except AlreadyThere:
            errors, at, exists = (), Instant(0), True
        if exists or any(_says_exists(error) for error in errors):
            for order in orders if len(orders) > 1 else ():
                errors, at = await self._create(pool, group, [order])
                if errors:
                    return errors, at
            return (), at
        return errors, at

    async def _delete(self, pool: PoolId, group: GcpGroup, names: Sequence[str]) -> None:
        self._listed.pop((group.zone, group.group), None)
        for first in range(0, len(names), _MOST_NAMES):
            body = {"instances": list(names[first : first + _MOST_NAMES]), "skip_instances_on_validation_error": True}
            answer = await self._calls.operation(
                pool,
                Call.DELETE_INSTANCES,
                group.zone,
                instance_group_manager=group.group,
                instance_group_managers_delete_instances_request_resource=body,
            )
            raise_for(pool, Call.DELETE_INSTANCES, answer)

    async def _read(self, pool: PoolId, group: GcpGroup) -> Sequence[Member]:
        rows, _ = await self._calls.pages(
            pool, Call.LIST_MEMBERS, "managed_instances", zone=group.zone, instance_group_manager=group.group
        )
        members = [member for row in rows if (member := _member(row)) is not None]
        self._listed[group.zone, group.group] = _Listed(self._clock(), members)
        return members

    async def _earlier(
        self, pool: PoolId, group: GcpGroup, names: Mapping[str, OrderToken]
    ) -> Mapping[OrderToken, tuple[tuple[LaunchError, ...], Instant]]:
        """For each name, the newest error in the group's list of errors."""
        rows, _ = await self._calls.pages(
            pool, Call.LIST_ERRORS, "items", zone=group.zone, instance_group_manager=group.group
        )
        found: dict[OrderToken, tuple[tuple[LaunchError, ...], Instant]] = {}
        for row in sorted(rows, key=lambda row: parse_instant(row["timestamp"])):
            order = names.get(last(row.get("instance_action_details", {}).get("instance", "")))
            error: dict[str, Any] = row.get("error", {})
            if order is not None:
                told = LaunchError(error.get("code", ""), error.get("message", ""))
                found[order] = (told,), parse_instant(row["timestamp"])
        return found


def _member(row: Json) -> Member | None:
    name = row.get("name") or last(row["instance"])
    order = order_of(name)
    if order is None:
        return None
    errors = errors_in(row.get("last_attempt", {}).get("errors", {}))
    id = InstanceId(str(row.get("id", ""))) if row.get("instance_status") else InstanceId("")
    return Member(order, name, id, row.get("current_action", ""), errors)


def _errors(answer: Answer) -> tuple[tuple[LaunchError, ...], Instant]:
    return errors_in(answer.body.get("error", {})), answer.at


def _says_exists(error: LaunchError) -> bool:
    known = meaning_of(error.code)
    return known is not None and known.meaning is CodeMeaning.EXISTS
