"""The adapter of Karpenter: one NodeClaim without a NodePool for each order.

A claim has our finalizer, so that it can be read after its end. Without the finalizer, Karpenter would delete a claim
within a second of a stock-out. Only the claim shows the end of its machine. Once a survey has reported the end, it
removes the finalizer. Nothing else of a claim is ever changed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import inf
from typing import Final, TypeAlias, TypeVar

import aiohttp

from charterer.api.metadata import connection_error
from charterer.api.names import LABEL_POOL
from charterer.clouds.karpenter import NodeClaims
from charterer.domain.ids import InstanceId, OrderToken, PoolId, RentalId
from charterer.domain.money import Price
from charterer.domain.order import Ask, Order, Refusal, RefusalKind, Reply, Scope, Traits
from charterer.domain.pool import CapacityType, Notice, Pool, Quote, Survey
from charterer.domain.time import Instant, instant, seconds_between
from charterer.gpu_types.accelerators import gpus_of
from charterer.providers.errors import (
    Busy,
    CloudUnreachable,
    InvalidRequest,
    ProviderError,
    Transient,
    UnknownCode,
    WouldTerminate,
)
from charterer.providers.karpenter.claims import (
    CAPACITY,
    CLAIMS,
    Claim,
    ClaimStage,
    Hardware,
    NodeClasses,
    claim_for,
    claim_name,
    find_hardware,
)
from charterer.providers.objects import CallFailure, Objects, ObjectsError, about_pool
from charterer.providers.provider import NONE_KNOWN, Drained, KnownMachines, PreflightFinding

# Why Karpenter did not launch a machine: codes and reasons, each with its meaning.
#
# Karpenter wraps what the cloud said. The code is in one of two places. It is a word in the message of an Event
# (``InsufficientCapacityError``, after which the claim is deleted at once). Or it is the reason of the claim's
# condition Launched, and Karpenter then tries again for five minutes. Sources: [KA] karpenter-provider-aws v1.15.1
# pkg/errors/errors.go and pkg/providers/instance, [K] sigs.k8s.io/karpenter v1.15.0
# pkg/controllers/nodeclaim/lifecycle, [KZ] karpenter-provider-azure pkg/providers/instance/offerings, [KG]
# karpenter-provider-gcp pkg/providers/instance.


_log = logging.getLogger(__name__)

_Meaning: TypeAlias = tuple[RefusalKind, Scope]

_STOCK_OUT: Final = (RefusalKind.STOCK_OUT, Scope.ZONE)
_INVALID: Final = (RefusalKind.INVALID_REQUEST, Scope.POOL)
_UNAUTHORIZED: Final = (RefusalKind.UNAUTHORIZED, Scope.ACCOUNT)

_CODES: Final[Mapping[str, _Meaning]] = {
    # AWS: codes of CreateFleet that Karpenter takes for a lack of capacity. [KA]
    "InsufficientInstanceCapacity": _STOCK_OUT,
    "UnfulfillableCapacity": _STOCK_OUT,
    "SpotMaxPriceTooLow": _STOCK_OUT,
    "Unsupported": _STOCK_OUT,
    "ReservationCapacityExceeded": (RefusalKind.STOCK_OUT, Scope.POOL),
    "InvalidCapacityReservationState.Unavailable": (RefusalKind.STOCK_OUT, Scope.POOL),
    "InsufficientFreeAddressesInSubnet": (RefusalKind.STOCK_OUT, Scope.SUBNET),
    "VcpuLimitExceeded": (RefusalKind.QUOTA_EXCEEDED, Scope.FAMILY),
    "MaxSpotInstanceCountExceeded": (RefusalKind.QUOTA_EXCEEDED, Scope.FAMILY),
    "MaxFleetCountExceeded": (RefusalKind.QUOTA_EXCEEDED, Scope.ACCOUNT),
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": _UNAUTHORIZED,
    # Azure. [KZ]
    "AllocationFailed": (RefusalKind.STOCK_OUT, Scope.REGION),
    "ZonalAllocationFailed": _STOCK_OUT,
    "OverconstrainedAllocationRequest": (RefusalKind.STOCK_OUT, Scope.REGION),
    "OverconstrainedZonalAllocationRequest": _STOCK_OUT,
    "SkuNotAvailable": (RefusalKind.STOCK_OUT, Scope.REGION),
    "LowPriorityCores": (RefusalKind.QUOTA_EXCEEDED, Scope.CAPACITY_TYPE),
    "Family Cores quota": (RefusalKind.QUOTA_EXCEEDED, Scope.FAMILY),
    "Total Regional Cores quota": (RefusalKind.QUOTA_EXCEEDED, Scope.REGION),
    # Google. [KG]
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": _STOCK_OUT,
    "ZONE_RESOURCE_POOL_EXHAUSTED": _STOCK_OUT,
    "RESOURCE_POOL_EXHAUSTED": _STOCK_OUT,
    "IP_SPACE_EXHAUSTED_WITH_DETAILS": (RefusalKind.STOCK_OUT, Scope.SUBNET),
    "IP_SPACE_EXHAUSTED": (RefusalKind.STOCK_OUT, Scope.SUBNET),
    "QUOTA_EXCEEDED": (RefusalKind.QUOTA_EXCEEDED, Scope.REGION),
    # Karpenter itself: the node class does not exist; what was out of stock a moment ago is not tried again. [KA, K]
    "resolving nodeclass": _INVALID,
    "resolving node class": _INVALID,
    "all requested instance types were unavailable": _STOCK_OUT,
}
"""Meanings of words in the message of an Event InsufficientCapacityError."""

_REASONS: Final[Mapping[str, _Meaning]] = {
    "Unauthorized": _UNAUTHORIZED,
    "SpotSLRCreationFailed": _UNAUTHORIZED,
    "AMIAuthorizationFailure": _UNAUTHORIZED,
    "SecurityGroupSubnetVPCMismatch": _INVALID,
    "InstanceProfileNameInvalid": _INVALID,
    "LaunchTemplateNotFound": _INVALID,
    "UserDataSizeLimitExceeded": _INVALID,
    "InvalidAMIID": _INVALID,
    "AMINotFound": _INVALID,
    "FreeTierIneligible": _INVALID,
    "NodeClassReadinessUnknown": _INVALID,
    "InstanceTypeResolutionFailed": _INVALID,
    "SubnetResolutionFailed": _INVALID,
    "FleetQuotaExceeded": (RefusalKind.QUOTA_EXCEEDED, Scope.ACCOUNT),
    "AccountPendingVerification": (RefusalKind.QUOTA_EXCEEDED, Scope.ACCOUNT),
    "SpotQuotaExceeded": (RefusalKind.QUOTA_EXCEEDED, Scope.CAPACITY_TYPE),
    "VCPULimitExceeded": (RefusalKind.QUOTA_EXCEEDED, Scope.FAMILY),
    "InsufficientFreeAddressesInSubnet": (RefusalKind.STOCK_OUT, Scope.SUBNET),
    "LaunchFailed": (RefusalKind.LAUNCH_FAILED, Scope.POOL),
}
"""Meanings of reasons of the condition Launched. [KA] ToReasonMessage, NewCreateError; [K] LaunchFailed."""

PASSING: Final = frozenset({"RequestLimitExceeded", "InternalError"})
"""Reasons of the condition Launched after which Karpenter's next attempt is likely to succeed. [KA]"""

