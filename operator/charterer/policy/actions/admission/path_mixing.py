"""The path that each waiting job of a mixing class takes, and the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.policy.actions.admission.queue_order import QueueKey, by_dollars, by_value, next_in_queue
from charterer.policy.budgets.assignment import AssignedPath, GroupAssignment, draw_path
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.jobs.job_facts import last_option
from charterer.policy.options.option_value import OptionValues, Projection
from charterer.policy.solve.phase_dp import OptionKey, key_of


class PathMixer:
    """Which of a mixing class's paths each job takes: by a credit counter, once per job.

    Each turn counts anew from the jobs in sight: a job counts for the path whose first option it has or had.
    Paths with the same first option cannot be told apart that way: among them the job's uid decides.
    """

    def __init__(self, solution: BudgetSolution) -> None:
        self._solution = solution
        self._taken: dict[GroupKey, Counter[OptionKey]] = {}

    def values(self, job: Job, assignment: GroupAssignment) -> OptionValues:
        """The option values of a waiting job; asked once for each new one, in order of creation."""
        if not assignment.mixes:
            return assignment.values
        by_first_option = _by_first_option(assignment)
        if len(by_first_option) == 1:
            return assignment.drawn_values(job)
        before = last_option(job)
        first_option = None if before is None else key_of(before)
        if first_option is None:
            counter = self._counter(job, assignment, by_first_option)
            first_option = next_in_queue(
                {first: sum(assigned.fraction for assigned in paths) for first, paths in by_first_option.items()},
                counter,
            )
            counter[first_option] += 1
        paths = by_first_option.get(first_option)
        return assignment.values if paths is None else draw_path(job, paths).values

    def _counter(
        self, job: Job, assignment: GroupAssignment, by_first_option: Container[OptionKey]
    ) -> Counter[OptionKey]:
        """How many of the job's group took each path by its first option; counted when asked for."""
        key = self._solution.key(job)
        if key not in self._taken:
            alike = [last_option(facts.job) for facts in self._solution.groups[key].members]
            had = [key_of(option) for option in alike if option is not None]
            self._taken[key] = Counter(first for first in had if first in by_first_option)
        return self._taken[key]


def _by_first_option(assignment: GroupAssignment) -> dict[OptionKey, list[AssignedPath]]:
    """The assigned paths by the first option of their paths."""
    by_first_option: dict[OptionKey, list[AssignedPath]] = {}
    for assigned in assignment.assigned_paths:
        by_first_option.setdefault(key_of(assigned.path[0]), []).append(assigned)
    return by_first_option


def ranked_options(jobs: Iterable[Job], solution: BudgetSolution) -> dict[JobId, Sequence[Projection]]:
    """Each waiting job's options, best first; jobs whose menu is empty are left out."""
    mixer = PathMixer(solution)
    found: dict[JobId, Sequence[Projection]] = {}
    for job in jobs:
        assignment = solution.assignment(job)
        if assignment is not None:
            own = solution.deadline_values(job)
            values = mixer.values(job, assignment) if own is None else own
            found[job.id] = values.entering(assignment.position(job))
    return found


def in_order(jobs: Sequence[Job], ranked: Mapping[JobId, Sequence[Projection]], solution: BudgetSolution) -> list[Job]:
    """The queue: jobs with an option, in the order in which they are offered GPUs."""

    def key(job: Job) -> QueueKey:
        best, weight = ranked[job.id][0], solution.queue_weight(job)
        return by_value(job, weight, best.option) if solution.feasible else by_dollars(job, weight, best.dollars)

    return sorted((job for job in jobs if job.id in ranked), key=key)
