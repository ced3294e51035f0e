"""Make the table of prices of GPU machine types: ``python -m charterer.providers.gcp.price_table FILE DAY``.

FILE is ``pkg/providers/pricing/initial-prices.json`` of https://github.com/cloudpilot-ai/karpenter-provider-gcp, which
that project makes from Google's price list; DAY is the day of its last change, as YYYY-MM-DD. Only the numbers of
machine types that have whole GPUs are kept.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

TABLE: Final = Path(__file__).with_name("prices.json")
ORIGIN: Final = "https://github.com/cloudpilot-ai/karpenter-provider-gcp, pkg/providers/pricing/initial-prices.json"
_WITH_GPUS: Final = re.compile(r"(a[2-9]x?|g2)-.*|g4-standard-(48|96|192|384)")
"""Smaller types of g4 have a part of a GPU."""


def table_of(content: Mapping[str, Any], day: str) -> Mapping[str, Any]:
    """The table, of the content of that file. ValueError for a day of another form, and where there are no prices."""
    date.fromisoformat(day)
    regions = content["prices"]
    prices = {kind: _prices(regions, kind) for kind in ("on_demand", "spot")}
    if not prices["on_demand"]:
        raise ValueError("the file has no price of a GPU machine type")
    return {
        "asOf": day,
        "currency": "USD",
        "source": ORIGIN,
        "licence": "Apache-2.0",
        "onDemand": prices["on_demand"],
        "spot": prices["spot"],
    }


def _prices(regions: Mapping[str, Any], kind: str) -> Mapping[str, Mapping[str, str]]:
    found = {
        region: {
            name: f"{price:.6f}".rstrip("0").rstrip(".")
            for name, price in sorted(those.get(kind, {}).items())
            if _WITH_GPUS.fullmatch(name) and price > 0
        }
        for region, those in sorted(regions.items())
    }
    return {region: those for region, those in found.items() if those}


def main(arguments: Sequence[str]) -> None:
    """Write the table beside this file."""
    path, day = arguments
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    TABLE.write_text(json.dumps(table_of(content, day), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
