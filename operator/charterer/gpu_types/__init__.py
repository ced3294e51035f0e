"""How fast GPU types train relative to each other, for classes that were not measured on them yet.

A training step consists of kernels that are bound by arithmetic and kernels that are bound by memory (Williams,
Waterman and Patterson, *Roofline*, 2009). The estimate is the geometric mean of two ratios: that of the types' peak
throughputs, and that of their memory bandwidths. At worst, a type is slower by the smaller ratio. At best, for a job
that waits for its data or its CPU, it is not slower at all. That held for 8 of 26 kinds of jobs on a P100 instead of a
V100 (measured for Gavel, https://github.com/stanford-futuredata/gavel).

The figures are those of ``accelerators``: the vendor's data sheets, for one GPU, with the bandwidth of the form with
the fastest memory (HBM3 for GH200 and H20). Figures of NVL72 racks and HGX boards are divided by their number of GPUs,
and by two if they count sparsity.

If one type has no data sheet, the others are still compared; ``policy.options.speeds`` guesses the speed of that one.

A MIG slice is a type of its own. NVIDIA's feature discovery names it by the GPU, ``-MIG-`` and the profile. At worst it
is as slow as its part of the compute units, and at best as fast as the whole GPU. The same holds for a place on a GPU
that several jobs use at once: ``-shared-2`` if two take turns, ``-mps-2`` if they run together (MPS).
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
    """The model in a type's name, by consecutive words; empty if it is not in the table.

    Such names are ``NVIDIA-A100-SXM4-40GB``, ``Tesla-T4`` and ``NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition``.
    """
    name = f" {' '.join(words_of(whole_type(gpu_type)))} "
    return next((model for model in MODELS if f" {model} " in name), "")


def data_sheet(gpu_type: str) -> Model | None:
    """The data sheet of the model in a type's name; None if it is not in the table."""
    return MODELS.get(model_of(gpu_type))


def relative_speeds(gpu_types: Iterable[str]) -> Mapping[str, RelativeSpeed]:
    """The speeds of types in the table, relative to the type among them that is expected to be the fastest."""
    known = {gpu_type: sheet for gpu_type in gpu_types if (sheet := data_sheet(gpu_type)) is not None}
    if not known:
        return {}
    fastest = max(known, key=lambda each: known[each].teraflops * known[each].bandwidth * slice_speed(each) ** 2)
    return {gpu_type: _relative(gpu_type, sheet, fastest, known[fastest]) for gpu_type, sheet in known.items()}


def _relative(gpu_type: str, sheet: Model, fastest: str, best: Model) -> RelativeSpeed:
    arithmetic, memory = sheet.teraflops / best.teraflops, sheet.bandwidth / best.bandwidth
    # It is not known by how much the cut slows two slices down, but it is the same for both. The fastest one may be as
    # fast as its whole GPU, so the other one is slower only by its data sheet.
    at_worst = min(compute_part(gpu_type) / compute_part(fastest), 1.0)
    return RelativeSpeed(
        estimate=sqrt(arithmetic * memory) * slice_speed(gpu_type) / slice_speed(fastest),
        low=min(arithmetic, memory) * at_worst,
        high=1.0,
    )


# --- parts of GPUs ----------------------------------------------------------------------------------------------------

_MEMORY = re.compile("([0-9]+)(?:GB|Q|C)")
"""Memory in a name: that of a GPU, or of a vGPU for graphics (Q) or computing (C)."""
_PART = re.compile(r"(.+?)-(?:MIG-(.+)|((?:shared|mps)-[0-9]+))")
SHARED_SUFFIX = "-SHARED"
"""What feature discovery appends to the product if GPUs are shared under their own name (k8s-device-plugin)."""
USABLE_MEMORY = 0.9
"""Fraction of a GPU's memory that its jobs may use together. CUDA's context of each process takes some of the rest."""


@dataclass(frozen=True, slots=True)
class MigLayouts:
    """The ways to cut a GPU into equal slices.

    ``units``: the GPU's compute units. ``slices``: number of slices in a GPU, by profile. The number before the g of a
    profile is the compute units of a slice.
    """

    units: int
    slices: Mapping[str, int]


