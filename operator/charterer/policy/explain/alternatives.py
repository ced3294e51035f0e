"""Explanations of a choice: a row for each option that a job might have now, and what would make another option win.

Every number is the planner's own. The remaining time and cost on an option are as in ``option_value``. A running job's
row includes the move (restart and start-up), a waiting job's row the new run. If an alternative saves a hours for m
dollars compared with the chosen option, it is better exactly if the budget pays more than m / a per hour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from charterer.domain.ids import PoolId, Rate, RentalId
from charterer.domain.job import Job, ResizePolicy, RunOutcome, Variant
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.plan import Verdict
from charterer.domain.profile import CurveSource, Profile, ThroughputTable
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.gpu_types import RelativeSpeed, may_use
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.deadline import ONLY_MONEY, ONLY_TIME
from charterer.policy.budgets.solution import BudgetSolution, to_the_end
from charterer.policy.options.menu import Menu
from charterer.policy.options.option_value import JobPosition, OptionValues, Projection
from charterer.policy.options.speeds import (
    has_curve,
    measuring_profile,
    quarantines,
    units_differ,
    untested,
    widths_differ,
)
from charterer.policy.outlook.move_gate import MoveGate
from charterer.policy.outlook.outlook import NodeSource, Outlook
from charterer.policy.outlook.placer import Placer, SharedNodes
from charterer.policy.outlook.whole_nodes import WholeNodes
from charterer.policy.solve.hull import bisect
from charterer.policy.solve.phase_dp import OptionKey, OptionTable, key_of

# A job's variants that give it no option, each with the reason.


@dataclass(frozen=True, slots=True)
class UnusedVariant:
    """A variant without any option. ``why``: the reason, as a sentence."""

    name: str
    why: str


def unused_variants(job: Job, menu: Menu, solution: BudgetSolution) -> tuple[UnusedVariant, ...]:
    """The job's variants that are not on its menu."""
    offered = {option.variant for option in menu.options}
    out = [variant for variant in job.variants if variant.name not in offered]
    return tuple([UnusedVariant(variant.name, _why(job, variant, solution)) for variant in out])


def _why(job: Job, variant: Variant, solution: BudgetSolution) -> str:
    profiles = solution.inputs.snapshot.profiles
    profile = profiles.get(variant.class_id)
    measure = measuring_profile([profiles.get(class_id) for class_id in job.classes])
    if profile is not None and measure is not None and has_curve(profile):
        no_pool = "no pool that is open to it has a number of GPUs at which its speed is known, or runs failed there"
        return units_differ(profile, measure) or widths_differ(variant, profile) or no_pool
    unknown = f"nothing is known of its speed, and SpeedupProfile {variant.class_id.name} declares none"
    template = profiles.get(job.class_id)
    if not solution.budget.exploration_percent:
        return f"{unknown}; spec.explorationPercent of GPUBudget {solution.budget.id} pays for no trial"
    if job.resize is ResizePolicy.NEVER:
        return f"{unknown}; a job with resizePolicy Never tries nothing, because it could not leave it again"
    if template is None or not template.reports:
        return f"{unknown}; it is tried once jobs of the class have reported batch sizes and step times"
    return f"{unknown}; one job of the class at a time tries it, while the budget pays for trials"


# The evidence for the speed of an option: its source, and the number of reports.


class Basis(StrEnum):
    """The evidence for a speed, the surest first. DECLARED: the profile's owner measured or estimated it."""

    MEASURED = "measured"
    DECLARED = "declared"
    FORMULA = "declared formula"
    INTERPOLATED = "between two points"
    EXTRAPOLATED = "extrapolated"
    PRIOR = "from other classes"
    ASSUMED = "assumed"


_BASES = {
    CurveSource.MEASURED: Basis.MEASURED,
    CurveSource.DECLARED: Basis.DECLARED,
    CurveSource.EXTRAPOLATED: Basis.EXTRAPOLATED,
    CurveSource.PRIOR: Basis.PRIOR,
}


