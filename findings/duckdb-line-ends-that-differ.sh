#!/bin/sh
# duckdb 1.5.6.
#
# A CSV file whose header ends in CRLF and whose rows end in LF, as when files of two systems are put together:
#
# - With new_line='\n', which most of its lines have, it is read without an error, and without a row: the result is empty. Whoever adds
#   up such a file gets nothing and no word of it.
# - Without that option it is refused if its cells are quoted. The error is about an unterminated quote, which there is none; neither it
#   nor the fixes that it proposes name the ends of lines. With strict_mode=false, which is proposed first, the file is read.
set -eu

version=1.5.6
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "duckdb==$version"
cd "$folder"
cat > program.py <<'PROGRAM'
import duckdb


def read(name: str, option: str = "") -> list:
    columns = "columns={'a': 'VARCHAR', 'b': 'VARCHAR'}"
    options = f"""header=true, auto_detect=false, {columns}, delim=',', quote='"', escape='"'{option}"""
    return duckdb.sql(f"FROM read_csv('{name}.csv', {options})").fetchall()


for name, content in {
    "plain": b"a,b\n1,2\n3,4\n",
    "mixed": b"a,b\r\n1,2\n3,4\n",
    "quoted": b'"a","b"\r\n"1","2"\n"3","4"\n',
}.items():
    with open(f"{name}.csv", "wb") as file:
        file.write(content)
for name in ("plain", "mixed"):
    print(name, read(name, r", new_line='\n'"))
try:
    print(read("quoted"))
except duckdb.InvalidInputException as error:
    lines = str(error).splitlines()
    print(lines[0])
    print([line for line in lines if "quote found" in line], "new line" in str(error).lower(), "CRLF" in str(error))
print(read("quoted", ", strict_mode=false"))
PROGRAM
venv/bin/python program.py > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
plain [('1', '2'), ('3', '4')]
mixed []
Invalid Input Error: CSV Error on Line: 2
['Value with unterminated quote found.'] False False
[('1', '2'), ('3', '4')]
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "duckdb $version: as described"