CAPACITY_EVENT: Final = "InsufficientCapacityError"

_SEVEREST: Final = (
    RefusalKind.UNAUTHORIZED,
    RefusalKind.INVALID_REQUEST,
    RefusalKind.QUOTA_EXCEEDED,
    RefusalKind.STOCK_OUT,
)
"""Kinds of refusal in order of precedence. If a message has several codes, the first kind in this order counts. A quota
is before a stock-out, because room in a quota does not come back by itself.
"""


@dataclass(frozen=True, slots=True)
class About:
    """What a refusal is about: pool, node class and order. ``at``: when the cluster learned of the refusal."""

    pool: Pool
    cloud: NodeClaims
    order: OrderToken | None
    at: Instant


def of_event(message: str, about: About) -> Refusal:
    """The refusal in an Event InsufficientCapacityError."""
    found = {code: meaning for code, meaning in _CODES.items() if _contains(message, code)}
    text = message.partition(" event: ")[2] or message
    if not found:
        return _refusal(_STOCK_OUT, CAPACITY_EVENT, text, about)
    code = min(found, key=lambda code: (_SEVEREST.index(found[code][0]), message.index(code)))
    return _refusal(found[code], code, text, about)


def of_condition(reason: str, message: str, about: About) -> Refusal:
    """The refusal in the condition Launched with this reason."""
    meaning = (RefusalKind.LAUNCH_FAILED, Scope.POOL) if reason in PASSING else _REASONS.get(reason)
    if meaning is None:
        _log.error("GPUPool %s: no machine for a reason that is not known: %s: %s", about.pool.id, reason, message)
        meaning = (RefusalKind.UNKNOWN_CODE, Scope.POOL)
    return _refusal(meaning, reason, message, about)