MIG_LAYOUTS: Mapping[tuple[str, int], MigLayouts] = {key: MigLayouts(*layouts) for key, layouts in MIG.items()}
"""For each model and GiB of memory, the profiles of which a GPU has two or more slices. Profiles with media extensions,
of which it has one, are left out."""


def slice_type(gpu_type: str, profile: str) -> str:
    """The type of a GPU's slices, or of its places if several jobs share it."""
    return f"{gpu_type}-{profile}" if is_shared(profile) else f"{gpu_type}-MIG-{profile}"


@cache
def _parts_of(gpu_type: str) -> tuple[str, str]:
    found = _PART.fullmatch(gpu_type)
    return (gpu_type, "") if found is None else (found[1], found[2] or found[3])


def whole_type(gpu_type: str) -> str:
    """The type of the GPU to which a slice belongs; for a whole GPU its own type."""
    return _parts_of(gpu_type)[0]


def slice_profile(gpu_type: str) -> str:
    """The MIG profile of a slice; ``shared-2`` or ``mps-2`` for a GPU that two jobs share; empty for a whole GPU."""
    return _parts_of(gpu_type)[1]


def sharers(profile: str) -> int:
    """Number of jobs that use a GPU at once; 1 for whole GPUs and for MIG slices."""
    kind, _, jobs = profile.partition("-")
    return int(jobs) if kind in ("shared", "mps") else 1


def is_shared(profile: str) -> bool:
    """Whether several jobs use a GPU at once."""
    return sharers(profile) > 1


def slices_of(gpu_type: str, profile: str) -> int:
    """Number of slices of the profile in a GPU of this type, or of places of sharing jobs; 0 if it cannot be cut so."""
    layouts = mig_layouts(gpu_type)
    if is_shared(profile):
        return sharers(profile)
    return 0 if layouts is None else layouts.slices.get(profile, 0)


def mig_layouts(gpu_type: str) -> MigLayouts | None:
    """How GPUs of this type can be cut; None if they cannot be, or if that is not known."""
    memory = gigabytes(gpu_type)
    return None if memory is None else MIG_LAYOUTS.get((model_of(gpu_type), memory))


def gigabytes(gpu_type: str) -> int | None:
    """GiB of memory of a whole GPU of this type; None if that is not known.

    A name may contain other numbers: the processor of GH200-480GB has 480 GB, and A10-24Q is a vGPU of 24 GiB.
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
    """The fraction of its GPU's compute units that a slice has, which is its speed at worst; 1 for a whole GPU."""
    profile, layouts = slice_profile(gpu_type), mig_layouts(gpu_type)
    units = profile.partition("g")[0]
    if layouts is not None and units.isdecimal():
        return int(units) / layouts.units
    return 1.0 / sharers(profile)


def slice_speed(gpu_type: str) -> float:
    """The expected speed of a slice as a fraction of its GPU's: the geometric mean of worst and best."""
    return sqrt(compute_part(gpu_type))


def names_type(allowed: Collection[str], gpu_type: str) -> bool:
    """Whether the type is among ``allowed``, which allows any type if it is empty. A GPU's type includes its slices."""
    return not allowed or whole_type(gpu_type) in allowed or gpu_type in allowed


def takes_part(gpu_type: str, slices: Collection[str], shared_mib: int = 0) -> bool:
    """Whether a job takes GPUs of a type, given how they are cut or shared. It always takes whole ones.

    ``slices``: MIG profiles that it takes. ``shared_mib``: its GPU memory on a shared GPU; 0 if it shares none.
    """
    profile = slice_profile(gpu_type)
    return not profile or profile in slices or (is_shared(profile) and 0 < shared_mib <= share_of_memory(gpu_type))


def may_use(gpu_type: str, allowed: Collection[str], slices: Collection[str], shared_mib: int = 0) -> bool:
    """Whether a job may use a type, by ``names_type`` and ``takes_part``."""
    return names_type(allowed, gpu_type) and takes_part(gpu_type, slices, shared_mib)


def share_of_memory(gpu_type: str) -> float:
    """MiB of GPU memory for each job that shares a GPU of this type; 0 if it is not known."""
    memory = gigabytes(gpu_type)
    return 0.0 if memory is None else USABLE_MEMORY * 1024.0 * memory / sharers(slice_profile(gpu_type))
