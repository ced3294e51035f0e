"""Deadlines (spec.targetCompletionTime): the least worth of a second for which a job's path ends in time.

A target is a wish within the budget. The path for the target may cost more than the path that the job's group is
given anyway. The difference is set aside, and the exchange rate is solved again with the rest of the money. The
difference must be available in the period, and all limits of the budget apply.

A target that is out of reach does not count. Otherwise a job could get priority over all other jobs by asking for a
time that nobody can keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

from charterer.domain.budget import Budget
from charterer.domain.ids import JobId, PoolId, Rate
from charterer.domain.job import Job, ResizePolicy
from charterer.domain.option import Option
from charterer.domain.plan import TargetOutlook
from charterer.domain.reasons.options import TargetFact, TargetKept, TargetMissed, TargetNotPaid, TargetOutOfReach
from charterer.domain.rental import has_machine
from charterer.domain.time import Instant, after, seconds_between
from charterer.policy.budgets.demand import GroupDemand
from charterer.policy.budgets.inputs import PlanInputs
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import GroupKey, job_position
from charterer.policy.nodes.pool_room import launch_waits
from charterer.policy.nodes.rentals import PoolNodes
from charterer.policy.options.menu import Menu
from charterer.policy.options.option_value import JobPosition, OptionValues
from charterer.policy.solve.hull import bisect

MARGIN = 0.1
"""A job enters a path only if it would be in time even if the rest took this fraction longer. Staying on a path needs
no margin. Measured speeds vary by a few percent from one report to the next, and a job must not move back and forth
because of that. If a job's fastest path is late by no more than this fraction, its target still counts."""
_STARTS, _SETBACKS = 4.0, 2.0
"""Numbers of starts and of interruptions for which the reserve has time. On nodes that the cloud may take back, the
reserve replaces the margin. A job that stays on such nodes needs one start less. Several rules were tried on traces
with 15 to 100 % of slack. This rule was within 2 % of the optimum that dynamic programming found. Its result hardly
depends on the two numbers if they are from 1 to 4."""
_LAST_STARTS = 2.0
"""Number of starts for which a job on such nodes keeps time, in addition to a last interruption. With less time left,
it goes to nodes that are not taken back, and stays there to its end."""
ONLY_MONEY, ONLY_TIME = 1e-9, 1e6
"""Worths of a second at which only money, or only time, counts, as multiples of the dearest option's price a
second."""
_HALVINGS = 16
"""Number of halvings of the range between these two worths. The result is exact to 0.1 %."""


@dataclass(frozen=True, slots=True)
class DeadlineNeed:
    """What a job needs to meet its target.

    ``left``: seconds until the target.
    ``worth``: dollars that a second of the job must count as worth at least.
    ``ends``: seconds until its path is expected to end.
    ``extra``: dollars that the path costs beyond the cheapest one.
    ``met``: whether the path ends in time.
    ``fastest``: seconds until the end on the fastest path of all.
    ``spare``: seconds that the job may lose before it needs another path.
    ``may_wait``: whether its cheapest path ends in time even with the reserve, so that the job may wait for its
    nodes.
    ``postpones``: whether the job still puts off the move to nodes that are not taken back.
    """

    job: Job
    left: float
    worth: float
    ends: float
    extra: float
    met: bool
    fastest: float
    spare: float = 0.0
    may_wait: bool = False
    postpones: bool = False

    @property
    def out_of_reach(self) -> bool:
        """Whether even the fastest path ends so late that the target is ignored.

        A job whose target is ignored moves to slower nodes and becomes even later. A job whose target counts goes on
        as fast as it can. So a job near the limit between the two cases moves away from the limit, and does not
        change back and forth.
        """
        return self.fastest > (1.0 + MARGIN) * self.left

    @property
    def at_any_price(self) -> bool:
        """Whether only time counts, because even the fastest path ends too late."""
        return not self.met and self.ends <= self.fastest

    @property
    def outlook(self) -> TargetOutlook:
        """The job's expected end, and whether this end is in time."""
        return TargetOutlook(self.ends, self.fastest, self.met, counts=not self.out_of_reach)

    def fact(self, now: Instant) -> TargetFact:
        """The fact about the target that the job's reason contains."""
        target, end = self.job.target_completion or now, after(now, self.ends)
        if self.met:
            return TargetKept(target)
        if self.ends > self.fastest:
            return TargetNotPaid(target, end)
        return TargetOutOfReach(target, end) if self.out_of_reach else TargetMissed(target, end)