def invalid(code: str, message: str, about: About) -> Refusal:
    """The refusal of an order that cannot be launched until somebody changes something."""
    return _refusal(_INVALID, code, message, about)


def unexplained(claim: str, about: About) -> Refusal:
    """The refusal by a claim that is over and had no machine, if nothing says why."""
    text = f"NodeClaim {claim} was deleted before it had a machine, and no Event says why"
    return _refusal((RefusalKind.LAUNCH_FAILED, Scope.POOL), "NodeClaimDeleted", text, about)


def _refusal(meaning: _Meaning, code: str, message: str, about: About) -> Refusal:
    kind, scope = meaning
    match scope:
        case Scope.POOL:
            where = str(about.pool.id)
        case Scope.SUBNET:  # Karpenter does not say which subnet
            where = about.cloud.zone
        case _:
            where = about.cloud.way(about.pool.capacity_type).within(scope)
    return Refusal(kind, scope, where, code, message, about.at, about.order)


def _contains(message: str, code: str) -> bool:
    return re.search(rf"(?<![A-Za-z_.]){re.escape(code)}(?![A-Za-z_])", message) is not None


# Preflight: checks that find the reasons why a pool would get no nodes, before any money is spent.


_TRIAL: Final = Order(OrderToken("cpreflight0"), RentalId("preflight"))


async def findings(
    pool: Pool,
    cloud: NodeClaims,
    objects: Objects,
    classes: NodeClasses,
    quote: Callable[[], Awaitable[Quote]],
) -> Sequence[PreflightFinding]:
    """One finding each on the GPUs, on the node class, on Karpenter and the operator's rights, and on the price."""
    return [
        await _gpus(cloud, objects),
        await _node_class(cloud, classes),
        await _claim(pool, cloud, objects),
        await _price(quote),
    ]


