"""A training process under Charterer, and without it: real processes, signals, TLS and exit codes."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from charterer.domain.pool import Hazard
from charterer.server.progress import CurrentRun
from tests.unit.server.support import ALLOCATION, JOB, POD_UID, token
from tests.unit.trainer.support import SECONDS, Operator, end, line, operator, start

TRAIN = """
import sys, time
import charterer_trainer

with charterer_trainer.run():
    print("training", flush=True)
    step = 0
    while not charterer_trainer.should_stop():
        step += 1
        charterer_trainer.report(step=step, total_steps=10**9, throughput=5.0)
        time.sleep(0.005)
    with charterer_trainer.save_atomically(sys.argv[1]) as path:
        path.write_text(str(step))
    charterer_trainer.report(fraction=0.75)
"""


@pytest.fixture
async def charterer(tmp_path: Path) -> AsyncIterator[Operator]:
    async with operator(tmp_path) as told:
        yield told


async def test_sigterm_lets_the_script_save_and_ends_it_with_143(charterer: Operator, tmp_path: Path) -> None:
    process = await start(TRAIN, charterer.environ, str(tmp_path / "step"))
    assert await line(process) == "training"
    process.send_signal(signal.SIGTERM)
    code, errors = await end(process)
    assert (code, errors) == (143, "")
    assert (tmp_path / "step").exists()
    await charterer.fraction(0.75)


async def test_the_operators_word_stops_the_script_before_any_signal(charterer: Operator, tmp_path: Path) -> None:
    process = await start(TRAIN, charterer.environ, str(tmp_path / "step"))
    assert await line(process) == "training"
    charterer.say(stopping=True)
    assert (await end(process))[0] == 143


SAVES = """
import sys, time
import charterer_trainer

with charterer_trainer.run():
    with charterer_trainer.save_atomically(sys.argv[1]) as path:
        path.write_text("0")
    print("saved", flush=True)
    while not charterer_trainer.should_checkpoint():
        time.sleep(0.01)
"""


async def test_a_script_saves_as_often_as_its_nodes_ages_say(charterer: Operator, tmp_path: Path) -> None:
    wild = Hazard((3600.0,) * 4, 0.0, 0.0, 3600.0, 1.0, 1e4, 5.0, 50.0)
    charterer.directory.runs[JOB] = CurrentRun(2, frozenset({POD_UID}), ALLOCATION, False, wild, (0.1,))
    process = await start(SAVES, charterer.environ, str(tmp_path / "0"))
    assert await line(process) == "saved"
    assert (await end(process))[0] == 0


async def test_outside_kubernetes_a_script_runs_to_its_end_as_ever(tmp_path: Path) -> None:
    script = """
import charterer_trainer
with charterer_trainer.run():
    charterer_trainer.report(step=1, total_steps=2)
    print(charterer_trainer.should_stop(), charterer_trainer.allocation(), charterer_trainer.init_jax())
"""
    process = await start(script, {})
    assert await line(process) == "False None False"
    assert await end(process) == (0, "")


async def test_outside_kubernetes_sigterm_stops_gracefully_too(tmp_path: Path) -> None:
    process = await start(TRAIN, {}, str(tmp_path / "step"))
    await line(process)
    process.send_signal(signal.SIGTERM)
    assert (await end(process))[0] == 143
    assert (tmp_path / "step").exists()


@pytest.mark.parametrize(
    ("body", "code", "shown"),
    [
        ("pass", 0, ""),
        ("raise ValueError('a bug')", 1, "a bug"),
        ("raise SystemExit(3)", 3, ""),
        ("os.kill(os.getpid(), signal.SIGTERM)", 143, ""),
        ("os.kill(os.getpid(), signal.SIGTERM); raise SystemExit(0)", 143, ""),
        ("os.kill(os.getpid(), signal.SIGTERM); raise RuntimeError('peer is gone')", 143, "peer is gone"),
    ],
)
async def test_a_stopped_run_ends_with_143_and_any_other_as_its_block_did(body: str, code: int, shown: str) -> None:
    script = f"import os, signal, charterer_trainer\nwith charterer_trainer.run():\n    {body}\n"
    ended, errors = await end(await start(script, {}))
    assert ended == code
    assert shown in errors


async def test_a_run_that_finished_before_it_heard_of_the_stop_is_finished(charterer: Operator) -> None:
    charterer.say(stopping=True)
    script = """
import charterer_trainer
with charterer_trainer.run() as session:
    assert session.allocation() is not None
"""
    assert await end(await start(script, charterer.environ)) == (0, "")


async def test_the_handler_that_was_there_before_still_hears_the_signal() -> None:
    script = """