def basis(profile: Profile | None, gpu_type: str, gpus: int) -> Basis:
    """The evidence for the speed at a width: the weakest over the class's phases."""
    if profile is None:
        return Basis.ASSUMED
    found = [_of_phase(profile, phase, gpu_type, gpus) for phase in range(len(profile.phases))]
    return max(found, key=list(Basis).index, default=Basis.ASSUMED)


def _of_phase(profile: Profile, phase: int, gpu_type: str, gpus: int) -> Basis:
    curve = next((curve for curve in profile.phases[phase].curves if curve.gpu_type == gpu_type), None)
    if curve is None:
        return Basis.ASSUMED
    if not isinstance(curve.form, ThroughputTable):
        return Basis.FORMULA
    at = next((at for at, (width, _) in enumerate(curve.form.points) if width == gpus), None)
    if at is None:
        return Basis.INTERPOLATED
    return _BASES[curve.origins[at].source] if curve.origins else Basis.DECLARED


def reports(profile: Profile | None, gpu_type: str, gpus: int) -> int:
    """The number of reports about a width. A learned curve has the same number in every phase."""
    curves = () if profile is None else profile.phases[0].curves
    return sum(
        origin.reports
        for curve in curves
        if curve.gpu_type == gpu_type
        for width, _, origin in curve.learned
        if width == gpus
    )


# Widths that a job asks for but may not have, because runs failed there.


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A width that is no option because runs failed there. ``until``: the end of that; None if the job may never use
    it."""

    gpu_type: str
    gpus: int
    until: Instant | None
    message: str
    variant: str = ""


def left_alone(job: Job, variant: Variant, snapshot: Snapshot) -> tuple[LeftAlone, ...]:
    """The excluded widths of one of the job's variants, in order."""
    profile, name = snapshot.profiles.get(variant.class_id), variant.name
    if profile is None:
        return ()
    found = {
        (failed.gpu_type, failed.gpus): LeftAlone(failed.gpu_type, failed.gpus, until, failed.message, name)
        for failed, until in quarantines(profile, snapshot.now)
        if variant.least <= failed.gpus <= variant.most
        and may_use(failed.gpu_type, job.gpu_types, variant.slices, variant.shared_mib)
    }
    for record in job.records if job.failures else ():
        pool = snapshot.pools.get(record.option.pool)
        failed = record.outcome is RunOutcome.FAILED and record.option.variant == name
        if failed and pool is not None and pool.offering is not None:
            width = pool.offering.gpu_type, record.option.gpus
            if untested(profile, frozenset({width})):
                found[width] = LeftAlone(*width, None, record.message, name)
    return tuple(found[width] for width in sorted(found))


_HALVINGS = 40
"""Bisection steps between a factor of 1 and ``_MOST``: exact to eleven digits."""
_TIE = 1e-5
"""Relative difference below which dollars count as equal, as for the two options of a mixing class."""
_MOST = 20.0
"""Largest factor of a change that is reported as one that would make another option win."""


_TO_BE_HAD = frozenset((NodeSource.HERE, NodeSource.READY, NodeSource.BOOTING, NodeSource.RENT, NodeSource.LEFT))


class Rank(StrEnum):
    """The comparison of an option with the chosen one at the budget's rate."""

    CHOSEN = "chosen"
    EQUAL = "as good"
    TOO_DEAR = "too dear"
    TOO_SLOW = "too slow"
    WORSE = "slower and dearer"
    BETTER = "better"


@dataclass(frozen=True, slots=True)
class Alternative:
    """One option. ``seconds``, ``dollars``: from now to the job's end, including the change to the option.

    ``reports``: the number of reports about its width. ``per_hour_saved``: dollars for each hour that the faster of
    this option and the chosen one saves; None if one of them is both faster and cheaper. ``launch_delay``: the part of
    the seconds in which the cloud is expected to give no node. ``room_wait``: the part until the GPUs that the job
    waits for are expected to become free. ``held``: why a running job is not moved to this better option now; otherwise
    empty. ``empty``: dollars for the unused parts of its nodes that no job in sight uses (negative: it uses parts that
    are paid for anyway).
    """

    option: Option
    seconds: float
    dollars: float
    basis: Basis
    nodes: NodeSource
    rank: Rank
    per_hour_saved: float | None
    reports: int = 0
    launch_delay: float = 0.0
    room_wait: float = 0.0
    held: str = ""
    empty: float = 0.0

    @property
    def can_begin(self) -> bool:
        """Whether the start of the job on the option is known: its nodes exist or can be rented, now or after a known
        wait."""
        return self.nodes in _TO_BE_HAD or self.launch_delay > 0.0 or self.room_wait > 0.0


