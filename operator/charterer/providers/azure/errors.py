"""The codes of Azure: what each means, how far it reaches, and who says so.

Sources: [KZ] karpenter-provider-azure ``pkg/providers/instance`` and azure-sdk-for-go-extensions ``pkg/errors``; [CA]
cluster-autoscaler ``cloudprovider/azure`` and its issues; [D] Microsoft's pages on errors of
Azure Resource Manager, of virtual machines and of AKS.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charterer.clouds.azure import AzureNodePool, AzureScaleSet, of_azure
from charterer.domain.ids import OrderToken, PoolId
from charterer.domain.order import Refusal, RefusalKind, Scope
from charterer.domain.pool import CapacityType, Cloud
from charterer.domain.time import Instant
from charterer.providers.codes import LONGEST_MESSAGE, Code, CodeMeaning, LaunchError, error_of_code
from charterer.providers.errors import ProviderError

logger = logging.getLogger(__name__)

THROTTLED_SECONDS: Final = 60.0
"""Where Azure does not say how long to wait: its buckets are filled every minute."""

_REGION = Code(CodeMeaning.CAPACITY, Scope.REGION)
_ZONE = Code(CodeMeaning.CAPACITY, Scope.ZONE)
_SUBNET = Code(CodeMeaning.CAPACITY, Scope.SUBNET)
_FAMILY = Code(CodeMeaning.QUOTA, Scope.FAMILY)
_UNAUTHORIZED = Code(CodeMeaning.UNAUTHORIZED, Scope.ACCOUNT)
_THROTTLED = Code(CodeMeaning.THROTTLED, Scope.ACCOUNT)
_LATE = Code(CodeMeaning.LATE)
_NOT_FOUND = Code(CodeMeaning.NOT_FOUND)
_INVALID = Code(CodeMeaning.INVALID)
_BUSY = Code(CodeMeaning.BUSY)
_SERVER = Code(CodeMeaning.SERVER)
_SUMMARY = Code(CodeMeaning.SUMMARY)

CODES: Final[Mapping[str, Code]] = {
    "AllocationFailed": _REGION,  # KZ
    "ZonalAllocationFailed": _ZONE,  # KZ
    "OverconstrainedAllocationRequest": _REGION,  # KZ
    "OverconstrainedZonalAllocationRequest": _ZONE,  # KZ
    "SkuNotAvailable": Code(CodeMeaning.NOT_OFFERED, Scope.REGION),  # KZ
    "InsufficientSubnetSize": _SUBNET,  # KZ
    "SubnetIsFull": _SUBNET,  # KZ
    "QuotaExceeded": _FAMILY,  # CA#8323
    "ErrCode_InsufficientVCPUQuota": _FAMILY,  # D: AKS
    "InsufficientVCPUQuota": _FAMILY,  # D: AKS
    "PublicIPCountLimitReached": Code(CodeMeaning.QUOTA, Scope.ACCOUNT),  # D: AKS
    "OSProvisioningTimedOut": _LATE,  # CA
    "OSProvisioningInternalError": _LATE,  # D
    "OSProvisioningClientError": _LATE,  # D
    "VMExtensionProvisioningError": _LATE,  # CA
    "VMExtensionProvisioningTimeout": _LATE,  # D
    "VMExtensionHandlerNonTransientError": _LATE,  # D
    "VMStartTimedOut": _LATE,  # D
    "NetworkingInternalOperationError": _LATE,  # CA#5767
    "ProvisioningFailed": _LATE,  # of this adapter, where Azure tells no code
    "TooManyRequests": _THROTTLED,  # D
    "SubscriptionRequestsThrottled": _THROTTLED,  # D
    "OperationThrottled": _THROTTLED,  # D
    "AuthenticationFailed": _UNAUTHORIZED,  # D
    "AuthorizationFailed": _UNAUTHORIZED,  # KZ
    "LinkedAuthorizationFailed": _UNAUTHORIZED,  # D
    "ExpiredAuthenticationToken": _UNAUTHORIZED,  # D
    "InvalidAuthenticationToken": _UNAUTHORIZED,  # D
    "InvalidAuthenticationTokenTenant": _UNAUTHORIZED,  # D
    "RequestDisallowedByPolicy": _UNAUTHORIZED,  # D
    "SubscriptionNotFound": _INVALID,  # D
    "InvalidSubscriptionId": _INVALID,  # D
    "ReadOnlyDisabledSubscription": _UNAUTHORIZED,  # D
    "ScopeLocked": _UNAUTHORIZED,  # D
    "ResourceGroupNotFound": _INVALID,  # D
    "ResourceNotFound": _NOT_FOUND,  # D
    "NotFound": _NOT_FOUND,  # D
    "ParentResourceNotFound": _NOT_FOUND,  # D
    "NoRegisteredProviderFound": _INVALID,  # D: also a location that does not exist
    "LocationNotAvailableForResourceType": _INVALID,  # D
    "MissingSubscriptionRegistration": _INVALID,  # D
    "InvalidParameter": _INVALID,  # D
    "InvalidRequestContent": _INVALID,  # D
    "InvalidResourceReference": _INVALID,  # D
    "InvalidApiVersionParameter": _INVALID,  # D
    "PropertyChangeNotAllowed": _INVALID,  # D
    "BadRequest": _INVALID,  # D
    "PreconditionFailed": _BUSY,  # D: another version of the set than was read
    "Conflict": _BUSY,  # CA
    "ConflictingConcurrentWriteNotAllowed": _BUSY,  # D
    "AnotherOperationInProgress": _BUSY,  # D
    "EtagMismatch": _BUSY,  # D: AKS
    "RetryableError": _BUSY,  # D
    "NicReservedForAnotherVm": _BUSY,  # KZ: for 180 s after a VM was deleted
    "OperationPreempted": _SUMMARY,  # CA#9835: a newer operation took over
    "ResourceOperationFailure": _SUMMARY,  # D: its details say why
    "ResourceDeploymentFailure": _SUMMARY,  # D: its details say why
    "VMScaleSetUpdateFailed": _SUMMARY,  # D
    "InternalServerError": _SERVER,  # D
    "InternalOperationError": _SERVER,  # D
    "InternalExecutionError": _SERVER,  # D
    "ServerTimeout": _SERVER,  # D
    "ServiceUnavailable": _SERVER,  # D
    "ServerBusy": _SERVER,  # D
    "GatewayTimeout": _SERVER,  # D
}
"""The meaning of each code but OperationNotAllowed, whose text tells what it means."""

_QUOTA_TEXTS: Final[Sequence[tuple[str, Scope]]] = (
    ("LowPriorityCores", Scope.CAPACITY_TYPE),
    ("Total Regional Cores quota", Scope.CAPACITY_TYPE),
    ("Total Regional vCPUs", Scope.CAPACITY_TYPE),
    ("Cores quota", Scope.FAMILY),
    ("Submit a request for Quota increase", Scope.FAMILY),
)
"""Texts of OperationNotAllowed that mean a quota, and which one. Source: KZ."""
_BUSY_TEXTS: Final = ("is in progress", "marked for deletion")
_ORIGINAL: Final = re.compile(r'Code="(\w+)" Message="([^"]*)')
"""How AKS repeats the error of the scale set within its own. Source: jenkins-infra/helpdesk#4337."""
_LAUNCH_KINDS: Final[Mapping[CodeMeaning, RefusalKind]] = {
    CodeMeaning.CAPACITY: RefusalKind.STOCK_OUT,
    CodeMeaning.QUOTA: RefusalKind.QUOTA_EXCEEDED,
    CodeMeaning.UNAUTHORIZED: RefusalKind.UNAUTHORIZED,
    CodeMeaning.INVALID: RefusalKind.INVALID_REQUEST,
}


