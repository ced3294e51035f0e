"""Checkpoints that were damaged after they were saved, disks that are full, and old ones that are removed."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from charterer_trainer import (
    latest_checkpoint,
    remove_old_checkpoints,
    remove_partials,
    save_atomically,
    seal_checkpoint,
)
from charterer_trainer.checkpoints import saves
from tests.unit.trainer.support import SOURCE, left


def save(folder: Path, step: int, size: int = 1000) -> Path:
    """A file of ``size`` bytes that only this step has."""
    with save_atomically(folder / f"step-{step}.pt") as path:
        path.write_bytes(Random(step).randbytes(size))
    return folder / f"step-{step}.pt"


def save_folder(folder: Path, step: int) -> Path:
    """A folder with two files."""
    with save_atomically(folder / f"step-{step}") as path:
        (path / "shards").mkdir(parents=True)
        for shard in range(2):
            (path / "shards" / str(shard)).write_bytes(Random(step + shard).randbytes(100))
    return folder / f"step-{step}"


def test_a_file_with_a_single_bit_flipped_is_passed_over_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = save(tmp_path, 1)
    bad = save(tmp_path, 2)
    content = bytearray(bad.read_bytes())
    content[500] ^= 16
    bad.write_bytes(content)
    with caplog.at_level(logging.WARNING, "charterer_trainer"):
        assert latest_checkpoint(tmp_path) == good
    assert str(bad) in caplog.text
    content[500] ^= 16
    bad.write_bytes(content)
    assert latest_checkpoint(tmp_path) == bad


@pytest.mark.parametrize("size", [0, 1, 999, 1001])
def test_a_file_that_was_cut_or_grew_is_passed_over(tmp_path: Path, size: int) -> None:
    good = save(tmp_path, 1)
    os.truncate(save(tmp_path, 2), size)
    assert latest_checkpoint(tmp_path) == good


def test_a_folder_that_lacks_a_file_or_has_it_under_another_name_is_passed_over(tmp_path: Path) -> None:
    good, bad = save_folder(tmp_path, 1), save_folder(tmp_path, 2)
    (bad / "shards" / "1").rename(bad / "shards" / "2")
    assert latest_checkpoint(tmp_path) == good
    (bad / "shards" / "2").unlink()
    assert latest_checkpoint(tmp_path) == good


def test_if_all_are_damaged_there_is_none(tmp_path: Path) -> None:
    for step in (1, 2):
        os.truncate(save(tmp_path, step), 10)
    assert latest_checkpoint(tmp_path) is None


def test_a_checkpoint_of_another_library_has_no_sum_and_is_believed(tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / "step-2.pt").write_text("whole, for all that anybody knows")
    assert latest_checkpoint(tmp_path) == tmp_path / "step-2.pt"


@pytest.mark.parametrize("summed", [True, False])
def test_a_save_killed_before_it_replaced_a_file_does_not_condemn_the_old_one(tmp_path: Path, summed: bool) -> None:
    last = tmp_path / "last.pt"
    if summed:
        with save_atomically(last) as path:
            path.write_text("old")
    else:
        last.write_text("old")
    script = """
import os, signal, sys, charterer_trainer
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with charterer_trainer.save_atomically(sys.argv[1]) as path:
    path.write_text("new")
