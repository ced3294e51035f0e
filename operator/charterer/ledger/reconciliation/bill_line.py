"""Lines of a cloud's bill, as far as the comparison needs them. Whatever vendor wrote them, they mean the same here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum
from typing import Final, NewType

from charterer.domain.time import Instant

Picos = NewType("Picos", int)
"""Trillionths of a dollar: bills have up to twelve decimals, and integers of any size add up exactly."""
PICOS_IN_A_MICRO: Final = 1_000_000
NOTHING: Final = Picos(0)

_EXACT: Final = Context(prec=60)


def picos(dollars: Decimal) -> Picos:
    """Dollars with at most twelve decimals, exactly."""
    return Picos(int(_EXACT.scaleb(dollars, 12)))


class LineKind(StrEnum):
    """What a line of a machine is for. MACHINE: its time. OTHER: neither its time nor its disks and network."""

    MACHINE = "machine"
    DISK = "disk"
    NETWORK = "network"
    OTHER = "other"


class Charge(StrEnum):
    """Why money is asked for: use, or what is added and given back apart from it."""

    USAGE = "usage"
    CREDIT = "credit"
    ADJUSTMENT = "adjustment"
    TAX = "tax"


@dataclass(frozen=True, slots=True)
class OurTags:
    """What tags or labels tell of Charterer on a billed thing; each is empty if it has no such tag.

    ``pool`` and ``rental``: names of Charterer's objects. ``cluster``: the uid of the cluster's namespace kube-system.
    ``claim``: the NodeClaim that Karpenter made the machine for.
    """

    cluster: str = ""
    pool: str = ""
    rental: str = ""
    claim: str = ""

    @property
    def ours(self) -> bool:
        """Whether Charterer rented it, of whichever cluster."""
        return bool(self.cluster or self.pool or self.rental)


@dataclass(frozen=True, slots=True)
class BillLine:
    """One or more lines of a bill that differ in amounts only.

    ``vendor``: who bills, in lower case: aws, google, microsoft, or another's name. ``resource``: the id at the end of
    its ResourceId, in lower case (``resource_key``). ``name``: its ResourceName. ``start``, ``end``: the time that is
    charged for; of several lines that no time zone puts into different months, the span of all.

    ``seconds``: billed of the whole machine; None if the line does not count them. ``gpu_seconds``: of one GPU, where
    the vendor bills GPUs apart from cores. Amounts: at list price; at the contract's prices; with commitments that were
    paid for elsewhere spread over what used them; as invoiced. ``commitment_credit`` and ``credit`` are parts of
    ``billed``, negative. ``committed``: a savings plan or reservation pays for it. ``lines``: of the file.
    """

    vendor: str
    resource: str
    name: str
    tags: OurTags
    kind: LineKind
    charge: Charge
    start: Instant
    end: Instant
    seconds: Decimal | None
    gpu_seconds: Decimal | None
    listed: Picos
    contracted: Picos
    effective: Picos
    billed: Picos
    commitment_credit: Picos = NOTHING
    credit: Picos = NOTHING
    committed: bool = False
    lines: int = 1


VENDORS: Final[Mapping[str, str]] = {"aws": "aws", "gcp": "google", "azure": "microsoft"}
"""Who bills the machines of a cloud, by the key of its pools' spec. Karpenter's may be anybody's."""


def resource_key(resource: str) -> str:
    """The id by which the record knows what a bill names, in lower case.

    The last part of an ARN or of Google's full resource name (``…/instances/123``); of Azure the whole path, because
    the VMs of a scale set have numbers.
    """
    text = resource.strip().lower().removeprefix("azure://")
    return text if text.startswith("/subscriptions/") else text.rpartition("/")[2]
