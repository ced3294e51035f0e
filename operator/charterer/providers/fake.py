"""The fake cloud's adapter. It uses the v1 API only, never the test controls under /admin."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote as escaped

import aiohttp

from charterer.api.metadata import connection_error
from charterer.clouds.fake import FakeGroup, of_gpu_type
from charterer.domain.ids import InstanceId, NodeName, OrderToken, PoolId
from charterer.domain.money import Price
from charterer.domain.order import Ask, Refusal, RefusalKind, Reply, Scope, Traits
from charterer.domain.pool import (
    Instance,
    InstanceState,
    Notice,
    Offering,
    Pool,
    PriceSegment,
    Quote,
    Survey,
)
from charterer.domain.time import Instant, parse_instant
from charterer.providers.errors import (
    AtMinSize,
    Busy,
    CloudOutcomeUnknown,
    CloudUnauthorized,
    CloudUnreachable,
    InsufficientCapacity,
    InvalidRequest,
    NotFoundInCloud,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Transient,
    UnknownCode,
    WouldTerminate,
)
from charterer.providers.provider import (
    NONE_KNOWN,
    Drained,
    KnownMachines,
    NodeTemplate,
    PreflightFinding,
    size_finding,
)

# Answers of the fake cloud's API (docs/fakecloud.md) as domain values. An answer of another shape raises ValueError,
# KeyError or TypeError, which the adapter reports as MalformedAnswer.


Json = Mapping[str, Any]

_REFUSALS = {
    "InsufficientInstanceCapacity": (RefusalKind.STOCK_OUT, Scope.POOL),
    "InstanceLimitExceeded": (RefusalKind.QUOTA_EXCEEDED, Scope.FAMILY),
}


def _instance(answer: Json) -> Instance:
    ended = answer["endedAt"]
    segments = [PriceSegment(parse_instant(s["since"]), Price.parse(s["hourlyPrice"])) for s in answer["segments"]]
    return Instance(
        id=InstanceId(answer["id"]),
        state=InstanceState(answer["state"]),
        provider_id=answer["providerId"],
        node=NodeName(answer["nodeName"]) if answer["nodeName"] else None,
        launched=parse_instant(answer["launchedAt"]),
        ended=None if ended is None else parse_instant(ended),
        segments=tuple(segments),
        billing_minimum_seconds=int(answer["billingMinimumSeconds"]),
        order=_order(answer),
    )


def _order(answer: Json) -> OrderToken | None:
    return OrderToken(answer["order"]) if answer["order"] else None


def _refusals(group: Json, answer: Json) -> tuple[Refusal, ...]:
    """The failed activities as refusals. If the group answers orders with failures at once, its reply has named them
    already.
    """
    if group["orders"] == "replying":
        return ()
    failed = (activity for activity in answer["activities"] if activity["status"] == "Failed")
    return tuple([_group_refusal(group, each, parse_instant(each["at"]), _order(each)) for each in failed])


def _group_refusal(group: Json, error: Json, at: Instant, order: OrderToken | None) -> Refusal:
    kind, scope = _REFUSALS.get(error["code"], (RefusalKind.UNKNOWN_CODE, Scope.POOL))
    where = group["name"] if scope is Scope.POOL else of_gpu_type(group["gpuType"]).within(scope)
    return Refusal(kind, scope, where, error["code"], error["message"], at, order)


def reply(group: Json, answer: Json) -> Reply:
    """The outcome of each order."""
    launched: dict[OrderToken, InstanceId] = {}
    refused: dict[OrderToken, Refusal] = {}
    for each in answer["orders"]:
        token = OrderToken(each["order"])
        if each["instance"] is not None:
            launched[token] = InstanceId(each["instance"])
        elif each["error"] is not None:
            refused[token] = _group_refusal(group, each["error"], now(answer), token)
    return Reply(launched, refused)


def traits(group: Json) -> Traits:
    """The traits of a group. They depend on how machines are ordered from the group."""
    orders = group["orders"]
    return Traits(
        named=orders != "counted",
        keeps_trying=orders != "replying",
        together=orders != "counted",
        lag_seconds=float(group["listLagSeconds"]),
        listed_seconds=float(group["listedSeconds"]),
    )


def _notices(answer: Json) -> tuple[Notice, ...]:
    return tuple(
        Notice(InstanceId(instance["id"]), parse_instant(instance["interruption"]["at"]))
        for instance in answer["instances"]
        if instance["interruption"] is not None
    )


def now(answer: Json) -> Instant:
    """The cloud's time of an answer."""
    return parse_instant(answer["now"])


