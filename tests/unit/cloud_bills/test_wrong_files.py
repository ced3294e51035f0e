"""A file that is no bill, or has a value that cannot be used, is refused with its place and what to do."""

from __future__ import annotations

import gzip
import os
import zipfile
from pathlib import Path

import pytest

from charterer.tools.cloud_bills.formats import UnreadableBill
from charterer.tools.cloud_bills.reader import open_bills
from tests.unit.cloud_bills.bill_files import Row, aws_focus, csv_text, cur, written


def refusal(*paths: Path) -> str:
    with pytest.raises(UnreadableBill) as raised, open_bills(paths, ["i-0abc"]) as bills:
        list(bills.lines())
    return str(raised.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"BilledCost": "1e30"},
            "column BilledCost '1e30': this is no amount: it should be a decimal number below 10^26",
        ),
        ({"BilledCost": "NaN"}, "column BilledCost 'NaN': this is no amount"),
        ({"ListCost": "Infinity"}, "column ListCost 'Infinity': this is no amount"),
        ({"EffectiveCost": "1.234,56"}, "column EffectiveCost '1.234,56': this is no amount"),
        ({"ConsumedQuantity": "=1+1"}, "column ConsumedQuantity '=1+1': this is no amount"),
        ({"BilledCost": ""}, "column BilledCost '': it is empty"),
        ({"BillingCurrency": "EUR"}, "column BillingCurrency 'EUR': bills are compared in USD only"),
        ({"ChargePeriodStart": "10/05/2026"}, "column ChargePeriodStart '10/05/2026': this is no time"),
        ({"ChargePeriodEnd": "infinity"}, "column ChargePeriodEnd 'infinity': this is no time"),
        ({"ChargePeriodEnd": "9999-01-01T00:00:00Z"}, "column ChargePeriodEnd '9999-01-01T00:00:00Z': this is no time"),
        ({"x_Credits": '{"Amount": 1}'}, "column x_Credits '{\"Amount\": 1}': this is no array of credits"),
        ({"ChargePeriodEnd": "x" * 99}, f"column ChargePeriodEnd '{'x' * 60}…': this is no time"),
    ],
    ids=lambda value: "-".join(map("=".join, value.items()))[:30] if isinstance(value, dict) else "",
)
def test_a_wrong_value_is_named_with_its_line_and_column(tmp_path: Path, fields: dict[str, str], message: str) -> None:
    rows = [aws_focus(cost, **{"x_Credits": "", **more}) for cost, more in (("1", {}), ("2", {}), ("3", fields))]
    path = written(tmp_path / "bill.csv", rows)
    assert refusal(path).startswith(f"{path} line 4 {message}")


@pytest.mark.parametrize(("name", "line"), [("bill.csv.gz", 3), ("bill.parquet", 2)])
def test_lines_are_counted_as_the_file_has_them(tmp_path: Path, name: str, line: int) -> None:
    """A Parquet file has no line for the names of its columns."""
    path = written(tmp_path / name, [aws_focus("1"), aws_focus("?")])
    assert f"line {line} column BilledCost '?'" in refusal(path)


