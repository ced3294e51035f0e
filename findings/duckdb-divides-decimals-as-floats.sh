#!/bin/sh
# duckdb 1.5.6.
#
# Sums, differences and products of DECIMAL columns are exact decimals; a quotient is DOUBLE. An amount of money that is shared by a division
# loses its last digits without a cast anywhere in the query. Hours have to become seconds by multiplying, and not by dividing.
set -eu

version=1.5.6
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "duckdb==$version"
cd "$folder"
cat > program.py <<'PROGRAM'
import duckdb

print(duckdb.sql("""SELECT typeof(a * b), typeof(a + b), typeof(a / b), a / b
    FROM (SELECT 10000000000000.01::DECIMAL(18, 2) AS a, 3.00::DECIMAL(18, 2) AS b)""").fetchall())
PROGRAM
venv/bin/python program.py > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
[('DECIMAL(18,4)', 'DECIMAL(18,2)', 'DOUBLE', 3333333333333.3364)]
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "duckdb $version: as described"
