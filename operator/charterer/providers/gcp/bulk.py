"""Nodes by bulkInsert from an instance template. A request makes either all of its nodes, by name, or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charterer.clouds.gcp import GcpTemplate
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Refusal, Reply
from charterer.domain.pool import Pool
from charterer.domain.time import Instant
from charterer.providers.codes import AlreadyThere, LaunchError, LaunchRefused
from charterer.providers.errors import Busy, InvalidRequest
from charterer.providers.gcp.calls import Calls, refusal
from charterer.providers.gcp.listing import (
    OperationHistory,
    instance_name,
    instances_of,
    labels_of,
    operation_of,
    request_id,
)
from charterer.providers.gcp.permissions import Call
from charterer.providers.gcp.template import Template, full_link, problems_of
from charterer.providers.threads import in_waves

FIELD: Final = "spec.gcp.instanceTemplate"
_KEPT_SECONDS: Final = 3600.0
"""Seconds for which a request is stored that had not ended when Google Cloud answered it."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that had not ended when it was answered. ``asked``: when it was answered, by our clock.

    It is kept for an hour.
    """

    pool: PoolId
    orders: tuple[OrderToken, ...]
    asked: float


class BulkInserts:
    """Launches the orders of pools with a template. ``clock``: seconds that only increase."""

    def __init__(self, calls: Calls, history: OperationHistory, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._history = history
        self._clock = clock
        self._open: dict[str, _Request] = {}

    async def ask(self, pool: Pool, cloud: GcpTemplate, ask: Ask, template: Template, cluster: str) -> Reply:
        """Launch the orders that are not served already. Orders that are needed together are launched in one request.
        Otherwise each order has its own request.

        Raises InvalidRequest if the template leaves something behind that is billed, or sells another kind of node than
        the pool names.
        """
        if wrong := problems_of(pool, template, flex=False):
            raise InvalidRequest(pool.id, FIELD, "UnfitTemplate", f"{template.name}: {'; '.join(wrong)}")
        listed, _ = await instances_of(self._calls, pool.id, cloud.zone, cluster)
        await self._history.read(pool.id, cloud.zone)
        known = {row.order for row in listed.values()} | self._history.served(cloud.zone)
        missing = [order for order in ask.orders if order.token not in known]
        if ask.together:
            tokens = [order.token for order in missing]
            refused = await self._insert(pool, cloud, tokens, template, cluster) if tokens else {}
            return Reply({}, refused)

        async def one(token: OrderToken) -> InstanceId | Refusal | None:
            return (await self._insert(pool, cloud, [token], template, cluster)).get(token)

        return await in_waves(missing, lambda order: one(order.token))

    def ordered(self, pool: PoolId, zone: str) -> frozenset[OrderToken]:
        """The orders whose requests had not ended when the operations of the zone were last read."""
        ended = {each.request for each in self._history.operations(zone) if each.ended is not None}
        open = (each for request, each in self._open.items() if each.pool == pool and request not in ended)
        return frozenset(order for each in open for order in each.orders)

    def refusals(self, pool: Pool, cloud: GcpTemplate, template: Template) -> Sequence[Refusal]:
        """Refusals of requests that had not ended when they were answered. They are found in the operations that were
        read.
        """
        now = self._clock()
        self._open = {id: each for id, each in self._open.items() if now - each.asked < _KEPT_SECONDS}
        found: list[Refusal] = []
        for operation in self._history.operations(cloud.zone):
            asked = self._open.get(operation.request)
            if asked is not None and asked.pool == pool.id and operation.ended is not None and operation.errors:
                at, errors = operation.ended, operation.errors
                found += [self._refusal(pool, cloud, template, errors, at, order) for order in asked.orders]
        return found

    async def _insert(
        self, pool: Pool, cloud: GcpTemplate, orders: Sequence[OrderToken], template: Template, cluster: str
    ) -> dict[OrderToken, Refusal]:
        """For each order that is not served, the reason. Empty if all orders were accepted or are served already."""
        request = request_id(orders)
        try:
            answer = await self._calls.operation(
                pool.id,
                Call.BULK_INSERT,
                cloud.zone,
                request_id=request,
                bulk_insert_instance_resource_resource=bulk_request(pool, cloud, orders, cluster),
            )
        except LaunchRefused as refused:
            errors: tuple[LaunchError, ...] = (refused.error,)
            at = refused.at
        except AlreadyThere as error:
            if len(orders) == 1:
                return {}
            message = f"some of these instances are there already: {error.message}"
            raise Busy(pool.id, error.call, error.code, message) from error
        else:
            operation = operation_of(answer.body)
            if operation.ended is None:
                self._open[request] = _Request(pool.id, tuple(orders), self._clock())
            errors, at = operation.errors, answer.at
        return {order: self._refusal(pool, cloud, template, errors, at, order) for order in orders if errors}

    @staticmethod
    def _refusal(
        pool: Pool,
        cloud: GcpTemplate,
        template: Template,
        errors: Sequence[LaunchError],
        at: Instant,
        order: OrderToken,
    ) -> Refusal:
        place = template.machine_type, cloud.zone, cloud.project
        return refusal(pool.id, errors, place, pool.capacity_type, at, order)


def bulk_request(pool: Pool, cloud: GcpTemplate, orders: Collection[OrderToken], cluster: str) -> dict[str, Any]:
    """The body of the request that launches all of these orders or none."""
    properties: dict[str, Any] = {"labels": dict(labels_of(cluster, pool.id))}
    if cloud.run_seconds is not None:
        properties["scheduling"] = {
            "max_run_duration": {"seconds": cloud.run_seconds},
            "instance_termination_action": "DELETE",
        }
    if cloud.reservation:
        properties["reservation_affinity"] = {
            "consume_reservation_type": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [cloud.reservation],
        }
    return {
        "count": len(orders),
        "min_count": len(orders),
        "per_instance_properties": {instance_name(order): {} for order in orders},
        "source_instance_template": full_link(cloud.template),
        "instance_properties": properties,
    }
