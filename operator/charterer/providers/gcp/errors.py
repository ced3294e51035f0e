"""The codes of Google Cloud: what each means, how far it reaches, and who says so.

Reasons of HTTP errors are in camelCase; codes of operations and of attempts of a group are in capitals. Sources: [KG]
karpenter-provider-gcp ``pkg/providers/instance``; [CA] cluster-autoscaler ``cloudprovider/gce``; [SP] SkyPilot's
classification of capacity errors; [D] Google's pages "Troubleshooting VM creation", "Error messages" and "Rate quotas";
[M] the enums of google-cloud-compute 1.57.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from charterer.clouds.gcp import of_gce
from charterer.domain.ids import OrderToken, PoolId
from charterer.domain.order import Refusal, RefusalKind, Scope
from charterer.domain.pool import CapacityType
from charterer.domain.time import Instant
from charterer.providers.errors import (
    Busy,
    CloudOutcomeUnknown,
    CloudUnauthorized,
    CloudUnreachable,
    InvalidRequest,
    NotFoundInCloud,
    ProviderError,
    Throttled,
    Transient,
    UnknownCode,
)

logger = logging.getLogger(__name__)

_LONGEST_MESSAGE: Final = 400
THROTTLED_SECONDS: Final = 5.0
"""How long to wait where Google does not say it."""


class CodeMeaning(Enum):
    """The class of errors to which a code belongs."""

    CAPACITY = auto()
    QUOTA = auto()
    THROTTLED = auto()
    UNAUTHORIZED = auto()
    NOT_FOUND = auto()
    EXISTS = auto()
    """There is something of that name."""
    INVALID = auto()
    BUSY = auto()
    SERVER = auto()
    """The server failed: a read may be repeated, what a mutation did is unknown."""
    SUMMARY = auto()
    """It comes with other codes, which say why."""


@dataclass(frozen=True, slots=True)
class Code:
    """The meaning of a code, and how far a refusal with it reaches."""

    meaning: CodeMeaning
    scope: Scope = Scope.POOL


_ZONE = Code(CodeMeaning.CAPACITY, Scope.ZONE)
_FAMILY = Code(CodeMeaning.QUOTA, Scope.FAMILY)
_UNAUTHORIZED = Code(CodeMeaning.UNAUTHORIZED, Scope.ACCOUNT)
_THROTTLED = Code(CodeMeaning.THROTTLED, Scope.ACCOUNT)
_NOT_FOUND = Code(CodeMeaning.NOT_FOUND)
_EXISTS = Code(CodeMeaning.EXISTS)
_INVALID = Code(CodeMeaning.INVALID)
_BUSY = Code(CodeMeaning.BUSY)
_SERVER = Code(CodeMeaning.SERVER)

CODES: Final[Mapping[str, Code]] = {
    "ZONE_RESOURCE_POOL_EXHAUSTED": _ZONE,  # CA, KG, SP
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": _ZONE,  # CA, KG, SP
    "RESOURCE_POOL_EXHAUSTED": _ZONE,  # CA
    "REGION_RESOURCE_POOL_EXHAUSTED": _ZONE,  # KG
    "INSUFFICIENT_CAPACITY": _ZONE,  # SP
    "insufficientCapacity": _ZONE,  # SP
    "stockout": _ZONE,  # KG
    "IP_SPACE_EXHAUSTED": Code(CodeMeaning.CAPACITY),  # CA, KG
    "IP_SPACE_EXHAUSTED_WITH_DETAILS": Code(CodeMeaning.CAPACITY),  # CA, KG
    "VM_MIN_COUNT_NOT_REACHED": Code(CodeMeaning.SUMMARY, Scope.ZONE),  # SP
    "QUOTA_EXCEEDED": _FAMILY,  # CA, SP
    "quotaExceeded": _FAMILY,  # CA, SP
    "limitExceeded": _FAMILY,  # D
    "rateLimitExceeded": _THROTTLED,  # D
    "userRateLimitExceeded": _THROTTLED,  # D
    "concurrentLimitExceeded": _THROTTLED,  # D
    "RATE_LIMIT_EXCEEDED": _THROTTLED,  # D
    "authError": _UNAUTHORIZED,  # D
    "forbidden": _UNAUTHORIZED,  # D
    "insufficientPermissions": _UNAUTHORIZED,  # D
    "accessNotConfigured": _UNAUTHORIZED,  # D: the project has not enabled the Compute Engine API
    "PERMISSIONS_ERROR": _UNAUTHORIZED,  # CA
    "CONDITION_NOT_MET": _UNAUTHORIZED,  # CA: a policy of the organisation forbids it
    "notFound": _NOT_FOUND,  # D
    "RESOURCE_NOT_FOUND": _INVALID,  # D: something that the template names
    "alreadyExists": _EXISTS,  # D
    "RESOURCE_ALREADY_EXISTS": _EXISTS,  # D
    "MEMBER_ALREADY_EXISTS": _EXISTS,  # CA
    "invalid": _INVALID,  # D
    "invalidParameter": _INVALID,  # D
    "invalidUsage": _INVALID,  # D
    "badRequest": _INVALID,  # D
    "required": _INVALID,  # D
    "parseError": _INVALID,  # D
    "INVALID_USAGE": _INVALID,  # D
    "INVALID_FIELD_VALUE": _INVALID,  # D
    "UNSUPPORTED_OPERATION": _INVALID,  # SP: of a spot node also that it was taken back while it was created
    "conditionNotMet": _BUSY,  # D
    "resourceInUseByAnotherResource": _BUSY,  # D
    "resourceNotReady": _BUSY,  # D
    "RESOURCE_NOT_READY": _BUSY,  # SP
    "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": _BUSY,  # SP
    "backendError": _SERVER,  # D
    "internalError": _SERVER,  # D
    "INTERNAL_ERROR": _SERVER,  # D
}
"""The meaning of each code."""

_BY_STATUS: Final[Mapping[int, Code]] = {
    400: _INVALID,
    401: _UNAUTHORIZED,
    403: _UNAUTHORIZED,
    404: _NOT_FOUND,
    409: _EXISTS,
    412: _BUSY,
    429: _THROTTLED,
}
"""The meaning of an HTTP status without a reason."""

_RESERVATIONS: Final = (
    ("does not have available resources", Code(CodeMeaning.CAPACITY)),
    ("not in ready state", Code(CodeMeaning.CAPACITY)),
    ("does not exist", _INVALID),
)
"""What is said of a reservation has no code of its own, only these texts (CA)."""

_SPOT_GONE: Final = "UNSUPPORTED_OPERATION"
_EVERYWHERE: Final = "GPUS_ALL_REGIONS"
_GPU_QUOTA: Final = "GPU"


_IDENTITY: Final = "give the operator's ServiceAccount an identity (Workload Identity), see docs/clouds/google.md"
_LONG_AGO: Final = Instant(0)


class Lack(Enum):
    """Why there is no answer of Google Cloud to a call."""

    CREDENTIALS = auto()
    """None were found, or they were not accepted where tokens are made."""
    CONNECTION = auto()
    """Nothing was sent."""
    ANSWER = auto()
    """It may have been sent."""
    SDK = auto()
    """google-cloud-compute is not installed."""
    CODE = auto()
    """Google Cloud refused it, with an HTTP status."""


class SdkError(Exception):
    """An exception of the SDK's, in our words. ``retry_after``: seconds, where Google says it."""

    def __init__(
        self,
        lack: Lack,
        code: str,
        message: str,
        status: int = 0,
        at: Instant = _LONG_AGO,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.lack = lack
        self.code = code
        self.message = message[:_LONGEST_MESSAGE]
        self.status = status
        self.at = at
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class LaunchError:
    """A code and a message, as an operation or an attempt of a group lists them."""

    code: str
    message: str


class LaunchRefused(ProviderError):
    """A code that refuses a launch, in the place of an answer to the call."""

    reason = RefusalKind.LAUNCH_FAILED.value

    def __init__(self, pool: PoolId, call: str, error: LaunchError, at: Instant) -> None:
        super().__init__(pool, call, error.code, error.message)
        self.error = error
        self.at = at


class AlreadyThere(ProviderError):
    """There is something of a name that was to be made; nothing happened."""

    reason = "AlreadyExists"


_KINDS: Final[Mapping[CodeMeaning, type[ProviderError]]] = {
    CodeMeaning.UNAUTHORIZED: CloudUnauthorized,
    CodeMeaning.NOT_FOUND: NotFoundInCloud,
    CodeMeaning.EXISTS: AlreadyThere,
    CodeMeaning.INVALID: InvalidRequest,
    CodeMeaning.BUSY: Busy,
    CodeMeaning.SUMMARY: Busy,
}


def meaning_of(code: str, message: str = "") -> Code | None:
    """The meaning of a code; None for one that is not known. Of reservations, only the message tells."""
    if "reservation" in message.lower():
        for text, known in _RESERVATIONS:
            if text in message.lower():
                return known
    if (found := CODES.get(code)) is not None:
        return found
    return _FAMILY if "QUOTA" in code.upper() else None


def call_error(pool: PoolId, call: str, error: SdkError, *, mutation: bool) -> ProviderError:
    """The error that stands for an exception of the SDK's; no other place looks at them."""
    code, message = error.code, error.message
    match error.lack:
        case Lack.CREDENTIALS:
            return CloudUnauthorized(pool, call, code, f"{message}: {_IDENTITY}")
        case Lack.CONNECTION:
            return CloudUnreachable(pool, call, code, message)
        case Lack.ANSWER:
            return (CloudOutcomeUnknown if mutation else Transient)(pool, call, code, message)
        case Lack.SDK:
            return InvalidRequest(pool, call, code, f"{message}: install charterer[gcp]")
        case Lack.CODE:
            return _refused(pool, call, error, mutation=mutation)


def _refused(pool: PoolId, call: str, error: SdkError, *, mutation: bool) -> ProviderError:
    code, message = error.code, error.message
    known = meaning_of(code, message) if code else _BY_STATUS.get(error.status)
    code = code or f"HTTP {error.status}"
    if known is None and error.status < 500:
        logger.error("GPUPool %s: %s: unknown code %s (HTTP %d): %s", pool, call, code, error.status, message)
        return UnknownCode(pool, call, code, message)
    if known is None or known.meaning is CodeMeaning.SERVER:
        return (CloudOutcomeUnknown if mutation else Transient)(pool, call, code, message)
    if known.meaning in (CodeMeaning.CAPACITY, CodeMeaning.QUOTA):
        return LaunchRefused(pool, call, LaunchError(code, message), error.at)
    if known.meaning is CodeMeaning.THROTTLED:
        wait = THROTTLED_SECONDS if error.retry_after is None else error.retry_after
        return Throttled(pool, call, code, message, wait)
    return _KINDS[known.meaning](pool, call, code, message)


def refusal(
    pool: PoolId,
    errors: Sequence[LaunchError],
    place: tuple[str, str, str],
    sold: CapacityType,
    at: Instant,
    order: OrderToken,
) -> Refusal:
    """One refusal for all that is listed: an unknown code before all, then rights, wrong requests, quota, capacity.

    Codes that only sum up others are left out. ``place``: machine type, zone and project.
    """
    known = [(error, _of_sold(error, sold)) for error in errors]
    telling = [pair for pair in known if pair[1] is None or pair[1].meaning is not CodeMeaning.SUMMARY] or known
    for error, code in telling:
        if code is None:
            logger.error("GPUPool %s: unknown code %s: %s", pool, error.code, error.message)
    kind, those = next(
        (kind, those)
        for kind, meanings in (*_ORDER_OF_KINDS, (RefusalKind.LAUNCH_FAILED, (None, *CodeMeaning)))
        if (those := [pair for pair in telling if (pair[1] and pair[1].meaning) in meanings])
    )
    reaches = {_reach(pool, error, code, place, sold) for error, code in those}
    scope, where = reaches.pop() if len(reaches) == 1 else (Scope.POOL, str(pool))
    codes = ", ".join(dict.fromkeys(error.code for error, _ in those))
    message = "; ".join(dict.fromkeys(error.message for error, _ in those))[:_LONGEST_MESSAGE]
    return Refusal(kind, scope, where, codes, message, at, order)


_ORDER_OF_KINDS: Final[Sequence[tuple[RefusalKind, tuple[CodeMeaning | None, ...]]]] = (
    (RefusalKind.UNKNOWN_CODE, (None,)),
    (RefusalKind.UNAUTHORIZED, (CodeMeaning.UNAUTHORIZED,)),
    (RefusalKind.INVALID_REQUEST, (CodeMeaning.INVALID, CodeMeaning.NOT_FOUND, CodeMeaning.EXISTS)),
    (RefusalKind.QUOTA_EXCEEDED, (CodeMeaning.QUOTA,)),
    (RefusalKind.STOCK_OUT, (CodeMeaning.CAPACITY, CodeMeaning.SUMMARY)),
)


def _of_sold(error: LaunchError, sold: CapacityType) -> Code | None:
    if error.code == _SPOT_GONE and sold is CapacityType.SPOT:
        return _ZONE
    return meaning_of(error.code, error.message)


def _reach(
    pool: PoolId, error: LaunchError, code: Code | None, place: tuple[str, str, str], sold: CapacityType
) -> tuple[Scope, str]:
    """How far an error reaches, and the name of that. Quotas of other things than GPUs concern the pool alone."""
    scope = Scope.POOL if code is None else code.scope
    if scope is Scope.FAMILY and _EVERYWHERE in error.message:
        scope = Scope.ACCOUNT
    elif scope is Scope.FAMILY and _GPU_QUOTA not in error.message.upper():
        scope = Scope.POOL
    instance_type, zone, project = place
    where = of_gce(instance_type, sold, zone, project).within(scope)
    return (scope, where) if where else (Scope.POOL, str(pool))