@dataclass(frozen=True, slots=True)
class WinningChange:
    """The single changes, each of which would make ``to`` win over the chosen option. None if no value would.

    ``rate``: dollars per second that the budget would have to pay. ``node_price``: the price that a node of the
    option's pool would have to have, at today's rate. ``work``: remaining seconds of the reference option, at today's
    rate and prices.
    """

    to: Option
    rate: Rate
    node_price: Price | None
    work: float | None


@dataclass(frozen=True, slots=True)
class Alternatives:
    """All options of a job, the cheapest first, and what would make the nearest faster option and the nearest slower
    option win.

    ``known_work``: whether the job's remaining work is known; otherwise its class's mean is used. ``left_alone``:
    widths that the job asks for but may not have. ``unused``: variants without an option, with reasons. ``assumed``:
    the assumed speed of each GPU type open to the job if nothing is measured (``assumed_speeds``).
    """

    rows: tuple[Alternative, ...]
    chosen: Alternative
    position: JobPosition
    known_work: bool
    changes: tuple[WinningChange, ...]
    left_alone: tuple[LeftAlone, ...]
    unused: tuple[UnusedVariant, ...]
    assumed: Mapping[str, RelativeSpeed]


@dataclass(frozen=True, slots=True)
class ComparedOptions:
    """Options of a job, the cheapest first. ``compared``: the number of all options that were compared."""

    rows: tuple[Alternative, ...]
    compared: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """A budget's jobs and nodes as a plan finds them. Comparing does not change it, so one object serves all jobs.

    ``whole``: the options that its jobs choose together.
    """

    solution: BudgetSolution
    placer: Placer
    gate: MoveGate
    whole: WholeNodes

    @property
    def snapshot(self) -> Snapshot:
        return self.solution.inputs.snapshot

    @classmethod
    def of(cls, solution: BudgetSolution) -> Comparison:
        """The comparison for one budget."""
        placer, gate = Placer(solution, SharedNodes.of(solution.inputs)), MoveGate(solution)
        return cls(solution, placer, gate, WholeNodes.in_sight(solution, placer, gate))


def extremes(job: Job, verdict: Verdict, budget: Comparison) -> tuple[Alternative, Alternative, Alternative] | None:
    """The best option if only money counts, the planner's own, and the best option if only time counts.

    None if the job has no options.
    """
    weighing = _weighing(job, verdict, budget)
    if weighing is None:
        return None
    dearest = max(weighing.assignment.group.menu.table.prices, default=0.0)
    return weighing.best_at(ONLY_MONEY * dearest), weighing.own(), weighing.best_at(ONLY_TIME * dearest)


def compared_options(job: Job, verdict: Verdict, budget: Comparison, most: int) -> ComparedOptions:
    """The options of a job for which the planner chose one; none if its menu is empty or no option was chosen.

    If there are more than ``most`` options, the result has the best of them at the budget's rate, including the
    chosen option.
    """
    weighing = _weighing(job, verdict, budget)
    return ComparedOptions((), 0) if weighing is None else weighing.compared(most)


def alternatives(job: Job, verdict: Verdict, budget: Comparison) -> Alternatives | None:
    """All options of a job, with the changes that would make other options win; None without options."""
    weighing = _weighing(job, verdict, budget)
    if weighing is None:
        return None
    rows, snapshot = weighing.compared().rows, budget.snapshot
    nearest = [_cheapest_hour(rows, Rank.TOO_DEAR), _dearest_hour(rows, Rank.TOO_SLOW)]
    return Alternatives(
        rows=rows,
        chosen=next(row for row in rows if row.rank is Rank.CHOSEN),
        position=weighing.position,
        known_work=job.remaining is not None,
        changes=tuple([weighing.change(row) for row in nearest if row is not None]),
        left_alone=tuple([each for variant in job.ways for each in left_alone(job, variant, snapshot)]),
        unused=unused_variants(job, weighing.assignment.group.menu, budget.solution),
        assumed=budget.solution.inputs.menus[budget.solution.budget.id].assumed_speeds(budget.solution.key(job)[1]),
    )


