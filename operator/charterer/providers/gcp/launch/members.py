"""Nodes in a zonal managed instance group: made and withdrawn by name, and what the group cannot make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charterer.clouds.gcp import GcpGroup
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Refusal, Reply
from charterer.domain.pool import Pool
from charterer.domain.time import Instant, parse_instant
from charterer.providers.codes import AlreadyThere, CodeMeaning, LaunchError, LaunchRefused
from charterer.providers.gcp.calls import Answer, Calls, Json
from charterer.providers.gcp.errors import meaning_of, refusal
from charterer.providers.gcp.history import OperationHistory, errors_in
from charterer.providers.gcp.launch.group import GroupSettings
from charterer.providers.gcp.launch.outcome import raise_for
from charterer.providers.gcp.names import instance_name, last, order_of, request_id
from charterer.providers.gcp.permissions import Call

_MEMBERS_SECONDS: Final = 300.0
"""For how long a group in which nothing happens is not listed again."""
_MOST_NAMES: Final = 1000
"""Names that one call takes."""
_MAKING: Final = frozenset({"CREATING", "CREATING_WITHOUT_RETRIES", "RECREATING", "VERIFYING"})


@dataclass(frozen=True, slots=True)
class Member:
    """A managed instance of one of our names. ``id``: of its instance, empty while there is none.

    ``errors``: why the last attempt to make it failed.
    """

    order: OrderToken
    name: str
    id: InstanceId
    action: str
    errors: tuple[LaunchError, ...]

    @property
    def in_the_making(self) -> bool:
        """Whether the group still tries to make its instance."""
        return not self.id and self.action in _MAKING

    @property
    def left_over(self) -> bool:
        """Whether its instance is gone and the group does nothing about it."""
        return not self.id and self.action == "NONE"


@dataclass(frozen=True, slots=True)
class _Listed:
    read: float
    members: Sequence[Member]


class GroupMembers:
    """Makes and ends the managed instances of pools with a group. ``clock``: seconds that only grow."""

    def __init__(self, calls: Calls, history: OperationHistory, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._history = history
        self._clock = clock
        self._listed: dict[tuple[str, str], _Listed] = {}

    async def listed(self, pool: Pool, group: GcpGroup, there: Collection[InstanceId]) -> Sequence[Member]:
        """The group's managed instances of our names. ``there``: the instances of the pool that a list shows.

        While nothing is made or ended they are read now and then only.
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
        """Why the group could not make what it still tries to make.

        An attempt that is under way has no error; the group's own list of errors has those before it, too.
        """
        making = [member for member in members if member.in_the_making]
        errors = {member.order: (member.errors, asked) for member in making if member.errors}
        if silent := {member.name: member.order for member in making if not member.errors}:
            errors |= await self._earlier(pool.id, group, silent)
        place = settings.template.machine_type, group.zone, group.project
        return [refusal(pool.id, those, place, pool.capacity_type, at, order) for order, (those, at) in errors.items()]

    async def ask(self, pool: Pool, group: GcpGroup, ask: Ask, settings: GroupSettings) -> Reply:
        """One call for all orders that the group does not have yet and that were not served before."""
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
        """Take the names out of the group that have no instance; what has one is listed by the next survey."""
        members = await self._read(pool.id, group)
        names = [member.name for member in members if member.order in set(orders) and not member.id]
        if names:
            await self._delete(pool.id, group, names)

    async def end(self, pool: PoolId, group: GcpGroup, name: str) -> bool:
        """Delete the instance of that name with its place in the group; False when the group does not have it."""
        members = await self._read(pool, group)
        if not any(member.name == name for member in members):
            return False
        await self._delete(pool, group, [name])
        return True

    async def _create(
        self, pool: PoolId, group: GcpGroup, orders: Sequence[OrderToken]
    ) -> tuple[tuple[LaunchError, ...], Instant]:
        """Why the group did not take the orders, empty when it did. A name that it has already is no error.

        Where it has one of several names, it takes none of them: then each is asked for by itself.
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
        """The newest error of each name in the group's list of errors."""
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