def deadline_needs(
    groups: Iterable[JobGroup],
    demands: Mapping[GroupKey, GroupDemand],
    money: float,
    inputs: PlanInputs,
    nodes: Mapping[PoolId, PoolNodes],
    budget: Budget,
) -> tuple[dict[JobId, DeadlineNeed], dict[JobId, DeadlineNeed]]:
    """The needs of the jobs of a budget whose targets lie ahead, the oldest job first.

    The first mapping has the needs whose targets count, the second the needs whose targets are out of reach.
    ``money``: dollars of the period that are not spent.
    """
    needs: dict[JobId, DeadlineNeed] = {}
    out_of_reach: dict[JobId, DeadlineNeed] = {}
    now = inputs.snapshot.now
    targeted = sorted([facts for group in groups for facts in group.targeted], key=lambda facts: facts.order)
    waits = _launch_waits(inputs, nodes) if targeted else {}
    for facts in targeted:
        job, demand = facts.job, demands.get(facts.key)
        if demand is None:
            continue
        position = job_position(job, demand.work)
        need = deadline_need(job, demand.menu, position, now, max(money, 0.0), waits, moves=budget.moves.unlimited)
        if need is not None and need.out_of_reach:
            out_of_reach[job.id] = need
        elif need is not None:
            needs[job.id] = need
            money -= need.extra
    return needs, out_of_reach


def beyond_given(
    needs: Mapping[JobId, DeadlineNeed],
    demands: Mapping[GroupKey, GroupDemand],
    rate: Rate,
    inputs: PlanInputs,
    nodes: Mapping[PoolId, PoolNodes],
) -> dict[JobId, DeadlineNeed]:
    """The needs, with each ``extra`` reduced to the dollars by which the need's path costs more than the path that
    the job's group is given at ``rate`` anyway."""
    waits = _launch_waits(inputs, nodes) if any(need.extra for need in needs.values()) else {}
    found: dict[JobId, DeadlineNeed] = {}
    for name, need in needs.items():
        group = demands[inputs.facts[name].key]
        worth = group.worth(rate)
        if not need.extra or need.worth <= worth:
            found[name] = replace(need, extra=0.0)
            continue
        paths = _Paths(need.job, group.menu, job_position(need.job, group.work), waits)
        given = paths.end(max(worth, paths.least)).dollars - paths.end(paths.least).dollars
        found[name] = replace(need, extra=max(need.extra - max(given, 0.0), 0.0))
    return found


def _launch_waits(inputs: PlanInputs, nodes: Mapping[PoolId, PoolNodes]) -> Mapping[PoolId, float]:
    """Seconds until each pool gives a node. Pools in which the budget has a free or booting machine are left out."""
    there = {
        name for name, here in nodes.items() if any(map(has_machine, here.rentals.booting)) or any(here.free.values())
    }
    waits = launch_waits(inputs.snapshot, inputs.rentals)
    return {name: wait.seconds for name, wait in waits.items() if name not in there}


