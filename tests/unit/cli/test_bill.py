"""``charterer bill`` from files to what it prints."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from charterer.cli.main import main
from charterer.cost_record import CostRecord
from charterer.domain.cost_row import CostRow
from tests.factory.cost_rows import MACHINE, cost_row
from tests.unit.cloud_bills.bill_files import aws_focus, google_focus, written

OCTOBER: dict[str, Any] = {"start": "2026-10-05T10:00:00Z", "end": "2026-10-05T11:00:00Z"}


def other(**fields: Any) -> CostRow:
    """A rental of another pool."""
    row = cost_row("16.00", **OCTOBER)
    machine = replace(MACHINE, instance="i-0def")
    return replace(row, rental="v100-1", rental_uid="uid-v100-1", pool="v100", machine=machine, **fields)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Two rentals in October, $16 each."""
    place = tmp_path / "record"
    place.mkdir()
    asyncio.run(CostRecord(str(place)).write([cost_row("16.00", **OCTOBER), other()]))
    return place


def bill(record: Path, files: Sequence[Path], *options: str) -> Result:
    return CliRunner().invoke(main, ["bill", *map(str, files), "--record", str(record), *options])


def test_the_table_has_a_row_for_each_pool_and_what_the_difference_is_because_of(tmp_path: Path, record: Path) -> None:
    disk = aws_focus("2", ResourceId="vol-1", SkuMeter="EBS:VolumeUsage")
    rows = [aws_focus("16"), aws_focus("17.5", "i-0def"), disk]
    done = bill(record, [written(tmp_path / "bill.csv", rows)])
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.output.splitlines()[:4]]
    assert lines == [
        ["MONTH", "BUDGET", "POOL", "LEDGER", "BILL", "DIFFERENCE", "BECAUSE", "OF"],
        ["2026-10", "research", "a100", "$16.00", "$18.00", "+$2.00", "disk", "+$2.00"],
        ["2026-10", "research", "v100", "$16.00", "$17.50", "+$1.50", "price", "+$1.50"],
        ["total", "$32.00", "$35.50", "+$3.50", "disk", "+$2.00,", "price", "+$1.50"],
    ]
    assert "The bill of aws covers 2026-10-05T10:00Z to 2026-10-05T11:00Z" in done.output


def test_json_has_exact_amounts_that_add_up(tmp_path: Path, record: Path) -> None:
    path = written(tmp_path / "bill.parquet", [aws_focus("16.0000004"), aws_focus("17.000001", "i-0def")])
    done = bill(record, [path], "--by", "rental", "-o", "json")
    found = json.loads(done.output)
    assert found["files"] == [{"path": str(path), "format": "FOCUS"}]
    assert [(each["rental"], each["bill"], each["causes"]) for each in found["differences"]] == [
        ("a100-7", "16.00", {}),
        ("v100-1", "17.000001", {"price": "1.000001"}),
    ]
    assert (found["total"]["difference"], found["total"]["rentals"], found["linesRead"]) == ("1.000001", 2, 2)


def test_no_text_of_a_bill_becomes_a_formula_in_a_spreadsheet(tmp_path: Path, record: Path) -> None:
    tags = json.dumps({"user:charterer.dev:pool": "=cmd|' /C calc'!A0"})
    stray = aws_focus("-3", ResourceId="@SUM(A1)", Tags=tags)
    done = bill(record, [written(tmp_path / "bill.csv", [stray])], "--by", "pool,rental", "-o", "csv")
    (found,) = [row for row in csv.DictReader(StringIO(done.output)) if row["not_in_the_ledger"] != "0.00"]
    assert (found["pool"], found["machine"]) == ("'=cmd|' /C calc'!A0", "'@sum(a1)")
    assert found["difference"] == found["not_in_the_ledger"] == "-3.00"


def test_csv_has_the_same_columns_whatever_is_in_it(tmp_path: Path, record: Path) -> None:
    path = written(tmp_path / "bill.csv", [aws_focus("16")])
    headers = {bill(record, [path], "--by", by, "-o", "csv").output.splitlines()[0] for by in ("month", "rental")}
    assert len(headers) == 1


def test_signs_that_a_terminal_obeys_are_shown_as_escapes(tmp_path: Path, record: Path) -> None:
    stray = aws_focus("1", ResourceId="i-\x1b[2J", Tags='{"user:charterer.dev:pool": "p"}')
    done = bill(record, [written(tmp_path / "bill.csv", [stray])], "--by", "rental")
    assert "i-\\u001b[2j" in done.output