def _weighing(job: Job, verdict: Verdict, budget: Comparison) -> _Weighing | None:
    assignment = budget.solution.assignment(job)
    chosen = job.allocation.option if job.allocation is not None else verdict.option
    return (
        None if assignment is None or chosen is None else _Weighing(job, chosen, verdict.starts_in, assignment, budget)
    )


def _cheapest_hour(rows: Sequence[Alternative], rank: Rank) -> Alternative | None:
    return min((row for row in rows if row.rank is rank), key=lambda row: row.per_hour_saved or 0.0, default=None)


def _dearest_hour(rows: Sequence[Alternative], rank: Rank) -> Alternative | None:
    return max((row for row in rows if row.rank is rank), key=lambda row: row.per_hour_saved or 0.0, default=None)


class _Weighing:
    """The options of one job from now to its end, at any rate, prices and remaining work."""

    def __init__(
        self, job: Job, chosen: Option, starts_in: float, assignment: GroupAssignment, budget: Comparison
    ) -> None:
        self._job = job
        self._chosen = chosen
        self._starts_in = starts_in
        self.assignment = assignment
        self.position = assignment.position(job)
        self._values = budget.solution.own_values(job, assignment)
        self._budget = budget
        self._snapshot = budget.snapshot
        self._runs = job.allocation is not None
        self._outlook = Outlook(budget.solution, budget.placer)
        self._outlook.waits.find_waits([] if self._runs else [(job, chosen)])
        self._whole = self._with_all_nodes()

    def compared(self, most: int | None = None) -> ComparedOptions:
        """Every option compared with the chosen option, the cheapest first. ``most``: the number of options to keep,
        which are the chosen option and the best other options."""
        projections, worth = self.projections(self._values, self.position), self._values.worth
        here = projections[key_of(self._chosen)]
        others = [projection for projection in projections.values() if projection is not here]
        if most is not None and len(projections) > most:
            others = sorted(others, key=lambda projection: self._total(projection, worth))[: most - 1]
        rows = [self.row(projection, here, worth) for projection in (here, *others)]
        rows.sort(key=lambda row: (row.dollars + row.empty, row.seconds, row.option.pool, row.option.gpus))
        return ComparedOptions(tuple(rows), len(projections))

    def own(self) -> Alternative:
        """The planner's own choice."""
        here = self.projections(self._values, self.position)[key_of(self._chosen)]
        return self.row(here, here, self._values.worth)

    def best_at(self, worth: float) -> Alternative:
        """The best available option if a second is worth ``worth`` dollars; the planner's own if none is available."""
        projections = self.projections(OptionValues(self._values.menu, worth), self.position)
        here = projections[key_of(self._chosen)]
        for projection in sorted(projections.values(), key=lambda each: self._total(each, worth)):
            row = self.row(projection, here, worth)
            if row.can_begin:
                return row
        return self.own()

    def projections(self, values: OptionValues, position: JobPosition) -> dict[OptionKey, Projection]:
        """The planner's projections from now to the end on every option, including the chosen one."""
        if not self._runs:
            projections = values.entering(position)
            if all(
                key_of(projection.option) != key_of(self._chosen) for projection in projections
            ):  # the job was given less than it asks for
                projections = [*projections, to_the_end(self._chosen, values, position)]
            return {key_of(projection.option): self._entering(projection, values.worth) for projection in projections}
        stay = values.staying(self._chosen, position)
        found = {key_of(stay.option): stay}
        for option in values.menu.options:
            if key_of(option) not in found:
                rented = self._budget.placer.must_rent(self._job, option)
                found[key_of(option)] = values.moving(self._chosen, option, position, rented=rented)
        return found

    def _with_all_nodes(self) -> Mapping[OptionKey, tuple[float, float]]:
        """Seconds and dollars in addition to each option's projection, if the job chooses together with other
        jobs."""
        waits = self._starts_in or self._outlook.waits.reason(self._job, self._chosen) is not None
        together = {} if waits else self._budget.whole.of_all_nodes(self._job)
        alone = self.projections(self._values, self.position) if together else {}
        return {
            key: (_unless_rounding(seconds, alone[key].seconds), _unless_rounding(dollars, alone[key].dollars))
            for key, (seconds, dollars) in together.items()
            if key in alone
        }

    def _beside(self, option: Option) -> tuple[float, float]:
        return self._whole.get(key_of(option), (0.0, 0.0))

    def _total(self, projection: Projection, worth: float) -> float:
        """Dollars of an option, including the value of time."""
        seconds, dollars = self._beside(projection.option)
        return projection.dollars + dollars + worth * (projection.seconds + seconds)

    def _entering(self, projection: Projection, worth: float) -> Projection:
        """The projection as the queue computes it. For the option that the job waits for, the projection includes the
        wait."""
        if self._starts_in and key_of(projection.option) == key_of(self._chosen):
            start_up = self._budget.placer.start_up(projection.option)
            return projection.on_nodes_left(self._starts_in, start_up, worth)
        return self._outlook.entering(self._job, projection, worth)

    def _nodes(self, projection: Projection, *, chosen: bool) -> NodeSource:
        if chosen and self._runs:
            return NodeSource.HERE
        if chosen and self._starts_in:
            return NodeSource.LEFT
        return self._outlook.node_source(self._job, projection)

    def row(self, projection: Projection, here: Projection, worth: float) -> Alternative:
        """The option compared with the chosen one, if a second is worth ``worth`` dollars."""
        option = projection.option
        pool = self._snapshot.pools.get(option.pool)
        gpu_type = "" if pool is None or pool.offering is None else pool.offering.gpu_type
        (later, empty), (own_later, own_empty) = self._beside(option), self._beside(here.option)
        seconds, saved = projection.seconds + later, here.seconds + own_later - projection.seconds - later
        rank, price = _rank(saved, projection.dollars + empty - here.dollars - own_empty, worth)
        chosen = key_of(option) == key_of(self._chosen)
        variant = self._job.variant(option.variant)
        profile = None if variant is None else self._snapshot.profiles.get(variant.class_id)
        return Alternative(
            option=option,
            seconds=seconds,
            dollars=projection.dollars,
            basis=basis(profile, gpu_type, option.gpus),
            reports=reports(profile, gpu_type, option.gpus),
            nodes=self._nodes(projection, chosen=chosen),
            rank=Rank.CHOSEN if chosen else rank,
            per_hour_saved=None if chosen or price is None else price * 3600.0,
            held=self._held(option) if self._runs and rank is Rank.BETTER and not chosen else "",
            launch_delay=0.0 if self._runs else self._budget.placer.launch_delay(self._job, option),
            room_wait=self._starts_in if chosen else 0.0,
            empty=empty,
        )

    def _held(self, to: Option) -> str:
        """Why the gate does not let a running job move to that option now; empty if it does."""
        there = self._values.moving(self._chosen, to, self.position, rented=True)
        hold = self._budget.gate.held(self._job, self._values, self.position, there)
        return "" if hold is None else hold.facts.sentence()

    # --- changes that would make another option win
    # -----------------------------------------------------------------------

    def change(self, row: Alternative) -> WinningChange:
        """The single changes that would make the option of ``row`` win."""
        to, values, position = key_of(row.option), self._values, self.position
        weight = self.assignment.group.weight

        def loses_by(at: OptionValues, where: JobPosition, here_times: float = 1.0, there_times: float = 1.0) -> float:
            projections = self.projections(at, where)
            here, there = projections[key_of(self._chosen)], projections[to]
            (later, empty), (own_later, own_empty) = self._beside(there.option), self._beside(here.option)
            dollars = there.dollars - here.dollars + there_times * empty - here_times * own_empty
            return dollars + at.worth * (there.seconds - here.seconds + later - own_later)

        def at_price(factor: float) -> float:
            repriced = OptionValues(_repriced(values.menu, row.option.pool, factor), values.worth)
            return loses_by(repriced, position, factor if row.option.pool == self._chosen.pool else 1.0, factor)

        def at_work(factor: float) -> float:
            return loses_by(values, JobPosition(position.total * factor, position.done), factor, factor)

        price, work = _turning_point(at_price), _turning_point(at_work) if self._job.remaining is not None else None
        pool = self._snapshot.pools[row.option.pool]
        return WinningChange(
            to=row.option,
            rate=Rate((row.per_hour_saved or 0.0) / 3600.0 / weight),
            node_price=None
            if price is None or pool.quote is None or self._left_behind(row.option)
            else Price(round(pool.quote.price.micros_per_hour * price)),
            work=None if work is None else position.left * work,
        )

    def _left_behind(self, option: Option) -> bool:
        """Whether the job's own option is no longer on its menu, so that its price is not today's."""
        return option.pool == self._chosen.pool and not self.assignment.values.on_menu(self._chosen)