import os, signal, charterer_trainer
signal.signal(signal.SIGTERM, lambda *_: print("mine", flush=True))
with charterer_trainer.run():
    os.kill(os.getpid(), signal.SIGTERM)
"""
    process = await start(script, {})
    assert await line(process) == "mine"
    assert (await end(process))[0] == 143


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
async def test_sigterm_ends_a_process_that_was_forked_within_the_run() -> None:
    """A data loader, or a worker of a pool, which is ended so and waited for."""
    script = """
import os, signal, charterer_trainer
with charterer_trainer.run():
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"there")
        signal.alarm(20)
        while True:
            signal.pause()
    os.read(reading, 5)
    os.kill(child, signal.SIGTERM)
    print(os.WTERMSIG(os.waitpid(child, 0)[1]), charterer_trainer.should_stop(), flush=True)
"""
    process = await start(script, {})
    assert await line(process) == f"{signal.SIGTERM.value} False"
    assert await end(process) == (0, "")


@pytest.mark.parametrize(
    "bad",
    [
        "batch=0",
        "batch=10**10",
        "step=10**16",
        "step_seconds=0.0",
        "step_seconds=1e5",
        "throughput=1e17",
        "grad_var=float('inf')",
        "grad_sqr=-1e31, grad_var=1.0",
        "grad_sqr=1.0, grad_var=-1.0",
    ],
)
async def test_a_number_that_the_operator_would_refuse_is_left_out_and_the_rest_is_heard(
    bad: str, charterer: Operator
) -> None:
    script = f"""
import charterer_trainer
with charterer_trainer.run():
    charterer_trainer.report(fraction=0.5, {bad})
"""
    assert (await end(await start(script, charterer.environ)))[0] == 0
    await charterer.fraction(0.5)


async def test_a_rank_that_agreed_to_a_stop_ends_as_stopped_although_nobody_told_it() -> None:
    script = """
import charterer_trainer
with charterer_trainer.run():
    assert not charterer_trainer.should_stop(agree=lambda mine: mine)
    assert charterer_trainer.should_stop(agree=lambda mine: True)
    assert charterer_trainer.should_stop()
"""
    assert (await end(await start(script, {})))[0] == 143


async def test_a_single_rank_asks_nobody() -> None:
    script = """
import os, signal, charterer_trainer
with charterer_trainer.run():
    assert not charterer_trainer.should_stop(agree=charterer_trainer.any_rank)
    os.kill(os.getpid(), signal.SIGTERM)
    assert charterer_trainer.should_stop(agree=charterer_trainer.any_rank)
"""
    assert (await end(await start(script, {}))) == (143, "")


async def test_a_run_in_another_thread_than_the_main_one_works_without_signals() -> None:
    script = """
import threading, charterer_trainer
def work():
    with charterer_trainer.run():
        print(charterer_trainer.should_stop())
thread = threading.Thread(target=work); thread.start(); thread.join()
"""
    process = await start(script, {})
    assert await line(process) == "False"
    assert await end(process) == (0, "")


async def test_the_allocation_comes_from_the_operator_even_where_the_environment_is_old(charterer: Operator) -> None:
    charterer.say(allocation={"run": 2, "gpus": 16, "pods": 4, "gpusPerPod": 4})
    process = await start("import charterer_trainer; print(charterer_trainer.allocation())", charterer.environ)
    assert await line(process) == "Allocation(run=2, gpus=16, pods=4, gpus_per_pod=4)"
    assert (await end(process))[0] == 0


async def test_with_the_operator_away_the_allocation_comes_from_the_annotation_else_the_environment(
    charterer: Operator,
) -> None:
    away = {**charterer.environ, "CHARTERER_PROGRESS_URL": "https://localhost:1"}
    script = "import charterer_trainer; print(charterer_trainer.allocation())"
    process = await start(script, away)
    assert await line(process) == "Allocation(run=2, gpus=8, pods=2, gpus_per_pod=4)"
    await end(process)
    charterer.token_file.with_name("allocation").write_text('{"run":2,"gpus":4,"pods":1,"gpusPerPod":4}')
    process = await start(script, away)
    assert await line(process) == "Allocation(run=2, gpus=4, pods=1, gpus_per_pod=4)"
    await end(process)


@pytest.mark.parametrize(
    "broken",
    [
        {"CHARTERER_PROGRESS_URL": "https://localhost:1"},
        {"CHARTERER_PROGRESS_URL": "nonsense"},
        {"CHARTERER_PROGRESS_URL": "https://[::"},
        {"CHARTERER_PROGRESS_URL": "https://localhost:99999"},
        {"CHARTERER_CA": "nonsense"},
        {"CHARTERER_CA": ""},
        {"CHARTERER_TOKEN_FILE": "/nowhere/token"},
        {"CHARTERER_RUN": "x", "PET_NODE_RANK": "-1", "PET_NNODES": "1:4", "LOCAL_RANK": "auto"},
    ],
)
async def test_nothing_that_is_wrong_around_it_disturbs_training(charterer: Operator, broken: dict[str, str]) -> None:
    script = """
