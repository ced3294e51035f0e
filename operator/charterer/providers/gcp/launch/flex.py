"""Nodes by resize requests of a group (flex-start): all of a request or none, queued until there is room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from charterer.clouds.gcp import GcpGroup
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Refusal, RefusalKind, Reply
from charterer.domain.pool import Pool
from charterer.domain.time import Instant
from charterer.providers.codes import AlreadyThere, LaunchError, LaunchRefused
from charterer.providers.errors import InvalidRequest, NotFoundInCloud
from charterer.providers.gcp.calls import Calls, Json
from charterer.providers.gcp.errors import refusal
from charterer.providers.gcp.history import OperationHistory, errors_in
from charterer.providers.gcp.launch.group import GroupSettings
from charterer.providers.gcp.launch.outcome import raise_for
from charterer.providers.gcp.names import instance_name, order_of, request_id, request_name
from charterer.providers.gcp.permissions import Call
from charterer.providers.waves import in_waves

_QUEUED: Final = frozenset({"ACCEPTED", "CREATING"})
_FAILED: Final = "FAILED"
_GIVEN_UP: Final = frozenset({"CANCELLED", _FAILED})


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    """A resize request of our names. ``errors``: why it failed; ``attempt``: why it is still queued."""

    name: str
    state: str
    orders: frozenset[OrderToken]
    errors: tuple[LaunchError, ...]
    attempt: tuple[LaunchError, ...]


class FlexRequests:
    """Asks groups whose pools say ``runSeconds`` for nodes."""

    def __init__(self, calls: Calls, history: OperationHistory) -> None:
        self._calls = calls
        self._history = history

    async def listed(self, pool: PoolId, group: GcpGroup) -> tuple[Sequence[ResizeRequest], Instant]:
        """The group's requests of our names, and the cloud's time."""
        rows, asked = await self._calls.pages(
            pool, Call.LIST_REQUESTS, "items", zone=group.zone, instance_group_manager=group.group
        )
        return [request for row in rows if (request := _request(row)).orders], asked

    async def ask(self, pool: Pool, group: GcpGroup, ask: Ask, settings: GroupSettings) -> Reply:
        """One request for orders that are needed together, otherwise one for each; none for what is there already."""
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
        """Cancel the queued requests of these orders, as wholes; one that is being served shows in the next survey."""
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
        """Why requests failed, or will. That there is no room now is none: a request waits for that."""
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
        """Why none of the orders is served; empty where the request is accepted, or was before.

        A request that was cancelled or has failed keeps its name, so that the next one for the same orders has another.
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
    """The orders that wait in requests."""
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
