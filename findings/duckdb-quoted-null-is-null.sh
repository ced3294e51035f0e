#!/bin/sh
# duckdb 1.5.6.
#
# nullstr names text that means null. It also holds for a quoted cell, so that the text NULL, which an author put into quotes to say that
# it is text, is null as well; allow_quoted_nulls=false is the other way. For bills, whose samples have NULL for nothing, that is what one wants.
set -eu

version=1.5.6
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "duckdb==$version"
cd "$folder"
cat > program.py <<'PROGRAM'
import duckdb

with open("nulls.csv", "w") as file:
    file.write('a,b\nNULL,"NULL"\n')
for option in ("", ", allow_quoted_nulls=false"):
    print(duckdb.sql(f"""FROM read_csv('nulls.csv', header=true, auto_detect=false, columns={{'a': 'VARCHAR', 'b': 'VARCHAR'}},
        delim=',', quote='"', escape='"', nullstr='NULL'{option})""").fetchall())
PROGRAM
venv/bin/python program.py > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
[(None, None)]
[(None, 'NULL')]
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "duckdb $version: as described"
