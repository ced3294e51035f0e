"""When the loop turns, how long it leaves an object alone whose mutation failed, and what it does meanwhile."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from charterer.cluster.errors import OutcomeUnknown, TooManyRequests, Unreachable
from charterer.controller.loop import Loop, LoopTiming
from charterer.controller.outcome import ActionOutcome
from charterer.domain.ids import BudgetId, ClassId, PoolId, StepKey, StepKind
from charterer.domain.plan import Command, Plan, Rent
from charterer.domain.profile import PowerLaw, SpeedCurve
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import Cordon, Step
from charterer.domain.time import Instant, after
from charterer.incremental import Memo
from charterer.policy.budgets.solution import BudgetSolution
from tests.virtual_time import advance, clock, run_for, run_in_virtual_time
from tests.worlds import NAMESPACE, World

Attempt = Callable[[Command | Step], ActionOutcome]


class Recorder:
    """An executor that does as it is told, and the observer; each with the times at which it was called."""

    def __init__(self, attempt: Attempt, seconds: float = 0.0) -> None:
        self.attempt = attempt
        self.seconds = seconds
        self.attempts: list[tuple[float, Command | Step]] = []
        self.plans: list[float] = []
        self.outcomes: list[tuple[ActionOutcome, str]] = []
        self.failed_turns: list[bool] = []

    async def execute(self, action: Command | Step) -> ActionOutcome:
        self.attempts.append((clock(), action))
        await asyncio.sleep(self.seconds)
        return self.attempt(action)

    def planned(self, snapshot: Snapshot, decided: Plan, solutions: Sequence[BudgetSolution], seconds: float) -> None:
        self.plans.append(clock())

    def done(self, action: Command | Step, outcome: ActionOutcome, message: str) -> None:
        self.outcomes.append((outcome, message))

    def turned(self, *, failed: bool) -> None:
        self.failed_turns.append(failed)

    def rents(self) -> list[float]:
        """When a node was rented for the one job."""
        return [at for at, action in self.attempts if isinstance(action, Rent)]


def a_job_waits() -> World:
    """A job that needs one node."""
    world = World()
    world.budget()
    world.pool()
    world.job("train", gpus=8)
    return world


def loop_over(
    world: World,
    recorder: Recorder,
    awake: asyncio.Event,
    in_flight: set[StepKey],
    plan_seconds: float = 0.0,
    batch_idle_seconds: float = 0.0,
) -> Loop:
    def observe() -> Snapshot:
        advance(plan_seconds)
        return world.snapshot()

    def now() -> Instant:
        return after(Instant(0), clock())

    timing = LoopTiming(batch_idle_seconds=batch_idle_seconds)

    return Loop(observe, now, recorder, recorder, awake, in_flight, timing)


def turns(
    world: World, recorder: Recorder, seconds: float, *, plan_seconds: float = 0.0, wakes: Iterable[float] = ()
) -> None:
    """Run a loop for so long, awake at the start and after those seconds."""

    async def main() -> None:
        awake = asyncio.Event()
        awake.set()
        loop = loop_over(world, recorder, awake, set(), plan_seconds)
        for wake in wakes:
            asyncio.get_running_loop().call_later(wake, awake.set)
        await run_for(seconds, loop.run())

    run_in_virtual_time(main())


def gaps(times: Iterable[float]) -> list[float]:
    return [round(later - earlier, 1) for earlier, later in pairwise(times)]


def fails(action: Command | Step) -> ActionOutcome:
    raise Unreachable("POST", "/apis", 503, "ServiceUnavailable", "no")


def test_what_fails_is_tried_again_after_pauses_that_double_up_to_half_a_minute() -> None:
    recorder = Recorder(fails)
    turns(a_job_waits(), recorder, 150.0)
    assert gaps(recorder.rents()) == pytest.approx([0.3, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0], abs=0.11)
    assert {outcome for outcome, _ in recorder.outcomes} == {ActionOutcome.FAILED}
    assert "no" in recorder.outcomes[0][1]


def test_what_a_dry_run_withholds_is_looked_at_again_after_such_pauses_and_told_as_no_failure() -> None:
    recorder = Recorder(lambda action: ActionOutcome.WITHHELD)
    turns(a_job_waits(), recorder, 150.0)
    assert gaps(recorder.rents())[-3:] == pytest.approx([30.0, 30.0, 30.0], abs=0.11)
    assert set(recorder.outcomes) == {(ActionOutcome.WITHHELD, "")}


def busy(action: Command | Step) -> ActionOutcome:
    raise TooManyRequests("POST", "/apis", 429, "TooManyRequests", "later", 7.0)


def test_a_server_that_asks_to_be_left_alone_is_for_as_long() -> None:
    recorder = Recorder(busy)
    turns(a_job_waits(), recorder, 60.0)
    assert gaps(recorder.rents()) == pytest.approx([7.0, 14.0, 28.0], abs=0.2)


@pytest.mark.parametrize("seed", range(5))
def test_in_a_storm_of_refusals_and_lost_answers_nothing_is_rented_twice(seed: int) -> None:
    """Three answers in four are a 429, a 503, or lost after the node was rented."""
    world, draw = a_job_waits(), random.Random(seed)
    for number in range(3):
        world.job(f"more{number}", gpus=8)

    def stormy(action: Command | Step) -> ActionOutcome:
        kind = draw.choice(["429", "503", "lost", "done"])
        if kind == "429":
            busy(action)
        if kind == "503":
            fails(action)
        if isinstance(action, Rent) and action.rental not in world.rentals:
            world.write(action)
        if kind == "lost":
            raise OutcomeUnknown("POST", "/apis", 0, "NoAnswer", "lost")
        return ActionOutcome.DONE

    recorder = Recorder(stormy)
    turns(world, recorder, 300.0)
    assert len(world.rentals) == 4
    assert len(recorder.rents()) <= 4 * 12


def test_jobs_that_come_within_a_second_of_each_other_are_rented_for_together() -> None:
    world = a_job_waits()
    recorder = Recorder(lambda action: ActionOutcome.DONE)

    async def main() -> None:
        awake = asyncio.Event()
        awake.set()
        loop = loop_over(world, recorder, awake, set(), batch_idle_seconds=1.0)
        began = clock()

        def comes(name: str) -> None:
            world.job(name, gpus=8)
            awake.set()

        for second, name in [(0.4, "second"), (0.9, "third")]:
            asyncio.get_running_loop().call_later(second, comes, name)
        await run_for(1.95, loop.run())
        assert [at - began for at in recorder.rents()] == pytest.approx([1.9] * 3, abs=0.05)

    run_in_virtual_time(main())


def test_what_is_only_out_of_date_is_tried_again_within_two_seconds() -> None:
    recorder = Recorder(lambda action: ActionOutcome.STALE)
    turns(a_job_waits(), recorder, 10.0)
    assert gaps(recorder.rents())[:6] == pytest.approx([0.3, 0.5, 1.0, 2.0, 2.0, 2.0], abs=0.11)


def test_an_event_does_not_shorten_a_pause() -> None:
    recorder = Recorder(fails)
    turns(a_job_waits(), recorder, 3.9, wakes=[tenth / 10 for tenth in range(39)])
    assert gaps(recorder.rents()) == pytest.approx([0.3, 0.5, 1.0, 2.0], abs=0.15)
    assert len(recorder.plans) > 30


def test_one_that_works_at_last_begins_with_the_first_pause_when_it_fails_again() -> None:
    outcomes = iter([ActionOutcome.FAILED, ActionOutcome.FAILED, ActionOutcome.DONE, ActionOutcome.FAILED])
    recorder = Recorder(lambda action: next(outcomes, ActionOutcome.DONE))
    turns(a_job_waits(), recorder, 2.5, wakes=[1.0, 1.5])
    assert gaps(recorder.rents())[:4] == pytest.approx([0.3, 0.5, 0.2, 0.3], abs=0.11)


def test_with_nothing_to_do_it_turns_every_fifteen_seconds() -> None:
    recorder = Recorder(lambda action: ActionOutcome.DONE)
    turns(World(), recorder, 61.0)
    assert gaps(recorder.plans) == [15.0] * 4


def test_events_close_together_make_one_turn() -> None:
    recorder = Recorder(lambda action: ActionOutcome.DONE)
    turns(World(), recorder, 10.0, wakes=[5.0, 5.001, 5.01, 5.015])
    assert gaps(recorder.plans) == [5.0]


def test_the_loop_rests_as_long_as_it_planned_however_much_happens() -> None:
    recorder = Recorder(lambda action: ActionOutcome.DONE)
    turns(World(), recorder, 30.0, plan_seconds=2.0, wakes=[tenth / 10 for tenth in range(300)])
    assert gaps(recorder.plans) == [4.0] * 7


def test_no_second_step_is_begun_for_an_object_while_its_first_is_in_flight() -> None:
    world = World()
    world.budget()
    world.pool()
    drained = StepKey(StepKind.RENTAL, world.rental(phase=RentalPhase.DRAINING).id)
    slow = Recorder(lambda action: ActionOutcome.DONE, seconds=3.0)
    in_flight: set[StepKey] = set()
    seen: list[bool] = []

    async def main() -> None:
        awake = asyncio.Event()
        awake.set()
        loop = loop_over(world, slow, awake, in_flight)
        for tenth in range(20):
            asyncio.get_running_loop().call_later(tenth / 10, awake.set)
            asyncio.get_running_loop().call_later(tenth / 10 + 0.05, lambda: seen.append(drained in in_flight))
        await run_for(2.9, loop.run())

    run_in_virtual_time(main())
    assert seen == [True] * 20
    assert [type(step) for _, step in slow.attempts].count(Cordon) == 1
    assert len(slow.plans) >= 20


def test_a_faulty_profile_stops_neither_plans_nor_steps_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    world = a_job_waits()
    world.profile("bad", PowerLaw(5e-324, 5e-324), others=(SpeedCurve("h100", PowerLaw(0.8, 7.3)),))
    known = world.profiles[ClassId(NAMESPACE, "bad")]
    world.profiles[known.id] = replace(
        known, mean_work=float("nan"), arrivals_per_hour=1.0, budget=BudgetId("research")
    )
    world.rental(phase=RentalPhase.DRAINING)
    recorder = Recorder(lambda do: ActionOutcome.FAILED)
    turns(world, recorder, 60.0)
    assert recorder.rents()
    assert any(isinstance(do, Cordon) for _, do in recorder.attempts)
    assert len([line for line in caplog.records if "set aside" in line.getMessage()]) == 1
    assert caplog.records[0].exc_info


def test_machines_end_while_no_plan_can_be_made_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(snapshot: Snapshot, memo: Memo) -> Plan:
        raise ArithmeticError("no")

    monkeypatch.setattr("charterer.policy.set_aside.solved_plan", fails)
    world = a_job_waits()
    world.rental(phase=RentalPhase.DRAINING)
    recorder = Recorder(lambda do: ActionOutcome.FAILED)
    turns(world, recorder, 60.0)
    assert not recorder.rents()
    assert any(isinstance(do, Cordon) for _, do in recorder.attempts)
    assert len(recorder.plans) > 3
    assert all(recorder.failed_turns)


def test_a_plan_that_cannot_be_shown_fails_its_turn_and_no_other() -> None:
    class Blind(Recorder):
        def planned(
            self, snapshot: Snapshot, decided: Plan, solutions: Sequence[BudgetSolution], seconds: float
        ) -> None:
            super().planned(snapshot, decided, solutions, seconds)
            if len(self.plans) == 2:
                raise ArithmeticError("no")

    recorder = Blind(lambda do: ActionOutcome.DONE)
    turns(a_job_waits(), recorder, 60.0)
    assert [at for at, failed in enumerate(recorder.failed_turns) if failed] == [1]
    assert recorder.rents()


def test_a_turn_that_fails_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    world, looks = a_job_waits(), 0

    recorder = Recorder(lambda do: ActionOutcome.DONE)

    async def main() -> float:
        awake = asyncio.Event()

        def observe() -> Snapshot:
            nonlocal looks
            looks += 1
            if looks < 5:
                raise ArithmeticError("no")
            return world.snapshot()

        def now() -> Instant:
            return after(Instant(0), clock())

        loop = Loop(observe, now, recorder, recorder, awake, set(), LoopTiming())
        await run_for(60.0, loop.run())
        return loop.seconds_since_turn()

    assert run_in_virtual_time(main()) <= 15.0
    assert looks > 5
    assert recorder.failed_turns[:5] == [True] * 4 + [False]
    assert len([line for line in caplog.records if line.levelname == "ERROR"]) == 1


def test_at_level_debug_the_log_says_once_what_each_object_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    world = a_job_waits()
    world.unsurveyed.add(PoolId("a100"))
    with caplog.at_level(logging.DEBUG, "charterer.controller.loop"):
        turns(world, Recorder(lambda action: ActionOutcome.DONE), 60.0)
    waits = [record.getMessage() for record in caplog.records if " waits: " in record.getMessage()]
    assert "pool/a100 waits: the cloud has not yet been asked about GPUPool a100" in waits
    assert len(waits) == len(set(waits))
