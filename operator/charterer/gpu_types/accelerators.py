"""The one table of GPUs: their performance, their slices, and their names in clouds and in NVIDIA's driver.

``accelerators.json`` has a row for each fact, with its source and the day on which it was taken. What no row says is
unknown here, and is reported as unknown. ``tests.facts.accelerators`` compares the table with packages in which vendors
publish such facts, and lists what the table lacks.

- ``models``: for each model of GPU, teraflops of dense FP16 or BF16 tensor throughput, and bandwidth in gigabytes a
  second. ``gigabytes``: GiB of memory if the name does not contain it. ``forms``: other GiB of memory, by a word of the
  name. ``processorMemory``: words of names that are the memory of the processor, not of the GPU. ``arm``: whether it is
  sold with Arm processors only.
- ``mig``: the slices of a GPU of a model and memory, by profile, as the device plugin's resources name them.
- ``aws``: EC2's name of a GPU, and its MiB. ``gcp``: accelerator types with the machine types that always have them,
  and the quota that counts them. ``azure``: series of sizes, with the GPUs of each size by its virtual CPUs.
- ``label``: the node label nvidia.com/gpu.product, which is the driver's name of the GPU with hyphens. ``likely``: what
  the label probably is, if nobody has seen it. ``resource``: the resource name of GPUs that are not nvidia.com/gpu;
  their label is that of their maker. ``parts``: sizes that have a part of a GPU.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

_Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Model:
    """A model of GPU.

    ``gigabytes``: GiB of memory, if the name does not contain it. The other fields are as in the table.
    """

    teraflops: float
    bandwidth: float
    gigabytes: int
    forms: Mapping[str, int]
    processor_memory: Sequence[str]
    arm: bool


@dataclass(frozen=True, slots=True)
class Sold:
    """GPUs as a cloud sells them.

    ``label``: the node label; empty if nobody has seen it.
    ``likely``: what the label probably is in that case.
    ``resource``: the resource name of such GPUs; empty for nvidia.com/gpu.
    ``gpus``: for each size, the number of whole GPUs.
    ``parts``: sizes that have a part of a GPU.

    ``gpus`` and ``parts`` are empty if only the cloud's own list has them.
    """

    label: str
    likely: str
    resource: str
    gpus: Mapping[str, int]
    parts: Sequence[str]


def _table() -> Mapping[str, _Rows]:
    found: Mapping[str, _Rows] = json.loads(
        files("charterer.gpu_types").joinpath("accelerators.json").read_text(encoding="utf-8")
    )
    return found


_TABLE: Final = _table()

MODELS: Final[Mapping[str, Model]] = {
    row["model"]: Model(
        row["teraflops"],
        row["bandwidth"],
        row["gigabytes"],
        row.get("forms", {}),
        row.get("processorMemory", ()),
        row.get("arm", False),
    )
    for row in _TABLE["models"]
}
"""Models of GPU by the consecutive words of their names. Only whole words count: a part of a word is another model."""

MIG: Final[Mapping[tuple[str, int], tuple[int, Mapping[str, int]]]] = {
    (row["model"], row["gigabytes"]): (row["units"], row["slices"]) for row in _TABLE["mig"]
}
"""For each model and memory, the number of compute units, and the number of slices in a GPU by profile."""


def _sold(row: Mapping[str, Any], sizes: str) -> Sold:
    return Sold(
        row.get("label", ""), row.get("likely", ""), row.get("resource", ""), row.get(sizes, {}), row.get("parts", ())
    )


EC2: Final[Mapping[tuple[str, int | None], Sold]] = {
    (row["name"], row["mib"]): _sold(row, "sizes") for row in _TABLE["aws"]
}
"""GPUs of EC2 by name and MiB. The MiB are None if they are not published."""
COMPUTE_ENGINE: Final[Mapping[str, Sold]] = {row["accelerator"]: _sold(row, "sizes") for row in _TABLE["gcp"]}
"""GPUs of Compute Engine by accelerator type."""
AZURE: Final[Mapping[str, Sold]] = {row["series"].lower(): _sold(row, "gpus") for row in _TABLE["azure"]}
"""GPUs of Azure by series, in lower case. Their sizes are known by number of virtual CPUs."""
AZURE_OTHER: Final[Sequence[str]] = tuple(str(each) for each in _TABLE["azureOther"])
"""Words in names of Azure's sizes whose GPUs no pod can have: they are for graphics, or parts of a GPU."""
QUOTAS: Final[Mapping[str, str]] = {row["accelerator"]: row["quota"] for row in _TABLE["gcp"] if "quota" in row}
"""For each accelerator type, the quota of Compute Engine that counts it."""
ON_SPOT_ONLY: Final = frozenset(row["accelerator"] for row in _TABLE["gcp"] if row.get("quotaOnSpotOnly"))
"""Accelerator types for which Compute Engine shows the quota of spot only."""
_UNKNOWN: Final = Sold("", "", "", {}, ())


