"""Whatever happens to a world, no job is restarted for money before it has shown that it saves, nor soon after the last
such move."""

from __future__ import annotations

from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from charterer.domain.job import Job
from charterer.domain.plan import Allocate, Plan, ReasonCode
from charterer.domain.profile import PowerLaw
from charterer.domain.time import seconds_between
from charterer.policy import plan
from charterer.policy.outlook.move_gate import SPACING
from tests import lanes
from tests.random_events import EVENTS, some_world
from tests.worlds import World

FOR_MONEY = (ReasonCode.MOVE_PAYS, ReasonCode.MAKES_ROOM, ReasonCode.NODE_EMPTIED, ReasonCode.SLOW_NODE)


def restarted(world: World, decided: Plan) -> list[Job]:
    """The jobs that the plan restarts for money."""
    return [
        job
        for command in decided.commands
        if isinstance(command, Allocate) and command.allocation is not None and command.reason.code in FOR_MONEY
        if (job := world.jobs[command.job]).allocation is not None
        if job.allocation.run != command.allocation.run
    ]


@given(st.integers(0, 2**32))
@example(3)
@example(22)
@settings(max_examples=lanes.examples(50), deadline=None)
def test_moves_for_money_are_of_jobs_that_save_and_ten_times_their_cost_apart(seed: int) -> None:
    draw = Random(seed)
    world = some_world(draw)
    world.profile("rl", PowerLaw(0.8, 1.0), arrivals_per_hour=0.5, work_hours=4, checkpoint_seconds=None)
    for _ in range(10):
        draw.choice(EVENTS)(world, draw)
        decided = plan(world.snapshot())
        for job in restarted(world, decided):
            profile = world.profiles.get(job.class_id)
            known = profile is not None and profile.checkpoint_seconds is not None
            assert known or (job.progress is not None and job.progress.moves)
            if job.moves:
                restart = 30.0 if profile is None else profile.restart_seconds
                apart = seconds_between(max(job.moves), world.now)
                assert apart >= SPACING * restart
        world.carry_out(decided)
        world.everything_starts()
        world.passes(draw.choice([1.0, 60.0, 300.0, 700.0, 20_000.0]))