import charterer_trainer
with charterer_trainer.run():
    charterer_trainer.allocation()
    for step in range(1000):
        charterer_trainer.report(step=step, total_steps=1000, fraction="much", throughput=float("nan"))
        assert not charterer_trainer.should_stop()
"""
    code, errors = await end(await start(script, {**charterer.environ, **broken}))
    assert (code, errors) == (0, "")


async def test_a_certificate_of_another_authority_is_not_trusted(charterer: Operator, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with operator(tmp_path / "other") as other:
        stranger = {**charterer.environ, "CHARTERER_CA": other.environ["CHARTERER_CA"]}
        script = "import charterer_trainer\nwith charterer_trainer.run(): charterer_trainer.report(fraction=0.5)"
        assert (await end(await start(script, stranger)))[0] == 0
    assert charterer.reviewer.asked == []


async def test_the_token_is_read_again_at_each_call(charterer: Operator, tmp_path: Path) -> None:
    process = await start(TRAIN, charterer.environ, str(tmp_path / "step"))
    await line(process)
    async with asyncio.timeout(SECONDS):
        while not charterer.reviewer.asked:
            charterer.board.changed.clear()
            await charterer.board.changed.wait()
        charterer.token_file.write_text(token(salt="renewed"))
        while token(salt="renewed") not in charterer.reviewer.asked:
            charterer.board.changed.clear()
            await charterer.board.changed.wait()
    process.terminate()
    await end(process)


async def test_only_the_first_process_of_a_pod_reports(charterer: Operator) -> None:
    script = "import charterer_trainer\nwith charterer_trainer.run(): charterer_trainer.report(fraction=0.5)"
    assert (await end(await start(script, {**charterer.environ, "LOCAL_RANK": "1"})))[0] == 0
    assert charterer.board.latest(JOB) is None
    assert (await end(await start(script, {**charterer.environ, "LOCAL_RANK": "0"})))[0] == 0
    await charterer.fraction(0.5)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
async def test_a_forked_data_loader_neither_reports_nor_hangs_on_a_lock_of_the_thread_it_lacks(
    charterer: Operator,
) -> None:
    script = """
import os, charterer_trainer
with charterer_trainer.run() as session:
    charterer_trainer.report(fraction=0.25)
    with session._reporter._lock:
        child = os.fork()
    if child == 0:
        session._reporter._lock.acquire(blocking=False)
        charterer_trainer.report(fraction=0.9)
        os._exit(int(charterer_trainer.should_stop()))
    assert os.waitpid(child, 0)[1] == 0
"""
    assert (await end(await start(script, charterer.environ)))[0] == 0
    await charterer.fraction(0.25)


async def test_jax_is_told_its_coordinator_size_and_rank(charterer: Operator, tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text(
        "class config:\n    jax_enable_preemption_service = True\n"
        "    @classmethod\n    def update(cls, name, value): setattr(cls, name, value)\n"
        "class distributed:\n    @staticmethod\n    def initialize(**told):\n"
        "        assert not config.jax_enable_preemption_service, 'it takes SIGTERM over'\n"
        "        print(sorted(told.items()))\n"
    )
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import charterer_trainer; print(charterer_trainer.init_jax())"
    )
    pod = {**charterer.environ, "JAX_COORDINATOR_ADDRESS": "sft-r2-0.sft:29500", "PET_NODE_RANK": "1"}
    told = "[('coordinator_address', 'sft-r2-0.sft:29500'), ('num_processes', {}), ('process_id', 1)]"
    process = await start(script, pod, str(tmp_path))
    assert [await line(process), await line(process)] == [told.format(2), "True"]
    await end(process)
    del pod["PET_NNODES"]
    charterer.say(allocation={"run": 2, "gpus": 12, "pods": 3, "gpusPerPod": 4})
    process = await start(script, pod, str(tmp_path))
    assert [await line(process), await line(process)] == [told.format(3), "True"]
    await end(process)
    process = await start(script, {**pod, "PET_NNODES": "1"}, str(tmp_path))
    assert await line(process) == "False"
    await end(process)
