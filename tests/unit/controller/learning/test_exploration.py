"""A class never seen, from its first report until nothing more is worth trying: planner and learner together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from charterer.domain.ids import JobId, Rate
from charterer.domain.plan import Allocate
from charterer.policy.planner import plan
from tests.unit.controller.learning.classroom import Classroom, step_seconds

WHOLE_STEPS = 2_000_000.0
"""Of 256 samples: ten days on eight GPUs."""


@dataclass
class Course:
    """One job runs; every so many seconds it reports, what was learned is read, and the planner acts."""

    percent: int
    room: Classroom = field(default_factory=Classroom)
    ran: list[tuple[int, bool]] = field(default_factory=list)
    steps: float = 0.0

    def __post_init__(self) -> None:
        (budget,) = self.room.world.budgets.values()
        rate = Rate(400.0 / 3600.0)  # enough for wide runs
        self.room.world.budgets[budget.id] = replace(budget, exploration_percent=self.percent, fixed_rate=rate)
        self.job = self.room.runs(hours_left=None)

    def passes(self, times: int) -> None:
        world = self.room.world
        for _ in range(times):
            self.turn(world.jobs[self.job].id)

    def turn(self, job: JobId) -> None:
        world = self.room.world
        here = world.jobs[job].allocation
        assert here is not None
        self.room.says(job, times=3, done=min(self.steps / WHOLE_STEPS, 1.0))
        world.passes(270.0)
        self.steps += 300.0 / step_seconds(here.option.gpus)
        left = (WHOLE_STEPS - self.steps) * step_seconds(8)
        self.room.learn()
        world.jobs[job] = replace(world.jobs[job], remaining=max(left, 1.0))
        decided = plan(world.snapshot())
        for _ in range(3):
            self.ran += [
                (command.allocation.option.gpus, command.allocation.option.trial)
                for command in decided.commands
                if isinstance(command, Allocate) and command.allocation is not None
            ]
            world.carry_out(decided)
            world.everything_starts()
            decided = plan(world.snapshot())


def test_a_class_is_tried_step_by_step_and_then_left_alone() -> None:
    course = Course(percent=5)
    course.passes(60)
    tried = [gpus for gpus, trial in course.ran if trial]
    assert tried
    assert len(tried) == len(set(tried)), "no width is tried twice"
    reached = 8
    for gpus in tried:
        assert gpus <= 2 * reached
        reached = max(reached, gpus)
    before = list(course.ran)
    course.passes(30)
    assert course.ran == before, "once it is known the job stays where it is best"


def test_without_money_for_trials_only_the_plan_moves_it() -> None:
    course = Course(percent=0)
    course.passes(40)
    assert not [gpus for gpus, trial in course.ran if trial]