def survey(pool: Pool, group: Json, instances: Json, activities: Json) -> Survey:
    """One survey from three answers about a group. Its time is that of the oldest answer."""
    return Survey(
        pool=pool.id,
        target=None if group["target"] is None else int(group["target"]),
        ordered=frozenset([OrderToken(order) for order in group["ordered"]]),
        instances=tuple(_instance(instance) for instance in instances["instances"]),
        refusals=_refusals(group, activities),
        notices=_notices(instances),
        asked=min(now(answer) for answer in (group, instances, activities)),
        traits=traits(group),
        offering=Offering(
            gpu_type=group["gpuType"],
            gpus_per_node=int(group["gpusPerInstance"]),
            instance_type=group["instanceType"],
            zone=group["zone"],
            group_id=group["id"],
            group_size=int(group["maxSize"]),
            traits=_nodes(group).traits({}),
        ),
    )


def _nodes(group: Json) -> NodeTemplate:
    taints = [(taint["key"], f"{taint['value']}:{taint['effect']}") for taint in group["taints"]]
    return NodeTemplate(dict(group["labels"]), taints, dict(group["resources"]))


def quote(answer: Json, source: str) -> Quote:
    """The quote in a price answer. ``source``: whose price list it is."""
    return Quote(
        price=Price.parse(answer["hourlyPrice"]),
        worst=Price.parse(answer["worstHourlyPrice"]),
        billing_minimum_seconds=int(answer["billingMinimumSeconds"]),
        source=source,
        as_of=parse_instant(answer["asOf"]),
    )


logger = logging.getLogger(__name__)

_SURVEYS_AT_ONCE: Final = 8
_CONNECT_SECONDS: Final = 3.0
_READ_SECONDS: Final = 5.0
_MUTATION_SECONDS: Final = 10.0
_READ_PAUSES: Final = (0.2, 0.8)
"""Seconds before a read's second and third attempt. If the last attempt fails, its error is raised."""
_TARGET_TRIES: Final = 3
_ANSWER_BYTES: Final = 16 * 2**20
"""Bytes of the longest answer that is read: many thousands of instances."""

T = TypeVar("T")

_CODES: Final[Mapping[str, type[ProviderError]]] = {
    "GroupNotFound": NotFoundInCloud,
    "InstanceNotFound": NotFoundInCloud,
    "WouldTerminate": WouldTerminate,
    "OrderLaunched": WouldTerminate,
    "MinSizeReached": AtMinSize,
    "MaxSizeExceeded": QuotaExceeded,
    "InstanceLimitExceeded": QuotaExceeded,
    "InsufficientInstanceCapacity": InsufficientCapacity,
    "Throttling": Throttled,
    "ServiceUnavailable": Transient,
    "InternalError": CloudOutcomeUnknown,  # if the call is a read: Transient
    "TargetChanged": Busy,
    "Unauthorized": CloudUnauthorized,
    "InvalidRequest": InvalidRequest,
}


class _AnswerLost(Exception):
    """The connection broke after the request was sent."""


