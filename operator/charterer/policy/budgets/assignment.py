"""The paths that the jobs of a group are given at an exchange rate; a group whose corners tie there mixes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from charterer.domain.ids import Rate
from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.incremental import Remember
from charterer.policy.budgets.cost_calibration import CostCalibration
from charterer.policy.budgets.demand import GroupDemand
from charterer.policy.budgets.spend_forecast import JobStream
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.jobs.job_facts import job_position
from charterer.policy.options.option_value import JobPosition, OptionValues
from charterer.policy.solve.exchange_rate import Solution
from charterer.policy.solve.hull import Hull, Path
from charterer.policy.solve.phase_dp import key_of

_NUDGE = 1e-6
"""Fraction by which a second's worth is moved off a tie of two corners, so that jobs choose the one given to them."""


@dataclass(frozen=True, slots=True)
class AssignedPath:
    """A path that ``fraction`` of a group's jobs take. ``seconds`` and ``dollars``: of a new job on it.

    ``values``: the menu's values at θ*, as those jobs see it.
    """

    path: Path
    fraction: float
    seconds: float
    dollars: float
    values: OptionValues


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """The paths that a group is given: one of ``assigned_paths``, the cheapest first; more than one where it mixes."""

    group: GroupDemand
    assigned_paths: tuple[AssignedPath, ...]

    @property
    def mixes(self) -> bool:
        """Whether its jobs are given several paths."""
        return len(self.assigned_paths) > 1

    @property
    def cheapest(self) -> AssignedPath:
        """The cheapest of its paths."""
        return self.assigned_paths[0]

    @property
    def values(self) -> OptionValues:
        """The menu's values as jobs on the cheapest path see it."""
        return self.cheapest.values

    @property
    def mean_seconds(self) -> float:
        """Mean seconds of a new job over all its paths."""
        return sum(assigned.fraction * assigned.seconds for assigned in self.assigned_paths)

    @property
    def mean_dollars(self) -> float:
        """Mean dollars of a new job over all its paths."""
        return sum(assigned.fraction * assigned.dollars for assigned in self.assigned_paths)

    @property
    def arrivals(self) -> float:
        """Jobs a second to come."""
        return self.group.arrivals

    @property
    def spend(self) -> float:
        """Dollars a second over the budget's horizon, if all its jobs take the cheapest path."""
        return self.group.spend(self.cheapest.seconds, self.cheapest.dollars, kappa=1.0, overhead=1.0)

    def to_come(self, seconds: float) -> float:
        """Dollars that the jobs that come within that time will cost within it; those of the last hours end later."""
        if self.cheapest.seconds <= seconds:
            return self.arrivals * self.cheapest.dollars * (seconds - self.cheapest.seconds / 2.0)
        return self.arrivals * self.cheapest.dollars * seconds**2 / 2.0 / self.cheapest.seconds

    def in_the_long_run(self) -> GroupAssignment:
        """The same paths of the jobs to come, for ever."""
        return replace(self, group=self.group.in_the_long_run())

    def position(self, job: Job) -> JobPosition:
        """The job's position by what it reported; at its class's mean size where it reports nothing."""
        return job_position(job, self.group.work)

    def drawn_values(self, job: Job) -> OptionValues:
        """The values for a job whose path does not show which it took: drawn by its id, always the same."""
        return draw_path(job, self.assigned_paths).values if self.mixes else self.values

    def mixes_both(self, one: Option, other: Option) -> bool:
        """Whether the class is mixed of jobs on the one and jobs on the other for life: both are as good for each."""
        alone = {key_of(each.path[0]) for each in self.assigned_paths if len(each.path) == 1}
        return {key_of(one), key_of(other)} <= alone

    def job_stream(self, key: GroupKey, calibration: CostCalibration) -> JobStream:
        """The group's jobs to come."""
        factor, group = calibration.of(key[0]), self.group
        return JobStream(
            arrivals=group.arrivals,
            dollars=self.cheapest.dollars * calibration.factor(key[0]),
            seconds=self.cheapest.seconds * factor.value,
            squared_cv=factor.squared_cv,
            counted=group.counted,
            cost_factor_error=factor.error,
        )


def draw_path(job: Job, assigned_paths: Sequence[AssignedPath]) -> AssignedPath:
    """One of the paths by the job's id, always the same: each as often as its fraction of all says."""
    draw = crc32(job.id.encode()) / 2**32 * sum(assigned.fraction for assigned in assigned_paths)
    for assigned in reversed(assigned_paths[1:]):
        if draw < assigned.fraction:
            return assigned
        draw -= assigned.fraction
    return assigned_paths[0]


def assign(group: GroupDemand, solution: Solution, number: int, remember: Remember) -> GroupAssignment:
    """The solution's paths for the group, which is its class ``number``."""
    level, hull, worth = solution.levels[number], group.hull, group.worth(solution.rate)
    fractions = [1.0 - solution.mix, solution.mix] if number == solution.mixed else [1.0]
    return GroupAssignment(
        group,
        tuple(
            AssignedPath(
                hull.paths[corner],
                fraction,
                hull.seconds[corner],
                hull.money[corner],
                remember(OptionValues, group.menu, _off_the_tie(hull, corner, worth)),
            )
            for corner, fraction in enumerate(fractions, level)
        ),
    )


def assign_at_rate(group: GroupDemand, rate: Rate, remember: Remember) -> GroupAssignment:
    """The group's paths at an exchange rate, whatever they cost; that needs no hull."""
    values = remember(OptionValues, group.menu, group.worth(rate))
    best, path = values.newcomer(group.work)
    return GroupAssignment(group, (AssignedPath(path, 1.0, best.seconds, best.dollars, values),))


def _off_the_tie(hull: Hull, level: int, worth: float) -> float:
    """A worth of a second, next to ``worth``, at which the corner ``level`` is better than its neighbours."""
    least = hull.slopes[level - 1] * (1.0 + _NUDGE) if level else 0.0
    most = hull.slopes[level] * (1.0 - _NUDGE) if level < len(hull.slopes) else worth
    return (least + most) / 2 if least > most else min(max(worth, least), most)
