"""Why this option and no other: a row for each option that a job might have now, and what would make another one win.

Every number is the planner's own: what is left on an option is as in ``option_value``, a running job's row holds
the move that it would take (restart and start-up included), a waiting job's the new run. Against the chosen option an
alternative saves a hours for m dollars; it is right exactly when the budget pays more than m / a for an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from charterer.domain.ids import PoolId, Rate
from charterer.domain.job import Job, RunOutcome
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.plan import ReasonCode, Verdict
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.gpu_types import RelativeSpeed, relative_speeds
from charterer.policy.actions.admission.hole_waits import HoleWaits
from charterer.policy.actions.gangs import GangMarks
from charterer.policy.actions.plan_builder import PlanBuilder
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.reasons import to_the_end
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.speed_evidence import Basis, basis, reports
from charterer.policy.nodes.capacity import Capacity
from charterer.policy.nodes.max_cost import max_cost_left, within_max_cost
from charterer.policy.nodes.pool_quota import PoolQuota
from charterer.policy.options.menu import Menu
from charterer.policy.options.option_value import Completion, JobPosition, OptionValues
from charterer.policy.options.width_backoff import quarantines, untested
from charterer.policy.solve.bisection import bisect
from charterer.policy.solve.phase_dp import OptionKey, OptionTable, key_of

_HALVINGS = 40
"""Halvings of the range between a factor of 1 and ``_MOST``: exact to eleven digits."""
_TIE = 1e-5
"""Dollars closer to each other than this fraction are equal: a mixing class's two options are, save for rounding."""
_MOST = 20.0
"""A change by more than this factor is no answer to "what would have to change"."""


class NodeSource(StrEnum):
    """Where the nodes of an option would come from, or why they cannot be had now."""

    HERE = "it has them"
    READY = "ready"
    BOOTING = "booting"
    RENT = "to be rented"
    FULL = "pool full"
    COOLING = "pool cooling"
    HARD_LIMIT = "hard limit"
    HOURLY_LIMIT = "hourly limit"
    OPERATOR_LIMIT = "operator limit"
    STOPPED = "operator stopped"
    UNKNOWN = "cloud not heard"
    CLOSED = "none rented now"
    MAX_COST = "above maxCost"


_REFUSED = {
    None: NodeSource.RENT,
    ReasonCode.POOL_FULL: NodeSource.FULL,
    ReasonCode.POOL_COOLING: NodeSource.COOLING,
    ReasonCode.HARD_LIMIT: NodeSource.HARD_LIMIT,
    ReasonCode.HOURLY_LIMIT: NodeSource.HOURLY_LIMIT,
    ReasonCode.OPERATOR_LIMIT: NodeSource.OPERATOR_LIMIT,
    ReasonCode.STOPPED: NodeSource.STOPPED,
    ReasonCode.NOT_ASKED_YET: NodeSource.UNKNOWN,
}


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

    ``reports``: how many there were of that width. ``room_dollars``: what room in full pools counts on top of the bill,
    and ``room_price`` for an hour of the option; they decide like dollars, though nobody pays them.

    ``per_hour_saved``: dollars, room included, for each hour that it saves over the chosen option, if it is faster, or
    that the chosen one saves over it, if it is slower; None where one of the two is both faster and cheaper.
    ``launch_delay``: of the seconds, those in which the cloud is expected to give no node.
    """

    option: Option
    seconds: float
    dollars: float
    room_dollars: float
    room_price: Price
    basis: Basis
    nodes: NodeSource
    rank: Rank
    per_hour_saved: float | None
    reports: int = 0
    launch_delay: float = 0.0


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
class LeftAlone:
    """A width that is no option because runs failed there: until when, None where the job never goes there again."""

    gpu_type: str
    gpus: int
    until: Instant | None
    message: str


@dataclass(frozen=True, slots=True)
class Alternatives:
    """All options of a job, cheapest first, and what would have to change for the nearest faster and slower one.

    ``known_work``: whether what is left is known, or its class's mean is taken for it. ``left_alone``: widths that it
    asks for and may not have. ``assumed``: where nothing is measured, each GPU type's speed relative to the fastest one
    by their data sheets; empty if there is only one type.
    """

    rows: tuple[Alternative, ...]
    chosen: Alternative
    position: JobPosition
    known_work: bool
    changes: tuple[WinningChange, ...]
    left_alone: tuple[LeftAlone, ...]
    assumed: Mapping[str, RelativeSpeed]


@dataclass(frozen=True, slots=True)
class ComparedOptions:
    """Options of a job, cheapest first, of ``compared`` in all."""

    rows: tuple[Alternative, ...]
    compared: int


def new_draft(solution: BudgetSolution) -> PlanBuilder:
    """The budget's part of a plan in which nothing is decided. Comparing changes nothing in it: one serves all jobs."""
    inputs = solution.inputs
    capacity = Capacity(inputs.snapshot, inputs.holdings, inputs.nodes, inputs.ends)
    gangs = GangMarks(inputs.rentals.by_pool.values(), inputs.snapshot)
    return PlanBuilder(solution, capacity, PoolQuota(inputs.snapshot, inputs.rentals), gangs, inputs.snapshot)


