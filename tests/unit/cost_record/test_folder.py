"""The record of costs in a folder of a real disk: what is read is what was written, whatever happens meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest

from charterer.cost_record import (
    CostRecord,
    DamagedRecord,
    RecordUnavailable,
    UnreadableLine,
    decoded,
    encoded,
)
from charterer.domain.budget import JobTime
from charterer.domain.cost_row import CostRow
from charterer.domain.money import Money
from tests.factory.cost_rows import cost_row, in_any_order, payer

NOVEMBER = ["2026-11"]


def rows_of(folder: Path, months: list[str] = NOVEMBER, budgets: list[str] | None = None) -> list[CostRow]:
    return in_any_order(CostRecord(str(folder)).read(months, budgets))


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


async def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    odd = payer(
        "vision/vit", {"team": "perception, west", "cost-centre": '=cmd|"x"'}, user="åda\nlovelace", job_class=""
    )
    rows = [
        cost_row("10.123456", odd, hourly=Money.parse("12.345678")),
        cost_row("0.000001"),
        cost_row("-0.5", correction=True, gpu_seconds=0, part=1),
    ]
    await CostRecord(str(tmp_path)).write(rows)
    assert rows_of(tmp_path) == in_any_order(rows)


async def test_what_a_jobs_cost_went_to_is_read_as_it_was_written(tmp_path: Path) -> None:
    known = {JobTime.REDONE: Money.parse("2.000001"), JobTime.TRAINED: Money.parse("7")}
    rows = [cost_row("10", payer(), went_to=known), cost_row("1", part=1)]
    await CostRecord(str(tmp_path)).write(rows)
    assert rows_of(tmp_path) == in_any_order(rows)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('{"redone": "11.00"}', "no part of a cost of 10.00"),
        ('{"redone": "-1.00"}', "no part of a cost of 10.00"),
        ('{"asleep": "1.00"}', "'asleep' is not a valid JobTime"),
        ('["redone"]', "has no attribute 'items'"),
    ],
)
def test_a_row_whose_cost_went_to_what_it_cannot_is_refused(written: str, said: str) -> None:
    line = encoded([cost_row("10", payer(), went_to={JobTime.REDONE: Money.parse("2")})])
    with pytest.raises(UnreadableLine, match=said):
        decoded(line.replace(b'{"redone": "2.00"}', written.encode()))


async def test_a_batch_that_is_written_twice_is_one_file_whatever_its_order(tmp_path: Path) -> None:
    rows = [cost_row("1.5"), cost_row("2.5", payer())]
    record = CostRecord(str(tmp_path))
    await record.write(rows)
    await record.write(rows[::-1])
    assert len(files_of(tmp_path)) == 1
    assert rows_of(tmp_path) == in_any_order(rows)


async def test_a_part_in_several_batches_counts_once_and_in_its_highest_version(tmp_path: Path) -> None:
    first = [cost_row("6", payer("vision/vit"), version=7), cost_row("4", version=7)]
    later = [cost_row("5", payer("vision/vit"), version=9), cost_row("2", payer("nlp/bert"), version=9)]
    other = cost_row("3", rental_uid="uid-a100-8", version=8)
    record = CostRecord(str(tmp_path))
    for batch in (later, first, [*later, other]):
        await record.write(batch)
    assert rows_of(tmp_path) == in_any_order([*later, other])


@pytest.mark.parametrize("kept", [0, 1_000, 1_000_000])
async def test_a_month_of_more_files_than_are_kept_or_fetched_at_once_is_read_whole(
    tmp_path: Path, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"_KEPT_BYTES": kept, "_PACKET": 2}.items():
        monkeypatch.setattr(f"charterer.cost_record.{name}", value)
    rows = [cost_row(f"{number}", rental_uid=f"uid-{number}") for number in range(1, 12)]
    for row in rows:
        await CostRecord(str(tmp_path)).write([row])
    assert len(files_of(tmp_path)) == 11
    assert rows_of(tmp_path) == in_any_order(rows)


async def test_a_row_is_in_the_month_of_its_budgets_time_zone(tmp_path: Path) -> None:
    new_year = cost_row("1", start="2026-12-31T23:30:00Z", end="2026-12-31T23:40:00Z", time_zone="Europe/Berlin")
    old_year = cost_row("2", start="2026-12-31T23:30:00Z", end="2026-12-31T23:40:00Z", budget="nlp")
    await CostRecord(str(tmp_path)).write([new_year, old_year])
    assert rows_of(tmp_path, ["2027-01"]) == [new_year]
    assert rows_of(tmp_path, ["2026-12"]) == [old_year]
    assert rows_of(tmp_path, ["2026-12", "2027-01"], ["nlp"]) == [old_year]
    assert CostRecord(str(tmp_path)).months() == {"nlp": ["2026-12"], "research": ["2027-01"]}


async def test_what_else_is_on_the_volume_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lost+found" / "2026-11").mkdir(parents=True)
    (tmp_path / "research" / "old").mkdir(parents=True)
    (tmp_path / "research" / "2026-11").mkdir()
    (tmp_path / "research" / "2026-11" / "notes.txt").write_text("ask finance")
    (tmp_path / "README").write_text("who reads this")
    await CostRecord(str(tmp_path)).write([cost_row("1")])
    assert rows_of(tmp_path) == [cost_row("1")]
    assert CostRecord(str(tmp_path)).months() == {"research": ["2026-11"]}


def damage(content: bytes) -> list[tuple[bytes, int, str]]:
    """What may happen to a file of three lines: its content then, the line that is named, and the cause."""
    first, second, third = content.splitlines(keepends=True)
    return [
        (content[:-40], 3, "no JSON"),
        (first + second, 2, "something was changed or is missing"),
        (first + second.replace(b'"cost": "2', b'"cost": "3') + third, 3, "something was changed or is missing"),
        (first + b"\n" + second + third, 2, "no JSON"),
        (first + b"[]\n" + third, 2, "no JSON object"),
        (first + second.replace(b'"format": 1', b'"format": 2'), 2, "its format is 2"),
        (first.replace(b'"rentalUid"', b'"rental-uid"') + second, 1, "does not begin with format, rentalUid, part"),
        (first.replace(b'"part": 0', b'"part": "0"') + second, 1, "does not begin with format, rentalUid, part"),
        (first + second.replace(b'"part": 0', b'"part": %s' % (b"9" * 5000)) + third, 2, "number out of range"),
        (first + second.replace(b'"rentalUid": "uid', b'"rentalUid": "\xff') + third, 2, "it is no text in UTF-8"),
        (first + b"[" * 20_000 + b"\n" + third, 2, "it is no JSON"),
    ]


@pytest.mark.parametrize("number", range(11))
async def test_a_damaged_file_is_named_with_its_line(tmp_path: Path, number: int) -> None:
    await CostRecord(str(tmp_path)).write([cost_row(cost, rental_uid=f"uid-{cost}") for cost in ("1", "2", "3")])
    [file] = files_of(tmp_path)
    content, line, cause = damage(file.read_bytes())[number]
    file.write_bytes(content)
    with pytest.raises(DamagedRecord) as caught:
        rows_of(tmp_path)
    message = str(caught.value)
    assert f"line {line} of research/2026-11/{file.name} in the record of costs at {tmp_path}" in message
    assert cause in message


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        (b'"cost": "1.00"', b'"cost": "1,00"', "'1,00' is no amount of money"),
        (b'"cause": "idle"', b'"cause": "lost"', "'lost' is not a valid Cause"),
        (b'"start": "2026', b'"start": "x2026', "isoformat"),
        (b'"zone": ', b'"zones": ', "zone is missing"),
        (b'"payer": null', b'"payer": "ada"', "string indices"),
        (b'"gpuSeconds": 3600', b'"gpuSeconds": "3600"', "gpuSeconds is '3600', which is no whole number"),
        (b'"gpuSeconds": 3600', b'"gpuSeconds": true', "gpuSeconds is True"),
        (b'"gpuSeconds": 3600', b'"gpuSeconds": %s' % (b"9" * 400), "gpuSeconds is not below 1,000,000,000,000,000"),
        (b'"timeZone": "UTC"', b'"timeZone": "../../etc/passwd"', "timeZone is '../../etc/passwd', which is no time"),
        (b'"timeZone": "UTC"', b'"timeZone": "Nowhere/Here"', "which is no time zone"),
        (b'"timeZone": "UTC"', b'"timeZone": ["UTC"]', "unhashable|which is no time zone"),
        (b'"correction": false', b'"correction": 0', "correction is 0"),
        (b'"budgetUid": "uid', b'"budgetUid": 7, "x": "uid', "budgetUid is 7, which is no text"),
        (b'"gpus": 8', b'"gpus": "8"', "gpus is '8'"),
        (b'"zone": "us-east-1a"', b'"zone": 7', "zone is 7"),
    ],
)
async def test_a_wrong_field_is_named_even_if_the_digest_is_right(
    tmp_path: Path, old: bytes, new: bytes, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("charterer.cost_record._digest", lambda content: "0" * 32)
    await _refused(tmp_path, cost_row("1"), old, new, cause)


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        (b'"run": 1', b'"run": "=1+1"', "run is '=1\\+1', which is no whole number"),
        (b'"labels": {', b'"labels": [], "x": {', "labels is \\[\\], which is no object"),
        (b'"team": "perception"', b'"team": ["perception"]', "team is"),
        (b'"user": "ada"', b'"user": null', "user is None, which is no text"),
    ],
)
async def test_so_is_one_of_whom_it_is_for(
    tmp_path: Path, old: bytes, new: bytes, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("charterer.cost_record._digest", lambda content: "0" * 32)
    await _refused(tmp_path, cost_row("1", payer("vision/vit")), old, new, cause)


async def _refused(place: Path, row: CostRow, old: bytes, new: bytes, cause: str) -> None:
    """That a row with this in its line is not read, for this cause."""
    await CostRecord(str(place)).write([row])
    [file] = files_of(place)
    assert old in file.read_bytes()
    file.write_bytes(file.read_bytes().replace(old, new))
    with pytest.raises(DamagedRecord, match=r"line 1 of .*" + cause):
        rows_of(place)


async def test_a_folder_that_is_missing_is_not_made(tmp_path: Path) -> None:
    place = tmp_path / "record"
    says = f"the record of costs in {place} cannot be written: No such file or directory; mount the volume"
    with pytest.raises(RecordUnavailable, match=says):
        await CostRecord(str(place)).write([cost_row("1")])
    assert not place.exists()
    with pytest.raises(RecordUnavailable, match="cannot be read: No such file or directory"):
        rows_of(place)


async def test_a_file_in_place_of_the_folder_is_said(tmp_path: Path) -> None:
    place = tmp_path / "record"
    place.write_text("")
    with pytest.raises(RecordUnavailable, match="cannot be written: Not a directory"):
        await CostRecord(str(place)).write([cost_row("1")])
    with pytest.raises(RecordUnavailable, match="cannot be read: Not a directory"):
        rows_of(place)


async def test_a_link_to_itself_and_a_file_without_end_are_said(tmp_path: Path) -> None:
    await CostRecord(str(tmp_path)).write([cost_row("1")])
    [file] = files_of(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(RecordUnavailable, match=r"cannot be read: Too many levels of symbolic links \(.*/loop\); move"):
        CostRecord(str(tmp_path)).months()
    (tmp_path / "loop").unlink()
    os.truncate(file, 100 * 2**30)
    with pytest.raises(RecordUnavailable, match=r"jsonl in the record of costs has 107,374,182,400 bytes"):
        rows_of(tmp_path)


@contextmanager
def as_nobody() -> Iterator[None]:
    """As a user without rights, for whom a folder may be forbidden: it never is for root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def forbidden() -> Iterator[Path]:
    """A folder into which nobody may write."""
    place = Path(mkdtemp())
    place.chmod(0o500)
    yield place
    shutil.rmtree(place)


