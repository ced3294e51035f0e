"""How fast GPU types train relative to each other, for classes of which nothing has been measured there yet.

A training step consists of kernels that are bound by arithmetic and kernels that are bound by memory (Williams,
Waterman and Patterson, *Roofline*, 2009). The estimate is the geometric mean of two ratios: of the types' peak
throughputs, and of their memory bandwidths. At worst, a type is slower by the smaller ratio. At best, for a job that
waits for its data or its CPU, it is not slower at all: so it was for 8 of 26 kinds of jobs on a P100 instead of a V100
(measured for Gavel, https://github.com/stanford-futuredata/gavel).

The figures are those of ``accelerators``: the vendor's data sheets, for one GPU, and the bandwidth of the form with the
fastest memory; of GH200 and H20 that of HBM3. Those of NVL72 racks and HGX boards are divided by their GPUs, and by two
where they count sparsity.

A type without a sheet is no reason to compare the others less: ``policy.options.speeds`` has a guess for it.

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

from charterer.gpu_types.accelerators import MIG, MODELS, Model, words_of


@dataclass(frozen=True, slots=True)
class RelativeSpeed:
    """Speed of a GPU type as a multiple of the fastest type's, with the interval in which it may lie."""

    estimate: float
    low: float
    high: float


@cache
def model_of(gpu_type: str) -> str:
    """The model that a type's name contains, as its words follow each other there: ``NVIDIA-A100-SXM4-40GB``,
    ``Tesla-T4``, ``NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition``. Empty for one that is not in the table."""
    name = f" {' '.join(words_of(whole_type(gpu_type)))} "
    return next((model for model in MODELS if f" {model} " in name), "")


def data_sheet(gpu_type: str) -> Model | None:
    """The data sheet of the model that a type's name contains; None for a model that is not in the table."""
    return MODELS.get(model_of(gpu_type))


def relative_speeds(gpu_types: Iterable[str]) -> Mapping[str, RelativeSpeed]:
    """The speeds of the types that are in the table, relative to the one of them that is expected to be the fastest."""
    known = {gpu_type: sheet for gpu_type in gpu_types if (sheet := data_sheet(gpu_type)) is not None}
    if not known:
        return {}
    fastest = max(known, key=lambda each: known[each].teraflops * known[each].bandwidth * slice_speed(each) ** 2)
    return {gpu_type: _relative(gpu_type, sheet, fastest, known[fastest]) for gpu_type, sheet in known.items()}


def _relative(gpu_type: str, sheet: Model, fastest: str, best: Model) -> RelativeSpeed:
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

_MEMORY = re.compile("([0-9]+)(?:GB|Q|C)")
"""Memory in a name: of a GPU, and of a vGPU for graphics (Q) or computing (C)."""
_PART = re.compile(r"(.+?)-(?:MIG-(.+)|((?:shared|mps)-[0-9]+))")
SHARED_SUFFIX = "-SHARED"
"""What feature discovery appends to the product where GPUs are shared under their own name (k8s-device-plugin)."""
USABLE_MEMORY = 0.9
"""The part of a GPU's memory that jobs on it may use together: CUDA's context of each process takes some, too."""


@dataclass(frozen=True, slots=True)
class MigLayouts:
    """The ways to cut a GPU into equal slices. ``units``: its compute units; ``slices``: slices a GPU by profile.

    The number before the g of a profile is the compute units of a slice.
    """

    units: int
    slices: Mapping[str, int]


MIG_LAYOUTS: Mapping[tuple[str, int], MigLayouts] = {key: MigLayouts(*layouts) for key, layouts in MIG.items()}
"""By model and GiB of memory: the profiles of which a GPU holds two or more, without those with media extensions, of
which it holds one."""


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
    memory = gigabytes(gpu_type)
    return None if memory is None else MIG_LAYOUTS.get((model_of(gpu_type), memory))


def gigabytes(gpu_type: str) -> int | None:
    """GiB of memory of a whole GPU of this type; None where that is not known.

    A name may tell other numbers: GH200-480GB has that much in its processor, and A10-24Q is a vGPU of 24 GiB.
    """
    words, model = words_of(whole_type(gpu_type)), MODELS.get(model_of(gpu_type))
    if model is not None:
        by_form = next((model.forms[word] for word in words if word in model.forms), None)
        if by_form is not None:
            return by_form
    of_processor = () if model is None else model.processor_memory
    told = (_MEMORY.fullmatch(word) for word in words if word not in of_processor)
    by_name = next((int(found[1]) for found in told if found is not None), None)
    return by_name if by_name is not None else None if model is None else model.gigabytes


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
