"""Compares the ledger with cloud bills: matches lines to rentals, and divides each difference by cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple, NewType

from charterer.domain.cost_row import BilledMachine, CostRow
from charterer.domain.money import ZERO, Money, apportion, total
from charterer.domain.time import Instant, moment, month_bounds

# Lines of a cloud's bill in a form that is the same for all vendors. A line has the fields that the comparison needs.


Picos = NewType("Picos", int)
"""Trillionths of a dollar. Bills have up to twelve decimals, and sums of integers are exact."""
PICOS_IN_A_MICRO: Final = 1_000_000
NOTHING: Final = Picos(0)

_EXACT: Final = Context(prec=60)


def picos(dollars: Decimal) -> Picos:
    """Convert dollars with at most twelve decimals exactly."""
    return Picos(int(_EXACT.scaleb(dollars, 12)))


class LineKind(StrEnum):
    """The subject of a machine's line. MACHINE: machine time. OTHER: neither machine time nor disk nor network."""

    MACHINE = "machine"
    DISK = "disk"
    NETWORK = "network"
    OTHER = "other"


class Charge(StrEnum):
    """The reason for a charge: use of a resource, or a credit, adjustment or tax."""

    USAGE = "usage"
    CREDIT = "credit"
    ADJUSTMENT = "adjustment"
    TAX = "tax"


@dataclass(frozen=True, slots=True)
class OurTags:
    """Charterer's tags or labels on a billed resource. A missing tag is empty.

    ``pool`` and ``rental`` are names of Charterer objects. ``cluster`` is the uid of the cluster's namespace
    kube-system. ``claim`` is the NodeClaim for which Karpenter made the machine.
    """

    cluster: str = ""
    pool: str = ""
    rental: str = ""
    claim: str = ""

    @property
    def ours(self) -> bool:
        """Whether Charterer of any cluster rented the resource."""
        return bool(self.cluster or self.pool or self.rental)


@dataclass(frozen=True, slots=True)
class BillLine:
    """One or more lines of a bill that differ only in amounts.

    ``vendor`` is the biller in lower case: aws, google, microsoft or another name. ``resource`` is the end of
    ResourceId in lower case (``resource_key``), ``name`` is ResourceName. ``start`` and ``end`` are the charged time.
    Lines are joined only if they lie in the same month in every time zone. ``start`` and ``end`` then span all
    ``lines``.

    ``seconds`` are billed seconds of the whole machine, or None if the line has none. ``gpu_seconds`` are seconds of
    one GPU, if the vendor bills GPUs apart from cores. ``listed`` is the amount at list prices, ``contracted`` at
    contract prices. ``effective`` includes the line's share of prepaid commitments. ``billed`` is the invoiced amount.
    ``commitment_credit`` and ``credit`` are negative parts of ``billed``. ``committed``: a savings plan or a
    reservation pays for the line.
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
"""Biller of a cloud's machines, by the cloud's key in a pool's spec.

Karpenter is not in the table, because any vendor may bill for its machines.
"""


def resource_key(resource: str) -> str:
    """Return the id of a billed resource as the record of costs has it, in lower case.

    The id is the last part of an ARN or of Google's full resource name (``…/instances/123``). For Azure the id is the
    whole path, because VMs of a scale set have only numbers.
    """
    text = resource.strip().lower().removeprefix("azure://")
    return text if text.startswith("/subscriptions/") else text.rpartition("/")[2]


# Calendar months of a time zone, with a cache.


class CalendarMonth(NamedTuple):
    """A month [``start``, ``end``). ``name`` is like ``2026-10``."""

    name: str
    start: Instant
    end: Instant


class CalendarMonths:
    """The months of all time zones. They are cached, because many rows and lines lie in few months."""

    def __init__(self) -> None:
        self._known: dict[str, list[CalendarMonth]] = {}

    def of(self, time_zone: str, at: Instant) -> CalendarMonth:
        """Return the month that contains the instant."""
        known = self._known.setdefault(time_zone, [])
        for month in known:
            if month.start <= at < month.end:
                return month
        start, end = month_bounds(time_zone, at)
        middle = moment(Instant((start + end) // 2))
        month = CalendarMonth(f"{middle.year:04}-{middle.month:02}", start, end)
        if month.start <= at < month.end:
            known.append(month)
        return month


# The rows of the record of costs. They are summed by rental and month, and cut to the time that the bills cover.


Span = tuple[Instant, Instant]
"""A time interval [start, end)."""


class RentalMonth(NamedTuple):
    """A rental in a month of its budget's time zone. ``month`` is like ``2026-10``."""

    rental_uid: str
    month: str


