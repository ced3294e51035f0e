"""Why this option and no other: a row for each option that a job might have now, and what would make another one win.

Every number is the planner's own: what is left on an option is as in ``option_value``, a running job's row holds
the move that it would take (restart and start-up included), a waiting job's the new run. Against the chosen option an
alternative saves a hours for m dollars; it is right exactly when the budget pays more than m / a for an hour.
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

# The variants of a job that are no option for it, each with the reason.


@dataclass(frozen=True, slots=True)
class UnusedVariant:
    """A variant without any option, and ``why``."""

    name: str
    why: str


def unused_variants(job: Job, menu: Menu, solution: BudgetSolution) -> tuple[UnusedVariant, ...]:
    """Those of the job's variants that are not on its menu."""
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


# The evidence for the speed of an option: how it came to be known, and by how many reports.


class Basis(StrEnum):
    """The evidence for a speed, the surest first; DECLARED is what the profile's owner measured or said."""

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
    """The evidence for the speed on a width: the weakest of the class's phases."""
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
    """How many reports of a width there were; of a learned curve, which says the same in every phase."""
    curves = () if profile is None else profile.phases[0].curves
    return sum(
        origin.reports
        for curve in curves
        if curve.gpu_type == gpu_type
        for width, _, origin in curve.learned
        if width == gpus
    )


# Widths that a job asks for and may not have, because runs failed there.


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A width that is no option because runs failed there: until when, None where the job never goes there again."""

    gpu_type: str
    gpus: int
    until: Instant | None
    message: str
    variant: str = ""


def left_alone(job: Job, variant: Variant, snapshot: Snapshot) -> tuple[LeftAlone, ...]:
    """The widths of one of the job's variants."""
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
"""Halvings of the range between a factor of 1 and ``_MOST``: exact to eleven digits."""
_TIE = 1e-5
"""Dollars closer to each other than this fraction are equal: a mixing class's two options are, save for rounding."""
_MOST = 20.0
"""A change by more than this factor is no answer to "what would have to change"."""


_TO_BE_HAD = frozenset((NodeSource.HERE, NodeSource.READY, NodeSource.BOOTING, NodeSource.RENT, NodeSource.LEFT))


class Rank(StrEnum):
    """How an option compares with the chosen one at the budget's rate."""

    CHOSEN = "chosen"
    EQUAL = "as good"
    TOO_DEAR = "too dear"
    TOO_SLOW = "too slow"
    WORSE = "slower and dearer"
    BETTER = "better"


@dataclass(frozen=True, slots=True)
class Alternative:
    """One option: ``seconds`` and ``dollars`` from now to the job's end, getting there included.

    ``reports``: how many there were of that width. ``per_hour_saved``: dollars for each hour that it saves over the
    chosen option, if it is faster, or that the chosen one saves over it, if it is slower; None where one of the two is
    both faster and cheaper.
    ``launch_delay``: of the seconds, those in which the cloud is expected to give no node; ``room_wait``: those until
    the GPUs that the job waits for are expected to come free. ``held``: why a running job
    is not moved there now although that would be better; empty otherwise. ``empty``: dollars beside those of its part
    of its nodes, for what of them nobody in sight uses (negative: it uses what is paid for anyway).
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
        """Whether it is known when the job can begin there: its nodes are there or can be had, now or after a wait."""
        return self.nodes in _TO_BE_HAD or self.launch_delay > 0.0 or self.room_wait > 0.0


@dataclass(frozen=True, slots=True)
class WinningChange:
    """The one change that would make ``to`` win over the chosen option; None where none would.

    ``rate``: dollars per second that the budget would have to pay. ``node_price``: of a node of its pool, at today's
    rate. ``work``: seconds of the reference option that would have to be left, at today's rate and prices.
    """

    to: Option
    rate: Rate
    node_price: Price | None
    work: float | None


@dataclass(frozen=True, slots=True)
class Alternatives:
    """All options of a job, cheapest first, and what would have to change for the nearest faster and slower one.

    ``known_work``: whether what is left is known, or its class's mean is taken for it. ``left_alone``: widths that it
    asks for and may not have. ``unused``: variants that are no option, each with the reason.
    ``assumed``: where nothing is measured, the speed of each GPU type that is open to it (``assumed_speeds``).
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
    """Options of a job, cheapest first, of ``compared`` in all."""

    rows: tuple[Alternative, ...]
    compared: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """A budget's jobs and nodes as a plan finds them. Comparing changes nothing in it: one serves all jobs.

    ``whole``: what its jobs choose together.
    """

    solution: BudgetSolution
    placer: Placer
    gate: MoveGate
    whole: WholeNodes

    @property
    def snapshot(self) -> Snapshot:
        """The world at that instant."""
        return self.solution.inputs.snapshot

    @classmethod
    def of(cls, solution: BudgetSolution) -> Comparison:
        """That of one budget."""
        placer, gate = Placer(solution, SharedNodes.of(solution.inputs)), MoveGate(solution)
        return cls(solution, placer, gate, WholeNodes.in_sight(solution, placer, gate))