async def _gpus(cloud: NodeClaims, objects: Objects) -> PreflightFinding:
    subject = f"GPUs of instance type {cloud.instance_type}"
    try:
        found = await find_hardware(objects, cloud)
    except ObjectsError as error:
        return PreflightFinding(subject, False, str(error))
    if found is None:
        advice = "no Node says what they are: set spec.karpenter.gpuType and gpusPerNode"
        return PreflightFinding(subject, False, advice)
    text = f"{found.gpus} × {found.gpu_type}"
    if not found.seen:
        label, gpus = gpus_of(cloud.instance_type)
        if gpus not in (0, found.gpus):
            said = f"spec.karpenter says {text}, and by Charterer's table it has {gpus} × {label}: correct gpusPerNode"
            return PreflightFinding(subject, False, said)
        whose = "declared" if cloud.gpu_type and cloud.gpus else "Charterer's table says"
        return PreflightFinding(subject, True, f"{text}, as {whose}: no Node of this type has been seen yet")
    declared = (cloud.gpu_type or found.gpu_type, cloud.gpus or found.gpus)
    if declared != (found.gpu_type, found.gpus):
        said = f"{declared[1]} × {declared[0]}"
        return PreflightFinding(subject, False, f"Nodes have {text}, and spec.karpenter says {said}: correct it")
    return PreflightFinding(subject, True, f"{text}, as Nodes say")


async def _node_class(cloud: NodeClaims, classes: NodeClasses) -> PreflightFinding:
    subject = f"{cloud.class_kind} {cloud.class_name}"
    try:
        trouble = await classes.trouble(cloud)
    except ObjectsError as error:
        return PreflightFinding(subject, False, str(error))
    return PreflightFinding(subject, not trouble, trouble or "ready")


async def _claim(pool: Pool, cloud: NodeClaims, objects: Objects) -> PreflightFinding:
    """The finding on Karpenter's CRD, the operator's rights and the pool's spec. A NodeClaim is created in a dry run
    for it.
    """
    subject = "a NodeClaim, in a dry run"
    try:
        await objects.create(CLAIMS, claim_for(pool, cloud, max(cloud.gpus, 1), _TRIAL), dry_run=True)
    except ObjectsError as error:
        advice = {
            CallFailure.ABSENT: "; install Karpenter",
            CallFailure.FORBIDDEN: "; set the chart's value karpenter.enabled",
        }.get(error.failure, "")
        return PreflightFinding(subject, False, f"{error}{advice}")
    return PreflightFinding(subject, True, "accepted")


async def _price(quote: Callable[[], Awaitable[Quote]]) -> PreflightFinding:
    try:
        found = await quote()
    except ProviderError as error:
        return PreflightFinding("price", False, error.said)
    return PreflightFinding("price", True, f"{found.price} ({found.source})")


# Prices from Karpenter's own metrics. Karpenter estimates the price of each offering, to choose the cheapest.


METRIC: Final = "karpenter_cloudprovider_instance_type_offering_price_estimate"
_SECONDS: Final = 10.0
_LABEL: Final = re.compile(r'([a-z_]+)="([^"]*)"')


def declared(pool: Pool, cloud: NodeClaims) -> Quote | None:
    """The price in the pool's spec, or None if the spec has none."""
    price = pool.price_override
    if price is None:
        return None
    return Quote(price, price, cloud.billing_minimum_seconds, "spec.price.hourly", pool.created)


async def estimated(session: aiohttp.ClientSession, pool: Pool, cloud: NodeClaims) -> Quote:
    """Karpenter's estimate. The worst price of a spot node is its on-demand price, if Karpenter knows the on-demand
    price.
    """
    call = f"GET {cloud.price_metrics}"
    prices, as_of = await _read(session, pool, cloud)
    price = prices.get(CAPACITY[pool.capacity_type])
    if price is None:
        message = (
            f"{METRIC} has no price of instance type {cloud.instance_type!r} ({CAPACITY[pool.capacity_type]}) in zone "
            f"{cloud.zone!r}: correct spec.karpenter.instanceType or zone, or set spec.price.hourly"
        )
        raise InvalidRequest(pool.id, call, "NoPrice", message)
    worst = max(price, prices.get(CAPACITY[CapacityType.ON_DEMAND], price))
    return Quote(price, worst, cloud.billing_minimum_seconds, "Karpenter's estimate", as_of)


