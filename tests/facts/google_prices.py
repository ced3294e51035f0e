"""Renews the table of Google Cloud's prices: ``python -m tests.facts.google_prices [REPOSITORY]``.

REPOSITORY is a git URL, by default that of ``ORIGIN`` of ``charterer.providers.gcp.prices``. It needs git.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from charterer.providers.gcp.prices import TABLE, table_of, text_of

_REPOSITORY: Final = "https://github.com/cloudpilot-ai/karpenter-provider-gcp"
_PATH: Final = "pkg/providers/pricing/initial-prices.json"


def main(arguments: Sequence[str]) -> None:
    """Write the table, of the day of the file's last change, and say what it has."""
    with tempfile.TemporaryDirectory() as folder:
        clone = ["clone", "--quiet", "--bare", "--filter=blob:none", *(arguments or [_REPOSITORY]), folder]
        subprocess.run(["git", *clone], check=True)
        told = ["git", "-C", folder]
        day = subprocess.check_output([*told, "log", "-1", "--format=%cs", "--", _PATH], text=True).strip()
        content = json.loads(subprocess.check_output([*told, "show", f"HEAD:{_PATH}"]))
    table = table_of(content, day)
    TABLE.write_text(text_of(table), encoding="utf-8")
    for kind in ("onDemand", "spot"):
        print(f"{kind} of {day}: {sum(map(len, table[kind].values()))} prices in {len(table[kind])} regions")


if __name__ == "__main__":
    main(sys.argv[1:])