def deadline_need(
    job: Job,
    menu: Menu,
    position: JobPosition,
    now: Instant,
    money: float,
    waits: Mapping[PoolId, float],
    *,
    moves: bool = True,
) -> DeadlineNeed | None:
    """What the job needs for its target; None if no target lies ahead, or if the job has no choice of paths.

    ``money``: dollars that the job's path may cost beyond the cheapest path. If no path for that money ends in time,
    the job gets the fastest path for that money.
    ``waits``: seconds until a pool gives a node, for the pools in which the job would have to wait.
    ``moves``: whether its budget moves running jobs at any time.
    """
    left = 0.0 if job.target_completion is None else seconds_between(now, job.target_completion)
    fixed = job.allocation is not None and job.resize is ResizePolicy.NEVER
    if left <= 0.0 or fixed or not menu.known:
        return None
    paths = _Paths(job, menu, position, waits)
    slow, fast = paths.end(paths.least), paths.end(paths.most)
    if slow.within(left) or (
        slow.interrupted and slow.spare(left) >= 0.0 and paths.safe_seconds() + slow.reserve <= left
    ):
        spare = max(slow.spare(left), 0.0) if slow.interrupted else 0.0
        ends = min(slow.seconds, left)
        return DeadlineNeed(
            job, left, paths.least, ends, 0.0, True, fast.seconds, spare, may_wait=True, postpones=slow.interrupted
        )
    late = DeadlineNeed(job, left, paths.least, fast.seconds, 0.0, False, fast.seconds)
    if late.out_of_reach:
        return late
    worth = paths.turn(lambda end: end.within(left))[1] if fast.within(left) else paths.most
    end = paths.end(worth)
    too_dear = end.dollars - slow.dollars > money
    if too_dear:
        worth = paths.turn(lambda end: end.dollars - slow.dollars > money)[0]
        end = paths.end(worth)
    extra = max(end.dollars - slow.dollars, 0.0)
    need = DeadlineNeed(job, left, worth, end.seconds, extra, end.seconds <= left, fast.seconds)
    stays = not moves or job.resize is ResizePolicy.NEVER
    if too_dear or stays or end.interrupted or not slow.interrupted:
        return need
    return _postponed(need, paths, left)


def _postponed(need: DeadlineNeed, paths: _Paths, left: float) -> DeadlineNeed:
    """The need of a job that puts off the move to nodes that are not taken back, as long as it can still end in time
    on them.

    ``need``: the need of the job if it puts nothing off. This need is returned if there is no time to put the move
    off.
    """
    last = paths.end(paths.turn(lambda end: not end.interrupted)[0])
    spare = left - paths.safe_seconds() - last.setback
    if spare < 0.0 or last.wait or not paths.goes_back_for(last.option, spare):
        return need
    worth = paths.turn(lambda end: end.seconds <= last.seconds)[1]
    return replace(need, worth=worth, ends=min(last.seconds, left), met=True, spare=spare, postpones=True)


