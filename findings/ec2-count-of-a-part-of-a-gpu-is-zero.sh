#!/bin/sh
# moto 5.2.5.
#
# moto has EC2's descriptions of instance types, as DescribeInstanceTypes tells them. An instance with a part of a GPU (g6f, gr6f)
# has one GPU in the list Gpus, with Count 0: the part is in GpuPartitionSize, and MemoryInfo is of the part. So the sum of Count,
# which is how many GPUs a pod can ask for, is 0 for a type that has a GPU, and Name alone (L4) does not tell it from a whole one.
set -eu

version=5.2.5
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "moto==$version"
cd "$folder"
cat > program.py <<'PROGRAM'
import gzip
import json
from importlib.resources import files

types = json.loads(gzip.decompress(files("moto").joinpath("ec2/resources/instance_types.json.gz").read_bytes()))
for name in ("g6.xlarge", "g6f.large", "g6f.2xlarge", "gr6f.4xlarge"):
    (gpu,) = types[name]["GpuInfo"]["Gpus"]
    print(name, gpu["Name"], gpu["Count"], gpu["LogicalGpuCount"], gpu["GpuPartitionSize"], gpu["MemoryInfo"]["SizeInMiB"])
PROGRAM
venv/bin/python program.py > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
g6.xlarge L4 1 1 1.0 22888
g6f.large L4 0 1 0.125 2861
g6f.2xlarge L4 0 1 0.25 5722
gr6f.4xlarge L4 0 1 0.5 11444
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "moto $version: as described"
