"""Where the nodes of an option would come from, or why they cannot be had now."""

from __future__ import annotations

from enum import StrEnum

from charterer.domain.plan import ReasonCode


class NodeSource(StrEnum):
    """Where the nodes of an option would come from, or why they cannot be had now."""

    HERE = "it has them"
    READY = "ready"
    BOOTING = "booting"
    RENT = "to be rented"
    LEFT = "left by others soon"
    FULL = "pool full"
    COOLING = "pool cooling"
    HARD_LIMIT = "hard limit"
    HOURLY_LIMIT = "hourly limit"
    OPERATOR_LIMIT = "operator limit"
    STOPPED = "operator stopped"
    UNKNOWN = "cloud not heard"
    CLOSED = "none rented now"
    MAX_COST = "above maxCost"


REFUSED = {
    None: NodeSource.RENT,
    ReasonCode.POOL_FULL: NodeSource.FULL,
    ReasonCode.POOL_COOLING: NodeSource.COOLING,
    ReasonCode.HARD_LIMIT: NodeSource.HARD_LIMIT,
    ReasonCode.HOURLY_LIMIT: NodeSource.HOURLY_LIMIT,
    ReasonCode.OPERATOR_LIMIT: NodeSource.OPERATOR_LIMIT,
    ReasonCode.STOPPED: NodeSource.STOPPED,
    ReasonCode.NOT_ASKED_YET: NodeSource.UNKNOWN,
}
"""By why no node can be rented; None where one can."""
