"""Widths on which runs failed before the class was ever measured there, for example for lack of memory.

No speedup curve shows that a width fails. So the width leaves the class's menu for an hour after the first failure, and
four times as long after each further one, because each costs a job a run. It comes back because the failure may have
had another cause. The job whose run failed never goes there again: trials must not use up its ``backoffLimit``. A width
that was measured is not avoided: a failure there is the job's own fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from charterer.domain.ids import ClassId
from charterer.domain.profile import FAILURES_KEPT_SECONDS, CurveSource, FailedWidth, Profile
from charterer.domain.time import Instant, after

QuarantinedWidths = frozenset[tuple[str, int]]
"""Widths by GPU type."""

_FIRST_SECONDS = 3600.0
"""Seconds. A temporary fault, such as an image or a data set that is unavailable, is mostly over by then."""
_FACTOR = 4.0


def quarantined_widths(profiles: Mapping[ClassId, Profile], now: Instant) -> Mapping[ClassId, QuarantinedWidths]:
    """By class, where there are any, the widths that are not to be chosen now."""
    found = {}
    for name, profile in profiles.items():
        if profile.failed:
            found[name] = frozenset((failed.gpu_type, failed.gpus) for failed, _ in quarantines(profile, now))
    return {name: widths for name, widths in found.items() if widths}


def quarantines(profile: Profile, now: Instant) -> Sequence[tuple[FailedWidth, Instant]]:
    """The widths that the class leaves alone now, and until when."""
    ends = [(failed, after(failed.at, backoff_seconds(failed.failures))) for failed in profile.failed]
    return [(failed, end) for failed, end in ends if now < end and not _measured(profile, failed.gpu_type, failed.gpus)]


def backoff_seconds(failures: int) -> float:
    """Seconds for which a width is avoided after that number of failures."""
    seconds = _FIRST_SECONDS
    for _ in range(failures - 1):
        seconds = min(seconds * _FACTOR, FAILURES_KEPT_SECONDS)
    return seconds


def untested(profile: Profile, widths: QuarantinedWidths) -> QuarantinedWidths:
    """The widths among ``widths`` that were never measured in a learned class: a job's own failures count on these."""
    if not profile.reports:
        return frozenset()
    return frozenset(width for width in widths if not _measured(profile, *width))


def _measured(profile: Profile, gpu_type: str, gpus: int) -> bool:
    return any(
        width == gpus and origin.source is CurveSource.MEASURED
        for curve in profile.phases[0].curves
        if curve.gpu_type == gpu_type
        for width, _, origin in curve.learned
    )
