"""A line of ``charterer doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from charterer.cluster.client import RawObject
from charterer.domain.money import Price


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. ``remedy`` is empty where all is well, and says what to do elsewhere.

    ``skipped``: nothing was looked at. ``lost``: what is paid for it an hour while nobody acts.
    """

    check: str
    subject: str
    text: str
    remedy: str = ""
    skipped: bool = False
    lost: Price | None = None


def condition_of(item: RawObject, kind: str) -> RawObject | None:
    """The condition of this type in an object's status."""
    conditions: Sequence[RawObject] = (item.get("status") or {}).get("conditions") or ()
    return next((found for found in conditions if found.get("type") == kind), None)


def remedy_of(sentence: str, plural: str) -> str:
    """The remedy without its full stop. Where there is none, the command that shows the objects named ``plural``."""
    if "`charterer doctor`" in sentence:
        return "if it lasts, see the line about the leader"
    return f"{sentence[:1].lower()}{sentence[1:].rstrip('.')}" or f"kubectl describe {plural}"
