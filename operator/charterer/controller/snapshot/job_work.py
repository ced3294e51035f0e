"""The total work of a job, from the fraction of it that is done and the times of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from charterer.domain.ids import PoolId
from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.domain.profile import DEFAULT_RESTART_SECONDS, Profile
from charterer.domain.time import Instant, seconds_between
from charterer.policy.options.speedup import speed
from charterer.policy.solve.bisection import bisect

_HALVINGS = 30
"""Halvings of the range of total work, in the logarithm: if speeds differ by 100, the result is exact to 1e-8."""

_Span = tuple[Sequence[float], float]
"""Speed in each phase, and seconds."""


def total_work(job: Job, profile: Profile | None, gpu_types: Mapping[PoolId, str], done: float, now: Instant) -> float:
    """Work of the whole job in seconds of the reference option, when the fraction ``done`` (above 0) of it is done.

    0.0 where its runs have had no time yet. The restart of each run is subtracted, once, however often it was resized.
    A run that is not on record counts up to its last report, since the fraction is that of its time, also when it was
    told to stop. Where curves were learned, a run has the speeds that its option has by now: those it was started with
    may have been no more than a guess. ``gpu_types``: of the pools.
    """
    restart = DEFAULT_RESTART_SECONDS if profile is None else profile.restart_seconds
    spans = [(record.option, record.since, record.until) for record in job.records]
    current = job.trains_on
    progress = job.progress
    if progress is not None and all(record.number != progress.run for record in job.records):
        spans += [
            (given.option, given.since, min(progress.at, now))
            for given in (*job.replaced, current)
            if given is not None and given.run == progress.run
        ]
    timed = [
        (_speeds(option, profile, gpu_types), max(seconds_between(since, until) - restart, 0.0))
        for option, since, until in spans
    ]
    timed += [(_speeds(stretch.option, profile, gpu_types), stretch.seconds) for stretch in job.stretches]
    ends = (1.0,) if profile is None or not profile.reports else tuple(phase.until for phase in profile.phases)
    return _total([span for span in timed if span[1] > 0.0], ends, done)


def _speeds(option: Option, profile: Profile | None, gpu_types: Mapping[PoolId, str]) -> Sequence[float]:
    """The speed in each phase; a declared profile has one phase, with the speed that the option was chosen for."""
    if profile is None or not profile.reports:
        return (option.speed,)
    gpu_type = gpu_types.get(option.pool, "")
    speeds = [speed(profile, phase, gpu_type, option.gpus) for phase in range(len(profile.phases))]
    return [option.speed if value is None else value for value in speeds]


def _total(spans: Sequence[_Span], ends: Sequence[float], done: float) -> float:
    """The total of which the spans achieve the fraction ``done``, whichever phases they fall into."""
    least = sum(min(speeds) * seconds for speeds, seconds in spans) / done
    most = sum(max(speeds) * seconds for speeds, seconds in spans) / done
    if len(ends) == 1 or least == most:
        return least
    return bisect(most, least, lambda total: _reached(spans, ends, total) >= done, _HALVINGS)[1]


def _reached(spans: Sequence[_Span], ends: Sequence[float], total: float) -> float:
    """The fraction of ``total`` work that is done after the spans, at most 1."""
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
