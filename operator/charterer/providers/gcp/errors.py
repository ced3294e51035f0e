"""The codes of Google Cloud: what each means, how far it reaches, and who says so.

Reasons of HTTP errors are in camelCase; codes of operations and of attempts of a group are in capitals. Sources: [KG]
karpenter-provider-gcp ``pkg/providers/instance``; [CA] cluster-autoscaler ``cloudprovider/gce``; [SP] SkyPilot's
classification of capacity errors; [D] Google's pages "Troubleshooting VM creation", "Error messages" and "Rate quotas";
[M] the enums of google-cloud-compute 1.57.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final

from charterer.clouds.gcp import of_gce
from charterer.domain.ids import OrderToken, PoolId
from charterer.domain.order import Refusal, RefusalKind, Scope
from charterer.domain.pool import CapacityType
from charterer.domain.time import Instant
from charterer.providers.codes import (
    LONGEST_MESSAGE,
    Code,
    CodeMeaning,
    LaunchError,
    OrderOfKinds,
    error_of_code,
    lost,
    one_refusal,
)
from charterer.providers.errors import CloudUnauthorized, CloudUnreachable, InvalidRequest, ProviderError

THROTTLED_SECONDS: Final = 5.0
"""How long to wait where Google does not say it."""

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
        self.message = message[:LONGEST_MESSAGE]
        self.status = status
        self.at = at
        self.retry_after = retry_after


_KINDS: Final[OrderOfKinds] = (
    (RefusalKind.UNKNOWN_CODE, (None,)),
    (RefusalKind.UNAUTHORIZED, (CodeMeaning.UNAUTHORIZED,)),
    (RefusalKind.INVALID_REQUEST, (CodeMeaning.INVALID, CodeMeaning.NOT_FOUND, CodeMeaning.EXISTS)),
    (RefusalKind.QUOTA_EXCEEDED, (CodeMeaning.QUOTA,)),
    (RefusalKind.STOCK_OUT, (CodeMeaning.CAPACITY, CodeMeaning.SUMMARY)),
)


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
            return lost(mutation=mutation)(pool, call, code, message)
        case Lack.SDK:
            return InvalidRequest(pool, call, code, f"{message}: pip install '.[gcp]' in a checkout")
        case Lack.CODE:
            return _refused(pool, call, error, mutation=mutation)


def _refused(pool: PoolId, call: str, error: SdkError, *, mutation: bool) -> ProviderError:
    code, message = error.code, error.message
    known = meaning_of(code, message) if code else _BY_STATUS.get(error.status)
    code = code or f"HTTP {error.status}"
    wait = THROTTLED_SECONDS if error.retry_after is None else error.retry_after
    told = LaunchError(code, message)
    return error_of_code(pool, call, told, known, error.status, error.at, wait, mutation=mutation)


def refusal(
    pool: PoolId,
    errors: Sequence[LaunchError],
    place: tuple[str, str, str],
    sold: CapacityType,
    at: Instant,
    order: OrderToken,
) -> Refusal:
    """One refusal for all that is listed: an unknown code before all, then rights, wrong requests, quota, capacity.

    ``place``: machine type, zone and project.
    """

    def reach(error: LaunchError, code: Code | None) -> tuple[Scope, str]:
        return _reach(pool, error, code, place, sold)

    return one_refusal(pool, [(each, _of_sold(each, sold)) for each in errors], _KINDS, reach, at, order)


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
