"""The codes of AWS: what each means, how far it reaches, and who says so.

Sources: [KA] karpenter-provider-aws ``pkg/errors``; [SP] SkyPilot's classification of capacity errors; [PC]
parallelcluster-node, pull requests 415 and 673; [D] the EC2 API reference's page of error codes; [UG] the EC2 User
Guide; [M] botocore's model of the service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from charterer.clouds.aws import of_ec2
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
    one_refusal,
)
from charterer.providers.errors import AtMinSize, ProviderError, UnknownCode

THROTTLED_SECONDS: Final = 5.0
"""AWS does not say how long to wait."""

_ZONE = Code(CodeMeaning.CAPACITY, Scope.ZONE)
_FAMILY = Code(CodeMeaning.QUOTA, Scope.FAMILY)
_ACCOUNT_QUOTA = Code(CodeMeaning.QUOTA, Scope.ACCOUNT)
_UNAUTHORIZED = Code(CodeMeaning.UNAUTHORIZED, Scope.ACCOUNT)
_THROTTLED = Code(CodeMeaning.THROTTLED, Scope.ACCOUNT)
_INVALID = Code(CodeMeaning.INVALID)
_BUSY = Code(CodeMeaning.BUSY)
_SERVER = Code(CodeMeaning.SERVER)

CODES: Final[Mapping[str, Code]] = {
    "InsufficientInstanceCapacity": _ZONE,  # KA, SP
    "InsufficientHostCapacity": _ZONE,  # D
    "InsufficientCapacity": _ZONE,  # PC
    "InsufficientCapacityOnHost": _ZONE,  # D
    "SpotMaxPriceTooLow": Code(CodeMeaning.CAPACITY, Scope.POOL),  # PC: it names the limit of the pool's own template
    "Unsupported": _ZONE,  # KA: the type is not offered in that zone
    "UnfulfillableCapacity": Code(CodeMeaning.SUMMARY, Scope.ZONE),  # KA
    "ReservationCapacityExceeded": Code(CodeMeaning.CAPACITY, Scope.POOL),  # KA
    "InsufficientFreeAddressesInSubnet": Code(CodeMeaning.CAPACITY, Scope.SUBNET),  # KA
    "VcpuLimitExceeded": _FAMILY,  # KA, SP
    "InstanceLimitExceeded": _FAMILY,  # SP, D
    "MaxSpotInstanceCountExceeded": _FAMILY,  # KA, UG: spot-limits: counted by groups of families
    "MaxFleetCountExceeded": _ACCOUNT_QUOTA,  # KA
    "PendingVerification": _ACCOUNT_QUOTA,  # KA: minutes to hours until the account is verified
    "AddressLimitExceeded": _ACCOUNT_QUOTA,  # D
    "VolumeLimitExceeded": _ACCOUNT_QUOTA,  # D
    "NetworkInterfaceLimitExceeded": _ACCOUNT_QUOTA,  # D
    "RequestLimitExceeded": _THROTTLED,  # KA, D
    "Throttling": _THROTTLED,  # D
    "ThrottlingException": _THROTTLED,  # KA
    "EC2ThrottledException": _THROTTLED,  # D
    "RequestThrottled": _THROTTLED,  # M: sqs
    "TooManyRequestsException": _THROTTLED,  # D
    "UnauthorizedOperation": _UNAUTHORIZED,  # KA
    "AccessDenied": _UNAUTHORIZED,  # D
    "AccessDeniedException": _UNAUTHORIZED,  # M: pricing
    "AuthFailure": _UNAUTHORIZED,  # KA
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": _UNAUTHORIZED,  # KA: spot
    "Blocked": _UNAUTHORIZED,  # D: the account is blocked
    "OptInRequired": _UNAUTHORIZED,  # D
    "ExpiredToken": _UNAUTHORIZED,  # D
    "ExpiredTokenException": _UNAUTHORIZED,  # M: sts
    "RequestExpired": _UNAUTHORIZED,  # D: also when the clock is wrong
    "SignatureDoesNotMatch": _UNAUTHORIZED,  # D: also when the clock is wrong
    "InvalidSignatureException": _UNAUTHORIZED,  # D
    "InvalidClientTokenId": _UNAUTHORIZED,  # D
    "UnrecognizedClientException": _UNAUTHORIZED,  # D
    "MissingAuthenticationToken": _UNAUTHORIZED,  # D
    "InvalidInstanceID.NotFound": Code(CodeMeaning.NOT_FOUND),  # KA
    "RegionDisabledException": _UNAUTHORIZED,  # M: sts
    "InvalidSecurity": _UNAUTHORIZED,  # M: sqs
    "KmsAccessDenied": _UNAUTHORIZED,  # M: sqs
    "KmsOptInRequired": _UNAUTHORIZED,  # M: sqs
    "KmsDisabled": _INVALID,  # M: sqs
    "KmsInvalidKeyUsage": _INVALID,  # M: sqs
    "KmsInvalidState": _INVALID,  # M: sqs
    "KmsNotFound": _INVALID,  # M: sqs
    "KmsThrottled": _THROTTLED,  # M: sqs
    "InvalidAddress": _INVALID,  # M: sqs
    "InvalidIdFormat": _INVALID,  # M: sqs
    "ReceiptHandleIsInvalid": _INVALID,  # M: sqs
    "OverLimit": _BUSY,  # M: sqs: too many messages are received and not deleted
    "InvalidNextToken": _SERVER,  # M: autoscaling: the list changed between its pages
    "InvalidNextTokenException": _SERVER,  # M: pricing
    "ExpiredNextTokenException": _SERVER,  # M: pricing
    "NotFoundException": _INVALID,  # M: pricing
    "NoSuchResourceException": _INVALID,  # M: servicequotas
    "IllegalArgumentException": _INVALID,  # M: servicequotas
    "ServiceException": _SERVER,  # M: servicequotas
    "ServiceLinkedRoleFailure": _UNAUTHORIZED,  # M: autoscaling
    "MalformedPolicyDocument": _INVALID,  # M: sts
    "PackedPolicyTooLarge": _INVALID,  # M: sts
    "QueueDoesNotExist": _INVALID,  # M: sqs
    "AWS.SimpleQueueService.NonExistentQueue": _INVALID,  # M: sqs
    "InvalidLaunchTemplateName.NotFoundException": _INVALID,  # KA
    "InvalidLaunchTemplateId.NotFound": _INVALID,  # KA
    "InvalidLaunchTemplateId.VersionNotFound": _INVALID,  # D
    "InvalidCapacityReservationId.NotFound": _INVALID,  # D
    "InvalidParameterValue": _INVALID,  # D
    "InvalidParameterCombination": _INVALID,  # D
    "InvalidParameter": _INVALID,  # D
    "InvalidFleetConfiguration": _INVALID,  # KA
    "OperationNotPermitted": _INVALID,  # D: such as the end of an instance that is protected against it
    "VPCIdNotSpecified": _INVALID,  # D
    "InvalidFilter": _INVALID,  # D
    "FilterLimitExceeded": _INVALID,  # D
    "InvalidInstanceType": _INVALID,  # D
    "InvalidUserData.Malformed": _INVALID,  # D
    "MissingParameter": _INVALID,  # D
    "UnknownParameter": _INVALID,  # D
    "UnsupportedOperation": _INVALID,  # D
    "TagLimitExceeded": _INVALID,  # D
    "ValidationError": _INVALID,  # M: autoscaling
    "InvalidParameterException": _INVALID,  # M: pricing
    "IdempotentParameterMismatch": _INVALID,  # D: a bug, or the pool's spec changed between two tries
    "IdempotentParameterMismatchError": _INVALID,  # M: autoscaling
    "IdempotentCallInProgress": _BUSY,  # M: autoscaling
    "IdempotentCallInProgressFault": _BUSY,  # M: autoscaling
    "ResourceContention": _BUSY,  # M: autoscaling
    "ResourceContentionFault": _BUSY,  # M: autoscaling
    "ScalingActivityInProgress": _BUSY,  # M: autoscaling
    "ScalingActivityInProgressFault": _BUSY,  # M: autoscaling
    "ConcurrentTagAccess": _BUSY,  # D
    "IncorrectInstanceState": _BUSY,  # D
    "IncorrectState": _BUSY,  # D
    "InternalError": _SERVER,  # KA, D
    "InternalFailure": _SERVER,  # D
    "InternalServiceError": _SERVER,  # D
    "InternalErrorException": _SERVER,  # M: pricing
    "ServerInternal": _SERVER,  # D
    "ServiceUnavailable": _SERVER,  # D
    "Unavailable": _SERVER,  # KA, D
}
"""The meaning of each code."""

_FAMILIES: Final[Mapping[str, Code]] = {
    "InvalidAMIID": _INVALID,  # D
    "InvalidBlockDeviceMapping": _INVALID,  # D
    "InvalidGroup": _INVALID,  # D
    "InvalidInstanceID": _INVALID,  # D
    "InvalidKeyPair": _INVALID,  # D
    "InvalidPlacementGroup": _INVALID,  # D
    "InvalidSecurityGroupID": _INVALID,  # D
    "InvalidSnapshot": _INVALID,  # D
    "InvalidSubnet": _INVALID,  # D
    "InvalidSubnetID": _INVALID,  # D
}
"""Codes of which only the part before the dot matters, such as InvalidAMIID.NotFound and InvalidAMIID.Malformed."""

_CLOCK: Final = frozenset({"RequestExpired", "SignatureDoesNotMatch", "InvalidSignatureException"})
_KINDS: Final[OrderOfKinds] = (
    (RefusalKind.UNKNOWN_CODE, (None,)),
    (RefusalKind.UNAUTHORIZED, (CodeMeaning.UNAUTHORIZED,)),
    (RefusalKind.INVALID_REQUEST, (CodeMeaning.INVALID,)),
    (RefusalKind.QUOTA_EXCEEDED, (CodeMeaning.QUOTA,)),
    (RefusalKind.STOCK_OUT, (CodeMeaning.CAPACITY, CodeMeaning.SUMMARY)),
)


def meaning_of(code: str) -> Code | None:
    """The meaning of a code; None for one that is not in the table."""
    return CODES.get(code) or _FAMILIES.get(code.split(".")[0])


def plain(message: str) -> str:
    """An error's message without the encoded part, which only its owner can decode, and not too long."""
    return message.split(" Encoded authorization failure message")[0][:LONGEST_MESSAGE]