@pytest.mark.parametrize(
    "rows",
    [
        [aws_focus("1"), aws_focus("many", "i-0other", Tags="{}", BillingCurrency="EUR")],
        [aws_focus("1"), aws_focus("1", "i-0other", Tags="{}", ChargePeriodStart="20 o'clock", ChargePeriodEnd="zzz")],
        [cur("1"), cur("x", "", line_item_line_item_type="Tax", resource_tags="{}")],
    ],
    ids=["focus", "focus-times", "cur"],
)
def test_what_is_wrong_with_lines_of_other_things_stops_nothing(tmp_path: Path, rows: list[Row]) -> None:
    with open_bills([written(tmp_path / "bill.csv", rows)], ["i-0abc"]) as bills:
        assert len(list(bills.lines())) == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bill.csv", b"", "it is empty: export or download it again"),
        ("bill.parquet", b"BilledCost,ResourceId\n", "this is no Parquet file, whatever its name says"),
        ("bill.parquet", b"PAR1 and then nothing", "this Parquet file is damaged or ends in its middle"),
        ("bill.csv", "BilledCost\n".encode("utf-16"), "this is UTF-16: save it as UTF-8"),
        ("bill.csv", "Kosten,Währung\n".encode("latin-1"), "its first line is not in UTF-8"),
        ("bill.csv", b"a;b;c\n1;2;3\n", "Google Cloud's detailed export: its columns are a;b;c"),
        ("bill.csv", b"\x00\x01\x02\n\n\n", "neither FOCUS 1.0 to 1.4 nor AWS CUR 2.0"),
        ("bill.csv", b"lineItem/UsageStartDate,x\n", "this is a legacy CUR: export CUR 2.0 or FOCUS"),
        (
            "bill.csv.gz",
            gzip.compress(b"x" * 100, mtime=0)[:-12],
            "it ends in its middle, or is damaged: download it again",
        ),
        ("bill.csv", b"\x28\xb5\x2f\xfd\x00", "this is packed with Zstandard: unpack it first"),
    ],
)
def test_a_file_that_is_no_bill_says_what_it_is(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert message in refusal(path)


def test_a_truncated_archive_is_told_even_if_its_first_lines_are_whole(tmp_path: Path) -> None:
    rows = [aws_focus(f"{n}.{n * 7919 % 1000:03}", ResourceId=f"i-{n * 104729:x}") for n in range(3000)]
    path = tmp_path / "bill.csv.gz"
    whole = gzip.compress(csv_text(rows).encode())
    path.write_bytes(whole[: len(whole) // 2])
    assert "it ends in its middle, or is damaged: download it again" in refusal(path)


def test_a_truncated_csv_file_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bill.csv"
    text = csv_text([aws_focus("1"), aws_focus("2")])
    path.write_text(text[: text.rindex(",") - 200])
    assert "line 3" in refusal(path)


def test_a_line_in_another_encoding_is_told(tmp_path: Path) -> None:
    path = tmp_path / "bill.csv"
    path.write_bytes(csv_text([aws_focus("1", ChargeDescription="Rechenzeit für GPUs")]).encode("latin-1"))
    assert "not in UTF-8" in refusal(path)


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "bill.csv"
    path.write_bytes(b"\xef\xbb\xbf" + csv_text([aws_focus("1")]).replace("\n", "\r\n").encode())
    with open_bills([path], ["i-0abc"]) as bills:
        assert len(list(bills.lines())) == 1


def test_a_format_without_a_needed_column_says_which(tmp_path: Path) -> None:
    row = {key: value for key, value in aws_focus("1").items() if key != "ResourceId"}
    assert "this FOCUS file has no column ResourceId: export it with" in refusal(written(tmp_path / "a.csv", [row]))
    row = {key: value for key, value in cur("1").items() if key != "line_item_resource_id"}
    assert "INCLUDE_RESOURCES" in refusal(written(tmp_path / "b.csv", [row]))


def test_a_file_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "bill.csv", [aws_focus("1")])
    link = tmp_path / "other.csv"
    link.symlink_to(path)
    assert f"this is the same file as {path}: name it once" in refusal(path, link)


def test_a_zip_archive_is_not_taken_for_a_bill(tmp_path: Path) -> None:
    path = tmp_path / "bill.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bill.csv", "x")
    assert "this is a ZIP archive: unpack it first" in refusal(path)


@pytest.mark.parametrize("name", ["it's *.csv", "[a].csv", 'a"b.csv'])
def test_any_name_of_a_file_will_do(tmp_path: Path, name: str) -> None:
    with open_bills([written(tmp_path / name, [aws_focus("1")])], ["i-0abc"]) as bills:
        assert len(list(bills.lines())) == 1


def test_a_header_without_lines_is_a_bill_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bill.csv"
    path.write_text(csv_text([aws_focus("1")]).splitlines()[0] + "\n")
    with open_bills([path], ["i-0abc"]) as bills:
        assert (bills.covered, bills.lines_read, list(bills.lines())) == ({}, 0, [])


def test_amounts_whose_sum_has_no_room_are_refused(tmp_path: Path) -> None:
    rows = [aws_focus("9e25"), aws_focus("9e25", ConsumedQuantity="2")]
    assert "amounts of one machine add up to more than 10^26 dollars" in refusal(written(tmp_path / "a.csv", rows))


def test_a_column_that_is_there_twice_is_told(tmp_path: Path) -> None:
    path = tmp_path / "bill.csv"
    path.write_text(csv_text([aws_focus("1")]).replace("ServiceName", "ServiceCategory", 1))
    assert str(path) in refusal(path)


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "bill.csv"
    os.mkfifo(pipe)
    assert "it is no regular file: save it first" in refusal(pipe)
