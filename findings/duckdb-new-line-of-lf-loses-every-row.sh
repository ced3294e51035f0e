#!/bin/sh
# duckdb 1.5.6.
#
# The same file with new_line='\n', which most of its lines have, is read without an error, and without a row: the result is empty.
# Whoever adds up such a file gets nothing and no word of it.
set -eu

version=1.5.6
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "duckdb==$version"
cd "$folder"
cat > program.py <<'PROGRAM'
import duckdb

with open("mixed.csv", "wb") as file:
    file.write(b"a,b\r\n1,2\n3,4\n")
with open("plain.csv", "wb") as file:
    file.write(b"a,b\n1,2\n3,4\n")
for name in ("plain", "mixed"):
    print(name, duckdb.sql(f"""FROM read_csv('{name}.csv', header=true, auto_detect=false, columns={{'a': 'VARCHAR', 'b': 'VARCHAR'}},
        delim=',', quote='"', escape='"', new_line='\\n')""").fetchall())
PROGRAM
venv/bin/python program.py > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
plain [('1', '2'), ('3', '4')]
mixed []
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "duckdb $version: as described"
