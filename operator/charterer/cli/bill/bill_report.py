"""What ``charterer bill`` tells: differences by group, and what to know about the files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from charterer.cloud_bills.reader import Bills, Contradiction, Repeated
from charterer.domain.money import ZERO, Money
from charterer.domain.spending.cost_row import CostRow
from charterer.domain.time import format_minute
from charterer.ledger.reconciliation.bill_line import BillLine, LineKind, resource_key
from charterer.ledger.reconciliation.causes import DifferenceCause
from charterer.ledger.reconciliation.comparison import Difference, Grouping, compare, grouped
from charterer.ledger.reconciliation.ledger_side import Span, ledger_side
from charterer.sentences import count, is_or_are, names


@dataclass(frozen=True, slots=True)
class BillReport:
    """``groups``: ordered by what they are grouped by. ``formats``: by file. ``covered``: by vendor.

    ``notes``: on what was compared. ``found``: what somebody should look at. ``unknown``: what the files do not show.
    """

    groups: Sequence[Difference]
    total: Difference
    formats: Mapping[str, str]
    lines_read: int
    covered: Mapping[str, Sequence[Span]]
    notes: Sequence[str]
    found: Sequence[str]
    unknown: Sequence[str]


def machine_keys(rows: Iterable[CostRow]) -> Collection[str]:
    """The machines of the rows, as bills are searched for them."""
    return {resource_key(row.machine.instance) for row in rows if row.machine.instance}


def bill_report(
    paths: Sequence[Path],
    bills: Bills,
    rows: Callable[[], Iterable[CostRow]],
    months: Collection[str],
    by: Sequence[Grouping],
) -> BillReport:
    """The bills beside the rows. ``months``: only these, ``2026-10``; none: all."""
    ledger, tagged = ledger_side(rows(), bills.covered), _TagsSeen()
    entries = [each for each in compare(ledger, tagged.of(bills.lines())) if not months or each.month in months]
    total = next(iter(grouped(entries, ())), Difference("", "", "", "", "", "", 0, 0, ZERO, ZERO, ZERO, {}))
    return BillReport(
        groups=grouped(entries, by),
        total=total,
        formats={str(path): format.name for path, format in zip(paths, bills.formats, strict=True)},
        lines_read=bills.lines_read,
        covered=bills.covered,
        notes=[*_coverage(bills), *_outside(total, ledger.left_out)],
        found=[*_unmatched(entries), *_repeated(bills.repeated), *_contradicting(bills.contradiction)],
        unknown=[*_unknown(paths, bills), *tagged.unknown()],
    )


class _TagsSeen:
    """Which vendors' bills have Charterer's tags: without them no bill shows a machine that no rental had."""

    def __init__(self) -> None:
        self._machines: dict[str, set[str]] = {}
        self._tagged: set[str] = set()

    def of(self, lines: Iterable[BillLine]) -> Iterable[BillLine]:
        """The same lines."""
        for line in lines:
            if line.kind is LineKind.MACHINE:
                self._machines.setdefault(line.vendor, set()).add(line.resource)
                if line.tags.ours or line.tags.claim:
                    self._tagged.add(line.vendor)
            yield line

    def unknown(self) -> Iterable[str]:
        for vendor, machines in sorted(self._machines.items()):
            if vendor not in self._tagged:
                yield (
                    f"Whether {vendor} bills a machine with Charterer's tags that no rental had is not known: "
                    f"{count(len(machines), 'machine')} of the ledger {is_or_are(len(machines))} on its bill, and none "
                    "has such a tag there. On AWS activate them as cost allocation tags; Azure's VMs have none."
                )


def _unknown(paths: Sequence[Path], bills: Bills) -> Iterable[str]:
    if not bills.covered:
        yield "The files have no line of use: nothing is compared."
    for path, unknown in zip(paths, bills.unknown, strict=True):
        for what in unknown:
            yield f"{path}: not known is {what}."


def _contradicting(contradiction: Contradiction) -> Iterable[str]:
    if contradiction.charges:
        yield (
            f"Warning: {count(contradiction.charges, 'charge')} {is_or_are(contradiction.charges)} in several files "
            f"with different amounts, and counted each time: {names(map(str, contradiction.files))}. If these are "
            "exports of one month, give the latest alone."
        )


def _coverage(bills: Bills) -> Iterable[str]:
    for vendor, spans in sorted(bills.covered.items()):
        shown = ", ".join(f"{format_minute(start)} to {format_minute(end)}" for start, end in spans)
        yield f"The bill of {vendor} covers {shown}; months are the budgets' own."


def _outside(total: Difference, left_out: Mapping[str, Money]) -> Iterable[str]:
    if total.outside != ZERO:
        yield f"{total.outside} of the ledger lies outside of that and is not compared: give those days' bills, too."
    for cloud, amount in sorted(left_out.items()):
        yield f"{amount} of the ledger is for {cloud}, of which there is no bill here; it is not compared."


def _unmatched(entries: Sequence[Difference]) -> Iterable[str]:
    strangers = [entry for entry in entries if DifferenceCause.NOT_IN_LEDGER in entry.causes]
    if strangers:
        amount = _sum(strangers, DifferenceCause.NOT_IN_LEDGER)
        machines = {entry.machine or entry.pool for entry in strangers}
        yield (
            f"{count(len(machines), 'billed thing')} with Charterer's tags {is_or_are(len(machines))} in no recorded "
            f"rental ({amount}): {names(machines)}. Look whether they still run, or another cluster rented them."
        )
    absent = [entry for entry in entries if DifferenceCause.NOT_ON_BILL in entry.causes]
    if absent:
        amount = _sum(absent, DifferenceCause.NOT_ON_BILL)
        rentals = {entry.rental for entry in absent}
        yield (
            f"{count(len(rentals), 'rental')} {is_or_are(len(rentals))} not on the bill ({amount}): {names(rentals)}. "
            "Look whether these files have all accounts, and resources."
        )


def _repeated(repeated: Repeated) -> Iterable[str]:
    if repeated.lines:
        yield (
            f"Warning: {count(repeated.lines, 'line')} {is_or_are(repeated.lines)} there more than once, alike in all "
            f"columns, and counted each time ({repeated.billed}): is an export there twice?"
        )


def _sum(entries: Sequence[Difference], cause: DifferenceCause) -> Money:
    return Money(sum(entry.causes[cause].micros for entry in entries))