@dataclass(frozen=True, slots=True)
class RentalFacts:
    """A rental's data in the record of costs. ``spans``: the billed time, in order, without overlaps."""

    budget: str
    time_zone: str
    pool: str
    name: str
    machine: BilledMachine
    spans: Sequence[Span]


@dataclass(frozen=True, slots=True)
class LedgerAmount:
    """``cost`` within the time that bills cover, and cost ``outside`` it.

    ``lasted`` is microseconds of covered time. ``priced`` is the integral of the price over this time, in micro-dollars
    per hour times microseconds.
    """

    cost: Money
    outside: Money
    lasted: int
    priced: int


@dataclass(frozen=True, slots=True)
class LedgerSide:
    """The ledger's side of the comparison. ``left_out`` is, by cloud, the cost for which no bill of the vendor is
    given.
    """

    rentals: Mapping[str, RentalFacts]
    amounts: Mapping[RentalMonth, LedgerAmount]
    left_out: Mapping[str, Money]


@dataclass(slots=True)
class _Sums:
    cost: int = 0
    outside: int = 0
    priced_spans: list[tuple[Instant, Instant, int]] = field(default_factory=list)


def ledger_side(rows: Iterable[CostRow], covered: Mapping[str, Sequence[Span]]) -> LedgerSide:
    """Sum the rows into amounts that can be compared. ``covered`` has for each vendor the merged intervals that its
    bills cover.

    A row that is partly covered counts in proportion to time. A rental through Karpenter is compared with all bills,
    because any vendor may bill for it.
    """
    everything = merged(span for spans in covered.values() for span in spans)
    first: dict[str, CostRow] = {}
    sums: dict[RentalMonth, _Sums] = {}
    left_out: dict[str, int] = {}
    months = CalendarMonths()
    for row in rows:
        vendor = VENDORS.get(row.machine.cloud)
        if vendor is not None and vendor not in covered:
            left_out[row.machine.cloud] = left_out.get(row.machine.cloud, 0) + row.cost.micros
            continue
        known = first.setdefault(row.rental_uid, row)
        if row.machine.instance and not known.machine.instance:
            first[row.rental_uid] = row
        key = RentalMonth(row.rental_uid, months.of(row.time_zone, row.start).name)
        _add(sums.setdefault(key, _Sums()), row, everything if vendor is None else covered[vendor])
    spans: dict[str, list[Span]] = {}
    for (uid, _), found in sums.items():
        spans.setdefault(uid, []).extend((start, end) for start, end, _ in found.priced_spans)
    rentals = {uid: _facts(row, merged(spans.get(uid, ()))) for uid, row in first.items()}
    amounts = {key: _amount(found) for key, found in sums.items()}
    return LedgerSide(rentals, amounts, {cloud: Money(micros) for cloud, micros in left_out.items()})