def extremes(job: Job, verdict: Verdict, budget: Comparison) -> tuple[Alternative, Alternative, Alternative] | None:
    """The way that is best where only money counts, the planner's own, and the one where only time counts.

    None where the job has no options.
    """
    weighing = _weighing(job, verdict, budget)
    if weighing is None:
        return None
    dearest = max(weighing.assignment.group.menu.table.prices, default=0.0)
    return weighing.best_at(ONLY_MONEY * dearest), weighing.own(), weighing.best_at(ONLY_TIME * dearest)


def compared_options(job: Job, verdict: Verdict, budget: Comparison, most: int) -> ComparedOptions:
    """The options of a job for which the planner found one; none where its menu is empty or it has none.

    Of more than ``most`` the best ones at the budget's rate, its own included.
    """
    weighing = _weighing(job, verdict, budget)
    return ComparedOptions((), 0) if weighing is None else weighing.compared(most)


def alternatives(job: Job, verdict: Verdict, budget: Comparison) -> Alternatives | None:
    """The same options with what would have to change; None where there are none."""
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
    """One job's options, each from now to the end, at whatever rate, prices and work left are asked about."""

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
        """Every option against the chosen one, or that one and the best of the others; cheapest first."""
        projections, worth = self.projections(self._values, self.position), self._values.worth
        here = projections[key_of(self._chosen)]
        others = [projection for projection in projections.values() if projection is not here]
        if most is not None and len(projections) > most:
            others = sorted(others, key=lambda projection: self._total(projection, worth))[: most - 1]
        rows = [self.row(projection, here, worth) for projection in (here, *others)]
        rows.sort(key=lambda row: (row.dollars + row.empty, row.seconds, row.option.pool, row.option.gpus))
        return ComparedOptions(tuple(rows), len(projections))

    def own(self) -> Alternative:
        """The planner's own way."""
        here = self.projections(self._values, self.position)[key_of(self._chosen)]
        return self.row(here, here, self._values.worth)

    def best_at(self, worth: float) -> Alternative:
        """The best way where a second is worth so many dollars, of those that can be had; the planner's own if none."""
        projections = self.projections(OptionValues(self._values.menu, worth), self.position)
        here = projections[key_of(self._chosen)]
        for projection in sorted(projections.values(), key=lambda each: self._total(each, worth)):
            row = self.row(projection, here, worth)
            if row.can_begin:
                return row
        return self.own()

    def projections(self, values: OptionValues, position: JobPosition) -> dict[OptionKey, Projection]:
        """From now to the end on every option, the chosen one included, as the planner counts it."""
        if not self._runs:
            projections = values.entering(position)
            if all(
                key_of(projection.option) != key_of(self._chosen) for projection in projections
            ):  # it was given less than it asks for
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
        """Seconds and dollars beside those of each option's projection, where the job chooses together with others."""
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
        """Dollars of money and time."""
        seconds, dollars = self._beside(projection.option)
        return projection.dollars + dollars + worth * (projection.seconds + seconds)

    def _entering(self, projection: Projection, worth: float) -> Projection:
        """As the queue counts it; the one that it waits for with that wait."""
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
        """The option against the chosen one, for which a second is worth ``worth`` dollars."""
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
        """Why a running job is not moved there now, as the gate that every move passes says it; empty where it may."""
        there = self._values.moving(self._chosen, to, self.position, rented=True)
        hold = self._budget.gate.held(self._job, self._values, self.position, there)
        return "" if hold is None else hold.facts.sentence()

    # --- what would have to change ------------------------------------------------------------------------------------

    def change(self, row: Alternative) -> WinningChange:
        """The one change that would make the option of ``row`` win."""
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
        """Whether the job's own option is no longer on its menu, so that its price is not one of today's."""
        return option.pool == self._chosen.pool and not self.assignment.values.on_menu(self._chosen)


def _unless_rounding(found: float, known: float) -> float:
    """The difference of two numbers; 0 where they are equal, save for rounding."""
    return 0.0 if abs(found - known) <= _TIE * abs(known) else found - known


def _rank(saved: float, more: float, worth: float) -> tuple[Rank, float | None]:
    """The rank of an option that saves ``saved`` seconds for ``more`` dollars, or the opposite; dollars per second."""
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
    """The factor nearest to 1 from which on nothing is lost any more, above or below it; None if there is none."""
    for far in (1.0 / _MOST, _MOST):
        if loses_by(far) <= 0.0:
            return bisect(1.0, far, lambda factor: loses_by(factor) <= 0.0, _HALVINGS)[1]
    return None


# The node of a job that is narrower than a node: how much of it is empty, and what is paid for all of it.


@dataclass(frozen=True, slots=True)
class JobNode:
    """A node of ``gpus`` GPUs, of which nobody uses ``empty`` while the job is there, at ``price``.

    ``rental``: which one; None for a node that starts up or is still to be rented.
    """

    rental: RentalId | None
    gpus: int
    empty: int
    price: Price


def job_node(job: Job, option: Option, budget: Comparison) -> JobNode | None:
    """The node of a job on ``option``; None for whole nodes, for slices, and where nodes are paid for in any case."""
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
