"""Calls of AWS. Each call runs in a thread, has a time-out, and its errors are classified. A call that changes anything
is sent only once.
"""

from __future__ import annotations

import asyncio
import difflib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

import boto3
import botocore.session
from botocore import exceptions as sdk
from botocore import xform_name
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, CredentialResolver, DeferredRefreshableCredentials

from charterer.clouds.aws import of_ec2
from charterer.domain.ids import OrderToken, PoolId
from charterer.domain.order import Refusal, RefusalKind, Scope
from charterer.domain.pool import CapacityType
from charterer.domain.time import Instant
from charterer.providers.aws.permissions import Call
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
from charterer.providers.errors import (
    AtMinSize,
    CloudUnauthorized,
    CloudUnreachable,
    InvalidRequest,
    ProviderError,
    UnknownCode,
)
from charterer.providers.threads import (
    CALLS_AT_ONCE,
    CONNECT_SECONDS,
    NO_ANSWER,
    READ_SECONDS,
    Sleep,
    Threads,
    time_in,
)

# The codes of AWS: what each code means, how far a refusal with it reaches, and where the code is documented.
#
# Sources: [KA] karpenter-provider-aws ``pkg/errors``; [SP] SkyPilot's classification of capacity errors; [PC]
# parallelcluster-node, pull requests 415 and 673; [D] the EC2 API reference's page of error codes; [UG] the EC2
# User Guide; [M] botocore's model of the service.


THROTTLED_SECONDS: Final = 5.0
"""Seconds to wait after throttling, because AWS does not say how long."""

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
"""Codes for which only the part before the dot matters, such as InvalidAMIID.NotFound and InvalidAMIID.Malformed."""

_CLOCK: Final = frozenset({"RequestExpired", "SignatureDoesNotMatch", "InvalidSignatureException"})
_KINDS: Final[OrderOfKinds] = (
    (RefusalKind.UNKNOWN_CODE, (None,)),
    (RefusalKind.UNAUTHORIZED, (CodeMeaning.UNAUTHORIZED,)),
    (RefusalKind.INVALID_REQUEST, (CodeMeaning.INVALID,)),
    (RefusalKind.QUOTA_EXCEEDED, (CodeMeaning.QUOTA,)),
    (RefusalKind.STOCK_OUT, (CodeMeaning.CAPACITY, CodeMeaning.SUMMARY)),
)


def meaning_of(code: str) -> Code | None:
    """The meaning of a code, or None if it is not in the table."""
    return CODES.get(code) or _FAMILIES.get(code.split(".")[0])


def plain(message: str) -> str:
    """An error's message, cut to a maximum length, without the encoded part, which only the account's owner can
    decode.
    """
    return message.split(" Encoded authorization failure message")[0][:LONGEST_MESSAGE]


def call_error(
    pool: PoolId, call: str, code: str, message: str, status: int, at: Instant, *, mutation: bool
) -> ProviderError:
    """The error for the code with which AWS answered a whole call. ``at``: the cloud's time of the answer."""
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
    """One refusal for all errors that AWS lists. Unknown codes come first, then wrong requests, then quotas, then
    capacity.

    If several zones or types are out of stock, the refusal is of the whole pool.
    """

    def reach(error: LaunchError, code: Code | None) -> tuple[Scope, str]:
        return _reach(pool, error, code, region, sold)

    return one_refusal(pool, [(each, meaning_of(each.code)) for each in errors], _KINDS, reach, at, order, plain)


def _reach(pool: PoolId, error: LaunchError, known: Code | None, region: str, sold: CapacityType) -> tuple[Scope, str]:
    """How far an error reaches, and the name of the place that it reaches, such as a zone."""
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


Answer = Mapping[str, Any]
Params = dict[str, Any]

_PRICE_LISTS: Final[Mapping[str, str]] = {"aws": "us-east-1", "aws-cn": "cn-northwest-1"}
"""For each partition of AWS, the region that serves the price list."""

_NOTHING_SENT: Final = (sdk.EndpointConnectionError, sdk.ConnectTimeoutError, sdk.ProxyConnectionError, sdk.SSLError)
_NO_CREDENTIALS: Final = (
    sdk.NoCredentialsError,
    sdk.PartialCredentialsError,
    sdk.CredentialRetrievalError,
    sdk.TokenRetrievalError,
    sdk.UnauthorizedSSOTokenError,
    sdk.ProfileNotFound,
    sdk.NoAuthTokenError,
)
_ANSWER_LOST: Final = (sdk.HTTPClientError, sdk.ConnectionError, sdk.IncompleteReadError)


