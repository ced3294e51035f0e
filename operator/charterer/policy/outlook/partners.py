"""Whom a job would share a GPU with, and what that is worth.

On a node of one GPU that two jobs share, who chooses the node chooses the partner. Beside each other, jobs a and b keep
k_a and k_b of their speeds alone. An hour of what a job does alone on that GPU costs u at best: alone there, or on
whole GPUs. With θ the worth of an hour of a job's life, by its weight, and c the price of the GPU, the two save

    k_a·u_a + k_b·u_b − (θ_a + θ_b + c)        dollars an hour

while both train (SJF-BSBF, arXiv 2407.13088, pairs jobs where the mean completion time falls; where one rents, there is
no queue to shorten, and money decides). They are put together if that is ``LEAST_SAVING`` of what they cost apart, if
each keeps what its owner wants at least, and if each gains by itself when the GPU is paid for in proportion to what the
two keep: θ + c·k/(k_a + k_b) < k·u. Among the nodes whose pairs save, the one is taken that saves most until the first
of the two ends. Nobody is moved to be put together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from charterer.domain.ids import ClassId, JobId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.domain.pool import Pool
from charterer.gpu_types import sharers, slice_profile, whole_type
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.nodes.capacity import NodeRank
from charterer.policy.nodes.occupants import Occupant
from charterer.policy.options.pair_speeds import ExpectedPart, PairSpeeds, pair_speeds
from charterer.policy.options.speedup import speed

LEAST_SAVING = 0.02
"""Part of what two jobs cost apart that they must save together: less is lost in what nobody foresees."""


@dataclass(frozen=True, slots=True)
class Sharer:
    """A job as one of two on a GPU. Dollars are of a second.

    ``worth``: of its life; ``alone``: what as much work as it does alone there costs at best; ``left``: seconds of that
    work; ``usual``: what it keeps beside others on average; ``least``: what it must keep.
    """

    job: JobId
    class_id: ClassId
    worth: float
    alone: float
    left: float
    usual: float
    least: float


@dataclass(frozen=True, slots=True)
class Pair:
    """Two jobs on a GPU: what the one that comes and its partner keep, and the dollars that they save together.

    ``saved`` is None where they are not put together.
    """

    partner: JobId
    kept: ExpectedPart
    partner_kept: ExpectedPart
    saved: float | None


def pair_of(own: Sharer, other: Sharer, speeds: PairSpeeds, price: float) -> Pair:
    """The pair that a job would make. ``price``: of the GPU, dollars a second."""
    kept = speeds.kept(own.class_id, other.class_id, own.usual)
    others = speeds.kept(other.class_id, own.class_id, other.usual)
    both = kept.kept + others.kept
    apart = own.alone * kept.kept + other.alone * others.kept
    saved = apart - own.worth - other.worth - price
    for each, part in ((own, kept.kept), (other, others.kept)):
        if part < each.least or each.worth + price * part / both >= each.alone * part:
            return Pair(other.job, kept, others, None)
    if saved < LEAST_SAVING * apart:
        return Pair(other.job, kept, others, None)
    return Pair(other.job, kept, others, saved * min(own.left / kept.kept, other.left / others.kept))


def chooses_partner(pool: Pool) -> bool:
    """Whether a job's node decides with whom it shares its GPU: nodes of one GPU for two jobs."""
    offering = pool.offering
    return offering is not None and offering.gpus_per_node == 2 == sharers(slice_profile(offering.gpu_type))


