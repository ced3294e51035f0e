"""How fast GPU types train relative to each other, for classes of which nothing has been measured there yet.

A training step consists of kernels that are bound by arithmetic and kernels that are bound by memory (Williams,
Waterman and Patterson, *Roofline*, 2009). The estimate is the geometric mean of two ratios: of the types' peak
throughputs, and of their memory bandwidths. At worst, a type is slower by the smaller ratio. At best, for a job that
waits for its data or its CPU, it is not slower at all: so it was for 8 of 26 kinds of jobs on a P100 instead of a V100
(measured for Gavel, https://github.com/stanford-futuredata/gavel).

The figures are the vendor's data sheets, for one GPU: dense FP16 or BF16 tensor throughput (FP32 for the K80 and P4 and
FP16 for the P100, which have no tensor cores), and the bandwidth of the form with the fastest memory; of GH200 and H20
that of HBM3. Those of NVL72 racks and HGX boards are divided by their GPUs, and by two where they count sparsity. The
sheet of the RTX PRO 6000 Blackwell Server Edition names no dense throughput: it is four times that of FP32, as in the
Workstation Edition's.

A type without a sheet is no reason to compare the others less: ``policy.options.assumed_speeds`` has a guess for it.

A MIG slice is a type of its own, with the name that NVIDIA's feature discovery gives it: the GPU's, ``-MIG-`` and the
profile. It is as slow as its part of the compute units at worst, and as fast as the whole GPU at best. So is a place on
a GPU that several jobs use at once: ``-shared-2`` where two take turns, ``-mps-2`` where they run together (MPS).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
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
    "P4": DataSheet(5.5, 192.0),
    "P100": DataSheet(21.2, 732.0),
    "V100": DataSheet(125.0, 900.0),
    "T4": DataSheet(65.0, 320.0),
    "T4G": DataSheet(65.0, 320.0),
    "A10": DataSheet(125.0, 600.0),
    "A10G": DataSheet(70.0, 600.0),
    "A30": DataSheet(165.0, 933.0),
    "A40": DataSheet(149.7, 696.0),
    "A6000": DataSheet(155.0, 768.0),
    "L4": DataSheet(121.0, 300.0),
    "L20": DataSheet(119.5, 864.0),
    "L40": DataSheet(181.0, 864.0),
    "L40S": DataSheet(362.0, 864.0),
    "RTX PRO 6000": DataSheet(480.0, 1597.0),
    "A100": DataSheet(312.0, 2039.0),
    "A800": DataSheet(312.0, 2039.0),
    "H20": DataSheet(148.0, 4000.0),
    "H100": DataSheet(989.0, 3350.0),
    "H800": DataSheet(989.0, 3350.0),
    "GH200": DataSheet(989.0, 4000.0),
    "H200": DataSheet(989.0, 4800.0),
    "B200": DataSheet(2250.0, 8000.0),
    "B300": DataSheet(2250.0, 8000.0),
    "GB200": DataSheet(2500.0, 8000.0),
    "GB300": DataSheet(2500.0, 8000.0),
}
"""By model, as its words follow each other in the type's name: ``NVIDIA-A100-SXM4-40GB``, ``Tesla-T4``,
``NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition``. What is a part of a word is another model: an L40S is no L40."""


@cache
def data_sheet(gpu_type: str) -> DataSheet | None:
    """The data sheet of the model that a type's name contains; None for a model that is not in the table."""
    name = f" {' '.join(_words(gpu_type))} "
    return next((sheet for model, sheet in DATA_SHEETS.items() if f" {model} " in name), None)


def _words(gpu_type: str) -> list[str]:
    return re.split(r"[^A-Z0-9]+", whole_type(gpu_type).upper())