@pytest.mark.parametrize(
    ("months", "ledger"), [(["--month", "2026-10"], "32.00"), (["--month", "2026-09"], "0.00")], ids=["there", "not"]
)
def test_only_the_months_that_are_asked_for_are_shown(
    tmp_path: Path, record: Path, months: list[str], ledger: str
) -> None:
    path = written(tmp_path / "bill.csv", [aws_focus("16")])
    found = json.loads(bill(record, [path], *months, "-o", "json").output)
    assert found["total"]["ledger"] == ledger


def test_what_is_missing_on_either_side_is_told_in_a_sentence(tmp_path: Path, record: Path) -> None:
    stray = aws_focus("5", "i-0bad")
    done = bill(record, [written(tmp_path / "bill.csv", [aws_focus("16"), stray, stray])])
    assert "1 billed thing with Charterer's tags is in no recorded rental ($10.00): i-0bad." in done.output
    assert "1 rental is not on the bill (-$16.00): v100-1." in done.output
    assert "Warning: 1 line is there more than once" in done.output


def test_clouds_without_a_bill_are_told(tmp_path: Path, record: Path) -> None:
    done = bill(record, [written(tmp_path / "bill.csv", [google_focus("1")])])
    assert "$32.00 of the ledger is for aws, of which there is no bill here; it is not compared." in done.output


@pytest.mark.parametrize(
    ("rows", "exit_code", "said"),
    [
        ([aws_focus("16"), aws_focus("16", "i-0def")], 0, ""),
        ([aws_focus("16"), aws_focus("17", "i-0def")], 0, ""),
        ([aws_focus("16"), aws_focus("16", "i-0def"), aws_focus("1", "i-0bad")], 3, "is in no recorded rental"),
        ([aws_focus("16")], 3, "is not on the bill"),
        ([aws_focus("16", Tags=""), aws_focus("16", "i-0def", Tags="")], 4, "2 machines of the ledger are on its bill"),
    ],
    ids=["fine", "dearer", "stray", "absent", "tags-not-activated"],
)
def test_exit_codes_tell_what_is_found_from_what_is_unknown(
    tmp_path: Path, record: Path, rows: list[dict[str, str]], exit_code: int, said: str
) -> None:
    done = bill(record, [written(tmp_path / "bill.csv", rows)])
    assert (done.exit_code, said in done.output) == (exit_code, True)


def test_a_file_without_tags_says_that_strays_are_unknown(tmp_path: Path, record: Path) -> None:
    rows = [aws_focus("16"), aws_focus("16", "i-0def")]
    path = written(tmp_path / "bill.csv", [{k: v for k, v in row.items() if k != "Tags"} for row in rows])
    found = json.loads(bill(record, [path], "-o", "json").output)
    assert found["found"] == []
    assert found["unknown"][0] == (
        f"{path}: not known is whether it bills a machine with Charterer's tags that no rental had: it has no column "
        "Tags or x_Labels."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "colour"], "'colour': write one or more of month, budget, pool, rental, with commas"),
        (["--month", "October"], "'October' is no month: write year and month, like 2026-11"),
    ],
)
def test_wrong_options_say_what_is_possible(tmp_path: Path, record: Path, arguments: list[str], message: str) -> None:
    done = bill(record, [written(tmp_path / "bill.csv", [aws_focus("1")])], *arguments)
    assert done.exit_code == 1
    assert message in done.output


def test_a_wrong_file_is_one_error_and_nothing_else(tmp_path: Path, record: Path) -> None:
    path = written(tmp_path / "bill.csv", [aws_focus("1", BillingCurrency="EUR")])
    done = bill(record, [path])
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        f"Error: {path} line 2 column BillingCurrency 'EUR': bills are compared in USD only, and nothing is "
        "converted: choose USD in the export, or leave this bill out"
    ]


def test_a_record_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = bill(tmp_path / "nowhere", [written(tmp_path / "bill.csv", [aws_focus("1")])])
    assert done.exit_code == 1
    assert "nowhere" in done.output


def test_without_duckdb_the_command_says_what_to_install(
    tmp_path: Path, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("charterer.tools.commands.bill.find_spec", lambda name: None)
    done = bill(record, [written(tmp_path / "bill.csv", [aws_focus("16")])])
    assert done.exit_code == 1
    assert "pip install '.[bill]' in a checkout" in done.stderr
