#!/bin/sh
# duckdb 1.5.6.
#
# A cast to TIMESTAMPTZ that may fail (TRY_CAST) is no check that a text is a time of this age: infinity and epoch are times, and so is a year
# that Python's datetime cannot hold. A column that is said to be times has to be compared with bounds.
set -eu

version=1.5.6
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "duckdb==$version"
cd "$folder"
cat > program.py <<'PROGRAM'
import duckdb

for text in ("infinity", "epoch", "294000-01-01", "10/05/2026", "2026-10-05"):
    query = "SELECT TRY_CAST(? AS TIMESTAMPTZ) IS NOT NULL, TRY_CAST(? AS TIMESTAMPTZ) > '9999-12-31'::TIMESTAMPTZ"
    print(text, *duckdb.execute(query, [text, text]).fetchone())
PROGRAM
venv/bin/python program.py > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
infinity True True
epoch True False
294000-01-01 True True
10/05/2026 False None
2026-10-05 True False
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "duckdb $version: as described"
