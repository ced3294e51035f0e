#!/bin/sh
# pyarrow 25.0.0 on FOCUS 1.4 in Parquet as focus-data-toolkit 0.14.1 writes it, Python 3.11 or newer.
#
# FOCUS says of ListUnitPrice that its product with PricingQuantity is ListCost: the first check that one makes of a bill. The toolkit
# keeps money exact: each such column is a decimal128 of 38 digits, the most that Parquet readers take. pyarrow gives the product
# of two decimals the sum of their digits and one more, so it refuses to multiply these columns at all, whatever they hold, 1 by 1 too:
#
#     ListUnitPrice decimal128(38, 16), PricingQuantity decimal128(38, 14)
#     multiply: Decimal precision out of range [1, 38]: 77
#     multiply after a cast to decimal256(38, ...): Decimal precision out of range [1, 76]: 77
#     multiply after a cast to decimal256(37, ...): 193 charges, all agree with ListCost
#
# Arrow's page on compute functions has the rule for the digits; that a column of 38 digits can then be multiplied by no other of 38, and
# that the wider type of 76 is short by one too, is left to the reader. Sums work. A cast to double loses what the format keeps.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check focus-data-toolkit==0.14.1 pyarrow==25.0.0
cd "$folder"
venv/bin/focus-toolkit generate --provider aws --focus-version 1.2 --rows 200 --out source >/dev/null
venv/bin/focus-toolkit convert --cost-and-usage source/focus_1_2_cost_and_usage_aws.csv --out bill --output-format parquet \
    --exit-policy pipeline >/dev/null 2>&1
venv/bin/python - <<'PYTHON'
import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet as parquet

bill = parquet.read_table("bill/focus_1_4_cost_and_usage.parquet")
price, quantity, cost = bill["ListUnitPrice"], bill["PricingQuantity"], bill["ListCost"]
print(f"ListUnitPrice {price.type}, PricingQuantity {quantity.type}")
assert price.type.precision == quantity.type.precision == 38, "changed: the toolkit writes fewer digits"


def product(left: pyarrow.ChunkedArray, right: pyarrow.ChunkedArray) -> str:
    try:
        return str(compute.multiply(left, right).type)
    except pyarrow.ArrowInvalid as refused:
        return str(refused)


said = product(price, quantity)
print(f"multiply: {said}")
one = pyarrow.chunked_array([pyarrow.array([1]).cast(price.type)])
assert "precision out of range" in said, "changed: it multiplies"
assert said == product(one, one), "changed: it multiplies 1 by 1"


def wide(digits: int) -> list[pyarrow.ChunkedArray]:
    return [column.cast(pyarrow.decimal256(digits, column.type.scale)) for column in (price, quantity)]


said = product(*wide(38))
print(f"multiply after a cast to decimal256(38, ...): {said}")
assert "[1, 76]: 77" in said, "changed: it multiplies after a cast to the wider type"
differs = compute.subtract(compute.multiply(*wide(37)).cast(pyarrow.float64()), cost.cast(pyarrow.float64()))
worst = compute.max(compute.abs(differs)).as_py()
charges = len(differs.drop_null())
print(f"multiply after a cast to decimal256(37, ...): {charges} charges, largest difference from ListCost {worst:.0e}")
assert charges > 100 and worst < 1e-9, "changed: price times quantity is not the cost"
print(f"pyarrow {pyarrow.__version__}: two exact columns of a bill cannot be multiplied")
PYTHON