async def _read(session: aiohttp.ClientSession, pool: Pool, cloud: NodeClaims) -> tuple[dict[str, Price], Instant]:
    """Prices in the pool's zone by capacity type, and the time of the answer."""
    url = cloud.price_metrics
    call = f"GET {url}"
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=_SECONDS)) as answer:
            if answer.status != 200:
                raise UnknownCode(pool.id, call, f"HTTP {answer.status}", "is spec.karpenter.priceMetrics right?")
            date = answer.headers.get("Date")
            as_of = Instant(time.time_ns() // 1000) if date is None else instant(parsedate_to_datetime(date))
            return _prices(await answer.text(), cloud), as_of
    except (aiohttp.InvalidURL, ValueError) as error:
        message = f"spec.karpenter.priceMetrics cannot be read: {error}"
        raise InvalidRequest(pool.id, call, "NoMetrics", message) from error
    except aiohttp.ClientConnectorError as error:
        message = f"spec.karpenter.priceMetrics: {connection_error(error)}"
        raise CloudUnreachable(pool.id, call, "NotConnected", message) from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Transient(pool.id, call, "NoAnswer", str(error) or f"no answer within {_SECONDS:.0f} s") from error


def _prices(text: str, cloud: NodeClaims) -> dict[str, Price]:
    found: dict[str, Price] = {}
    for line in text.splitlines():
        if line.startswith(METRIC + "{"):
            labels, _, value = line.removeprefix(METRIC).rpartition("} ")
            named = dict(_LABEL.findall(labels))
            if named.get("instance_type") == cloud.instance_type and named.get("zone") == cloud.zone:
                dollars = float(value.split()[0])
                if 0.0 < dollars < inf:  # an unknown price is 0, NaN or +Inf
                    found[named.get("capacity_type", "")] = Price.per_second(dollars / 3600)
    return found


T = TypeVar("T")

TRAITS: Final = Traits(named=True, keeps_trying=True, together=False, lag_seconds=2.0, listed_seconds=0.0)
_EVENTS: Final = "/apis/events.k8s.io/v1/events"
_AT_ONCE: Final = 8
_TOLD_SECONDS: Final = 5.0
"""Seconds for which surveys show a claim's end before the claim is released. The end is recorded within this time."""
_EVENT_SECONDS: Final = 10.0
"""Seconds by which the Event that gives the reason may come later than the end of a claim."""
_HARDWARE_SECONDS: Final = 60.0
"""Seconds between two attempts to find a Node that shows the hardware, while only the pool's spec says it."""

_HINTS: Final = {
    CallFailure.ABSENT: ": is Karpenter installed in this cluster?",
    CallFailure.FORBIDDEN: " (the chart's value karpenter.enabled grants it)",
}


class KarpenterCloud:
    """A Provider for all pools of the operator's own cluster whose nodes Karpenter launches.

    ``clock``: seconds of a clock that never goes back.
    """

    def __init__(self, objects: Objects, clock: Callable[[], float] = time.monotonic) -> None:
        self._objects = objects
        self._clock = clock
        self._classes = NodeClasses(objects)
        self._session: aiohttp.ClientSession | None = None
        self._hardware: dict[NodeClaims, tuple[Hardware, float]] = {}
        self._asked = Instant(0)
        """The API server's time of the last survey."""
        self._told: dict[str, float] = {}
        self._refusals: dict[str, Refusal] = {}

    # --- reading ------------------------------------------------------------------------------------------------------

    async def survey(
        self, pools: Sequence[Pool], known: KnownMachines = NONE_KNOWN
    ) -> Mapping[PoolId, Survey | ProviderError]:
        """The surveys, from one list of all claims. For refused claims, their Events are read too."""
        claims: dict[PoolId, list[Claim]] = defaultdict(list)
        try:
            listed = await self._objects.list(CLAIMS, labels=LABEL_POOL)
            found = [Claim.of(raw) for raw in listed.items]
            names = {claim.meta.name for claim in found}
            for pool in pools:
                for name in set(known.get(pool.id, ())) - names:
                    if (unlabelled := await self._claim(name)) is not None:
                        claims[pool.id].append(unlabelled)
        except ObjectsError as error:
            return {pool.id: _error(pool, error) for pool in pools}
        self._asked = listed.at
        for claim in found:
            claims[claim.pool].append(claim)
        self._forget_all_but({claim.meta.uid for of_pool in claims.values() for claim in of_pool})
        answers = await asyncio.gather(*(self._answer(pool, claims[pool.id], listed.at) for pool in pools))
        return {pool.id: answer for pool, answer in zip(pools, answers, strict=True)}

    async def _answer(self, pool: Pool, claims: Sequence[Claim], at: Instant) -> Survey | ProviderError:
        try:
            return await self._survey(pool, _claims_of(pool), claims, at)
        except ProviderError as error:
            return error
        except ObjectsError as error:
            return _error(pool, error)

    async def _survey(self, pool: Pool, cloud: NodeClaims, claims: Sequence[Claim], at: Instant) -> Survey:
        found = await self._hardware_of(pool, cloud)
        refusals, ordered = [], set()
        for claim in claims:
            about = About(pool, cloud, claim.order, at)
            match claim.stage:
                case ClaimStage.UNSEEN | ClaimStage.LAUNCHING if claim.order is not None:
                    ordered.add(claim.order)
                case ClaimStage.FAILING if claim.order is not None:
                    ordered.add(claim.order)
                    if claim.failure is not None and claim.failure[0] not in PASSING:
                        refusals.append(of_condition(*claim.failure, about))
                case ClaimStage.UNSERVED if claim.order is not None:
                    refusal = await self._why(claim, about)
                    if refusal is None:
                        ordered.add(claim.order)
                    else:
                        refusals.append(refusal)
        survey = Survey(
            pool=pool.id,
            target=None,
            ordered=frozenset(ordered),
            instances=tuple([claim.instance(cloud, at) for claim in claims if claim.stage in _WITH_MACHINE]),
            refusals=tuple(refusals),
            notices=tuple(_notices(claims)),
            asked=at,
            traits=TRAITS,
            offering=found.offering(cloud),
        )
        await self._release_told([claim for claim in claims if _over(claim) and claim.order not in ordered])
        return survey

    async def _hardware_of(self, pool: Pool, cloud: NodeClaims) -> Hardware:
        known, since = self._hardware.get(cloud, (None, 0.0))
        if known is not None and (known.seen or self._clock() - since < _HARDWARE_SECONDS):
            return known
        found = await find_hardware(self._objects, cloud)
        if found is None:
            message = f"no Node says what GPUs a {cloud.instance_type} has: set spec.karpenter.gpuType and gpusPerNode"
            raise InvalidRequest(pool.id, "survey", "UnknownHardware", message)
        self._hardware[cloud] = found, self._clock()
        return found

    async def _why(self, claim: Claim, about: About) -> Refusal | None:
        """Why a claim is over without a machine. None while an Event that says so may still come."""
        uid = claim.meta.uid
        if uid not in self._refusals:
            refusal = await self._told_by_event(claim, about)
            if refusal is None and claim.failure is not None:
                refusal = of_condition(*claim.failure, about)
            if refusal is None and (trouble := await self._classes.trouble(about.cloud)):
                refusal = invalid("NodeClassNotReady", trouble, about)
            deleted = about.at if claim.meta.deleted is None else claim.meta.deleted
            if refusal is None and seconds_between(deleted, about.at) >= _EVENT_SECONDS:
                refusal = unexplained(claim.meta.name, about)
            if refusal is None:
                return None
            self._refusals[uid] = refusal
        return self._refusals[uid]

    async def _told_by_event(self, claim: Claim, about: About) -> Refusal | None:
        events = await self._objects.list(_EVENTS, fields=f"regarding.uid={claim.meta.uid},reason={CAPACITY_EVENT}")
        message = next((str(event.get("note") or "") for event in events.items), None)
        return None if message is None else of_event(message, about)

    async def _release_told(self, over: Iterable[Claim]) -> None:
        """Release the claims whose end surveys have shown for a while.

        If a claim cannot be released now, it is released later.
        """
        now = self._clock()
        for claim in over:
            since = self._told.setdefault(claim.meta.uid, now)
            if now - since >= _TOLD_SECONDS:
                try:
                    await self._release(claim)
                except ObjectsError as error:
                    _log.info("NodeClaim %s stays for now: %s", claim.meta.name, error)

    def _forget_all_but(self, uids: set[str]) -> None:
        self._told = {uid: since for uid, since in self._told.items() if uid in uids}
        self._refusals = {uid: refusal for uid, refusal in self._refusals.items() if uid in uids}

    async def quote(self, pool: Pool) -> Quote:
        """Karpenter's estimate if its metrics are configured, otherwise the price in the pool's spec."""
        cloud = _claims_of(pool)
        if cloud.price_metrics:
            if self._session is None:
                self._session = aiohttp.ClientSession()
            return await estimated(self._session, pool, cloud)
        quote = declared(pool, cloud)
        if quote is None:
            message = "nobody says what a node costs: set spec.price.hourly, or spec.karpenter.priceMetrics"
            raise InvalidRequest(pool.id, "quote", "NoPrice", message)
        return quote

    async def renew(self, pools: Sequence[Pool]) -> None:
        """Do nothing. A claim's ``expireAfter`` counts from its creation and cannot be changed."""

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        """Findings on Karpenter, the node class, the rights, the GPUs and the price."""
        return await findings(pool, _claims_of(pool), self._objects, self._classes, lambda: self.quote(pool))

    # --- changing -----------------------------------------------------------------------------------------------------

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Create the claims that are missing. Later surveys show whether they get machines."""
        cloud = _claims_of(pool)
        trouble = await self._or_raise(pool, self._classes.trouble(cloud))
        if trouble:
            about = {order.token: About(pool, cloud, order.token, self._asked) for order in ask.orders}
            return Reply(refused={token: invalid("NodeClassNotReady", trouble, of) for token, of in about.items()})
        gpus = (await self._or_raise(pool, self._hardware_of(pool, cloud))).gpus
        room = asyncio.Semaphore(_AT_ONCE)

        async def place(order: Order) -> Refusal | None:
            async with room:
                return await self._or_raise(pool, self._place(pool, cloud, gpus, order))

        placed = await asyncio.gather(*(place(order) for order in ask.orders), return_exceptions=True)
        refused: dict[OrderToken, Refusal] = {}
        for order, refusal in zip(ask.orders, placed, strict=True):
            if isinstance(refusal, BaseException):
                raise refusal
            if refusal is not None:
                refused[order.token] = refusal
        return Reply(refused=refused)

    async def _place(self, pool: Pool, cloud: NodeClaims, gpus: int, order: Order) -> Refusal | None:
        """Create the order's claim unless it exists. A claim that is over is replaced."""
        body = claim_for(pool, cloud, gpus, order)
        if await self._objects.create(CLAIMS, body):
            return None
        found = await self._claim(claim_name(order))
        if found is None:
            return None  # the claim disappeared just now, and the next ask creates it
        if found.order != order.token:
            about = About(pool, cloud, order.token, found.meta.created)
            message = f"NodeClaim {found.meta.name} is not Charterer's: delete it or rename it"
            return invalid("NameTaken", message, about)
        if found.stage is ClaimStage.UNSERVED and await self._release(found) is not None:
            await self._objects.create(CLAIMS, body)
        return None

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        """Delete the claims of these orders from which no machine can come. Raises Busy if a machine may be on its way.

        If a claim were deleted during its launch, a machine could remain without a claim, until Karpenter's own cleanup
        finds it. So the deletion waits until Karpenter has decided, which takes at most five minutes.
        """
        await self._or_raise(pool, self._withdraw(pool, frozenset(orders)))

    async def _withdraw(self, pool: Pool, orders: frozenset[OrderToken]) -> None:
        listed = await self._objects.list(CLAIMS, labels=f"{LABEL_POOL}={pool.id}")
        claims = [claim for claim in map(Claim.of, listed.items) if claim.order in orders]
        waiting = [claim.meta.name for claim in claims if not await self._give_up(pool, claim)]
        if waiting:
            message = f"NodeClaim {waiting[0]} may still get a machine: Karpenter decides within 5 minutes"
            raise Busy(pool.id, "delete NodeClaim", "Launching", message)

    async def _give_up(self, pool: Pool, claim: Claim) -> bool:
        """Delete the claim if no machine can come from it. Returns False if one may come."""
        match claim.stage:
            case ClaimStage.UNSERVED:
                await self._release(claim)
                return True
            case ClaimStage.UNSEEN | ClaimStage.FAILING if not claim.meta.deleting:
                version = claim.meta.resource_version
                if not await self._objects.delete(claim.path, uid=claim.meta.uid, resource_version=version):
                    return False
                left = await self._claim(claim.meta.name)
                return left is None or (left.stage is ClaimStage.UNSERVED and await self._release(left) is not None)
            case ClaimStage.RUNNING | ClaimStage.ENDING | ClaimStage.ENDED:
                message = f"NodeClaim {claim.meta.name} has machine {claim.provider_id}"
                raise WouldTerminate(pool.id, "delete NodeClaim", "HasMachine", message)
            case _:
                return False

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """Delete the claim. Karpenter then ends the machine. The claim stays until the machine has ended."""
        claim = await self._or_raise(pool, self._claim(instance))
        if claim is None or claim.meta.deleting:
            return
        if claim.pool != pool.id:
            message = f"NodeClaim {instance} is not for this pool"
            raise InvalidRequest(pool.id, "delete NodeClaim", "NotOurs", message)
        await self._or_raise(pool, self._objects.delete(claim.path, uid=claim.meta.uid))
        _log.info("GPUPool %s: deleted NodeClaim %s, whose node %s was empty", pool.id, instance, proof.node)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _claim(self, name: str) -> Claim | None:
        found = await self._objects.get(f"{CLAIMS}/{name}")
        return None if found is None else Claim.of(found)

    async def _release(self, claim: Claim) -> str | None:
        """Remove our finalizer. Returns the claim's new version, or None if the claim has changed or is gone."""
        return await self._objects.keep_by(claim.path, claim.meta.resource_version, claim.finalizers_of_others)

    async def _or_raise(self, pool: Pool, call: Awaitable[T]) -> T:
        try:
            return await call
        except ObjectsError as error:
            raise _error(pool, error) from error


_WITH_MACHINE: Final = frozenset({ClaimStage.RUNNING, ClaimStage.ENDING, ClaimStage.ENDED})


def _over(claim: Claim) -> bool:
    return claim.stage in (ClaimStage.ENDED, ClaimStage.UNSERVED)


def _claims_of(pool: Pool) -> NodeClaims:
    if not isinstance(pool.cloud, NodeClaims):
        raise TypeError(f"GPUPool {pool.id} is not Karpenter's: {pool.cloud}")
    return pool.cloud


def _notices(claims: Iterable[Claim]) -> Iterable[Notice]:
    """Notices for claims that somebody has deleted. Karpenter waits for the pods on their machines."""
    for claim in claims:
        if claim.stage is ClaimStage.ENDING and claim.taken is not None:
            yield Notice(InstanceId(claim.meta.name), claim.taken)


def _error(pool: Pool, error: ObjectsError) -> ProviderError:
    return about_pool(pool.id, error, _HINTS)
