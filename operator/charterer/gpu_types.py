"""How fast GPU types train relative to each other, for classes of which nothing has been measured there yet.

A training step consists of kernels that are bound by arithmetic and kernels that are bound by memory (Williams,
Waterman and Patterson, *Roofline*, 2009). The estimate is the geometric mean of two ratios: of the types' peak
throughputs, and of their memory bandwidths. At worst, a type is slower by the smaller ratio. At best, for a job that
waits for its data or its CPU, it is not slower at all: so it was for 8 of 26 kinds of jobs on a P100 instead of a V100
(measured for Gavel, https://github.com/stanford-futuredata/gavel).

The figures are the vendor's data sheets, for one GPU: dense FP16 or BF16 tensor throughput (FP32 for the K80 and FP16
for the P100, which have no tensor cores), and the bandwidth of the form with the fastest memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True)
class DataSheet:
    """Peak throughput in teraflops, memory bandwidth in gigabytes a second."""

    teraflops: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class RelativeSpeed:
    """Speed of a GPU type as a multiple of the fastest type's, with the interval in which it may lie."""

    estimate: float
    low: float
    high: float


DATA_SHEETS: Mapping[str, DataSheet] = {
    "K80": DataSheet(4.4, 240.0),
    "P100": DataSheet(21.2, 732.0),
    "V100": DataSheet(125.0, 900.0),
    "T4": DataSheet(65.0, 320.0),
    "A10": DataSheet(125.0, 600.0),
    "A10G": DataSheet(70.0, 600.0),
    "A6000": DataSheet(155.0, 768.0),
    "L4": DataSheet(121.0, 300.0),
    "L40S": DataSheet(362.0, 864.0),
    "A100": DataSheet(312.0, 2039.0),
    "H100": DataSheet(989.0, 3350.0),
    "H200": DataSheet(989.0, 4800.0),
    "B200": DataSheet(2250.0, 8000.0),
}
"""By model, as it is a word of the type's name: ``NVIDIA-A100-SXM4-40GB``, ``Tesla-T4``, ``nvidia-h100-80gb``."""


def data_sheet(gpu_type: str) -> DataSheet | None:
    """The data sheet of the model that a type's name contains; None for a model that is not in the table."""
    words = re.split(r"[^A-Z0-9]+", gpu_type.upper())
    return next((DATA_SHEETS[word] for word in words if word in DATA_SHEETS), None)


def relative_speeds(gpu_types: Iterable[str]) -> Mapping[str, RelativeSpeed]:
    """The types' speeds relative to the fastest of them; empty if one of them is not in the table."""
    sheets = {gpu_type: data_sheet(gpu_type) for gpu_type in gpu_types}
    known = {gpu_type: sheet for gpu_type, sheet in sheets.items() if sheet is not None}
    if not known or len(known) < len(sheets):
        return {}
    fastest = max(known.values(), key=lambda sheet: sheet.teraflops * sheet.bandwidth)
    return {gpu_type: _relative(sheet, fastest) for gpu_type, sheet in known.items()}


def _relative(sheet: DataSheet, fastest: DataSheet) -> RelativeSpeed:
    arithmetic, memory = sheet.teraflops / fastest.teraflops, sheet.bandwidth / fastest.bandwidth
    return RelativeSpeed(sqrt(arithmetic * memory), min(arithmetic, memory), 1.0)