def _unless_rounding(found: float, known: float) -> float:
    """The difference of two numbers; 0 if they are equal except for rounding."""
    return 0.0 if abs(found - known) <= _TIE * abs(known) else found - known


def _rank(saved: float, more: float, worth: float) -> tuple[Rank, float | None]:
    """The rank of an option that saves ``saved`` seconds for ``more`` dollars, and the dollars per second of that
    trade."""
    traded = more / saved if saved * more > 0 else None
    if abs(more - worth * saved) <= _TIE * max(abs(more), abs(worth * saved)):
        return Rank.EQUAL, traded
    if more < worth * saved:
        return Rank.BETTER, traded
    if traded is None:
        return Rank.WORSE, None
    return (Rank.TOO_DEAR if saved > 0 else Rank.TOO_SLOW), traded


def _repriced(menu: Menu, pool: PoolId, factor: float) -> Menu:
    """The menu if the pool's nodes cost ``factor`` times as much."""

    def repriced(option: Option) -> Option:
        if option.pool != pool:
            return option
        price = Price(round(option.price.micros_per_hour * factor))
        return replace(option, price=price, entry_cost=price.cost(round(option.entry_seconds)))

    stages = tuple(tuple(repriced(option) for option in stage) for stage in menu.stages)
    return replace(menu, stages=stages, table=OptionTable.of(stages, menu.table.restart, menu.table.in_place))


