"""Orders: which rentals want a node, what the cloud answers, when it is asked again, and what it can do at all.

One idea fits every cloud: the life cycle says which rentals want a node, not only how many. Clouds that take names or
tokens use the orders; clouds that only count use ``at_least`` (docs/development/adr/0022).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from charterer.domain.ids import InstanceId, OrderToken, PoolId, RentalId
from charterer.domain.time import Instant, after, seconds_between

LONGEST_SECONDS: Final = 3600.0
"""No cool-down grows beyond this, or beyond the pool's own ``cooldownSeconds`` where that is longer: a launch that
fails may be billed, and a quota or a mistake stays until somebody changes it."""
LONGEST_FREE_SECONDS: Final = 900.0
"""The same where a refusal costs nothing but a call: four an hour. Nodes that are back are found 7 minutes late on
average, which is little beside the hours for which a job keeps them."""
KEPT: Final = 8
"""Cool-downs that a pool remembers."""


@dataclass(frozen=True, slots=True)
class Order:
    """One rental that wants a node. ``token``: its name in the cloud; ``rental``: for people who look there.

    Names of rentals are used again, tokens never: only the token says whose an instance is.
    """

    token: OrderToken
    rental: RentalId


@dataclass(frozen=True, slots=True)
class Ask:
    """All orders of a pool that have no instance yet: what is missing is to be made, what is there is not repeated.

    ``at_least``: the nodes to have with them, for clouds that only count. ``together``: all of them or none is useful,
    in one zone.
    """

    orders: tuple[Order, ...]
    at_least: int
    together: bool = False


class RefusalKind(StrEnum):
    """Why a node was not launched."""

    STOCK_OUT = "StockOut"
    QUOTA_EXCEEDED = "QuotaExceeded"
    UNAUTHORIZED = "Unauthorized"
    INVALID_REQUEST = "InvalidRequest"
    LAUNCH_FAILED = "LaunchFailed"
    NEVER_READY = "NeverReady"
    UNKNOWN_CODE = "UnknownCode"

    @property
    def longest_seconds(self) -> float:
        """The longest cool-down where nothing was billed in vain."""
        return LONGEST_FREE_SECONDS if self is RefusalKind.STOCK_OUT else LONGEST_SECONDS


LACKS: Final = frozenset({RefusalKind.STOCK_OUT, RefusalKind.QUOTA_EXCEEDED, RefusalKind.LAUNCH_FAILED})
"""Kinds of refusals that say that there is no node now; the others are somebody's mistake."""


class Scope(StrEnum):
    """How far a refusal reaches."""

    POOL = "Pool"
    """One group, template, reservation or placement group."""
    SUBNET = "Subnet"
    """A subnet without free addresses."""
    ZONE = "Zone"
    """This instance type and capacity type in one zone."""
    REGION = "Region"
    """This instance type and capacity type in one region."""
    FAMILY = "Family"
    """The account's quota of a family of instance types in one region."""
    CAPACITY_TYPE = "CapacityType"
    """The account's quota of all spot, or all on-demand, instances in one region."""
    ACCOUNT = "Account"
    """The whole account."""