class Partners:
    """The jobs of one budget on nodes of one shared GPU, as they are and as the plan has placed them so far."""

    def __init__(self, solution: BudgetSolution) -> None:
        self._solution = solution
        self._snapshot = solution.inputs.snapshot
        self._came: dict[RentalId, list[Sharer]] = {}
        self._speeds: dict[str, PairSpeeds] = {}
        self._pairs: dict[tuple[JobId, JobId], Pair] = {}
        self._sharers: dict[tuple[JobId, PoolId, str], Sharer | None] = {}

    def chosen(self, option: Option) -> bool:
        """Whether the option's partner follows from the node."""
        return bool(option.slice) and option.shares_gpu and chooses_partner(self._snapshot.pools[option.pool])

    def rank(self, job: Job, option: Option) -> NodeRank | None:
        """How good each node with a free place is for the job; None where it does not matter, or nobody knows.

        One to itself is worth nothing and costs nothing more than a new one; beside a job of which nothing is known, or
        with which it would lose, it does not go.
        """
        own = self._sharer(job, option) if self.chosen(option) else None
        if own is None:
            return None

        def ranked(rental: RentalId) -> float | None:
            if not self._used(job, rental):
                return 0.0
            pair = self.pair(job, option, rental)
            return None if pair is None else pair.saved

        return ranked

    def come(self, job: Job, option: Option, rental: RentalId) -> None:
        """The job goes there in this plan, at once or when the node is ready."""
        own = self._sharer(job, option) if self.chosen(option) else None
        if own is not None:
            self._came.setdefault(rental, []).append(own)

    def pair(self, job: Job, option: Option, rental: RentalId) -> Pair | None:
        """The pair that the job would be one of on a node; None where nobody else is there, or nothing is known."""
        own, others = self._sharer(job, option), self._on(rental, option.pool, job)
        if own is None or len(others) != 1:
            return None
        other = others[0]
        found = self._pairs.get((own.job, other.job))
        if found is None:
            found = pair_of(own, other, self._speeds_on(option.pool), self._price(option.pool))
            self._pairs[own.job, other.job] = found
        return found

    def best(self, job: Job, option: Option) -> Pair | None:
        """The pair that a running job is one of; of a job without GPUs the best that it could make now, or if none
        saves, one that does not. None where there is none, or where partners are not chosen.
        """
        if not self.chosen(option):
            return None
        own = [] if job.allocation is None else [place.rental for place in job.allocation.placements]
        found = [self.pair(job, option, rental) for rental in own or self._occupants]
        pairs = [pair for pair in found if pair is not None]
        return max(pairs, key=lambda pair: -inf if pair.saved is None else pair.saved, default=None)

    def _used(self, job: Job, rental: RentalId) -> bool:
        there = self._solution.inputs.holdings.used.get(rental, 0) - self._held(job, rental)
        return there > 0 or any(each.job != job.id for each in self._came.get(rental, ()))

    def _held(self, job: Job, rental: RentalId) -> int:
        return self._solution.inputs.holdings.held(job).get(rental, 0)

    def _on(self, rental: RentalId, pool: PoolId, job: Job) -> list[Sharer]:
        found = {each.job: each for each in self._came.get(rental, ())}
        for occupant in self._occupants.get(rental, ()):
            other = occupant.facts.job
            here = None if other.allocation is None else other.allocation.option
            there = self._sharer(other, here) if here is not None and here.pool == pool else None
            if there is not None:
                found.setdefault(other.id, there)
        found.pop(job.id, None)
        return list(found.values())

    @cached_property
    def _occupants(self) -> Mapping[RentalId, Sequence[Occupant]]:
        return self._solution.occupants()

    def _price(self, pool: PoolId) -> float:
        """Dollars a second of one of its nodes."""
        quote = self._snapshot.pools[pool].quote
        return 0.0 if quote is None else quote.price.dollars_per_second

    def _speeds_on(self, pool: PoolId) -> PairSpeeds:
        offering = self._snapshot.pools[pool].offering
        gpu_type = "" if offering is None else offering.gpu_type
        if gpu_type not in self._speeds:
            inputs = self._solution.inputs
            self._speeds[gpu_type] = inputs.memo(pair_speeds, gpu_type, tuple(self._snapshot.profiles.values()))
        return self._speeds[gpu_type]

    def _sharer(self, job: Job, option: Option) -> Sharer | None:
        key = job.id, option.pool, option.variant
        if key not in self._sharers:
            self._sharers[key] = self._found(job, option)
        return self._sharers[key]

    def _found(self, job: Job, option: Option) -> Sharer | None:
        """None where the speed of the job's class is not known alone and beside others."""
        variant, assignment = job.variant(option.variant), self._solution.assignment(job)
        profile = None if variant is None else self._snapshot.profiles.get(variant.class_id)
        offering = self._snapshot.pools[option.pool].offering
        if profile is None or assignment is None or offering is None:
            return None
        position, menu = assignment.position(job), assignment.group.menu
        phase = min(menu.phase(position.done), len(profile.phases) - 1)
        gpu_type = offering.gpu_type
        beside, whole = (speed(profile, phase, each, 1) for each in (gpu_type, whole_type(gpu_type)))
        if not beside or not whole or not option.speed:
            return None
        alone, worth = option.speed * whole / beside, self._solution.worth(job, assignment)
        best = min(
            [
                (worth + each.price.dollars_per_second) / each.speed
                for each in menu.stages[menu.phase(position.done)]
                if not each.shares_gpu and not each.trial
            ],
            default=inf,
        )
        at_best = min(best * alone, worth + self._price(option.pool))
        return Sharer(
            job.id,
            profile.id,
            worth,
            at_best,
            position.left / alone,
            min(beside / whole, 1.0),
            job.widths.least_kept,
        )