def _turning_point(loses_by: Callable[[float], float]) -> float | None:
    """The factor nearest to 1 at which the option no longer loses, below or else above 1; None without one."""
    for far in (1.0 / _MOST, _MOST):
        if loses_by(far) <= 0.0:
            return bisect(1.0, far, lambda factor: loses_by(factor) <= 0.0, _HALVINGS)[1]
    return None


# The node of a job that is narrower than a node: its empty part, and the price of all of it.


@dataclass(frozen=True, slots=True)
class JobNode:
    """A node of ``gpus`` GPUs with ``price``, of which ``empty`` are unused while the job is there.

    ``rental``: None for a node that is starting or not rented yet.
    """

    rental: RentalId | None
    gpus: int
    empty: int
    price: Price


def job_node(job: Job, option: Option, budget: Comparison) -> JobNode | None:
    """The node of a job on ``option``; None for whole nodes, slices, and nodes that are paid for anyway."""
    snapshot, allocation = budget.snapshot, job.allocation
    pool = snapshot.pools.get(option.pool)
    if pool is None or pool.quote is None or pool.committed is not None or option.slice:
        return None
    size = pool.gpus_per_node
    if option.takes >= size:
        return None
    if allocation is None:
        return JobNode(None, size, budget.placer.idle_beside(job, option), pool.quote.price)
    rental = allocation.placements[0].rental
    if rental not in snapshot.rentals:
        return None
    used = budget.solution.inputs.holdings.used.get(rental, 0)
    return JobNode(rental, size, max(size - used, 0), snapshot.rentals[rental].price)
