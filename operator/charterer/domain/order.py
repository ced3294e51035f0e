"""Orders: which rentals want a node, what the cloud answers, and what a cloud can do at all.

One idea fits every cloud: the life cycle says which rentals want a node, not only how many. Clouds that take names or
tokens use the orders; clouds that only count use ``at_least`` (docs/development/adr/0038).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from charterer.domain.ids import InstanceId, OrderToken, RentalId
from charterer.domain.time import Instant


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
    UNKNOWN_CODE = "UnknownCode"


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
    """What the cloud said at once. An order in neither mapping was accepted and shows in a later survey, or nowhere."""

    launched: Mapping[OrderToken, InstanceId] = field(default_factory=dict)
    refused: Mapping[OrderToken, Refusal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Traits:
    """What a pool's cloud can do. The life cycle branches on these, never on the vendor.

    ``named``: a survey says of each instance which order it is for. ``keeps_trying``: an order that is not withdrawn
    may launch later, and be billed. ``together``: the cloud itself launches all orders of an ask or none.
    ``lag_seconds``: lists may show a state that old. ``listed_seconds``: ended instances stay listed for at most that.
    """

    named: bool
    keeps_trying: bool
    together: bool
    lag_seconds: float
    listed_seconds: float