async def test_a_forbidden_folder_is_said_and_works_once_it_is_allowed(forbidden: Path) -> None:
    record, rows = CostRecord(str(forbidden)), [cost_row("1")]
    says = f"{forbidden} cannot be written: Permission denied .*; give the user of this process the right to it"
    with as_nobody(), pytest.raises(RecordUnavailable, match=says):
        await record.write(rows)
    os.chmod(forbidden, 0o777)
    with as_nobody():
        await record.write(rows)
    assert rows_of(forbidden) == rows


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a full disk needs the right to mount one")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


async def test_a_full_disk_is_said_keeps_no_half_file_and_takes_the_rows_when_it_has_room(
    small_disk: Path,
) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 40_000)
    rows = [cost_row("1", rental_uid=f"uid-{number}") for number in range(60)]
    record = CostRecord(str(small_disk))
    with pytest.raises(RecordUnavailable, match="No space left on device; make room there, or enlarge the volume"):
        await record.write(rows)
    assert files_of(small_disk) == [filler]
    assert rows_of(small_disk) == []
    filler.unlink()
    await record.write(rows)
    assert rows_of(small_disk) == in_any_order(rows)


def test_a_writer_that_is_killed_at_any_step_leaves_whole_files_and_the_next_one_completes_them(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.unit.cost_record.killed_writer", str(tmp_path)]
    done = subprocess.run(program, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout)
    assert {then for then, _ in seen} == {0, 40, 80}
    assert {after for _, after in seen} == {80}
    assert len(seen) > 10
