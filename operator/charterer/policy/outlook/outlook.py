"""What each option means for one job now: how long and how dear it is with the nodes that there are, where those come
from, and in which order a waiting job asks for its options.

``option_value`` counts a whole start-up for every option of a new run. Here what is over of it is taken off, and the
waits are added for nodes that a cloud gives late. The queue, full pools and ``explain`` ask here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.domain.nodes.demands import preference
from charterer.domain.option import Option
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.nodes.max_cost import max_cost_left, within_max_cost
from charterer.policy.nodes.node_fit import best_fit_first
from charterer.policy.options.option_value import Projection
from charterer.policy.outlook.fragment_waits import FragmentWaits
from charterer.policy.outlook.node_source import REFUSED, NodeSource
from charterer.policy.outlook.placer import Placer


class Outlook:
    """One budget's jobs, as the plan has left the nodes when it is asked. Asking changes nothing."""

    def __init__(self, solution: BudgetSolution, placer: Placer) -> None:
        self.waits = FragmentWaits(solution, placer)
        self._solution = solution
        self._placer = placer
        self._snapshot = solution.inputs.snapshot
        self._alone = sum([len(group.waiting) for group in solution.groups.values()]) <= 1

    # --- one option ---------------------------------------------------------------------------------------------------

    def with_launch_delay(self, job: Job, projection: Projection, worth: float) -> Projection:
        """The projection with the wait for nodes that the cloud gives late, which costs time only."""
        wait = self._placer.launch_delay(job, projection.option)
        return (
            replace(projection, seconds=projection.seconds + wait, total_cost=projection.total_cost + worth * wait)
            if wait
            else projection
        )

    def without_start_up_over(self, job: Job, projection: Projection, worth: float) -> Projection:
        """The projection without what is over of its start-up, where all nodes are ready or boot.

        So a job waits for the last of its nodes while that costs less than to begin without it, and the machine is not
        wasted. If another job is about to leave a whole node, the wait for it counts instead of a start-up.
        """
        seconds, dollars = self.waits.start_up_over(job, projection.option, alone=self._alone)
        if not seconds and not dollars:
            return projection
        total = projection.total_cost - (worth * seconds + dollars)
        return replace(
            projection, seconds=projection.seconds - seconds, dollars=projection.dollars - dollars, total_cost=total
        )

    def entering(self, job: Job, projection: Projection, worth: float) -> Projection:
        """A new run's projection as the queue counts it. ``worth``: dollars of a second of the job."""
        return self.without_start_up_over(job, self.with_launch_delay(job, projection, worth), worth)

    def node_source(self, job: Job, projection: Projection) -> NodeSource:
        """Where its nodes would come from, or why they cannot be had now."""
        option = projection.option
        left = max_cost_left(job, self._snapshot)
        if self._solution.sized(job) and not within_max_cost(job, option, projection.paid_dollars, left):
            return NodeSource.MAX_COST
        if option.pool not in self._snapshot.pools or option.pool not in self._snapshot.surveys:
            return NodeSource.UNKNOWN
        if self._placer.ready(job, option):
            return NodeSource.READY
        if not self._placer.must_rent(job, option):
            return NodeSource.BOOTING
        return REFUSED.get(self._placer.refusal(job, option), NodeSource.CLOSED)

    # --- the options of a job that waits ------------------------------------------------------------------------------

    def with_launch_delays(self, job: Job, projections: Sequence[Projection]) -> Sequence[Projection]:
        """The projections with the waits for nodes that the cloud gives late, best first."""
        assignment = self._solution.assignment(job)
        if assignment is None or not self._placer.waits_for_launches:
            return projections
        worth = self._solution.worth(job, assignment)
        return sorted(
            [self.with_launch_delay(job, projection, worth) for projection in projections],
            key=lambda projection: projection.total_cost,
        )

    def in_order(self, job: Job, projections: Sequence[Projection], assignment: GroupAssignment) -> Sequence[Option]:
        """The options, best first, now that some could begin at once and others wait for nodes to start up.

        A job of a class that mixes takes the path given to it, or the mix would not be met; unless that needs a node
        which the cloud is not expected to give soon.
        """
        worth, least = self._solution.worth(job, assignment), inf
        delayed = self.with_launch_delays(job, projections)
        start_up = self._placer.start_up
        dearest = [
            (worth + projection.option.price.dollars_per_second) * start_up(projection.option) for projection in delayed
        ]
        most = max(dearest)
        if assignment.mixes or not most:
            return [projection.option for projection in delayed]
        ranked: list[tuple[float, int, Option]] = []
        for rank, projection in enumerate(delayed):
            if projection.total_cost - most >= least:
                break
            total = projection.total_cost
            if total - dearest[rank] < least:
                total = self.without_start_up_over(job, projection, worth).total_cost
            least = min(least, total)
            ranked.append((total, rank, projection.option))
        first = [option for _, _, option in sorted(ranked, key=lambda entry: entry[:2])]
        return [*first, *(projection.option for projection in delayed[len(first) :])]

    def best_fit_first(self, job: Job, options: Sequence[Option]) -> Sequence[Option]:
        """The options, best first; where the best would have a node to itself, that of the pool which it fits best.

        The rest of that node would stay idle. A node that fits better and comes later, because it must start up or its
        cloud gives none soon, is waited for where that costs less than the rest until the job ends.
        """
        options = self._preferred_first(job, options)
        if best_fit_first(options, self._solution.inputs.market) is options:
            return options
        first, assignment = options[0], self._solution.assignment(job)
        if assignment is None:
            return options
        worth = self._solution.worth(job, assignment)
        unused = self._placer.idle_beside(job, first) * first.price.dollars_per_second / first.takes
        idle, least = unused * assignment.position(job).left / first.speed, self._to_come(job, first, worth)

        def in_time(option: Option) -> bool:
            later = self._to_come(job, option, worth) - least
            return later <= 0.0 or later < idle

        there = best_fit_first([first, *filter(in_time, options[1:])], self._solution.inputs.market)[0]
        return [there, *(option for option in options if option is not there)]

    def _preferred_first(self, job: Job, options: Sequence[Option]) -> Sequence[Option]:
        """The options, with the one in front that the template prefers (preferred node affinity) of those like it."""
        if not job.demands.preferred:
            return options
        first, nodes = options[0], self._solution.inputs.offers.nodes
        alike = [
            option
            for option in options
            if (option.gpus, option.price, option.speed) == (first.gpus, first.price, first.speed)
        ]
        best = max(alike, key=lambda option: preference(job.demands, nodes[option.pool]))
        return options if best is first else [best, *(option for option in options if option is not best)]

    def find_waits(self, queue: Iterable[tuple[Job, Sequence[Projection]]], preferred: Mapping[JobId, Option]) -> None:
        """Find which jobs of the queue wait for GPUs that others leave, each for the option that it would ask for.

        ``preferred``: of those that ask for another one than the best at its part of a node.
        """
        self.waits.find_waits(
            [
                (
                    job,
                    preferred.get(job.id)
                    or self.best_fit_first(job, [projection.option for projection in projections])[0],
                )
                for job, projections in queue
            ]
        )

    def may_wait(self, job: Job, option: Option) -> bool:
        """Whether the job waits for a pool that cools: enough is known of its hours, or the job has time to lose."""
        need = self._solution.deadline_needs.get(job.id)
        return self._placer.wait_is_measured(job, option) or (need is not None and need.may_wait)

    def awaits_launch(self, job: Job, projections: Sequence[Projection]) -> bool:
        """Whether it is best for the job to wait for a pool that was just refused, as far as that wait is measured.

        Such a job lacks no room: it is not among those that are allotted what there is.
        """
        assignment = self._solution.assignment(job)
        if not self._placer.waits_for_launches or assignment is None:
            return False
        best = self.in_order(job, projections, assignment)[0]
        cooling = self._snapshot.pools[best.pool].cooling(self._snapshot.now)
        return cooling is not None and self._placer.wait_is_measured(job, best)

    def _to_come(self, job: Job, option: Option, worth: float) -> float:
        """Dollars, time included, until all nodes of the option are ready. ``worth``: dollars of a second."""
        seconds, dollars = self._placer.start_up_left(job, option)
        return worth * (self._placer.launch_delay(job, option) + seconds) + dollars
