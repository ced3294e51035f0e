"""The table of prices of GPU machine types, made of ``pkg/providers/pricing/initial-prices.json`` of
https://github.com/cloudpilot-ai/karpenter-provider-gcp, which that project makes from Google's price list.

Only the numbers of machine types that have whole GPUs are kept. ``python -m tests.facts.google_prices`` renews it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final

from charterer.gpu_types.accelerators import has_whole_gpus

TABLE: Final = Path(__file__).with_name("prices.json")
ORIGIN: Final = "https://github.com/cloudpilot-ai/karpenter-provider-gcp, pkg/providers/pricing/initial-prices.json"


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
            if has_whole_gpus(name) and price > 0
        }
        for region, those in sorted(regions.items())
    }
    return {region: those for region, those in found.items() if those}


def text_of(table: Mapping[str, Any]) -> str:
    """The table as it is in the file."""
    return json.dumps(table, indent=1) + "\n"
