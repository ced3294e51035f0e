"""How long a step takes, seen from when steps are reported; and what the batch size of the answer becomes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from charterer_trainer.steps import GradientMean, StepClock
from tests.unit.server.support import Clock
from tests.unit.trainer.support import SECONDS, Operator, end, line, operator, start


@pytest.fixture
async def charterer(tmp_path: Path) -> AsyncIterator[Operator]:
    async with operator(tmp_path) as told:
        yield told


def clocked(*steps: tuple[float, object, object]) -> dict[str, object]:
    """What is posted after steps reported at these times: (seconds, step, batch)."""
    clock = Clock()
    steps_seen = StepClock(clock)
    begin = clock()
    for seconds, step, batch in steps:
        clock.now = begin + seconds
        steps_seen.step(step, batch)
    return steps_seen.take()


def test_a_step_takes_what_the_steps_between_took_on_average() -> None:
    assert clocked((0, 10, 64), (1, 12, 64), (3, 20, 64)) == {"stepSeconds": 0.3}


def test_between_two_posts_only_the_steps_since_count() -> None:
    clock = Clock()
    seen = StepClock(clock)
    seen.step(0, 64)
    clock.now += 1.0
    seen.step(10, 64)
    assert seen.take() == {"stepSeconds": 0.1}
    assert seen.take() == {}
    clock.now += 4.0
    seen.step(20, 64)
    assert seen.take() == {"stepSeconds": 0.4}


@pytest.mark.parametrize(
    "steps",
    [
        ((0.0, 10, 64),),
        ((0.0, 10, 64), (1.0, 10, 64)),
        ((0.0, 10, 64), (5.0, 20, 128)),
        ((0.0, 10, 64), (5.0, 5, 64)),
        ((0.0, 10, 64), (5.0, None, 64)),
        ((0.0, 10, 64), (0.0, 20, 64)),
    ],
)
def test_nothing_is_said_where_nothing_can_be(steps: tuple[tuple[float, object, object], ...]) -> None:
    assert clocked(*steps) == {}


class Timed:
    """A StepClock whose time, and whose time in saves, is told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.saved = 0.0
        self.steps = StepClock(lambda: self.now, lambda: self.saved)

    def step(self, number: int, seconds: float, saving: float = 0.0, **parts: float) -> None:
        """A step of that many seconds, of which ``saving`` and the parts."""
        self.now += seconds
        self.saved += saving
        for part, spent in parts.items():
            self.steps.spent(part, spent)
        self.steps.step(number, 64)


def test_what_no_other_part_took_is_computing() -> None:
    clock = Timed()
    clock.step(0, 99.0, load=50.0)
    clock.step(1, 1.0, load=0.25, sync=0.25)
    clock.step(2, 1.0, sync=0.25)
    means = {"stepSeconds": 1.0, "computeSeconds": 0.625, "syncSeconds": 0.25, "loadSeconds": 0.125}
    assert clock.steps.take() == means
    clock.step(3, 1.0, load=2.0)
    assert clock.steps.take() == {"stepSeconds": 1.0, "computeSeconds": 0.0, "syncSeconds": 0.0, "loadSeconds": 2.0}


def test_parts_that_nobody_measures_are_not_said() -> None:
    clock = Timed()
    clock.step(0, 1.0)
    clock.step(1, 1.0)
    assert clock.steps.take() == {"stepSeconds": 1.0}
    clock.step(2, 1.0, load=0.5)
    assert clock.steps.take() == {"stepSeconds": 1.0, "computeSeconds": 0.5, "loadSeconds": 0.5}


def test_computing_that_was_measured_is_what_was_measured() -> None:
    clock = Timed()
    clock.step(0, 1.0)
    clock.step(1, 1.0, compute=0.5, load=0.25)
    assert clock.steps.take() == {"stepSeconds": 1.0, "computeSeconds": 0.5, "loadSeconds": 0.25}


def test_a_save_of_a_checkpoint_is_no_part_of_a_step() -> None:
    clock = Timed()
    clock.step(0, 1.0)
    clock.step(1, 21.0, saving=20.0)
    clock.step(2, 1.0)
    assert clock.steps.take() == {"stepSeconds": 1.0}