class Sdk:
    """The SDK's clients of one region and role. Each client is made when it is first needed.

    ``endpoint``: the address of all services, in tests. Endpoints that the environment configures are not used, because
    they would receive signed requests.
    """

    def __init__(self, region: str, role: str = "", endpoint: str | None = None) -> None:
        self._region = region
        self._role = role
        self._endpoint = endpoint
        self._clients: dict[str, Any] = {}
        self._session: Any = None
        self._lock = threading.Lock()
        self._config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": 1, "mode": "standard"},
            ignore_configured_endpoint_urls=True,
            max_pool_connections=CALLS_AT_ONCE,
        )

    def __call__(self, call: Call, params: Params) -> Answer:
        """Send one call and wait for its answer. Raises the SDK's exceptions."""
        client = self.client(call.service)
        answer: Answer = getattr(client, xform_name(call.operation))(**params)
        return answer

    def similar_region(self) -> str:
        """A warning if this version of the SDK does not know the region. Empty if it knows the region."""
        known = _known_regions()
        if self._region in known:
            return ""
        near = " or ".join(difflib.get_close_matches(self._region, known, 3))
        unknown = f"spec.aws.region {self._region!r} is no region that botocore knows"
        return f"{unknown}: did you mean {near}?" if near else unknown

    def client(self, service: str) -> Any:
        """The client of a service."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._make(service)
            return self._clients[service]

    def _make(self, service: str) -> Any:
        if self._session is None:
            self._session = self._open()
        region = self._region
        if service == "pricing":
            partition = self._session.get_partition_for_region(region)
            region = _PRICE_LISTS.get(partition, region)
        return self._session.client(service, region_name=region, config=self._config, endpoint_url=self._endpoint)

    def _open(self) -> Any:
        """boto3's own session. boto3 finds keys, profiles, SSO, chains of roles, IRSA and Pod Identity by its usual
        rules.
        """
        session = boto3.Session()
        if not self._role:
            return session
        create = partial(session.client, region_name=self._region, config=self._config, endpoint_url=self._endpoint)
        fetcher = AssumeRoleCredentialFetcher(
            create, _source_of(session), self._role, extra_args={"RoleSessionName": "charterer"}
        )
        of_role = botocore.session.get_session()
        of_role.register_component("credential_provider", CredentialResolver([_RoleProvider(fetcher)]))
        return boto3.Session(botocore_session=of_role)


@cache
def _known_regions() -> Sequence[str]:
    session = boto3.Session()
    partitions = session.get_available_partitions()
    return [region for partition in partitions for region in session.get_available_regions("ec2", partition)]


def _source_of(session: Any) -> Any:
    credentials = session.get_credentials()
    if credentials is None:
        raise sdk.NoCredentialsError
    return credentials


class _RoleProvider:
    """Credentials of a role, renewed before they expire."""

    METHOD: Final = "assume-role"
    CANONICAL_NAME: Final = "assume-role"

    def __init__(self, fetcher: Any) -> None:
        self._fetcher = fetcher

    def load(self) -> Any:
        """The credentials. They are fetched when they are first used."""
        return DeferredRefreshableCredentials(self._fetcher.fetch_credentials, self.METHOD)


class Calls:
    """Sends calls for pools. ``send``: the SDK. ``sleep``: waits between attempts of a read."""

    def __init__(self, send: Callable[[Call, Params], Answer], sleep: Sleep = asyncio.sleep) -> None:
        self._send = send
        self._threads = Threads("aws", sleep)

    async def __call__(self, pool: PoolId, call: Call, params: Params) -> Answer:
        """The answer.

        A read that fails is repeated, and a mutation is sent only once. Raises ProviderError, and for launches also
        LaunchRefused.
        """
        return await self._threads.patiently(lambda: self._once(pool, call, params), mutation=call.mutation)

    async def pages(self, pool: PoolId, call: Call, params: Params, key: str) -> tuple[list[Any], Instant]:
        """All rows under ``key``, page by page, and the cloud's time of the first page."""
        answer = await self(pool, call, params)
        rows, asked = list(answer.get(key, ())), time_of(answer)
        while token := answer.get("NextToken"):
            answer = await self(pool, call, params | {"NextToken": token})
            rows += answer.get(key, ())
        return rows, asked

    async def dry_run(self, pool: PoolId, call: Call, params: Params) -> None:
        """Check whether the call would be allowed. If it would not be, raises its error. The call itself has no
        effect.
        """
        try:
            await self._once(pool, call, params | {"DryRun": True})
        except UnknownCode as error:
            if error.code != "DryRunOperation":
                raise

    def close(self) -> None:
        """End the threads once their calls have ended."""
        self._threads.close()

    async def _once(self, pool: PoolId, call: Call, params: Params) -> Answer:
        try:
            return await self._threads.run(self._send, call, params)
        except TimeoutError as error:
            raise lost(mutation=call.mutation)(pool, call.full_name, "TimeOut", NO_ANSWER) from error
        except sdk.ClientError as error:
            told = error.response.get("Error", {})
            code, message = str(told.get("Code", "")), str(told.get("Message", ""))
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            raise call_error(
                pool, call.full_name, code, message, status, _time_in(error.response), mutation=call.mutation
            ) from error
        except (sdk.BotoCoreError, sdk.HTTPClientError) as error:
            raise self._without_answer(pool, call, error) from error

    def _without_answer(self, pool: PoolId, call: Call, error: Exception) -> ProviderError:
        """The error for an exception of the SDK itself, for which there is no answer of AWS."""
        code, message = type(error).__name__.removesuffix("Error"), str(error)
        if isinstance(error, sdk.InvalidRegionError):
            return InvalidRequest(pool, call.full_name, code, f"spec.aws.region: {message}")
        if isinstance(error, _NOTHING_SENT):
            hint = self._send.similar_region() if isinstance(self._send, Sdk) else ""
            if hint:
                return InvalidRequest(pool, call.full_name, "UnknownRegion", hint)
            return CloudUnreachable(pool, call.full_name, code, message)
        if isinstance(error, _NO_CREDENTIALS):
            advice = "give the operator's ServiceAccount a role (IRSA or EKS Pod Identity), see docs/clouds/aws.md"
            return CloudUnauthorized(pool, call.full_name, code, f"{message}: {advice}")
        if isinstance(error, sdk.ParamValidationError):
            return InvalidRequest(pool, call.full_name, code, message)
        if isinstance(error, _ANSWER_LOST) or call.mutation:
            return lost(mutation=call.mutation)(pool, call.full_name, code, message)
        return UnknownCode(pool, call.full_name, code, message)


def time_of(answer: Answer) -> Instant:
    """The cloud's own time of an answer, to the second."""
    return time_in(answer["ResponseMetadata"]["HTTPHeaders"]["date"])


def _time_in(response: Answer) -> Instant:
    """The cloud's time of an error, or the earliest instant if the error has none."""
    return time_in(response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date"))
