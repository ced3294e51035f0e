"""Why Karpenter did not launch a machine: codes and reasons, each classified once.

Karpenter wraps what the cloud said: the code is a word in an Event's message (``InsufficientCapacityError``, for which
the claim is deleted at once), or the reason of the claim's condition Launched (Karpenter then tries for five minutes).
Sources: [KA] karpenter-provider-aws v1.15.1 pkg/errors/errors.go and pkg/providers/instance, [K] sigs.k8s.io/karpenter
v1.15.0 pkg/controllers/nodeclaim/lifecycle, [KZ] karpenter-provider-azure pkg/providers/instance/offerings, [KG]
karpenter-provider-gcp pkg/providers/instance.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from charterer.clouds.karpenter import NodeClaims
from charterer.domain.ids import OrderToken
from charterer.domain.order import Refusal, RefusalKind, Scope
from charterer.domain.pool import Pool
from charterer.domain.time import Instant

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
"""Words of the message of an Event InsufficientCapacityError."""

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
"""Reasons of the condition Launched. [KA] ToReasonMessage, NewCreateError; [K] LaunchFailed."""

PASSING: Final = frozenset({"RequestLimitExceeded", "InternalError"})
"""Reasons of the condition Launched for which Karpenter's next try may well succeed. [KA]"""

CAPACITY_EVENT: Final = "InsufficientCapacityError"

_SEVEREST: Final = (
    RefusalKind.UNAUTHORIZED,
    RefusalKind.INVALID_REQUEST,
    RefusalKind.QUOTA_EXCEEDED,
    RefusalKind.STOCK_OUT,
)
"""One message may have several codes. The first of these kinds counts: a quota does not come back by itself."""


@dataclass(frozen=True, slots=True)
class About:
    """The subject of a refusal, and when the cluster knew of it."""

    pool: Pool
    cloud: NodeClaims
    order: OrderToken | None
    at: Instant


def of_event(message: str, about: About) -> Refusal:
    """The refusal that an Event InsufficientCapacityError tells."""
    found = {code: meaning for code, meaning in _CODES.items() if _contains(message, code)}
    text = message.partition(" event: ")[2] or message
    if not found:
        return _refusal(_STOCK_OUT, CAPACITY_EVENT, text, about)
    code = min(found, key=lambda code: (_SEVEREST.index(found[code][0]), message.index(code)))
    return _refusal(found[code], code, text, about)


def of_condition(reason: str, message: str, about: About) -> Refusal:
    """The refusal that the condition Launched tells by this reason."""
    meaning = (RefusalKind.LAUNCH_FAILED, Scope.POOL) if reason in PASSING else _REASONS.get(reason)
    if meaning is None:
        _log.error("GPUPool %s: no machine for a reason that is not known: %s: %s", about.pool.id, reason, message)
        meaning = (RefusalKind.UNKNOWN_CODE, Scope.POOL)
    return _refusal(meaning, reason, message, about)


def invalid(code: str, message: str, about: About) -> Refusal:
    """The refusal of what cannot be launched before somebody changes something."""
    return _refusal(_INVALID, code, message, about)


def unexplained(claim: str, about: About) -> Refusal:
    """The refusal by a claim that is over without a machine, of which nothing says why."""
    text = f"NodeClaim {claim} was deleted before it had a machine, and no Event says why"
    return _refusal((RefusalKind.LAUNCH_FAILED, Scope.POOL), "NodeClaimDeleted", text, about)


def _refusal(meaning: _Meaning, code: str, message: str, about: About) -> Refusal:
    kind, scope = meaning
    match scope:
        case Scope.POOL:
            where = str(about.pool.id)
        case Scope.SUBNET:  # Karpenter does not say which
            where = about.cloud.zone
        case _:
            where = about.cloud.way(about.pool.capacity_type).within(scope)
    return Refusal(kind, scope, where, code, message, about.at, about.order)


def _contains(message: str, code: str) -> bool:
    return re.search(rf"(?<![A-Za-z_.]){re.escape(code)}(?![A-Za-z_])", message) is not None
