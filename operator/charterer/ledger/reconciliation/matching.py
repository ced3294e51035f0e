"""Which rental a line of a bill is of: by the id of its machine, by its tags, or by the name of a machine found so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from charterer.ledger.reconciliation.bill_line import BillLine, LineKind, resource_key
from charterer.ledger.reconciliation.ledger_side import RentalFacts, overlap

_OUR_NAMES = "charterer-"
"""How the names of instances begin that Charterer makes in Google Cloud (``providers.gcp.names``)."""


class RentalMatcher:
    """Finds rentals (by uid) for lines. Those of machines come first: what has a machine's name or claim follows."""

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
        """The uid of the rental that the line is of; None if it is of none that the record has.

        A machine that carries a rental's tag is not the rental's if the record knows another machine as the rental's.
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
        """Whether no other machine has the text: a NodeClaim, or a name that Charterer gave. Others may be alike."""
        return text == line.tags.claim or text.startswith(_OUR_NAMES)

    def _may_be(self, line: BillLine, uid: str) -> bool:
        rental = self._rentals[uid]
        other = bool(rental.machine.instance) and line.kind is LineKind.MACHINE
        return not other and line.tags.pool in ("", rental.pool)

    def _shared(self, line: BillLine, uid: str) -> int:
        """Microseconds of the line in which the rental cost something."""
        return overlap(line.start, line.end, self._rentals[uid].spans)
