"""How much work a job is, from the part of it that is done and what its runs had time for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from charterer.domain.ids import PoolId
from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.domain.pool import Pool
from charterer.domain.profile import Profile
from charterer.domain.time import Instant, seconds_between
from charterer.policy.options.sources import DEFAULT_RESTART_SECONDS
from charterer.policy.options.speedup import speed

_HALVINGS = 30
"""Halvings of the range of total work: speeds of two phases differ by less than 100, so the result is exact to 1e-7."""

_Span = tuple[Sequence[float], float]
"""Speed in each phase, and seconds."""


def total_work(job: Job, profile: Profile | None, pools: Mapping[PoolId, Pool], done: float, now: Instant) -> float:
    """Work of the whole job in seconds of the reference option, when the part ``done`` (above 0) of it is done; 0.0
    where its runs have had no time yet.

    A restart of each run is taken off. The current run counts up to its last report, since only then is the fraction
    known that goes with it. Where curves were learned, a run has the speeds that are known of its option now: those
    that were thought when it began may have been no more than a guess.
    """
    restart = DEFAULT_RESTART_SECONDS if profile is None else profile.restart_seconds
    spans = [(record.option, record.since, record.until) for record in job.records]
    if job.allocation is not None:
        heard = job.progress is not None and job.progress.run == job.allocation.run
        until = job.progress.at if heard and job.progress is not None else job.allocation.since
        spans.append((job.allocation.option, job.allocation.since, min(until, now)))
    timed = [
        (_speeds(option, profile, pools), max(seconds_between(since, until) - restart, 0.0))
        for option, since, until in spans
    ]
    ends = (1.0,) if profile is None or not profile.reports else tuple(phase.until for phase in profile.phases)
    return _total([span for span in timed if span[1] > 0.0], ends, done)


def _speeds(option: Option, profile: Profile | None, pools: Mapping[PoolId, Pool]) -> Sequence[float]:
    """In each phase; a declared profile's only one is what the option was chosen for."""
    if profile is None or not profile.reports:
        return (option.speed,)
    pool = pools.get(option.pool)
    gpu_type = "" if pool is None or pool.offering is None else pool.offering.gpu_type
    known = [speed(profile, phase, gpu_type, option.gpus) for phase in range(len(profile.phases))]
    return [option.speed if value is None else value for value in known]


def _total(spans: Sequence[_Span], ends: Sequence[float], done: float) -> float:
    """The total of which the part ``done`` is what the spans achieve, whichever phases they fall into."""
    least = sum(min(speeds) * seconds for speeds, seconds in spans) / done
    most = sum(max(speeds) * seconds for speeds, seconds in spans) / done
    if len(ends) == 1 or least == most:
        return least
    for _ in range(_HALVINGS):
        middle = (least + most) / 2.0
        least, most = (middle, most) if _reached(spans, ends, middle) >= done else (least, middle)
    return (least + most) / 2.0


def _reached(spans: Sequence[_Span], ends: Sequence[float], total: float) -> float:
    """The part of ``total`` work that is done after the spans, at most 1."""
    done, phase = 0.0, 0
    for speeds, seconds in spans:
        left = seconds
        while phase < len(ends):
            needed = (ends[phase] - done) * total / speeds[phase]
            if needed > left:
                done += left * speeds[phase] / total
                break
            left, done, phase = left - needed, ends[phase], phase + 1
    return done
