"""Orders for nodes: which rentals need a node, the cloud's answers, cool-downs after refusals, and a cloud's abilities.

The life cycle names the rentals that need a node, not only their number. Clouds that accept names or tokens use the
orders. Clouds that only count nodes use ``at_least`` (docs/development/adr/0022).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from charterer.domain.ids import InstanceId, OrderToken, PoolId, RentalId
from charterer.domain.time import Instant, after, seconds_between

LONGEST_SECONDS: Final = 3600.0
"""The longest cool-down, unless the pool's own ``cooldownSeconds`` is longer. The limit is long because a failed launch
may be billed, and a quota or a mistake stays until somebody changes it."""
LONGEST_FREE_SECONDS: Final = 900.0
"""The longest cool-down if a refusal costs only a call. It allows four calls an hour. Capacity that has returned is
then found 7 minutes late on average, which is little compared with the hours for which a job keeps a node."""
KEPT: Final = 8
"""Maximum number of cool-downs that a pool remembers."""


@dataclass(frozen=True, slots=True)
class Order:
    """One rental that needs a node. ``token``: the order's name in the cloud. ``rental``: the rental's name, which
    people see in the cloud's console.

    Names of rentals are reused, tokens never. So only the token identifies the rental of an instance.
    """

    token: OrderToken
    rental: RentalId


@dataclass(frozen=True, slots=True)
class Ask:
    """All orders of a pool that have no instance yet. The cloud launches the missing nodes, and launches no node
    twice.

    ``at_least``: the total number of nodes including these orders, for clouds that only count. ``together``: the orders
    are useful only if all are served, in one zone.
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
        """The longest cool-down in seconds if no failed launch was billed."""
        return LONGEST_FREE_SECONDS if self is RefusalKind.STOCK_OUT else LONGEST_SECONDS


LACKS: Final = frozenset({RefusalKind.STOCK_OUT, RefusalKind.QUOTA_EXCEEDED, RefusalKind.LAUNCH_FAILED})
"""Kinds of refusals that mean a lack of nodes. The other kinds are somebody's mistake."""


class Scope(StrEnum):
    """Which launches a refusal affects."""

    POOL = "Pool"
    """One group, template, reservation or placement group."""
    SUBNET = "Subnet"
    """A subnet that has no free addresses."""
    ZONE = "Zone"
    """One instance type and capacity type in one zone."""
    REGION = "Region"
    """One instance type and capacity type in one region."""
    FAMILY = "Family"
    """The account's quota of a family of instance types in one region."""
    CAPACITY_TYPE = "CapacityType"
    """The account's quota of all spot, or all on-demand, instances in one region."""
    ACCOUNT = "Account"
    """The whole account."""


@dataclass(frozen=True, slots=True)
class LaunchWay:
    """One way to launch a node, with the attributes that the scope of a refusal refers to.

    Adapters use a launch way to name the place of a refusal, so that other pools with the same place can be found.
    ``sold``: the capacity type. ``family``: the group of instance types that a quota counts together. Attributes are
    empty if the cloud does not give them.
    """

    instance_type: str = ""
    sold: str = ""
    zone: str = ""
    family: str = ""
    region: str = ""
    account: str = ""

    def within(self, scope: Scope) -> str:
        """The place of a refusal with that scope; empty if the refusal affects no other pool."""
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
    """Why a node was not launched. ``code``: the vendor's error code. ``where``: the place, such as a zone or family.

    ``order``: the refused order; None if the cloud only counts nodes. ``at``: the cloud's time of the refusal.
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
    """The cloud's first answer. An order in neither mapping was accepted, and may appear in a later survey."""

    launched: Mapping[OrderToken, InstanceId] = field(default_factory=dict)
    refused: Mapping[OrderToken, Refusal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Traits:
    """The abilities of a pool's cloud. The life cycle branches on these, never on the vendor.

    ``named``: a survey names the order of each instance. ``keeps_trying``: an order may launch later, and be billed,
    until it is withdrawn. ``together``: the cloud itself launches all orders of a request or none. ``lag_seconds``: the
    greatest age of a listed state. ``listed_seconds``: the longest time for which ended instances stay listed.
    """

    named: bool
    keeps_trying: bool
    together: bool
    lag_seconds: float
    listed_seconds: float


# --- cool-downs: a refused offer is not requested again at once; each further refusal doubles the pause ---------------


@dataclass(frozen=True, slots=True)
class CoolDown:
    """A refusal that is in force: the cloud gets no request from ``since`` to ``until``.

    ``kind``, ``scope``, ``where``, ``code`` and ``message`` are those of the refusal. ``times``: consecutive refusals.
    ``by``: the other pool of the account that was refused; None if this pool was.
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
        """The length of the cool-down. It is also the expected wait: as long as the refusals have lasted so far.

        A state that has lasted t is expected to last t longer (Lindy's law: the mean residual life of a Pareto
        distribution with exponent 2). A cool-down is about as long as all consecutive cool-downs before it together,
        because each is twice as long as the previous one.
        """
        return seconds_between(self.since, self.until)

    def row_seconds(self, first: float) -> float:
        """The expected further seconds of refusals: as long as they have lasted in a row, at least the last cool-down.

        ``first``: seconds of the first cool-down of the row. ``seconds`` has an upper limit, but a row may last longer.
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
        """The end of the offer's probation, which follows the cool-down and lasts as long as the cool-down did.

        Until the end of the probation, it is unknown whether the offer is back. Probation lasts at least an hour in
        two cases: if the cool-down had its greatest length, because the limit on its length does not bring the offer
        back sooner; and if machines were never ready, because the next machine takes a quarter of an hour to show
        whether it becomes ready.
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
    """The cool-down after a refusal: ``seconds`` at first, doubled with each consecutive refusal.

    ``known``: earlier cool-downs of the pool, and cool-downs of other pools that affect this pool. A cool-down no
    longer counts after its probation, or if the offer was seen to be back since (``returned``). ``billed``: whether
    other nodes of the request were launched and billed without use.
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
    """The cool-downs to remember after a new cool-down: the latest cool-downs that are still on probation, at most
    ``KEPT``."""
    others = [
        each
        for each in known
        if (each.scope, each.where) != (new.scope, new.where) and each.probation_until > new.since
    ]
    return tuple(sorted([*others, new], key=lambda each: each.until)[-KEPT:])


def without_cool_downs(known: Sequence[CoolDown], since: Container[Instant]) -> tuple[CoolDown, ...]:
    """The cool-downs to remember after those that began at these times were disproved."""
    return tuple([each for each in known if each.since not in since])
