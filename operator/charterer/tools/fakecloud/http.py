"""The cloud behind HTTP: the API that clouds have (``/v1``) and the controls for tests and demos (``/admin/v1``)."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from aiohttp import web
from pydantic import Field, ValidationError

from charterer.tools.fakecloud.cloud import Failure, FakeAccount, RefusedCall, invalid
from charterer.tools.fakecloud.config import FaultKind, Faults, FaultSpec, OrderName, Written, decimal, problems
from charterer.tools.fakecloud.records import Activity, InstanceGroup, Machine, MachinePhase

# Answers as JSON. All fields of the protocol are written here. An answer shows only what a call may show at that
# instant.


Json = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp(at: int) -> str:
    """The time in RFC 3339, in UTC with microseconds."""
    return (_EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _optional(at: int | None, seen: int) -> str | None:
    return None if at is None or at > seen else timestamp(at)


def group_json(group: InstanceGroup, account: str, seen: int) -> Json:
    """A group of an account with its target as of ``seen``."""
    spec = group.spec
    return {
        "id": f"{account}/{spec.name}",
        "name": spec.name,
        "orders": spec.orders,
        "target": group.target_at(seen) if spec.orders == "counted" else None,
        "ordered": list(group.ordered),
        "minSize": spec.min_size,
        "maxSize": spec.max_size,
        "instanceType": spec.instance_type,
        "gpuType": spec.gpu_type,
        "gpusPerInstance": spec.gpus_per_instance,
        "zone": spec.zone,
        "capacityType": spec.capacity_type,
        "listLagSeconds": spec.list_lag_seconds,
        "listedSeconds": spec.listed_seconds,
        "labels": spec.labels,
        "taints": [taint.model_dump() for taint in spec.taints],
        "resources": spec.room,
    }


def instance_json(machine: Machine, seen: int) -> Json:
    """A machine as of ``seen``. Whatever happened or was announced later is left out."""
    state = machine.state(seen)
    noticed = machine.interrupt_noticed is not None and machine.interrupt_noticed <= seen
    return {
        "id": machine.id,
        "state": state.value,
        "launchedAt": timestamp(machine.launched),
        "endedAt": _optional(machine.ends, seen),
        "order": machine.order or None,
        "endedBecause": machine.ends_because if state is MachinePhase.ENDED else "",
        "nodeName": machine.id,
        "providerId": machine.provider_id,
        "segments": [
            {"since": timestamp(segment.since), "hourlyPrice": decimal(segment.micros_per_hour)}
            for segment in machine.segments
            if segment.since <= seen
        ],
        "billingMinimumSeconds": machine.billing_minimum,
        "interruption": {"at": timestamp(machine.interrupt_at)}
        if noticed and machine.interrupt_at is not None
        else None,
    }


def activity_json(activity: Activity) -> Json:
    """An attempt to launch."""
    return {
        "id": activity.id,
        "at": timestamp(activity.at),
        "status": "Successful" if activity.succeeded else "Failed",
        "code": activity.code,
        "message": activity.message,
        "instance": activity.instance or None,
        "order": activity.order or None,
    }


def placed_json(placed: Mapping[str, Machine | Failure | None]) -> Json:
    """The outcome of each order: an instance, an error, or neither while the order waits."""
    answers = []
    for order, result in placed.items():
        answer: Json = {"order": order, "instance": None, "error": None}
        match result:
            case Machine():
                answer["instance"] = result.id
            case Failure():
                answer["error"] = {"code": result.code, "message": result.message}
        answers.append(answer)
    return {"orders": answers}


def quote_json(group: InstanceGroup, now: int) -> Json:
    """The hourly price of a machine of the group launched now, and the highest price that it can ever have."""
    spec = group.spec
    price = spec.price_of(spec.list_price)
    return {
        "hourlyPrice": decimal(price),
        "worstHourlyPrice": decimal(spec.list_price if spec.reprice_running else price),
        "billingMinimumSeconds": spec.billing_minimum_seconds,
        "asOf": timestamp(now),
    }


def bill_json(machines: Iterable[Machine], now: int) -> Json:
    """The bill, with a line for every machine ever launched."""
    machines = list(machines)
    lines = [
        {
            "instance": machine.id,
            "group": machine.group,
            "seconds": machine.seconds(now),
            "cost": decimal(machine.cost(now)),
            "final": machine.ended(now),
        }
        for machine in machines
    ]
    return {"lines": lines, "total": decimal(sum(machine.cost(now) for machine in machines))}


logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
WrittenT = TypeVar("WrittenT", bound=Written)


class _Target(Written):
    target: Annotated[int, Field(ge=0)]
    expected: int | None = None


class _Orders(Written):
    orders: Annotated[tuple[OrderName, ...], Field(min_length=1, max_length=1_000)]
    together: bool = False


class _Kill(Written):
    node_object: Literal["delete", "silent"] | None = None


class _Interrupt(Written):
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


@dataclass(frozen=True, slots=True)
class Api:
    """The handlers of the API. If ``token`` is None, every caller is allowed."""

    cloud: FakeAccount
    faults: Faults
    token: str | None

    def application(self) -> web.Application:
        """The aiohttp application with all routes."""
        app = web.Application(middlewares=[self._answer_errors, self._authorize, self._break])
        app.add_routes(
            [
                web.get("/v1/groups", self._groups),
                web.get("/v1/groups/{group}", self._group),
                web.get("/v1/groups/{group}/instances", self._instances),
                web.get("/v1/groups/{group}/activities", self._activities),
                web.put("/v1/groups/{group}/target", self._set_target),
                web.post("/v1/groups/{group}/orders", self._place),
                web.delete("/v1/groups/{group}/orders/{order}", self._withdraw),
                web.delete("/v1/groups/{group}/instances/{instance}", self._terminate),
                web.get("/v1/price", self._price),
                web.get("/admin/v1/bill", self._bill),
                web.get("/admin/v1/instances", self._all_instances),
                web.put("/admin/v1/groups/{group}", self._change_group),
                web.put("/admin/v1/quotas", self._change_quotas),
                web.get("/admin/v1/faults", self._list_faults),
                web.post("/admin/v1/faults", self._add_fault),
                web.delete("/admin/v1/faults", self._clear_faults),
                web.post("/admin/v1/instances/{instance}/kill", self._kill),
                web.post("/admin/v1/instances/{instance}/interrupt", self._interrupt),
                web.post("/admin/v1/instances/{instance}/silence", self._silence),
            ]
        )
        return app

    # --- around every call --------------------------------------------------------------------------------------------

    @web.middleware
    async def _answer_errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except RefusedCall as refusal:
            return self._error(refusal)
        except ValidationError as error:
            return self._error(invalid(problems(error)))
        except web.HTTPException as error:
            message = f"{request.method} {request.path}: {error.reason}; docs/fakecloud.md lists the calls"
            return self._error(RefusedCall(error.status, "NoSuchCall", message))
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return self._error(RefusedCall(500, "InternalError", "the fake cloud has a bug; its log has the traceback"))

    @web.middleware
    async def _authorize(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        if self.token is not None and not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            raise RefusedCall(401, "Unauthorized", "the bearer token is missing or wrong")
        return await handler(request)

    @web.middleware
    async def _break(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        fault = self.faults.draw(request.method, request.path) if request.path.startswith("/v1/") else None
        if fault is None:
            return await handler(request)
        logger.info("%s %s: fault %s", request.method, request.path, fault.kind)
        if fault.kind is FaultKind.THROTTLE:
            answer = self._error(RefusedCall(429, "Throttling", "too many calls; wait for the seconds in Retry-After"))
            answer.headers["Retry-After"] = str(fault.retry_after_seconds)
            return answer
        if fault.kind is FaultKind.ERROR:
            raise RefusedCall(fault.status, fault.code, fault.message)
        if fault.kind is FaultKind.LOST_REQUEST:
            _hang_up(request)
        if fault.kind is FaultKind.EMPTY_LIST:
            return self._answer({"instances": []}) if request.path.endswith("/instances") else await handler(request)
        try:
            return await handler(request)
        finally:
            if fault.kind is FaultKind.LOST_ANSWER:
                _hang_up(request)
            await asyncio.sleep(fault.seconds)

    def _error(self, refusal: RefusedCall) -> web.Response:
        error = {"code": refusal.code, "message": refusal.message, **refusal.details}
        return self._answer({"error": error}, status=refusal.status)

    def _answer(self, body: Json, status: int = 200) -> web.Response:
        return web.json_response(body | {"now": timestamp(self.cloud.now())}, status=status)

    # --- /v1 ----------------------------------------------------------------------------------------------------------

    def _shown(self, group: InstanceGroup) -> Json:
        return group_json(group, self.cloud.account.id, group.seen_at(self.cloud.now()))

    async def _groups(self, request: web.Request) -> web.Response:
        return self._answer({"groups": [self._shown(group) for group in self.cloud.groups()]})

    async def _group(self, request: web.Request) -> web.Response:
        return self._answer(self._shown(self.cloud.group(request.match_info["group"])))

    async def _instances(self, request: web.Request) -> web.Response:
        seen, machines = self.cloud.listed(request.match_info["group"])
        return self._answer({"instances": [instance_json(machine, seen) for machine in machines]})

    async def _activities(self, request: web.Request) -> web.Response:
        activities = self.cloud.activities(request.match_info["group"])
        return self._answer({"activities": [activity_json(activity) for activity in activities]})

    async def _set_target(self, request: web.Request) -> web.Response:
        body = await _body(request, _Target)
        group = self.cloud.set_target(request.match_info["group"], body.target, body.expected)
        return self._answer(group_json(group, self.cloud.account.id, self.cloud.now()))

    async def _place(self, request: web.Request) -> web.Response:
        body = await _body(request, _Orders)
        placed = self.cloud.place(request.match_info["group"], body.orders, together=body.together)
        return self._answer(placed_json(placed))

    async def _withdraw(self, request: web.Request) -> web.Response:
        group = self.cloud.withdraw(request.match_info["group"], request.match_info["order"])
        return self._answer(group_json(group, self.cloud.account.id, self.cloud.now()))

    async def _terminate(self, request: web.Request) -> web.Response:
        decrement = request.query.get("decrement", "")
        if decrement not in ("true", "false"):
            raise invalid(f"decrement={decrement!r}: write decrement=true to lower the target too, or false")
        name, instance = request.match_info["group"], request.match_info["instance"]
        return self._machine(self.cloud.terminate(name, instance, decrement=decrement == "true"))

    async def _price(self, request: web.Request) -> web.Response:
        group = self.cloud.group(request.query.get("group", ""))
        return self._answer(quote_json(group, self.cloud.now()))

    def _machine(self, machine: Machine) -> web.Response:
        return self._answer(instance_json(machine, self.cloud.now()))

    # --- /admin/v1 ----------------------------------------------------------------------------------------------------

    async def _bill(self, request: web.Request) -> web.Response:
        return self._answer(bill_json(self.cloud.machines(), self.cloud.now()))

    async def _all_instances(self, request: web.Request) -> web.Response:
        now = self.cloud.now()
        machines = [instance_json(machine, now) | {"group": machine.group} for machine in self.cloud.machines()]
        return self._answer({"instances": machines})

    async def _change_group(self, request: web.Request) -> web.Response:
        group = self.cloud.change_group(request.match_info["group"], await _object(request))
        return self._answer(group_json(group, self.cloud.account.id, self.cloud.now()))

    async def _change_quotas(self, request: web.Request) -> web.Response:
        quotas = await _object(request)
        for gpu_type, gpus in quotas.items():
            if gpus is not None and (isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 0):
                raise invalid(f"quota of {gpu_type}: {gpus!r} is not a number of GPUs; write a whole number or null")
        return self._answer({"quotas": dict(self.cloud.change_quotas(quotas).quotas)})

    async def _list_faults(self, request: web.Request) -> web.Response:
        faults = [fault.model_dump(mode="json", by_alias=True) for fault in self.faults.waiting()]
        return self._answer({"faults": faults})

    async def _add_fault(self, request: web.Request) -> web.Response:
        self.faults.add(await _body(request, FaultSpec))
        return await self._list_faults(request)

    async def _clear_faults(self, request: web.Request) -> web.Response:
        self.faults.clear()
        return await self._list_faults(request)

    async def _kill(self, request: web.Request) -> web.Response:
        body = await _body(request, _Kill)
        machine = self.cloud.machine(request.match_info["instance"])
        stays = machine.stays if body.node_object is None else body.node_object == "silent"
        return self._machine(self.cloud.kill(machine.id, node_stays=stays))

    async def _interrupt(self, request: web.Request) -> web.Response:
        body = await _body(request, _Interrupt)
        machine = self.cloud.machine(request.match_info["instance"])
        notice = self.cloud.group(machine.group).spec.notice_seconds if body.seconds is None else body.seconds
        return self._machine(self.cloud.interrupt(machine.id, notice))

    async def _silence(self, request: web.Request) -> web.Response:
        return self._machine(self.cloud.silence(request.match_info["instance"]))


def _hang_up(request: web.Request) -> NoReturn:
    if request.transport is not None:
        request.transport.abort()
    raise asyncio.CancelledError("the connection is dropped on purpose")


async def _object(request: web.Request) -> dict[str, Any]:
    try:
        text = await request.text()
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise invalid(f"the body is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise invalid(f"the body is {type(value).__name__}, not a JSON object")
    return value


async def _body(request: web.Request, model: type[WrittenT]) -> WrittenT:
    return model.model_validate(await _object(request))
