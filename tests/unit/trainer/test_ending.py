"""A stopped process ends where it leaves the block of run(): at once, and without losing what was written."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.unit.trainer.support import SECONDS, end, line, start

STOPPED = """
import atexit, os, signal, sys, threading, time
import charterer_trainer
{before}
with charterer_trainer.run({arguments}):
    os.kill(os.getpid(), signal.SIGTERM)
    {inside}
print("after the block")
"""


def script(before: str = "", inside: str = "pass", arguments: str = "") -> str:
    """A script that is stopped at once."""
    return STOPPED.format(before=before, inside=inside, arguments=arguments)


async def test_nothing_after_the_block_runs_and_no_thread_is_waited_for() -> None:
    waits = "threading.Thread(target=time.sleep, args=(60,)).start()"
    process = await start(script(inside=f"print('inside'); {waits}"), {})
    assert await line(process) == "inside"
    assert await line(process) == ""
    assert await end(process) == (143, "")


async def test_handlers_of_atexit_run_newest_first_unless_they_are_not_wanted() -> None:
    before = "atexit.register(print, 'first'); atexit.register(print, 'second')"
    process = await start(script(before), {})
    assert [await line(process), await line(process), await line(process)] == ["second", "first", ""]
    assert await end(process) == (143, "")
    process = await start(script(before, arguments="exit_seconds=0"), {})
    assert await line(process) == ""
    assert await end(process) == (143, "")


async def test_handlers_that_hang_or_fail_change_neither_the_code_nor_the_end() -> None:
    begin = time.monotonic()
    before = "atexit.register(time.sleep, 60); atexit.register(lambda: 1 / 0)"
    code, errors = await end(await start(script(before, arguments="exit_seconds=0.2"), {}))
    assert code == 143
    assert "ZeroDivisionError" in errors
    assert time.monotonic() - begin < SECONDS


@pytest.mark.parametrize("arguments", ["", "exit_seconds=0"])
async def test_files_that_were_not_closed_are_written(tmp_path: Path, arguments: str) -> None:
    before = "text = open(sys.argv[1], 'w'); text.write('a line'); data = open(sys.argv[2], 'wb'); data.write(b'1234')"
    text = script(before, arguments=arguments)
    process = await start(text, {}, str(tmp_path / "text"), str(tmp_path / "data"))
    assert (await end(process))[0] == 143
    assert (tmp_path / "text").read_text() == "a line"
    assert (tmp_path / "data").read_bytes() == b"1234"


async def test_an_exception_that_was_handled_before_is_not_told_of_at_the_stop() -> None:
    text = """
import os, signal, charterer_trainer
try:
    1 / 0
except ZeroDivisionError:
    with charterer_trainer.run():
        os.kill(os.getpid(), signal.SIGTERM)
"""
    assert await end(await start(text, {})) == (143, "")


async def test_ranks_that_agreed_to_stop_wait_for_each_other_before_they_end() -> None:
    text = """
import charterer_trainer
def agree(mine):
    print("asked", mine, flush=True)
    return True
with charterer_trainer.run():
    charterer_trainer.should_stop(agree=agree)
    print("saved", flush=True)
    {}
"""
    process = await start(text.format("pass"), {})
    assert [await line(process) for _ in range(4)] == ["asked False", "saved", "asked True", ""]
    assert await end(process) == (143, "")
    process = await start(text.format("raise ValueError('others wait in vain')"), {})
    assert [await line(process) for _ in range(3)] == ["asked False", "saved", ""]
    code, errors = await end(process)
    assert (code, "others wait in vain" in errors) == (143, True)


async def test_a_rank_that_is_gone_is_not_waited_for() -> None:
    text = """
import charterer_trainer
calls = []
def agree(mine):
    calls.append(mine)
    if len(calls) > 1:
        raise RuntimeError("connection closed by peer")
    return True
with charterer_trainer.run():
    charterer_trainer.should_stop(agree=agree)
"""
    code, errors = await end(await start(text, {}))
    assert code == 143
    assert "a rank did not leave with the others: connection closed by peer" in errors


async def test_a_forked_process_that_leaves_the_block_is_ended_by_its_exit() -> None:
    text = """
import os, signal, charterer_trainer
outside = os.getpid()
try:
    with charterer_trainer.run():
        if os.fork() == 0:
            raise SystemExit(7)
        code = os.waitstatus_to_exitcode(os.wait()[1])
finally:
    if os.getpid() != outside:
        print("the fork cleans up", flush=True)
print(code)
"""
    process = await start(text, {})
    assert [await line(process), await line(process)] == ["the fork cleans up", "7"]
    assert await end(process) == (0, "")