def meaning_of(code: str, message: str) -> Code | None:
    """The meaning of a code; None for one that is not in the table."""
    if code != "OperationNotAllowed":
        return CODES.get(code)
    for text, scope in _QUOTA_TEXTS:
        if text.lower() in message.lower():
            return Code(CodeMeaning.QUOTA, scope)
    return _BUSY if any(text in message for text in _BUSY_TEXTS) else _INVALID


def call_error(
    pool: PoolId,
    call: str,
    told: LaunchError,
    status: int,
    retry_after: float | None,
    at: Instant,
    *,
    mutation: bool,
) -> ProviderError:
    """The error that stands for the code with which a whole call was answered.

    ``at``: the cloud's time of the answer; ``retry_after``: seconds that it asks to wait.
    """
    code, message = told.code, told.message[:LONGEST_MESSAGE]
    known = meaning_of(code, message)
    if status == 429:
        known = _THROTTLED
    elif known is None and status in (401, 403):
        known = _UNAUTHORIZED
    wait = THROTTLED_SECONDS if retry_after is None else retry_after
    return error_of_code(pool, call, LaunchError(code, message), known, status, at, wait, mutation=mutation)


def launch_error(error: Mapping[str, Any]) -> LaunchError:
    """The error of an operation that failed: the most telling one of it and its details."""
    code, message = str(error.get("code", "")), str(error.get("message", ""))
    if (original := _ORIGINAL.search(message)) is not None:
        return LaunchError(original[1], original[2])
    known = meaning_of(code, message)
    if known is None or known.meaning is CodeMeaning.SUMMARY:
        for each in error.get("details") or ():
            inner = launch_error(each)
            if meaning_of(inner.code, inner.message) is not None:
                return inner
    return LaunchError(code, message)


@dataclass(frozen=True, slots=True)
class Place:
    """A VM size, how it is sold, and the cloud of the pool, which has the location and the subscription."""

    size: str
    sold: CapacityType
    cloud: Cloud

    def within(self, scope: Scope, zone: str) -> str:
        """The name of the place of a refusal of that scope; empty where it concerns no other pool."""
        if not isinstance(self.cloud, AzureScaleSet | AzureNodePool) or (scope is Scope.ZONE and not zone):
            return ""
        return of_azure(self.size, self.sold, zone, self.cloud.location, self.cloud.subscription).within(scope)


def refusal(pool: PoolId, error: LaunchError, place: Place, at: Instant, order: OrderToken | None = None) -> Refusal:
    """The error as a refusal of a VM in that place."""
    known = meaning_of(error.code, error.message)
    if known is None:
        logger.error("GPUPool %s: unknown code %s: %s", pool, error.code, error.message)
        kind, scope = RefusalKind.UNKNOWN_CODE, Scope.POOL
    elif known.meaning is CodeMeaning.NOT_OFFERED:
        spot = place.sold is CapacityType.SPOT
        kind, scope = RefusalKind.STOCK_OUT if spot else RefusalKind.INVALID_REQUEST, known.scope
    else:
        kind, scope = _LAUNCH_KINDS.get(known.meaning, RefusalKind.LAUNCH_FAILED), known.scope
    named = place.within(scope, error.zone)
    if not named:
        scope, named = Scope.POOL, pool
    return Refusal(kind, scope, named, error.code, error.message[:LONGEST_MESSAGE], at, order)
