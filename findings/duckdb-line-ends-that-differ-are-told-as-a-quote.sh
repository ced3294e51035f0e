#!/bin/sh
# duckdb 1.5.6.
#
# A CSV file whose header ends in CRLF and whose rows end in LF, as when files of two systems are put together, is refused. The error is
# about line 2 and an unterminated quote, which there is none; neither it nor the fixes that it proposes name the ends of lines. With
# strict_mode=false, which is proposed first, the file is read.
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
    file.write(b'"a","b"\r\n"1","2"\n"3","4"\n')
read = """FROM read_csv('mixed.csv', header=true, auto_detect=false, columns={'a': 'VARCHAR', 'b': 'VARCHAR'},
    delim=',', quote='"', escape='"'"""
try:
    print(duckdb.sql(f"{read})").fetchall())
except duckdb.InvalidInputException as error:
    lines = str(error).splitlines()
    print(lines[0])
    print([line for line in lines if "quote found" in line], "new line" in str(error).lower(), "CRLF" in str(error))
print(duckdb.sql(f"{read}, strict_mode=false)").fetchall())
PROGRAM
venv/bin/python program.py > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
Invalid Input Error: CSV Error on Line: 2
['Value with unterminated quote found.'] False False
[('1', '2'), ('3', '4')]
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "duckdb $version: as described"
