"""What charterer_trainer costs a training step of 100 ms, what a checkpoint's sum costs, and the end after a stop.

    python -m tests.bench.trainer_overhead [--gigabytes 1] [--parameters 25000000]

Processor time, so that other work on the machine counts little; the operator is a real one over TLS that is asked each
second (in a cluster: each ten seconds).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np

import charterer_trainer
from charterer_trainer import checksums, gradients
from charterer_trainer.measuring import gradient
from charterer_trainer.sampling import shuffled
from tests.unit.trainer.support import line, operator, start

STEP_SECONDS = 0.1
CALLS = 20_000

POSTS = """
import contextlib, os, time
from charterer_trainer.client import Client, Unanswered
from charterer_trainer.environment import Environment
client = Client(Environment.read(os.environ))
begin = time.process_time()
for _ in range(50):
    with contextlib.suppress(Unanswered):  # the operator answers that this is too often
        client.post({"index": 0, "step": 1})
print((time.process_time() - begin) / 50)
"""


def step_cost(step: int) -> None:
    """What a loop calls at each step, without the gradients' norms."""
    for _ in charterer_trainer.loading([step]):
        with charterer_trainer.phase("sync"):
            pass
    charterer_trainer.report(step=step, total_steps=CALLS, batch=256)
    charterer_trainer.should_stop()
    charterer_trainer.should_checkpoint()
    if step % gradients.EVERY == 0:
        gradient(1.0, 2.0)


def seconds(call: Callable[[], object], times: int = 1) -> float:
    """Processor seconds of one call, the least of three."""
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        for _ in range(times):
            call()
        best = min(best, (time.process_time() - begin) / times)
    return best


def show(name: str, cost: float) -> None:
    """A line with the cost and its ratio to a step."""
    print(f"{name:58} {cost * 1e6:9.1f} µs   {cost / STEP_SECONDS:8.4%} of a step")


async def calls() -> None:
    """Calls of each step, and the thread that posts."""
    with tempfile.TemporaryDirectory() as folder:
        async with operator(Path(folder)) as told:
            with mock.patch.dict(os.environ, told.environ):
                cost = await asyncio.to_thread(_calls)
    show("report, loading, phase, should_stop, should_checkpoint", cost)


def _calls() -> float:
    with charterer_trainer.run():
        charterer_trainer.allocation()
        begin = time.thread_time()
        for step in range(CALLS):
            step_cost(step)
        return (time.thread_time() - begin) / CALLS


def post_cost() -> None:
    """One post with its TLS handshake, of the client alone."""

    async def measured() -> float:
        with tempfile.TemporaryDirectory() as folder:
            async with operator(Path(folder)) as told:
                process = await start(POSTS, told.environ)
                cost = float(await line(process))
                await process.wait()
                return cost

    cost = asyncio.run(measured())
    show("posts: one each ten seconds, by a step", cost * STEP_SECONDS / 10.0)


def norms(parameters: int) -> None:
    """Squared norms of a model's gradients on the processor, two in each sampled step, at a fixed interval and now."""
    values = np.random.default_rng(0).normal(size=parameters).astype(np.float32)
    cost = 2 * seconds(lambda: float(np.dot(values, values)))
    name = f"2 norms of {parameters / 1e6:g} M gradients"
    show(f"{name}, each {gradients.EVERY}th step", cost / gradients.EVERY)
    now, measured, steps = 0.0, 0, 100_000
    interval = gradients.Interval(gradients.EVERY, gradients.SHARE, lambda: now)
    for step in range(steps):
        now += STEP_SECONDS
        if interval.due(step):
            now += cost
            interval.took(cost)
            interval.next_after(step, interval.wanted(step))
            measured += 1
    show(f"{name}, as measured: each {steps / measured:.0f}th step", cost * measured / steps)


def samples() -> None:
    """Samples of a batch of 256, and an epoch's order."""
    batches = charterer_trainer.Batches(1_000_000, 2048, rank=3, world=8, most=32)
    batches.parts(0)
    show("256 samples of Batches, of 1 M", seconds(lambda: batches.parts(7), 20))
    print(f"{'an order of 1 M samples, once an epoch':58} {seconds(lambda: shuffled(1_000_000, 0, 1)):9.2f} s")


def sums(gigabytes: float) -> None:
    """Saving a checkpoint with and without its sum, and finding it again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        block = os.urandom(1 << 24)

        def write() -> None:
            with charterer_trainer.save_atomically(folder / "step-1.pt") as path, path.open("wb") as file:
                for _ in range(int(gigabytes * 1e9 / len(block))):
                    file.write(block)

        begin = time.perf_counter()
        write()
        saving = time.perf_counter() - begin
        size = (folder / "step-1.pt").stat().st_size
        cost = seconds(lambda: checksums.sum_of(folder / "step-1.pt"))
        begin = time.perf_counter()
        charterer_trainer.latest_checkpoint(folder)
        finding = time.perf_counter() - begin
    print(f"a checkpoint of {size / 1e9:.2f} GB: saved in {saving:.2f} s, of which the sum {cost:.2f} s of a core")
    print(f"  ({size / cost / 1e9:.1f} GB/s); found again, and compared, in {finding:.2f} s")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--parameters", type=int, default=25_000_000)
    arguments = parser.parse_args()
    asyncio.run(calls())
    post_cost()
    norms(arguments.parameters)
    samples()
    sums(arguments.gigabytes)


if __name__ == "__main__":
    main()