def relative_speeds(gpu_types: Iterable[str]) -> Mapping[str, RelativeSpeed]:
    """The speeds of the types that are in the table, relative to the one of them that is expected to be the fastest."""
    known = {gpu_type: sheet for gpu_type in gpu_types if (sheet := data_sheet(gpu_type)) is not None}
    if not known:
        return {}
    fastest = max(known, key=lambda each: known[each].teraflops * known[each].bandwidth * slice_speed(each) ** 2)
    return {gpu_type: _relative(gpu_type, sheet, fastest, known[fastest]) for gpu_type, sheet in known.items()}


def _relative(gpu_type: str, sheet: DataSheet, fastest: str, best: DataSheet) -> RelativeSpeed:
    arithmetic, memory = sheet.teraflops / best.teraflops, sheet.bandwidth / best.bandwidth
    # Nobody knows by how much the cut slows two slices down, and whatever it is holds for both: the fastest one may be
    # as fast as its whole GPU, which makes the other one slower by its sheet alone.
    at_worst = min(compute_part(gpu_type) / compute_part(fastest), 1.0)
    return RelativeSpeed(
        estimate=sqrt(arithmetic * memory) * slice_speed(gpu_type) / slice_speed(fastest),
        low=min(arithmetic, memory) * at_worst,
        high=1.0,
    )


# --- parts of GPUs ----------------------------------------------------------------------------------------------------

_PART = re.compile(r"(.+?)-(?:MIG-(.+)|((?:shared|mps)-[0-9]+))")
USABLE_MEMORY = 0.9
"""The part of a GPU's memory that jobs on it may use together: CUDA's context of each process takes some, too."""


@dataclass(frozen=True, slots=True)
class MigLayouts:
    """The ways to cut a GPU into equal slices. ``units``: its compute units; ``slices``: slices a GPU by profile.

    The number before the g of a profile is the compute units of a slice.
    """

    units: int
    slices: Mapping[str, int]


_80_GB = MigLayouts(7, {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2})
MIG_LAYOUTS: Mapping[tuple[str, str], MigLayouts] = {
    ("A30", "24GB"): MigLayouts(4, {"1g.6gb": 4, "2g.12gb": 2}),
    ("A100", "40GB"): MigLayouts(7, {"1g.5gb": 7, "1g.10gb": 4, "2g.10gb": 3, "3g.20gb": 2}),
    ("A100", "80GB"): _80_GB,
    ("H100", "80GB"): _80_GB,
    ("H100", "94GB"): MigLayouts(7, {"1g.12gb": 7, "1g.24gb": 4, "2g.24gb": 3, "3g.47gb": 2}),
    ("H100", "96GB"): MigLayouts(7, {"1g.12gb": 7, "1g.24gb": 4, "2g.24gb": 3, "3g.48gb": 2}),
    ("H200", "141GB"): MigLayouts(7, {"1g.18gb": 7, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2}),
    ("B200", "180GB"): MigLayouts(7, {"1g.23gb": 7, "1g.45gb": 4, "2g.45gb": 3, "3g.90gb": 2}),
}
"""By model and memory, of NVIDIA's MIG user guide (Supported MIG Profiles): the profiles of which a GPU holds two or
more, without those with media extensions, of which it holds one."""
_MEMORY: Mapping[str, str] = {
    **{"K80": "12GB", "P100": "16GB", "V100": "16GB", "T4": "16GB", "A10": "24GB", "A10G": "24GB", "A6000": "48GB"},
    **{"L4": "24GB", "L40S": "48GB", "A30": "24GB", "A100": "40GB", "H100": "80GB", "H200": "141GB", "B200": "180GB"},
}
"""Where the type's name does not say it, such as ``nvidia-tesla-a100`` and ``NVIDIA-H100-PCIe``."""


def slice_type(gpu_type: str, profile: str) -> str:
    """The type of a GPU's slices, or of the places on it where several jobs share it."""
    return f"{gpu_type}-{profile}" if is_shared(profile) else f"{gpu_type}-MIG-{profile}"


@cache
def _parts_of(gpu_type: str) -> tuple[str, str]:
    found = _PART.fullmatch(gpu_type)
    return (gpu_type, "") if found is None else (found[1], found[2] or found[3])