def test_gradients_are_averaged_with_their_signs_between_two_posts() -> None:
    means = GradientMean()
    for sqr in (-3.0, 1.0, 5.0):
        means.step({"gradSqr": sqr, "gradVar": 2.0})
    means.step({"step": 4})
    assert means.take() == {"gradSqr": 1.0, "gradVar": 2.0}
    assert means.take() == {}


TRAIN = """
import sys, time
import charterer_trainer

with charterer_trainer.run():
    print("training", flush=True)
    batch, step = 256, 0
    while not charterer_trainer.should_stop():
        step += 1
        sqr = -1.0 if step % 2 else 3.0
        charterer_trainer.report(step=step, total_steps=10**9, batch=batch, grad_sqr=sqr, grad_var=2.0)
        told = charterer_trainer.batch()
        if told is not None and told != batch:
            batch = told
            print(batch, flush=True)
        time.sleep(0.005)
"""


async def test_a_script_that_says_its_batch_size_is_timed_and_told_another(charterer: Operator) -> None:
    charterer.adviser.batch = 1024
    process = await start(TRAIN, charterer.environ)
    assert await line(process) == "training"
    assert await line(process) == "1024"
    async with asyncio.timeout(SECONDS):
        while True:
            if any(report.batch == 1024 and report.step_seconds for report in charterer.adviser.heard):
                break
            await asyncio.sleep(0.05)
    charterer.say(stopping=True)
    assert (await end(process))[0] == 143
    timed = [report for report in charterer.adviser.heard if report.step_seconds is not None]
    assert all(0.004 < (report.step_seconds or 0.0) < 1.0 for report in timed)
    assert all(-1.0 <= (report.grad_sqr or 0.0) <= 3.0 for report in timed)
    assert {report.grad_var for report in timed} == {2.0}


PARTS = """
import itertools, time
import charterer_trainer

noise = charterer_trainer.GradientNoise(own_batch=128, every=2)
with charterer_trainer.run():
    for step in charterer_trainer.loading(itertools.count()):
        with charterer_trainer.phase("sync"):
            time.sleep(0.002)
        if noise.due(step):
            noise.add_parts([3.0, 5.0], 2.0, batch=64)
        charterer_trainer.report(step=step, total_steps=10**9, batch=64)
        if charterer_trainer.should_stop():
            break
"""


async def test_gradient_noise_and_the_parts_of_a_step_are_sent_by_themselves(charterer: Operator) -> None:
    process = await start(PARTS, charterer.environ)
    async with asyncio.timeout(SECONDS):
        while not any(report.grad_var for report in charterer.adviser.heard):
            charterer.board.changed.clear()
            await charterer.board.changed.wait()
    charterer.say(stopping=True)
    assert (await end(process))[0] == 143
    heard = [report for report in charterer.adviser.heard if report.grad_var]
    assert {(report.grad_sqr, report.grad_var) for report in heard} == {(0.0, 1.0)}
    assert min(report.step_seconds or 0.0 for report in heard) > 0.002


async def test_a_part_that_is_none_is_refused() -> None:
    script = "import charterer_trainer\nwith charterer_trainer.phase('thinking'): pass"
    code, errors = await end(await start(script, {}))
    assert code == 1
    assert "'thinking' is no part of a step; compute, sync, load are" in errors


async def test_a_script_that_does_not_ask_for_a_batch_size_runs_as_ever(charterer: Operator) -> None:
    charterer.adviser.batch = 1024
    script = """
import charterer_trainer
with charterer_trainer.run():
    charterer_trainer.report(fraction=0.5)
"""
    assert await end(await start(script, charterer.environ)) == (0, "")
    await charterer.fraction(0.5)


async def test_outside_charterer_there_is_no_batch_size_to_hear() -> None:
    process = await start("import charterer_trainer; print(charterer_trainer.batch())", {})
    assert await line(process) == "None"
    assert await end(process) == (0, "")
