"""What an option costs with what of its nodes nobody in sight will use, for as long as they stand.

A job is charged for its GPUs, and the bill is for whole nodes. Where jobs are few, the rest of a node stays empty: one
GPU of eight costs eight. So the jobs in sight choose together: their options are those for which

    Σ dollars of all nodes, until they can be given back (``nodes.run_down``)  +  Σ w·θ·(seconds to the job's end)

is small. A job may be wider on a node that is paid for anyway, beside others, in another pool, or be moved, its restart
included. From what each job would have at its part of a node, and from all waiting jobs in one pool, for each pool, one
job after the other takes what makes the sum smaller, until none does; the best end counts.

Jobs that come later use what is empty. Where they come often, the part of a node is what a job costs in the end
(ADR 42), and nothing is chosen here. Nor is where many jobs are in sight, because little of their nodes is empty then.
Jobs with a target, with a maxCost, interactive ones, those whose best option changes as they
advance, and those on parts of GPUs have what they would have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from math import inf

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.domain.time import after, seconds_between
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.job_facts import JobFacts
from charterer.policy.nodes.holdings import by_rental
from charterer.policy.nodes.run_down import NodeOffer, StandingNode
from charterer.policy.options.option_value import Projection
from charterer.policy.outlook.move_gate import Hold, MoveGate
from charterer.policy.outlook.node_bill import FIRST_CHOICE, Choices, Chooser, NodeWay, RunDowns, chosen_with
from charterer.policy.outlook.outlook import Outlook
from charterer.policy.outlook.placer import Placer
from charterer.policy.solve.phase_dp import OptionKey, key_of

_MOST = 12
"""Jobs in sight that choose together at most. With more of them little of their nodes is empty."""
_SOON = 2400.0
"""Seconds: where the next job is expected sooner, it takes what is empty before a move of another would have paid. Ten
times the minutes of a start and a restart, as moves lie ten times what they take apart."""
_APART, _FEWEST = 60.0, 3
"""Seconds by which jobs in sight came after each other at least, and how often they must have, to say how often jobs
come: those of a budget's first hour are in no count (``budgets.arrivals``)."""
_WORK = 2000
"""Run-downs of a pool that are worked out for one answer at most. A number, not a time: the same snapshot gives the
same plan on a busy machine."""
_ROUNDING = 1e-7
"""Part of the sum by which it must become smaller."""


@dataclass(frozen=True, slots=True)
class Preference:
    """``option`` instead of ``instead``: all nodes cost ``saved`` dollars less (negative: more), and the job ends
    ``sooner`` seconds sooner (negative: later).
    """

    option: Option
    instead: Option
    saved: float
    sooner: float


