#!/bin/sh
# azure-mgmt-compute 39.0.0.
#
# The enum VirtualMachineSizeTypes has names of sizes, 19 of them with GPUs. It ends with the V100 (NCs_v3, 2018): no T4, A10, A100, H100,
# H200, GB200 or MI300X. It is of use as a list of what was sold once, and of none for what may be asked for.
set -eu

version=39.0.0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "azure-mgmt-compute==$version"
cd "$folder"
cat > program.py <<'PROGRAM'
from azure.mgmt.compute.models import VirtualMachineSizeTypes

sizes = [size.value for size in VirtualMachineSizeTypes if size.value.startswith("Standard_N")]
print(len(sizes))
print([size for size in sizes if any(gpu in size for gpu in ("T4", "A10", "H100", "H200", "GB200", "MI300"))])
print(sorted(size for size in sizes if size.endswith("v3")))
PROGRAM
venv/bin/python program.py > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
19
[]
['Standard_NC12s_v3', 'Standard_NC24rs_v3', 'Standard_NC24s_v3', 'Standard_NC6s_v3']
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "azure-mgmt-compute $version: as described"