def merged(spans: Iterable[Span]) -> Sequence[Span]:
    """Return the same time as sorted intervals that neither overlap nor touch."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif start < end:
            found.append((start, end))
    return found


def overlap(start: Instant, end: Instant, spans: Sequence[Span]) -> int:
    """Return the microseconds of [start, end) that lie in the spans. The spans must not overlap."""
    return sum(max(min(end, until) - max(start, since), 0) for since, until in spans)


def _add(sums: _Sums, row: CostRow, covered: Sequence[Span]) -> None:
    whole = row.end - row.start
    if whole > 0:
        inside = overlap(row.start, row.end, covered)
        cost = row.cost.micros * inside // whole
    else:
        cost = row.cost.micros if any(since <= row.start < until for since, until in covered) else 0
    sums.cost += cost
    sums.outside += row.cost.micros - cost
    if not row.correction:
        for since, until in covered:
            start, end = max(row.start, since), min(row.end, until)
            if start < end:
                sums.priced_spans.append((start, end, row.hourly.micros))


def _amount(sums: _Sums) -> LedgerAmount:
    """Add up spans. Rows of jobs that share a node overlap. The time that they have in common counts once."""
    lasted = priced = 0
    reached = Instant(0)
    for start, end, hourly in sorted(sums.priced_spans):
        new = max(end - max(start, reached), 0)
        lasted, priced, reached = lasted + new, priced + new * hourly, max(reached, end)
    return LedgerAmount(Money(sums.cost), Money(sums.outside), lasted, priced)


def _facts(row: CostRow, spans: Sequence[Span]) -> RentalFacts:
    return RentalFacts(row.budget, row.time_zone, row.pool, row.rental, row.machine, spans)


# Causes of a difference between bill and ledger, for one rental and month. The parts add up to the difference.


_MICROS: Final = 1_000_000
_HOUR: Final = 3_600
"""Seconds."""
_LONGEST_MINIMUM: Final = 60
"""Seconds. AWS and Google Cloud bill at least a minute per machine (docs: pricing of EC2 and of Compute Engine)."""


class DifferenceCause(StrEnum):
    """A part of bill minus ledger.

    ROUNDING: less than a second, or decimals below the micro-dollar. MINIMUM_CHARGE: a machine that lasted less than a
    minute is billed for a minute. TIME: the bill has more or less time. PRICE: the bill has another hourly price.
    PRICE_OR_TIME: the bill has no hours, so price and time cannot be separated. DISCOUNT: contract prices minus list
    prices. COMMITMENT: the saving by a savings plan, reservation or commitment. PREPAID: the amount is charged in the
    commitment's lines instead of the machine's lines. CREDIT, ADJUSTMENT, TAX: lines, or parts of lines, of this kind.
    DISK, NETWORK, OTHER: charges of the machine besides its time, which the ledger does not count. NOT_IN_LEDGER: a
    machine with Charterer's tags, but without a recorded rental. NOT_ON_BILL: a rental without a line.
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
    """Sums over the lines of one rental (or one unknown machine) in one month, in picos.

    ``apart`` has charges other than machine time, by cause. All other amounts are for machine time.
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
        """Add a line."""
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
    """Return the billed amount to the micro-dollar and the causes, which add up to its difference from the ledger.

    The billed amount and each cause are rounded once, half up. ROUNDING gets the remainder. ``gpus`` of the machine is
    0 if unknown.

    The ledger's price is compared with the nearest of the bill's prices (list, contract, effective), because the pool's
    owner may have copied any of them into ``spec.price``. A difference of up to a micro-dollar per line is ROUNDING,
    not PRICE.
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
    """Return the amount for machine time that is nearest to ``expected``, and add to ``parts`` the steps from that
    amount to ``billed``.

    Candidates are the amount at list prices, the amount at contract prices, and the amount with commitments spread over
    their use. The step from effective to billed, PREPAID, is always added.
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
    """Return the machine's billed seconds, or None if no line has any."""
    if sums.gpu_seconds is not None and gpus:
        return _EXACT.divide(sums.gpu_seconds, Decimal(gpus))
    return sums.seconds if sums.gpu_seconds is None else None


def _expected(seconds: Decimal, ledger: LedgerAmount) -> int:
    """Return the cost of the billed seconds at the ledger's average price, in picos."""
    price = _EXACT.divide(Decimal(ledger.priced), Decimal(ledger.lasted))
    micros = _EXACT.divide(_EXACT.multiply(seconds, price), Decimal(_HOUR))
    return int(_EXACT.to_integral_value(_EXACT.multiply(micros, PICOS_IN_A_MICRO)))


def _time_cause(seconds: Decimal, difference: int, ledger: LedgerAmount) -> DifferenceCause:
    """Return the cause, if the billed seconds cost ``difference`` (picos) more at the ledger's price than the ledger
    has.
    """
    a_second = ledger.priced * PICOS_IN_A_MICRO // (ledger.lasted * _HOUR)
    if abs(difference) <= max(a_second, PICOS_IN_A_MICRO):
        return DifferenceCause.ROUNDING
    if ledger.lasted < _LONGEST_MINIMUM * _MICROS and difference > 0 and seconds <= _LONGEST_MINIMUM:
        return DifferenceCause.MINIMUM_CHARGE
    return DifferenceCause.TIME


def _micros(amount: int) -> int:
    """Round picos to micro-dollars, half up."""
    return (2 * amount + PICOS_IN_A_MICRO) // (2 * PICOS_IN_A_MICRO)


# Matching lines to rentals: by machine id, by tags, or by the name of a machine that was matched before.


_OUR_NAMES = "charterer-"
"""Prefix of the names of Charterer's instances in Google Cloud (``providers.gcp.listing``)."""


