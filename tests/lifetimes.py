"""Measured lifetimes of transient machines, as hours and whether the machine died before its limit of a day."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

DATA = Path(os.environ.get("CHARTERER_DATA_DIR") or Path(__file__).resolve().parents[2] / "shared" / "data")
_LIMIT_HOURS = 23.5
"""Google ends preemptible machines after a day: what lives this long has reached the limit."""


class Lived(NamedTuple):
    """``hours`` that a machine lived; ``died``: before its limit."""

    hours: float
    died: bool


def missing(*names: str) -> str:
    """Why a test with these files is skipped, in one line; empty where they are there."""
    absent = [name for name in names if not (DATA / name).is_file()]
    return f"measured data not here: {DATA / absent[0]}; CHARTERER_DATA_DIR names the folder" if absent else ""


GCP = "preemption/gcp_lifetimes.csv"
CMDARE = "cmdare/gpu_server_lifetimes_seconds.csv"


def lifetimes(name: str) -> Sequence[Lived]:
    """The machines of a file. ValueError names the row and value that cannot be read."""
    with (DATA / name).open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = []
    for number, row in enumerate(rows, start=2):
        try:
            hours = float(row["lifetime_seconds"]) / 3600.0
        except (KeyError, TypeError, ValueError):
            raise ValueError(
                f"{name}, line {number}: lifetime_seconds {row.get('lifetime_seconds')!r} is no number"
            ) from None
        found.append(Lived(hours, row.get("censored_at_24h") != "1" and hours < _LIMIT_HOURS))
    return found