@dataclass(frozen=True, slots=True)
class _Paths:
    """A job's paths, by the worth of a second of the job in dollars, from ``least`` to ``most``.

    ``waits``: seconds until a pool gives a node, for the pools in which the job would have to wait.
    """

    job: Job
    menu: Menu
    position: JobPosition
    waits: Mapping[PoolId, float]

    @property
    def least(self) -> float:
        """The worth at which only money counts."""
        return ONLY_MONEY * max(self.menu.table.prices)

    @property
    def most(self) -> float:
        """The worth at which only time counts."""
        return ONLY_TIME * max(self.menu.table.prices)

    def end(self, worth: float) -> _End:
        """The end of the path that is best at that worth."""
        return _end(self.job, OptionValues(self.menu, worth), self.position, self.waits)

    def turn(self, enough: Callable[[_End], bool]) -> tuple[float, float]:
        """Two worths that are almost equal. The end at the first worth does not satisfy ``enough``, and the end at
        the second does."""
        return bisect(self.least, self.most, lambda worth: enough(self.end(worth)), _HALVINGS)

    def goes_back_for(self, to: Option, seconds: float) -> bool:
        """Whether a job on nodes that are not taken back saves money by going to ``to`` for ``seconds`` and back.

        The same work costs less on ``to``, and the difference must exceed the cost of both moves.
        """
        if self.job.allocation is None:
            return True
        here = OptionValues(self.menu, self.least).staying(self.job.allocation.option, self.position).option
        if here.interruptions is not None:
            return True
        cost, other = here.price.dollars_per_second, to.price.dollars_per_second
        return (to.speed / here.speed * cost - other) * seconds > cost * here.entry_seconds + other * to.entry_seconds

    def safe_seconds(self) -> float:
        """Seconds to the end on the fastest nodes that are not taken back; infinite if there are none."""
        projections = OptionValues(self.menu, self.most).entering(self.position)
        safe = [projection for projection in projections if projection.option.interruptions is None]
        return min(
            [projection.seconds + self.waits.get(projection.option.pool, 0.0) for projection in safe], default=inf
        )


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a job that takes the best option at some worth of a second.

    ``option``: the option on which the job ends.
    ``seconds``, ``dollars``: the remaining time and cost of the job.
    ``stay``: seconds to its end if it keeps its present option; None if it does not run.
    ``reserve``: seconds by which it should end before its target because the cloud may take its nodes back; 0 on
    other nodes.
    ``setback``: seconds that one more interruption may cost before the job goes to other nodes for good.
    ``wait``: seconds until the pool gives its nodes.
    """

    option: Option
    seconds: float
    dollars: float
    stay: float | None
    reserve: float = 0.0
    setback: float = 0.0
    wait: float = 0.0

    @property
    def interrupted(self) -> bool:
        """Whether the job is on nodes that the cloud may take back."""
        return self.reserve > 0.0

    def spare(self, left: float) -> float:
        """Seconds that the job may still wait for its nodes, or lose, if ``left`` seconds remain until its target."""
        return left - (self.seconds - self.wait) - self.reserve

    def within(self, left: float) -> bool:
        """Whether the job ends within ``left`` seconds. A change of option needs a margin, unless staying is in time
        and the change is faster."""
        if self.stay is not None and self.stay + self.reserve <= left and self.seconds <= self.stay:
            return True
        return self.seconds + (self.reserve or MARGIN * self.seconds) <= left


def _end(job: Job, values: OptionValues, position: JobPosition, waits: Mapping[PoolId, float]) -> _End:
    if job.allocation is None:
        projections = [(projection, waits.get(projection.option.pool, 0.0)) for projection in values.entering(position)]
        best, wait = min(projections, key=lambda entry: entry[0].total_cost + values.worth * entry[1])
        return _End(best.option, best.seconds + wait, best.dollars, None, *_kept_back(best.option, 0.0), wait)
    here = job.allocation.option
    stay = values.staying(here, position)
    # the nodes of a move may have to be rented
    gaining = [(gain, to) for to, gain, boot in values.gains(here, position) if gain > boot]
    if not gaining:
        return _End(stay.option, stay.seconds, stay.dollars, stay.seconds, *_kept_back(stay.option, 1.0))
    _, to = min(gaining, key=lambda each: (-each[0], each[1].pool, each[1].gpus))
    move = values.move(here, to, position, rented=False)
    end = stay.seconds - move.saved_seconds
    return _End(move.to, end, stay.dollars + move.cost.dollars, stay.seconds, *_kept_back(move.to, 0.0))


def _kept_back(option: Option, made: float) -> tuple[float, float]:
    """The ``reserve`` and the ``setback`` of an ``_End`` on the option. ``made``: number of starts that the job no
    longer needs.

    The reserve has time for the starts and for ``_SETBACKS`` interruptions beyond the expected number. An
    interruption costs a start and half the work between two checkpoints. The setback has time for the starts that are
    still needed, and for one interruption that loses all the work between two checkpoints.
    """
    lost = option.interruptions
    if lost is None:
        return 0.0, 0.0
    entry = option.entry_seconds
    reserve = (_STARTS - made) * entry + _SETBACKS * (entry + lost.interval / 2.0)
    return reserve, (_LAST_STARTS - made) * entry + entry + lost.interval
