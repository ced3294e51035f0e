#!/bin/sh
# ray 2.56.0 (its autoscaler for KubeRay), Python 3.10 or newer.
#
# The autoscaler learns from a worker group's container how many GPUs a worker will have, and adds workers for tasks that wait for GPUs.
# It takes a resource for GPUs only if its name ends with "gpu". NVIDIA's device plugin has two other kinds of names: slices
# (nvidia.com/mig-1g.10gb, MIG strategy mixed) and shared GPUs (nvidia.com/gpu.shared, renameByDefault). For those it finds none:
#
#     nvidia.com/gpu: 1 GPU
#     nvidia.com/mig-1g.10gb: no GPU
#     nvidia.com/gpu.shared: no GPU
#
# Ray's page "Using GPUs" says that the GPU limits of the container are told to Ray's scheduler and autoscaler. KubeRay, which reads the
# same RayCluster, has counted slices since 2025 (kuberay pull requests 3567 and 3933) and starts such workers with --num-gpus=1; the
# autoscaler beside it believes that the group has none. A group with minReplicas 0 is never grown for a task that waits for a GPU. Write
# the number into rayStartParams (num-gpus: "1"), which both read.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ray==2.56.0
cd "$folder"
venv/bin/python - <<'PYTHON'
import ray
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr as configured


def gpus(resource: str, **start: str) -> int | None:
    """GPUs of a worker of a group whose container has one of this resource."""
    limits = {"cpu": "4", "memory": "16Gi", resource: "1"}

    def group(limits: dict[str, str], start: dict[str, str]) -> dict:
        container = {"name": "ray", "image": "ray", "resources": {"limits": limits}}
        return {"rayStartParams": start, "template": {"spec": {"containers": [container]}}}

    workers = {"groupName": "workers", "replicas": 0, "minReplicas": 0, "maxReplicas": 4} | group(limits, start)
    cluster = {
        "metadata": {"name": "ray", "namespace": "team"},
        "spec": {"headGroupSpec": group({"cpu": "2", "memory": "8Gi"}, {}), "workerGroupSpecs": [workers]},
    }
    return configured(cluster)["available_node_types"]["workers"]["resources"].get("GPU")


WHOLE, SLICE, SHARED = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"
found = {resource: gpus(resource) for resource in (WHOLE, SLICE, SHARED)}
for resource, number in found.items():
    print(f"{resource}: {number or 'no'} GPU")
assert found == {WHOLE: 1, SLICE: None, SHARED: None}, "changed: slices or shared GPUs are counted"
named = gpus(SLICE, **{"num-gpus": "1"})
assert named == 1, "changed: num-gpus is not read"
print(f"ray {ray.__version__}: the autoscaler sees no GPU in a slice or in a shared GPU")
PYTHON
