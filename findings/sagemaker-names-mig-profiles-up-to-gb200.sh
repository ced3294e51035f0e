#!/bin/sh
# botocore 1.44.5.
#
# The enum MIGProfileType of SageMaker (HyperPod) is the one list of MIG profiles in an SDK. It has 1g.23gb once, for two GPUs (B200 and
# GB200, whose 2g are 2g.45gb and 2g.47gb), so that a profile does not tell the GPU; and none of B300, GB300 or RTX PRO 6000.
set -eu

version=1.44.5
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "botocore==$version"
cd "$folder"
cat > program.py <<'PROGRAM'
import gzip
import json
from importlib.resources import files

data = files("botocore").joinpath("data/sagemaker")
(version,) = [each for each in data.iterdir() if each.is_dir()]
profiles = json.loads(gzip.decompress(version.joinpath("service-2.json.gz").read_bytes()))["shapes"]["MIGProfileType"]["enum"]
print([profile for profile in profiles if profile.startswith("mig-1g.")])
print([profile for profile in profiles if profile.startswith("mig-2g.4")])
print([profile for profile in ("mig-1g.34gb", "mig-1g.70gb", "mig-1g.24gb", "mig-1g.12gb") if profile in profiles])
PROGRAM
venv/bin/python program.py > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
['mig-1g.5gb', 'mig-1g.10gb', 'mig-1g.18gb', 'mig-1g.20gb', 'mig-1g.23gb', 'mig-1g.35gb', 'mig-1g.45gb', 'mig-1g.47gb']
['mig-2g.45gb', 'mig-2g.47gb']
[]
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "botocore $version: as described"
