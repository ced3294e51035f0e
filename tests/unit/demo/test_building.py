"""The build beside the simulation: it is waited for, its words are shown, and all that it started ends with it."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from demo import building
from demo.building import Build
from demo.programs import DemoError
from tests.patience import PATIENCE

SAYS = [sys.executable, "-c", "print('kube: built')"]
FAILS = [sys.executable, "-c", "print('no such host', flush=True); raise SystemExit(3)"]


def a_console(terminal: bool = False) -> Console:
    return Console(file=io.StringIO(), width=80, force_terminal=terminal)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def test_the_build_is_waited_for(tmp_path: Path) -> None:
    build = await Build.start(SAYS, tmp_path / "build.log")
    await build.done(a_console())
    assert (tmp_path / "build.log").read_text() == "kube: built\n"
    await build.stop()


async def test_the_words_of_a_build_that_fails_are_told(tmp_path: Path) -> None:
    build = await Build.start(FAILS, tmp_path / "build.log")
    with pytest.raises(DemoError, match=r"could not be built \(code 3\); the end of .*build.log:\nno such host"):
        await build.done(a_console())


async def test_the_last_line_is_shown_in_a_terminal_while_the_build_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "_LOOK_SECONDS", 0.05)
    go_on = tmp_path / "go-on"
    script = f"""
import pathlib, time
print("kube: building", end="\\r", flush=True)
print("kube: building, 5 min left", end="\\r", flush=True)
while not pathlib.Path({str(go_on)!r}).exists(): time.sleep(0.01)
"""
    console = a_console(terminal=True)
    build = await Build.start([sys.executable, "-c", script], tmp_path / "build.log")
    waiting = asyncio.create_task(build.done(console))
    async with asyncio.timeout(PATIENCE):
        while "kube: building, 5 min left (" not in printed(console):  # noqa: ASYNC110 - the screen tells nobody
            await asyncio.sleep(0.02)
    go_on.touch()
    await waiting


async def test_where_there_is_no_terminal_each_new_line_is_printed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(building, "_LINE_SECONDS", 0.05)
    script = "import time; print('kube: building, 5 min left', flush=True); time.sleep(0.5)"
    console = a_console()
    build = await Build.start([sys.executable, "-c", script], tmp_path / "build.log")
    await build.done(console)
    assert printed(console).count("kube: building, 5 min left (") == 1


async def test_a_build_that_is_stopped_leaves_none_of_its_compilers(tmp_path: Path) -> None:
    compiler = ["sh", "-c", "trap '' INT; sleep 600 & wait"]
    script = f"import subprocess; child = subprocess.Popen({compiler!r}); print(child.pid, flush=True); child.wait()"
    log = tmp_path / "build.log"
    build = await Build.start([sys.executable, "-c", script], log)
    async with asyncio.timeout(PATIENCE):
        while not (log.exists() and log.read_text().endswith("\n")):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)
    started = psutil.Process(int(log.read_text()))
    await build.stop()
    await build.stop()
    async with asyncio.timeout(PATIENCE):
        while started.is_running() and started.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)


def test_what_is_lacking_is_what_this_machine_has_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHARTERER_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assert building.lacking("fake")[-2:] == ("tests.testbed.make", "testbed")
    assert building.lacking("karpenter")[-3:] == ("tests.testbed.make", "testbed", "karpenter")
