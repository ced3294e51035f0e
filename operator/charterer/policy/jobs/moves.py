"""Moves of running jobs: those that are forced, and those that pay, at one value of a second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.domain.reasons.facts_of_jobs import Forbidden, VariantNotMeasured
from charterer.policy.jobs.job_facts import JobFacts, job_position
from charterer.policy.jobs.predicates import must_move
from charterer.policy.options.market import Market
from charterer.policy.options.option_value import OptionValues


@dataclass(frozen=True, slots=True)
class CandidateMove:
    """A move that gains ``gain`` dollars where its nodes are ready, and ``boot`` less where they must be rented."""

    to: Option
    gain: float
    boot: float

    def gain_now(self, *, rented: bool) -> float:
        """The dollars that it gains; ``rented``: whether its nodes must be rented."""
        return self.gain - self.boot if rented else self.gain


@dataclass(frozen=True, slots=True)
class JobMoves:
    """A job's moves. ``values``: the values of its options. ``forced``: why it may not stay; None when it may.

    ``candidates``: all moves that pay where their nodes are ready, the best first. ``next_change``: seconds until a
    phase begins for which another option is better; None if none does.
    """

    facts: JobFacts
    values: OptionValues
    forced: Forbidden | None
    candidates: Sequence[CandidateMove]
    next_change: float | None


def job_moves(facts: JobFacts, values: OptionValues, mean_work: float, market: Market) -> JobMoves | None:
    """The moves of a running job; None for one that stays where it is to its end, as most do."""
    job = facts.job
    forced = must_move(job, market) or _not_measured(job, values)
    if forced is not None:
        return JobMoves(facts, values, forced, (), None)
    if job.allocation is None or not values.menu.known or not job.remaining:
        return None
    here, position = job.allocation.option, job_position(job, mean_work)
    if values.stays_to_the_end(here, position):
        return None
    gains = sorted(values.gains(here, position), key=lambda found: -found[1])
    candidates = [CandidateMove(to, gain, boot) for to, gain, boot in gains]
    change = values.next_change(here, position)
    return None if not candidates and change is None else JobMoves(facts, values, None, candidates, change)


def _not_measured(job: Job, values: OptionValues) -> VariantNotMeasured | None:
    """Whether the job tried a variant that is no option: it is as fast as was hoped for all that anybody knows."""
    here = None if job.allocation is None else job.allocation.option
    if here is None or not here.trial or not here.variant or not values.menu.known:
        return None
    offered = any(option.variant == here.variant for option in values.menu.options)
    return None if offered else VariantNotMeasured(here.variant)
