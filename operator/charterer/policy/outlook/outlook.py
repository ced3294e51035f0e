"""What each option means for one job now: how long and how dear it is with the nodes that there are, where those come
from, and in which order a waiting job asks for its options.

``option_value`` counts a whole start-up for every option of a new run. Here what is over of it is taken off, and the
waits are added for nodes that a cloud gives late. The queue, full pools and ``explain`` ask here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.nodes.max_cost import max_cost_left, within_max_cost
from charterer.policy.nodes.node_fit import snuggest_first
from charterer.policy.options.option_value import Completion
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

    def with_launch_delay(self, job: Job, way: Completion, worth: float) -> Completion:
        """The completion with the wait for nodes that the cloud gives late, which costs time only."""
        wait = self._placer.launch_delay(job, way.option)
        return replace(way, seconds=way.seconds + wait, total_cost=way.total_cost + worth * wait) if wait else way

    def without_start_up_over(self, job: Job, way: Completion, worth: float) -> Completion:
        """The completion without what is over of its start-up, where all nodes are ready or boot.

        So a job waits for the last of its nodes while that costs less than to begin without it, and the machine is not
        wasted. If another job is about to leave a whole node, the wait for it counts instead of a start-up.
        """
        seconds, dollars = self.waits.start_up_over(job, way.option, alone=self._alone)
        if not seconds and not dollars:
            return way
        total = way.total_cost - (worth * seconds + dollars)
        return replace(way, seconds=way.seconds - seconds, dollars=way.dollars - dollars, total_cost=total)

    def entering(self, job: Job, way: Completion, worth: float) -> Completion:
        """A new run's completion as the queue counts it. ``worth``: dollars of a second of the job."""
        return self.without_start_up_over(job, self.with_launch_delay(job, way, worth), worth)

    def node_source(self, job: Job, way: Completion) -> NodeSource:
        """Where its nodes would come from, or why they cannot be had now."""
        option = way.option
        left = max_cost_left(job, self._snapshot)
        if job.remaining is not None and not within_max_cost(job, option, way.dollars, left):
            return NodeSource.MAX_COST
        if option.pool not in self._snapshot.pools or option.pool not in self._snapshot.surveys:
            return NodeSource.UNKNOWN
        if self._placer.ready(job, option):
            return NodeSource.READY
        if not self._placer.must_rent(job, option):
            return NodeSource.BOOTING
        return REFUSED.get(self._placer.refusal(job, option), NodeSource.CLOSED)

    # --- the options of a job that waits ------------------------------------------------------------------------------

    def with_launch_delays(self, job: Job, ways: Sequence[Completion]) -> Sequence[Completion]:
        """The completions with the waits for nodes that the cloud gives late, best first."""
        share = self._solution.share(job)
        if share is None or not self._placer.waits_for_launches:
            return ways
        worth = self._solution.worth(job, share)
        return sorted(
            [self.with_launch_delay(job, way, worth) for way in ways], key=lambda completion: completion.total_cost
        )

    def in_order(self, job: Job, ways: Sequence[Completion], share: GroupAssignment) -> Sequence[Option]:
        """The options, best first, now that some could begin at once and others wait for nodes to start up.

        A job of a class that mixes takes the path given to it, or the mix would not be met; unless that needs a node
        which the cloud is not expected to give soon.
        """
        worth, least = self._solution.worth(job, share), inf
        delayed = self.with_launch_delays(job, ways)
        start_up = self._placer.start_up
        dearest = [(worth + way.option.price.dollars_per_second) * start_up(way.option) for way in delayed]
        most = max(dearest)
        if share.mixes or not most:
            return [way.option for way in delayed]
        ranked: list[tuple[float, int, Option]] = []
        for rank, way in enumerate(delayed):
            if way.total_cost - most >= least:
                break
            total = way.total_cost
            if total - dearest[rank] < least:
                total = self.without_start_up_over(job, way, worth).total_cost
            least = min(least, total)
            ranked.append((total, rank, way.option))
        first = [option for _, _, option in sorted(ranked, key=lambda entry: entry[:2])]
        return [*first, *(way.option for way in delayed[len(first) :])]

    def best_fit_first(self, job: Job, options: Sequence[Option]) -> Sequence[Option]:
        """The options, best first; where the best would have a node to itself, that of the pool which it fits best.

        The rest of that node would stay idle. A node that fits better and comes later, because it must start up or its
        cloud gives none soon, is waited for where that costs less than the rest until the job ends.
        """
        if snuggest_first(options, self._solution.inputs.market) is options:
            return options
        first, share = options[0], self._solution.share(job)
        if share is None:
            return options
        worth = self._solution.worth(job, share)
        unused = self._placer.idle_beside(job, first) * first.price.dollars_per_second / first.gpus
        idle, least = unused * share.position(job).left / first.speed, self._to_come(job, first, worth)

        def in_time(option: Option) -> bool:
            later = self._to_come(job, option, worth) - least
            return later <= 0.0 or later < idle

        there = snuggest_first([first, *filter(in_time, options[1:])], self._solution.inputs.market)[0]
        return [there, *(option for option in options if option is not there)]

    def find_waits(self, queue: Iterable[tuple[Job, Sequence[Completion]]]) -> None:
        """Find which jobs of the queue wait for GPUs that others leave, each for the option that it would ask for."""
        self.waits.find_waits([(job, self.best_fit_first(job, [way.option for way in ways])[0]) for job, ways in queue])

    def may_wait(self, job: Job, option: Option) -> bool:
        """Whether the job waits for a pool that cools: enough is known of its hours, or the job has time to lose."""
        need = self._solution.deadline_needs.get(job.id)
        return self._placer.wait_is_measured(job, option) or (need is not None and need.may_wait)

    def awaits_launch(self, job: Job, ways: Sequence[Completion]) -> bool:
        """Whether it is best for the job to wait for a pool that was just refused, as far as that wait is measured.

        Such a job lacks no room: it is not among those that share out what there is.
        """
        share = self._solution.share(job)
        if not self._placer.waits_for_launches or share is None:
            return False
        best = self.in_order(job, ways, share)[0]
        cooling = self._snapshot.pools[best.pool].cooling(self._snapshot.now)
        return cooling is not None and self._placer.wait_is_measured(job, best)

    def _to_come(self, job: Job, option: Option, worth: float) -> float:
        """Dollars, time included, until all nodes of the option are ready. ``worth``: dollars of a second."""
        seconds, dollars = self._placer.start_up_left(job, option)
        return worth * (self._placer.launch_delay(job, option) + seconds) + dollars
