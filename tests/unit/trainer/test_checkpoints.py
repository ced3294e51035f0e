"""A checkpoint is there completely or not at all, whatever interrupts its writing."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer_trainer import latest_checkpoint, remove_partials, save_atomically
from charterer_trainer.checkpoints import SaveClock
from tests.unit.trainer.support import end, left, line, start


def test_a_saved_file_appears_under_its_name(tmp_path: Path) -> None:
    with save_atomically(tmp_path / "deep" / "step-1.pt") as path:
        path.write_text("weights")
        assert latest_checkpoint(tmp_path / "deep") is None
    assert (tmp_path / "deep" / "step-1.pt").read_text() == "weights"
    assert left(tmp_path / "deep") == ["step-1.pt"]


def test_a_saved_folder_appears_under_its_name_and_replaces_an_older_one(tmp_path: Path) -> None:
    for content in ("old", "new"):
        with save_atomically(tmp_path / "step-1") as path:
            (path / "shards").mkdir(parents=True)
            (path / "shards" / "0").write_text(content)
    assert (tmp_path / "step-1" / "shards" / "0").read_text() == "new"
    assert left(tmp_path) == ["step-1"]


def save_folder(target: Path, content: str) -> None:
    with save_atomically(target) as path:
        path.mkdir()
        (path / "0").write_text(content)


def test_a_folder_that_cannot_be_replaced_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_folder(tmp_path / "last", "old")
    rename = os.replace

    def full(source: Path, target: Path) -> None:
        if target == tmp_path / "last" and (source / "0").read_text() == "new":
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        save_folder(tmp_path / "last", "new")
    assert (tmp_path / "last" / "0").read_text() == "old"
    assert left(tmp_path) == ["last"]


async def test_a_save_that_is_killed_while_it_replaces_a_folder_loses_neither(tmp_path: Path) -> None:
    save_folder(tmp_path / "last", "old")
    script = """
import os, signal, sys, charterer_trainer
rename = os.replace
def killed(source, target):
    if str(target) == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)
os.replace = killed
with charterer_trainer.save_atomically(sys.argv[1]) as path:
    path.mkdir()
    (path / "0").write_text("new")
"""
    await end(await start(script, {}, str(tmp_path / "last")))
    remove_partials(tmp_path)
    assert latest_checkpoint(tmp_path) == tmp_path / "last"
    assert (tmp_path / "last" / "0").read_text() == "new"
    assert left(tmp_path) == ["last"]


def test_links_in_a_folder_are_saved_as_they_are(tmp_path: Path) -> None:
    with save_atomically(tmp_path / "step-1") as path:
        path.mkdir()
        (path / "missing").symlink_to(path / "nowhere")
        (path / "itself").symlink_to(path)
    assert left(tmp_path / "step-1") == ["itself", "missing"]


def test_a_save_that_fails_leaves_the_older_checkpoint_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "last.pt").write_text("old")

    def save() -> None:
        with save_atomically(tmp_path / "last.pt") as path:
            path.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        save()
    assert (tmp_path / "last.pt").read_text() == "old"
    assert left(tmp_path) == ["last.pt"]


def test_saving_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing was written"), save_atomically(tmp_path / "step-1.pt"):
        pass


async def test_a_save_that_is_killed_is_no_checkpoint(tmp_path: Path) -> None:
    script = """
import os, sys, time, charterer_trainer
with charterer_trainer.save_atomically(sys.argv[1]) as path:
    path.write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""
    (tmp_path / "step-1.pt").write_text("whole")
    process = await start(script, {}, str(tmp_path / "step-2.pt"))
    await line(process)
    process.send_signal(signal.SIGKILL)
    await end(process)
    assert latest_checkpoint(tmp_path) == tmp_path / "step-1.pt"
    assert len(left(tmp_path)) == 2, "the partial one"
    remove_partials(tmp_path)
    assert left(tmp_path) == ["step-1.pt"]


def test_without_a_folder_or_with_an_empty_one_there_is_no_checkpoint(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path / "missing") is None
    assert latest_checkpoint(tmp_path) is None
    (tmp_path / "file").touch()
    assert latest_checkpoint(tmp_path / "file") is None


def test_other_libraries_unfinished_files_are_no_checkpoints(tmp_path: Path) -> None:
    for name in (".hidden-9", "step-9.tmp", "step-9.partial"):
        (tmp_path / name).touch()
    (tmp_path / "step-1.pt").touch()
    assert latest_checkpoint(tmp_path) == tmp_path / "step-1.pt"


def test_a_pattern_leaves_out_what_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "step-1.pt").touch()
    (tmp_path / "events-2024.log").touch()
    assert latest_checkpoint(tmp_path, "step-*") == tmp_path / "step-1.pt"


def test_among_names_without_numbers_the_last_modified_is_newest(tmp_path: Path) -> None:
    for seconds, name in enumerate(("b.pt", "a.pt")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (seconds, seconds))
    assert latest_checkpoint(tmp_path) == tmp_path / "a.pt"


@given(steps=st.sets(st.integers(0, 10**6), min_size=1, max_size=12), seconds=st.randoms(use_true_random=False))
def test_the_highest_step_is_newest_whatever_clocks_say(
    tmp_path_factory: pytest.TempPathFactory, steps: set[int], seconds: Random
) -> None:
    folder = tmp_path_factory.mktemp("checkpoints")
    for step in steps:
        path = folder / f"step-{step}.pt"
        path.touch()
        moment = seconds.randrange(10**9)
        os.utime(path, (moment, moment))
    assert latest_checkpoint(folder) == folder / f"step-{max(steps)}.pt"


def test_a_save_is_due_when_the_last_one_ended_long_enough_ago() -> None:
    now = [100.0]
    clock = SaveClock(lambda: now[0])
    assert not clock.due(60.0)
    now[0] += 60.0
    assert clock.due(60.0)
    assert not clock.due(None), "by default half an hour"
    with clock.save():
        now[0] += 7.0
    assert clock.seconds == 7.0
    assert not clock.due(60.0)


def test_a_save_that_fails_is_due_again_at_once() -> None:
    now = [0.0]
    clock = SaveClock(lambda: now[0])
    now[0] += 60.0
    with pytest.raises(OSError, match="disk full"), clock.save():
        raise OSError("disk full")
    assert clock.seconds is None
    assert clock.due(60.0)