def call_error(
    pool: PoolId, call: str, code: str, message: str, status: int, at: Instant, *, mutation: bool
) -> ProviderError:
    """The error that stands for the code with which a whole call was answered.

    ``at``: the cloud's time of the answer.
    """
    known, message = meaning_of(code), plain(message)
    if code == "ValidationError" and "minSize" in message:
        return AtMinSize(pool, call, code, message)
    if code == "DryRunOperation":
        return UnknownCode(pool, call, code, message)
    if code in _CLOCK:
        message = f"{message.rstrip('.')}: check that the credentials are not expired and the operator's clock is right"
    told = LaunchError(code, message)
    return error_of_code(pool, call, told, known, status, at, THROTTLED_SECONDS, mutation=mutation)


def refusal(
    pool: PoolId, errors: Sequence[LaunchError], region: str, sold: CapacityType, at: Instant, order: OrderToken
) -> Refusal:
    """One refusal for all that AWS lists: an unknown code before all, then wrong requests, then quota, then capacity.

    Stock-outs of several zones or types reach the whole pool.
    """

    def reach(error: LaunchError, code: Code | None) -> tuple[Scope, str]:
        return _reach(pool, error, code, region, sold)

    return one_refusal(pool, [(each, meaning_of(each.code)) for each in errors], _KINDS, reach, at, order, plain)


def _reach(pool: PoolId, error: LaunchError, known: Code | None, region: str, sold: CapacityType) -> tuple[Scope, str]:
    """How far an error reaches, and the name of that."""
    scope = Scope.POOL if known is None else known.scope
    if scope is Scope.ZONE and "placement group" in error.message.lower():
        scope = Scope.POOL
    way = of_ec2(error.instance_type, sold, error.zone, region)
    match scope:
        case Scope.SUBNET if error.subnet:
            return scope, error.subnet
        case Scope.ZONE if error.zone and error.instance_type:
            return scope, way.within(scope)
        case Scope.FAMILY if error.instance_type:
            return scope, way.within(scope)
        case Scope.CAPACITY_TYPE | Scope.ACCOUNT:
            return scope, way.within(scope)
        case _:
            return Scope.POOL, pool
