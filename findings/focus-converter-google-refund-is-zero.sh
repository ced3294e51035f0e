#!/bin/sh
# focus-converter 1.0.0 (with the versions of its libraries that it still runs with).
#
# It makes a FOCUS bill of Google Cloud's detailed export. Where the cost of a row and its credits come to less than zero, it writes
# an EffectiveCost of 0. A refund of 50 dollars is such a row: here the invoice is 20 dollars, the EffectiveCost 70. Its BilledCost
# is the cost without any credit: 50. Neither column sums to the invoice, so sum cost and credits of Google's own export.
set -eu

version=1.0.0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "focus-converter==$version" "multimethod==1.10" "typer==0.9.4" \
    "click==8.1.7" "polars==0.20.10" "pyarrow==14.0.2"
cd "$folder"
cat > make.py <<'PROGRAM'
from datetime import datetime, timezone

import pyarrow
import pyarrow.parquet


def row(kind, cost, credit):
    return {
        "billing_account_id": "000000-000000-000000", "cost": cost, "cost_at_list": cost, "cost_type": kind, "currency": "USD",
        "credits": [{"amount": credit, "name": "committed use"}], "invoice": {"month": "202611"}, "seller_name": None,
        "location": {"location": "us-central1", "region": "us-central1", "zone": "us-central1-a"},
        "price": {"tier_start_amount": 0.0}, "resource": {"global_name": "//compute/instances/1", "name": "trainer"},
        "service": {"description": "Compute Engine"}, "sku": {"id": "0000-0000-0000"},
        "usage": {"amount": 3600.0, "amount_in_pricing_units": 1.0, "pricing_unit": "hour", "unit": "seconds"},
        "usage_start_time": datetime(2026, 11, 1, 10, tzinfo=timezone.utc),
        "usage_end_time": datetime(2026, 11, 1, 11, tzinfo=timezone.utc),
    }


bill = [row("regular", 100.0, -30.0), row("adjustment", -50.0, 0.0)]
pyarrow.parquet.write_table(pyarrow.Table.from_pylist(bill), "google.parquet")
print("invoice", sum(row["cost"] + row["credits"][0]["amount"] for row in bill))
PROGRAM
cat > sum.py <<'PROGRAM'
from pathlib import Path

import polars

(file,) = Path("focus").iterdir()
bill = polars.read_parquet(file)
print("BilledCost", *bill["BilledCost"], "in all", bill["BilledCost"].sum())
print("EffectiveCost", *bill["EffectiveCost"], "in all", bill["EffectiveCost"].sum())
PROGRAM
mkdir focus
{
    venv/bin/python make.py
    venv/bin/focus-converter convert --provider gcp --data-format parquet --parquet-data-format file --data-path google.parquet \
        --export-path focus/ --export-format parquet > /dev/null
    venv/bin/python sum.py
} > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
invoice 20.0
BilledCost 100.0 -50.0 in all 50.0
EffectiveCost 70.0 0.0 in all 70.0
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "focus-converter $version: as described"