async def _never_resend(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Raise an exception of ours if the connection broke, because aiohttp would otherwise repeat a PUT or DELETE."""
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _AnswerLost(str(error) or type(error).__name__) from error


class FakeCloud:
    """A Provider for all groups behind one endpoint. If the cloud requires a bearer token, the calls have one."""

    def __init__(self, endpoint: str, token: str | None = None) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._session: aiohttp.ClientSession | None = None
        self._room = asyncio.Semaphore(_SURVEYS_AT_ONCE)

    async def survey(
        self, pools: Sequence[Pool], known: KnownMachines = NONE_KNOWN
    ) -> Mapping[PoolId, Survey | ProviderError]:
        """The surveys, from three reads for each pool. Eight pools are read at a time."""
        surveys = await asyncio.gather(*(self._survey_or_error(pool) for pool in pools))
        return {pool.id: survey for pool, survey in zip(pools, surveys, strict=True)}

    async def _survey_or_error(self, pool: Pool) -> Survey | ProviderError:
        try:
            async with self._room:
                return await self._survey(pool)
        except ProviderError as error:
            return error

    async def _survey(self, pool: Pool) -> Survey:
        path = _group_path(pool)
        paths = (path, f"{path}/instances", f"{path}/activities")
        reads = await asyncio.gather(*(self._read(pool, each) for each in paths), return_exceptions=True)
        for read in reads:
            if isinstance(read, BaseException):
                raise read
        group, instances, activities = (read for read in reads if not isinstance(read, BaseException))
        _check_capacity_type(pool, path, group)
        return _decoded(pool, f"GET {path}", lambda: survey(pool, group, instances, activities))

    async def quote(self, pool: Pool) -> Quote:
        """The group's price."""
        path = f"/v1/price?group={escaped(_group(pool), safe='')}"
        answer = await self._read(pool, path)
        return _decoded(pool, f"GET {path}", lambda: quote(answer, f"the price list of {self._endpoint}"))

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Place the orders. If the group only counts machines, read its target, and set the target only if it is lower
        than wanted.
        """
        path = _group_path(pool)
        group = await self._read(pool, path)
        if not _traits(pool, group).named:
            await self._move_target(pool, group, lambda target: ask.at_least > target, ask.at_least)
            return Reply()
        body = {"orders": [order.token for order in ask.orders], "together": ask.together}
        answer = await self._mutate(pool, "POST", f"{path}/orders", body)
        return _decoded(pool, f"POST {path}/orders", lambda: reply(group, answer))

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        """Withdraw each order.

        If the group only counts machines, read its target, and set the target only if it is higher than wanted.
        """
        path = _group_path(pool)
        group = await self._read(pool, path)
        if not _traits(pool, group).named:
            await self._move_target(pool, group, lambda target: keep < target, keep)
        for order in orders:
            try:
                await self._mutate(pool, "DELETE", f"{path}/orders/{escaped(order, safe='')}")
            except WouldTerminate as error:
                logger.info("%s", error)  # a machine was launched meanwhile, which the next survey shows

    async def _move_target(self, pool: Pool, group: Json, wanted: Callable[[int], bool], to: int) -> None:
        """Change the target if it is still the one that was read. If it has changed, the cloud refuses and names the
        present target, and the change is tried again.

        Raises Busy if other callers keep changing the target.
        """
        path = _group_path(pool)
        target = _decoded(pool, f"GET {path}", lambda: int(group["target"]))
        for tries_left in reversed(range(_TARGET_TRIES)):
            if not wanted(target):
                return
            try:
                await self._mutate(pool, "PUT", f"{path}/target", {"target": to, "expected": target})
            except _TargetChanged as changed:
                if not tries_left:
                    raise
                target = changed.target
            else:
                return

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """End the instance and lower the target. A missing instance counts as ended."""
        path = f"{_group_path(pool)}/instances/{escaped(instance, safe='')}?decrement=true"
        try:
            await self._mutate(pool, "DELETE", path)
        except NotFoundInCloud as error:
            if error.code != "InstanceNotFound":
                raise
        logger.info("GPUPool %s: ended instance %s, whose node %s was empty", pool.id, instance, proof.node)

    async def renew(self, pools: Sequence[Pool]) -> None:
        """Do nothing, because machines of the fake cloud never end themselves."""

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        """The findings on whether the group exists, sells the capacity type and has a price, and on how many of
        maxNodes fit into it.
        """
        path = _group_path(pool)
        try:
            group = await self._read(pool, path)
            _check_capacity_type(pool, path, group)
            price = await self.quote(pool)
        except ProviderError as error:
            return [PreflightFinding("group", False, error.said)]
        sells = f"{group.get('instanceType')} in {group.get('zone')} at {price.price}"
        found = [PreflightFinding("group", True, f"{_group(pool)} sells {sells}")]
        fits = _decoded(pool, f"GET {path}", lambda: int(group["maxSize"]))
        return [*found, size_finding(pool, fits)]

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    # --- calls --------------------------------------------------------------------------------------------------------

    async def _read(self, pool: Pool, path: str) -> Json:
        for pause in (*_READ_PAUSES, None):
            try:
                return await self._call(pool, "GET", path, None, _READ_SECONDS)
            except (Transient, Throttled) as error:
                wait = error.retry_after if isinstance(error, Throttled) else 0.0
                if pause is None or wait > _READ_SECONDS:
                    raise
                await asyncio.sleep(max(pause, wait))
        raise AssertionError("unreachable: the last try returns or raises")

    async def _mutate(self, pool: Pool, method: str, path: str, body: Mapping[str, object] | None = None) -> Json:
        return await self._call(pool, method, path, body, _MUTATION_SECONDS)

    async def _call(
        self, pool: Pool, method: str, path: str, body: Mapping[str, object] | None, seconds: float
    ) -> Json:
        """Send one request once. Returns its answer, or raises the ProviderError that says what is known about its
        outcome.
        """
        call = f"{method} {path}"
        lost = Transient if method == "GET" else CloudOutcomeUnknown
        if self._session is None:
            headers = {
                **self._headers,
                "Accept-Encoding": "identity",
            }  # a compressed answer could grow to any size
            self._session = aiohttp.ClientSession(headers=headers, middlewares=(_never_resend,), auto_decompress=False)
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS)
        try:
            async with self._session.request(method, self._endpoint + path, json=body, timeout=timeout) as answer:
                received = await _bounded(answer)
                status, retry_after = answer.status, answer.headers.get("Retry-After")
        except aiohttp.InvalidURL as error:
            message = f"spec.fake.endpoint {self._endpoint!r} is no URL; write it like http://host:port"
            raise InvalidRequest(pool.id, call, "InvalidURL", message) from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            message = f"{self._endpoint}: {connection_error(error)}"
            raise CloudUnreachable(pool.id, call, "NotConnected", message) from error
        except TimeoutError as error:
            raise lost(pool.id, call, "TimeOut", f"no answer within {seconds:.0f} s") from error
        except (_AnswerLost, aiohttp.ClientError) as error:
            raise lost(pool.id, call, "AnswerLost", str(error)) from error
        if received is None:
            message = f"the answer is longer than {_ANSWER_BYTES} bytes"
            raise (UnknownCode if method == "GET" else lost)(pool.id, call, "AnswerTooLong", message)
        decoded = _json_object(received)
        if status >= 400:
            raise _refusal(pool, call, status, retry_after, decoded)
        if decoded is None:
            raise UnknownCode(pool.id, call, f"HTTP {status}", f"the answer is no JSON object: {received[:200]!r}")
        return decoded


class _TargetChanged(Busy):
    """The target had changed since it was read. ``target``: the present one."""

    def __init__(self, pool: PoolId, call: str, code: str, message: str, target: int) -> None:
        super().__init__(pool, call, code, message)
        self.target = target


def _group(pool: Pool) -> str:
    if not isinstance(pool.cloud, FakeGroup):
        raise TypeError(f"GPUPool {pool.id} is not the fake cloud's: {pool.cloud}")
    return pool.cloud.group


def _group_path(pool: Pool) -> str:
    return f"/v1/groups/{escaped(_group(pool), safe='')}"


def _check_capacity_type(pool: Pool, path: str, group: Json) -> None:
    if (sold := group.get("capacityType")) != pool.capacity_type.value:
        message = f"spec.capacityType is {pool.capacity_type}, but group {_group(pool)!r} sells {sold}"
        raise InvalidRequest(pool.id, f"GET {path}", "CapacityTypeDiffers", message)


def _traits(pool: Pool, group: Json) -> Traits:
    return _decoded(pool, f"GET {_group_path(pool)}", lambda: traits(group))


async def _bounded(answer: aiohttp.ClientResponse) -> bytes | None:
    """The answer's body, or None if it is too long. Reading then stops."""
    body = bytearray()
    async for part in answer.content.iter_any():
        body += part
        if len(body) > _ANSWER_BYTES:
            answer.close()
            return None
    return bytes(body)


def _json_object(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _decoded(pool: Pool, call: str, decode: Callable[[], T]) -> T:
    try:
        return decode()
    except (ValueError, KeyError, TypeError) as error:
        logger.error("GPUPool %s: %s: the answer cannot be understood: %r", pool.id, call, error)
        raise UnknownCode(pool.id, call, "MalformedAnswer", repr(error)) from error


def _refusal(
    pool: Pool, call: str, status: int, retry_after: str | None, answer: Mapping[str, Any] | None
) -> ProviderError:
    """The error for the cloud's code. Codes are looked at only here."""
    error = (answer or {}).get("error")
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        return _without_code(pool, call, status)
    code, message = error["code"], str(error.get("message", ""))
    kind = _CODES.get(code)
    if kind is None:
        logger.error("GPUPool %s: %s: unknown code %s (HTTP %d): %s", pool.id, call, code, status, message)
        return UnknownCode(pool.id, call, code, message)
    if kind is CloudOutcomeUnknown and call.startswith("GET "):
        return Transient(pool.id, call, code, message)
    if kind is InsufficientCapacity:
        return InsufficientCapacity(pool.id, call, code, message, scope=_group(pool))
    if kind is QuotaExceeded:
        limit = f"maxSize of group {_group(pool)}" if code == "MaxSizeExceeded" else "quota of the account"
        return QuotaExceeded(pool.id, call, code, message, limit=limit)
    if kind is Throttled:
        wait = float(retry_after) if retry_after is not None and retry_after.isdigit() else 1.0
        return Throttled(pool.id, call, code, message, wait)
    if code == "TargetChanged" and isinstance(error.get("target"), int):
        return _TargetChanged(pool.id, call, code, message, error["target"])
    return kind(pool.id, call, code, message)


def _without_code(pool: Pool, call: str, status: int) -> ProviderError:
    """An error without the cloud's code, such as a proxy's. Only its HTTP status is known."""
    message = "an error without a code; is something else listening at the endpoint?"
    if status < 500:
        return UnknownCode(pool.id, call, f"HTTP {status}", message)
    kind = Transient if call.startswith("GET ") else CloudOutcomeUnknown
    return kind(pool.id, call, f"HTTP {status}", message)