def compared_options(job: Job, verdict: Verdict, draft: PlanBuilder, most: int) -> ComparedOptions:
    """The options of a job for which the planner found one; none where its menu is empty or it has none.

    Of more than ``most`` the best ones at the budget's rate, its own included.
    """
    weighing = _weighing(job, verdict, draft)
    return ComparedOptions((), 0) if weighing is None else weighing.compared(most)


def alternatives(job: Job, verdict: Verdict, draft: PlanBuilder) -> Alternatives | None:
    """The same options with what would have to change; None where there are none."""
    weighing = _weighing(job, verdict, draft)
    if weighing is None:
        return None
    rows, snapshot = weighing.compared().rows, draft.snapshot
    nearest = [_cheapest_hour(rows, Rank.TOO_DEAR), _dearest_hour(rows, Rank.TOO_SLOW)]
    return Alternatives(
        rows=rows,
        chosen=next(row for row in rows if row.rank is Rank.CHOSEN),
        position=weighing.position,
        known_work=job.remaining is not None,
        changes=tuple([weighing.change(row) for row in nearest if row is not None]),
        left_alone=_left_alone(job, snapshot),
        assumed={} if weighing.share.group.menu.known else _assumed(rows, snapshot),
    )


def _weighing(job: Job, verdict: Verdict, draft: PlanBuilder) -> _Weighing | None:
    share = draft.solution.share(job)
    chosen = job.allocation.option if job.allocation is not None else verdict.option
    return None if share is None or chosen is None else _Weighing(job, chosen, share, draft)


def _assumed(rows: Sequence[Alternative], snapshot: Snapshot) -> Mapping[str, RelativeSpeed]:
    pools = [snapshot.pools.get(row.option.pool) for row in rows]
    types = {pool.offering.gpu_type for pool in pools if pool is not None and pool.offering is not None}
    return relative_speeds(types) if len(types) > 1 else {}


def _left_alone(job: Job, snapshot: Snapshot) -> tuple[LeftAlone, ...]:
    profile = snapshot.profiles.get(job.class_id)
    if profile is None:
        return ()
    found = {
        (failed.gpu_type, failed.gpus): LeftAlone(failed.gpu_type, failed.gpus, until, failed.message)
        for failed, until in quarantines(profile, snapshot.now)
        if job.widths.min <= failed.gpus <= job.widths.max and (not job.gpu_types or failed.gpu_type in job.gpu_types)
    }
    for record in job.records if job.failures else ():
        pool = snapshot.pools.get(record.option.pool)
        if record.outcome is RunOutcome.FAILED and pool is not None and pool.offering is not None:
            width = pool.offering.gpu_type, record.option.gpus
            if untested(profile, frozenset({width})):
                found[width] = LeftAlone(*width, None, record.message)
    return tuple(found[width] for width in sorted(found))


def _cheapest_hour(rows: Sequence[Alternative], rank: Rank) -> Alternative | None:
    return min((row for row in rows if row.rank is rank), key=lambda row: row.per_hour_saved or 0.0, default=None)


def _dearest_hour(rows: Sequence[Alternative], rank: Rank) -> Alternative | None:
    return max((row for row in rows if row.rank is rank), key=lambda row: row.per_hour_saved or 0.0, default=None)


@dataclass(frozen=True, slots=True)
class _OptionPoint:
    option: Option
    seconds: float
    dollars: float
    room_dollars: float

    @property
    def counted(self) -> float:
        return self.dollars + self.room_dollars


