"""In which order a waiting job asks for its options, given the nodes that are there, and how late others come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from charterer.domain.job import Job, ResizePolicy
from charterer.domain.option import Option
from charterer.policy.actions.admission.hole_waits import HoleWaits
from charterer.policy.actions.plan_builder import PlanBuilder
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.nodes.node_fit import snuggest_first
from charterer.policy.options.option_value import Completion
from charterer.policy.solve.phase_dp import key_of


class OptionOrder:
    """The order for each job, as the plan has left the nodes when it is asked."""

    def __init__(self, draft: PlanBuilder, waits: HoleWaits) -> None:
        self._draft = draft
        self._solution = draft.solution
        self._waits = waits

    def by_availability(self, job: Job, outcomes: Sequence[Completion], share: GroupAssignment) -> Sequence[Option]:
        """The options, best first, now that some could begin at once and others wait for nodes to start up.

        An outcome counts a whole start-up: where all nodes are ready or boot, what is over of it is taken off. So a job
        waits for the last of its nodes while that costs less than to begin without it, and the machine is not wasted.
        So it is if another job is about to leave a whole node: the wait for it counts instead of a start-up.
        A job of a class that mixes takes the path given to it, or the mix would not be met; unless that needs a node
        which the cloud is not expected to give soon.
        """
        worth, least = self._solution.worth(job, share), inf
        totals = [(outcome.total_cost, outcome.option) for outcome in self.with_waits(job, outcomes)]
        start_up = self._draft.start_up
        dearest = [(worth + option.price.dollars_per_second) * start_up(option) for _, option in totals]
        most = max(dearest)
        if share.mixes or not most:
            return [option for _, option in totals]
        ranked: list[tuple[float, int, Option]] = []
        for rank, (total, option) in enumerate(totals):
            if total - most >= least:
                break
            if total - dearest[rank] < least:
                seconds, dollars = self._waits.start_up_over(job, option)
                total -= worth * seconds + dollars
            least = min(least, total)
            ranked.append((total, rank, option))
        first = [option for _, _, option in sorted(ranked, key=lambda entry: entry[:2])]
        return [*first, *(option for _, option in totals[len(first) :])]

    def with_waits(self, job: Job, outcomes: Sequence[Completion]) -> Sequence[Completion]:
        """The outcomes with the waits for nodes that the cloud gives late, best first. A late node costs time only."""
        share = self._solution.share(job)
        if share is None or not self._draft.waits_for_launches:
            return outcomes
        worth, found = self._solution.worth(job, share), []
        for outcome in outcomes:
            wait = self._draft.launch_delay(job, outcome.option)
            found.append(replace(outcome, seconds=outcome.seconds + wait, total_cost=outcome.total_cost + worth * wait))
        return sorted(found, key=lambda outcome: outcome.total_cost)

    def as_moved(self, job: Job, here: Option, outcomes: Sequence[Completion]) -> Option | None:
        """The option to which the next plan would move the job, did it begin now on ``here``; None if it would stay.

        A move to ready nodes counts no start-up, and a start does, because who takes GPUs lets another job rent some.
        So this is for when the queue has been served. A node that is about to be left is as good as a ready one, but
        for the wait for it.
        """
        share = self._solution.share(job)
        if share is None or share.mixes or job.resize is ResizePolicy.NEVER:
            return None
        values, wanted = self._solution.own_values(job, share), {key_of(outcome.option) for outcome in outcomes}
        if values.is_trial(here):
            return None
        best: Option | None = None
        most = -inf
        for option, gain, _ in values.gains(here, share.position(job)):
            if key_of(option) in wanted:
                wait = 0.0 if self._draft.ready(job, option) else self._waits.until_moved(job, here, option)
                if gain - values.worth * wait > most:
                    best, most = option, gain - values.worth * wait
        return best

    def snuggest(self, job: Job, options: Sequence[Option]) -> Sequence[Option]:
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
        unused = self._draft.idle_beside(job, first) * first.price.dollars_per_second / first.gpus
        idle, least = unused * share.position(job).left / first.speed, self._to_come(job, first, worth)

        def in_time(option: Option) -> bool:
            later = self._to_come(job, option, worth) - least
            return later <= 0.0 or later < idle

        there = snuggest_first([first, *filter(in_time, options[1:])], self._solution.inputs.market)[0]
        return [there, *(option for option in options if option is not there)]

    def _to_come(self, job: Job, option: Option, worth: float) -> float:
        """Dollars, time included, until all nodes of the option are ready. ``worth``: dollars of a second."""
        seconds, dollars = self._draft.start_up_left(job, option)
        return worth * (self._draft.launch_delay(job, option) + seconds) + dollars

    def may_wait(self, job: Job, option: Option) -> bool:
        """Whether the job waits for a pool that cools: enough is known of its hours, or the job has time to lose."""
        need = self._solution.deadline_needs.get(job.id)
        return self._draft.wait_is_measured(job, option) or (need is not None and need.may_wait)

    def awaits_launch(self, job: Job, outcomes: Sequence[Completion]) -> bool:
        """Whether it is best for the job to wait for a pool that was just refused, as far as that wait is measured.

        Such a job lacks no room: it is not among those that share out what there is.
        """
        share = self._solution.share(job)
        if not self._draft.waits_for_launches or share is None:
            return False
        best = self.by_availability(job, outcomes, share)[0]
        cooling = self._draft.snapshot.pools[best.pool].cooling(self._draft.snapshot.now)
        return cooling is not None and self._draft.wait_is_measured(job, best)