def ec2_gpu(name: str, mib: int) -> Sold:
    """The GPU of EC2 with that name and MiB."""
    return EC2.get((name, mib)) or EC2.get((name, None), _UNKNOWN)


def ec2_name(label: str) -> str:
    """EC2's name of the GPU with a label; empty if the table has none."""
    return next((name for (name, _), sold in EC2.items() if label and sold.label == label), "")


def gpus_of(size: str) -> tuple[str, int]:
    """Label and number of the GPUs of an instance type of EC2 or a machine type of Compute Engine; 0 if unknown."""
    for sold in (*EC2.values(), *COMPUTE_ENGINE.values()):
        if size in sold.gpus:
            return sold.label, sold.gpus[size]
    return "", 0


def gce_gpu(accelerator: str) -> Sold:
    """The accelerator type of Compute Engine."""
    return COMPUTE_ENGINE.get(accelerator, _UNKNOWN)


def azure_gpu(series: str) -> Sold:
    """The series of Azure."""
    return AZURE.get(series.lower(), _UNKNOWN)


@cache
def accelerator_of(machine_type: str) -> str:
    """The accelerator type that a machine type of Compute Engine always has; empty if none is known.

    A size that is not in the table has the accelerator type of others of its family.
    """
    family = machine_type.rpartition("-")[0] if machine_type.count("-") > 1 else machine_type
    for accelerator, sold in COMPUTE_ENGINE.items():
        if any(machine_type == size or size.startswith(f"{family}-") for size in (*sold.gpus, *sold.parts)):
            return accelerator
    return ""


def has_whole_gpus(machine_type: str) -> bool:
    """Whether a machine type of Compute Engine always has whole GPUs."""
    accelerator = accelerator_of(machine_type)
    return bool(accelerator) and machine_type not in COMPUTE_ENGINE[accelerator].parts


def label_advice(what: str, sold: Sold) -> str:
    """Advice for a GPU whose label is not known."""
    probably = f"; it is probably {sold.likely}, which nobody has seen yet" if sold.likely else ""
    key = "amd.com/gpu.product-name" if sold.resource == "amd.com/gpu" else "nvidia.com/gpu.product"
    return f"set it to the node label {key} of {what}, which is not known here{probably}"


def part_of_a_gpu(size: str, what: str) -> str:
    """The sentence that a size has a part of a GPU, and what to do."""
    return f"{size} has a part of {what}, which Charterer does not rent: take a size with whole GPUs"


def counted_otherwise(size: str, listed: int, known: int | None) -> str:
    """A sentence if a cloud lists another number of GPUs for a size than the table; empty if they agree."""
    if known is None or listed == known:
        return ""
    return (
        f"the cloud lists {listed} GPUs of {size}, which has {known} by Charterer's table: its nodes count as {known}; "
        "ask the cloud which is right before you rent"
    )


def words_of(name: str) -> Sequence[str]:
    """The words of a GPU's name, in upper case."""
    return re.split(r"[^A-Z0-9]+", name.upper())
