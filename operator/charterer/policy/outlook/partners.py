"""The job with which a job would share a GPU, and the dollars that this saves.

On a node with one GPU that two jobs share, the choice of the node is the choice of the partner. Beside each other,
jobs a and b keep the fractions k_a and k_b of their speeds alone. u is the least cost of the work that a job does in
an hour alone on that GPU. It is the cost either alone on such a GPU or on whole GPUs. θ is the worth of an hour of a
job's life, times its weight, and c is the price of the GPU. Then the two jobs save

    k_a·u_a + k_b·u_b − (θ_a + θ_b + c)        dollars an hour

while both train. (SJF-BSBF, arXiv 2407.13088, pairs jobs if the mean completion time falls. If nodes can be rented,
there is no queue to shorten, so money decides.) Two jobs are put together if

- they save at least ``LEAST_SAVING`` of what they cost apart,
- each keeps at least the fraction that its owner asks for,
- each gains by itself if the GPU is paid for in proportion to what the two keep: θ + c·k/(k_a + k_b) < k·u, and
- they have not ended each other twice (``domain.job_records``).

A job takes the node on which the pair saves most until the first of the two jobs ends. No job is moved to form a
pair.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import NamedTuple

from charterer.domain.ids import ClassId, JobId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.job_records import end_each_other, has_partners_to_avoid
from charterer.domain.option import Option
from charterer.gpu_types import whole_type
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.nodes.placement import NodeChoice, NodesByFreeGpus
from charterer.policy.nodes.rentals import Occupant
from charterer.policy.options.pair_speeds import ExpectedPart, PairSpeeds, chooses_partner, pair_speeds
from charterer.policy.options.speeds import measuring_profile, reference_in, speed

LEAST_SAVING = 0.02
"""Least saving of two jobs together, as a fraction of what they cost apart. A smaller saving would be lost to events
that are not foreseen."""


class Terms(NamedTuple):
    """The numbers that jobs of a group have in common when they share a GPU. Dollars are dollars a second.

    ``worth``: the worth of a second of the job's life.
    ``alone``: the least cost of as much work as the job does alone on that GPU.
    ``usual``: the fraction of its speed that the job keeps beside other jobs on average.
    ``least``: the fraction of its speed that the job must keep.
    """

    class_id: ClassId
    worth: float
    alone: float
    usual: float
    least: float


class Sharer(NamedTuple):
    """A job that shares a GPU. ``left``: seconds that its remaining work would take alone there."""

    job: JobId
    left: float
    terms: Terms


@dataclass(frozen=True, slots=True)
class PartnerMatch:
    """Two jobs on one GPU.

    ``kept``, ``partner_kept``: the fraction of its speed that each keeps.
    ``saving``: dollars a second that they save together while both train; None if they are not put together.
    """

    kept: ExpectedPart
    partner_kept: ExpectedPart
    saving: float | None

    def saved(self, own: Sharer, partner: Sharer) -> float:
        """Dollars that the two jobs save until the first of them ends."""
        both = min(own.left / self.kept.kept, partner.left / self.partner_kept.kept)
        return 0.0 if self.saving is None else self.saving * both


class Pair(NamedTuple):
    """A job's partner, and the fractions of their speeds that both keep. ``saved``: dollars that the two save until
    the first of them ends."""

    partner: JobId
    match: PartnerMatch
    saved: float


def match_of(own: Terms, other: Terms, speeds: PairSpeeds, price: float) -> PartnerMatch:
    """The match of two jobs on a GPU. ``price``: dollars a second of the GPU."""
    kept = speeds.kept(own.class_id, other.class_id, own.usual)
    others = speeds.kept(other.class_id, own.class_id, other.usual)
    both = kept.kept + others.kept
    apart = own.alone * kept.kept + other.alone * others.kept
    saving = apart - own.worth - other.worth - price
    each_gains = all(
        part >= each.least and each.worth + price * part / both < each.alone * part
        for each, part in ((own, kept.kept), (other, others.kept))
    )
    return PartnerMatch(kept, others, saving if each_gains and saving >= LEAST_SAVING * apart else None)


class _Hosts:
    """The jobs of one pool that are alone on their nodes, by terms. Jobs with the most time left come first."""

    def __init__(self) -> None:
        self.by_terms: dict[Terms, list[tuple[float, RentalId, Sharer]]] = {}
        self._on: dict[RentalId, Sharer] = {}

    def come(self, rental: RentalId, sharer: Sharer) -> None:
        """Record a job on a node. The job is alone there, or the job that was there before is no longer alone."""
        other = self._on.pop(rental, None)
        if other is not None and other.job != sharer.job:
            self.by_terms[other.terms].remove((-other.left, rental, other))
        elif other is None:
            self._on[rental] = sharer
            insort(self.by_terms.setdefault(sharer.terms, []), (-sharer.left, rental, sharer))


class Partners:
    """The jobs of one budget on nodes with one shared GPU, as they are and as the plan has placed them so far."""

    def __init__(self, solution: BudgetSolution) -> None:
        self._solution = solution
        self._snapshot = solution.inputs.snapshot
        self._hosts: dict[PoolId, _Hosts] = {}
        self._speeds: dict[str, PairSpeeds] = {}
        self._matches: dict[tuple[PoolId, Terms, Terms], PartnerMatch] = {}
        self._sharers: dict[tuple[JobId, PoolId, str], Sharer | None] = {}
        self._came: dict[RentalId, list[Job]] = {}

    def chosen(self, option: Option) -> bool:
        """Whether choosing a node for the option chooses the job's partner."""
        return bool(option.slice) and option.shares_gpu and chooses_partner(self._snapshot.pools[option.pool])

    def choice(self, job: Job, option: Option) -> NodeChoice | None:
        """How the job chooses among nodes with a free place; None if the choice does not matter or cannot be judged.

        The job joins the job with which it saves most. If no job qualifies, it takes a node to itself. It never joins
        a job of which nothing is known, or a job such that one of the two would lose. In a pool where partners are
        not chosen, it only avoids jobs such that the two jobs have ended each other.
        """
        own = self._sharer(job, option) if self.chosen(option) else None
        if own is None:
            return self._apart(job, option) if option.shares_gpu and self._avoids_some else None

        def chosen(nodes: NodesByFreeGpus) -> RentalId | None:
            best = max(self._joins(job, own, option.pool, nodes), default=None)
            return nodes.fullest(2) if best is None else best[1]

        return chosen

    def come(self, job: Job, option: Option, rental: RentalId) -> None:
        """Record that this plan puts the job onto the rental, at once or when the node is ready."""
        self._came.setdefault(rental, []).append(job)
        own = self._sharer(job, option) if self.chosen(option) else None
        if own is not None:
            self._hosts_of(option.pool).come(rental, own)

    def best(self, job: Job, option: Option) -> Pair | None:
        """The pair of a job on the option; None if there is no partner, or if partners are not chosen in its pool.

        The pair of a job with GPUs is its present pair. The pair of a job without GPUs is the best pair that it could
        form now, which need not save anything.
        """
        own = self._sharer(job, option) if self.chosen(option) else None
        if own is None:
            return None
        if job.allocation is not None:
            there = [each for place in job.allocation.placements for each in self._beside(job, place.rental)]
        else:
            there = [each for hosts in self._hosts_of(option.pool).by_terms.values() for _, _, each in hosts[:1]]
        matches = [(each, self._match(option.pool, own, each)) for each in there]
        pairs = [Pair(each.job, match, match.saved(own, each)) for each, match in matches if self._may_meet(job, each)]
        return max(pairs, key=lambda pair: (pair.match.saving is not None, pair.saved), default=None)

    def _joins(self, job: Job, own: Sharer, pool: PoolId, nodes: NodesByFreeGpus) -> Iterator[tuple[float, RentalId]]:
        """Pairs of (dollars saved, node): one for the best partner of each kind, and one for the job's present
        partner."""
        for hosts in self._hosts_of(pool).by_terms.values():
            if hosts and (match := self._match(pool, own, hosts[0][2])).saving is not None:
                for _, rental, other in hosts:
                    if other.job != job.id and nodes.free.get(rental) == 1 and self._may_meet(job, other):
                        yield match.saved(own, other), rental
                        break
        for rental in self._solution.inputs.holdings.held(job):
            for other in self._beside(job, rental):
                match = self._match(pool, own, other)
                if nodes.free.get(rental) == 1 and match.saving is not None and self._may_meet(job, other):
                    yield match.saved(own, other), rental

    def may_be_on(self, job: Job, rental: RentalId) -> bool:
        """Whether the rental has no job, now or by this plan, such that this job and that job have ended each other
        twice."""
        if not self._avoids_some:
            return True
        here = [each.facts.job for each in self._occupants.get(rental, ())]
        there = [other for other in (*here, *self._came.get(rental, ())) if other.id != job.id]
        return not any(end_each_other(job, other) for other in there)

    def _may_meet(self, job: Job, other: Sharer) -> bool:
        """Whether the two jobs have ended each other less than twice."""
        return not self._avoids_some or not end_each_other(job, self._snapshot.jobs[other.job])

    @cached_property
    def _avoids_some(self) -> bool:
        """Whether any two jobs have ended each other."""
        return any(has_partners_to_avoid(job) for job in self._snapshot.jobs.values())

    def _apart(self, job: Job, option: Option) -> NodeChoice:
        """The choice of the fullest node without a job such that this job and that job have ended each other."""

        def chosen(nodes: NodesByFreeGpus) -> RentalId | None:
            fitting = [(free, name) for name, free in nodes.free.items() if free >= option.takes]
            return next((name for _, name in sorted(fitting) if self.may_be_on(job, name)), None)

        return chosen

    def _match(self, pool: PoolId, own: Sharer, other: Sharer) -> PartnerMatch:
        key = pool, own.terms, other.terms
        if key not in self._matches:
            price = self._snapshot.pools[pool].dollars_per_second
            self._matches[key] = match_of(own.terms, other.terms, self._speeds_on(pool), price)
        return self._matches[key]

    def _hosts_of(self, pool: PoolId) -> _Hosts:
        hosts = self._hosts.get(pool)
        if hosts is None:
            hosts = self._hosts[pool] = _Hosts()
            for rental, occupants in self._occupants.items():
                if len(occupants) == 1 and self._snapshot.rentals[rental].pool == pool:
                    for sharer in self._known(occupants):
                        hosts.come(rental, sharer)
        return hosts

    def _beside(self, job: Job, rental: RentalId) -> Iterator[Sharer]:
        """The other jobs on a node, without jobs of which nothing is known."""
        return self._known([each for each in self._occupants.get(rental, ()) if each.facts.job.id != job.id])

    def _known(self, occupants: Iterable[Occupant]) -> Iterator[Sharer]:
        for occupant in occupants:
            job = occupant.facts.job
            sharer = None if job.allocation is None else self._sharer(job, job.allocation.option)
            if sharer is not None:
                yield sharer

    @cached_property
    def _occupants(self) -> Mapping[RentalId, Sequence[Occupant]]:
        return self._solution.occupants()

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
        """The job as a sharer of a GPU; None unless its class's speed is known both alone and beside other jobs.

        Its speed alone is taken from a whole GPU, because the speed of a shared place includes partners that the job
        may not meet.
        """
        variant, assignment = job.variant(option.variant), self._solution.assignment(job)
        profile = None if variant is None else self._snapshot.profiles.get(variant.class_id)
        offering = self._snapshot.pools[option.pool].offering
        if profile is None or assignment is None or offering is None:
            return None
        position, menu = assignment.position(job), assignment.group.menu
        phase = min(menu.phase(position.done), len(profile.phases) - 1)
        gpu_type = offering.gpu_type
        measure = measuring_profile([self._snapshot.profiles.get(way.class_id) for way in job.ways])
        reference = None if measure is None else reference_in(profile, measure)
        beside, whole = (speed(profile, phase, each, 1, reference) for each in (gpu_type, whole_type(gpu_type)))
        if not beside or not whole:
            return None
        alone = whole if option.interruptions is None else whole * option.interruptions.kept
        worth = self._solution.worth(job, assignment)
        best = min(
            [
                (worth + each.price.dollars_per_second) / each.speed
                for each in menu.stages[menu.phase(position.done)]
                if not each.shares_gpu and not each.trial
            ],
            default=inf,
        )
        at_best = min(best * alone, worth + self._snapshot.pools[option.pool].dollars_per_second)
        terms = Terms(profile.id, worth, at_best, min(beside / whole, 1.0), job.widths.least_kept)
        return Sharer(job.id, position.left / alone, terms)
