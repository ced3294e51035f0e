"""Why a bill differs from the ledger: the difference of one rental in one month, divided so that the parts add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from enum import StrEnum
from typing import Final

from charterer.domain.money import Money
from charterer.ledger.reconciliation.bill_line import PICOS_IN_A_MICRO, BillLine, Charge, LineKind
from charterer.ledger.reconciliation.ledger_side import LedgerAmount

_MICROS: Final = 1_000_000
_HOUR: Final = 3_600
"""Seconds."""
_LONGEST_MINIMUM: Final = 60
"""Seconds: AWS and Google Cloud bill a machine for a minute at least (docs: pricing of EC2 and of Compute Engine)."""
_EXACT: Final = Context(prec=60)


class DifferenceCause(StrEnum):
    """A part of bill minus ledger.

    ROUNDING: up to a second, and decimals below the micro-dollar. MINIMUM_CHARGE: a machine lasted less than a minute
    and is billed for one. TIME: the bill has more time, or less. PRICE: the bill's price of an hour is another than the
    ledger's. PRICE_OR_TIME: the bill does not count hours, so these two cannot be told apart. DISCOUNT: the contract's
    prices against list prices. COMMITMENT: what a savings plan, reservation or commitment makes cheaper. PREPAID: what
    is paid for in the commitment's own lines, and not in the machine's. CREDIT, ADJUSTMENT, TAX: lines, or parts of
    them, for that. DISK, NETWORK, OTHER: of the same machine; the ledger counts machines only. NOT_IN_LEDGER: a machine
    with Charterer's tags that no recorded rental had. NOT_ON_BILL: a rental that no line is of.
    """

    ROUNDING = "rounding"
    MINIMUM_CHARGE = "minimum charge"
    TIME = "time"
    PRICE = "price"
    PRICE_OR_TIME = "price or time"
    DISCOUNT = "discount"
    COMMITMENT = "commitment"
    PREPAID = "prepaid"
    CREDIT = "credit"
    ADJUSTMENT = "adjustment"
    TAX = "tax"
    DISK = "disk"
    NETWORK = "network"
    OTHER = "other charges"
    NOT_IN_LEDGER = "not in the ledger"
    NOT_ON_BILL = "not on the bill"


_KINDS: Final = {
    LineKind.DISK: DifferenceCause.DISK,
    LineKind.NETWORK: DifferenceCause.NETWORK,
    LineKind.OTHER: DifferenceCause.OTHER,
}
_CHARGES: Final = {
    Charge.CREDIT: DifferenceCause.CREDIT,
    Charge.ADJUSTMENT: DifferenceCause.ADJUSTMENT,
    Charge.TAX: DifferenceCause.TAX,
}


@dataclass(slots=True)
class BilledSums:
    """The lines of one rental (or of one unknown machine) in one month, added up, in picos.

    ``apart``: charges that are none for the machine's time, by cause. The other amounts are of its time.
    """

    lines: int = 0
    billed: int = 0
    apart: dict[DifferenceCause, int] = field(default_factory=dict)
    listed: int = 0
    machine: int = 0
    committed_contracted: int = 0
    committed_effective: int = 0
    committed_billed: int = 0
    commitment_credit: int = 0
    credit: int = 0
    seconds: Decimal | None = None
    gpu_seconds: Decimal | None = None
    timed: int = 0

    def add(self, line: BillLine) -> None:
        """Count a line."""
        self.lines += line.lines
        self.billed += line.billed
        cause = _CHARGES.get(line.charge) or _KINDS.get(line.kind)
        if cause is not None:
            self.apart[cause] = self.apart.get(cause, 0) + line.billed
            return
        self.timed += line.lines
        self.machine += line.billed
        self.listed += line.listed
        self.commitment_credit += line.commitment_credit
        self.credit += line.credit
        if line.committed:
            self.committed_contracted += line.contracted
            self.committed_effective += line.effective
            self.committed_billed += line.billed
        self.seconds = _added(self.seconds, line.seconds)
        self.gpu_seconds = _added(self.gpu_seconds, line.gpu_seconds)


def _added(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    return other if one is None else one if other is None else _EXACT.add(one, other)


def causes_of(ledger: LedgerAmount, sums: BilledSums, gpus: int) -> tuple[Money, Mapping[DifferenceCause, Money]]:
    """The billed amount to the micro-dollar, and the causes of its difference to the ledger's cost, which add up to it.

    The billed amount is rounded once, half up. So is each cause; what this leaves over is in ROUNDING. ``gpus``: of
    the machine, 0 if unknown.

    The ledger's price is compared with that one of the bill's prices (list, contract, effective) which comes closest
    to it: an owner may have written any of them into ``spec.price``. A difference of up to a micro-dollar for each line
    is that of rounding, not of price.
    """
    billed = _micros(sums.billed)
    parts: dict[DifferenceCause, int] = dict(sums.apart)
    cost = ledger.cost.micros * PICOS_IN_A_MICRO
    if sums.timed == 0:
        if cost:
            parts[DifferenceCause.NOT_ON_BILL] = -cost
    else:
        seconds = _seconds(sums, gpus)
        expected = None if seconds is None or not ledger.lasted else _expected(seconds, ledger)
        base = _steps_from(sums, cost if expected is None else expected, parts)
        if expected is None or seconds is None:
            _put(parts, DifferenceCause.PRICE_OR_TIME, base - cost)
        else:
            exact = abs(base - expected) <= sums.timed * PICOS_IN_A_MICRO
            _put(parts, DifferenceCause.ROUNDING if exact else DifferenceCause.PRICE, base - expected)
            _put(parts, _time_cause(seconds, expected - cost, ledger), expected - cost)
    rounded = {cause: _micros(part) for cause, part in parts.items()}
    left = billed - ledger.cost.micros - sum(rounded.values())
    if left:
        rounded[DifferenceCause.ROUNDING] = rounded.get(DifferenceCause.ROUNDING, 0) + left
    return Money(billed), {cause: Money(part) for cause, part in rounded.items() if part}


def _steps_from(sums: BilledSums, expected: int, parts: dict[DifferenceCause, int]) -> int:
    """Which of the bill's amounts at three prices comes closest to ``expected``; adds the steps from it to ``billed``.

    The amounts are of the machine's time: at list prices, at the contract's, and with commitments spread. The last
    step, from effective to billed, is always one: what is paid for elsewhere.
    """
    prepaid = sums.committed_billed - sums.committed_effective
    saved = sums.committed_effective - sums.committed_contracted + sums.commitment_credit
    spread = sums.machine - prepaid - sums.credit
    contracted = spread - saved
    base = min((sums.listed, contracted, spread), key=lambda amount: abs(amount - expected))
    if base == sums.listed:
        _put(parts, DifferenceCause.DISCOUNT, contracted - sums.listed)
    if base in (sums.listed, contracted):
        _put(parts, DifferenceCause.COMMITMENT, saved)
    _put(parts, DifferenceCause.PREPAID, prepaid)
    _put(parts, DifferenceCause.CREDIT, sums.credit)
    return base


def _put(parts: dict[DifferenceCause, int], cause: DifferenceCause, amount: int) -> None:
    parts[cause] = parts.get(cause, 0) + amount


def _seconds(sums: BilledSums, gpus: int) -> Decimal | None:
    """Seconds that the machine is billed for; None if no line counts them."""
    if sums.gpu_seconds is not None and gpus:
        return _EXACT.divide(sums.gpu_seconds, Decimal(gpus))
    return sums.seconds if sums.gpu_seconds is None else None


def _expected(seconds: Decimal, ledger: LedgerAmount) -> int:
    """The billed seconds at the ledger's average price, in picos."""
    price = _EXACT.divide(Decimal(ledger.priced), Decimal(ledger.lasted))
    micros = _EXACT.divide(_EXACT.multiply(seconds, price), Decimal(_HOUR))
    return int(_EXACT.to_integral_value(_EXACT.multiply(micros, PICOS_IN_A_MICRO)))


def _time_cause(seconds: Decimal, difference: int, ledger: LedgerAmount) -> DifferenceCause:
    """Why the billed seconds cost ``difference`` (picos) more at the ledger's price than the ledger has."""
    a_second = ledger.priced * PICOS_IN_A_MICRO // (ledger.lasted * _HOUR)
    if abs(difference) <= max(a_second, PICOS_IN_A_MICRO):
        return DifferenceCause.ROUNDING
    if ledger.lasted < _LONGEST_MINIMUM * _MICROS and difference > 0 and seconds <= _LONGEST_MINIMUM:
        return DifferenceCause.MINIMUM_CHARGE
    return DifferenceCause.TIME


def _micros(amount: int) -> int:
    """Picos as micro-dollars, half up."""
    return (2 * amount + PICOS_IN_A_MICRO) // (2 * PICOS_IN_A_MICRO)
