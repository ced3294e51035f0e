"""Holds the table of accelerators against the packages in which vendors publish such facts.

    python -m tests.facts.accelerators            # what packages name, and what of it the table has
    python -m tests.facts.accelerators --write    # the rows that follow from packages, again

The packages are those of this checkout's environment, as ``requirements/dev.txt`` pins them: moto has EC2's
descriptions of instance types, botocore the names of all of them, google-cloud-compute the names of quotas, and
azure-mgmt-compute the names of sizes that it knows. No package has the names that NVIDIA's driver gives GPUs, their
data sheets, or the number of slices that a GPU holds: those rows have the sources that they name.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from charterer.clouds.azure import series_of
from charterer.gpu_types import accelerators
from charterer.gpu_types.accelerators import AZURE, AZURE_OTHER, EC2, QUOTAS, azure_gpu, ec2_gpu

TABLE: Final = Path(accelerators.__file__).with_name("accelerators.json")
_GPU_FAMILY: Final = re.compile(r"(g[2-9]|gr|p[2-9]).*")
"""Families of EC2's instance types that have GPUs; g1 and p1 were never sold under these names."""


def ec2_types() -> Mapping[str, Any]:
    """EC2's descriptions of instance types, by name."""
    packed = files("moto").joinpath("ec2/resources/instance_types.json.gz").read_bytes()
    found: Mapping[str, Any] = json.loads(gzip.decompress(packed))
    return found


def nvidia_gpus(row: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The GPUs of NVIDIA in EC2's description of a type."""
    return [gpu for gpu in row.get("GpuInfo", {}).get("Gpus", ()) if gpu["Manufacturer"] == "NVIDIA"]


def ec2_names() -> Sequence[str]:
    """The instance types with GPUs that EC2's API knows by name, whether or not they are described."""
    packed = files("botocore").joinpath("data/ec2/2016-11-15/service-2.json.gz").read_bytes()
    names = json.loads(gzip.decompress(packed))["shapes"]["InstanceType"]["enum"]
    return [name for name in names if _GPU_FAMILY.fullmatch(name)]


def gce_quotas() -> Sequence[str]:
    """The names of Compute Engine's quotas."""
    from google.cloud.compute_v1.types import Quota

    metrics: Any = Quota.Metric
    return [metric.name for metric in metrics]


def azure_sizes() -> Sequence[str]:
    """The sizes with GPUs that Azure's SDK knows by name."""
    from azure.mgmt.compute.models import VirtualMachineSizeTypes

    return [size.value for size in VirtualMachineSizeTypes if size.value.startswith("Standard_N")]


def ec2_sizes(name: str, mib: int | None) -> tuple[Mapping[str, int], Sequence[str]]:
    """Instance types with this GPU: how many whole ones each has; and, by the GPU's name alone, those with a part."""
    whole, parts = {}, []
    for kind, row in sorted(ec2_types().items()):
        for gpu in nvidia_gpus(row):
            if gpu["Name"] == name and gpu["MemoryInfo"]["SizeInMiB"] == mib and gpu["Count"]:
                whole[kind] = gpu["Count"]
            elif gpu["Name"] == name and not gpu["Count"]:
                parts.append(kind)
    return whole, parts


def renewed(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table with the rows of EC2's sizes as the packages have them now."""
    aws = []
    for row in content["aws"]:
        sizes, parts = ec2_sizes(row["name"], row["mib"])
        facts = {key: value for key, value in row.items() if key not in ("sizes", "parts", "sizesFrom")}
        made = {"sizes": sizes, **({"parts": parts} if parts else {}), "sizesFrom": f"moto {version('moto')}"}
        aws.append({**facts, **(made if sizes else {})})
    return {**content, "aws": aws}


def text_of(content: Mapping[str, Any]) -> str:
    """The table as it is in the file: a row a line."""
    sections = []
    for name, rows in content.items():
        lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        sections.append(f"{json.dumps(name)}: [\n{lines}\n]")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def unlabelled_ec2() -> Mapping[tuple[str, int], Sequence[str]]:
    """GPUs of EC2's descriptions without a label in the table, with their instance types."""
    found: dict[tuple[str, int], list[str]] = {}
    for kind, row in sorted(ec2_types().items()):
        for gpu in nvidia_gpus(row):
            mib = gpu["MemoryInfo"]["SizeInMiB"]
            if gpu["Count"] and not ec2_gpu(gpu["Name"], mib).label:
                found.setdefault((gpu["Name"], mib), []).append(kind)
    return found


def undescribed_ec2() -> Sequence[str]:
    """Instance types with GPUs that EC2's API knows by name, and of which no package says what they have."""
    return sorted(set(ec2_names()) - ec2_types().keys())


def unlabelled_azure() -> Sequence[str]:
    """Azure's sizes of which the table has no label."""
    others = [size for size in azure_sizes() if not any(word in size for word in AZURE_OTHER)]
    return sorted(size for size in others if not azure_gpu(series_of(size)).label)


def main(arguments: Sequence[str]) -> int:
    """Print what packages name, and write the table if asked; 1 if it would change and is not written."""
    content = json.loads(TABLE.read_text(encoding="utf-8"))
    text = text_of(renewed(content))
    whole = {kind for kind, row in ec2_types().items() if any(gpu["Count"] for gpu in nvidia_gpus(row))}
    print(
        f"EC2 (moto {version('moto')}): {len(whole)} instance types with whole GPUs of NVIDIA, {len(EC2)} GPUs in the"
    )
    print(f"  table; without a label: {dict(unlabelled_ec2()) or 'none'}")
    print(f"EC2 (botocore {version('botocore')}): described by no package: {', '.join(undescribed_ec2())}")
    metrics = [metric for metric in gce_quotas() if metric.endswith("_GPUS")]
    print(f"Compute Engine: {len(metrics)} quotas of GPUs in google-cloud-compute {version('google-cloud-compute')},")
    print(f"  {len(QUOTAS)} in the table")
    sizes = azure_sizes()
    print(f"Azure (azure-mgmt-compute {version('azure-mgmt-compute')}): {len(sizes)} sizes, {len(AZURE)} series in the")
    print(f"  table; without a label: {', '.join(unlabelled_azure()) or 'none'}")
    if "--write" in arguments:
        TABLE.write_text(text, encoding="utf-8")
        return 0
    changed = text != TABLE.read_text(encoding="utf-8")
    print(
        "the table is not as the packages say: run it with --write" if changed else "the table is as the packages say"
    )
    return int(changed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