"""
    subprocess.run([sys.executable, "-c", script, str(last)], env={"PYTHONPATH": str(SOURCE)}, check=False)
    remove_partials(tmp_path)
    assert latest_checkpoint(tmp_path) == last
    assert last.read_text() == "old"


def test_a_file_that_is_saved_again_has_one_sum_the_new_one(tmp_path: Path) -> None:
    for content in ("old", "new"):
        with save_atomically(tmp_path / "last.pt") as path:
            path.write_text(content)
    assert len(os.listdir(tmp_path)) == 2
    (tmp_path / "last.pt").write_text("old")
    assert latest_checkpoint(tmp_path) is None


def test_sums_of_checkpoints_that_somebody_removed_go_at_the_next_start(tmp_path: Path) -> None:
    save(tmp_path, 1).unlink()
    save(tmp_path, 2)
    remove_partials(tmp_path)
    assert len(os.listdir(tmp_path)) == 2
    assert latest_checkpoint(tmp_path) == tmp_path / "step-2.pt"


def test_only_sealed_checkpoints_of_a_library_that_writes_in_place_are_found(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "weights").write_text(str(step))
        if step < 3:
            seal_checkpoint(tmp_path / f"checkpoint-{step}")
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-3"
    assert latest_checkpoint(tmp_path, summed=True) == tmp_path / "checkpoint-2"
    (tmp_path / "checkpoint-2" / "weights").write_text("1")
    assert latest_checkpoint(tmp_path, summed=True) == tmp_path / "checkpoint-1"
    (tmp_path / "checkpoint-1" / "more").touch()
    seal_checkpoint(tmp_path / "checkpoint-1")
    assert latest_checkpoint(tmp_path, summed=True) == tmp_path / "checkpoint-1"
    assert len([name for name in os.listdir(tmp_path) if name.endswith("crc32")]) == 2


FULL = """
import os, pathlib, sys, charterer_trainer
folder, size = pathlib.Path(sys.argv[1]), int(sys.argv[2])
for step in range(1, 4):
    try:
        with charterer_trainer.save_atomically(folder / f"step-{step}.pt") as path:
            path.write_bytes(bytes([step]) * size)
    except OSError as error:
        print(step, os.strerror(error.errno))
newest = charterer_trainer.latest_checkpoint(folder)
print(newest.name, len(newest.read_bytes()), len(list(folder.iterdir())))
charterer_trainer.remove_old_checkpoints(folder, keep=1)
print(*(path.name for path in folder.glob("step*")))
"""


def test_a_disk_that_is_full_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    """A disk of one megabyte, of this process alone, with room for two checkpoints and not for the third."""
    inside = f'mount -t tmpfs -o size=1m charterer "$1" && exec "{sys.executable}" -c "$2" "$1" 400000'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inside, "sh", str(tmp_path), FULL]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=False
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no disk of one's own can be mounted here: {done.stderr.strip()}")
    assert done.stdout.splitlines() == ["3 No space left on device", "step-2.pt 400000 4", "step-2.pt"], done.stderr


def test_the_newest_good_ones_are_kept(tmp_path: Path) -> None:
    for step in range(1, 7):
        save(tmp_path, step)
    remove_old_checkpoints(tmp_path, keep=2)
    assert left(tmp_path) == ["step-5.pt", "step-6.pt"]
    assert len(os.listdir(tmp_path)) == 4


def test_damaged_ones_do_not_count_among_those_that_are_kept(tmp_path: Path) -> None:
    for step in range(1, 6):
        save_folder(tmp_path, step)
    for step in (4, 5):
        (tmp_path / f"step-{step}" / "shards" / "0").write_text("half")
    saves.__init__()  # type: ignore[misc]  # another process removes
    remove_old_checkpoints(tmp_path, keep=1)
    assert left(tmp_path) == ["step-3", "step-4", "step-5"]
    assert latest_checkpoint(tmp_path) == tmp_path / "step-3"


def test_nothing_is_removed_while_no_other_is_good(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        os.truncate(save(tmp_path, step), 3)
    remove_old_checkpoints(tmp_path, keep=1)
    assert left(tmp_path) == ["step-1.pt", "step-2.pt", "step-3.pt"]


def test_what_the_library_did_not_save_and_other_names_stay(tmp_path: Path) -> None:
    (tmp_path / "events-0.log").touch()
    for step in (1, 2):
        save(tmp_path, step)
    with save_atomically(tmp_path / "vocabulary-0") as path:
        path.touch()
    remove_old_checkpoints(tmp_path, 1, "step-*")
    assert left(tmp_path) == ["events-0.log", "step-2.pt", "vocabulary-0"]


def test_the_newest_cannot_be_removed(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with pytest.raises(ValueError, match="keep is 0"):
        remove_old_checkpoints(tmp_path, keep=0)
