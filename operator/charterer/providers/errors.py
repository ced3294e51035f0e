"""Errors of clouds. Each adapter translates its vendor's codes to these classes, so that they are the same for all
vendors.

The class of an error says what its catcher may do. The message names the pool, the call and the vendor's code, and says
what to do.
"""

from __future__ import annotations

from typing import ClassVar, Self

from charterer.domain.ids import PoolId
from charterer.domain.order import RefusalKind


class ProviderError(Exception):
    """A call to a cloud did not do what it should.

    ``code``: the vendor's code.
    ``message``: the vendor's explanation.
    ``said``: the whole text, for a place that names the pool itself.
    ``reason``: the name of this class of error in conditions and metrics.
    ``advice``: what a user can do about the error.
    ``refuses``: the kind of refusal that the error means if it answers a request for nodes, or None if it means none.
    """

    reason: ClassVar[str]
    refuses: ClassVar[RefusalKind | None] = None
    advice: ClassVar[str] = ""

    def __init__(self, pool: PoolId, call: str, code: str, message: str) -> None:
        advice = f"; {self.advice}" if self.advice else ""
        self.said = f"{call}: {code}: {message}{advice}"
        super().__init__(f"GPUPool {pool}: {self.said}")
        self.pool = pool
        self.call = call
        self.code = code
        self.message = message

    def about(self, pool: PoolId) -> Self:
        """This error for another pool, for which the same call would have been sent."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        ProviderError.__init__(other, pool, self.call, self.code, self.message)
        return other


class InsufficientCapacity(ProviderError):
    """The cloud has no such machine left in ``scope`` (a group or a zone). Try another offer, or try again later."""

    reason = "InsufficientCapacity"
    refuses = RefusalKind.STOCK_OUT

    def __init__(self, pool: PoolId, call: str, code: str, message: str, scope: str) -> None:
        super().__init__(pool, call, code, message)
        self.scope = scope


class QuotaExceeded(ProviderError):
    """The account may not have more. ``limit``: the limit that the account has reached."""

    reason = "QuotaExceeded"
    refuses = RefusalKind.QUOTA_EXCEEDED
    advice = "raise the limit, or lower the pool's maxNodes"

    def __init__(self, pool: PoolId, call: str, code: str, message: str, limit: str) -> None:
        super().__init__(pool, call, code, message)
        self.limit = limit


class Throttled(ProviderError):
    """There were too many calls. Nothing was done. Repeat the call after ``retry_after`` seconds."""

    reason = "Throttled"

    def __init__(self, pool: PoolId, call: str, code: str, message: str, retry_after: float) -> None:
        super().__init__(pool, call, code, message)
        self.retry_after = retry_after


class Busy(ProviderError):
    """Another caller is changing the same object. Nothing was done. Survey and decide again."""

    reason = "Busy"


class NotFoundInCloud(ProviderError):
    """The call names something that does not exist."""

    reason = "NotFound"
    refuses = RefusalKind.INVALID_REQUEST
    advice = "check the pool's spec"


class AtMinSize(ProviderError):
    """The group may not become smaller. Nothing was ended."""

    reason = "AtMinSize"
    advice = "lower the group's minimum size"


class WouldTerminate(ProviderError):
    """A lower target would let the cloud choose an existing instance to end. Nothing was done."""

    reason = "WouldTerminate"


class CloudUnauthorized(ProviderError):
    """The credentials are missing, wrong, or have too few rights."""

    reason = "Unauthorized"
    refuses = RefusalKind.UNAUTHORIZED
    advice = "check the operator's credentials for this cloud"


class InvalidRequest(ProviderError):
    """The call can never succeed as it is: the pool's spec does not fit the cloud, or there is a bug."""

    reason = "InvalidRequest"
    refuses = RefusalKind.INVALID_REQUEST


class UnknownCode(ProviderError):
    """The adapter does not know the answer. Such an answer never counts as a lack of capacity."""

    reason = "UnknownCode"
    refuses = RefusalKind.UNKNOWN_CODE
    advice = "the adapter does not know this answer: please report it"


class Transient(ProviderError):
    """The call failed this time, and nothing was done. The call may simply be repeated."""

    reason = "Transient"


class CloudUnreachable(Transient):
    """The cloud could not be reached. Nothing was sent."""

    reason = "Unreachable"
    advice = "check the pool's endpoint and the network"


class NotLeading(ProviderError):
    """This process may no longer change anything, because another process may lead. Nothing was sent."""

    reason = "NotLeading"


class CloudCallWithheld(ProviderError):
    """A mutation in a dry run, which is only logged. Nothing was sent."""

    reason = "DryRun"


class OperatorStopped(ProviderError):
    """A person has stopped the operator. Nothing was sent."""

    reason = "Stopped"
    advice = "charterer resume lets it rent again"


class OperatorLimitReached(ProviderError):
    """The clouds have, or were asked for, as many nodes as the operator's limits allow. Nothing was sent."""

    reason = "OperatorLimit"
    advice = "raise limits.nodes or limits.dollarsPerHour of the chart, or wait until other nodes are given back"


class UnusablePrice(ProviderError):
    """A price of zero or less, or of a million dollars an hour, cannot be true.

    If there is an earlier price, it stays valid.
    """

    reason = "UnusablePrice"
    advice = "set spec.price.hourly"


class CloudOutcomeUnknown(ProviderError):
    """A mutation was sent, and it is unknown whether it took effect. Look whether it did before you repeat it."""

    reason = "OutcomeUnknown"
