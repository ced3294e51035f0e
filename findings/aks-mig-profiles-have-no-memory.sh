#!/bin/sh
# azure-mgmt-containerservice 41.8.0.
#
# A node pool of AKS cuts its GPUs by gpuInstanceProfile. Its values name compute units only (MIG1g), where NVIDIA's profiles name
# memory, too: an A100 of 80 GB can be cut into seven of 1g.10gb or four of 1g.20gb, and MIG1g can mean one of them alone.
set -eu

version=41.8.0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "azure-mgmt-containerservice==$version"
cd "$folder"
cat > program.py <<'PROGRAM'
from azure.mgmt.containerservice.models import GPUInstanceProfile

print([profile.value for profile in GPUInstanceProfile])
PROGRAM
venv/bin/python program.py > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
['MIG1g', 'MIG2g', 'MIG3g', 'MIG4g', 'MIG7g']
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "azure-mgmt-containerservice $version: as described"
