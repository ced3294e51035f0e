"""The path that each waiting job of a mixing class takes, and the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.policy.actions.admission.queue_order import QueueKey, by_dollars, by_value, next_in_queue
from charterer.policy.budgets.assignment import GroupAssignment, PathShare, draw_path_share
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.jobs.job_facts import last_option
from charterer.policy.options.option_value import Completion, OptionValues
from charterer.policy.solve.phase_dp import OptionKey, key_of


class PathMixer:
    """Which of a mixing class's paths each job takes: by a credit counter, once per job.

    Each turn counts anew from the jobs in sight: a job counts for the path whose first option it has or had.
    Paths with the same first option cannot be told apart that way: among them the job's uid decides.
    """

    def __init__(self, solution: BudgetSolution) -> None:
        self._solution = solution
        self._taken: dict[GroupKey, Counter[OptionKey]] = {}

    def values(self, job: Job, share: GroupAssignment) -> OptionValues:
        """The option values of a waiting job; asked once for each new one, in order of creation."""
        if not share.mixes:
            return share.values
        doors = _by_first_option(share)
        if len(doors) == 1:
            return share.drawn_values(job)
        before = last_option(job)
        door = None if before is None else key_of(before)
        if door is None:
            counter = self._counter(job, share, doors)
            door = next_in_queue(
                {first: sum(path_share.fraction for path_share in lots) for first, lots in doors.items()}, counter
            )
            counter[door] += 1
        lots = doors.get(door)
        return share.values if lots is None else draw_path_share(job, lots).values

    def _counter(self, job: Job, share: GroupAssignment, doors: Container[OptionKey]) -> Counter[OptionKey]:
        """How many of the job's group took each path by its first option; counted when asked for."""
        key = self._solution.key(job)
        if key not in self._taken:
            alike = [last_option(facts.job) for facts in self._solution.groups[key].members]
            had = [key_of(option) for option in alike if option is not None]
            self._taken[key] = Counter(first for first in had if first in doors)
        return self._taken[key]


def _by_first_option(share: GroupAssignment) -> dict[OptionKey, list[PathShare]]:
    """The path shares by the first option of their paths."""
    doors: dict[OptionKey, list[PathShare]] = {}
    for path_share in share.path_shares:
        doors.setdefault(key_of(path_share.path[0]), []).append(path_share)
    return doors


def ranked_options(jobs: Iterable[Job], solution: BudgetSolution) -> dict[JobId, Sequence[Completion]]:
    """Each waiting job's options, best first; jobs whose menu is empty are left out."""
    lots = PathMixer(solution)
    found: dict[JobId, Sequence[Completion]] = {}
    for job in jobs:
        share = solution.share(job)
        if share is not None:
            own = solution.deadline_values(job)
            ways = lots.values(job, share) if own is None else own
            found[job.id] = ways.entering(share.position(job))
    return found


def in_order(jobs: Sequence[Job], wanted: Mapping[JobId, Sequence[Completion]], solution: BudgetSolution) -> list[Job]:
    """The queue: jobs with an option, in the order in which they are offered GPUs."""

    def key(job: Job) -> QueueKey:
        best = wanted[job.id][0]
        weight = solution.queue_weight(job)
        return by_value(job, weight, best.option) if solution.feasible else by_dollars(job, weight, best.dollars)

    return sorted((job for job in jobs if job.id in wanted), key=key)