def whole_type(gpu_type: str) -> str:
    """The type of the GPU that a slice is of; a whole GPU's own."""
    return _parts_of(gpu_type)[0]


def slice_profile(gpu_type: str) -> str:
    """The MIG profile of a slice; ``shared-2`` or ``mps-2`` of a GPU that two jobs share; empty for a whole GPU."""
    return _parts_of(gpu_type)[1]


def sharers(profile: str) -> int:
    """How many jobs use a GPU at once; 1 of whole GPUs and of MIG slices, which only one job has."""
    kind, _, jobs = profile.partition("-")
    return int(jobs) if kind in ("shared", "mps") else 1


def is_shared(profile: str) -> bool:
    """Whether several jobs use a GPU at once."""
    return sharers(profile) > 1


def slices_of(gpu_type: str, profile: str) -> int:
    """Slices of the profile of a GPU of this type, or places for jobs that share it; 0 where it cannot be cut so."""
    layouts = mig_layouts(gpu_type)
    if is_shared(profile):
        return sharers(profile)
    return 0 if layouts is None else layouts.slices.get(profile, 0)


def mig_layouts(gpu_type: str) -> MigLayouts | None:
    """How GPUs of this type can be cut; None where they cannot be, or where that is not known."""
    model, memory = _model_and_memory(gpu_type)
    return MIG_LAYOUTS.get((model, memory))


def gigabytes(gpu_type: str) -> int | None:
    """Memory of a whole GPU of this type; None where that is not known."""
    memory = _model_and_memory(gpu_type)[1]
    return int(memory.removesuffix("GB")) if memory else None


def _model_and_memory(gpu_type: str) -> tuple[str, str]:
    """Both empty where the name does not say them."""
    words = _words(gpu_type)
    model = next((word for word in words if word in _MEMORY), "")
    by_form = "94GB" if model == "H100" and "NVL" in words else _MEMORY.get(model, "")
    return model, next((word for word in words if re.fullmatch("[0-9]+GB", word)), by_form)


def compute_part(gpu_type: str) -> float:
    """The part of its GPU's compute units that a slice has, and so its speed at worst; 1 for a whole GPU."""
    profile, layouts = slice_profile(gpu_type), mig_layouts(gpu_type)
    units = profile.partition("g")[0]
    if layouts is not None and units.isdecimal():
        return int(units) / layouts.units
    return 1.0 / sharers(profile)


def slice_speed(gpu_type: str) -> float:
    """The speed that is expected of a slice as a part of its GPU's: in the middle, by logarithms, of worst and best."""
    return sqrt(compute_part(gpu_type))


def names_type(allowed: Collection[str], gpu_type: str) -> bool:
    """Whether these types (none: any) have this one among them. A GPU's type stands for its slices, too."""
    return not allowed or whole_type(gpu_type) in allowed or gpu_type in allowed


def takes_part(gpu_type: str, slices: Collection[str], shared_mib: int = 0) -> bool:
    """Whether a job takes GPUs of a type as they are cut or shared; also where they are whole.

    ``slices``: MIG profiles that it takes; ``shared_mib``: its GPU memory where it shares a GPU, 0: it shares none.
    """
    profile = slice_profile(gpu_type)
    return not profile or profile in slices or (is_shared(profile) and 0 < shared_mib <= share_of_memory(gpu_type))


def may_use(gpu_type: str, allowed: Collection[str], slices: Collection[str], shared_mib: int = 0) -> bool:
    """Whether a job may use a type: as ``names_type`` and ``takes_part`` say."""
    return names_type(allowed, gpu_type) and takes_part(gpu_type, slices, shared_mib)


def share_of_memory(gpu_type: str) -> float:
    """MiB of GPU memory that each of the jobs that share a GPU of this type may use; 0 where it is not known."""
    memory = gigabytes(gpu_type)
    return 0.0 if memory is None else USABLE_MEMORY * 1024.0 * memory / sharers(slice_profile(gpu_type))