@dataclass(frozen=True, slots=True)
class LaunchWay:
    """One way to launch a node, in the words in which a refusal says how far it reaches.

    An adapter names the place of a refusal with it, so that the other pools are found that would ask for the same.
    ``sold``: the capacity type; ``family``: what a quota counts together. Empty where the cloud does not say it.
    """

    instance_type: str = ""
    sold: str = ""
    zone: str = ""
    family: str = ""
    region: str = ""
    account: str = ""

    def within(self, scope: Scope) -> str:
        """The place of a refusal of that scope; empty where it concerns no other pool."""
        match scope:
            case Scope.ZONE:
                named = (self.instance_type, self.sold, self.zone)
            case Scope.REGION:
                named = (self.instance_type, self.sold, self.region)
            case Scope.FAMILY:
                named = (self.family, self.sold, self.region)
            case Scope.CAPACITY_TYPE:
                named = ("", self.sold, self.region)
            case Scope.ACCOUNT:
                named = ("", "", self.account)
            case Scope.POOL | Scope.SUBNET:
                return ""
        return " ".join(filter(None, named))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node was not launched. ``code`` is the vendor's word, ``where`` the zone, family, … that it holds for.

    ``order``: what was refused; None where the cloud only counts. ``at``: the cloud's time of it.
    """

    kind: RefusalKind
    scope: Scope
    where: str
    code: str
    message: str
    at: Instant
    order: OrderToken | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The cloud's first answer. An order in neither mapping was accepted and shows in a later survey, or nowhere."""

    launched: Mapping[OrderToken, InstanceId] = field(default_factory=dict)
    refused: Mapping[OrderToken, Refusal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Traits:
    """The abilities of a pool's cloud. The life cycle branches on these, never on the vendor.

    ``named``: a survey says of each instance which order it is for. ``keeps_trying``: an order that is not withdrawn
    may launch later, and be billed. ``together``: the cloud itself launches all orders of an ask or none.
    ``lag_seconds``: lists may show a state that old. ``listed_seconds``: ended instances stay listed for at most that.
    """

    named: bool
    keeps_trying: bool
    together: bool
    lag_seconds: float
    listed_seconds: float


# --- cool-downs: an offer that was refused is not asked for at once, and the later the more often it was --------------


@dataclass(frozen=True, slots=True)
class CoolDown:
    """A refusal that holds: from ``since`` on, and until when the cloud is not asked again.

    ``kind``, ``scope``, ``where``, ``code`` and ``message`` are the refusal's. ``times``: how often in a row. ``by``:
    the other pool of the account that was refused; None for the pool's own.
    """

    kind: RefusalKind
    scope: Scope
    where: str
    code: str
    message: str
    since: Instant
    until: Instant
    times: int = 1
    by: PoolId | None = None

    @property
    def seconds(self) -> float:
        """How long it lasts. It is the expected wait for a node, too: as long again as it has been refused so far.

        What has lasted t is expected to last t longer (Lindy's law: the mean residual life of a Pareto distribution
        with exponent 2). A cool-down is as long as its row of refusals before it, since each is twice the one before.
        """
        return seconds_between(self.since, self.until)

    def row_seconds(self, first: float) -> float:
        """How long the offer is expected to be refused on: as long as it was in this row, at least as it last cooled.

        ``first``: seconds of a row's first cool-down. ``seconds`` stops growing at the longest, and a row goes on.
        """
        longest, row, lasts = max(self.kind.longest_seconds, first, self.seconds), 0.0, first
        if self.seconds < longest:
            return self.seconds
        left = self.times - 1
        while left > 0 and lasts < longest:
            row, lasts, left = row + lasts, min(2.0 * lasts, longest), left - 1
        return max(row + left * longest, self.seconds)

    @property
    def probation_until(self) -> Instant:
        """Until when the offer is on probation: for as long after the cool-down as that lasted.

        Until then it is not known whether it is back. For an hour at least where the cool-down had grown to its
        longest, because a shorter longest one does not bring the offer back sooner, and where machines were never
        ready: the next one shows only after a quarter of an hour whether it will be.
        """
        grown = self.seconds >= self.kind.longest_seconds or self.kind is RefusalKind.NEVER_READY
        return after(self.until, max(self.seconds, LONGEST_SECONDS) if grown else self.seconds)


def cool_down(
    known: Sequence[CoolDown],
    refusal: Refusal,
    seconds: float,
    now: Instant,
    returned: Instant | None,
    *,
    billed: bool = False,
) -> CoolDown:
    """The cool-down after a refusal: ``seconds`` at first, twice as long each time that it is refused again.

    ``known``: the pool's earlier ones, and those of others that reach it. One that is no longer in doubt, or after
    which the offer was seen to be back (``returned``), counts no more. ``billed``: whether other nodes of the ask came,
    which are paid for in vain.
    """
    alike = (each for each in known if (each.scope, each.where) == (refusal.scope, refusal.where))
    before = max(alike, key=lambda each: each.since, default=None)
    if before is not None and returned is not None and returned > before.since:
        before = None
    times = 1 if before is None or now >= before.probation_until else before.times + 1
    longest = max(LONGEST_SECONDS if billed else refusal.kind.longest_seconds, seconds)
    lasts = min(seconds * 2.0 ** min(times - 1, 16), longest)
    said = refusal.kind, refusal.scope, refusal.where, refusal.code, refusal.message
    return CoolDown(*said, since=now, until=after(now, lasts), times=times)


def with_cool_down(known: Sequence[CoolDown], new: CoolDown) -> tuple[CoolDown, ...]:
    """The cool-downs to remember once there is a new one: those still in doubt, the latest at most."""
    others = [
        each
        for each in known
        if (each.scope, each.where) != (new.scope, new.where) and each.probation_until > new.since
    ]
    return tuple(sorted([*others, new], key=lambda each: each.until)[-KEPT:])


def without_cool_downs(known: Sequence[CoolDown], since: Container[Instant]) -> tuple[CoolDown, ...]:
    """The cool-downs to remember once those that began at these times are disproved."""
    return tuple([each for each in known if each.since not in since])