class RentalMatcher:
    """Matches lines to rentals by uid.

    Machine lines must come first, because other lines are matched by the machine's name.
    """

    def __init__(self, rentals: Mapping[str, RentalFacts]) -> None:
        self._rentals = rentals
        self._by_machine: dict[str, list[str]] = {}
        self._by_name: dict[str, list[str]] = {}
        self._alike: dict[tuple[str, str], Sequence[str]] = {}
        for uid, rental in rentals.items():
            if rental.machine.instance:
                self._by_machine.setdefault(resource_key(rental.machine.instance), []).append(uid)
            self._by_name.setdefault(rental.name, []).append(uid)

    def rental_of(self, line: BillLine) -> str | None:
        """Return the uid of the line's rental, or None if the record has no such rental.

        A machine's tag that names a rental counts only if the record knows no other machine of this rental.
        """
        by_id = self._by_machine
        found: Sequence[str] = by_id.get(line.resource) or by_id.get(line.tags.claim.lower()) or ()
        if not found:
            found = [uid for uid in self._by_name.get(line.tags.rental, ()) if self._may_be(line, uid)]
        alike = [(line.vendor, each) for each in (line.tags.claim, line.name) if each and self._is_of_one(each, line)]
        if line.kind is LineKind.MACHINE:
            self._alike.update(dict.fromkeys(alike, found) if found else {})
        else:
            found = next(filter(None, (found, *(self._alike.get(each, ()) for each in alike))), ())
        return max(found, key=lambda uid: (self._shared(line, uid), uid), default=None)

    @staticmethod
    def _is_of_one(text: str, line: BillLine) -> bool:
        """Return whether the text is unique to one machine: a NodeClaim, or a name that Charterer gave."""
        return text == line.tags.claim or text.startswith(_OUR_NAMES)

    def _may_be(self, line: BillLine, uid: str) -> bool:
        rental = self._rentals[uid]
        other = bool(rental.machine.instance) and line.kind is LineKind.MACHINE
        return not other and line.tags.pool in ("", rental.pool)

    def _shared(self, line: BillLine, uid: str) -> int:
        """Return the microseconds of the line in which the rental cost something."""
        return overlap(line.start, line.end, self._rentals[uid].spans)


# The comparison: an entry for each rental and month, and sums of entries.


_NO_COST = LedgerAmount(ZERO, ZERO, 0, 0)
_UTC = "UTC"


class Grouping(StrEnum):
    """Keys by which entries are summed."""

    MONTH = "month"
    BUDGET = "budget"
    POOL = "pool"
    RENTAL = "rental"


@dataclass(frozen=True, slots=True)
class Difference:
    """The ledger and the bill of one rental in one month, or of a group of these.

    ``month`` is in the budget's time zone, or in UTC for a machine without a rental. ``machine`` is the bill's name of
    the machine. A field is empty if it is unknown or summed over. ``outside`` is the ledger's cost at times that no
    bill covers, and is not part of ``ledger``. The sum of ``causes`` is ``billed - ledger``.
    """

    month: str
    budget: str
    pool: str
    rental: str
    machine: str
    cloud: str
    rentals: int
    lines: int
    ledger: Money
    outside: Money
    billed: Money
    causes: Mapping[DifferenceCause, Money]

    @property
    def amount(self) -> Money:
        """Bill minus ledger."""
        return self.billed - self.ledger


def compare(ledger: LedgerSide, lines: Iterable[BillLine]) -> Sequence[Difference]:
    """Return an entry for each rental and month with any amount, in order of names.

    A line that spans several months is divided by the rental's time in each month. If the rental has no time there, the
    line is divided by calendar time.
    """
    matcher, months = RentalMatcher(ledger.rentals), CalendarMonths()
    found: dict[RentalMonth, BilledSums] = {}
    strangers: dict[tuple[str, str, str, str], BilledSums] = {}
    for line in lines:
        uid = matcher.rental_of(line)
        if uid is not None:
            rental = ledger.rentals[uid]
            for month, piece in by_month(line, months, rental.time_zone, rental):
                found.setdefault(RentalMonth(uid, month), BilledSums()).add(piece)
        elif line.tags.ours:
            for month, piece in by_month(line, months, _UTC, None):
                what = (month, line.tags.pool, line.resource or line.tags.rental, line.vendor)
                strangers.setdefault(what, BilledSums()).add(piece)
    known = [_known(key, ledger, found.get(key)) for key in ledger.amounts.keys() | found.keys()]
    entries = [*known, *(_stranger(*what, sums) for what, sums in strangers.items())]
    there = [entry for entry in entries if entry.lines or entry.ledger != ZERO or entry.outside != ZERO]
    return sorted(there, key=lambda entry: (entry.month, entry.budget, entry.pool, entry.rental, entry.machine))


def grouped(entries: Iterable[Difference], by: Sequence[Grouping]) -> Sequence[Difference]:
    """Sum entries that have equal values for ``by``. With RENTAL, machines without a rental are not summed."""
    groups: dict[tuple[str, ...], list[Difference]] = {}
    for entry in entries:
        machine = entry.machine if Grouping.RENTAL in by and not entry.rental else ""
        groups.setdefault((*(str(getattr(entry, each.value)) for each in by), machine), []).append(entry)
    return [_sum(group, by) for _, group in sorted(groups.items())]


