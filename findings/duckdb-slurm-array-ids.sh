#!/bin/sh
# duckdb 2.0.1 on `sacct -P`, Python 3.10 or newer.
#
# Slurm calls the fifth task of array 1234 "1234_5" (sacct's manual, JobID). DuckDB's conversion of text to an integer leaves out
# underscores between digits, as its grammar does for numbers in SQL text: '1234_5' becomes 12345, the number of another job. The
# CSV reader's own search for types does not, so the column arrives as text; the usual next step is a conversion that keeps jobs
# and drops steps ("1234.batch"), and that one joins the tasks of an array with other jobs:
#
#     TRY_CAST(JobID AS BIGINT): [(1236, 1, 60), (12345, 2, 7300)]
#
# DuckDB's page "Literal types" has the underscore under numeric literals; of conversions it shows hexadecimal and binary text. Whoever
# counts GPU-hours by job must ask for digits first (regexp_full_match(JobID, '\d+')) or take JobIDRaw.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check duckdb==2.0.1
cd "$folder"
cat > jobs.txt <<'SACCT'
JobID|State|ElapsedRaw
1234_5|COMPLETED|7200
1234_5.batch|COMPLETED|7200
1236|COMPLETED|60
12345|COMPLETED|100
SACCT
venv/bin/python - <<'PYTHON'
import duckdb

READ = "FROM read_csv('jobs.txt', delim = '|')"
kind = duckdb.sql(f"SELECT any_value(typeof(JobID)) {READ}").fetchall()[0]
print(f"type that the reader finds: {kind[0]}")
jobs = duckdb.sql(
    f"SELECT TRY_CAST(JobID AS BIGINT) AS job, count(*), sum(ElapsedRaw)::BIGINT {READ} WHERE job IS NOT NULL GROUP BY job ORDER BY job"
).fetchall()
print(f"TRY_CAST(JobID AS BIGINT): {jobs}")
assert kind == ("VARCHAR",), "changed: the reader itself takes the column for a number"
assert jobs == [(1236, 1, 60), (12345, 2, 7300)], "changed: a task of an array is no longer counted as another job"
print(f"duckdb {duckdb.__version__}: task 5 of array 1234 is converted to job 12345")
PYTHON
