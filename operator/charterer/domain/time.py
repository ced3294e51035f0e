"""Instants and spans: an instant is whole microseconds since 1970-01-01 UTC, a span is seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NewType

Instant = NewType("Instant", int)
"""Microseconds since 1970-01-01T00:00:00Z."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_WITHOUT_ZONE = _EPOCH.replace(tzinfo=None)
_MICROS = 1_000_000
LAST = Instant((datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1))
"""The last day that can be written: what is expected for later is expected never."""
_LONGEST_SECONDS = LAST / _MICROS


def instant(moment: datetime) -> Instant:
    """The instant of an aware datetime."""
    return Instant((moment - _EPOCH) // timedelta(microseconds=1))


def moment(at: Instant) -> datetime:
    """The datetime (UTC) of an instant."""
    return _EPOCH + timedelta(microseconds=at)


def parse_instant(text: str) -> Instant:
    """An RFC 3339 timestamp as Kubernetes and clouds write it; ValueError if it is no timestamp or has no zone."""
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write it like 2026-01-31T12:00:00Z")
    return instant(parsed)


def format_instant(at: Instant) -> str:
    """RFC 3339 in UTC with microseconds, as Kubernetes writes a MicroTime."""
    return (_EPOCH_WITHOUT_ZONE + timedelta(microseconds=at)).isoformat(timespec="microseconds") + "Z"


def format_second(at: Instant) -> str:
    """RFC 3339 in UTC with whole seconds, rounded down: ``2026-01-31T12:00:07Z``."""
    return format_instant(at)[:19] + "Z"


def format_minute(at: Instant) -> str:
    """The minute in UTC, for sentences: ``2026-01-31T12:00Z``; at most ``LAST``."""
    return format_instant(min(at, LAST))[:16] + "Z"


def seconds_between(start: Instant, end: Instant) -> float:
    """Seconds from start to end; negative when end comes first."""
    return (end - start) / _MICROS


def after(at: Instant, seconds: float) -> Instant:
    """The instant ``seconds`` later, to the microsecond; ``LAST`` for any later one. ValueError for NaN."""
    return Instant(min(at + round(min(seconds, _LONGEST_SECONDS) * _MICROS), LAST))
