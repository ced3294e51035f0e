#!/bin/sh
# slurm2sql 0.9.9 (imports sacct into SQLite, with a view of each job's efficiency), Python 3.10 or newer.
#
# The view `eff` has three columns of GPUs: gpu_s_reserved, gpu_s_used and GpuEff. In Slurm's TRESUsageInTot, gres/gpuutil is the sum
# over a job's GPUs in percent (400 for four busy ones; slurm2sql's own comment says that it can be over 100). GpuEff divides by the number
# of GPUs. gpu_s_used does not: it multiplies the seconds by the number of GPUs once more. One job of 4 GPUs that were all
# busy for an hour, and its row:
#
#     gpu_s_reserved 14400, gpu_s_used 57600, GpuEff 1.0
#
# So seconds used exceed seconds reserved by the number of GPUs, and a sum over users favours those of wide jobs by their width. The
# README promises efficiency and does not define the columns. The project's issue 18 (open) reports the same of an earlier GpuEff, which
# is right by now; this column was left. Right is gpu_s_reserved * GpuEff.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check slurm2sql==0.9.9
cd "$folder"
venv/bin/python - <<'PYTHON'
import csv
import sqlite3

import slurm2sql

COLUMNS = [name for name in slurm2sql.COLUMNS if not name.startswith("_")] + slurm2sql.COLUMNS_EXTRA
JOB = {
    "State": "COMPLETED", "User": "ada", "Elapsed": "01:00:00", "Timelimit": "02:00:00", "NNodes": "1", "NCPUS": "32",
    "AllocTRES": "billing=32,cpu=32,gres/gpu:h100=4,gres/gpu=4,mem=256G,node=1", "ExitCode": "0:0", "ReqNodes": "1",
    "Submit": "2026-11-02T08:00:00", "Start": "2026-11-02T08:00:00", "End": "2026-11-02T09:00:00",
}  # fmt: skip
STEP = JOB | {"TRESUsageInTot": "cpu=01:00:00,gres/gpumem=280G,gres/gpuutil=400,mem=100G"}
with open("sacct.csv", "w", newline="") as file:
    rows = csv.DictWriter(file, dict.fromkeys(COLUMNS), restval="")
    rows.writeheader()
    rows.writerow(JOB | {"JobID": "77", "JobIDRaw": "77"})
    rows.writerow(STEP | {"JobID": "77.0", "JobIDRaw": "77.0"})

database = sqlite3.connect(":memory:")
assert slurm2sql.slurm2sql(database, csv_input="sacct.csv") == 0
reserved, used, efficiency = database.execute("SELECT gpu_s_reserved, gpu_s_used, GpuEff FROM eff").fetchone()
print(f"gpu_s_reserved {reserved:g}, gpu_s_used {used:g}, GpuEff {efficiency}")
assert (reserved, efficiency) == (4 * 3600, 1.0), "changed: other reserved seconds or another efficiency"
assert used == 4 * reserved, "changed: the used seconds are not four times the reserved ones"
print(f"slurm2sql {slurm2sql.__version__}: four busy GPUs use four times what is reserved")
PYTHON