class WholeNodes:
    """What the jobs in sight of one budget choose together, as a plan finds its nodes.

    ``waiting``: jobs without GPUs, in their order; ``running``: those that run on, of which the ``movable`` may move.
    ``in_force``: whether anything is chosen.
    """

    def __init__(
        self,
        solution: BudgetSolution,
        placer: Placer,
        gate: MoveGate,
        waiting: Sequence[Job],
        running: Mapping[JobId, JobFacts],
        movable: frozenset[JobId],
    ) -> None:
        self._solution = solution
        self._snapshot = solution.inputs.snapshot
        self._placer = placer
        self._gate = gate
        self._outlook = Outlook(solution, placer)
        jobs = [*waiting, *(facts.job for facts in running.values())]
        self.in_force = len(jobs) <= _MOST and any(self._may_choose(job) for job in jobs) and not self._come_soon()
        self._choosers: Sequence[Chooser] = ()
        self._choices: Choices = ()
        self._numbers: Mapping[JobId, int] = {}
        if self.in_force:
            self._choose(waiting, running, movable)

    @classmethod
    def in_sight(cls, solution: BudgetSolution, placer: Placer, gate: MoveGate) -> WholeNodes:
        """What all jobs of the budget choose."""
        groups, now = solution.groups.values(), solution.now
        resting = {
            facts.job.id
            for group in groups
            for facts in group.backing_off
            if facts.backs_off_until is not None and now < facts.backs_off_until
        }
        waiting = [job for group in groups for job in group.waiting if job.id not in resting]
        running = {name: facts for group in groups for name, facts in group.runners.items()}
        movable = frozenset(name for group in groups for name in group.movable)
        return cls(solution, placer, gate, sorted(waiting, key=lambda job: (job.created, job.id)), running, movable)

    def _choose(self, waiting: Sequence[Job], running: Mapping[JobId, JobFacts], movable: frozenset[JobId]) -> None:
        found = [
            *(self._queued(job) for job in waiting),
            *(self._runner(facts.job, may_move=name in movable) for name, facts in running.items()),
        ]
        self._choosers = [chooser for chooser in found if chooser is not None]
        self._numbers = {chooser.job.id: number for number, chooser in enumerate(self._choosers)}
        self._run_downs = self._all_run_downs()
        self._choices = [chooser.first for chooser in self._choosers]
        if self._run_downs.bill(self._choices).dollars == inf:  # room is allotted, or waited for
            self.in_force = False
        elif any(len(chooser.ways) > 1 for chooser in self._choosers):
            self._choices = self._best()

    @cached_property
    def preferred(self) -> Mapping[JobId, Preference]:
        """The jobs that choose something else than what they would have at their part of a node."""
        found: dict[JobId, Preference] = {}
        for number, (chooser, choice) in enumerate(zip(self._choosers, self._choices, strict=True)):
            if choice is None or key_of(chooser.ways[choice].option) == key_of(chooser.ways[chooser.first].option):
                continue
            before = chosen_with(number, chooser.first, self._choices)
            saved = self._run_downs.bill(before).dollars - self._run_downs.bill(self._choices).dollars
            sooner = self._run_downs.seconds(number, before) - self._run_downs.seconds(number, self._choices)
            ways = chooser.ways
            found[chooser.job.id] = Preference(ways[choice].option, ways[chooser.first].option, saved, sooner)
        return found

    @cached_property
    def held(self) -> Mapping[JobId, tuple[Option, Hold]]:
        """The running jobs that would choose another option if they might move, which one, and what holds them."""
        found: dict[JobId, tuple[Option, Hold]] = {}
        least = self._run_downs.bill(self._choices).total if self._choosers else 0.0
        for number, chooser in enumerate(self._choosers):
            choices = [(self._run_downs.bill(chosen_with(number, at, self._choices)).total, at) for at in chooser.holds]
            total, at = min(choices, default=(inf, 0))
            if total < least - _ROUNDING * abs(least) and self._choices[number] == chooser.first:
                found[chooser.job.id] = chooser.ways[at].option, chooser.holds[at]
        return found

    def of_all_nodes(self, job: Job) -> Mapping[OptionKey, tuple[float, float]]:
        """By option, seconds to the job's end, and dollars by which all nodes cost more because of the job; without
        those for which there is no room. Empty where nothing is chosen.
        """
        number = self._numbers.get(job.id) if self.in_force else None
        if number is None or len(self._choosers[number].ways) == 1:
            return {}
        found: dict[OptionKey, tuple[float, float]] = {}
        without = chosen_with(number, None, self._choices)
        for choice, way in enumerate(self._choosers[number].ways):
            choices = chosen_with(number, choice, self._choices)
            dollars = self._run_downs.bill(choices).dollars - self._run_downs.bill(without).dollars
            if dollars < inf and key_of(way.option) not in found:
                found[key_of(way.option)] = self._run_downs.seconds(number, choices), dollars
        return found

    def _come_soon(self) -> bool:
        """Whether the next job is expected soon, by how often they came and when the last one did."""
        groups, now = self._solution.groups.values(), self._solution.now
        ages = sorted([seconds_between(at, now) for group in groups for at in group.created])
        apart = sum([older - younger > _APART for younger, older in pairwise(ages)])
        in_sight = apart / ages[-1] if apart >= _FEWEST else 0.0
        foreseen = sum([assignment.group.foreseen for assignment in self._solution.assignments.values()])
        return max(self._solution.arrivals.seen, foreseen, in_sight) * _SOON > 1.0 and min(ages, default=0.0) < _SOON

    # --- the jobs -----------------------------------------------------------------------------------------------------

    def chooses(self, job: Job) -> bool:
        """Whether the job chooses together with others."""
        number = self._numbers.get(job.id)
        return self.in_force and number is not None and len(self._choosers[number].ways) > 1

    def _may_choose(self, job: Job) -> bool:
        assignment = self._solution.assignment(job)
        if assignment is None:
            return False
        phased = len(assignment.group.menu.stages) > 1  # its path to the end is on other options than the first
        parts = any(option.slice for option in assignment.group.menu.options)
        promised = job.id in self._solution.deadline_needs or job.max_cost is not None
        return not (phased or parts or promised or job.interactive is not None)

    def _is_priced(self, option: Option) -> bool:
        pool = self._snapshot.pools.get(option.pool)
        return pool is not None and pool.quote is not None

    def _queued(self, job: Job) -> Chooser | None:
        """A job that waits."""
        assignment = self._solution.assignment(job)
        if assignment is None:
            return None
        values = self._solution.own_values(job, assignment)
        projections = self._outlook.with_launch_delays(job, values.entering(assignment.position(job)))
        order = self._outlook.best_fit_first(job, self._outlook.in_order(job, projections, assignment))
        first = key_of(order[0])
        chooses = self._may_choose(job) and self._is_priced(order[0])
        those = [
            each for each in projections if key_of(each.option) == first or (chooses and self._is_priced(each.option))
        ]
        ways = [self._way(each, each.seconds - self._placer.start_up(each.option)) for each in those]
        number = next(at for at, way in enumerate(ways) if key_of(way.option) == first)
        return Chooser(job, self._solution.worth(job, assignment), ways, number, {}, {})

    def _runner(self, job: Job, *, may_move: bool) -> Chooser | None:
        """A job that runs on, or moves."""
        assignment, allocation = self._solution.assignment(job), job.allocation
        if allocation is None or allocation.option.pool not in self._snapshot.pools:
            return None
        here, held = allocation.option, by_rental(allocation.placements)
        if assignment is None:
            left = inf if job.remaining is None else job.remaining / here.speed
            return Chooser(job, 0.0, [NodeWay(here, 0, 0, left, stays=True)], 0, held, {})
        values, position = self._solution.own_values(job, assignment), assignment.position(job)
        ways = [NodeWay(here, 0, 0, values.staying(here, position).seconds, stays=True)]
        holds: dict[int, Hold] = {}
        if may_move and values.menu.known and self._may_choose(job) and self._is_priced(here):
            elsewhere = values.staying(here, position)  # as emptying its node would move it (``actions.consolidation``)
            if self._gate.held(job, values, position, elsewhere) is None:
                ways.append(self._way(elsewhere, elsewhere.seconds + values.change_seconds(here, here)))
            for option in values.menu.options:
                if key_of(option) == key_of(here) or not self._is_priced(option):
                    continue
                hold = self._gate.held(job, values, position, values.moving(here, option, position, rented=True))
                if hold is not None:
                    holds[len(ways)] = hold
                there = values.moving(here, option, position, rented=False)
                ways.append(self._way(there, there.seconds))
        return Chooser(job, self._solution.worth(job, assignment), ways, 0, held, holds)

    def _way(self, projection: Projection, seconds: float) -> NodeWay:
        nodes = self._placer.nodes(projection.option)
        return NodeWay(projection.option, projection.option.takes // nodes, nodes, seconds)

    # --- the nodes ----------------------------------------------------------------------------------------------------

    def _all_run_downs(self) -> RunDowns:
        choosers, pools = self._choosers, self._snapshot.pools
        wanted: dict[PoolId, int] = {}
        for chooser in choosers:
            for way in chooser.ways:
                wanted[way.option.pool] = max(wanted.get(way.option.pool, 0), way.nodes)
        offers: dict[PoolId, NodeOffer] = {}
        for name, nodes in wanted.items():
            pool = pools[name]
            free_of_charge = pool.quote is None or pool.committed is not None
            price = 0.0 if free_of_charge or pool.quote is None else pool.quote.price.dollars_per_second
            most = self._placer.more_nodes(name, nodes * len(choosers))
            offers[name] = NodeOffer(pool.gpus_per_node or 1, price, pool.likely_start_seconds, most)
        return RunDowns({name: self._standing(name, offer) for name, offer in offers.items()}, offers, choosers)

    def _standing(self, pool: PoolId, offer: NodeOffer) -> Mapping[RentalId, StandingNode]:
        """The nodes of a pool that stay, without the jobs that choose."""
        here, now = self._solution.nodes.get(pool), self._solution.now
        if here is None:
            return {}
        free, found = self._placer.free_nodes(pool), dict[RentalId, StandingNode]()
        for name, rental in here.rentals.staying.items():
            least = 0.0
            if rental.launched is not None:
                least = max(seconds_between(now, after(rental.launched, rental.billing_minimum_seconds)), 0.0)
            price = 0.0 if self._snapshot.pools[pool].committed is not None else rental.price.dollars_per_second
            unused = free.ready.free.get(name, free.booting.free.get(name, 0))
            chosen = sum([chooser.gpus.get(name, 0) for chooser in self._choosers])
            ready = free.booting.seconds.get(name, 0.0) if name in free.booting.free else 0.0
            others = max(offer.size - unused - chosen, 0)  # of jobs that end, of pods that nobody knows
            found[name] = StandingNode(price, ready, least, [(others, 0.0)] if others else [])
        # of nodes with equally many free GPUs the first is taken: a ready one
        return dict(sorted(found.items(), key=lambda each: (each[1].ready, each[0])))

    # --- the choice ---------------------------------------------------------------------------------------------------

    def _best(self) -> Choices:
        """The choice of each with the smallest sum that is found."""
        first: Choices = [FIRST_CHOICE] * len(self._choosers)
        best, least = self._descend(first)
        pools = sorted({way.option.pool for way in chain.from_iterable(each.ways for each in self._choosers)})
        for pool in pools:
            begin = [self._first_in(pool, chooser) for chooser in self._choosers]
            if begin == first:
                continue
            found, total = self._descend(begin)
            if total < least - _ROUNDING * abs(least):
                best, least = found, total
        for number, chooser in enumerate(self._choosers):  # what is as good is left to the other rules
            as_before = chosen_with(number, chooser.first, best)
            if self._run_downs.bill(as_before).total <= least + _ROUNDING * abs(least):
                best = as_before
        return best

    def _first_in(self, pool: PoolId, chooser: Chooser) -> int:
        """The best way of a job that waits in one pool, at its part of a node; what it would have where it has none."""
        there = (number for number, way in enumerate(chooser.ways) if way.option.pool == pool)
        return FIRST_CHOICE if chooser.gpus else next(there, FIRST_CHOICE)

    def _descend(self, choices: Choices) -> tuple[Choices, float]:
        """From these choices on, the change of one job that makes the sum smallest, until none makes it smaller."""
        now, least = choices, self._run_downs.bill(choices).total
        while True:
            best, total = now, least - _ROUNDING * abs(least)
            for number, chooser in enumerate(self._choosers):
                for choice in range(len(chooser.ways)):
                    if choice == now[number] or choice in chooser.holds or self._run_downs.worked_out > _WORK:
                        continue
                    other = chosen_with(number, choice, now)
                    found = self._run_downs.bill(other).total
                    if found < total:
                        best, total = other, found
            if best is now:
                return now, least
            now, least = best, total
