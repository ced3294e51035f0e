#!/bin/sh
# duckdb 2.0.1 on a cost export of Azure, Python 3.10 or newer.
#
# Azure's cost exports write dates month first, MM/DD/YYYY, and offer no other form (azure-powershell issue 20185, open).
# If read_csv is left to find the format, and no day of its sample is above 12, it takes the first number as the day. So the export of
# a month that is twelve days old has one day in each month of the year, and tomorrow's export of the same month is right:
#
#     until 11/12/2026: 2026-01-11 to 2026-12-11, 12 months
#     until 11/13/2026: 2026-11-01 to 2026-11-13, 1 month
#
# DuckDB's page on auto-detection says that it has a list of preferences for such cases. Nothing in the answer tells that it guessed: the
# type is DATE in both, no row is refused, and the sum of the whole file is the same. Whoever reads exports each day must
# name the format (dateformat = '%m/%d/%Y'). What is wrong on twelve days of each month passes any test made on a whole month.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1
cd "$folder"
venv/bin/python - <<'PYTHON'
import duckdb

MONTHS = """
    SELECT min(date)::VARCHAR, max(date)::VARCHAR, count(DISTINCT month(date)), any_value(typeof(date)), round(sum(costInUsd), 2)
    FROM read_csv({})
"""


def export(last: int) -> str:
    rows = [f"11/{day:02}/2026,virtualMachines,98.32" for day in range(1, last + 1)]
    name = f"until-{last}.csv"
    with open(name, "w") as file:
        file.write("\n".join(["date,meterCategory,costInUsd", *rows, ""]))
    return name


guessed, certain = export(12), export(13)
found = {}
for options in (f"'{guessed}'", f"'{certain}'", f"'{guessed}', dateformat = '%m/%d/%Y'"):
    found[options] = duckdb.sql(MONTHS.format(options)).fetchall()[0]
    print(f"read_csv({options}): {found[options]}")
first, second, named = found.values()
assert first[:4] == ("2026-01-11", "2026-12-11", 12, "DATE"), "changed: the first number is not taken as the day"
assert second[:4] == ("2026-11-01", "2026-11-13", 1, "DATE"), "changed: a day above 12 does not decide"
assert named[:3] == ("2026-11-01", "2026-11-12", 1), "changed: the format that is named is not used"
print(f"duckdb {duckdb.__version__}: twelve days of one month are read as twelve months")
PYTHON