class _Weighing:
    """One job's options, each from now to the end, at whatever rate, prices and work left are asked about."""

    def __init__(self, job: Job, chosen: Option, share: GroupAssignment, draft: PlanBuilder) -> None:
        self._job = job
        self._chosen = chosen
        self.share = share
        self.position = share.position(job)
        self._values = draft.solution.own_values(job, share)
        self._draft = draft
        self._snapshot = draft.snapshot
        self._runs = job.allocation is not None
        self._waits = HoleWaits(draft)
        self._waits.find_waits([] if self._runs else [(job, chosen)])

    def compared(self, most: int | None = None) -> ComparedOptions:
        """Every option against the chosen one, or that one and the best of the others; cheapest first."""
        points, worth = self.points(self._values, self.position), self._values.worth
        here = points[key_of(self._chosen)]
        others = [point for point in points.values() if point is not here]
        if most is not None and len(points) > most:
            others = sorted(others, key=lambda point: point.counted + worth * point.seconds)[: most - 1]
        rows = [self.row(point, here, worth) for point in (here, *others)]
        rows.sort(key=lambda row: (row.dollars, row.seconds, row.option.pool, row.option.gpus))
        return ComparedOptions(tuple(rows), len(points))

    def points(self, values: OptionValues, position: JobPosition) -> dict[OptionKey, _OptionPoint]:
        """Seconds and dollars from now to the end on every option, the chosen one included."""
        if not self._runs:
            ways = values.entering(position)
            if all(key_of(way.option) != key_of(self._chosen) for way in ways):  # it was given less than it asks for
                ways = [*ways, to_the_end(self._chosen, values, position)]
            return {key_of(way.option): self._entering(way) for way in ways}
        stay = values.staying(self._chosen, position)
        points = {key_of(stay.option): _OptionPoint(stay.option, stay.seconds, stay.dollars, stay.room_dollars)}
        for option in values.menu.options:
            if key_of(option) not in points:
                rented = self._draft.must_rent(self._job, option)
                move = values.move(self._chosen, option, position, rented=rented)
                seconds, dollars = stay.seconds - move.saved_seconds, stay.dollars + move.cost.dollars
                points[key_of(option)] = _OptionPoint(move.to, seconds, dollars, stay.room_dollars + move.room_dollars)
        return points

    def _entering(self, completion: Completion) -> _OptionPoint:
        """As the queue is served: without what is over of the start-up, and with the wait for nodes that come late."""
        option = completion.option
        over, dollars = self._waits.start_up_over(self._job, option)
        seconds = completion.seconds - over + self._draft.launch_delay(self._job, option)
        return _OptionPoint(option, seconds, completion.dollars - dollars, completion.room_dollars)

    def row(self, point: _OptionPoint, here: _OptionPoint, worth: float) -> Alternative:
        """The option against the chosen one, for which a second is worth ``worth`` dollars."""
        option = point.option
        pool = self._snapshot.pools.get(option.pool)
        gpu_type = "" if pool is None or pool.offering is None else pool.offering.gpu_type
        rank, price = _rank(here.seconds - point.seconds, point.counted - here.counted, worth)
        charge = self.share.values.charge
        chosen = key_of(option) == key_of(self._chosen)
        profile = self._snapshot.profiles.get(self._job.class_id)
        return Alternative(
            option=option,
            seconds=point.seconds,
            dollars=point.dollars,
            room_dollars=point.room_dollars,
            room_price=Price(0) if charge is None else Price.per_second(charge.of(option)),
            basis=basis(profile, gpu_type, option.gpus),
            reports=reports(profile, gpu_type, option.gpus),
            nodes=NodeSource.HERE if chosen and self._runs else self._nodes(point),
            rank=Rank.CHOSEN if chosen else rank,
            per_hour_saved=None if chosen or price is None else price * 3600.0,
            launch_delay=0.0 if self._runs else self._draft.launch_delay(self._job, option),
        )

    def _nodes(self, point: _OptionPoint) -> NodeSource:
        option, left = point.option, max_cost_left(self._job, self._snapshot)
        known = self._job.remaining is not None
        if known and not within_max_cost(self._job, option, point.dollars, left):
            return NodeSource.MAX_COST
        if option.pool not in self._snapshot.pools or option.pool not in self._snapshot.surveys:
            return NodeSource.UNKNOWN
        if self._draft.ready(self._job, option):
            return NodeSource.READY
        if not self._draft.must_rent(self._job, option):
            return NodeSource.BOOTING
        return _REFUSED.get(self._draft.refusal(self._job, option), NodeSource.CLOSED)

    # --- what would have to change ------------------------------------------------------------------------------------

    def change(self, row: Alternative) -> WinningChange:
        """The one change that would make the option of ``row`` win."""
        to, values, position = key_of(row.option), self._values, self.position
        weight = self.share.group.weight

        def loses_by(at: OptionValues, where: JobPosition) -> float:
            points = self.points(at, where)
            here, there = points[key_of(self._chosen)], points[to]
            return there.counted - here.counted + at.worth * (there.seconds - here.seconds)

        def at_price(factor: float) -> float:
            repriced = OptionValues(_repriced(values.menu, row.option.pool, factor), values.worth, values.charge)
            return loses_by(repriced, position)

        def at_work(factor: float) -> float:
            return loses_by(values, JobPosition(position.total * factor, position.done))

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
        return option.pool == self._chosen.pool and not self.share.values.on_menu(self._chosen)


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