def by_month(
    line: BillLine, months: CalendarMonths, time_zone: str, rental: RentalFacts | None
) -> Sequence[tuple[str, BillLine]]:
    """Divide the line by months of a time zone. Amounts add up exactly, and seconds add up to their last decimal."""
    month = months.of(time_zone, line.start)
    if line.end <= month.end:
        return [(month.name, line)]
    bounds = [line.start]
    while month.end < line.end:
        bounds.append(month.end)
        month = months.of(time_zone, month.end)
    bounds.append(line.end)
    spans = rental.spans if rental is not None else ()
    pieces = list(pairwise(bounds))
    weights = [overlap(since, until, spans) for since, until in pieces]
    if not any(weights):
        weights = [until - since for since, until in pieces]
    parts = _parts(line, weights)
    return [
        (months.of(time_zone, since).name, replace(part, start=since, end=until))
        for (since, until), part, weight in zip(pieces, parts, weights, strict=True)
        if weight
    ]


def _parts(line: BillLine, weights: Sequence[int]) -> Sequence[BillLine]:
    shares = {str(at): weight for at, weight in enumerate(weights)}

    def amounts(whole: Picos) -> Sequence[Picos]:
        parts = apportion(Money(abs(whole)), shares)
        sign = 1 if whole >= 0 else -1
        return [Picos(sign * parts.get(str(at), ZERO).micros) for at in range(len(weights))]

    def seconds(whole: Decimal | None) -> Sequence[Decimal | None]:
        return [None if whole is None else whole * weight / sum(weights) for weight in weights]

    columns = zip(
        seconds(line.seconds),
        seconds(line.gpu_seconds),
        amounts(line.listed),
        amounts(line.contracted),
        amounts(line.effective),
        amounts(line.billed),
        amounts(line.commitment_credit),
        amounts(line.credit),
        strict=True,
    )
    return [
        replace(
            line,
            seconds=seconds_part,
            gpu_seconds=gpu_seconds,
            listed=listed,
            contracted=contracted,
            effective=effective,
            billed=billed,
            commitment_credit=commitment_credit,
            credit=credit,
        )
        for seconds_part, gpu_seconds, listed, contracted, effective, billed, commitment_credit, credit in columns
    ]


def _known(key: RentalMonth, ledger: LedgerSide, sums: BilledSums | None) -> Difference:
    rental, amount = ledger.rentals[key.rental_uid], ledger.amounts.get(key, _NO_COST)
    sums = BilledSums() if sums is None else sums
    billed, causes = causes_of(amount, sums, rental.machine.gpus)
    return Difference(
        month=key.month,
        budget=rental.budget,
        pool=rental.pool,
        rental=rental.name,
        machine=rental.machine.instance,
        cloud=rental.machine.cloud,
        rentals=1,
        lines=sums.lines,
        ledger=amount.cost,
        outside=amount.outside,
        billed=billed,
        causes=causes,
    )


def _stranger(month: str, pool: str, machine: str, vendor: str, sums: BilledSums) -> Difference:
    billed, _ = causes_of(_NO_COST, sums, 0)
    causes = {DifferenceCause.NOT_IN_LEDGER: billed} if billed != ZERO else {}
    return Difference(month, "", pool, "", machine, vendor, 0, sums.lines, ZERO, ZERO, billed, causes)


def _sum(group: Sequence[Difference], by: Sequence[Grouping]) -> Difference:
    first, causes = group[0], dict[DifferenceCause, int]()
    for entry in group:
        for cause, amount in entry.causes.items():
            causes[cause] = causes.get(cause, 0) + amount.micros
    return Difference(
        month=first.month if Grouping.MONTH in by else "",
        budget=first.budget if Grouping.BUDGET in by else "",
        pool=first.pool if Grouping.POOL in by else "",
        rental=first.rental if Grouping.RENTAL in by else "",
        machine=_common(entry.machine for entry in group) if Grouping.RENTAL in by else "",
        cloud=_common(entry.cloud for entry in group),
        rentals=len({(entry.budget, entry.pool, entry.rental) for entry in group if entry.rental}),
        lines=sum(entry.lines for entry in group),
        ledger=total(entry.ledger for entry in group),
        outside=total(entry.outside for entry in group),
        billed=total(entry.billed for entry in group),
        causes={cause: Money(micros) for cause, micros in causes.items() if micros},
    )


def _common(values: Iterable[str]) -> str:
    """Return the value that all have in common, or an empty text if they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""
