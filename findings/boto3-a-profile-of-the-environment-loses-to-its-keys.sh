#!/bin/sh
# boto3 1.44.5.
#
# With AWS_ACCESS_KEY_ID in the environment, AWS_PROFILE decides nothing about credentials: the keys are used. The same profile given to the
# session wins over them. So exporting AWS_PROFILE to act as another role keeps acting as before where keys are set, without a word.
set -eu

version=1.44.5
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "boto3==$version"
cd "$folder"
cat > program.py <<'PROGRAM'
import os

import boto3

with open("credentials", "w") as file:
    file.write("[renter]\naws_access_key_id = OF-THE-PROFILE\naws_secret_access_key = x\n")
os.environ |= {"AWS_SHARED_CREDENTIALS_FILE": os.path.abspath("credentials"), "AWS_CONFIG_FILE": "/nonexistent"}
os.environ |= {"AWS_ACCESS_KEY_ID": "OF-THE-ENVIRONMENT", "AWS_SECRET_ACCESS_KEY": "x", "AWS_PROFILE": "renter"}
print(boto3.Session().get_credentials().access_key)
print(boto3.Session(profile_name="renter").get_credentials().access_key)
PROGRAM
venv/bin/python program.py > said || { echo "changed: the program fails" >&2; exit 1; }
cat said
cat > expected <<'EXPECTED'
OF-THE-ENVIRONMENT
OF-THE-PROFILE
EXPECTED
cmp -s said expected || { echo "changed: this was expected:" >&2; cat expected >&2; exit 1; }
echo "boto3 $version: as described"
